"""Sliding windows over an array, and their transpose, overlap-add."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.op import case
from ..core.types import Type, Value
from .declare import linear, shift


def _overlap(g: Any, *, shape: tuple[int, ...], axes: tuple[int, ...]) -> Any:
    """The sum of all windows, each at its position. `g` has its window axes last."""
    out = np.zeros(shape, g.dtype)
    width = g.shape[len(shape) :]
    counts = [g.shape[a] for a in axes]
    lead: list[Any] = [slice(None)] * len(shape)
    # Either element by element of the windows, or window by window: whichever are fewer.
    by_element = np.prod(width) <= np.prod(counts)
    for place in np.ndindex(*(width if by_element else counts)):
        target, source = list(lead), list(lead)
        for axis, i, count, w in zip(axes, place, counts, width, strict=True):
            target[axis] = slice(i, i + (count if by_element else w))
            if not by_element:
                source[axis] = i
        if by_element:
            out[tuple(target)] += g[(*lead, *place)]
        else:
            # What remains of g has its window axes last, in the order of `axes`.
            piece = g[tuple(source)]
            rest = len(shape) - len(axes)
            out[tuple(target)] += np.moveaxis(piece, range(rest, rest + len(axes)), axes)
    return out


windows = linear(
    "windows",
    lambda x, *, width, axes: np.lib.stride_tricks.sliding_window_view(x, width, axes),
    transpose=(lambda g, x, *, width, axes: overlap(g, shape=x.shape, axes=axes),),
    axes="axes",
    cases=[
        case((5,), width=(3,), axes=(0,)),
        case((5,), width=(5,), axes=(0,)),
        case((4, 5), width=(2, 3), axes=(0, 1)),
        case((4, 5), width=(2, 4), axes=(1, 0)),
        case((2, 5, 3), width=(4,), axes=(1,)),
    ],
    doc="All parts of an array of a certain size; the axes of the parts come last.",
)


def _batched_overlap(flags: tuple[bool, ...], g: Value, *, shape: tuple[int, ...], axes: tuple[int, ...]) -> Value:
    return overlap(g, shape=(Type.of(g).shape[0], *shape), axes=shift(axes))


overlap = linear(
    "overlap",
    _overlap,
    transpose=(lambda h, g, *, shape, axes: windows(h, width=g.shape[len(shape) :], axes=axes),),
    batch=_batched_overlap,
    cases=[
        case((3, 3), shape=(5,), axes=(0,)),
        case((2, 4), shape=(5,), axes=(0,)),
        case((3, 3, 2, 3), shape=(4, 5), axes=(0, 1)),
        case((2, 2, 3, 4), shape=(5, 4), axes=(1, 0)),
        case((1, 2, 3, 4), shape=(4, 4), axes=(1, 0)),
    ],
    doc="The sum of windows, each at its position (overlap-add).",
)
