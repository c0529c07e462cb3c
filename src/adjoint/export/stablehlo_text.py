"""A function and its derivatives as StableHLO text, which XLA compiles for any of its devices.

    module @energy {
      func.func public @main(%x: tensor<3xf64>) -> (tensor<f64>) {
        %v1 = stablehlo.sine %x : tensor<3xf64>  // model.py:3
        …

Each op is a few lines of `TABLE`, or is made of other ops (`normal.py`). Functions that StableHLO itself lacks (`erf`, `asin`, …)
are those of its companion dialect `chlo`. Loops are `while`, a branch is `if`; both read values from outside.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.errors import boundary
from ..core.op import Op
from ..core.types import Shape, Type
from ..ir.graph import Equation, Graph, Literal, Operand
from ..ops import bessel, broadcast, control, decompose, fft, gamma, index, integer, linalg, reduce, shape, solve, special
from ..ops import elementwise as ew
from .normal import normal
from .program import Part, parts, write

Dtype = np.dtype[Any]


def _dtypes(names: str) -> frozenset[Dtype]:
    return frozenset(map(np.dtype, names.split()))


REALS, COMPLEX, BOOL = _dtypes("float32 float64"), _dtypes("complex64 complex128"), _dtypes("bool")
WHOLE = _dtypes("int8 int16 int32 int64 uint8 uint16 uint32 uint64")
INEXACT = REALS | COMPLEX
NUMBERS = INEXACT | WHOLE
EVERY = NUMBERS | BOOL
_I64 = np.dtype(np.int64)


def element(dtype: Dtype) -> str:
    if dtype == bool:
        return "i1"
    bits = 8 * dtype.itemsize
    return {"f": f"f{bits}", "i": f"i{bits}", "u": f"ui{bits}", "c": f"complex<f{bits // 2}>"}[dtype.kind]


def tensor(type_: Type) -> str:
    return f"tensor<{''.join(f'{n}x' for n in type_.shape)}{element(type_.dtype)}>"


# -- constants --------------------------------------------------------------------------------------------------

_READABLE = 64  # elements; a longer constant is written as its bytes


def number(value: Any) -> str:
    if isinstance(value, np.bool_):
        return "true" if value else "false"
    if isinstance(value, np.complexfloating):
        return f"({number(value.real)}, {number(value.imag)})"
    if isinstance(value, np.floating):
        if np.isfinite(value):
            text = repr(value.item())
            return text if "." in text else text.replace("e", ".0e") if "e" in text else f"{text}.0"
        return f"0x{value.view(f'u{value.itemsize}'):0{2 * value.itemsize}X}"
    return str(value)


def dense(value: Any) -> str:
    """The elements of a constant, as an attribute."""
    flat = value.reshape(-1)
    if not flat.size:
        return "dense<>"
    if (flat.view(np.uint8).reshape(flat.size, -1) == flat[:1].view(np.uint8)).all():
        return f"dense<{number(flat[0])}>"
    if flat.size > _READABLE and value.dtype != bool:
        return f'dense<"0x{flat.astype(flat.dtype.newbyteorder("<")).tobytes().hex().upper()}">'

    def nested(x: Any) -> str:
        return f"[{', '.join(map(nested, x))}]" if np.ndim(x) else number(x)

    return f"dense<{nested(value)}>"


# -- lines ------------------------------------------------------------------------------------------------------


class Lines:
    """The lines of a function, and the types of its values."""

    def __init__(self) -> None:
        self.list: list[str] = []
        self.types: dict[str, Type] = {}
        self.count = 0
        self.indent = "    "
        self.line = ""

    def fresh(self) -> str:
        self.count += 1
        return f"%{self.count - 1}"

    def add(self, text: str) -> None:
        self.list.append(self.indent + text)

    def __call__(self, text: str, type_: Type) -> str:
        """Adds a line that makes one value."""
        name = self.fresh()
        self.types[name] = type_
        self.add(f"{name} = {text}" + (f"  // {self.line}" if self.line else ""))
        return name

    def op(self, kind: str, *args: str, type_: Type, attributes: str = "") -> str:
        """An op in the usual form: operands, attributes, types."""
        given = ", ".join(tensor(self.types[a]) for a in args)
        given = given if kind.startswith("chlo.") else f"({given})"
        return self(f"{kind} {', '.join(args)}{attributes} : {given} -> {tensor(type_)}", type_)

    def constant(self, value: Any) -> str:
        value = np.ascontiguousarray(value).reshape(np.shape(value))
        type_ = Type(value.shape, value.dtype)
        return self(f"stablehlo.constant {dense(value)} : {tensor(type_)}", type_)

    def like(self, x: str, value: Any) -> str:
        """A number, with the type of a value."""
        type_ = self.types[x]
        return self.constant(np.broadcast_to(type_.dtype.type(value), type_.shape))

    def broadcast(self, x: str, to: Shape) -> str:
        """Axes are aligned at the end, as in NumPy."""
        t = self.types[x]
        if t.shape == to:
            return x
        axes = list(range(len(to) - len(t.shape), len(to)))
        return self.op("stablehlo.broadcast_in_dim", x, type_=Type(to, t.dtype), attributes=f", dims = {axes}")

    def reshape(self, x: str, to: Shape) -> str:
        t = self.types[x]
        return x if t.shape == to else self.op("stablehlo.reshape", x, type_=Type(to, t.dtype))

    def transpose(self, x: str, axes: Sequence[int]) -> str:
        t = self.types[x]
        if list(axes) == list(range(len(t.shape))):
            return x
        made = Type(tuple(t.shape[a] for a in axes), t.dtype)
        return self.op("stablehlo.transpose", x, type_=made, attributes=f", dims = {list(axes)}")

    def compare(self, how: str, a: str, b: str) -> str:
        t = self.types[a]
        kind = {"f": "FLOAT", "c": "FLOAT", "i": "SIGNED"}.get(t.dtype.kind, "UNSIGNED")
        return self.op(f"stablehlo.compare {how},", a, b, type_=Type(t.shape, np.dtype(bool)), attributes=f", {kind}")

    def convert(self, x: str, dtype: Dtype) -> str:
        t = self.types[x]
        if t.dtype.kind == "c" and dtype.kind != "c":
            x = self.op("stablehlo.real", x, type_=Type(t.shape, np.empty((), t.dtype).real.dtype))
        return x if self.types[x].dtype == dtype else self.op("stablehlo.convert", x, type_=Type(t.shape, dtype))

    def select(self, c: str, a: str, b: str) -> str:
        return self.op("stablehlo.select", c, a, b, type_=self.types[a])

    def reduce(self, x: str, kind: str, start: Any, axes: Sequence[int]) -> str:
        t = self.types[x]
        first = self.constant(t.dtype.type(start))
        made = Type(tuple(n for i, n in enumerate(t.shape) if i not in axes), t.dtype)
        text = f"stablehlo.reduce({x} init: {first}) applies stablehlo.{kind} across dimensions = {list(axes)}"
        return self(f"{text} : ({tensor(t)}, {tensor(Type((), t.dtype))}) -> {tensor(made)}", made)

    def slice(self, x: str, ranges: Sequence[tuple[int, int, int]]) -> str:
        t = self.types[x]
        made = Type(tuple(len(range(*r)) for r in ranges), t.dtype)
        if made == t:
            return x
        parts_ = ", ".join(f"{a}:{b}" + (f":{s}" if s != 1 else "") for a, b, s in ranges)
        return self(f"stablehlo.slice {x} [{parts_}] : ({tensor(t)}) -> {tensor(made)}", made)

    def reverse(self, x: str, axes: Sequence[int]) -> str:
        return self(f"stablehlo.reverse {x}, dims = {list(axes)} : {tensor(self.types[x])}", self.types[x]) if axes else x

    def dot(self, a: str, b: str, batch: int) -> str:
        """A stack of matrix products."""
        s, t = self.types[a], self.types[b]
        lead = list(range(batch))
        made = Type((*s.shape[:-1], t.shape[-1]), s.dtype)
        text = f", batching_dims = {lead} x {lead}, contracting_dims = [{batch + 1}] x [{batch}]"
        return self.op("stablehlo.dot_general", a, b, type_=made, attributes=f"{text}, precision = [HIGHEST, HIGHEST]")


@dataclass(frozen=True)
class Call:
    """An equation about to be written."""

    lines: Lines
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
    """How an op is written, for which dtypes of its operand number `by`, and for which types and parameters."""

    write: Callable[[Call], str]
    dtypes: frozenset[Dtype]
    by: int = -1
    fits: Callable[[Sequence[Type], dict[str, Any]], bool] = lambda types, params: True


def _per_element(kind: str, dtypes: frozenset[Dtype] = INEXACT) -> Spelling:
    def write_(c: Call) -> str:
        args = [c.lines.broadcast(x, c.result.shape) for x in c.args]
        return c.lines.op(kind if "." in kind else f"stablehlo.{kind}", *args, type_=c.result)

    return Spelling(write_, dtypes)


def _comparison(how: str, dtypes: frozenset[Dtype] = EVERY) -> Spelling:
    return Spelling(lambda c: c.lines.compare(how, *(c.lines.broadcast(x, c.result.shape) for x in c.args)), dtypes)


def _where(c: Call) -> str:
    return c.lines.select(*(c.lines.broadcast(x, c.result.shape) for x in c.args))


def _floor_divide(c: Call) -> str:
    """`divide` of integers truncates; by 0 it is not defined."""
    w = c.lines
    a, b = (w.broadcast(x, c.result.shape) for x in c.args)
    zero, one = w.like(a, 0), w.like(a, 1)
    none = w.compare("EQ", b, zero)
    safe = w.select(none, one, b)
    quotient = w.op("stablehlo.divide", a, safe, type_=c.result)
    rest = w.op("stablehlo.subtract", a, w.op("stablehlo.multiply", quotient, safe, type_=c.result), type_=c.result)
    truth = Type(c.result.shape, np.dtype(bool))
    opposite = w.compare("NE", w.compare("LT", rest, zero), w.compare("LT", safe, zero))
    below = w.op("stablehlo.and", w.compare("NE", rest, zero), opposite, type_=truth)
    floored = w.select(below, w.op("stablehlo.subtract", quotient, one, type_=c.result), quotient)
    return w.select(none, zero, floored)


def _conj(c: Call) -> str:
    w, t = c.lines, Type(c.result.shape, np.empty((), c.result.dtype).real.dtype)
    re, im = (w.op(f"stablehlo.{part}", c.args[0], type_=t) for part in ("real", "imag"))
    return w.op("stablehlo.complex", re, w.op("stablehlo.negate", im, type_=t), type_=c.result)


# -- reductions and order ---------------------------------------------------------------------------------------


def _reduction(kind: str, start: Callable[[Dtype], Any]) -> Callable[[Call], str]:
    def write_(c: Call) -> str:
        axis = c.axis if isinstance(c.axis, tuple) else (c.axis,)
        found = c.lines.reduce(c.args[0], kind, start(c.types[0].dtype), axis) if axis else c.args[0]
        return c.lines.reshape(found, c.result.shape)

    return write_


def _lowest(dtype: Dtype) -> Any:
    return -np.inf if dtype.kind == "f" else np.iinfo(dtype).min


def _highest(dtype: Dtype) -> Any:
    return np.inf if dtype.kind == "f" else np.iinfo(dtype).max


def _cumsum(c: Call) -> str:
    w, t, axis = c.lines, c.types[0], c.axis
    n = t.shape[axis]
    if not t.size:
        return c.args[0]
    ones, window = [1] * len(t.shape), [n if i == axis else 1 for i in range(len(t.shape))]
    padding = [[n - 1 if i == axis else 0, 0] for i in range(len(t.shape))]
    first = w.constant(t.dtype.type(0))
    scalar = tensor(Type((), t.dtype))
    made = w.fresh()
    w.types[made] = t
    w.add(
        f'{made} = "stablehlo.reduce_window"({c.args[0]}, {first}) <{{base_dilations = {_integers(ones)}, '
        f"padding = dense<{padding}> : tensor<{len(ones)}x2xi64>, window_dilations = {_integers(ones)}, "
        f"window_dimensions = {_integers(window)}, window_strides = {_integers(ones)}}}> ({{"
    )
    _region(w, scalar, "add")
    w.add(f"}}) : ({tensor(t)}, {scalar}) -> {tensor(t)}")
    return made


def _integers(values: Sequence[int]) -> str:
    return f"array<i64: {', '.join(map(str, values))}>" if values else "array<i64>"


def _region(w: Lines, scalar: str, kind: str) -> None:
    """The function of two numbers that a reduction applies."""
    a, b, y = w.fresh(), w.fresh(), w.fresh()
    w.add(f"^bb0({a}: {scalar}, {b}: {scalar}):")
    w.add(f"  {y} = stablehlo.{kind} {a}, {b} : {scalar}")
    w.add(f"  stablehlo.return {y} : {scalar}")


def _argmax(c: Call) -> str:
    """The first place of the largest element; a nan is larger than all numbers."""
    w, x, t, axis = c.lines, c.args[0], c.types[0], c.axis
    places = w(f"stablehlo.iota dim = {axis} : {tensor(Type(t.shape, _I64))}", Type(t.shape, _I64))
    highest = w.reduce(x, "maximum", _lowest(t.dtype), [axis])
    keep = [i for i in range(len(t.shape)) if i != axis]
    spread = w.op("stablehlo.broadcast_in_dim", highest, type_=t, attributes=f", dims = {keep}")
    hit = w.compare("EQ", x, spread)
    if t.dtype.kind == "f":
        hit = w.op("stablehlo.or", hit, w.compare("NE", x, x), type_=w.types[hit])
    return w.reduce(w.select(hit, places, w.like(places, t.shape[axis])), "minimum", np.iinfo(_I64).max, [axis])


def _argsort(c: Call) -> str:
    """A stable sort of the elements with their places; nans are last."""
    w, t, axis = c.lines, c.types[0], c.axis
    places = w(f"stablehlo.iota dim = {axis} : {tensor(c.result)}", c.result)
    made = w.fresh()
    w.add(f'{made}:2 = "stablehlo.sort"({c.args[0]}, {places}) <{{dimension = {axis} : i64, is_stable = true}}> ({{')
    a, b, i, j = (w.fresh() for _ in range(4))
    s, k = (Type((), d) for d in (t.dtype, _I64))
    w.add(f"^bb0({a}: {tensor(s)}, {b}: {tensor(s)}, {i}: {tensor(k)}, {j}: {tensor(k)}):")
    w.types |= {a: s, b: s}
    before = w.compare("LT", a, b)
    if t.dtype.kind == "f":
        number_, nan, truth = w.compare("EQ", a, a), w.compare("NE", b, b), Type((), np.dtype(bool))
        before = w.op("stablehlo.or", before, w.op("stablehlo.and", number_, nan, type_=truth), type_=truth)
    w.add(f"stablehlo.return {before} : tensor<i1>")
    w.add(f"}}) : ({tensor(t)}, {tensor(c.result)}) -> ({tensor(t)}, {tensor(c.result)})")
    w.types[f"{made}#1"] = c.result
    return f"{made}#1"


# -- shapes and indices -----------------------------------------------------------------------------------------


def _concatenate(c: Call) -> str:
    return c.lines.op("stablehlo.concatenate", *c.args, type_=c.result, attributes=f", dim = {c.axis}")


def _entries(spec: Any, shape_: Shape) -> tuple[list[tuple[int, int, int]], list[int]]:
    """Start, stop and step of each axis of a basic index, all forwards, and the axes to reverse."""
    found, backwards, sizes = [], [], list(shape_)
    axis = 0
    for part in spec:
        if part is None:
            continue
        n = sizes[axis]
        taken = range(*part.indices(n)) if isinstance(part, slice) else range(part % n, part % n + 1)
        if not taken:
            found.append((0, 0, 1))
        elif taken.step < 0:
            found.append((taken[-1], taken[0] + 1, -taken.step))
            backwards.append(axis)
        else:
            found.append((taken[0], taken[-1] + 1, taken.step))
        axis += 1
    return found + [(0, n, 1) for n in sizes[axis:]], backwards


def _getitem(c: Call) -> str:
    ranges, backwards = _entries(c.spec, c.types[0].shape)
    return c.lines.reshape(c.lines.reverse(c.lines.slice(c.args[0], ranges), backwards), c.result.shape)


def _place(c: Call) -> str:
    w, full = c.lines, c.equation.params["shape"]
    ranges, backwards = _entries(c.spec, full)
    if not c.types[0].size:
        return w.constant(np.zeros(full, c.types[0].dtype))
    sizes = tuple(len(range(*r)) for r in ranges)
    x = w.reverse(w.reshape(c.args[0], sizes), backwards)
    low = [a for a, _, _ in ranges]
    high = [n - b for n, (_, b, _) in zip(full, ranges, strict=True)]
    within = [s - 1 if k > 1 else 0 for k, (_, _, s) in zip(sizes, ranges, strict=True)]
    zero = w.constant(c.types[0].dtype.type(0))
    return w.op("stablehlo.pad", x, zero, type_=c.result, attributes=f", low = {low}, high = {high}, interior = {within}")


def _is_placed_whole(types: Sequence[Type], params: dict[str, Any]) -> bool:
    ranges, _ = _entries(params["spec"], params["shape"])
    return int(np.prod([len(range(*r)) for r in ranges])) == types[0].size


def _places(c: Call, at: str, extent: int) -> str:
    """Indices from the start, one vector each."""
    w = c.lines
    at = w.convert(at, _I64)
    back = w.compare("LT", at, w.like(at, 0))
    at = w.select(back, w.op("stablehlo.add", at, w.like(at, extent), type_=w.types[at]), at)
    return w.reshape(at, (*w.types[at].shape, 1))


def _gather(c: Call) -> str:
    w, axis, (t, s) = c.lines, c.axis, c.types
    at, rank = _places(c, c.args[1], t.shape[axis]), len(s.shape)
    offset = [i for i in range(len(c.result.shape)) if not axis <= i < axis + rank]
    sizes = [1 if i == axis else n for i, n in enumerate(t.shape)]
    given = f"({tensor(t)}, {tensor(w.types[at])}) -> {tensor(c.result)}"
    numbers = f"offset_dims = {offset}, collapsed_slice_dims = [{axis}], start_index_map = [{axis}], index_vector_dim = {rank}"
    text = f'"stablehlo.gather"({c.args[0]}, {at}) <{{dimension_numbers = #stablehlo.gather<{numbers}>, '
    return w(f"{text}indices_are_sorted = false, slice_sizes = {_integers(sizes)}}}> : {given}", c.result)


def _scatter_add(c: Call) -> str:
    w, axis, (t, s) = c.lines, c.axis, c.types
    at, rank = _places(c, c.args[1], c.result.shape[axis]), len(s.shape)
    zeros = w.constant(np.zeros(c.result.shape, c.result.dtype))
    window = [i for i in range(len(t.shape)) if not axis <= i < axis + rank]
    numbers = f"update_window_dims = {window}, inserted_window_dims = [{axis}], scatter_dims_to_operand_dims = [{axis}]"
    made = w.fresh()
    w.types[made] = c.result
    w.add(
        f'{made} = "stablehlo.scatter"({zeros}, {at}, {c.args[0]}) <{{indices_are_sorted = false, scatter_dimension_numbers = '
        f"#stablehlo.scatter<{numbers}, index_vector_dim = {rank}>, unique_indices = false}}> ({{"
    )
    _region(w, tensor(Type((), t.dtype)), "add")
    w.add(f"}}) : ({tensor(c.result)}, {tensor(w.types[at])}, {tensor(t)}) -> {tensor(c.result)}")
    return made


def _is_one_index(types: Sequence[Type], params: dict[str, Any]) -> bool:
    return len(types) == 2


def _is_one_region(types: Sequence[Type], params: dict[str, Any]) -> bool:
    full, axis = params["shape"], params["axis"]
    return len(types) == 2 and types[0].shape == (*full[:axis], *types[1].shape, *full[axis + 1 :])


# -- linear algebra, Fourier transforms -------------------------------------------------------------------------


def _matmul(c: Call) -> str:
    w = c.lines
    a, b = c.args
    s, t = (x.shape for x in c.types)
    s, t = s if len(s) > 1 else (1, *s), t if len(t) > 1 else (*t, 1)
    lead = tuple(np.broadcast_shapes(s[:-2], t[:-2]))
    a = w.broadcast(w.reshape(a, s), (*lead, *s[-2:]))
    b = w.broadcast(w.reshape(b, t), (*lead, *t[-2:]))
    return w.reshape(w.dot(a, b, len(lead)), c.result.shape)


def _cholesky(c: Call) -> str:
    """Only the lower triangle of the result is defined."""
    w, t = c.lines, c.types[0]
    found = w(f"stablehlo.cholesky {c.args[0]}, lower = true : {tensor(t)}", t)
    mask = w.constant(np.broadcast_to(np.tri(t.shape[-1], dtype=bool), t.shape))
    return w.select(mask, found, w.like(found, 0))


def _triangular_solve(c: Call) -> str:
    w, (s, t) = c.lines, c.types
    lead = tuple(np.broadcast_shapes(s.shape[:-2], t.shape[:-2]))
    a, b = (w.broadcast(x, (*lead, *y.shape[-2:])) for x, y in zip(c.args, c.types, strict=True))
    how = f"left_side = true, lower = {str(c.lower).lower()}, unit_diagonal = false"
    turned = "#stablehlo<transpose TRANSPOSE>" if c.transposed else "#stablehlo<transpose NO_TRANSPOSE>"
    text = f'"stablehlo.triangular_solve"({a}, {b}) <{{{how}, transpose_a = {turned}}}>'
    return w(f"{text} : ({tensor(w.types[a])}, {tensor(w.types[b])}) -> {tensor(c.result)}", c.result)


def _has_elements(types: Sequence[Type], params: dict[str, Any]) -> bool:
    return all(t.size for t in types)


def _along(c: Call, x: str, axis: int, transform: Callable[[str], str]) -> str:
    """A transform of the last axis, along another."""
    w = c.lines
    rank = len(w.types[x].shape)
    order = [*(i for i in range(rank) if i != axis), axis]
    return w.transpose(transform(w.transpose(x, order)), [order.index(i) for i in range(rank)])


def _scaled(c: Call, x: str, factor: float) -> str:
    w = c.lines
    return x if factor == 1 else w.op("stablehlo.multiply", x, w.like(x, factor), type_=w.types[x])


def _transformed(c: Call, x: str, kind: str, n: int, made: Type) -> str:
    return c.lines.op("stablehlo.fft", x, type_=made, attributes=f", type = {kind}, length = [{n}]")


def _norm(norm: str, n: int, forward: bool) -> float:
    """What a transform is multiplied by, beyond the 1/n of the inverse one."""
    power = {"backward": 0.0, "ortho": 0.5, "forward": 1.0}[norm]
    return n**-power if forward else n**power


def _fft(c: Call) -> str:
    w = c.lines
    x = w.convert(c.args[0], c.result.dtype)
    kind = "IFFT" if c.inverse else "FFT"
    for axis in c.axes:
        n = c.result.shape[axis]
        x = _along(c, x, axis, lambda y, n=n: _transformed(c, y, kind, n, w.types[y]))  # type: ignore[misc]
        x = _scaled(c, x, _norm(c.norm, n, not c.inverse))
    return x


def _rfft(c: Call) -> str:
    n = c.types[0].shape[c.axis]

    def last(y: str) -> str:
        t = c.lines.types[y]
        return _transformed(c, y, "RFFT", n, Type((*t.shape[:-1], n // 2 + 1), c.result.dtype))

    return _scaled(c, _along(c, c.args[0], c.axis, last), _norm(c.norm, n, True))


def _irfft(c: Call) -> str:
    w, n = c.lines, c.n
    x = w.convert(c.args[0], np.result_type(c.result.dtype, np.complex64))

    def last(y: str) -> str:
        t = w.types[y]
        need, have = n // 2 + 1, t.shape[-1]
        y = w.slice(y, [*((0, m, 1) for m in t.shape[:-1]), (0, min(need, have), 1)])
        if have < need:
            made, none = Type((*t.shape[:-1], need), t.dtype), [0] * len(t.shape)
            zero, high = w.constant(t.dtype.type(0)), [*none[:-1], need - have]
            y = w.op("stablehlo.pad", y, zero, type_=made, attributes=f", low = {none}, high = {high}, interior = {none}")
        return _transformed(c, y, "IRFFT", n, Type((*t.shape[:-1], n), c.result.dtype))

    return _scaled(c, _along(c, x, c.axis, last), _norm(c.norm, n, False))


#: The ops that are lines of their own, by dtype; the others are made of them.
TABLE: dict[Op, Spelling] = {
    ew.add: _per_element("add", NUMBERS),
    ew.sub: _per_element("subtract", NUMBERS),
    ew.mul: _per_element("multiply", NUMBERS),
    ew.div: _per_element("divide"),
    ew.neg: _per_element("negate", NUMBERS),
    ew.absolute: _per_element("abs", INEXACT | _dtypes("int8 int16 int32 int64")),
    ew.power: _per_element("power"),
    ew.fmod: _per_element("remainder", REALS),
    ew.floor_divide: Spelling(_floor_divide, WHOLE),
    ew.maximum: _per_element("maximum", NUMBERS - COMPLEX),
    ew.minimum: _per_element("minimum", NUMBERS - COMPLEX),
    ew.sqrt: _per_element("sqrt"),
    ew.cbrt: _per_element("cbrt", REALS),
    ew.exp: _per_element("exponential"),
    ew.expm1: _per_element("exponential_minus_one"),
    ew.log: _per_element("log"),
    ew.log1p: _per_element("log_plus_one"),
    ew.expit: _per_element("logistic", REALS),
    ew.sin: _per_element("sine"),
    ew.cos: _per_element("cosine"),
    ew.tan: _per_element("tan"),
    ew.tanh: _per_element("tanh"),
    ew.arctan2: _per_element("atan2", REALS),
    ew.arcsin: _per_element("chlo.asin"),
    ew.arccos: _per_element("chlo.acos"),
    ew.arctan: _per_element("chlo.atan"),
    ew.sinh: _per_element("chlo.sinh"),
    ew.cosh: _per_element("chlo.cosh"),
    ew.arcsinh: _per_element("chlo.asinh"),
    ew.arccosh: _per_element("chlo.acosh"),
    ew.arctanh: _per_element("chlo.atanh"),
    ew.nextafter: _per_element("chlo.next_after", REALS),
    ew.floor: _per_element("floor", REALS),
    ew.ceil: _per_element("ceil", REALS),
    ew.rint: _per_element("round_nearest_even", REALS),
    ew.equal: _comparison("EQ"),
    ew.not_equal: _comparison("NE"),
    ew.less: _comparison("LT", EVERY - COMPLEX),
    ew.less_equal: _comparison("LE", EVERY - COMPLEX),
    ew.greater: _comparison("GT", EVERY - COMPLEX),
    ew.greater_equal: _comparison("GE", EVERY - COMPLEX),
    ew.logical_and: _per_element("and", BOOL),
    ew.logical_or: _per_element("or", BOOL),
    ew.logical_xor: _per_element("xor", BOOL),
    ew.logical_not: _per_element("not", BOOL),
    ew.bitwise_and: _per_element("and", WHOLE),
    ew.bitwise_or: _per_element("or", WHOLE),
    ew.bitwise_xor: _per_element("xor", WHOLE),
    ew.invert: _per_element("not", WHOLE),
    integer.left_shift: _per_element("shift_left", WHOLE),
    integer.right_shift: _per_element("shift_right_arithmetic", _dtypes("int8 int16 int32 int64")),
    special.erf: _per_element("chlo.erf", REALS),
    special.erfc: _per_element("chlo.erfc", REALS),
    special.erfinv: _per_element("chlo.erf_inv", REALS),
    gamma.gammaln: _per_element("chlo.lgamma", REALS),
    gamma.psi: _per_element("chlo.digamma", REALS),
    gamma.zeta: _per_element("chlo.zeta", REALS),
    bessel.i1e: _per_element("chlo.bessel_i1e", REALS),
    broadcast.where: Spelling(_where, EVERY),
    broadcast.cast: Spelling(lambda c: c.lines.convert(c.args[0], c.equation.params["dtype"]), EVERY),
    ew.truncate: Spelling(lambda c: c.lines.convert(c.args[0], c.equation.params["dtype"]), EVERY),
    broadcast.real: _per_element("real", COMPLEX),
    broadcast.imag: _per_element("imag", COMPLEX),
    broadcast.conj: Spelling(_conj, COMPLEX),
    broadcast.reshape: Spelling(lambda c: c.lines.reshape(c.args[0], c.result.shape), EVERY),
    broadcast.transpose: Spelling(lambda c: c.lines.transpose(c.args[0], c.axes), EVERY),
    broadcast.broadcast_to: Spelling(lambda c: c.lines.broadcast(c.args[0], c.result.shape), EVERY),
    broadcast.sum_: Spelling(_reduction("add", lambda d: 0), NUMBERS),
    reduce.max_: Spelling(_reduction("maximum", _lowest), NUMBERS - COMPLEX),
    reduce.min_: Spelling(_reduction("minimum", _highest), NUMBERS - COMPLEX),
    reduce.prod: Spelling(_reduction("multiply", lambda d: 1), NUMBERS),
    reduce.all_: Spelling(_reduction("and", lambda d: True), BOOL),
    reduce.any_: Spelling(_reduction("or", lambda d: False), BOOL),
    reduce.cumsum: Spelling(_cumsum, NUMBERS),
    reduce.argmax: Spelling(_argmax, NUMBERS - COMPLEX),
    reduce.argsort: Spelling(_argsort, NUMBERS - COMPLEX),
    shape.concatenate: Spelling(_concatenate, EVERY),
    index.getitem: Spelling(_getitem, EVERY),
    index.place: Spelling(_place, EVERY, fits=_is_placed_whole),
    index.gather: Spelling(_gather, EVERY, by=0, fits=_is_one_index),
    index.scatter_add: Spelling(_scatter_add, NUMBERS, by=0, fits=_is_one_region),
    linalg.matmul: Spelling(_matmul, NUMBERS),
    decompose.cholesky: Spelling(_cholesky, INEXACT, fits=_has_elements),
    solve.triangular_solve: Spelling(_triangular_solve, INEXACT, fits=_has_elements),
    fft.fft: Spelling(_fft, INEXACT, fits=_has_elements),
    fft.rfft: Spelling(_rfft, REALS, fits=_has_elements),
    fft.irfft: Spelling(_irfft, INEXACT, fits=_has_elements),
}


class _StableHLO:
    """What XLA compiles."""

    name = "StableHLO"
    dtypes = EVERY

    def writes(self, op: Op, types: Sequence[Type], results: Sequence[Type], params: dict[str, Any]) -> bool:
        known = TABLE.get(op)
        return known is not None and bool(types) and types[known.by].dtype in known.dtypes and known.fits(types, params)


# -- graphs -----------------------------------------------------------------------------------------------------


def _write(graph: Graph, inputs: Sequence[str], w: Lines) -> list[str]:
    """Adds the lines of a normal graph, and returns the names of its results."""
    names = dict(enumerate(inputs))
    constants: dict[Literal, str] = {}

    def read(o: Operand) -> str:
        if isinstance(o, int):
            return names[o]
        if o not in constants:
            constants[o] = w.constant(o.value)
        return constants[o]

    for equation in graph.equations:
        w.line = ""
        args = [read(o) for o in equation.inputs]
        w.line = equation.line
        call = Call(w, equation, args, [w.types[a] for a in args])
        if equation.op in _STRUCTURED:
            made = _STRUCTURED[equation.op](call)
        else:
            made = [TABLE[equation.op].write(call)]
        names.update(zip(equation.outputs, made, strict=True))
    w.line = ""
    return [read(o) for o in graph.outputs]


def _inside(w: Lines, inner: Callable[[], Sequence[str]]) -> None:
    """The lines of a region, which ends with its results."""
    indent, w.indent = w.indent, w.indent + "  "
    results = inner()
    types = ", ".join(tensor(w.types[y]) for y in results)
    w.add(f"stablehlo.return {', '.join(results)} : {types}")
    w.indent = indent


def _loop(
    w: Lines, start: Sequence[str], test: Callable[[list[str]], str], body: Callable[[list[str]], Sequence[str]]
) -> list[str]:
    types = [w.types[x] for x in start]
    made, state = w.fresh(), [w.fresh() for _ in start]
    w.types.update(zip(state, types, strict=True))
    given = ", ".join(f"{name} = {x}" for name, x in zip(state, start, strict=True))
    count = f":{len(start)}" if len(start) > 1 else ""
    w.add(f"{made}{count} = stablehlo.while({given}) : {', '.join(map(tensor, types))}")
    w.add("cond {")
    _inside(w, lambda: [test(state)])
    w.add("} do {")
    _inside(w, lambda: body(state))
    w.add("}")
    results = [f"{made}#{i}" for i in range(len(start))] if count else [made]
    w.types.update(zip(results, types, strict=True))
    return results


def _scan(c: Call) -> list[str]:
    """A counter, the carries, and the stacks that rows are written into."""
    w = c.lines
    body, length, carries, consts = (c.equation.params[key] for key in ("body", "length", "carries", "consts"))
    fixed, rows = list(c.args[:consts]), list(c.args[consts + carries :])
    stacks = [w.constant(np.zeros(t.shape, t.dtype)) for t in c.equation.types[carries:]]
    start = [w.constant(np.int64(0)), *c.args[consts : consts + carries], *stacks]
    scalar = Type((), _I64)

    def test(state: list[str]) -> str:
        return w.compare("LT", state[0], w.constant(np.int64(length)))

    def step(state: list[str]) -> list[str]:
        i, zero = state[0], w.constant(np.int64(0))
        at = w.op("stablehlo.subtract", w.constant(np.int64(length - 1)), i, type_=scalar) if c.reverse else i
        inputs = [_read_row(w, x, at, zero) for x in rows]
        results = _write(body, [*fixed, *state[1 : 1 + carries], *inputs], w)
        written = [_write_row(w, s, y, at, zero) for s, y in zip(state[1 + carries :], results[carries:], strict=True)]
        return [w.op("stablehlo.add", i, w.constant(np.int64(1)), type_=scalar), *results[:carries], *written]

    return _loop(w, start, test, step)[1:]


def _read_row(w: Lines, x: str, at: str, zero: str) -> str:
    t = w.types[x]
    row = Type((1, *t.shape[1:]), t.dtype)
    found = w.op("stablehlo.dynamic_slice", x, at, *[zero] * (len(t.shape) - 1), type_=row, attributes=f", sizes = {list(row.shape)}")
    return w.reshape(found, t.shape[1:])


def _write_row(w: Lines, stack: str, row: str, at: str, zero: str) -> str:
    t = w.types[stack]
    row = w.reshape(row, (1, *t.shape[1:]))
    return w.op("stablehlo.dynamic_update_slice", stack, row, at, *[zero] * (len(t.shape) - 1), type_=t)


def _while(c: Call) -> list[str]:
    test, body, asked, fixed = (c.equation.params[key] for key in ("cond", "body", "cond_consts", "body_consts"))
    args, w = c.args, c.lines
    return _loop(
        w,
        args[asked + fixed :],
        lambda state: _write(test, [*args[:asked], *state], w)[0],
        lambda state: _write(body, [*args[asked : asked + fixed], *state], w),
    )


def _cond(c: Call) -> list[str]:
    w, types = c.lines, c.equation.types
    made = w.fresh()
    count = f":{len(types)}" if len(types) > 1 else ""
    w.add(f'{made}{count} = "stablehlo.if"({c.args[0]}) ({{')
    _inside(w, lambda: _write(c.true, c.args[1:], w))
    w.add("}, {")
    _inside(w, lambda: _write(c.false, c.args[1:], w))
    w.add(f"}}) : (tensor<i1>) -> ({', '.join(map(tensor, types))})")
    results = [f"{made}#{i}" for i in range(len(types))] if count else [made]
    w.types.update(zip(results, types, strict=True))
    return results


_STRUCTURED: dict[Op, Callable[[Call], list[str]]] = {control.scan: _scan, control.while_: _while, control.cond: _cond}


def _signature(inputs: dict[str, Type]) -> str:
    return ", ".join(f"%{name}: {tensor(t)}" for name, t in inputs.items())


def _function(part: Part) -> list[str]:
    graph = normal(part.graph, _StableHLO())
    inputs = dict(zip(graph.input_names, graph.input_types, strict=True))
    w = Lines()
    w.types.update({f"%{name}": t for name, t in inputs.items()})
    results = _write(graph, [f"%{name}" for name in inputs], w)
    types = ", ".join(map(tensor, graph.output_types))
    head = f"  func.func private @{part.name}({_signature(inputs)}) -> ({types}) {{"
    return [f"  // {part.summary}", head, *w.list, f"    return {', '.join(results)} : {types}", "  }"]


def module(found: Sequence[Part]) -> str:
    """The text of several functions, and of `main`, which takes the inputs of all and returns the results of all in turn."""
    inputs, outputs, calls = dict[str, Type](), list[tuple[str, Type]](), list[str]()
    text = [line for part in found for line in _function(part)]
    for i, part in enumerate(found):
        g = part.graph
        inputs |= dict(zip(g.input_names, g.input_types, strict=True))
        given, made = (", ".join(map(tensor, types)) for types in (g.input_types, g.output_types))
        count = f":{len(g.outputs)}" if len(g.outputs) > 1 else ""
        arguments = ", ".join(f"%{name}" for name in g.input_names)
        calls.append(f"    %{i}{count} = call @{part.name}({arguments}) : ({given}) -> ({made})")
        outputs += [(f"%{i}#{k}" if count else f"%{i}", t) for k, t in enumerate(g.output_types)]
    types = ", ".join(tensor(t) for _, t in outputs)
    main = [f"  func.func public @main({_signature(inputs)}) -> ({types}) {{", *calls]
    main += [f"    return {', '.join(name for name, _ in outputs)} : {types}", "  }"]
    return "\n".join([f"module @{found[0].name} {{", *main, *text, "}"]) + "\n"


@boundary
def stablehlo(
    f: Any, *args: Any, path: str | os.PathLike[str] | None = None, derivatives: Any = (), argnums: Any = 0, **kwargs: Any
) -> str:
    """StableHLO text of f, and of the derivatives asked for; written to `path` if it is given.

    `main` takes the flat arguments and returns the results of f, then those of each derivative. XLA compiles it.
    """
    return write(path, module(parts(f, args, kwargs, derivatives=derivatives, argnums=argnums)))


__all__ = ["TABLE", "module", "stablehlo"]
