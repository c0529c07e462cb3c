"""Reductions that skip nan. A skipped nan gets a zero cotangent."""

from __future__ import annotations

import functools
import warnings
from typing import Any

import numpy as np

from ..core.bind import Traced, is_array
from ..core.types import Shape, Value, canonical_axes, dtype_of, is_inexact, ndim_of, reduced_axes, shape_of
from ..ops import broadcast as shapes
from ..ops import elementwise as ops
from ..ops import shape as joins
from ..ops.pairs import from_parts
from ..staging.guard import Guarded
from .layout import copied, held
from .reduce import argmax, argmin, cumprod, cumsum, per, prod, root_of, squared, sum
from .reduce import max as max_
from .reduce import mean as mean_
from .reduce import min as min_
from .reduce import var as var_
from .shape import astype
from .statistics import Axis, flag, interpolated, level, median, neighbours, one_axis, restore_axes, sample
from .table import implements, lift
from .ufunc import deliver
from .views import write


def _without(a: Value, fill: Any) -> Value:
    """nan replaced by a number that does not count."""
    if dtype_of(a).kind not in "fc":
        return a
    return shapes.where(ops.isnan(a), np.array(fill, dtype_of(a)), a)


def _counted(a: Value, where: Any = True) -> Any:
    """True for the elements that count."""
    there = ops.logical_not(ops.isnan(a))
    return there if where is True or where is np._NoValue else ops.logical_and(there, lift(where))


def _warn_if(condition: Value, message: str) -> None:
    if not isinstance(condition, Traced) and np.any(condition):
        warnings.warn(message, RuntimeWarning, stacklevel=5)


@implements(np.nansum)
def nansum(a: Any, *args: Any, **kwargs: Any) -> Value:
    return sum(_without(lift(a), 0), *args, **kwargs)


@implements(np.nanprod)
def nanprod(a: Any, *args: Any, **kwargs: Any) -> Value:
    return prod(_without(lift(a), 1), *args, **kwargs)


@implements(np.nancumsum)
def nancumsum(a: Any, *args: Any, **kwargs: Any) -> Value:
    return cumsum(_without(lift(a), 0), *args, **kwargs)


@implements(np.nancumprod)
def nancumprod(a: Any, *args: Any, **kwargs: Any) -> Value:
    return cumprod(_without(lift(a), 1), *args, **kwargs)


@implements(np.nanmax)
def nanmax(a: Any, *args: Any, **kwargs: Any) -> Value:
    return _extremum(max_, -np.inf, a, *args, **kwargs)


@implements(np.nanmin)
def nanmin(a: Any, *args: Any, **kwargs: Any) -> Value:
    return _extremum(min_, np.inf, a, *args, **kwargs)


def _extremum(
    function: Any,
    fill: float,
    a: Any,
    axis: Axis = None,
    out: Any = None,
    keepdims: Any = False,
    initial: Any = np._NoValue,
    where: Any = np._NoValue,
) -> Value:
    a = lift(a)
    if dtype_of(a).kind not in "fc":
        return function(a, axis, out, keepdims, initial, where)
    y = function(_without(a, fill), axis, None, keepdims, initial, where)
    # A slice of nothing but nan gives nan, unless there is a value to begin with.
    empty = np.all(ops.isnan(a), axis=reduced_axes(axis, ndim_of(a)), keepdims=flag(keepdims))
    if initial is np._NoValue and (isinstance(empty, Traced) or np.any(empty)):
        _warn_if(empty, "All-NaN slice encountered")
        y = shapes.where(empty, np.array(np.nan, dtype_of(y)), y)
    return deliver(y, out, casting="unsafe")


@implements(np.nanargmax)
def nanargmax(a: Any, axis: int | None = None, out: Any = None, *, keepdims: Any = False) -> Value:
    _some_number(lift(a), axis)
    return argmax(_without(lift(a), -np.inf), axis, out, keepdims=keepdims)


@implements(np.nanargmin)
def nanargmin(a: Any, axis: int | None = None, out: Any = None, *, keepdims: Any = False) -> Value:
    _some_number(lift(a), axis)
    return argmin(_without(lift(a), np.inf), axis, out, keepdims=keepdims)


