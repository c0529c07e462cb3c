"""Reductions and scans that are not sums. Ties of max and min share the cotangent equally."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.op import case
from ..core.types import Shape, Value, dtype_of, ndim_of, shape_of
from .broadcast import cast, spread, sum_, where
from .declare import constant, linear, opaque, shift
from .elementwise import absorb, chain, equal, isnan, logical_or
from .index import getitem
from .shape import concatenate, flip


def _tie_weights(x: Value, y: Value, axis: Shape, keepdims: bool) -> Value:
    """Equal weights on the elements that attain the extremum (on the nans, where it is nan)."""
    hit = logical_or(equal(x, spread(y, shape_of(x), axis, keepdims)), isnan(x))
    weights = where(hit, 1 / sum_(hit, axis=axis, keepdims=True), 0.0)
    return cast(weights, dtype=dtype_of(x)) if dtype_of(x) != dtype_of(weights) else weights


def _extremum(name: str, impl: Any) -> Any:
    def jvp(ts: Any, y: Value, x: Value, *, axis: Shape, keepdims: bool) -> Value:
        return sum_(absorb(ts[0], _tie_weights(x, y, axis, keepdims)), axis=axis, keepdims=keepdims)

    def vjp(g: Value, y: Value, x: Value, *, axis: Shape, keepdims: bool) -> Any:
        return (absorb(spread(g, shape_of(x), axis, keepdims), _tie_weights(x, y, axis, keepdims)),)

    op = opaque(
        name,
        lambda x, *, axis, keepdims: impl.reduce(x, axis=axis, keepdims=keepdims),
        jvp=jvp,
        vjp=vjp,
        batch=lambda flags, x, *, axis, keepdims: op(x, axis=shift(axis), keepdims=keepdims),
        cases=[
            case((2, 3), axis=(0,), keepdims=False),
            case((2, 3, 2), axis=(0, 2), keepdims=True),
            case((3,), axis=(0,), keepdims=False),
        ],
    )
    return op


max_ = _extremum("max", np.maximum)
min_ = _extremum("min", np.minimum)


def others_product(x: Value, axis: int) -> Value:
    """For each element, the product of all the others along an axis: exact at zeros, by doubling from both sides."""
    return _product_before(x, axis) * flip(_product_before(flip(x, axis), axis), axis)


def _product_before(x: Value, axis: int) -> Value:
    n = shape_of(x)[axis]
    result = _delay(x, 1, axis)
    step = 1
    while step < n:
        result = result * _delay(result, step, axis)
        step *= 2
    return result


def _delay(x: Value, k: int, axis: int) -> Value:
    """Shift by k along an axis, filling with ones."""
    shape = shape_of(x)
    k = min(k, shape[axis])
    ones = np.ones((*shape[:axis], k, *shape[axis + 1 :]), x.dtype)
    return concatenate(ones, getitem(x, spec=(slice(None),) * axis + (slice(0, shape[axis] - k),)), axis=axis)


def _product_jvp(ts: Any, y: Value, x: Value, *, axis: int) -> Value:
    return sum_(chain(ts[0], others_product(x, axis)), axis=(axis,), keepdims=False)


def _product_vjp(g: Value, y: Value, x: Value, *, axis: int) -> Any:
    return (chain(spread(g, shape_of(x), (axis,), False), others_product(x, axis)),)


prod = opaque(
    "prod",
    lambda x, *, axis: np.multiply.reduce(x, axis=axis),
    jvp=_product_jvp,
    vjp=_product_vjp,
    batch=lambda flags, x, *, axis: prod(x, axis=axis + 1),
    cases=[
        case((3,), axis=0),
        case((2, 3), axis=1),
        case((2, 1), axis=1),
        case((2, 0), axis=1),
        case(np.array([0.0, 2.0, 0.0, 3.0]), axis=0),
    ],
)

cumsum = linear(
    "cumsum",
    lambda x, *, axis: np.add.accumulate(x, axis=axis),
    transpose=lambda g, x, *, axis: flip(cumsum(flip(g, axis), axis=axis), axis),
    batch=lambda flags, x, *, axis: cumsum(x, axis=axis + 1),
    cases=[case((3,), axis=0), case((2, 3), axis=1), case((0, 3), axis=0)],
)


def _cumprod_terms(x: Value, y: Value, axis: int) -> Value:
    """∂y_i/∂x_j as a matrix on the last two axes: the product of x_0..x_i without x_j, zero for j > i."""
    n = shape_of(x)[axis]
    # With x_j replaced by 1 in row j, cumulative products along the axis are the partials: no division by zero.
    x = spread_axis(x, axis, n)
    eye = np.eye(n, dtype=bool)
    from_j = np.tri(n, dtype=bool).T
    shape = [1] * ndim_of(x)
    shape[axis], shape[axis + 1] = n, n
    replaced = np.where(eye.reshape(shape), 1.0, x)
    return cumprod(replaced, axis=axis + 1) * from_j.reshape(shape)


def spread_axis(x: Value, axis: int, n: int) -> Value:
    """Repeat x n times along a new axis in front of `axis`."""
    shape = shape_of(x)
    return spread(x, (*shape[:axis], n, *shape[axis:]), (axis,), False)


cumprod = opaque(
    "cumprod",
    lambda x, *, axis: np.multiply.accumulate(x, axis=axis),
    jvp=lambda ts, y, x, *, axis: sum_(
        chain(broadcast_rows(ts[0], axis), _cumprod_terms(x, y, axis)), axis=(axis,), keepdims=False
    ),
    vjp=lambda g, y, x, *, axis: (
        sum_(chain(spread_axis(g, axis, shape_of(x)[axis]), _cumprod_terms(x, y, axis)), axis=(axis + 1,), keepdims=False),
    ),
    batch=lambda flags, x, *, axis: cumprod(x, axis=axis + 1),
    cases=[case((3,), axis=0), case((2, 3), axis=1), case(np.array([0.0, 2.0, 0.0, 3.0]), axis=0)],
    doc="Cumulative product. The derivative is exact at zeros and costs n² along the axis.",
)


def broadcast_rows(t: Value, axis: int) -> Value:
    """t_j as the matrix with t_j in row j."""
    shape = shape_of(t)
    n = shape[axis]
    return spread(t, (*shape[: axis + 1], n, *shape[axis + 1 :]), (axis + 1,), False)


def _arg(name: str, impl: Any) -> Any:
    op = constant(
        name,
        lambda x, *, axis: impl(x, axis=axis),
        batch=lambda flags, x, *, axis: op(x, axis=axis + 1),
        cases=[case((3,), axis=0), case((2, 3), axis=1)],
    )
    return op


argmax = _arg("argmax", np.argmax)
argmin = _arg("argmin", np.argmin)
argsort = constant(
    "argsort",
    lambda x, *, axis, kind: np.argsort(x, axis=axis, kind=kind),
    batch=lambda flags, x, *, axis, kind: argsort(x, axis=axis + 1, kind=kind),
    cases=[case((3,), axis=0, kind=None), case((2, 3), axis=1, kind="stable")],
)


def _logical(name: str, impl: Any) -> Any:
    op = constant(
        name,
        lambda x, *, axis, keepdims: impl.reduce(x, axis=axis, keepdims=keepdims),
        batch=lambda flags, x, *, axis, keepdims: op(x, axis=shift(axis), keepdims=keepdims),
        cases=[case((2, 3), axis=(1,), keepdims=False)],
    )
    return op


all_ = _logical("all", np.logical_and)
any_ = _logical("any", np.logical_or)
count_nonzero = constant(
    "count_nonzero",
    lambda x, *, axis, keepdims: np.count_nonzero(x, axis=axis, keepdims=keepdims),
    batch=lambda flags, x, *, axis, keepdims: count_nonzero(x, axis=shift(axis), keepdims=keepdims),
    cases=[case((2, 3), axis=(1,), keepdims=False)],
)


def _running(name: str, impl: Any) -> Any:
    op = constant(
        name,
        lambda x, *, axis: impl.accumulate(x, axis=axis),
        batch=lambda flags, x, *, axis: op(x, axis=axis + 1),
        cases=[case((4,), axis=0), case((2, 3), axis=1)],
    )
    return op


# The values only: which elements they come from is worked out where they are differentiated.
running_max = _running("running_max", np.maximum)
running_min = _running("running_min", np.minimum)
