"""Order: elements selected along an axis, sorted values, order statistics, and searches.

Ties share: a sorted array does not change when two equal elements are swapped, so each of them gets the mean of the cotangents of
their common value.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core.op import case
from ..core.types import Shape, Value, shape_of
from .broadcast import broadcast_to, moveaxis, sum_
from .declare import constant, linear, opaque
from .elementwise import equal, isfinite, isinf, logical_and, logical_not, nan_where, stop_gradient, strong_mul_either
from .index import getitem
from .reduce import argsort, equal_weights
from .shape import all_batched, concatenate, stack

# -- one element of each row, by its number ----------------------------------------------------------------------


def _rows(index: Any, n: int) -> Any:
    """Indices within rows of length n (the last axis) as indices in the flattened array, where others would be of another row."""
    if index.size and not -n <= index.min() <= index.max() < n:
        worst = index.min() if index.min() < -n else index.max()
        raise IndexError(f"index {worst} is out of bounds for an axis of size {n}")
    rows = math.prod(index.shape[:-1])
    start = np.arange(0, rows * n, n).reshape(*index.shape[:-1], 1) if n else np.zeros((1,) * index.ndim, int)
    return np.where(index < 0, index + n, index) + start


def _sum_groups(g: Any, groups: Any, count: int) -> Any:
    """Sums of g over equal group numbers."""
    if g.dtype.char in "gG":  # bincount would round to double
        total = np.zeros(count, g.dtype)
        np.add.at(total, groups, g)
        return total
    if g.dtype.kind == "c":
        parts = np.bincount(groups, g.real, count) + 1j * np.bincount(groups, g.imag, count)
    else:
        parts = np.bincount(groups, g, count)
    return parts.astype(g.dtype, copy=False)


def _add_along(g: Any, index: Any, *, axis: int, shape: Shape) -> Any:
    if g.size == 0:
        return np.zeros(shape, g.dtype)
    g, index = np.moveaxis(g, axis, -1), np.moveaxis(index, axis, -1)
    n = shape[axis]
    total = _sum_groups(g.ravel(), _rows(index, n).ravel(), math.prod(g.shape[:-1]) * n)
    return np.moveaxis(total.reshape(*g.shape[:-1], n), -1, axis)


_INDEX = np.array([[2, 0, 2, 1], [1, 1, -1, 0]])

take_along = linear(
    "take_along",
    lambda x, index, *, axis: np.take_along_axis(x, index, axis),
    transpose=(lambda g, x, index, *, axis: add_along(g, index, axis=axis, shape=x.shape), None),
    axes="axis",
    cases=[case((2, 3), _INDEX, axis=1), case((3, 4), _INDEX, axis=0), case((4,), np.array([3, -1]), axis=0)],
    doc="Pick elements along an axis by an array of numbers, of the same shape elsewhere.",
    may_fail=True,
    python="np.take_along_axis({0}, {1}, {axis})",
    terms="moved",
)

add_along = linear(
    "add_along",
    _add_along,
    transpose=(lambda h, g, index, *, axis, shape: take_along(h, index, axis=axis), None),
    batch=lambda flags, g, index, *, axis, shape: _add_along_batch(flags, g, index, axis, shape),
    cases=[case((2, 4), _INDEX, axis=1, shape=(2, 3)), case((2, 4), _INDEX, axis=0, shape=(3, 4))],
    doc="Zeros with values added along an axis at an array of indices.",
    terms="added",
)


def _add_along_batch(flags: tuple[bool, ...], g: Value, index: Value, axis: int, shape: Shape) -> Value:
    g, index = all_batched(flags, (g, index))
    return add_along(g, index, axis=axis + 1, shape=(shape_of(g)[0], *shape))


# -- sorting -----------------------------------------------------------------------------------------------------


def _share(t: Any, y: Any, *, axis: int, ordered: bool) -> Any:
    """The mean of t over elements whose y is equal, in every row."""
    if y.shape[axis] < 2 or y.size == 0:
        return t
    t, y = np.moveaxis(t, axis, -1), np.moveaxis(y, axis, -1)
    order = None if ordered else np.argsort(y, axis=-1, kind="stable")
    if order is not None:
        t, y = np.take_along_axis(t, order, -1), np.take_along_axis(y, order, -1)
    first = np.ones(y.shape, bool)
    np.not_equal(y[..., 1:], y[..., :-1], out=first[..., 1:])
    if not first.all():
        groups = np.cumsum(first.ravel()) - 1
        count = int(groups[-1]) + 1
        means = _sum_groups(t.ravel(), groups, count) / np.bincount(groups, minlength=count)
        t = means.astype(t.dtype, copy=False)[groups].reshape(t.shape)
    if order is not None:
        unsorted = np.empty_like(t)
        np.put_along_axis(unsorted, order, t, -1)
        t = unsorted
    return np.moveaxis(t, -1, axis)


share_equal = linear(
    "share_equal",
    _share,
    transpose=(lambda g, t, y, *, axis, ordered: share_equal(g, y, axis=axis, ordered=ordered), None),
    axes="axis",
    cases=[
        case((5,), np.array([1.0, 1.0, 2.0, 3.0, 3.0]), axis=0, ordered=True),
        case((2, 3), np.array([[1.0, 0.0, 1.0], [2.0, 1.0, 0.0]]), axis=1, ordered=False),
        case((3, 2), np.array([[1.0, 0.0], [1.0, 2.0], [2.0, 2.0]]), axis=0, ordered=True),
    ],
    doc="The mean over the elements that are equal in y.",
    terms="added",
)


def _shared(g: Value, y: Value, axis: int, ordered: bool) -> Value:
    """The mean of the (co)tangents of equal values; nan where that changes one of an infinity: overflows have no known order.

    Whether it changes one that overflowed as well is not known either.
    """
    mean = share_equal(g, y, axis=axis, ordered=ordered)
    is_kept = logical_and(equal(mean, g), isfinite(mean))
    return nan_where(logical_and(isinf(y), logical_not(is_kept)), mean)


equal_shared = opaque(
    "equal_shared",
    lambda x, *, axis, ordered: x,
    jvp=lambda ts, y, x, *, axis, ordered: _shared(ts[0], stop_gradient(y), axis, ordered),
    vjp=lambda g, y, x, *, axis, ordered: (_shared(g, stop_gradient(y), axis, ordered),),
    axes="axis",
    choice=True,
    cases=[case(np.array([1.0, 2.0, 4.0]), axis=0, ordered=True), case((2, 3), axis=1, ordered=False)],
    doc="The values themselves; equal ones share the cotangent.",
)


def sort(x: Value, axis: int, kind: Any = None) -> Value:
    """Sorted along an axis."""
    return equal_shared(take_along(x, argsort(x, axis=axis, kind=kind), axis=axis), axis=axis, ordered=True)


def partition(x: Value, kth: tuple[int, ...], axis: int) -> Value:
    """With the kth elements in their sorted position, the smaller ones before them and the others after."""
    return equal_shared(take_along(x, argpartition(x, kth=kth, axis=axis), axis=axis), axis=axis, ordered=False)


argpartition = constant(
    "argpartition",
    lambda x, *, kth, axis: np.argpartition(x, kth, axis=axis),
    axes="axis",
    cases=[case((5,), kth=(2,), axis=0), case((3, 4), kth=(0, 2), axis=1)],
)


# -- order statistics --------------------------------------------------------------------------------------------


def _order(x: Any, *, kth: tuple[int, ...], axis: int) -> Any:
    return np.take(np.partition(x, sorted(set(kth)), axis=axis), kth, axis=axis)


def _order_weights(x: Value, y: Value, i: int, axis: int) -> Value:
    """Equal weights on the elements that equal the i-th of the order statistics y."""
    value = getitem(y, spec=(slice(None),) * axis + (slice(i, i + 1),))
    return equal_weights(equal(x, value), x, value, (axis,))


def _order_jvp(ts: Any, y: Value, x: Value, *, kth: tuple[int, ...], axis: int) -> Value:
    parts = [sum_(strong_mul_either(ts[0], _order_weights(x, y, i, axis)), axis=(axis,), keepdims=True) for i in range(len(kth))]
    return concatenate(*parts, axis=axis)


def _order_vjp(g: Value, y: Value, x: Value, *, kth: tuple[int, ...], axis: int) -> Any:
    total = None
    for i in range(len(kth)):
        own = broadcast_to(getitem(g, spec=(slice(None),) * axis + (slice(i, i + 1),)), shape=shape_of(x))
        part = strong_mul_either(own, _order_weights(x, y, i, axis))
        total = part if total is None else total + part
    return (total,)


order_statistics = opaque(
    "order_statistics",
    _order,
    jvp=_order_jvp,
    vjp=_order_vjp,
    axes="axis",
    choice=True,
    cases=[case((5,), kth=(2,), axis=0), case((3, 4), kth=(2, 1), axis=1), case((3, 4), kth=(0,), axis=0)],
    doc="The kth smallest elements along an axis, for a few k: linear time, where sorting takes n log n.",
)


# -- searches ----------------------------------------------------------------------------------------------------


def _search_batch(flags: tuple[bool, ...], a: Value, v: Value, *, side: str) -> Value:
    if not flags[0]:
        return searchsorted(a, v, side=side)
    a, v = all_batched(flags, (a, v))
    size = shape_of(a)[0]
    if size == 0:
        return np.zeros(shape_of(v), np.intp)
    return stack(*[searchsorted(getitem(a, spec=(i,)), getitem(v, spec=(i,)), side=side) for i in range(size)], axis=0)


searchsorted = constant(
    "searchsorted",
    lambda a, v, *, side: np.searchsorted(a, v, side),
    batch=_search_batch,
    cases=[case(np.array([0.0, 1.0, 1.5]), (4,), side="left"), case(np.array([0.0, 1.0, 1.5]), (2, 2), side="right")],
    python="np.searchsorted",
)

lexsort = constant(
    "lexsort",
    lambda keys, *, axis: np.lexsort(keys, axis=axis),
    batch=lambda flags, keys, *, axis: lexsort(moveaxis(keys, 0, 1), axis=axis + 1),  # the keys lie along the first axis
    cases=[case((2, 4), axis=0), case((2, 3, 4), axis=1)],
)
