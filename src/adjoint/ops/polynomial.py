"""The roots of a polynomial."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.op import case
from ..core.types import Value, ndim_of, shape_of
from .broadcast import expand_dims, real, sum_
from .declare import opaque
from .elementwise import div
from .shape import stack


def _roots(p: Any) -> Any:
    """All roots as complex numbers, along the last axis; leading axes are batches."""
    kind = np.result_type(p, np.complex64)
    if p.ndim == 1:
        return np.roots(p).astype(kind, copy=False)
    out = np.empty((*p.shape[:-1], p.shape[-1] - 1), kind)
    for i in np.ndindex(p.shape[:-1]):
        out[i] = np.roots(p[i])
    return out


def _powers(r: Value, count: int) -> Value:
    """r^(count-1), …, r, 1 along a new last axis."""
    columns = [r * 0 + 1]
    for _ in range(count - 1):
        columns.append(columns[-1] * r)
    return stack(*columns[::-1], axis=ndim_of(r))


def _row(p: Value) -> Value:
    return expand_dims(p, (ndim_of(p) - 1,))


def _weights(r: Value, p: Value) -> Value:
    """dr_i/dp_k = -r_i^(n-k) / p'(r_i)."""
    n = shape_of(p)[-1]
    powers = _powers(r, n)
    slope = sum_(_row(p[..., :-1] * np.arange(n - 1, 0, -1, dtype=p.dtype)) * powers[..., 1:], axis=(ndim_of(r),), keepdims=True)
    return -div(powers, slope)


def _jvp(ts: Any, r: Value, p: Value) -> Value:
    return sum_(_weights(r, p) * _row(ts[0]), axis=(ndim_of(r),), keepdims=False)


def _vjp(g: Value, r: Value, p: Value) -> Any:
    total = sum_(_weights(r, p) * expand_dims(g, (ndim_of(g),)), axis=(ndim_of(r) - 1,), keepdims=False)
    return (total if p.dtype.kind == "c" else real(total),)


roots = opaque(
    "roots",
    _roots,
    jvp=_jvp,
    vjp=_vjp,
    axes=(),
    cases=[case(np.array([1.0, -6.0, 11.0, -6.0])), case(np.array([2.0, 1.0, 3.0])), case(np.array([1.0, 0.5]))],
)