def _some_number(a: Value, axis: int | None) -> None:
    empty = np.all(ops.isnan(a), axis=axis)
    if (not isinstance(empty, Traced) or isinstance(empty.by, Guarded)) and np.any(empty):
        raise ValueError("All-NaN slice encountered")


def _check_inexact(dtype: Any, out: Any) -> None:
    """A float argument needs a float result dtype."""
    if dtype is not None and not is_inexact(np.dtype(dtype)):
        raise TypeError("If a is inexact, then dtype must be inexact")
    if out is not None and not is_inexact(dtype_of(out)):
        raise TypeError("If a is inexact, then out must be inexact")


@implements(np.nanmean)
def nanmean(
    a: Any, axis: Axis = None, dtype: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = np._NoValue
) -> Value:
    a = lift(a)
    if not is_inexact(dtype_of(a)):
        return mean_(a, axis, dtype, out, keepdims, where=True if where is np._NoValue else where)
    _check_inexact(dtype, out)
    count = sum(_counted(a, where), axis, None, None, keepdims)
    _warn_if(ops.equal(count, 0), "Mean of empty slice")
    with np.errstate(invalid="ignore", divide="ignore"):
        return deliver(per(sum(_without(a, 0), axis, dtype, None, keepdims, where=where), count), out, casting="unsafe")


