"""The ops that are nodes of ONNX, with the dtypes that ONNX Runtime computes them in.

ONNX names more than the runtime has: of float64 there is no `Tan`, `Erf` or `Asinh`, and so on. Those are made of other ops.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import helper

from ..core.op import Op
from ..core.types import Shape, Type
from ..ir.graph import Literal
from ..ops import broadcast, index, integer, linalg, reduce, shape, sort, special
from ..ops import elementwise as ew
from . import normal
from .normal import HALF, REALS, SIGNED, TRUTHS, WHOLE, Dtype, LanguageOps, Spelling, dtypes

SINGLE = dtypes("float32")
MAIN = dtypes("float32 float64 int32 int64")  # those of reductions
NUMBERS = REALS | WHOLE
EVERY = NUMBERS | TRUTHS
_CHOSEN = NUMBERS - dtypes("int16 uint16 uint64")
_SHIFTED = dtypes("int32 int64 uint32")  # ONNX Runtime chooses no uint64
_I64 = np.dtype(np.int64)


class Nodes:
    """The nodes of a model or of a body, and the constants of the whole model."""

    def __init__(self, outer: Nodes | None = None) -> None:
        self.list: list[Any] = []
        self.made: dict[str, tuple[str, Sequence[str]]] = {}  # by name, the node of this list that makes a value
        self.used: set[str] = outer.used if outer else set()  # names that a node of the model reads
        self.constants: dict[Any, tuple[str, Any]] = outer.constants if outer else {}
        self.count: list[int] = outer.count if outer else [0]
        self.line = ""

    def fresh(self, word: str = "t") -> str:
        self.count[0] += 1
        return f"{word}.{self.count[0]}"

    def __call__(self, kind: str, *inputs: str, **attributes: Any) -> str:
        return self.many(kind, inputs, [self.fresh()], **attributes)[0]

    def many(self, kind: str, inputs: Sequence[str], outputs: list[str], **attributes: Any) -> list[str]:
        self.list.append(helper.make_node(kind, list(inputs), outputs, doc_string=self.line or None, **attributes))
        self.used.update(inputs)
        self.made.update(dict.fromkeys(outputs, (kind, inputs)))
        return outputs

    def constant(self, value: Any) -> str:
        """The name of an initializer; equal constants share one."""
        value = np.ascontiguousarray(value).reshape(np.shape(value))
        key = (value.dtype, value.shape, value.tobytes())
        if key not in self.constants:
            self.constants[key] = (f"c.{len(self.constants)}", value)
        return self.constants[key][0]

    def integers(self, *values: int) -> str:
        return self.constant(np.array(values, np.int64))


@dataclass(frozen=True)
class OnnxCall(normal.Call):
    """An equation about to be written, and the nodes that it is added to."""

    nodes: Nodes


def _node(kind: str, dtypes: frozenset[Dtype] = REALS, **attributes: Any) -> Spelling:
    return Spelling(lambda c: c.nodes(kind, *c.args, **attributes), dtypes)


# -- arithmetic -------------------------------------------------------------------------------------------------


# ONNX Runtime moves a scalar factor into the matrix product before or behind it, as a float32 also where both are float64. So a
# product next to such a factor is written as `Einsum`, which stays as it is.

_MOVED = ("Transpose", "Reshape", "Identity")  # nodes that the factor passes


def _source(c: OnnxCall, name: str) -> str:
    """The kind of the node that computes a value, ignoring nodes that only move it."""
    kind, inputs = c.nodes.made.get(name, ("", ()))
    return _source(c, inputs[0]) if kind in _MOVED else kind


def _scaled(kind: str) -> Callable[[OnnxCall], str]:
    """A product or a quotient; "Scaled" if by a number."""

    def write(c: OnnxCall) -> str:
        numbers = [isinstance(o, Literal) and o.type.size == 1 for o in c.equation.inputs]
        if c.result.dtype != np.float64 or not any(numbers):
            return c.nodes(kind, *c.args)
        factor = numbers.index(True)
        if _source(c, c.args[1 - factor]) == "MatMul" and (kind == "Mul" or factor):
            value = np.asarray(c.equation.inputs[factor].value, np.float64).reshape(())  # type: ignore[union-attr]
            letters = "abcdefgh"[: len(c.types[1 - factor].shape)]
            scalar = c.nodes.constant(value if kind == "Mul" else 1 / value)
            made = c.nodes("Einsum", c.args[1 - factor], scalar, equation=f"{letters},->{letters}")
            return _reshape(c, made)
        made = c.nodes(kind, *c.args)
        c.nodes.made[made] = ("Scaled", ())
        return made

    return write


def _matmul(c: OnnxCall) -> str:
    if not any(_source(c, x) == "Scaled" for x in c.args) or not all(t.size for t in c.types):
        return c.nodes("MatMul", *c.args)
    stacks = np.broadcast_shapes(*(t.shape[:-2] for t in c.types))
    lead, args, terms = "abcdefgh"[: len(stacks)], list(c.args), []
    for i, (t, letters) in enumerate(zip(c.types, ("yz", "zx"), strict=True)):
        own = len(t.shape[:-2])
        if t.shape[:-2] != stacks[len(stacks) - own :]:
            args[i] = c.nodes("Expand", args[i], c.nodes.integers(*stacks, *t.shape[-2:]))
            own = len(stacks)
        terms.append(lead[len(stacks) - own :] + letters if len(t.shape) > 1 else "z")
    result = lead + "".join(letter for letter, t in zip("yx", c.types, strict=True) if len(t.shape) > 1)
    return c.nodes("Einsum", *args, equation=f"{','.join(terms)}->{result}")


def _floor_divide(c: OnnxCall) -> str:
    """`Div` of integers truncates, and a divisor of 0, or −1 of the lowest number, would stop the process."""
    node, (a, b) = c.nodes, c.args
    zero, one, minus = (node.constant(c.types[0].dtype.type(k)) for k in (0, 1, -1))
    is_zero, is_minus = node("Equal", b, zero), node("Equal", b, minus)
    safe = node("Where", node("Or", is_zero, is_minus), one, b)
    quotient = node("Div", a, safe)
    rest = node("Sub", a, node("Mul", quotient, safe))
    opposite = node("Xor", node("Less", rest, zero), node("Less", safe, zero))
    below = node("And", node("Not", node("Equal", rest, zero)), opposite)
    floored = node("Where", below, node("Sub", quotient, one), quotient)
    return node("Where", is_zero, zero, node("Where", is_minus, node("Sub", zero, a), floored))


def _shift(direction: str) -> Callable[[OnnxCall], str]:
    """ONNX shifts unsigned integers; a negative one is shifted to the right as its complement is."""

    def write(c: OnnxCall) -> str:
        node, (x, n), dtype = c.nodes, c.args, c.result.dtype
        unsigned = np.dtype(f"uint{8 * dtype.itemsize}")
        keeps_sign = direction == "RIGHT" and dtype.kind == "i"
        if keeps_sign:
            negative = node("Less", x, node.constant(dtype.type(0)))
            x = node("Where", negative, node("BitwiseNot", x), x)
        far = node("Not", node("Less", n, node.constant(dtype.type(8 * dtype.itemsize))))
        n = node("Where", far, node.constant(dtype.type(0)), n)
        shifted = node("BitShift", *(node("Cast", v, to=code(unsigned)) for v in (x, n)), direction=direction)
        shifted = node("Where", far, node.constant(dtype.type(0)), node("Cast", shifted, to=code(dtype)))
        return node("Where", negative, node("BitwiseNot", shifted), shifted) if keeps_sign else shifted

    return write


def code(dtype: Dtype) -> int:
    return int(helper.np_dtype_to_tensor_dtype(dtype))


def _cast(c: OnnxCall) -> str:
    dtype = c.equation.params["dtype"]
    if dtype.kind == "b":
        return c.nodes("Not", c.nodes("Equal", c.args[0], c.nodes.constant(c.types[0].dtype.type(0))))
    return c.nodes("Cast", c.args[0], to=code(dtype))


# -- reductions and order ---------------------------------------------------------------------------------------


def _reduction(kind: str) -> Callable[[OnnxCall], str]:
    def write(c: OnnxCall) -> str:
        axis = c.axis if isinstance(c.axis, tuple) else (c.axis,)
        if not axis:
            return c.args[0]
        return c.nodes(kind, c.args[0], c.nodes.integers(*axis), keepdims=int(c.equation.params.get("keepdims", False)))

    return write


def _extremum(kind: str) -> Callable[[OnnxCall], str]:
    """The result is nan if any element is."""

    def write(c: OnnxCall) -> str:
        found = _reduction(kind)(c)
        if c.types[0].dtype not in REALS or not c.axis:
            return found
        node = c.nodes
        nans = node("Cast", node("IsNaN", c.args[0]), to=code(np.dtype(np.int32)))
        some = node("ReduceMax", nans, node.integers(*c.axis), keepdims=int(c.keepdims))
        return node("Where", node("Cast", some, to=code(np.dtype(bool))), node.constant(c.types[0].dtype.type(np.nan)), found)

    return write


def _logical(all_: bool) -> Callable[[OnnxCall], str]:
    """By counting, which also works for arrays without elements."""

    def write(c: OnnxCall) -> str:
        node = c.nodes
        truths = node("Not", c.args[0]) if all_ else c.args[0]
        count = node("Cast", truths, to=code(_I64))
        if c.axis:
            count = node("ReduceSum", count, node.integers(*c.axis), keepdims=int(c.keepdims))
        none = node("Equal", count, node.constant(np.int64(0)))
        return none if all_ else node("Not", none)

    return write


def _argmax(c: OnnxCall) -> str:
    """The first nan, if there is one."""
    node, axis = c.nodes, c.axis
    found = node("ArgMax", c.args[0], axis=axis, keepdims=0)
    if c.types[0].dtype not in REALS:
        return found
    nans = node("Cast", node("IsNaN", c.args[0]), to=code(np.dtype(np.int32)))
    some = node("Cast", node("ReduceMax", nans, node.integers(axis), keepdims=0), to=code(np.dtype(bool)))
    return node("Where", some, node("ArgMax", nans, axis=axis, keepdims=0), found)


def _argsort(c: OnnxCall) -> str:
    """`TopK` is stable. Numbers first, nans as the largest; then once more by whether an element is nan."""
    node, axis, x = c.nodes, c.axis, c.args[0]
    count = node.integers(c.types[0].shape[axis])
    if c.types[0].dtype not in REALS:
        return _topk(c, x, count)
    nans = node("IsNaN", x)
    order = _topk(c, node("Where", nans, node.constant(c.types[0].dtype.type(np.inf)), x), count)
    late = node("GatherElements", node("Cast", nans, to=code(_I64)), order, axis=axis)
    return node("GatherElements", order, _topk(c, late, count), axis=axis)


def _topk(c: OnnxCall, x: str, count: str) -> str:
    return c.nodes.many("TopK", [x, count], [c.nodes.fresh(), c.nodes.fresh()], axis=c.axis, largest=0, sorted=1)[1]


# -- shapes and indices -----------------------------------------------------------------------------------------


def _reshape(c: OnnxCall, x: str | None = None, to: Shape | None = None) -> str:
    wanted = c.result.shape if to is None else to
    return c.nodes("Reshape", c.args[0] if x is None else x, c.nodes.integers(*wanted), allowzero=1)


def _entries(spec: Any, shape_: Shape) -> list[tuple[int, int, int]]:
    """Start, stop and step of each axis that a basic index reads; an integer is a slice of one."""
    found = []
    sizes = iter(shape_)
    for part in spec:
        if part is None:
            continue
        n = next(sizes)
        found.append(part.indices(n) if isinstance(part, slice) else (part % n, part % n + 1, 1))
    return found


def _getitem(c: OnnxCall) -> str:
    node, full = c.nodes, c.types[0].shape
    x, region = c.args[0], list(full)
    cut = []
    for axis, (start, stop, step) in enumerate(_entries(c.spec, full)):
        region[axis] = len(range(start, stop, step))
        if (start, stop, step) != (0, full[axis], 1):
            cut.append((start, stop if step > 0 or stop >= 0 else np.iinfo(np.int64).min, axis, step))
    if cut:
        starts, stops, axes, steps = (node.integers(*values) for values in zip(*cut, strict=True))
        x = node("Slice", x, starts, stops, axes, steps)
    return _reshape(c, x) if tuple(region) != c.result.shape else x


def _is_padding(types: Sequence[Type], params: dict[str, Any]) -> bool:
    """Whether a value is placed without gaps, and has the size of its place."""
    entries = _entries(params["spec"], params["shape"])
    sizes = [len(range(*entry)) for entry in entries] + list(params["shape"][len(entries) :])
    return all(step == 1 for _, _, step in entries) and bool(np.prod(sizes)) and int(np.prod(sizes)) == types[0].size


def _place(c: OnnxCall) -> str:
    full = c.equation.params["shape"]
    entries = _entries(c.spec, full) + [(0, n, 1) for n in full[len(_entries(c.spec, full)) :]]
    x = _reshape(c, to=tuple(len(range(*entry)) for entry in entries))
    before = [start for start, _, _ in entries]
    after = [n - stop for n, (_, stop, _) in zip(full, entries, strict=True)]
    return c.nodes("Pad", x, c.nodes.integers(*before, *after), c.nodes.constant(c.types[0].dtype.type(0)))


def _scatter_add(c: OnnxCall) -> str:
    """`ScatterND` indexes the first axis."""
    node, axis, full = c.nodes, c.axis, c.equation.params["shape"]
    g, at = c.args
    rank = len(c.types[1].shape)
    moved = [*range(axis, axis + rank), *range(axis), *range(axis + rank, len(c.types[0].shape))]
    order = [axis, *range(axis), *range(axis + 1, len(full))]
    if axis:
        g = node("Transpose", g, perm=moved)
    zeros = node("Expand", node.constant(c.types[0].dtype.type(0)), node.integers(*(full[i] for i in order)))
    at = node("Unsqueeze", node("Cast", at, to=code(_I64)), node.integers(rank))
    found = node("ScatterND", zeros, at, g, reduction="add")
    return node("Transpose", found, perm=[order.index(i) for i in range(len(full))]) if axis else found


def _is_one_index(types: Sequence[Type], params: dict[str, Any]) -> bool:
    return normal.is_one_index(types, params) and types[1].dtype in dtypes("int32 int64")


def _is_one_region(types: Sequence[Type], params: dict[str, Any]) -> bool:
    return normal.is_one_region(types, params) and _is_one_index(types, params)


def _is_plain_einsum(types: Sequence[Type], params: dict[str, Any]) -> bool:
    distinct = all(len(set(letters)) == len(letters) for letters in params["inputs"])
    return distinct and all(t.size for t in types) and len({t.dtype for t in types}) == 1


#: The ops that are nodes, with their dtypes; other ops are expanded into these.
TABLE: dict[Op, Spelling] = {
    ew.add: _node("Add", NUMBERS),
    ew.sub: _node("Sub", NUMBERS),
    ew.mul: Spelling(_scaled("Mul"), NUMBERS),
    ew.div: Spelling(_scaled("Div"), REALS),
    ew.neg: _node("Neg", SIGNED | REALS),
    ew.absolute: _node("Abs", NUMBERS),
    ew.power: _node("Pow"),
    ew.fmod: _node("Mod", fmod=1),
    ew.floor_divide: Spelling(_floor_divide, SIGNED - dtypes("int16")),
    ew.sqrt: _node("Sqrt"),
    ew.exp: _node("Exp"),
    ew.log: _node("Log"),
    ew.sin: _node("Sin"),
    ew.cos: _node("Cos"),
    ew.tan: _node("Tan", SINGLE),
    ew.arcsin: _node("Asin", SINGLE),
    ew.arccos: _node("Acos", SINGLE),
    ew.arctan: _node("Atan", SINGLE),
    ew.sinh: _node("Sinh", SINGLE),
    ew.cosh: _node("Cosh", SINGLE),
    ew.tanh: _node("Tanh"),
    special.erf: _node("Erf", SINGLE),
    ew.floor: _node("Floor"),
    ew.ceil: _node("Ceil"),
    ew.rint: _node("Round"),
    ew.isnan: _node("IsNaN"),
    ew.equal: _node("Equal", EVERY),
    ew.not_equal: Spelling(lambda c: c.nodes("Not", c.nodes("Equal", *c.args)), EVERY),
    ew.less: _node("Less", NUMBERS),
    ew.less_equal: _node("LessOrEqual", NUMBERS),
    ew.greater: _node("Greater", NUMBERS),
    ew.greater_equal: _node("GreaterOrEqual", NUMBERS),
    ew.logical_and: _node("And", TRUTHS),
    ew.logical_or: _node("Or", TRUTHS),
    ew.logical_xor: _node("Xor", TRUTHS),
    ew.logical_not: _node("Not", TRUTHS),
    ew.bitwise_and: _node("BitwiseAnd", WHOLE),
    ew.bitwise_or: _node("BitwiseOr", WHOLE),
    ew.bitwise_xor: _node("BitwiseXor", WHOLE),
    ew.invert: _node("BitwiseNot", WHOLE),
    integer.left_shift: Spelling(_shift("LEFT"), _SHIFTED),
    integer.right_shift: Spelling(_shift("RIGHT"), _SHIFTED),
    broadcast.where: _node("Where", _CHOSEN),
    broadcast.cast: Spelling(_cast, EVERY | {HALF}),
    ew.truncate: Spelling(_cast, EVERY),
    broadcast.reshape: Spelling(_reshape, EVERY),
    broadcast.transpose: Spelling(lambda c: c.nodes("Transpose", c.args[0], perm=list(c.axes)), EVERY),
    broadcast.broadcast_to: Spelling(lambda c: c.nodes("Expand", c.args[0], c.nodes.integers(*c.result.shape)), EVERY),
    broadcast.sum_: Spelling(_reduction("ReduceSum"), MAIN),
    reduce.max_: Spelling(_extremum("ReduceMax"), MAIN),
    reduce.min_: Spelling(_extremum("ReduceMin"), MAIN),
    reduce.prod: Spelling(_reduction("ReduceProd"), MAIN),
    reduce.all_: Spelling(_logical(True), TRUTHS),
    reduce.any_: Spelling(_logical(False), TRUTHS),
    reduce.cumsum: Spelling(lambda c: c.nodes("CumSum", c.args[0], c.nodes.constant(np.int64(c.axis))), MAIN),
    reduce.argmax: Spelling(_argmax, MAIN),
    reduce.argsort: Spelling(_argsort, MAIN),
    shape.concatenate: Spelling(lambda c: c.nodes("Concat", *c.args, axis=c.axis), EVERY),
    index.getitem: Spelling(_getitem, EVERY),
    index.place: Spelling(_place, MAIN | TRUTHS, fits=_is_padding),
    index.gather: Spelling(lambda c: c.nodes("Gather", *c.args, axis=c.axis), EVERY, by=0, fits=_is_one_index),
    index.scatter_add: Spelling(_scatter_add, MAIN, by=0, fits=_is_one_region),
    linalg.matmul: Spelling(_matmul, MAIN),
    linalg.einsum: Spelling(
        lambda c: c.nodes("Einsum", *c.args, equation=f"{','.join(c.inputs)}->{c.output}"), MAIN, fits=_is_plain_einsum
    ),
    sort.take_along: Spelling(
        lambda c: c.nodes("GatherElements", *c.args, axis=c.axis),
        EVERY,
        by=0,
        fits=lambda types, params: types[1].dtype == _I64 and _same_lead(types, params["axis"]),
    ),
}


def _same_lead(types: Sequence[Type], axis: int) -> bool:
    a, b = (t.shape[:axis] + t.shape[axis + 1 :] for t in types)
    return a == b


TARGET = LanguageOps("ONNX", EVERY | {HALF}, TABLE)

__all__ = ["TABLE", "TARGET", "Nodes", "OnnxCall", "code"]
