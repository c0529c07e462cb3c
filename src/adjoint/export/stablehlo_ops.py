"""The ops that are lines of StableHLO, or of its companion dialect `chlo` (`erf`, `asin`, …)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.op import Op
from ..core.types import Shape, Type
from ..ops import bessel, broadcast, decompose, fft, gamma, index, integer, linalg, reduce, shape, solve, special
from ..ops import elementwise as ew
from . import normal
from .normal import (
    COMPLEX,
    EVERY,
    INEXACT,
    NUMBERS,
    REALS,
    SIGNED,
    TRUTHS,
    WHOLE,
    WITH_HALVES,
    Dtype,
    LanguageOps,
    Spelling,
    has_elements,
    is_one_index,
    is_one_region,
)
from .stablehlo_lines import Lines, tensor

_I64 = np.dtype(np.int64)


@dataclass(frozen=True)
class StableHLOCall(normal.Call):
    """An equation about to be written, and the lines that it is added to."""

    lines: Lines


def _per_element(kind: str, dtypes: frozenset[Dtype] = INEXACT) -> Spelling:
    def write_(c: StableHLOCall) -> str:
        args = [c.lines.broadcast(x, c.result.shape) for x in c.args]
        return c.lines.op(kind if "." in kind else f"stablehlo.{kind}", *args, type_=c.result)

    return Spelling(write_, dtypes)


def _right_shift(c: StableHLOCall) -> str:
    """The sign of a signed integer stays."""
    kind = "shift_right_logical" if c.result.dtype.kind == "u" else "shift_right_arithmetic"
    return _per_element(kind).write(c)


def _comparison(how: str, dtypes: frozenset[Dtype] = EVERY) -> Spelling:
    return Spelling(lambda c: c.lines.compare(how, *(c.lines.broadcast(x, c.result.shape) for x in c.args)), dtypes)


def _where(c: StableHLOCall) -> str:
    return c.lines.select(*(c.lines.broadcast(x, c.result.shape) for x in c.args))


def _floor_divide(c: StableHLOCall) -> str:
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


def _gammaln(c: StableHLOCall) -> str:
    """`lgamma` is inf at −inf, where SciPy's is −inf."""
    w, x = c.lines, c.lines.broadcast(c.args[0], c.result.shape)
    low = w.like(x, -np.inf)
    return w.select(w.compare("EQ", x, low), low, w.op("chlo.lgamma", x, type_=c.result))


def _conj(c: StableHLOCall) -> str:
    w, t = c.lines, Type(c.result.shape, np.empty((), c.result.dtype).real.dtype)
    re, im = (w.op(f"stablehlo.{part}", c.args[0], type_=t) for part in ("real", "imag"))
    return w.op("stablehlo.complex", re, w.op("stablehlo.negate", im, type_=t), type_=c.result)


# -- reductions and order ---------------------------------------------------------------------------------------


def _reduction(kind: str, start: Callable[[Dtype], Any]) -> Callable[[StableHLOCall], str]:
    def write_(c: StableHLOCall) -> str:
        axis = c.axis if isinstance(c.axis, tuple) else (c.axis,)
        found = c.lines.reduce(c.args[0], kind, start(c.types[0].dtype), axis) if axis else c.args[0]
        return c.lines.reshape(found, c.result.shape)

    return write_


def _lowest(dtype: Dtype) -> Any:
    return -np.inf if dtype.kind == "f" else np.iinfo(dtype).min


def _highest(dtype: Dtype) -> Any:
    return np.inf if dtype.kind == "f" else np.iinfo(dtype).max


def _cumsum(c: StableHLOCall) -> str:
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


def _argmax(c: StableHLOCall) -> str:
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


def _argsort(c: StableHLOCall) -> str:
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


def _concatenate(c: StableHLOCall) -> str:
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


def _getitem(c: StableHLOCall) -> str:
    ranges, backwards = _entries(c.spec, c.types[0].shape)
    return c.lines.reshape(c.lines.reverse(c.lines.slice(c.args[0], ranges), backwards), c.result.shape)


def _place(c: StableHLOCall) -> str:
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


