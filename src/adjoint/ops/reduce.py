"""Reductions and scans that are not sums. Ties of max and min share the cotangent equally."""

from __future__ import annotations

import math
from itertools import accumulate
from typing import Any

import numpy as np

from ..core.op import case
from ..core.types import Shape, Value, dtype_of, shape_of
from .broadcast import cast, expand_dims, spread, sum_, where
from .declare import constant, linear, opaque
from .elementwise import equal, greater, isinf, logical_and, logical_or, strong_mul, strong_mul_either
from .index import getitem
from .shape import concatenate, flip


def _tie_weights(x: Value, y: Value, axis: Shape, keepdims: bool) -> Value:
    """Equal weights on the elements that attain the extremum."""
    return equal_weights(equal(x, spread(y, shape_of(x), axis, keepdims)), x, y if keepdims else expand_dims(y, axis), axis)


def equal_weights(hit: Value, x: Value, y: Value, axis: Shape) -> Value:
    """One over the number of hits, on each of them; nan where y is nan, or an infinity that several elements have: of values that
    have overflowed, it is not known which is the largest.
    """
    count = sum_(hit, axis=axis, keepdims=True)
    undecided = logical_or(equal(count, 0), logical_and(isinf(y), greater(count, 1)))
    weights = hit * (1 / where(undecided, np.nan, count))
    return cast(weights, dtype=dtype_of(x)) if dtype_of(x) != dtype_of(weights) else weights


def _extremum(name: str, impl: Any) -> Any:
    def jvp(ts: Any, y: Value, x: Value, *, axis: Shape, keepdims: bool) -> Value:
        return sum_(strong_mul_either(ts[0], _tie_weights(x, y, axis, keepdims)), axis=axis, keepdims=keepdims)

    def vjp(g: Value, y: Value, x: Value, *, axis: Shape, keepdims: bool) -> Any:
        return (strong_mul_either(spread(g, shape_of(x), axis, keepdims), _tie_weights(x, y, axis, keepdims)),)

    return opaque(
        name,
        lambda x, *, axis, keepdims: impl.reduce(x, axis=axis, keepdims=keepdims),
        jvp=jvp,
        vjp=vjp,
        axes="axis",
        choice=True,
        finite=True,
        cases=[
            case((2, 3), axis=(0,), keepdims=False),
            case((2, 3, 2), axis=(0, 2), keepdims=True),
            case((3,), axis=(0,), keepdims=False),
        ],
        python=f"np.{name}",
    )


max_ = _extremum("max", np.maximum)
min_ = _extremum("min", np.minimum)


_DOUBLED = 16  # elements up to which products are computed by doubling: elementwise, so that they are fused


def others_product(x: Value, axis: int) -> Value:
    """For each element, the product of all the others along an axis: exact at zeros, from both sides."""
    if type(x) is np.ndarray:
        return _others_of_numbers(x, axis)
    return _product_before(x, axis) * flip(_product_before(flip(x, axis), axis), axis)


def _others_of_numbers(x: Any, axis: int) -> Any:
    """The same for plain numbers, in four operations."""
    rows = x.swapaxes(0, axis)  # np.moveaxis takes as long as all the rest
    before, after = np.ones_like(rows), np.ones_like(rows)
    np.multiply.accumulate(rows[:-1], axis=0, out=before[1:])
    np.multiply.accumulate(rows[:0:-1], axis=0, out=after[-2::-1])
    before *= after
    return before.swapaxes(0, axis)


def _product_before(x: Value, axis: int) -> Value:
    n = shape_of(x)[axis]
    if n > _DOUBLED:
        return _delay(cumprod(x, axis=axis), 1, axis)
    result = _delay(x, 1, axis)
    step = 1
    while step < n:
        result = result * _delay(result, step, axis)
        step *= 2
    return result


def _delay(x: Value, k: int, axis: int, fill: float = 1.0) -> Value:
    """Shift by k along an axis, filling with ones, or another number."""
    shape = shape_of(x)
    k = min(k, shape[axis])
    before = np.full((*shape[:axis], k, *shape[axis + 1 :]), fill, x.dtype)
    return concatenate(before, getitem(x, spec=(slice(None),) * axis + (slice(0, shape[axis] - k),)), axis=axis)


def _product_jvp(ts: Any, y: Value, x: Value, *, axis: int) -> Value:
    return sum_(strong_mul(ts[0], others_product(x, axis)), axis=(axis,), keepdims=False)


def _product_vjp(g: Value, y: Value, x: Value, *, axis: int) -> Any:
    return (strong_mul(spread(g, shape_of(x), (axis,), False), others_product(x, axis)),)


prod = opaque(
    "prod",
    lambda x, *, axis: np.multiply.reduce(x, axis=axis),
    jvp=_product_jvp,
    vjp=_product_vjp,
    axes="axis",
    cases=[
        case((3,), axis=0),
        case((2, 3), axis=1),
        case((2, 1), axis=1),
        case((2, 0), axis=1),
        case(np.array([0.0, 2.0, 0.0, 3.0]), axis=0),
    ],
    python="np.prod",
    finite=True,
)

cumsum = linear(
    "cumsum",
    lambda x, *, axis: np.add.accumulate(x, axis=axis),
    transpose=lambda g, x, *, axis: flip(cumsum(flip(g, axis), axis=axis), axis),
    axes="axis",
    cases=[case((3,), axis=0), case((2, 3), axis=1), case((0, 3), axis=0)],
    python="np.cumsum",
    terms="added",
)


