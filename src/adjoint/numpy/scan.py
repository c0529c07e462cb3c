"""The methods of ufuncs that are more than a loop: running extrema, reduceat, and `at` with repeated indices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.bind import Traced
from ..core.types import Value, canonical_axis, dtype_of, ndim_of, shape_of
from ..ops import broadcast as shapes
from ..ops import elementwise as ops
from ..ops import index as indexing
from ..ops import reduce as reductions
from ..ops import shape as joins
from ..ops import sort as sorts
from .concrete import primal


def running_extremum(ufunc: np.ufunc, x: Value, axis: int) -> Value:
    """`maximum.accumulate`. Elements tied so far share the cotangent: the derivative is their mean."""
    axis = canonical_axis(axis, ndim_of(x))
    n = shape_of(x)[axis]
    if n == 0:
        return x
    y = (reductions.running_max if ufunc is np.maximum else reductions.running_min)(x, axis=axis)
    if dtype_of(x).kind not in "fc":
        return y
    number = np.arange(n).reshape((n,) + (1,) * (ndim_of(x) - axis - 1))
    hit = ops.equal(x, y)
    latest = reductions.running_max(shapes.where(hit, number, 0), axis=axis)
    sources = sorts.take_along(x, latest, axis=axis)
    counts = _since(1.0 * hit, y, number, axis)
    if isinstance(counts, Traced) or np.any(counts > 1):
        means = _since(shapes.where(hit, x, 0.0), y, number, axis) / np.maximum(counts, 1)
        sources = shapes.where(ops.greater(counts, 1), means, sources)
    # The value is y itself; `sources`, equal up to rounding, carries the derivative.
    change = ops.stop_gradient(sources) - sources
    change = shapes.where(ops.isfinite(change), change, 0.0)
    return y - (change if dtype_of(change) == dtype_of(y) else shapes.cast(change, dtype=dtype_of(y)))


def _since(x: Value, y: Value, number: Any, axis: int) -> Value:
    """The sum of x since y took its present value."""
    rest = (slice(None),) * axis
    changed = ops.not_equal(y[(*rest, slice(1, None))], y[(*rest, slice(0, -1))])
    first = np.ones((*shape_of(y)[:axis], 1, *shape_of(y)[axis + 1 :]), bool)
    start = reductions.running_max(shapes.where(joins.concatenate(first, changed, axis=axis), number, 0), axis=axis)
    total = reductions.cumsum(x, axis=axis)
    return total - sorts.take_along(total - x, start, axis=axis)


def update_at(function: Callable[..., Value], a: Value, index: Any, b: Value | None) -> Value:
    """a with the function applied at an index, repeatedly for repeated indices: one round per repetition."""
    shape = shape_of(a)
    places = np.arange(int(np.prod(shape))).reshape(shape)[primal(index)]
    flat = shapes.reshape(a, shape=(places.size if not shape else int(np.prod(shape)),))
    if b is not None:
        b = shapes.reshape(shapes.broadcast_to(b, shape=np.shape(places)), shape=(np.size(places),))
    places = np.ravel(places)
    order = np.argsort(places, kind="stable")
    ordered = places[order]
    first = np.searchsorted(ordered, ordered)
    round_ = np.empty_like(places)
    round_[order] = np.arange(places.size) - first
    for r in range(int(round_.max()) + 1 if places.size else 0):
        now = np.flatnonzero(round_ == r)
        own = indexing.gather(flat, places[now], axis=0)
        new = function(own) if b is None else function(own, indexing.gather(b, now, axis=0))
        flat = indexing.put_at(flat, new, places[now], axis=0)
    return shapes.reshape(flat, shape=shape)


def reduce_slices(reduce: Callable[[Value, int], Value], a: Value, indices: Any, axis: int) -> Value:
    """`reduceat`: the slices between neighbouring indices, or one element where they do not increase."""
    axis = canonical_axis(axis, ndim_of(a))
    n = shape_of(a)[axis]
    marks = [int(i) for i in np.asarray(primal(indices))]
    if any(not 0 <= i < n for i in marks):
        raise IndexError(f"index out-of-bounds in reduceat [0, {n})")
    parts = []
    for low, high in zip(marks, [*marks[1:], n], strict=True):
        piece = indexing.getitem(a, spec=(slice(None),) * axis + (slice(low, max(high, low + 1)),))
        parts.append(reduce(piece, axis))
    return joins.stack(*parts, axis=axis)
