"""numpy.lib.stride_tricks.sliding_window_view, differentiable."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from ..core.types import Value, canonical_axis, ndim_of, shape_of
from ..ops import windows as rules
from .table import implements, lift


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
    return rules.windows(x, width=width, axes=axes)