@implements(np.nanvar)
def nanvar(
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: Any = None,
    ddof: float = 0,
    keepdims: Any = False,
    *,
    where: Any = np._NoValue,
    mean: Any = np._NoValue,
    correction: Any = np._NoValue,
) -> Value:
    a = lift(a)
    if not is_inexact(dtype_of(a)):
        where = True if where is np._NoValue else where
        return var_(a, axis, dtype, out, ddof, keepdims, where=where, mean=mean, correction=correction)
    _check_inexact(dtype, out)
    if correction is not np._NoValue:
        if ddof != 0:
            raise ValueError("ddof and correction can't be provided simultaneously.")
        ddof = correction
    there = _counted(a, where)
    axes = reduced_axes(axis, ndim_of(a))
    freedom = sum(there, axes, None, None, keepdims) - ddof
    short = ops.less_equal(freedom, 0)
    _warn_if(short, "Degrees of freedom <= 0 for slice.")
    # Skipped elements are masked before any arithmetic, so that their nan reaches no product.
    clean = _without(a, 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        if mean is np._NoValue:
            mean = per(sum(clean, axes, dtype, None, True, where=there), sum(there, axes, None, None, True))
        deviation = astype(clean - mean, dtype_of(a))  # as in NumPy, for any requested dtype
        y = per(sum(squared(deviation), axes, dtype, None, keepdims, where=there), freedom)
    if isinstance(short, Traced) or np.any(short):
        y = shapes.where(short, np.array(np.nan, dtype_of(y)), y)
    return deliver(y, out, casting="unsafe")


@implements(np.nanstd)
def nanstd(a: Any, axis: Axis = None, dtype: Any = None, out: Any = None, *args: Any, **kwargs: Any) -> Value:
    return deliver(root_of(nanvar(a, axis, dtype, None, *args, **kwargs)), out)


@implements(np.nanmedian)
def nanmedian(a: Any, axis: Axis = None, out: Any = None, overwrite_input: bool = False, keepdims: Any = False) -> Value:
    a = lift(a)
    if dtype_of(a).kind not in "fc":
        return median(a, axis, out, overwrite_input, keepdims)
    if 0 in shape_of(a):
        return nanmean(a, axis, None, out, keepdims)
    x, axes, n = _numbered(a, axis)
    below, above = neighbours(x, (n - 1) // 2, n // 2, ())
    # A single middle element is not interpolated: the difference of two equal infinities is nan.
    y = shapes.where(ops.equal(n % 2, 1), below, mean_(joins.stack(below, above, axis=ndim_of(below)), axis=-1))
    return deliver(restore_axes(y, axes, keepdims), out, casting="unsafe")


def _numbered(a: Value, axis: Axis) -> tuple[Value, Shape, Value]:
    """The sample with the axes of the statistic as one, the last; these axes; how many numbers each row has, at least one."""
    x, axes = one_axis(a, axis)
    count = sum(_counted(x), axis=-1)
    _warn_if(ops.equal(count, 0), "All-NaN slice encountered")
    return x, axes, np.maximum(count, 1)


@implements(np.nanquantile)
def nanquantile(
    a: Any,
    q: Any,
    axis: Axis = None,
    out: Any = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: Any = np._NoValue,
    *,
    weights: Any = None,
) -> Value:
    if weights is not None and 0 not in shape_of(lift(a)):
        return _nan_weighted(a, q, axis, out, method, keepdims, weights)
    a = sample(a)
    return _quantile(a, level(q, a), axis, out, method, keepdims)


def _quantile(a: Value, q: Value, axis: Axis, out: Any, method: str, keepdims: Any) -> Value:
    if 0 in shape_of(a):  # as in NumPy, for any q
        return nanmean(a, axis, None, out, keepdims)
    x, axes, count = _numbered(a, axis)
    y = interpolated(x, q, count, method)  # nan sorts last, so the numbers come first
    if dtype_of(y) != dtype_of(a) and _first_slice_decides():
        first = np.any(_counted(x[(0,) * (ndim_of(x) - 1)]))
        if (not isinstance(first, Traced) or isinstance(first.by, Guarded)) and not first:
            y = astype(y, dtype_of(a))  # NumPy takes the dtype of the first slice: without numbers, that of the array
    return deliver(held(restore_axes(y, axes, keepdims, ndim_of(q))), out, casting="unsafe")


@functools.cache
def _first_slice_decides() -> bool:
    """Whether NumPy's nanquantile has the dtype of its first slice, as before version 2.5."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return np.nanquantile(np.array([[np.nan], [1]], np.float32), [0.5], axis=1).dtype == np.float32


def _nan_weighted(a: Any, q: Any, axis: Axis, out: Any, method: str, keepdims: Any, weights: Any) -> Value:
    """A nan has zero weight and sorts last, so it is never selected."""
    a, w = lift(a), lift(weights)
    if shape_of(w) != shape_of(a):
        thin = [n if i in canonical_axes(axis, ndim_of(a)) else 1 for i, n in enumerate(shape_of(a))]
        w = shapes.broadcast_to(shapes.reshape(w, shape=tuple(thin)), shape=shape_of(a))
    w = shapes.where(ops.isnan(a), 0.0, w)
    return np.quantile(_without(a, np.inf), q, axis, out, method=method, keepdims=flag(keepdims), weights=w)  # type: ignore[call-overload]


@implements(np.nanpercentile)
def nanpercentile(a: Any, q: Any, *args: Any, **kwargs: Any) -> Value:
    return nanquantile(a, lift(q) / 100, *args, **kwargs)


@implements(np.nan_to_num)
def nan_to_num(x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Value:
    """Replaced elements are constants."""
    x = lift(x)
    if not copy and isinstance(x, Traced) and is_array(x):
        write(x, ..., nan_to_num(copied(x), True, nan, posinf, neginf))
        return x
    if dtype_of(x).kind not in "fc":
        return copied(x)
    if dtype_of(x).kind == "c":
        parts = [nan_to_num(part, True, nan, posinf, neginf) for part in (np.real(x), np.imag(x))]
        return from_parts(*parts)
    limits = np.finfo(dtype_of(x))
    low, high = (limits.min if neginf is None else neginf), (limits.max if posinf is None else posinf)
    y = shapes.where(ops.isnan(x), _as(nan, x), x)
    y = shapes.where(ops.equal(x, np.inf), _as(high, x), y)
    return held(shapes.where(ops.equal(x, -np.inf), _as(low, x), y), "K", x)


def _as(number: Any, x: Value) -> Value:
    return number if isinstance(number, Traced) else np.asarray(number, dtype_of(x))
