"""numpy.lib.stride_tricks.sliding_window_view, differentiable."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from ..core.types import Value, canonical_axis, ndim_of, shape_of
from ..ops import broadcast as shapes
from ..ops import index as indexing
from ..ops import windows as rules
from .table import implements, lift
from .views import view
from .ways import Seen, Written


@implements(np.lib.stride_tricks.sliding_window_view)
def sliding_window_view(x: Any, window_shape: Any, axis: Any = None, *, subok: bool = False, writeable: bool = False) -> Value:
    x = lift(x)
    width = tuple(map(operator.index, window_shape)) if np.iterable(window_shape) else (operator.index(window_shape),)
    given = range(ndim_of(x)) if axis is None else axis if np.iterable(axis) else (axis,)
    axes = tuple(canonical_axis(a, ndim_of(x)) for a in given)
    if len(width) != len(axes):
        raise ValueError(f"window_shape has {len(width)} entries for {len(axes)} axes")
    if any(w < 0 for w in width):
        raise ValueError("`window_shape` cannot contain negative values")
    if len(set(axes)) != len(axes):
        return sliding_window_view(sliding_window_view(x, width[0], axes[0]), width[1:], axes[1:])
    if any(w > shape_of(x)[a] for w, a in zip(width, axes, strict=True)):
        raise ValueError("window shape cannot be larger than input array shape")

    def look(base: Value) -> Value:
        return rules.windows(base, width=width, axes=axes)

    def ask(memory: Any) -> Any:
        return np.lib.stride_tricks.sliding_window_view(memory, width, axes)

    if not writeable:
        return view(x, Seen(look, ask))
    places = ask(np.arange(math.prod(shape_of(x))).reshape(shape_of(x)))

    def store(base: Value, part: Value) -> Value:
        """An element is in several windows: the last write to it wins, as in NumPy."""
        flat = shapes.reshape(base, shape=(math.prod(shape_of(base)),))
        return shapes.reshape(indexing.write(flat, places, part), shape=shape_of(base))

    return view(x, Written(look, ask, store))
