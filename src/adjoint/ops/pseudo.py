"""Systems without a unique solution: the pseudoinverse and least squares, at constant rank, and the rank.

dP = −P dA P + P Pᴴ dAᴴ (1 − A P) + (1 − P A) dAᴴ Pᴴ P          (Golub and Pereyra)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.op import case
from ..core.types import Value
from .declare import constant, opaque
from .decompose import svd
from .linalg import column, swap
from .matrix import conjugate, dagger, diagonal_of, real_part


def _pinv_jvp(ts: Any, p: Value, a: Value, *, rcond: float) -> Value:
    t, th, ph = ts[0], dagger(ts[0]), dagger(p)
    left, right = p @ (ph @ th), (th @ ph) @ p
    return (left - (left @ a) @ p) + (right - p @ (a @ right)) - p @ t @ p


def _pinv_vjp(g: Value, p: Value, a: Value, *, rcond: float) -> Any:
    pt, ph = swap(p), dagger(p)
    left, right = (swap(g) @ p) @ ph, ph @ (p @ swap(g))
    return (conjugate((left - a @ (p @ left)) + (right - (right @ p) @ a)) - pt @ g @ pt,)


_A = np.array([[2.0, 0.3, -0.4], [0.1, 1.5, 0.6], [-0.7, 0.2, 1.8]])

pinv = opaque(
    "pinv",
    lambda a, *, rcond: np.linalg.pinv(a, rcond=rcond),
    jvp=_pinv_jvp,
    vjp=_pinv_vjp,
    axes=(),
    cases=[case(_A, rcond=1e-15), case((4, 2), rcond=1e-15), case((2, 2, 3), rcond=1e-15), case((0, 2), rcond=1e-15)],
    complex_domain=True,
    doc="The pseudoinverse; singular values below rcond times the largest count as zero, and stay so.",
    may_fail=True,
    python="np.linalg.pinv",
)


def _lstsq(a: Any, b: Any, *, rcond: float) -> Any:
    if a.ndim == b.ndim == 2:
        x, _, rank, s = np.linalg.lstsq(a, b, rcond=rcond)
        return x, s, np.int32(rank)
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = np.broadcast_to(a, lead + a.shape[-2:]), np.broadcast_to(b, lead + b.shape[-2:])
    (m, n), k = a.shape[-2:], b.shape[-1]
    dtype = np.result_type(a, b, np.float32)
    x = np.empty((*lead, n, k), dtype)
    s = np.empty((*lead, min(m, n)), np.empty((), dtype).real.dtype)
    rank = np.empty(lead, np.int32)
    for i in np.ndindex(lead):
        x[i], s[i], rank[i] = _lstsq(a[i], b[i], rcond=rcond)
    return x, s, rank


def _lstsq_jvp(ts: Any, y: Any, a: Value, b: Value, *, rcond: float) -> Any:
    ta, tb = ts
    x = y[0]
    p = pinv(a, rcond=rcond)
    dx = None if tb is None else p @ tb
    if ta is None:
        return dx, None, None
    th = dagger(ta)
    turned = th @ (dagger(p) @ x)
    change = p @ (dagger(p) @ (th @ (b - a @ x)) - ta @ x) + (turned - p @ (a @ turned))
    u, _, vh = svd(a, full=False)
    ds = real_part(diagonal_of(dagger(u) @ ta @ dagger(vh)))
    return change if dx is None else dx + change, ds, None


def _lstsq_vjp(g: Any, y: Any, a: Value, b: Value, *, rcond: float) -> Any:
    gx, gs, _ = g
    ga = gb = None
    if gx is not None:
        x = y[0]
        p = pinv(a, rcond=rcond)
        gb = swap(p) @ gx
        ga = dagger((conjugate(p) @ gb) @ swap(b - a @ x)) - gb @ swap(x)
        ga = ga + dagger((gx - swap(a) @ gb) @ swap(dagger(p) @ x))
    if gs is not None:
        u, _, vh = svd(a, full=False)
        by_values = conjugate(u) @ (column(gs) * conjugate(vh))
        ga = by_values if ga is None else ga + by_values
    return ga, gb


lstsq = opaque(
    "lstsq",
    _lstsq,
    jvp=_lstsq_jvp,
    vjp=_lstsq_vjp,
    axes=(),
    cases=[
        case((4, 2), (4, 3), rcond=1e-15),
        case((2, 3), (2, 1), rcond=1e-15),
        case(_A, (3, 2), rcond=1e-15),
    ],
    many=True,
    complex_domain=True,
    doc="The least-squares solution of least norm, the singular values and the rank.",
    may_fail=True,
)

rank = constant(
    "matrix_rank",
    lambda a, *, tol, rtol, hermitian: np.linalg.matrix_rank(a, tol, hermitian, rtol=rtol),
    cases=[
        case((3, 2), tol=None, rtol=None, hermitian=False),
        case((2, 3, 3), tol=None, rtol=1e-3, hermitian=True),
        case((2, 2), tol=1e-3, rtol=None, hermitian=False),
    ],
)