def _places(c: StableHLOCall, at: str, extent: int) -> str:
    """Indices from the start, one vector each."""
    w = c.lines
    at = w.convert(at, _I64)
    back = w.compare("LT", at, w.like(at, 0))
    at = w.select(back, w.op("stablehlo.add", at, w.like(at, extent), type_=w.types[at]), at)
    return w.reshape(at, (*w.types[at].shape, 1))


def _gather(c: StableHLOCall) -> str:
    w, axis, (t, s) = c.lines, c.axis, c.types
    at, rank = _places(c, c.args[1], t.shape[axis]), len(s.shape)
    offset = [i for i in range(len(c.result.shape)) if not axis <= i < axis + rank]
    sizes = [1 if i == axis else n for i, n in enumerate(t.shape)]
    given = f"({tensor(t)}, {tensor(w.types[at])}) -> {tensor(c.result)}"
    numbers = f"offset_dims = {offset}, collapsed_slice_dims = [{axis}], start_index_map = [{axis}], index_vector_dim = {rank}"
    text = f'"stablehlo.gather"({c.args[0]}, {at}) <{{dimension_numbers = #stablehlo.gather<{numbers}>, '
    return w(f"{text}indices_are_sorted = false, slice_sizes = {_integers(sizes)}}}> : {given}", c.result)


def _scatter_add(c: StableHLOCall) -> str:
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


# -- linear algebra, Fourier transforms -------------------------------------------------------------------------


def _matmul(c: StableHLOCall) -> str:
    w = c.lines
    a, b = c.args
    s, t = (x.shape for x in c.types)
    s, t = s if len(s) > 1 else (1, *s), t if len(t) > 1 else (*t, 1)
    lead = tuple(np.broadcast_shapes(s[:-2], t[:-2]))
    a = w.broadcast(w.reshape(a, s), (*lead, *s[-2:]))
    b = w.broadcast(w.reshape(b, t), (*lead, *t[-2:]))
    return w.reshape(w.dot(a, b, len(lead)), c.result.shape)


def _cholesky(c: StableHLOCall) -> str:
    """Only the lower triangle of the result is defined."""
    w, t = c.lines, c.types[0]
    found = w(f"stablehlo.cholesky {c.args[0]}, lower = true : {tensor(t)}", t)
    mask = w.constant(np.broadcast_to(np.tri(t.shape[-1], dtype=bool), t.shape))
    return w.select(mask, found, w.like(found, 0))


def _triangular_solve(c: StableHLOCall) -> str:
    w, (s, t) = c.lines, c.types
    lead = tuple(np.broadcast_shapes(s.shape[:-2], t.shape[:-2]))
    a, b = (w.broadcast(x, (*lead, *y.shape[-2:])) for x, y in zip(c.args, c.types, strict=True))
    how = f"left_side = true, lower = {str(c.lower).lower()}, unit_diagonal = false"
    turned = "#stablehlo<transpose TRANSPOSE>" if c.transposed else "#stablehlo<transpose NO_TRANSPOSE>"
    text = f'"stablehlo.triangular_solve"({a}, {b}) <{{{how}, transpose_a = {turned}}}>'
    return w(f"{text} : ({tensor(w.types[a])}, {tensor(w.types[b])}) -> {tensor(c.result)}", c.result)


def _along(c: StableHLOCall, x: str, axis: int, transform: Callable[[str], str]) -> str:
    """A transform of the last axis, along another."""
    w = c.lines
    rank = len(w.types[x].shape)
    order = [*(i for i in range(rank) if i != axis), axis]
    return w.transpose(transform(w.transpose(x, order)), [order.index(i) for i in range(rank)])


def _scaled(c: StableHLOCall, x: str, factor: float) -> str:
    w = c.lines
    return x if factor == 1 else w.op("stablehlo.multiply", x, w.like(x, factor), type_=w.types[x])


def _transformed(c: StableHLOCall, x: str, kind: str, n: int, made: Type) -> str:
    return c.lines.op("stablehlo.fft", x, type_=made, attributes=f", type = {kind}, length = [{n}]")


def _norm(norm: str, n: int, forward: bool) -> float:
    """The factor of a transform, besides the 1/n of the inverse."""
    power = {"backward": 0.0, "ortho": 0.5, "forward": 1.0}[norm]
    return n**-power if forward else n**power


