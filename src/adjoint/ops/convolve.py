"""Discrete convolution along the last axis, linear in each factor; leading axes are batches."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.op import case
from ..core.types import Type, Value, ndim_of
from .broadcast import align_all
from .declare import multilinear
from .shape import flip


def _convolve(a: Any, v: Any, *, mode: Any) -> Any:
    """`full`: every overlap; `valid`: complete overlaps only, where `a` is the longer one."""
    if a.ndim == v.ndim == 1:
        return _valid(a, v) if mode == "valid" and v.size > _BLOCK else np.convolve(a, v, mode)
    lead = np.broadcast_shapes(a.shape[:-1], v.shape[:-1])
    n, m = a.shape[-1], v.shape[-1]
    out = np.empty((*lead, n + m - 1 if mode == "full" else n - m + 1), np.result_type(a, v))
    a, v = np.broadcast_to(a, (*lead, n)), np.broadcast_to(v, (*lead, m))
    for i in np.ndindex(lead):
        out[i] = _convolve(a[i], v[i], mode=mode)
    return out


#: The longest dot product taken at once. The cotangent of a short factor is a few dot products as long as the other factor;
#: BLAS splits a longer one among threads, which takes many times as long as the product itself.
_BLOCK = 8192


def _valid(a: Any, v: Any) -> Any:
    """Complete overlaps with a long v, block by block."""
    n, m = a.size, v.size
    total: Any = 0
    for start in range(0, m, _BLOCK):
        stop = min(start + _BLOCK, m)
        total = total + np.convolve(a[m - stop : n - start], v[start:stop], "valid")
    return total


def _left(g: Value, a: Type, v: Value, *, mode: str) -> Value:
    return convolve(g, flip(v, ndim_of(v) - 1), mode="valid" if mode == "full" else "full")


def _right(g: Value, a: Value, v: Type, *, mode: str) -> Value:
    if mode == "full":
        return convolve(g, flip(a, ndim_of(a) - 1), mode="valid")
    y = convolve(a, flip(g, ndim_of(g) - 1), mode="valid")
    return flip(y, ndim_of(y) - 1)


def _batch(flags: tuple[bool, ...], a: Value, v: Value, *, mode: str) -> Value:
    return convolve(*align_all(flags, (a, v)), mode=mode)


convolve = multilinear(
    "convolve",
    _convolve,
    transpose=(_left, _right),
    batch=_batch,
    cases=[
        case((5,), (3,), mode="full"),
        case((2,), (4,), mode="full"),
        case((5,), (3,), mode="valid"),
        case((3,), (3,), mode="valid"),
        case((2, 5), (3,), mode="full"),
        case((2, 1, 5), (3, 3), mode="valid"),
    ],
    silent=True,
)
