"""Systems without a unique solution: the pseudoinverse and least squares, at constant rank, and the rank.

Singular values that count as zero and are so, up to rounding:

    dP = −P dA P + P Pᴴ dAᴴ (1 − A P) + (1 − P A) dAᴴ Pᴴ P          (Golub and Pereyra)

A coarse cutoff leaves out C = A − A P A, which is not zero. As A changes, what is kept turns into what is cut, at a rate with the
differences of their squared singular values in the denominator, 1/(σ² − τ²) in place of 1/σ²:

    dP = −P dA P + Y + Z      Y − CᴴC Y PᴴP = (1 − P A) (dAᴴ + Cᴴ dA P) PᴴP      Z − P Pᴴ Z C Cᴴ = P Pᴴ (dAᴴ + P dA Cᴴ) (1 − A P)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.op import case
from ..core.types import Value, dtype_of, shape_of
from .declare import constant, opaque
from .decompose import svd
from .linalg import column, swap
from .matrix import conjugate, dagger, diagonal_of, real_part


def _stein(b: Any, c: Any, p: Any) -> Any:
    _, s, vh = np.linalg.svd(c)
    _, t, wh = np.linalg.svd(p)
    product = _squares(s, vh)[..., :, None] * _squares(t, wh)[..., None, :]
    inner = vh @ b @ np.conj(np.swapaxes(wh, -1, -2))
    return np.conj(np.swapaxes(vh, -1, -2)) @ (inner / (1.0 - product)) @ wh


def _squares(s: Any, vh: Any) -> Any:
    """The squares of singular values, one for each row of vᴴ."""
    rest = vh.shape[-1] - s.shape[-1]
    return np.concatenate([s * s, np.zeros((*s.shape[:-1], rest), s.dtype)], axis=-1)


def _stein_jvp(ts: Any, y: Value, b: Value, c: Value, p: Value) -> Value:
    tb, tc, tp = ts
    terms = [] if tb is None else [tb]
    if tc is not None:
        terms.append((dagger(tc) @ c + dagger(c) @ tc) @ y @ (dagger(p) @ p))
    if tp is not None:
        terms.append(dagger(c) @ (c @ y) @ (dagger(tp) @ p + dagger(p) @ tp))
    return stein(sum(terms[1:], terms[0]), c, p)


def _stein_vjp(g: Value, y: Value, b: Value, c: Value, p: Value) -> Any:
    k = stein(g, conjugate(c), conjugate(p))
    left, right = k @ swap(y @ (dagger(p) @ p)), swap(dagger(c) @ (c @ y)) @ k
    return k, conjugate(c) @ (left + dagger(left)), conjugate(p) @ (right + dagger(right))


_C = np.array([[0.3, 0.1], [0.0, 0.2], [-0.1, 0.1]])

stein = opaque(
    "stein",
    _stein,
    jvp=_stein_jvp,
    vjp=_stein_vjp,
    axes=(),
    cases=[case((2, 2), _C, _C), case((2, 3), _C, 0.2 * np.eye(3)), case((2, 2, 2), np.stack([_C, 2 * _C]), np.stack([_C, -_C]))],
    complex_domain=True,
    doc="The solution Y of Y − CᴴC Y PᴴP = B.",
    may_fail=True,
)

#: Units of rounding: singular values below a smaller cutoff are zero but for rounding. So are they below NumPy's usual cutoff,
#: which is the longer side of the matrix.
_COARSE = 1 << 12


def _is_coarse(a: Value, rcond: float) -> bool:
    return rcond > max(_COARSE, *shape_of(a)[-2:]) * float(np.finfo(dtype_of(a)).eps)


def _product(x: Value, y: Value, z: Value) -> Value:
    """x y z in the order of less work: no product has the longer side of a matrix twice."""
    (rows, k), (m, columns) = shape_of(x)[-2:], shape_of(z)[-2:]
    return (x @ y) @ z if rows * m * (k + columns) <= k * columns * (m + rows) else x @ (y @ z)


def _pinv_jvp(ts: Any, p: Value, a: Value, *, rcond: float) -> Value:
    t, th, ph = ts[0], dagger(ts[0]), dagger(p)
    if _is_coarse(a, rcond):
        c = a - a @ p @ a
        ch = dagger(c)
        left, right = p @ (ph @ (th + p @ t @ ch)), ((th + ch @ t @ p) @ ph) @ p
        return stein(left - (left @ a) @ p, ph, ch) + stein(right - p @ (a @ right), c, p) - p @ t @ p
    left, right = _product(p, ph, th), _product(th, ph, p)
    return (left - _product(left, a, p)) + (right - _product(p, a, right)) - _product(p, t, p)


def _pinv_vjp(g: Value, p: Value, a: Value, *, rcond: float) -> Any:
    pt, ph = swap(p), dagger(p)
    if _is_coarse(a, rcond):
        c = a - a @ p @ a
        pc, cc, at = conjugate(p), conjugate(c), swap(a)
        left, right = stein(g, swap(p), swap(c)), stein(g, cc, pc)
        left = pc @ (pt @ (left - (left @ pt) @ at))
        right = ((right - at @ (pt @ right)) @ pt) @ pc
        return (dagger(left + right) + pt @ left @ cc + cc @ right @ pt - pt @ g @ pt,)
    left, right = _product(swap(g), p, ph), _product(ph, p, swap(g))
    return (conjugate((left - _product(a, p, left)) + (right - _product(right, p, a))) - _product(pt, g, pt),)


_A = np.array([[2.0, 0.3, -0.4], [0.1, 1.5, 0.6], [-0.7, 0.2, 1.8]])

pinv = opaque(
    "pinv",
    lambda a, *, rcond: np.linalg.pinv(a, rcond=rcond),
    jvp=_pinv_jvp,
    vjp=_pinv_vjp,
    axes=(),
    cases=[
        case(_A, rcond=1e-15),
        case((4, 2), rcond=1e-15),
        case((2, 2, 3), rcond=1e-15),
        case((0, 2), rcond=1e-15),
        case(_A, rcond=0.7),
    ],
    complex_domain=True,
    doc="The pseudoinverse; singular values below rcond times the largest are left out, however they change.",
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
    if _is_coarse(a, rcond):
        change = _pinv_jvp((ta,), p, a, rcond=rcond) @ b
    else:
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
        if _is_coarse(a, rcond):
            (ga,) = _pinv_vjp(gx @ swap(b), p, a, rcond=rcond)
        else:
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
        case(_A, (3, 2), rcond=0.7),
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
