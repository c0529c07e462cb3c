"""Reductions and scans with NumPy's signatures: axis, dtype, out, keepdims, initial, where, ddof."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core.types import Shape, Value, canonical_axes, canonical_axis, dtype_of, is_inexact, ndim_of, reduced_axes, shape_of
from ..ops import broadcast as shapes
from ..ops import elementwise as ops
from ..ops import reduce as reductions
from .shape import astype, ravel, with_axis
from .table import implements, lift
from .ufunc import deliver, deliver_selected
from .ways import strong

Axis = int | tuple[int, ...] | None


def _no_value(x: Any) -> bool:
    return x is np._NoValue


def _strict_axes(axis: Axis, ndim: int) -> Shape:
    """The axes of a mean: as `reduced_axes`, but an array without axes has none."""
    return canonical_axes(axis if axis is None or isinstance(axis, tuple) else (axis,), ndim)


def _masked(a: Value, where: Any, fill: Any) -> Value:
    return a if where is True or _no_value(where) else shapes.where(where, a, fill)


@implements(np.sum, np.add.reduce)
def sum(
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = False,
    initial: Any = np._NoValue,
    where: Any = True,
) -> Value:
    a, whole = _accumulated(np.add, _masked(lift(a), where, 0), dtype, out)
    y = _narrowed(shapes.sum_(a, axis=reduced_axes(axis, ndim_of(a)), keepdims=_flag(keepdims)), whole)
    return deliver(y if _no_value(initial) else y + _cast(_stored(initial, out), dtype_of(y)), out, casting="unsafe")


def _accumulated(ufunc: np.ufunc, a: Value, dtype: Any, out: Any) -> tuple[Value, np.dtype[Any] | None]:
    """The elements in the accumulation dtype, and the integer dtype to which the result is truncated.

    Without `dtype`, NumPy promotes that of the elements with that of `out`, and casts the result. Its integers wrap around: here
    they are added in 64 bits and truncated afterwards.
    """
    (target,) = out if isinstance(out, tuple) else (out,)
    if dtype is None and target is None:
        return a, None
    if dtype is None:
        new = ufunc.resolve_dtypes((dtype_of(target), dtype_of(a), None), casting="unsafe", reduction=True)[1]
    else:
        new = np.dtype(dtype)
    a = a if new == dtype_of(a) else astype(a, new)
    return a, None if is_inexact(new) else new


def _narrowed(y: Value, dtype: np.dtype[Any] | None) -> Value:
    return y if dtype is None or dtype_of(y) == dtype else astype(y, dtype)


def _cast(initial: Any, dtype: np.dtype[Any]) -> Value:
    """The initial value in the dtype of the result: it never widens a reduction."""
    if type(initial) in (int, float):
        return dtype.type(initial)  # raises for an integer that does not fit
    initial = lift(initial)
    return initial if dtype_of(initial) == dtype else astype(initial, dtype)


def _flag(keepdims: Any) -> bool:
    return False if _no_value(keepdims) else bool(keepdims)


@implements(np.prod)
def prod(
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = False,
    initial: Any = np._NoValue,
    where: Any = True,
) -> Value:
    a, whole = _accumulated(np.multiply, _masked(strong(lift(a)), where, 1), dtype, out)
    axes = reduced_axes(axis, ndim_of(a))
    y = a if axes else astype(a, np.multiply.reduce(np.ones(1, dtype_of(a))).dtype)
    for ax in sorted(axes, reverse=True):
        y = reductions.prod(y, axis=ax)
    if _flag(keepdims):
        y = shapes.expand_dims(y, axes)
    y = _narrowed(y if ndim_of(y) else shapes.sum_(y, axis=(), keepdims=False), whole)  # a scalar
    return deliver(y if _no_value(initial) else y * _cast(_stored(initial, out), dtype_of(y)), out, casting="unsafe")


@implements(np.max, np.amax)
def max(
    a: Any, axis: Axis = None, out: Any = None, keepdims: Any = False, initial: Any = np._NoValue, where: Any = True
) -> Value:
    return _extremum(reductions.max_, ops.maximum, -1, a, axis, out, keepdims, initial, where)


@implements(np.min, np.amin)
def min(
    a: Any, axis: Axis = None, out: Any = None, keepdims: Any = False, initial: Any = np._NoValue, where: Any = True
) -> Value:
    return _extremum(reductions.min_, ops.minimum, 1, a, axis, out, keepdims, initial, where)


def last(dtype: np.dtype[Any], sign: int) -> Any:
    """The number of a dtype beyond all others: the largest for sign 1, the smallest for −1."""
    if dtype.kind in "fc":
        return dtype.type(sign * np.inf)
    if dtype.kind == "b":
        return np.bool_(sign > 0)
    limits = np.iinfo(dtype)
    return dtype.type(limits.max if sign > 0 else limits.min)


def _extremum(op: Any, pair: Any, sign: int, a: Any, axis: Axis, out: Any, keepdims: Any, initial: Any, where: Any) -> Value:
    if where is not True and not _no_value(where) and _no_value(initial):
        raise ValueError("reduction operation which has no identity, so to use a where mask one has to specify 'initial'")
    a = strong(lift(a))
    fill = last(dtype_of(a), sign)
    a = _masked(a, where, fill)
    axes = reduced_axes(axis, ndim_of(a))
    if not axes:
        y = ops.stop_gradient(a) if dtype_of(a).kind == "b" else ops.pos(a)
    elif math.prod(shape_of(a)[i] for i in axes) == 0 and not _no_value(initial):
        y = np.full(shape_of(shapes.sum_(a, axis=axes, keepdims=_flag(keepdims))), fill, dtype_of(a))
    else:
        y = op(a, axis=axes, keepdims=_flag(keepdims))
    return deliver(y if _no_value(initial) else pair(y, _cast(initial, dtype_of(y))), out, casting="unsafe")


@implements(np.ptp)
def ptp(a: Any, axis: Axis = None, out: Any = None, keepdims: Any = False) -> Value:
    return deliver(_stored(max(a, axis, None, keepdims), out) - min(a, axis, None, keepdims), out)


def _count(a: Value, axes: Shape, where: Any, keepdims: bool) -> Any:
    if where is True or _no_value(where):
        return math.prod(shape_of(a)[i] for i in axes)
    return np.sum(np.broadcast_to(where, shape_of(a)), axis=axes, keepdims=keepdims)


def per(total: Value, count: Any) -> Value:
    """total / count in the dtype of the total. NumPy divides in double precision where that dtype does not hold the count."""
    dtype = dtype_of(total)
    if isinstance(count, (int, float)):
        count = count.item() if isinstance(count, np.generic) else count  # a float64 would widen the quotient
        if dtype.kind in "fc" and dtype.type(count) == count:
            return total / count
        count = np.float64(count)
    y = total / count
    return y if dtype_of(y) == dtype else astype(y, dtype)


@implements(np.mean)
def mean(a: Any, axis: Axis = None, dtype: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = True) -> Value:
    return deliver(mean_for(out, a, axis, dtype, keepdims, where), out, casting="unsafe")


def mean_for(out: Any, a: Any, axis: Axis, dtype: Any = None, keepdims: Any = False, where: Any = True) -> Value:
    """The mean that NumPy writes to `out`."""
    a = lift(a)
    axes = _strict_axes(axis, ndim_of(a))
    keep = _flag(keepdims)
    is_half = dtype is None and dtype_of(a) == np.float16  # accumulated in single precision
    total = sum(a, axes, np.float32 if is_half else wide(a, dtype), None, keep, where=where)
    y = per(_stored(total, out), _count(a, axes, where, keep))
    return astype(y, np.float16) if is_half and out is None else y


def _stored(x: Any, out: Any) -> Value:
    """A value in the dtype of `out`: NumPy stores the initial value there, and a sum before it is divided by the count."""
    (target,) = out if isinstance(out, tuple) else (out,)
    return x if target is None or dtype_of(target) == dtype_of(lift(x)) else astype(lift(x), dtype_of(target))


def wide(a: Value, dtype: Any) -> Any:
    """The accumulation dtype of means: None for floats, which keep their own; integers are added as floats."""
    return np.float64 if dtype is None and not is_inexact(dtype_of(a)) else dtype


@implements(np.var)
def var(a: Any, axis: Axis = None, dtype: Any = None, out: Any = None, *args: Any, **kwargs: Any) -> Value:
    return deliver(_var_for(out, a, axis, dtype, *args, **kwargs), out, casting="unsafe")


def _var_for(
    out: Any,
    a: Any,
    axis: Axis,
    dtype: Any,
    ddof: float = 0,
    keepdims: Any = False,
    *,
    where: Any = True,
    mean: Any = np._NoValue,
    correction: Any = np._NoValue,
) -> Value:
    """The variance that NumPy writes to `out`."""
    a = lift(a)
    if not _no_value(correction):
        if ddof != 0:
            raise ValueError("ddof and correction can't be provided simultaneously.")
        ddof = correction
    axes = _strict_axes(axis, ndim_of(a))
    dtype = wide(a, dtype)
    center = per(sum(a, axes, dtype, None, True, where=where), _count(a, axes, where, True)) if _no_value(mean) else mean
    total = sum(squared(a - center), axes, dtype, None, _flag(keepdims), where=where)
    count = _count(a, axes, where, _flag(keepdims)) - ddof
    return per(_stored(total, out), count if isinstance(count, (int, float)) and count >= 0 else np.maximum(count, 0))


def squared(deviation: Value) -> Value:
    """The square of the absolute value."""
    if dtype_of(deviation).kind == "c":
        return ops.square(shapes.real(deviation)) + ops.square(shapes.imag(deviation))
    return ops.square(deviation)


@implements(np.std)
def std(a: Any, axis: Axis = None, dtype: Any = None, out: Any = None, *args: Any, **kwargs: Any) -> Value:
    """The square root of the variance; its gradient at equal samples is 0, as that of a norm at 0."""
    return deliver(root_of(_var_for(out, a, axis, dtype, *args, **kwargs)), out)


def root_of(variance: Value) -> Value:
    """The square root in the dtype of a variance: with an integer dtype, NumPy supports only a scalar."""
    y = ops.root(variance)
    if is_inexact(dtype_of(variance)):
        return y
    if ndim_of(y):
        raise TypeError(f"np.std: a square root of dtype {dtype_of(y)} cannot be stored as {dtype_of(variance)}; use dtype=float")
    return astype(y, dtype_of(variance))


@implements(np.cumsum)
def cumsum(a: Any, axis: int | None = None, dtype: Any = None, out: Any = None) -> Value:
    return _scan(np.add, reductions.cumsum, a, axis, dtype, out)


@implements(np.cumprod)
def cumprod(a: Any, axis: int | None = None, dtype: Any = None, out: Any = None) -> Value:
    return _scan(np.multiply, reductions.cumprod, a, axis, dtype, out)


def _scan(ufunc: np.ufunc, op: Any, a: Any, axis: int | None, dtype: Any, out: Any) -> Value:
    a, whole = _accumulated(ufunc, lift(a), dtype, out)
    a, axis = with_axis(a, axis)
    return deliver(_narrowed(op(a, axis=axis), whole), out, casting="unsafe")


# -- piecewise constant -----------------------------------------------------------------------------------------


def _arg(op: Any, a: Any, axis: int | None, keepdims: Any) -> Value:
    a = lift(a)
    n = ndim_of(a)
    if axis is None or (not n and axis in (0, -1)):
        y = op(ravel(a), axis=0)
        return np.reshape(y, (1,) * n) if _flag(keepdims) else y
    axis = canonical_axis(axis, n)
    y = op(a, axis=axis)
    return shapes.expand_dims(y, (axis,)) if _flag(keepdims) else y


@implements(np.argmax)
def argmax(a: Any, axis: int | None = None, out: Any = None, *, keepdims: Any = False) -> Value:
    return deliver_selected(_arg(reductions.argmax, a, axis, keepdims), out)


@implements(np.argmin)
def argmin(a: Any, axis: int | None = None, out: Any = None, *, keepdims: Any = False) -> Value:
    return deliver_selected(_arg(reductions.argmin, a, axis, keepdims), out)


@implements(np.argsort)
def argsort(a: Any, axis: int | None = -1, kind: Any = None, order: Any = None, *, stable: bool | None = None) -> Value:
    a, axis = with_axis(lift(a), axis)
    return reductions.argsort(a, axis=axis, kind="stable" if stable else kind)


@implements(np.all)
def all(a: Any, axis: Axis = None, out: Any = None, keepdims: Any = False, *, where: Any = True) -> Value:
    a = _masked(lift(a), where, True)
    return deliver(reductions.all_(a, axis=reduced_axes(axis, ndim_of(a)), keepdims=_flag(keepdims)), out, casting="unsafe")


@implements(np.any)
def any(a: Any, axis: Axis = None, out: Any = None, keepdims: Any = False, *, where: Any = True) -> Value:
    a = _masked(lift(a), where, False)
    return deliver(reductions.any_(a, axis=reduced_axes(axis, ndim_of(a)), keepdims=_flag(keepdims)), out, casting="unsafe")


@implements(np.count_nonzero)
def count_nonzero(a: Any, axis: Axis = None, *, keepdims: bool = False) -> Value:
    a = lift(a)
    return reductions.count_nonzero(a, axis=reduced_axes(axis, ndim_of(a)), keepdims=keepdims)
