"""Differences, sums and products along a sampled curve, angles, and functions of slices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.bind import is_staged
from ..core.types import Value, canonical_axes, canonical_axis, dtype_of, ndim_of, shape_of
from ..ops import broadcast as shapes
from ..ops import convolve as convolutions
from ..ops import elementwise as ops
from ..ops import index as indexing
from ..ops import reduce as reductions
from ..ops import shape as joins
from ..ops.shift import difference, roll
from .arrange import along
from .layout import held, held_by
from .reduce import cumprod, cumsum
from .shape import astype, concatenate, moveaxis, ravel, stack
from .table import implements, lift
from .ufunc import deliver


def part(x: Value, axis: int, start: int | None, stop: int | None) -> Value:
    """x[start:stop] along an axis."""
    return indexing.getitem(x, spec=along(axis, slice(start, stop)))


# -- differences ------------------------------------------------------------------------------------------------


@implements(np.diff)
def diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = np._NoValue, append: Any = np._NoValue) -> Value:
    if n < 0:
        raise ValueError(f"order must be non-negative but got {n}")
    a = lift(a)
    if n == 0:
        return a
    if ndim_of(a) == 0:
        raise ValueError("diff requires input that is at least one dimensional")
    axis = canonical_axis(axis, ndim_of(a))
    parts = []
    for piece in (prepend, a, append):
        if piece is np._NoValue:
            continue
        piece = lift(piece)
        if ndim_of(piece) == 0:
            piece = shapes.broadcast_to(piece, shape=(*shape_of(a)[:axis], 1, *shape_of(a)[axis + 1 :]))
        parts.append(piece)
    a = concatenate(parts, axis) if len(parts) > 1 else a
    for _ in range(n):
        if dtype_of(a).kind == "b":
            a = ops.not_equal(part(a, axis, 1, None), part(a, axis, 0, -1))
        elif shape_of(a)[axis]:
            a = difference(a, axis=axis)
    return a


@implements(np.ediff1d)
def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Value:
    ary = ravel(ary)
    if dtype_of(ary).kind == "b":
        raise TypeError("numpy boolean subtract, the `-` operator, is not supported, use the bitwise_xor, the `^` operator")
    steps = diff(ary) if shape_of(ary)[0] else ary
    parts = [ravel(to_begin) if to_begin is not None else None, steps, ravel(to_end) if to_end is not None else None]
    for name, p in (("to_begin", parts[0]), ("to_end", parts[2])):
        if p is not None and not np.can_cast(dtype_of(p), dtype_of(steps), "same_kind"):
            raise TypeError(f"dtype of `{name}` must be compatible with input `ary` under the `same_kind` rule.")
    return concatenate([astype(p, dtype_of(steps)) if dtype_of(p) != dtype_of(steps) else p for p in parts if p is not None])


@implements(np.gradient)
def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    f = _floats(lift(f))
    axes = canonical_axes(axis, ndim_of(f))
    steps = _spacings(f, axes, varargs)
    if edge_order > 2:
        raise ValueError("'edge_order' greater than 2 not supported")
    results = []
    for i, h in zip(axes, steps, strict=True):
        if shape_of(f)[i] < edge_order + 1:
            raise ValueError(
                "Shape of array too small to calculate a numerical gradient, at least (edge_order + 1) elements are required."
            )
        slope = _slope(f, i, h, edge_order)
        slope = astype(slope, dtype_of(f)) if dtype_of(f).kind in "fc" and dtype_of(slope) != dtype_of(f) else slope
        results.append(held(slope, "K", f))
    return results[0] if len(axes) == 1 else tuple(results)


def _floats(x: Value) -> Value:
    """Whole numbers as floats: their differences may be negative."""
    return astype(x, float) if dtype_of(x).kind in "iu" and ndim_of(x) else x


def _spacings(f: Value, axes: Sequence[int], varargs: tuple[Any, ...]) -> list[Value]:
    """For each axis one number, or the distances between samples."""
    given = [_floats(lift(v)) for v in varargs] or [1.0]
    if len(given) == 1 and ndim_of(given[0]) == 0:
        given = given * len(axes)
    if len(given) != len(axes):
        raise TypeError("invalid number of arguments")
    steps = []
    for h, i in zip(given, axes, strict=True):
        if ndim_of(h) > 1:
            raise ValueError("distances must be either scalars or 1d")
        if ndim_of(h) == 1 and shape_of(h)[0] != shape_of(f)[i]:
            raise ValueError("when 1d, distances must match the length of the corresponding dimension")
        steps.append(diff(h) if ndim_of(h) == 1 else h)
    return steps


def _slope(f: Value, axis: int, h: Value, edge_order: int) -> Value:
    column = (-1,) + (1,) * (ndim_of(f) - axis - 1)

    def step(i: int) -> Value:
        return h if ndim_of(h) == 0 else h[i]

    def at(i: int) -> Value:
        return part(f, axis, i, i + 1 if i != -1 else None)

    if ndim_of(h) == 0:
        inner = (part(f, axis, 2, None) - part(f, axis, 0, -2)) / (2.0 * h)
    else:
        before, after = (np.reshape(x, column) for x in (h[:-1], h[1:]))
        both = before + after
        inner = (
            part(f, axis, 0, -2) * (-after / (before * both))
            + part(f, axis, 1, -1) * ((after - before) / (before * after))
            + part(f, axis, 2, None) * (before / (after * both))
        )
    if edge_order == 1:
        first, last = (at(1) - at(0)) / step(0), (at(-1) - at(-2)) / step(-1)
    else:
        p, q = step(0), step(1 if ndim_of(h) else 0)
        first = -(2.0 * p + q) / (p * (p + q)) * at(0) + (p + q) / (p * q) * at(1) - p / (q * (p + q)) * at(2)
        p, q = step(-2 if ndim_of(h) else 0), step(-1)
        last = q / (p * (p + q)) * at(-3) - (q + p) / (p * q) * at(-2) + (2.0 * q + p) / (q * (p + q)) * at(-1)
    return joins.concatenate(first, inner, last, axis=axis)


def _are_others(x: Value, axis: int, n: int) -> bool:
    """Whether the places of n samples are not n: NumPy broadcasts the distance of two, and raises for any other number."""
    along = 0 if ndim_of(x) == 1 else axis
    return along >= ndim_of(x) or shape_of(x)[along] != n


@implements(np.trapezoid)
def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Value:
    """Σ y·w with the weights w of the trapezoids, half the distance between the neighbours of each sample."""
    y = lift(y)
    axis = canonical_axis(axis, ndim_of(y))
    n = shape_of(y)[axis]
    column = (n,) + (1,) * (ndim_of(y) - axis - 1)
    if n == 0:
        return np.sum(y if dtype_of(y).kind in "fc" else astype(y, float), axis=axis)
    if dtype_of(y).kind not in "fc" or (x is not None and _are_others(lift(x), axis, n)):
        # Neighbours are added first, and wrap around as their dtype does; the halves of the sums are floats.
        lead = (slice(None),) * axis
        sums = indexing.read(y, (*lead, slice(1, None))) + indexing.read(y, (*lead, slice(None, -1)))
        gaps = lift(dx) if x is None else diff(lift(x), axis=0 if ndim_of(lift(x)) == 1 else axis)
        if ndim_of(gaps) == 1:
            gaps = shapes.reshape(gaps, shape=(*shape_of(gaps), *column[1:]))
        return np.sum(gaps * sums / 2.0, axis=axis)
    if x is None:
        w = np.full(n, 1.0, dtype_of(y) if dtype_of(y).kind in "fc" else float)
        w[[0, -1]] *= 0.5 if n > 1 else 0
        return np.sum(y * w.reshape(column), axis=axis) * lift(dx)
    x = lift(x)
    along_x = 0 if ndim_of(x) == 1 else axis
    gaps = diff(x, axis=along_x) / 2.0
    end = np.zeros((*shape_of(x)[:along_x], 1, *shape_of(x)[along_x + 1 :]), dtype_of(gaps))
    weights = joins.concatenate(end, gaps, axis=along_x) + joins.concatenate(gaps, end, axis=along_x)
    return np.sum(y * (shapes.reshape(weights, shape=column) if ndim_of(x) == 1 else weights), axis=axis)


# -- sums and products ------------------------------------------------------------------------------------------


def _cumulative(scan: Any, start: float, x: Any, axis: int | None, dtype: Any, out: Any, include_initial: bool) -> Value:
    x = lift(x)
    if axis is None:
        if ndim_of(x) > 1:
            raise ValueError("For arrays which have more than one dimension ``axis`` argument is required.")
        axis = 0
    if ndim_of(x) == 0:
        x = ravel(x)
    axis = canonical_axis(axis, ndim_of(x))
    y = scan(x, axis, dtype)
    if include_initial:
        first = np.full((*shape_of(y)[:axis], 1, *shape_of(y)[axis + 1 :]), start, dtype_of(y))
        y = joins.concatenate(first, y, axis=axis)
    return deliver(y, out)


@implements(np.cumulative_sum)
def cumulative_sum(
    x: Any, /, *, axis: int | None = None, dtype: Any = None, out: Any = None, include_initial: bool = False
) -> Value:
    return _cumulative(cumsum, 0, x, axis, dtype, out, include_initial)


@implements(np.cumulative_prod)
def cumulative_prod(
    x: Any, /, *, axis: int | None = None, dtype: Any = None, out: Any = None, include_initial: bool = False
) -> Value:
    return _cumulative(cumprod, 1, x, axis, dtype, out, include_initial)


def _vector(x: Any) -> Value:
    x = lift(x)
    if ndim_of(x) > 1:
        raise ValueError("object too deep for desired array")
    x = x if ndim_of(x) else ravel(x)
    if not shape_of(x)[0]:
        raise ValueError("an argument cannot be empty")
    return x


_MODES: dict[Any, Any] = {0: "valid", 1: "same", 2: "full"}  # the numbers used in C


def _mode(mode: Any) -> Any:
    if isinstance(mode, str):
        return mode
    if not isinstance(mode, (int, np.integer)):
        raise TypeError("convolve/correlate mode not understood")
    return _MODES.get(int(mode), mode)


@implements(np.convolve)
def convolve(a: Any, v: Any, mode: str | int = "full") -> Value:
    a, v, mode = _vector(a), _vector(v), _mode(mode)
    if shape_of(v)[0] > shape_of(a)[0]:
        a, v = v, a
    short = shape_of(v)[0]
    if mode in ("full", "valid"):
        return convolutions.convolve(a, v, mode=mode)
    if mode != "same":
        raise ValueError(f"mode must be one of 'valid', 'same', or 'full' (got '{mode}')")
    start = (short - 1) // 2
    return part(convolutions.convolve(a, v, mode="full"), 0, start, start + shape_of(a)[0])


@implements(np.correlate)
def correlate(a: Any, v: Any, mode: str | int = "valid") -> Value:
    a, v = _vector(a), _vector(v)
    v = shapes.conj(v) if dtype_of(v).kind == "c" else v
    # NumPy slides the shorter array over the longer one, and reverses the result if it swapped them.
    if shape_of(v)[0] > shape_of(a)[0]:
        return joins.flip(convolve(v, joins.flip(a, 0), mode), 0)
    return convolve(a, joins.flip(v, 0), mode)


@implements(np.cross)
def cross(a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None) -> Value:
    if axis is not None:
        axisa = axisb = axisc = axis
    a, b = lift(a), lift(b)
    i, j = canonical_axis(axisa, ndim_of(a)), canonical_axis(axisb, ndim_of(b))
    sizes = {shape_of(a)[i], shape_of(b)[j]}
    if not sizes <= {2, 3}:
        raise ValueError("incompatible dimensions for cross product (dimension must be 2 or 3)")
    are_rows = sizes == {3} and shape_of(a) == shape_of(b) and i == j == ndim_of(a) - 1 and axisc == -1
    if are_rows and not (is_staged(a) or is_staged(b)):
        y = _cross_of_rows(a, b)
        return held_by(y, lambda: np.empty(shape_of(y), dtype_of(y)).strides)
    (a0, a1, a2), (b0, b1, b2) = _components(a, i), _components(b, j)
    z = a0 * b1 - a1 * b0
    if sizes == {2}:
        return z
    parts: Sequence[Value] = (a1 * b2 - a2 * b1, a2 * b0 - a0 * b2, z)
    if len(set(map(shape_of, parts))) > 1:
        parts = np.broadcast_arrays(*parts)
    axis = canonical_axis(axisc, ndim_of(z) + 1)
    y = joins.stack(*parts, axis=axis)
    return held_by(y, lambda: np.moveaxis(np.empty((*shape_of(z), 3), dtype_of(z)), -1, axis).strides)


def _cross_of_rows(a: Value, b: Value) -> Value:
    """The same products and differences, of all three components at once: u[k] = a[k] b[k + 1] - a[k + 1] b[k] is y[k - 1]."""

    def following(x: Value) -> Value:
        return roll(x, shifts=(-1,), axes=(ndim_of(x) - 1,))

    return following(a * following(b) - following(a) * b)


def _components(a: Value, axis: int) -> list[Value]:
    """The three components of vectors along an axis; a plane vector has a zero third one."""
    parts = [indexing.getitem(a, spec=(*[slice(None)] * axis, k)) for k in range(shape_of(a)[axis])]
    return parts if len(parts) == 3 else [*parts, 0.0]


# -- elementwise functions that are not ufuncs ------------------------------------------------------------------


@implements(np.sinc)
def sinc(x: Any) -> Value:
    return ops.sinc(lift(x))


@implements(np.angle)
def angle(z: Any, deg: bool = False) -> Value:
    z = lift(z)
    a = ops.arctan2(np.imag(z), np.real(z)) if dtype_of(z).kind == "c" else ops.arctan2(0, z)
    return a * (180 / math.pi) if deg else a


@implements(np.unwrap)
def unwrap(p: Any, discont: Any = None, axis: int = -1, *, period: Any = 2 * math.pi) -> Value:
    """Only multiples of the period are added, which are constants: the derivative is that of the angles."""
    p = lift(p)
    axis = canonical_axis(axis, ndim_of(p))
    steps = ops.stop_gradient(diff(p, axis=axis))
    span = ops.stop_gradient(period)
    limit = span / 2 if discont is None else discont
    # Steps into [-period/2, period/2); a jump up of exactly half a period stays one.
    within = ops.remainder(steps + span / 2, span) - span / 2
    within = shapes.where(ops.logical_and(ops.equal(within, -span / 2), ops.greater(steps, 0)), span / 2, within)
    jumps = shapes.where(ops.less(ops.absolute(steps), limit), 0.0, within - steps)
    turned = reductions.cumsum(jumps, axis=axis) / span
    shift = ops.rint(turned) * lift(period)
    y = part(p, axis, 1, None) + shift
    y = joins.concatenate(part(p, axis, 0, 1), y, axis=axis)
    kind = np.result_type(dtype_of(p), period if type(period) in (int, float) else dtype_of(lift(period)))
    return held(astype(y, kind) if dtype_of(y) != kind else y, "K", p)


# -- functions of slices ----------------------------------------------------------------------------------------


@implements(np.apply_along_axis)
def apply_along_axis(func1d: Any, axis: int, arr: Any, *args: Any, **kwargs: Any) -> Value:
    a = lift(arr)
    axis = canonical_axis(axis, ndim_of(a))
    a = moveaxis(a, axis, -1)
    lead = shape_of(a)[:-1]
    results = [lift(func1d(a[i], *args, **kwargs)) for i in np.ndindex(lead)]
    if not results:
        raise ValueError("Cannot apply_along_axis when any iteration dimensions are 0")
    inner = shape_of(results[0])
    y = np.reshape(stack(results), lead + inner)
    places = range(len(lead), len(lead) + len(inner))
    return moveaxis(y, tuple(places), tuple(range(axis, axis + len(inner))))


@implements(np.apply_over_axes)
def apply_over_axes(func: Any, a: Any, axes: Any) -> Value:
    y = lift(a)
    n = ndim_of(y)
    for axis in np.atleast_1d(axes):
        axis = canonical_axis(int(axis), n)
        result = func(y, axis)
        y = result if ndim_of(result) == n else shapes.expand_dims(result, (axis,))
        if ndim_of(y) != n:
            raise ValueError("function is not returning an array of the correct shape")
    return y
