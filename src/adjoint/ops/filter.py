"""Recursive filters along the last axis: y with a₀ y[n] + a₁ y[n−1] + … = u[n]; leading axes are batches.

With T(a) the lower triangular matrix whose diagonals are the coefficients, y = T(a)⁻¹ u. Such matrices commute, and the transpose
of one is the same filter run backwards.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.op import case
from ..core.types import Value, ndim_of, shape_of
from .broadcast import align_all, fit, zeros_of
from .convolve import convolve
from .declare import opaque
from .index import getitem, put
from .lazy import Lazy
from .shape import flip

_lfilter = Lazy("scipy.signal", "lfilter")


def _all_pole(a: Any, u: Any) -> Any:
    lead, dtype = np.broadcast_shapes(a.shape[:-1], u.shape[:-1]), np.result_type(a, u)
    dtype = dtype if dtype.kind in "fc" else np.dtype(float)
    if not u.size or not all(lead):
        return np.zeros((*lead, u.shape[-1]), dtype)
    one = np.ones(1, np.float32 if dtype.char == "e" else dtype)  # SciPy has no filters in half precision
    a, u = a.astype(one.dtype), u.astype(one.dtype)
    if a.ndim == 1:
        return _lfilter(one, a, u).astype(dtype, copy=False)
    a, u = np.broadcast_to(a, (*lead, a.shape[-1])), np.broadcast_to(u, (*lead, u.shape[-1]))
    out = np.empty(u.shape, dtype)
    for i in np.ndindex(lead):
        out[i] = _lfilter(one, a[i], u[i])
    return out


def causal(b: Value, x: Value) -> Value:
    """b₀ x[n] + b₁ x[n−1] + …, as long as x."""
    n = shape_of(x)[-1]
    if not n:
        return x
    y = convolve(b, x, mode="full")
    return getitem(y, spec=(*(slice(None),) * (ndim_of(y) - 1), slice(0, n)))


def _jvp(ts: Any, y: Value, a: Value, u: Value) -> Value:
    ta, tu = ts
    if ta is None:
        return all_pole(a, tu)
    change = -causal(ta, y)
    return all_pole(a, change if tu is None else tu + change)


def _vjp(g: Value, y: Value, a: Value, u: Value) -> tuple[Value, Value]:
    last = ndim_of(g) - 1
    w = flip(all_pole(a, flip(g, last)), last)
    more, n = shape_of(a)[-1] - 1, shape_of(y)[-1]
    if not n:
        return zeros_of(a), fit(w, u)
    padded = np.zeros((*shape_of(y)[:-1], n + more), y.dtype)
    padded = put(padded, y, spec=(*(slice(None),) * last, slice(more, None)))
    lags = flip(convolve(padded, flip(w, last), mode="valid"), last)
    return fit(-lags, a), fit(w, u)


all_pole = opaque(
    "all_pole",
    _all_pole,
    jvp=_jvp,
    vjp=_vjp,
    batch=lambda flags, a, u: all_pole(*align_all(flags, (a, u))),
    cases=[case((1,), (4,)), case((3,), (5,)), case((4,), (2,)), case((3,), (2, 6)), case((2, 3), (2, 5)), case((2,), (0,))],
    domain=((0.5, 1.5), (-2.0, 2.0)),
    complex_domain=True,
    doc="A recursive filter: y with a₀ y[n] + a₁ y[n−1] + … = u[n].",
)
