"""Factorisations: cholesky, qr, eigh, eig, svd, over the last two axes of a stack of matrices.

Each `jvp` is the differential of the defining equations; each `vjp` is that map transposed, step by step. With the
pairing Re Σ g·t, the transpose of t ↦ x t y is g ↦ xᵀ g yᵀ without a conjugate, and that of t ↦ tᴴ is g ↦ gᴴ.

Vectors are determined up to a phase, and those of a repeated eigenvalue up to a rotation. Derivatives are exact for functions
that do not depend on that choice. At repeated eigenvalues (singular values) they are limits (see `gaps`), in reverse mode;
forward mode is computed by two reverse passes there. For a function that depends on it, they are nan.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.op import Limit, case
from ..core.types import Value, dtype_of, shape_of
from . import rotation
from .broadcast import cast, sum_, where
from .declare import opaque
from .elementwise import less, logical_not
from .gaps import Gaps, even, gaps_of, magnitude, negligible, splitting
from .linalg import column, row, swap
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
    real_part,
    rows,
    triangle,
    weights,
)
from .reduce import any_, max_
from .regular import Regular, regular
from .shape import concatenate
from .solve import inv, solve, triangular_solve

_SPD = np.array([[2.0, 9.0, 9.0], [0.4, 1.5, 9.0], [-0.3, 0.2, 1.0]])  # only one triangle is read
_STACK = np.array([1.0, 1.3]).reshape(2, 1, 1) * _SPD

# -- cholesky: a = l lᴴ -----------------------------------------------------------------------------------------
# dl = l Φ(l⁻¹ da l⁻ᴴ), where Φ takes the lower triangle and one half of the diagonal. The pullback of g is
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
    axes=(),
    cases=[case(_SPD), case(_STACK), case(np.array([[4.0]])), case((0, 0))],
    doc="The lower triangular l with a = l lᴴ; reads the lower triangle. See `matrix.hermitian_tangent`.",
    may_fail=True,
    python="np.linalg.cholesky",
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
    axes=(),
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


def _independent(r: Value) -> Regular:
    """Of a triangular factor: with columns that depend on each other, the vectors of q that go with them are not determined."""
    if not shape_of(r)[-1]:
        return Regular(np.zeros((*shape_of(r)[:-2], 1, 1), bool))
    sizes = magnitude(diagonal_of(r))
    axis = (len(shape_of(sizes)) - 1,)
    allowed = max_(sizes, axis=axis, keepdims=True) * (16 * shape_of(r)[-1] * np.finfo(dtype_of(r)).eps)
    lost = any_(logical_not(less(allowed, sizes)), axis=axis, keepdims=True)
    return regular(column(lost), "qr of a matrix whose columns are not independent has no derivative")


def _qr_jvp(ts: Any, y: Any, a: Value, *, complete: bool) -> Any:
    q, r = y
    n = shape_of(a)[-1]
    q1, r1 = columns(q, 0, n), rows(r, 0, n)
    only = _independent(r1)
    r1 = only.of(r1)
    b = swap(triangular_solve(r1, swap(ts[0]), lower=False, transposed=True))  # da r⁻¹
    c = dagger(q1) @ b
    e = c - _antihermitian(c)
    dr = e @ r1
    if shape_of(r)[-2] > n:
        dr = concatenate(dr, np.zeros(shape_of(rows(r, n, shape_of(r)[-2])), dtype_of(r)), axis=len(shape_of(r)) - 2)
    return only.checked(complete_tangent(q, n, b - q1 @ e)), only.checked(dr)


def _qr_vjp(g: Any, y: Any, a: Value, *, complete: bool) -> Any:
    q, r = y
    n = shape_of(r)[-1]
    q1, r1 = columns(q, 0, n), rows(r, 0, n)
    only = _independent(r1)
    r1 = only.of(r1)
    gq = complete_cotangent(q, n, g[0])
    ge = None if g[1] is None else rows(g[1], 0, n) @ swap(r1)
    if gq is not None:
        by_q = swap(q1) @ gq
        ge = -by_q if ge is None else ge - by_q
    gb = conjugate(q1) @ (ge - _antihermitian_transpose(ge))
    if gq is not None:
        gb = gb + gq
    return (only.checked(swap(triangular_solve(r1, swap(gb), lower=False, transposed=False))),)


qr = opaque(
    "qr",
    lambda a, *, complete: tuple(np.linalg.qr(a, "complete" if complete else "reduced")),
    jvp=_qr_jvp,
    vjp=_qr_vjp,
    axes=(),
    cases=[
        case((3, 3), complete=False),
        case((4, 2), complete=False),
        case((2, 4, 3), complete=True),
        case((2, 1), complete=True),
        case((3, 0), complete=False),
    ],
    many=True,
    doc="A unitary q and an upper triangular r. Further columns of q (complete) turn only as far as they must.",
    may_fail=True,
)

# -- eigh: a v = v w --------------------------------------------------------------------------------------------


# For a Hermitian p = vᴴ da v, only the antihermitian part of the cotangent of vᴴ dv counts.


def _eigh_jvp(ts: Any, y: Any, a: Value, *, lower: bool) -> Any:
    w, v = y
    p = dagger(v) @ hermitian_tangent(ts[0], a, lower) @ v
    return real_part(diagonal_of(p)), v @ _off_diagonal(gaps_of(w).divide(_off_diagonal(p), _sizes(p)))


def _off_diagonal(x: Value) -> Value:
    n = shape_of(x)[-1]
    return where(np.eye(n, dtype=bool), 0.0, x)


def _sizes(g: Value) -> Value:
    """The sizes of two columns together, for all pairs: products with them may cancel."""
    sizes = sum_(magnitude(g), axis=(len(shape_of(g)) - 2,), keepdims=False)
    return row(sizes) + column(sizes)


def _eigh_pull(g: Any, dg: Any, y: Any, a: Value, lower: bool, gaps: Gaps) -> Any:
    (w, v), (gw, gv) = y, g
    if gv is None:
        inner = (conjugate(v) * row(even(gw, w))) @ swap(v)
        return (hermitian_cotangent(inner, a, lower),)
    by_v = swap(v) @ gv
    turned = [
        None if x is None else _off_diagonal(x - dagger(x)) * 0.5 for x in (by_v, None if dg[1] is None else swap(v) @ dg[1])
    ]
    gp = _off_diagonal(gaps.divide(turned[0], _sizes(gv), turned[1]))
    inner = conjugate(v) @ (gp if gw is None else gp + as_diagonal(gaps.cotangent(gw, w))) @ swap(v)
    return (hermitian_cotangent(inner, a, lower),)


eigh = opaque(
    "eigh",
    lambda a, *, lower: tuple(np.linalg.eigh(a, "L" if lower else "U")),
    jvp=_eigh_jvp,
    vjp=lambda g, y, a, *, lower: _eigh_pull(g, (None, None), y, a, lower, gaps_of(y[0])),
    limit=Limit(
        lambda y, **_: (splitting(y[0], kind="real"), None),
        lambda g, dg, y, a, *, lower: _eigh_pull(g, dg, y, a, lower, gaps_of(y[0], split="real")),
        rotation.eigh,
    ),
    axes=(),
    cases=[case(_SPD, lower=True), case(_STACK, lower=False), case((1, 1), lower=True), case((0, 0), lower=True)],
    many=True,
    doc="Eigenvalues and eigenvectors of a Hermitian matrix, reading one triangle. See `matrix.hermitian_tangent`.",
    may_fail=True,
)

# -- eig: a v = v w, columns of v of length one -----------------------------------------------------------------


def _eig(a: Any) -> Any:
    w, v = np.linalg.eig(a)
    dtype = np.result_type(w.dtype, np.complex64)
    return w.astype(dtype, copy=False), v.astype(dtype, copy=False)


def _diagonalisable(v: Value) -> Regular:
    """Of the vectors: a matrix has a derivative of its eigenvalues, and of functions by them, only if they are independent."""
    axes = (len(shape_of(v)) - 2, len(shape_of(v)) - 1)
    if not shape_of(v)[-1]:
        return Regular(np.zeros((*shape_of(v)[:-2], 1, 1), bool))
    sizes = max_(magnitude(inv(v, strict=False)), axis=axes, keepdims=True)  # the vectors have length one
    few = logical_not(less(sizes, float(np.finfo(dtype_of(v)).eps ** -0.5)))
    return regular(few, "eig of a matrix whose eigenvectors are not independent has no derivative")


def _eig_jvp(ts: Any, y: Any, a: Value) -> Any:
    w, v = y
    only = _diagonalisable(v)
    v = only.of(v)
    p = solve(v, ts[0] @ v)
    z = v @ _off_diagonal(gaps_of(w).divide(_off_diagonal(p), _sizes(p)))
    along = sum_(conjugate(v) * z, axis=(len(shape_of(v)) - 2,), keepdims=True)
    return diagonal_of(only.checked(p)), only.checked(z - v * along)


def _eig_pull(g: Any, dg: Any, y: Any, a: Value, gaps: Gaps) -> Any:
    (w, v), (gw, gv) = y, g
    only = _diagonalisable(v)
    v = only.of(v)
    if gv is None:
        gp = as_diagonal(even(gw, w))
    else:
        by_v, rate = (None if x is None else _off_diagonal(swap(v) @ _across(x, v)) for x in (gv, dg[1]))
        gp = _off_diagonal(gaps.divide(by_v, _sizes(gv), rate))
        gp = gp if gw is None else gp + as_diagonal(gaps.cotangent(gw, w))
    inner = only.checked(solve(swap(v), gp @ swap(v)))
    return (inner if dtype_of(a).kind == "c" else cast(inner, dtype=dtype_of(a)),)


def _across(gv: Value, v: Value) -> Value:
    """The cotangents of vectors of any length, from those of vectors of length one."""
    return gv - conjugate(v) * sum_(gv * v, axis=(len(shape_of(v)) - 2,), keepdims=True)


_REAL_EIGENVALUES = np.array([[1.0, 0.5, 0.2], [0.3, 2.0, -0.4], [0.1, 0.3, -1.0]])

eig = opaque(
    "eig",
    _eig,
    jvp=_eig_jvp,
    vjp=lambda g, y, a: _eig_pull(g, (None, None), y, a, gaps_of(y[0])),
    limit=Limit(
        lambda y: (splitting(y[0], kind="any"), None),
        lambda g, dg, y, a: _eig_pull(g, dg, y, a, gaps_of(y[0], split="any")),
        rotation.eig,
    ),
    axes=(),
    cases=[case(_REAL_EIGENVALUES), case(np.array([1.0, 1.2]).reshape(2, 1, 1) * _REAL_EIGENVALUES), case((0, 0))],
    many=True,
    doc="Eigenvalues and eigenvectors of any square matrix, always complex. The face gives real ones as NumPy does.",
    may_fail=True,
)

# -- svd: a = u s vᴴ --------------------------------------------------------------------------------------------
# With p = uᴴ da v:  (uᴴdu + vᴴdv)ᵢⱼ (sⱼ − sᵢ) = (p + pᴴ)ᵢⱼ  and  (uᴴdu − vᴴdv)ᵢⱼ (sⱼ + sᵢ) = (p − pᴴ)ᵢⱼ.


def _svd_jvp(ts: Any, y: Any, a: Value, *, full: bool) -> Any:
    t = ts[0]
    u, s, vh = y
    k = shape_of(s)[-1]
    u1, v1 = columns(u, 0, k), columns(dagger(vh), 0, k)
    m, n = shape_of(a)[-2:]
    gaps, sums = gaps_of(s), gaps_of(s, +1)
    tv = t @ v1
    p = dagger(u1) @ tv
    ph = dagger(p)
    sizes = _sizes(p) + _sizes(ph)
    plus, minus = _off_diagonal(gaps.divide(_off_diagonal(p + ph) * 0.5, sizes)), sums.divide((p - ph) * 0.5, sizes)
    du, dv = u1 @ (plus + minus), v1 @ (plus - minus)
    if m > k:
        du = du + _over_each(sums, tv - u1 @ p, tv)
    if n > k:
        tu = dagger(t) @ u1
        dv = dv + _over_each(sums, tu - v1 @ ph, tu)
    if full:
        du, dv = complete_tangent(u, k, du), complete_tangent(dagger(vh), k, dv)
    return du, real_part(diagonal_of(p)), dagger(dv)


def _over_each(sums: Gaps, above: Value, terms: Value, by_epsilon: Value | None = None) -> Value:
    """Columns divided by the singular values, the half of the diagonal of their sums."""

    def each(x: Value | None) -> Any:
        return None if x is None else row(diagonal_of(x) * 0.5)

    zero = row(diagonal_of(sums.zero))
    return Gaps(each(sums.gaps), zero, each(sums.split), sums.one).divide(above, terms, by_epsilon)


def _svd_pull(g: Any, dg: Any, y: Any, a: Value, full: bool, split: str) -> Any:
    u, s, vh = y
    k, m, n = shape_of(s)[-1], shape_of(u)[-2], shape_of(vh)[-1]
    u1, vh1 = columns(u, 0, k), rows(vh, 0, k)
    vt = conjugate(vh1)
    gs = g[1]
    pairs = []  # of cotangents of u and v, and their derivatives by ε
    for gu, _, gvh in (g, dg):
        gv = None if gvh is None else dagger(gvh)
        pairs.append((complete_cotangent(u, k, gu), complete_cotangent(dagger(vh), k, gv)) if full else (gu, gv))
    (gu, gv), (dgu, dgv) = pairs
    if gu is None and gv is None:
        smooth = where(diagonal_of(negligible(s, sign=+1)), 0.0, even(gs, s))  # at 0 a singular value has a kink, as abs has
        return ((conjugate(u1) * row(smooth)) @ vt,)
    gaps, sums = gaps_of(s, split=split), gaps_of(s, +1, split=split)
    (by_u, by_v), (rate_u, rate_v) = ((0.0 if cu is None else swap(u1) @ cu, 0.0 if cv is None else vt @ cv) for cu, cv in pairs)
    terms = (0.0 if gu is None else _sizes(gu)) + (0.0 if gv is None else _sizes(gv))
    gp = _off_diagonal(gaps.divide(_turn(by_u + by_v), terms, _turn(rate_u + rate_v)))
    gp = gp + sums.divide(_turn(by_u - by_v), terms, _turn(rate_u - rate_v))
    if gs is not None:
        gp = gp + as_diagonal(gaps.cotangent(gs, s, m != n or dtype_of(a).kind == "c"))
    result = conjugate(u1) @ gp @ vt
    if m > k and gu is not None:
        rate = None if dgu is None else dgu - conjugate(u1) @ rate_u
        result = result + _over_each(sums, gu - conjugate(u1) @ by_u, gu, rate) @ vt
    if n > k and gv is not None:
        rate = None if dgv is None else dgv - swap(vh1) @ rate_v
        result = result + conjugate(u1) @ dagger(_over_each(sums, gv - swap(vh1) @ by_v, gv, rate))
    return (result,)


def _turn(x: Value) -> Value:
    """The antihermitian part, which rotates vectors towards each other."""
    return x if isinstance(x, float) else 0.5 * (x - dagger(x))


svd = opaque(
    "svd",
    lambda a, *, full: tuple(np.linalg.svd(a, full_matrices=full)),
    jvp=_svd_jvp,
    vjp=lambda g, y, a, *, full: _svd_pull(g, (None, None, None), y, a, full, ""),
    limit=Limit(
        lambda y, **_: (None, splitting(y[1], kind="positive"), None),
        lambda g, dg, y, a, *, full: _svd_pull(g, dg, y, a, full, "positive"),
        rotation.svd,
    ),
    axes=(),
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
    may_fail=True,
    python="np.linalg.svd({0}, full_matrices={full})",
)
