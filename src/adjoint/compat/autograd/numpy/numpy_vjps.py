"""Helpers that user-defined rules import from autograd: the adjoint of broadcasting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ....core.types import Type, dtype_of, shape_of
from ....ops.broadcast import fit


def metadata(a: Any) -> tuple[tuple[int, ...], int, np.dtype[Any], bool]:
    """Shape, rank, dtype, and whether complex."""
    dtype = dtype_of(a)
    return shape_of(a), len(shape_of(a)), dtype, dtype.kind == "c"


def unbroadcast(x: Any, target_meta: Any, broadcast_idx: int = 0) -> Any:
    """A cotangent brought to the shape of its argument: summed over the axes along which that was broadcast."""
    shape, _, _, is_complex = target_meta
    kind = dtype_of(x)
    real = kind.type(0).real.dtype
    return fit(x, Type(shape, np.result_type(real, np.complex64) if is_complex else real))


def unbroadcast_f(target: Any, f: Callable[..., Any]) -> Callable[..., Any]:
    """A pullback whose result is brought to the shape of `target`."""
    meta = metadata(target)
    return lambda g: unbroadcast(f(g), meta)


def match_complex(target: Any, x: Any) -> Any:
    """x made real or complex, as the target is."""
    if dtype_of(target).kind == "c":
        return x if dtype_of(x).kind == "c" else x + 0j
    return np.real(x) if dtype_of(x).kind == "c" else x


def repeat_to_match_shape(g: Any, shape: Any, dtype: Any, axis: Any, keepdims: bool) -> tuple[Any, int]:
    """The cotangent of a reduction spread over the axes reduced, and how many elements went into each result."""
    if shape == ():
        return g, 1
    axes = range(len(shape)) if axis is None else [axis] if isinstance(axis, int) else axis
    axes = {a % len(shape) for a in axes}
    kept = tuple(1 if i in axes else n for i, n in enumerate(shape))
    count = 1
    for i in axes:
        count *= shape[i]
    return np.broadcast_to(np.reshape(g, kept), shape), count
