"""A function and its derivatives as one ONNX model.

    export.onnx(energy, x, derivatives="gradient", path="energy.onnx")      inputs x, outputs y and x_bar

Each op is a few nodes of `TABLE`, or is made of other ops (`normal.py`); loops are `Scan` and `Loop`, a branch is `If`. The nodes
and dtypes are those that ONNX Runtime computes, which has fewer of float64 than ONNX names. With `batch`, axes are free: the model
is written for three sizes, and what differs between them is computed from the sizes of the inputs (`onnx_batch.py`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.errors import ArgumentError, UnsupportedError, boundary
from ..core.op import Op
from ..core.types import Shape, Type
from ..core.version import VERSION
from ..ir.graph import Equation, Graph, Literal, Operand
from ..ops import broadcast, control, index, integer, linalg, reduce, shape, sort, special
from ..ops import elementwise as ew
from .normal import normal
from .program import Part, parts

OPSET = 26  # the latest that a released ONNX Runtime runs

Dtype = np.dtype[Any]


def _dtypes(names: str) -> frozenset[Dtype]:
    return frozenset(map(np.dtype, names.split()))


SINGLE, FLOATS, BOOL = _dtypes("float32"), _dtypes("float32 float64"), _dtypes("bool")
WHOLE = _dtypes("int8 int16 int32 int64 uint8 uint16 uint32 uint64")
MAIN = _dtypes("float32 float64 int32 int64")  # those of reductions
EVERY = FLOATS | WHOLE | BOOL
_SIGNED = _dtypes("float32 float64 int8 int16 int32 int64")
_CHOSEN = EVERY - BOOL - _dtypes("int16 uint16 uint64")
_I64 = np.dtype(np.int64)


class Nodes:
    """The nodes of a model or of a body, and the constants of the whole model."""

    def __init__(self, outer: Nodes | None = None) -> None:
        self.list: list[Any] = []
        self.made: set[str] = set()  # names that a node of this list gives
        self.constants: dict[Any, tuple[str, Any]] = outer.constants if outer else {}
        self.count: list[int] = outer.count if outer else [0]
        self.line = ""

    def fresh(self, word: str = "t") -> str:
        self.count[0] += 1
        return f"{word}.{self.count[0]}"

    def __call__(self, kind: str, *inputs: str, **attributes: Any) -> str:
        return self.many(kind, inputs, [self.fresh()], **attributes)[0]

    def many(self, kind: str, inputs: Sequence[str], outputs: list[str], **attributes: Any) -> list[str]:
        from onnx import helper

        self.list.append(helper.make_node(kind, list(inputs), outputs, doc_string=self.line or None, **attributes))
        self.made.update(outputs)
        return outputs

    def constant(self, value: Any) -> str:
        """The name of an initializer, of which there is one for equal constants."""
        value = np.ascontiguousarray(value).reshape(np.shape(value))
        key = (value.dtype, value.shape, value.tobytes())
        if key not in self.constants:
            self.constants[key] = (f"c.{len(self.constants)}", value)
        return self.constants[key][0]

    def integers(self, *values: int) -> str:
        return self.constant(np.array(values, np.int64))


@dataclass(frozen=True)
class Call:
    """An equation about to be written."""

    nodes: Nodes
    equation: Equation
    args: Sequence[str]
    types: Sequence[Type]

    @property
    def result(self) -> Type:
        return self.equation.types[0]

    def __getattr__(self, name: str) -> Any:
        return self.equation.params[name]


@dataclass(frozen=True)
class Spelling:
    """How an op is written, and for which dtypes of its last operand (or first, with `by`)."""

    write: Callable[[Call], str | list[str]]
    dtypes: frozenset[Dtype]
    by: int = -1
    fits: Callable[[Sequence[Type], Sequence[Type], dict[str, Any]], bool] = lambda types, results, params: True


def _node(kind: str, dtypes: frozenset[Dtype] = FLOATS, **attributes: Any) -> Spelling:
    return Spelling(lambda c: c.nodes(kind, *c.args, **attributes), dtypes)


# -- arithmetic -------------------------------------------------------------------------------------------------


def _floor_divide(c: Call) -> str:
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


def _shift(direction: str) -> Callable[[Call], str]:
    """ONNX shifts unsigned integers; a negative one is shifted to the right as its complement is."""

    def write(c: Call) -> str:
        node, (x, n), dtype = c.nodes, c.args, c.result.dtype
        unsigned = np.dtype(f"uint{8 * dtype.itemsize}")
        negative = node("Less", x, node.constant(dtype.type(0)))
        if direction == "RIGHT":
            x = node("Where", negative, node("BitwiseNot", x), x)
        far = node("Not", node("Less", n, node.constant(dtype.type(8 * dtype.itemsize))))
        n = node("Where", far, node.constant(dtype.type(0)), n)
        shifted = node("BitShift", *(node("Cast", v, to=_code(unsigned)) for v in (x, n)), direction=direction)
        shifted = node("Where", far, node.constant(dtype.type(0)), node("Cast", shifted, to=_code(dtype)))
        return node("Where", negative, node("BitwiseNot", shifted), shifted) if direction == "RIGHT" else shifted

    return write


def _code(dtype: Dtype) -> int:
    from onnx import helper

    return int(helper.np_dtype_to_tensor_dtype(dtype))


def _cast(c: Call) -> str:
    dtype = c.equation.params["dtype"]
    if dtype == bool:
        return c.nodes("Not", c.nodes("Equal", c.args[0], c.nodes.constant(c.types[0].dtype.type(0))))
    return c.nodes("Cast", c.args[0], to=_code(dtype))


# -- reductions and order ---------------------------------------------------------------------------------------


def _reduction(kind: str) -> Callable[[Call], str]:
    def write(c: Call) -> str:
        axis = c.axis if isinstance(c.axis, tuple) else (c.axis,)
        if not axis:
            return c.args[0]
        return c.nodes(kind, c.args[0], c.nodes.integers(*axis), keepdims=int(c.equation.params.get("keepdims", False)))

    return write


def _extremum(kind: str) -> Callable[[Call], str]:
    """A nan wins, wherever it is."""

    def write(c: Call) -> str:
        found = _reduction(kind)(c)
        if c.types[0].dtype not in FLOATS or not c.axis:
            return found
        node = c.nodes
        nans = node("Cast", node("IsNaN", c.args[0]), to=_code(np.dtype(np.int32)))
        some = node("ReduceMax", nans, node.integers(*c.axis), keepdims=int(c.keepdims))
        return node("Where", node("Cast", some, to=_code(np.dtype(bool))), node.constant(c.types[0].dtype.type(np.nan)), found)

    return write


def _logical(all_: bool) -> Callable[[Call], str]:
    """By counting, which an array without elements allows."""

    def write(c: Call) -> str:
        node = c.nodes
        truths = node("Not", c.args[0]) if all_ else c.args[0]
        count = node("Cast", truths, to=_code(_I64))
        if c.axis:
            count = node("ReduceSum", count, node.integers(*c.axis), keepdims=int(c.keepdims))
        none = node("Equal", count, node.constant(np.int64(0)))
        return none if all_ else node("Not", none)

    return write


def _argmax(c: Call) -> str:
    """The first nan, if there is one."""
    node, axis = c.nodes, c.axis
    found = node("ArgMax", c.args[0], axis=axis, keepdims=0)
    if c.types[0].dtype not in FLOATS:
        return found
    nans = node("Cast", node("IsNaN", c.args[0]), to=_code(np.dtype(np.int32)))
    some = node("Cast", node("ReduceMax", nans, node.integers(axis), keepdims=0), to=_code(np.dtype(bool)))
    return node("Where", some, node("ArgMax", nans, axis=axis, keepdims=0), found)


def _argsort(c: Call) -> str:
    """`TopK` is stable. Numbers first, nans as the largest; then once more by whether an element is nan."""
    node, axis, x = c.nodes, c.axis, c.args[0]
    count = node.integers(c.types[0].shape[axis])
    if c.types[0].dtype not in FLOATS:
        return _topk(c, x, count)
    nans = node("IsNaN", x)
    order = _topk(c, node("Where", nans, node.constant(c.types[0].dtype.type(np.inf)), x), count)
    late = node("GatherElements", node("Cast", nans, to=_code(_I64)), order, axis=axis)
    return node("GatherElements", order, _topk(c, late, count), axis=axis)


def _topk(c: Call, x: str, count: str) -> str:
    return c.nodes.many("TopK", [x, count], [c.nodes.fresh(), c.nodes.fresh()], axis=c.axis, largest=0, sorted=1)[1]


# -- shapes and indices -----------------------------------------------------------------------------------------


def _reshape(c: Call, x: str | None = None, to: Shape | None = None) -> str:
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


def _getitem(c: Call) -> str:
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


def _is_padding(types: Sequence[Type], results: Sequence[Type], params: dict[str, Any]) -> bool:
    """Whether a value is placed without gaps, and has the size of its place."""
    entries = _entries(params["spec"], params["shape"])
    sizes = [len(range(*entry)) for entry in entries] + list(params["shape"][len(entries) :])
    return all(step == 1 for _, _, step in entries) and bool(np.prod(sizes)) and int(np.prod(sizes)) == types[0].size


def _place(c: Call) -> str:
    full = c.equation.params["shape"]
    entries = _entries(c.spec, full) + [(0, n, 1) for n in full[len(_entries(c.spec, full)) :]]
    x = _reshape(c, to=tuple(len(range(*entry)) for entry in entries))
    before = [start for start, _, _ in entries]
    after = [n - stop for n, (_, stop, _) in zip(full, entries, strict=True)]
    return c.nodes("Pad", x, c.nodes.integers(*before, *after), c.nodes.constant(c.types[0].dtype.type(0)))


def _scatter_add(c: Call) -> str:
    """`ScatterND` indexes the first axis."""
    node, axis, full = c.nodes, c.axis, c.equation.params["shape"]
    g, at = c.args
    rank = len(c.types[1].shape)
    moved = [*range(axis, axis + rank), *range(axis), *range(axis + rank, len(c.types[0].shape))]
    order = [axis, *range(axis), *range(axis + 1, len(full))]
    if axis:
        g = node("Transpose", g, perm=moved)
    zeros = node("Expand", node.constant(c.types[0].dtype.type(0)), node.integers(*(full[i] for i in order)))
    at = node("Unsqueeze", node("Cast", at, to=_code(_I64)), node.integers(rank))
    found = node("ScatterND", zeros, at, g, reduction="add")
    return node("Transpose", found, perm=[order.index(i) for i in range(len(full))]) if axis else found


def _is_one_index(types: Sequence[Type], results: Sequence[Type], params: dict[str, Any]) -> bool:
    return len(types) == 2 and types[1].dtype in _dtypes("int32 int64")


def _is_one_region(types: Sequence[Type], results: Sequence[Type], params: dict[str, Any]) -> bool:
    full, axis = params["shape"], params["axis"]
    return _is_one_index(types, results, params) and types[0].shape == (*full[:axis], *types[1].shape, *full[axis + 1 :])


def _is_plain_einsum(types: Sequence[Type], results: Sequence[Type], params: dict[str, Any]) -> bool:
    distinct = all(len(set(letters)) == len(letters) for letters in params["inputs"])
    return distinct and all(t.size for t in types) and len({t.dtype for t in types}) == 1


#: The ops that are nodes, by dtype; the others are made of them.
TABLE: dict[Op, Spelling] = {
    ew.add: _node("Add", EVERY - BOOL),
    ew.sub: _node("Sub", EVERY - BOOL),
    ew.mul: _node("Mul", EVERY - BOOL),
    ew.div: _node("Div"),
    ew.neg: _node("Neg", _SIGNED),
    ew.absolute: _node("Abs", EVERY - BOOL),
    ew.power: _node("Pow"),
    ew.fmod: _node("Mod", fmod=1),
    ew.floor_divide: Spelling(_floor_divide, _SIGNED - FLOATS - _dtypes("int16")),
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
    ew.less: _node("Less", EVERY - BOOL),
    ew.less_equal: _node("LessOrEqual", EVERY - BOOL),
    ew.greater: _node("Greater", EVERY - BOOL),
    ew.greater_equal: _node("GreaterOrEqual", EVERY - BOOL),
    ew.logical_and: _node("And", BOOL),
    ew.logical_or: _node("Or", BOOL),
    ew.logical_xor: _node("Xor", BOOL),
    ew.logical_not: _node("Not", BOOL),
    ew.bitwise_and: _node("BitwiseAnd", WHOLE),
    ew.bitwise_or: _node("BitwiseOr", WHOLE),
    ew.bitwise_xor: _node("BitwiseXor", WHOLE),
    ew.invert: _node("BitwiseNot", WHOLE),
    integer.left_shift: Spelling(_shift("LEFT"), _dtypes("int32 int64")),
    integer.right_shift: Spelling(_shift("RIGHT"), _dtypes("int32 int64")),
    broadcast.where: _node("Where", _CHOSEN),
    broadcast.cast: Spelling(_cast, EVERY),
    ew.truncate: Spelling(_cast, EVERY),
    broadcast.reshape: Spelling(_reshape, EVERY),
    broadcast.transpose: Spelling(lambda c: c.nodes("Transpose", c.args[0], perm=list(c.axes)), EVERY),
    broadcast.broadcast_to: Spelling(lambda c: c.nodes("Expand", c.args[0], c.nodes.integers(*c.result.shape)), EVERY),
    broadcast.sum_: Spelling(_reduction("ReduceSum"), MAIN),
    reduce.max_: Spelling(_extremum("ReduceMax"), MAIN),
    reduce.min_: Spelling(_extremum("ReduceMin"), MAIN),
    reduce.prod: Spelling(_reduction("ReduceProd"), MAIN),
    reduce.all_: Spelling(_logical(True), BOOL),
    reduce.any_: Spelling(_logical(False), BOOL),
    reduce.cumsum: Spelling(lambda c: c.nodes("CumSum", c.args[0], c.nodes.constant(np.int64(c.axis))), MAIN),
    reduce.argmax: Spelling(_argmax, MAIN),
    reduce.argsort: Spelling(_argsort, MAIN),
    shape.concatenate: Spelling(lambda c: c.nodes("Concat", *c.args, axis=c.axis), EVERY),
    index.getitem: Spelling(_getitem, EVERY),
    index.place: Spelling(_place, MAIN | BOOL, fits=_is_padding),
    index.gather: Spelling(lambda c: c.nodes("Gather", *c.args, axis=c.axis), EVERY, by=0, fits=_is_one_index),
    index.scatter_add: Spelling(_scatter_add, MAIN, by=0, fits=_is_one_region),
    linalg.matmul: _node("MatMul", MAIN),
    linalg.einsum: Spelling(
        lambda c: c.nodes("Einsum", *c.args, equation=f"{','.join(c.inputs)}->{c.output}"), MAIN, fits=_is_plain_einsum
    ),
    sort.take_along: Spelling(
        lambda c: c.nodes("GatherElements", *c.args, axis=c.axis),
        EVERY,
        by=0,
        fits=lambda types, results, params: types[1].dtype == _I64 and _same_lead(types, params["axis"]),
    ),
}


def _same_lead(types: Sequence[Type], axis: int) -> bool:
    a, b = (t.shape[:axis] + t.shape[axis + 1 :] for t in types)
    return a == b


class _Onnx:
    """What ONNX Runtime computes."""

    name = "ONNX"
    dtypes = EVERY

    def writes(self, op: Op, types: Sequence[Type], results: Sequence[Type], params: dict[str, Any]) -> bool:
        known = TABLE.get(op)
        return known is not None and bool(types) and types[known.by].dtype in known.dtypes and known.fits(types, results, params)


# -- graphs -----------------------------------------------------------------------------------------------------


def _write(graph: Graph, inputs: Sequence[str], nodes: Nodes) -> list[str]:
    """Adds the nodes of a normal graph, and returns the names of its results."""
    names = dict(enumerate(inputs))
    types = graph.types

    def read(o: Operand) -> str:
        return nodes.constant(o.value) if isinstance(o, Literal) else names[o]

    for equation in graph.equations:
        nodes.line = equation.line
        args = [read(o) for o in equation.inputs]
        given = [o.type if isinstance(o, Literal) else types[o] for o in equation.inputs]
        call = Call(nodes, equation, args, given)
        written = _STRUCTURED[equation.op](call) if equation.op in _STRUCTURED else TABLE[equation.op].write(call)
        made = [written] if isinstance(written, str) else written
        names.update(zip(equation.outputs, made, strict=True))
    return [read(o) for o in graph.outputs]


def _info(name: str, type_: Type) -> Any:
    from onnx import helper

    return helper.make_tensor_value_info(name, _code(type_.dtype), type_.shape)


def _body(name: str, nodes: Nodes, inputs: Sequence[tuple[str, Type]], results: Sequence[tuple[str, Type]]) -> Any:
    """The graph of a body. A result is the output of a node of its own."""
    from onnx import helper

    named = [(nodes("Identity", result), t) for result, t in results]
    return helper.make_graph(nodes.list, name, [_info(n, t) for n, t in inputs], [_info(n, t) for n, t in named])


def _scan(c: Call) -> list[str]:
    body, length, carries, consts = (c.equation.params[key] for key in ("body", "length", "carries", "consts"))
    fixed, first, rows = list(c.args[:consts]), list(c.args[consts : consts + carries]), list(c.args[consts + carries :])
    inner = Nodes(c.nodes)
    types = body.input_types[consts:]
    names = [inner.fresh("x") for _ in types]
    inputs = list(zip(names, types, strict=True))
    results = list(zip(_write(body, [*fixed, *names], inner), body.output_types, strict=True))
    if not rows:  # a Scan needs rows to know how many
        rows = [c.nodes.constant(np.arange(length))]
        inputs.append((inner.fresh("i"), Type((), _I64)))
    directions = {"scan_input_directions": [1] * len(rows), "scan_output_directions": [1] * (len(results) - carries)}
    return c.nodes.many(
        "Scan",
        [*first, *rows],
        [c.nodes.fresh() for _ in results],
        body=_body(c.nodes.fresh("body"), inner, inputs, results),
        num_scan_inputs=len(rows),
        **{name: ones for name, ones in directions.items() if ones and c.reverse},
    )


def _while(c: Call) -> list[str]:
    test, body, asked, fixed = (c.equation.params[key] for key in ("cond", "body", "cond_consts", "body_consts"))
    state = list(c.args[asked + fixed :])
    (begin,) = _write(test, [*c.args[:asked], *state], c.nodes)
    inner = Nodes(c.nodes)
    types = body.input_types[fixed:]
    names = [inner.fresh("x") for _ in types]
    results = _write(body, [*c.args[asked : asked + fixed], *names], inner)
    (again,) = _write(test, [*c.args[:asked], *results], inner)
    truth = Type((), np.dtype(bool))
    inputs = [(inner.fresh("i"), Type((), _I64)), (inner.fresh("go"), truth), *zip(names, types, strict=True)]
    made = [(again, truth), *zip(results, types, strict=True)]
    graph = _body(c.nodes.fresh("body"), inner, inputs, made)
    return c.nodes.many("Loop", ["", begin, *state], [c.nodes.fresh() for _ in types], body=graph)


def _cond(c: Call) -> list[str]:
    branches = {}
    for key, word in (("true", "then_branch"), ("false", "else_branch")):
        part, inner = c.equation.params[key], Nodes(c.nodes)
        results = _write(part, c.args[1:], inner)
        branches[word] = _body(c.nodes.fresh(key), inner, [], list(zip(results, part.output_types, strict=True)))
    return c.nodes.many("If", c.args[:1], [c.nodes.fresh() for _ in c.equation.types], **branches)


_STRUCTURED: dict[Op, Callable[[Call], list[str]]] = {control.scan: _scan, control.while_: _while, control.cond: _cond}


def model(found: Sequence[Part]) -> Any:
    """One model of several functions: their inputs and results by name, each once."""
    from onnx import helper, numpy_helper

    nodes = Nodes()
    inputs, outputs = dict[str, Type](), dict[str, Type]()
    for part in found:
        graph = normal(part.graph, _Onnx())
        inputs |= dict(zip(graph.input_names, graph.input_types, strict=True))
        results = _write(graph, graph.input_names, nodes)
        for name, result, t in zip(part.output_names, results, graph.output_types, strict=True):
            if name not in outputs:
                nodes.many("Identity", [result], [name])
                outputs[name] = t
    graph = helper.make_graph(
        nodes.list,
        found[0].name,
        [_info(n, t) for n, t in inputs.items()],
        [_info(n, t) for n, t in outputs.items()],
        [numpy_helper.from_array(value, name) for name, value in nodes.constants.values()],
        doc_string="\n".join(part.summary for part in found),
    )
    opset = helper.make_opsetid("", OPSET)
    version = helper.find_min_ir_version_for([opset])
    return helper.make_model(graph, opset_imports=[opset], ir_version=version, producer_name="adjoint", producer_version=VERSION)


@boundary
def onnx(
    f: Any,
    *args: Any,
    path: str | os.PathLike[str] | None = None,
    derivatives: Any = (),
    argnums: Any = 0,
    batch: Any = None,
    **kwargs: Any,
) -> Any:
    """One ONNX model of f and of the derivatives asked for, checked by onnx; written to `path` if it is given.

    Inputs and outputs have the names of the exported program: `x`, `y`, `x_bar`. `batch` names the axis of each argument whose size
    is free, as `in_axes` of `vmap` does: a number for all, or one (or None) for each.
    """
    try:
        import onnx as library
    except ImportError:
        raise UnsupportedError("export.onnx needs the package onnx: pip install 'adjoint[onnx]'") from None
    if batch is None:
        made = model(parts(f, args, kwargs, derivatives=derivatives, argnums=argnums))
    else:
        from .onnx_batch import free

        if isinstance(f, Graph):
            raise ArgumentError("a graph has fixed shapes; for free axes (batch=) export the function that it was staged from")
        made = free(lambda args: model(parts(f, args, kwargs, derivatives=derivatives, argnums=argnums)), args, batch)
    library.checker.check_model(made, full_check=True)
    if path is not None:
        library.save(made, os.fspath(path))
    return made


__all__ = ["OPSET", "TABLE", "model", "onnx"]