def _fft(c: StableHLOCall) -> str:
    w = c.lines
    x = w.convert(c.args[0], c.result.dtype)
    kind = "IFFT" if c.inverse else "FFT"
    for axis in c.axes:
        n = c.result.shape[axis]
        x = _along(c, x, axis, lambda y, n=n: _transformed(c, y, kind, n, w.types[y]))  # type: ignore[misc]
        x = _scaled(c, x, _norm(c.norm, n, not c.inverse))
    return x


def _rfft(c: StableHLOCall) -> str:
    n = c.types[0].shape[c.axis]

    def last(y: str) -> str:
        t = c.lines.types[y]
        return _transformed(c, y, "RFFT", n, Type((*t.shape[:-1], n // 2 + 1), c.result.dtype))

    return _scaled(c, _along(c, c.args[0], c.axis, last), _norm(c.norm, n, True))


def _irfft(c: StableHLOCall) -> str:
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


#: The ops that are lines of StableHLO, with their dtypes; other ops are expanded into these.
TABLE: dict[Op, Spelling] = {
    ew.add: _per_element("add", NUMBERS),
    ew.sub: _per_element("subtract", NUMBERS),
    ew.mul: _per_element("multiply", NUMBERS),
    ew.div: _per_element("divide"),
    ew.neg: _per_element("negate", NUMBERS),
    ew.absolute: _per_element("abs", INEXACT | SIGNED),
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
    ew.logical_and: _per_element("and", TRUTHS),
    ew.logical_or: _per_element("or", TRUTHS),
    ew.logical_xor: _per_element("xor", TRUTHS),
    ew.logical_not: _per_element("not", TRUTHS),
    ew.bitwise_and: _per_element("and", WHOLE),
    ew.bitwise_or: _per_element("or", WHOLE),
    ew.bitwise_xor: _per_element("xor", WHOLE),
    ew.invert: _per_element("not", WHOLE),
    integer.left_shift: _per_element("shift_left", WHOLE),
    integer.right_shift: Spelling(_right_shift, WHOLE),
    special.erf: _per_element("chlo.erf", REALS),
    special.erfc: _per_element("chlo.erfc", REALS),
    special.erfinv: _per_element("chlo.erf_inv", REALS),
    gamma.gammaln: Spelling(_gammaln, REALS),
    bessel.i1e: _per_element("chlo.bessel_i1e", REALS),
    broadcast.where: Spelling(_where, EVERY),
    broadcast.cast: Spelling(lambda c: c.lines.convert(c.args[0], c.equation.params["dtype"]), WITH_HALVES),
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
    reduce.all_: Spelling(_reduction("and", lambda d: True), TRUTHS),
    reduce.any_: Spelling(_reduction("or", lambda d: False), TRUTHS),
    reduce.cumsum: Spelling(_cumsum, NUMBERS),
    reduce.argmax: Spelling(_argmax, NUMBERS - COMPLEX),
    reduce.argsort: Spelling(_argsort, NUMBERS - COMPLEX),
    shape.concatenate: Spelling(_concatenate, EVERY),
    index.getitem: Spelling(_getitem, EVERY),
    index.place: Spelling(_place, EVERY, fits=_is_placed_whole),
    index.gather: Spelling(_gather, EVERY, by=0, fits=is_one_index),
    index.scatter_add: Spelling(_scatter_add, NUMBERS, by=0, fits=is_one_region),
    linalg.matmul: Spelling(_matmul, NUMBERS),
    decompose.cholesky: Spelling(_cholesky, INEXACT, fits=has_elements),
    solve.triangular_solve: Spelling(_triangular_solve, INEXACT, fits=has_elements),
    fft.fft: Spelling(_fft, INEXACT, fits=has_elements),
    fft.rfft: Spelling(_rfft, REALS, fits=has_elements),
    fft.irfft: Spelling(_irfft, INEXACT, fits=has_elements),
}


TARGET = LanguageOps("StableHLO", WITH_HALVES, TABLE)

__all__ = ["TABLE", "TARGET", "StableHLOCall"]
