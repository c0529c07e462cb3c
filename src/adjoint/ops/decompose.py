"""Factorisations: cholesky, qr, eigh, eig, svd, over the last two axes of a stack of matrices.

Each `jvp` is the differential of the defining equations; each `vjp` is that map transposed, step by step. With the
pairing Re Σ g·t, the transpose of t ↦ x t y is g ↦ xᵀ g yᵀ without a conjugate, and that of t ↦ tᴴ is g ↦ gᴴ.

Vectors are determined up to a phase, and those of a repeated eigenvalue up to a rotation: the rules let them turn as
little as possible, so derivatives are finite everywhere. They are exact for functions that do not depend on that
choice where the eigenvalues (singular values) are distinct. At repeated ones they are exact for functions of
the eigenvalues alone, in the first derivative; further ones lack what couples the equal eigenvalues.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.op import case
from ..core.types import Value, dtype_of, shape_of
from .broadcast import align_all, cast, sum_
from .declare import opaque
from .linalg import row, swap
from .matrix import (
    as_diagonal,
    columns,
    complete_cotangent,
    complete_tangent,
    conjugate,
    dagger,
    diagonal_of,
    hermitian_cotangent,
    hermitian_tangent,
    inverse_gaps,
    real_part,
    rows,
    triangle,
    weights,
)
from .shape import concatenate
from .solve import solve, triangular_solve

_SPD = np.array([[2.0, 9.0, 9.0], [0.4, 1.5, 9.0], [-0.3, 0.2, 1.0]])  # only one triangle is read
_STACK = np.array([1.0, 1.3]).reshape(2, 1, 1) * _SPD

# -- cholesky: a = l lᴴ -----------------------------------------------------------------------------------------
# dl = l Φ(l⁻¹ da l⁻ᴴ), where Φ takes the lower triangle and one half of the diagonal. The pull-back of g is
# p = l⁻ᵀ (s + sᴴ) l̄⁻¹ with s = Φ(lᵀ g), so lᵀ p l̄ = s + sᴴ, from which the differential of p follows.


def _lower(x: Value, diagonal: float = 1.0) -> Value:
    return triangle(shape_of(x)[-1], True, x, diagonal) * x


def _on_both_sides(l: Value, x: Value, transposed: bool = False) -> Value:  # noqa: E741
    """l⁻¹ x l⁻ᴴ, or l⁻ᵀ x l̄⁻¹."""
    half = triangular_solve(l, x, lower=True, transposed=transposed)
    return dagger(triangular_solve(l, dagger(half), lower=True, transposed=transposed))


def _with_dagger(x: Value) -> Value:
    return x + dagger(x)


def _cholesky_jvp(ts: Any, l: Value, a: Value) -> Value:  # noqa: E741
    return l @ _lower(_on_both_sides(l, hermitian_tangent(ts[0], a)), 0.5)


cholesky = opaque(
    "cholesky",
    np.linalg.cholesky,
    jvp=_cholesky_jvp,
    vjp=lambda g, y, a: (weights(a) * cholesky_pullback(y, g),),
    batch=lambda flags, a: cholesky(a),
    cases=[case(_SPD), case(_STACK), case(np.array([[4.0]])), case((0, 0))],
    doc="The lower triangular l with a = l lᴴ; reads the lower triangle. See `matrix.hermitian_tangent`.",
)

_BLOCK = 64


def _pull_back(l: Any, g: Any) -> Any:  # noqa: E741
    """By blocks of columns, the last first (after Murray, arXiv:1602.07527): for l = [l₁ 0; c l₂], and p₂ from l₂ and g₂,

    p₂₁ = (g₂₁ − p₂ c̄) l̄₁⁻¹, and p₁ is found from l₁ and g₁ − p₂₁ᴴ c̄. Small matrices, by the formula.
    """
    n = shape_of(l)[-1]
    if n < 2 * _BLOCK:
        return _with_dagger(_on_both_sides(l, _lower(swap(_lower(l)) @ g, 0.5), transposed=True))
    p = np.empty(np.broadcast_shapes(l.shape, g.shape), np.result_type(l, g))
    for stop in range(n, 0, -_BLOCK):
        own, rest = slice(max(stop - _BLOCK, 0), stop), slice(stop, n)
        corner, left = l[..., own, own], g[..., own, own]
        if stop < n:
            below = conjugate(l[..., rest, own])
            right = dagger(g[..., rest, own] - p[..., rest, rest] @ below)
            p[..., own, rest] = triangular_solve(corner, right, lower=True, transposed=True)
            p[..., rest, own] = dagger(p[..., own, rest])
            left = left - p[..., own, rest] @ below
        p[..., own, own] = _pull_back(corner, left)
    return p


def _pullback_jvp(ts: Any, p: Value, l: Value, g: Value) -> Value:  # noqa: E741
    tl, tg = ts
    if tl is None:
        return cholesky_pullback(l, tg)
    turned = swap(_lower(tl))
    ts = turned @ g if tg is None else turned @ g + swap(_lower(l)) @ tg
    return _with_dagger(_on_both_sides(l, _lower(ts, 0.5) - turned @ p @ conjugate(_lower(l)), transposed=True))


def _pullback_vjp(c: Value, p: Value, l: Value, g: Value) -> Any:  # noqa: E741
    half = triangular_solve(l, _with_dagger(c), lower=True, transposed=False)
    s = _lower(dagger(triangular_solve(l, dagger(half), lower=True, transposed=False)), 0.5)
    return _lower(g @ swap(s) - p @ swap(half)), _lower(l) @ s


_FACTOR = np.array([[1.4, 9.0, 9.0], [0.3, 1.2, 9.0], [-0.2, 0.1, 0.9]])

cholesky_pullback = opaque(
    "cholesky_pullback",
    _pull_back,
    jvp=_pullback_jvp,
    vjp=_pullback_vjp,
    batch=lambda flags, *xs: cholesky_pullback(*align_all(flags, xs)),
    cases=[
        case(_FACTOR, (3, 3)),
        case(np.array([1.0, 1.3]).reshape(2, 1, 1) * _FACTOR, (3, 3)),
        case(np.array([[2.0]]), (2, 1, 1)),
        case((0, 0), (0, 0)),
    ],
    complex_domain=True,
    doc="p = pᴴ, the cotangent of l lᴴ for g, that of l; reads the lower triangles of both.",
)

# -- qr: a = q r with at least as many rows as columns ----------------------------------------------------------
# qᴴ da r⁻¹ = qᴴ dq + dr r⁻¹ is an antihermitian matrix plus an upper triangular one with a real diagonal.


def _antihermitian(c: Value) -> Value:
    half = triangle(shape_of(c)[-1], True, c, diagonal=0.5) * c
    return half - dagger(half)


def _antihermitian_transpose(g: Value) -> Value:
    return triangle(shape_of(g)[-1], True, g, diagonal=0.5) * (g - dagger(g))


def _qr_jvp(ts: Any, y: Any, a: Value, *, complete: bool) -> Any:
    q, r = y
    n = shape_of(a)[-1]
    q1, r1 = columns(q, 0, n), rows(r, 0, n)
    b = swap(triangular_solve(r1, swap(ts[0]), lower=False, transposed=True))  # da r⁻¹
    c = dagger(q1) @ b
    e = c - _antihermitian(c)
    dr = e @ r1
    if shape_of(r)[-2] > n:
        dr = concatenate(dr, np.zeros(shape_of(rows(r, n, shape_of(r)[-2])), dtype_of(r)), axis=len(shape_of(r)) - 2)
    return complete_tangent(q, n, b - q1 @ e), dr


def _qr_vjp(g: Any, y: Any, a: Value, *, complete: bool) -> Any:
    q, r = y
    n = shape_of(r)[-1]
    q1, r1 = columns(q, 0, n), rows(r, 0, n)
    gq = complete_cotangent(q, n, g[0])
    ge = None if g[1] is None else rows(g[1], 0, n) @ swap(r1)
    if gq is not None:
        by_q = swap(q1) @ gq
        ge = -by_q if ge is None else ge - by_q
    gb = conjugate(q1) @ (ge - _antihermitian_transpose(ge))
    if gq is not None:
        gb = gb + gq
    return (swap(triangular_solve(r1, swap(gb), lower=False, transposed=False)),)


qr = opaque(
    "qr",
    lambda a, *, complete: tuple(np.linalg.qr(a, "complete" if complete else "reduced")),
    jvp=_qr_jvp,
    vjp=_qr_vjp,
    batch=lambda flags, a, *, complete: qr(a, complete=complete),
    cases=[
        case((3, 3), complete=False),
        case((4, 2), complete=False),
        case((2, 4, 3), complete=True),
        case((2, 1), complete=True),
        case((3, 0), complete=False),
    ],
    many=True,
    doc="A unitary q and an upper triangular r. Further columns of q (complete) turn only as far as they must.",
)

# -- eigh: a v = v w --------------------------------------------------------------------------------------------


def _eigh_jvp(ts: Any, y: Any, a: Value, *, lower: bool) -> Any:
    w, v = y
    p = dagger(v) @ hermitian_tangent(ts[0], a, lower) @ v
    return real_part(diagonal_of(p)), v @ (inverse_gaps(w) * p)


def _eigh_vjp(g: Any, y: Any, a: Value, *, lower: bool) -> Any:
    (w, v), (gw, gv) = y, g
    if gv is None:
        inner = (conjugate(v) * row(gw)) @ swap(v)
    else:
        gp = inverse_gaps(w) * (swap(v) @ gv)
        inner = conjugate(v) @ (gp if gw is None else gp + as_diagonal(gw)) @ swap(v)
    return (hermitian_cotangent(inner, a, lower),)


eigh = opaque(
    "eigh",
    lambda a, *, lower: tuple(np.linalg.eigh(a, "L" if lower else "U")),
    jvp=_eigh_jvp,
    vjp=_eigh_vjp,
    batch=lambda flags, a, *, lower: eigh(a, lower=lower),
    cases=[case(_SPD, lower=True), case(_STACK, lower=False), case((1, 1), lower=True), case((0, 0), lower=True)],
    many=True,
    doc="Eigenvalues and eigenvectors of a Hermitian matrix, reading one triangle. See `matrix.hermitian_tangent`.",
)

# -- eig: a v = v w, columns of v of length one -----------------------------------------------------------------


def _eig(a: Any) -> Any:
    w, v = np.linalg.eig(a)
    dtype = np.result_type(w.dtype, np.complex64)
    return w.astype(dtype, copy=False), v.astype(dtype, copy=False)


def _eig_jvp(ts: Any, y: Any, a: Value) -> Any:
    w, v = y
    p = solve(v, ts[0] @ v)
    z = v @ (inverse_gaps(w) * p)
    along = sum_(conjugate(v) * z, axis=(len(shape_of(v)) - 2,), keepdims=True)
    return diagonal_of(p), z - v * along


def _eig_vjp(g: Any, y: Any, a: Value) -> Any:
    (w, v), (gw, gv) = y, g
    gp = None if gw is None else as_diagonal(gw)
    if gv is not None:
        along = sum_(gv * v, axis=(len(shape_of(v)) - 2,), keepdims=True)
        by_v = inverse_gaps(w) * (swap(v) @ (gv - conjugate(v) * along))
        gp = by_v if gp is None else gp + by_v
    inner = solve(swap(v), gp @ swap(v))
    return (inner if dtype_of(a).kind == "c" else cast(inner, dtype=dtype_of(a)),)


_REAL_EIGENVALUES = np.array([[1.0, 0.5, 0.2], [0.3, 2.0, -0.4], [0.1, 0.3, -1.0]])

eig = opaque(
    "eig",
    _eig,
    jvp=_eig_jvp,
    vjp=_eig_vjp,
    batch=lambda flags, a: eig(a),
    cases=[case(_REAL_EIGENVALUES), case(np.array([1.0, 1.2]).reshape(2, 1, 1) * _REAL_EIGENVALUES), case((0, 0))],
    many=True,
    doc="Eigenvalues and eigenvectors of any square matrix, always complex. The face gives real ones as NumPy does.",
)

# -- svd: a = u s vᴴ --------------------------------------------------------------------------------------------
# With p = uᴴ da v:  (uᴴdu + vᴴdv)ᵢⱼ (sⱼ − sᵢ) = (p + pᴴ)ᵢⱼ  and  (uᴴdu − vᴴdv)ᵢⱼ (sⱼ + sᵢ) = (p − pᴴ)ᵢⱼ.


def _svd_jvp(ts: Any, y: Any, a: Value, *, full: bool) -> Any:
    t = ts[0]
    u, s, vh = y
    k = shape_of(s)[-1]
    u1, v1 = columns(u, 0, k), columns(dagger(vh), 0, k)
    m, n = shape_of(a)[-2:]
    gaps, sums = inverse_gaps(s), inverse_gaps(s, +1)
    tv = t @ v1
    p = dagger(u1) @ tv
    ph = dagger(p)
    plus, minus = gaps * (p + ph) * 0.5, sums * (p - ph) * 0.5
    du, dv = u1 @ (plus + minus), v1 @ (plus - minus)
    inverse = row(2 * diagonal_of(sums))
    if m > k:
        du = du + (tv - u1 @ p) * inverse
    if n > k:
        dv = dv + (dagger(t) @ u1 - v1 @ ph) * inverse
    if full:
        du, dv = complete_tangent(u, k, du), complete_tangent(dagger(vh), k, dv)
    return du, real_part(diagonal_of(p)), dagger(dv)


def _svd_vjp(g: Any, y: Any, a: Value, *, full: bool) -> Any:
    gu, gs, gvh = g
    u, s, vh = y
    k, m, n = shape_of(s)[-1], shape_of(u)[-2], shape_of(vh)[-1]
    gv = None if gvh is None else dagger(gvh)
    if full:
        gu, gv = complete_cotangent(u, k, gu), complete_cotangent(dagger(vh), k, gv)
    u1, vh1 = columns(u, 0, k), rows(vh, 0, k)
    vt = conjugate(vh1)
    if gu is None and gv is None:
        return ((conjugate(u1) * row(gs)) @ vt,)
    gaps, sums = inverse_gaps(s), inverse_gaps(s, +1)
    inverse = row(2 * diagonal_of(sums))
    by_u = 0.0 if gu is None else swap(u1) @ gu
    by_v = 0.0 if gv is None else vt @ gv
    plus, minus = gaps * (by_u + by_v) * 0.5, sums * (by_u - by_v) * 0.5
    gp = plus + dagger(plus) + minus - dagger(minus)
    if gs is not None:
        gp = gp + as_diagonal(gs)
    left = conjugate(u1) @ gp
    if m > k and gu is not None:
        left = left + (gu - conjugate(u1) @ by_u) * inverse
    result = left @ vt
    if n > k and gv is not None:
        result = result + conjugate(u1) @ dagger((gv - swap(vh1) @ by_v) * inverse)
    return (result,)


svd = opaque(
    "svd",
    lambda a, *, full: tuple(np.linalg.svd(a, full_matrices=full)),
    jvp=_svd_jvp,
    vjp=_svd_vjp,
    batch=lambda flags, a, *, full: svd(a, full=full),
    cases=[
        case((3, 3), full=False),
        case((4, 2), full=False),
        case((2, 2, 4), full=False),
        case((3, 2), full=True),
        case((2, 3), full=True),
        case((0, 2), full=False),
    ],
    many=True,
    doc="u, s, vᴴ. With full, the columns beyond s turn only as far as they must.",
)
