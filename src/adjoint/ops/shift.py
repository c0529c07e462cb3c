"""Elements and their neighbours along an axis: cyclic shifts and differences, each one pass over memory both ways."""

from __future__ import annotations

import numpy as np

from ..core.op import case
from ..core.types import Shape, Value, shape_of
from .declare import linear
from .index import place


def _roll(x: Value, shifts: tuple[int, ...], axes: tuple[int, ...]) -> Value:
    """As `np.roll`, which takes several times as long for few elements."""
    if len(axes) != 1 or not x.shape[axes[0]]:
        return np.roll(x, shifts, axes)
    before, n = (slice(None),) * axes[0], x.shape[axes[0]]
    cut, y = -shifts[0] % n, np.empty_like(x)
    y[(*before, slice(None, n - cut))] = x[(*before, slice(cut, None))]
    y[(*before, slice(n - cut, None))] = x[(*before, slice(None, cut))]
    return y


roll = linear(
    "roll",
    lambda x, *, shifts, axes: _roll(x, shifts, axes),
    transpose=lambda g, x, *, shifts, axes: roll(g, shifts=tuple(-s for s in shifts), axes=axes),
    axes="axes",
    cases=[case((5,), shifts=(2,), axes=(0,)), case((2, 3), shifts=(1, -4), axes=(0, 1)), case((0,), shifts=(1,), axes=(0,))],
    python="np.roll({0}, {shifts}, {axes})",
    terms="moved",
)


def _between_zeros(g: Value, axis: int) -> Value:
    shape: Shape = shape_of(g)
    n = shape[axis]
    spec = (slice(None),) * axis + (slice(1, n + 1),)
    return place(g, spec=spec, shape=(*shape[:axis], n + 2, *shape[axis + 1 :]))


difference = linear(
    "difference",
    lambda x, *, axis: np.subtract(x[(slice(None),) * axis + (slice(1, None),)], x[(slice(None),) * axis + (slice(0, -1),)]),
    # The cotangent of x_i is g_{i-1} - g_i, with nothing beyond the ends.
    transpose=lambda g, x, *, axis: -difference(_between_zeros(g, axis), axis=axis),
    axes="axis",
    cases=[case((4,), axis=0), case((2, 3), axis=1), case((3, 2), axis=0), case((1,), axis=0)],
    doc="x[i + 1] - x[i] along an axis of at least one element.",
    python="np.diff",
)