# -- the first-order linear recurrence, and the cumulative product, whose derivatives are such recurrences -------------


def _recurrence(a: Any, b: Any, *, axis: int) -> Any:
    """Step by step, so that no unneeded product of coefficients can overflow."""
    shape, dtype = np.broadcast_shapes(a.shape, b.shape), np.result_type(a, b)
    a, b = (np.moveaxis(np.broadcast_to(x, shape), axis, 0) for x in (a, b))
    y = np.empty(b.shape, dtype)
    lanes = math.prod(b.shape[1:])
    if not y.size:
        pass
    elif lanes < _FEW_LANES and dtype.char in "efdFD":  # exactly representable as Python numbers
        columns = (x.reshape(len(y), lanes).T.tolist() for x in (a, b))
        steps = [list(accumulate(zip(a[1:], b[1:], strict=True), _step, initial=b[0])) for a, b in zip(*columns, strict=True)]
        y[:] = np.array(steps).T.reshape(y.shape)
    else:
        y[0] = b[0]
        for i in range(1, len(y)):
            np.multiply(a[i], y[i - 1], out=y[i, ...])
            y[i] += b[i]
    return np.moveaxis(y, 0, axis)


_FEW_LANES = 8


def _step(y: Any, factors: Any) -> Any:
    a, b = factors
    return a * y + b


def _recurrence_jvp(ts: Any, y: Value, a: Value, b: Value, *, axis: int) -> Value:
    ta, tb = ts
    if ta is None:
        return recurrence(a, tb, axis=axis)
    by_a = strong_mul(ta, _delay(y, 1, axis, 0.0))
    return recurrence(a, by_a if tb is None else by_a + tb, axis=axis)


def _recurrence_vjp(g: Value, y: Value, a: Value, b: Value, *, axis: int) -> Any:
    gb = recurrence_backwards(a, g, axis)
    return strong_mul(gb, _delay(y, 1, axis, 0.0)), gb


def recurrence_backwards(a: Value, g: Value, axis: int) -> Value:
    """r with r_i = g_i + a_{i+1} r_{i+1}."""
    return flip(recurrence(_delay(flip(a, axis), 1, axis, 0.0), flip(g, axis), axis=axis), axis)


recurrence = opaque(
    "recurrence",
    _recurrence,
    jvp=_recurrence_jvp,
    vjp=_recurrence_vjp,
    axes="axis",
    cases=[
        case((4,), (4,), axis=0),
        case((2, 3), (2, 3), axis=1),
        case((3, 9), (3, 9), axis=0),
        case((1,), (1,), axis=0),
        case(np.array([0.5, 0.0, 2.0]), (3,), axis=0),
    ],
    complex_domain=True,
    doc="y with y_0 = b_0 and y_i = a_i y_{i-1} + b_i along an axis.",
    python="recurrence",
)

# ∂y_i/∂x_j is the product of x_0..x_i without x_j. The product before j, times a recurrence over the factors after j: no
# division, hence exact at zeros.
cumprod = opaque(
    "cumprod",
    lambda x, *, axis: np.multiply.accumulate(x, axis=axis),
    jvp=lambda ts, y, x, *, axis: recurrence(x, strong_mul(ts[0], _delay(y, 1, axis)), axis=axis),
    vjp=lambda g, y, x, *, axis: (strong_mul(recurrence_backwards(x, g, axis), _delay(y, 1, axis)),),
    axes="axis",
    cases=[case((3,), axis=0), case((2, 3), axis=1), case((0, 3), axis=0), case(np.array([0.0, 2.0, 0.0, 3.0]), axis=0)],
    doc="Cumulative product. The derivative is exact at zeros and costs as much as the product.",
    python="np.cumprod",
    finite=True,
)


def _arg(name: str, impl: Any) -> Any:
    return constant(
        name,
        lambda x, *, axis: impl(x, axis=axis),
        axes="axis",
        cases=[case((3,), axis=0), case((2, 3), axis=1)],
        python=f"np.{name}",
    )


argmax = _arg("argmax", np.argmax)
argmin = _arg("argmin", np.argmin)
argsort = constant(
    "argsort",
    lambda x, *, axis, kind: np.argsort(x, axis=axis, kind=kind),
    axes="axis",
    cases=[case((3,), axis=0, kind=None), case((2, 3), axis=1, kind="stable")],
    python="np.argsort",
)


def _logical(name: str, impl: Any) -> Any:
    return constant(
        name,
        lambda x, *, axis, keepdims: impl.reduce(x, axis=axis, keepdims=keepdims),
        axes="axis",
        cases=[case((2, 3), axis=(1,), keepdims=False)],
        python=f"np.{name}",
    )


all_ = _logical("all", np.logical_and)
any_ = _logical("any", np.logical_or)
count_nonzero = constant(
    "count_nonzero",
    lambda x, *, axis, keepdims: np.count_nonzero(x, axis=axis, keepdims=keepdims),
    axes="axis",
    cases=[case((2, 3), axis=(1,), keepdims=False)],
    python="np.count_nonzero",
)


def _running(name: str, impl: Any) -> Any:
    return constant(
        name,
        lambda x, *, axis: impl.accumulate(x, axis=axis),
        axes="axis",
        cases=[case((4,), axis=0), case((2, 3), axis=1)],
        python=f"np.{impl.__name__}.accumulate",
    )


# The values only: their sources are computed when they are differentiated.
running_max = _running("running_max", np.maximum)
running_min = _running("running_min", np.minimum)
