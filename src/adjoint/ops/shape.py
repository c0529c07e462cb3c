"""Joining arrays, and reversing them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.bind import Traced
from ..core.op import case
from ..core.types import Type, Value, shape_of
from .broadcast import broadcast_to
from .declare import linear
from .index import getitem


def flip(x: Value, axis: int) -> Value:
    return getitem(x, spec=(slice(None),) * axis + (slice(None, None, -1),))


def all_batched(flags: tuple[bool, ...], xs: tuple[Value, ...]) -> list[Value]:
    """Give a batch axis to the arguments that have none."""
    size = next(shape_of(x)[0] for x, flag in zip(xs, flags, strict=True) if flag)
    return [x if flag else broadcast_to(x, shape=(size, *shape_of(x))) for x, flag in zip(xs, flags, strict=True)]


def _concatenate_transpose(g: Value, *xs: Type, axis: int) -> list[Value]:
    parts, start = [], 0
    for x in xs:
        stop = start + x.shape[axis]
        parts.append(getitem(g, spec=(slice(None),) * axis + (slice(start, stop),)))
        start = stop
    return parts


concatenate = linear(
    "concatenate",
    lambda *xs, axis: np.concatenate(xs, axis=axis),
    transpose=_concatenate_transpose,
    together=True,
    axes="axis",
    cases=[case((2,), (3,), axis=0), case((2, 1), (2, 2), (2, 0), axis=1), case((2, 3), axis=0)],
    python="np.concatenate([{all}], axis={axis})",
    terms="moved",
)


def _stack(*xs: Any, axis: int) -> Any:
    return np.array(xs) if axis == 0 and np.ndim(xs[0]) < 2 else np.stack(xs, axis=axis)


def _stack_transpose(g: Value, *xs: Type, axis: int) -> list[Value]:
    if not isinstance(g, Traced):
        return list(np.moveaxis(g, axis, 0))
    return [getitem(g, spec=(slice(None),) * axis + (i,)) for i in range(len(xs))]


stack = linear(
    "stack",
    _stack,
    transpose=_stack_transpose,
    together=True,
    axes="axis",
    cases=[case((2,), (2,), axis=0), case((2, 3), (2, 3), (2, 3), axis=2), case((), (), axis=0)],
    doc="Join arrays of one shape along a new axis; scalars become a vector.",
    python="np.stack([{all}], axis={axis})",
    terms="moved",
)
