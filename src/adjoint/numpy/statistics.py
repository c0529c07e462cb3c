"""Averages, covariances, and order statistics: median, percentile, quantile."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from ..core.bind import Traced, class_of, fresh, numbers
from ..core.types import Shape, Value, canonical_axes, dtype_of, is_inexact, ndim_of, shape_of
from ..eager.batch import Batch
from ..ops import broadcast as shapes
from ..ops import elementwise as ops
from ..ops import linalg
from ..ops import reduce as reductions
from ..ops import sort as sorts
from ..staging.guard import Guarded
from .layout import asked, held, held_by
from .reduce import mean, mean_for, sum
from .shape import astype, concatenate, moveaxis, reshape
from .table import implements, lift
from .ufunc import check_cast, deliver

Axis = int | tuple[int, ...] | None


def flag(keepdims: Any) -> bool:
    return False if keepdims is np._NoValue else bool(keepdims)


# -- averages ---------------------------------------------------------------------------------------------------


@implements(np.average)
def average(a: Any, axis: Axis = None, weights: Any = None, returned: bool = False, *, keepdims: Any = np._NoValue) -> Any:
    a = lift(a)
    axes = canonical_axes(axis, ndim_of(a))
    keep = flag(keepdims)
    total: Value
    if weights is None:
        y = mean(a, axes, keepdims=keep)
        total = np.float64(math.prod(shape_of(a)[i] for i in axes))
    else:
        w = _like_sample(lift(weights), a, axes, axis)
        dtype = np.result_type(dtype_of(a), dtype_of(w), *(() if is_inexact(dtype_of(a)) else (np.float64,)))
        total = sum(w, axes, dtype, keepdims=keep)
        if is_known(total) and np.any(ops.equal(total, 0)):
            raise ZeroDivisionError("Weights sum to zero, can't be normalized")
        y = sum(astype(a, dtype) * w, axes, keepdims=keep) / total
        y = held_by(y, lambda: asked(y, lambda m: np.sum(m, axis=axes, keepdims=keep), a))
    if not returned:
        return y
    total = astype(total, dtype_of(y)) if dtype_of(total) != dtype_of(y) else total
    return y, shapes.broadcast_to(total, shape=shape_of(y)) if shape_of(total) != shape_of(y) else total


def is_known(x: Value) -> bool:
    """Whether a check of its values can be made: on numbers, and in a program, as a guard. Examples of a batch may differ."""
    while isinstance(x, Traced) and x.by.has_numbers and not isinstance(x.by, Batch):
        x = x.underlying
    return not isinstance(x, Traced) or isinstance(x.by, Guarded)


def _like_sample(w: Value, a: Value, axes: Shape, axis: Axis) -> Value:
    """Weights given for the averaged axes only, spread over the whole sample."""
    if shape_of(w) == shape_of(a):
        return w
    if axis is None:
        raise TypeError("Axis must be specified when shapes of a and weights differ.")
    if shape_of(w) != tuple(shape_of(a)[i] for i in axes):
        raise ValueError("Shape of weights must be consistent with shape of a along specified axis.")
    ordered = sorted(axes)
    w = shapes.transpose(w, axes=tuple(axes.index(i) for i in ordered))
    thin = tuple(n if i in axes else 1 for i, n in enumerate(shape_of(a)))
    return shapes.broadcast_to(shapes.reshape(w, shape=thin), shape=shape_of(a))


@implements(np.cov)
def cov(
    m: Any,
    y: Any = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: Any = None,
    aweights: Any = None,
    *,
    dtype: Any = None,
) -> Value:
    x = _variables(m, y, rowvar)
    if not math.prod(shape_of(lift(m))[:1] if rowvar else shape_of(lift(m))[1:]) and ndim_of(lift(m)) == 2:
        return fresh(np.zeros((0, 0)))  # no variables
    x = astype(x, np.result_type(dtype_of(x), np.float64) if dtype is None else dtype)
    check_cast(np.dtype(float), dtype_of(x), "same_kind")  # of the mean that is subtracted
    ddof = (0 if bias else 1) if ddof is None else ddof
    w = _observation_weights(fweights, aweights, shape_of(x)[1])
    if w is None:
        count: Value = shape_of(x)[1]
        deviation = x - mean(x, axis=1, keepdims=True)
        weighted = deviation
        factor = count - ddof
    else:
        total = sum(w)
        deviation = x - sum(x * w, axis=1, keepdims=True) / total
        weighted = deviation * w
        factor = total - ddof * (1 if aweights is None else sum(w * lift(aweights)) / total)
    if not isinstance(factor, Traced) and factor <= 0:
        warnings.warn("Degrees of freedom <= 0 for slice", RuntimeWarning, stacklevel=2)
        factor = 0.0
    turned = linalg.swap(weighted)
    c = linalg.matmul(deviation, shapes.conj(turned) if dtype_of(x).kind == "c" else turned) / factor
    return shapes.reshape(c, shape=tuple(n for n in shape_of(c) if n != 1))


def _variables(m: Any, y: Any, rowvar: bool) -> Value:
    """One variable per row."""

    def rows(a: Any, is_one: bool) -> Value:
        if dtype_of(a).kind not in "fc":
            a = astype(a, float)
        a = reshape(a, (1,) * (2 - ndim_of(a)) + shape_of(a))
        return a if rowvar or is_one else linalg.swap(a)

    m = lift(m)
    for name, a in (("m", m), *((("y", lift(y)),) if y is not None else ())):
        if ndim_of(a) > 2:
            raise ValueError(f"{name} has more than 2 dimensions")
    x = rows(m, ndim_of(m) == 1)
    if y is None:
        return x
    y = lift(y)
    return concatenate([x, rows(y, ndim_of(y) < 2 or shape_of(y)[0] == 1)], 0)  # one row of y is one variable, as in NumPy


def _observation_weights(fweights: Any, aweights: Any, count: int) -> Value | None:
    f = None if fweights is None else _checked_weights("fweights", fweights, count)
    if f is not None and dtype_of(f).kind not in "iub" and np.any(f != np.around(f)):
        raise TypeError("fweights must be integer")
    a = None if aweights is None else _checked_weights("aweights", aweights, count)
    return a if f is None else f if a is None else f * a


def _checked_weights(name: str, weights: Any, count: int) -> Value:
    w = lift(weights)
    if ndim_of(w) > 1:
        raise RuntimeError(f"cannot handle multidimensional {name}")
    if shape_of(w)[0] != count:
        raise RuntimeError(f"incompatible numbers of samples and {name}")
    negative = ops.less(w, 0)
    if not isinstance(negative, Traced) and np.any(negative):
        raise ValueError(f"{name} cannot be negative")
    return w


@implements(np.corrcoef)
def corrcoef(x: Any, y: Any = None, rowvar: bool = True, *, dtype: Any = None) -> Value:
    c = cov(x, y, rowvar, dtype=dtype)
    if ndim_of(c) == 0:
        return c / c
    spread = ops.sqrt(np.real(np.diagonal(c)))
    c = c / linalg.column(spread) / linalg.row(spread)
    # Rounding must not push a correlation beyond one; the slope there is unchanged.
    if dtype_of(c).kind == "c":
        return c
    return c + ops.stop_gradient(np.clip(c, -1, 1) - c)


# -- quantiles --------------------------------------------------------------------------------------------------


@implements(np.median)
def median(a: Any, axis: Axis = None, out: Any = None, overwrite_input: bool = False, keepdims: Any = False) -> Value:
    x, axes = one_axis(lift(a), axis)
    n = shape_of(x)[-1]
    if n == 0:
        return deliver(mean(lift(a), axes, keepdims=flag(keepdims)), out, casting="unsafe")
    middle = (n // 2,) if n % 2 else (n // 2 - 1, n // 2)
    y = mean_for(out, sorts.order_statistics(x, kth=middle, axis=ndim_of(x) - 1), -1)
    y = restore_axes(_poison(y, x), axes, keepdims)
    if len(axes) == 1:  # else NumPy makes one axis of several first, which copies
        y = held_by(y, lambda: asked(y, lambda m: np.max(m, axis=axes, keepdims=flag(keepdims)), lift(a)))
    return deliver(y, out, casting="unsafe")


def sample(a: Any) -> Value:
    """Real numbers, which have an order."""
    a = lift(a)
    if dtype_of(a).kind == "c":
        raise TypeError("a must be an array of real numbers")
    return a


def level(q: Any, a: Value) -> Value:
    """The level of a quantile: a Python number gets the dtype of a sample of floats."""
    q = lift(q)
    return astype(q, dtype_of(a)) if isinstance(q, Traced) and class_of(q) in (int, float) and dtype_of(a).kind == "f" else q


@implements(np.quantile)
def quantile(
    a: Any,
    q: Any,
    axis: Axis = None,
    out: Any = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: Any = False,
    *,
    weights: Any = None,
) -> Value:
    a = sample(a)
    q = level(q, a)
    x, axes = one_axis(a, axis)
    if weights is None:
        y = _poison(interpolated(x, q, shape_of(x)[-1], method), x)
    else:
        if method != "inverted_cdf":
            raise ValueError(f"Only method 'inverted_cdf' supports weights. Got: {method}.")
        w, _ = one_axis(_like_sample(lift(weights), a, canonical_axes(axis, ndim_of(a)), axis), axis)
        flat = _weighted(x, shapes.reshape(q, shape=(math.prod(shape_of(q)),)), w) if ndim_of(q) > 1 else _weighted(x, q, w)
        y = _poison(shapes.reshape(flat, shape=shape_of(q) + shape_of(x)[:-1]), x)
    return deliver(held(restore_axes(y, axes, keepdims, ndim_of(q))), out, spread=True)


@implements(np.percentile)
def percentile(a: Any, q: Any, *args: Any, **kwargs: Any) -> Value:
    return quantile(a, lift(q) / 100, *args, **kwargs)


def one_axis(a: Value, axis: Axis) -> tuple[Value, Shape]:
    """The sample with the axes of the statistic as one, the last."""
    axes = canonical_axes(axis, ndim_of(a))
    rest = [i for i in range(ndim_of(a)) if i not in axes]
    if not axes:
        return shapes.expand_dims(a, (ndim_of(a),)), axes
    if rest or len(axes) > 1:
        a = shapes.transpose(a, axes=(*rest, *axes))
    if len(axes) == 1:
        return a, axes
    return shapes.reshape(a, shape=(*shape_of(a)[: len(rest)], math.prod(shape_of(a)[len(rest) :]))), axes


def restore_axes(y: Value, axes: Shape, keepdims: Any, front: int = 0) -> Value:
    """The reduced axes restored with length one if requested; `front` axes precede those of the sample."""
    return shapes.expand_dims(y, tuple(i + front for i in axes)) if flag(keepdims) else y


def _poison(y: Value, x: Value) -> Value:
    """nan wherever the sample has one; an integer `out` has none."""
    if not is_inexact(dtype_of(x)) or not is_inexact(dtype_of(y)):
        return y
    bad = reductions.any_(ops.isnan(x), axis=(ndim_of(x) - 1,), keepdims=False)
    if not isinstance(bad, Traced) and not np.any(bad):
        return y
    return y + shapes.where(bad, np.array(np.nan, dtype_of(y)), np.array(0, dtype_of(y)))


# The position of a quantile among n sorted values, counted from 0, by Hyndman and Fan's α and β.
_CONTINUOUS = {
    "interpolated_inverted_cdf": (0.0, 1.0),
    "hazen": (0.5, 0.5),
    "weibull": (0.0, 0.0),
    "linear": (1.0, 1.0),
    "median_unbiased": (1 / 3, 1 / 3),
    "normal_unbiased": (3 / 8, 3 / 8),
}


_FEW = 5  # quantiles that are found without sorting

#: Methods that give an element of the sample, so in its dtype.
_JUMPS = ("lower", "higher", "nearest", "inverted_cdf", "closest_observation")


def _position(q: Value, n: Value, method: str) -> tuple[Value, Value, Value]:
    """Two neighbours among n sorted values, and the weight of the second; an element twice for methods that jump."""
    last = n - 1
    if method in _CONTINUOUS:
        alpha, beta = _CONTINUOUS[method]
        p = last * q if method == "linear" else n * q + (alpha + q * (1 - alpha - beta)) - 1
        if isinstance(q, Traced):  # at the ends the slope in q is that of the last step inside
            p = np.minimum(np.maximum(p, 0), last)
            low = np.minimum(np.floor(p), np.maximum(last - 1, 0))
            return low, np.minimum(low + 1, last), p - low
        return *_around(p, last), p - np.floor(p)
    fixed = ops.stop_gradient(q)  # the other methods jump from one element to the next
    p = last * fixed
    if method == "midpoint":
        return *_around(p, last), np.where(p == np.floor(p), 0.0, 0.5)[()]
    if method == "averaged_inverted_cdf":
        p = n * fixed - 1
        return *_around(p, last), np.where(p == np.floor(p), 0.5, 1.0)[()]
    if method == "lower":
        at = np.floor(p)
    elif method == "higher":
        at = np.ceil(p)
    elif method == "nearest":
        at = np.around(p)
    elif method == "inverted_cdf":
        at = np.ceil(n * fixed) - 1
    elif method == "closest_observation":
        at = np.rint(n * fixed) - 1
    else:
        known = [*_CONTINUOUS, "lower", "higher", "nearest", "midpoint", "inverted_cdf", "averaged_inverted_cdf"]
        raise ValueError(f"{method!r} is not a valid method. Use one of: {[*known, 'closest_observation']}")
    at = np.minimum(np.maximum(at, 0), last)
    return at, at, 0.0


def _around(p: Value, last: Value) -> tuple[Value, Value]:
    """The elements before and after a position; beyond the ends, as at the last, one element twice, as NumPy has it."""
    low = np.floor(p)
    return tuple(np.minimum(np.maximum(k, 0), last) for k in (low, np.where(p < 0, 0, low + 1)[()]))  # type: ignore[return-value]


def _is_level(q: Value) -> Value:
    return ops.logical_and(ops.greater_equal(q, 0), ops.less_equal(q, 1))


def interpolated(x: Value, q: Value, n: Value, method: str) -> Value:
    """Quantiles along the last axis, of which the first n sorted values count; the axes of q come first."""
    given = q if is_known(q) else numbers(q)
    if given is not None and not np.all(_is_level(given)):
        raise ValueError("Quantiles must be in the range [0, 1]")
    rest = shape_of(x)[:-1]
    q_shape = shape_of(q)
    if len(q_shape) > 1:
        flat = interpolated(x, shapes.reshape(q, shape=(math.prod(q_shape),)), n, method)
        return shapes.reshape(flat, shape=q_shape + rest)
    weak = type(q) in (int, float)  # a Python number is weak in promotion
    if not weak:
        q = shapes.reshape(q, shape=q_shape + (1,) * len(rest))
        n = n if isinstance(n, int) else astype(n, np.result_type(dtype_of(q), np.float16))  # positions in the precision of q
    low, high, weight = _position(q, n, method)
    if type(weight) is float and not weak and method not in _JUMPS:
        weight = np.asarray(weight, dtype_of(low))
    if isinstance(n, int) and not isinstance(low, Traced) and np.size(low) <= _FEW:
        below, above = _few(x, low, high, q_shape)
    else:
        below, above = neighbours(x, low, high, q_shape)
    y = below if method in _JUMPS else _between(below, above, weight)
    if given is None:  # a program cannot raise the error
        y = shapes.where(_is_level(q), y, np.nan)
    wanted = dtype_of(below) if method in _JUMPS else np.result_type(dtype_of(below), 0.5 if weak else dtype_of(q))
    return astype(y, wanted) if dtype_of(y) != wanted else y


def _between(below: Value, above: Value, weight: Value) -> Value:
    """below + (above - below) · weight, from the nearer end as in NumPy, so that infinite neighbours give the same result."""
    step = above - below
    if not isinstance(weight, Traced) and np.ndim(weight) == 0:
        return above - step * (1 - weight) if weight >= 0.5 else below + step * weight
    return shapes.where(ops.greater_equal(weight, 0.5), above - step * (1 - weight), below + step * weight)


def _few(x: Value, low: Any, high: Any, q_shape: Shape) -> tuple[Value, Value]:
    """Neighbours for a few quantiles, in linear time."""
    below, above = (tuple(int(k) for k in np.ravel(side)) for side in (low, high))
    wanted = below if below == above else below + above
    found = sorts.order_statistics(x, kth=wanted, axis=ndim_of(x) - 1)
    found = moveaxis(found, -1, 0)
    count = len(below)
    result = [np.copy(found[:count]), np.copy(found[count:] if len(wanted) > count else found[:count])]
    return tuple(shapes.reshape(part, shape=q_shape + shape_of(x)[:-1]) for part in result)  # type: ignore[return-value]


def neighbours(x: Value, low: Value, high: Value, q_shape: Shape) -> tuple[Value, Value]:
    """Neighbours in the fully sorted sample; their indices may differ between rows."""
    rest = shape_of(x)[:-1]
    ordered = sorts.sort(x, ndim_of(x) - 1)

    def pick(number: Value) -> Value:
        number = astype(number, np.intp)
        if not q_shape:
            number = shapes.reshape(shapes.broadcast_to(number, shape=rest), shape=(*rest, 1))
            return shapes.reshape(sorts.take_along(ordered, number, axis=len(rest)), shape=rest)
        number = moveaxis(shapes.broadcast_to(number, shape=q_shape + rest), 0, -1)
        return moveaxis(sorts.take_along(ordered, number, axis=len(rest)), -1, 0)

    below = pick(low)
    return below, below if high is low else pick(high)


def _weighted(x: Value, q: Value, w: Value) -> Value:
    """The first element at which the cumulative weight reaches q: piecewise constant in q and in the weights."""
    axis = ndim_of(x) - 1
    rest = shape_of(x)[:-1]
    order = reductions.argsort(x, axis=axis, kind=None)
    w = astype(ops.stop_gradient(w), np.float64)  # whatever the weights are, they are added in double precision
    negative = reductions.any_(ops.less(w, 0), axis=tuple(range(ndim_of(w))), keepdims=False)
    if (not isinstance(negative, Traced) or isinstance(negative.by, Guarded)) and negative:
        raise ValueError("Weights must be non-negative.")
    share = reductions.cumsum(sorts.take_along(w, order, axis=axis), axis=axis)
    share = share / share[..., -1:]
    lost = ops.isnan(share[..., -1:])
    if (not isinstance(lost, Traced) or isinstance(lost.by, Guarded)) and np.any(lost):
        raise ValueError("Weights included NaN, inf or were all zero.")
    q = ops.stop_gradient(q)
    q_shape = shape_of(q)
    level = shapes.reshape(q, shape=(*q_shape, *(1,) * len(rest), 1))
    # A leading element of zero weight is never chosen.
    before = ops.logical_or(ops.less(share, level), ops.equal(share, 0))
    number = np.minimum(sum(before, axis=-1), shape_of(x)[-1] - 1)
    return neighbours(x, number, number, q_shape)[0]
