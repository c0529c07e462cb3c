"""Building blocks of matrix rules, and the derivative of reading a Hermitian matrix from one triangle.

All act on the last two axes; the axes in front are a stack of matrices.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ..core.op import case
from ..core.types import Value, dtype_of, ndim_of, shape_of
from .broadcast import conj, real, reshape, where
from .declare import constant, opaque
from .index import getitem, place
from .linalg import swap
from .shape import concatenate

# -- parts ------------------------------------------------------------------------------------------------------


def is_complex(x: Value) -> bool:
    return dtype_of(x).kind == "c"


def conjugate(x: Value) -> Value:
    """The conjugate; a real array unchanged."""
    return conj(x) if is_complex(x) else x


def real_part(x: Value) -> Value:
    return real(x) if is_complex(x) else x


def dagger(x: Value) -> Value:
    """The conjugate transpose xᴴ."""
    return swap(conjugate(x))


def columns(x: Value, start: int, stop: int) -> Value:
    return getitem(x, spec=(slice(None),) * (ndim_of(x) - 1) + (slice(start, stop),))


def rows(x: Value, start: int, stop: int) -> Value:
    return getitem(x, spec=(slice(None),) * (ndim_of(x) - 2) + (slice(start, stop),))


def diagonal_of(x: Value) -> Value:
    """The diagonal of a square matrix: every (n+1)-th element."""
    *lead, n, _ = shape_of(x)
    return getitem(reshape(x, shape=(*lead, n * n)), spec=(slice(None),) * len(lead) + (slice(None, None, n + 1),))


def as_diagonal(v: Value) -> Value:
    """A square matrix with v on its diagonal."""
    *lead, n = shape_of(v)
    flat = place(v, spec=(slice(None),) * len(lead) + (slice(None, None, n + 1),), shape=(*lead, n * n))
    return reshape(flat, shape=(*lead, n, n))


def triangle(n: int, lower: bool, like: Value, diagonal: float = 1.0) -> Any:
    """Weights 1 in one triangle, `diagonal` on the diagonal and 0 elsewhere, real, of the precision of `like`."""
    weigh = _kept_weights if n <= _FEW else _lower_weights
    mask = weigh(n, dtype_of(like), diagonal)
    return mask if lower else mask.T


def _lower_weights(n: int, dtype: Any, diagonal: float) -> Any:
    mask = np.tri(n, n, -1, dtype=np.empty((), dtype).real.dtype)
    np.fill_diagonal(mask, diagonal)
    mask.flags.writeable = False
    return mask


_FEW = 64  # rows; below, making the weights takes longer than using them
_kept_weights = functools.lru_cache(maxsize=32)(_lower_weights)


# -- reading a Hermitian matrix ---------------------------------------------------------------------------------


def _is_hermitian(a: Any) -> Any:
    other = np.conjugate(np.swapaxes(a, -1, -2))
    same = a == other
    if same.all():
        return np.ones((*a.shape[:-2], 1, 1), bool)
    size = np.max(np.abs(a), axis=(-1, -2), keepdims=True, initial=0)
    slack = np.sqrt(np.finfo(np.asarray(a).dtype).eps)
    with np.errstate(invalid="ignore"):  # of infinities
        near = np.abs(a - other) <= slack * size
    return np.all(same | near, axis=(-1, -2), keepdims=True)


is_hermitian = constant(
    "is_hermitian",
    _is_hermitian,
    cases=[case((2, 2)), case((3, 2, 2)), case(np.array([[1.0, 2.0], [2.0, 3.0]])), case((0, 0))],
    python="def",
)


def weights(a: Value, lower: bool = True) -> Value:
    """The weights W of the Hermitian matrix that is read: W ∘ a + (W ∘ a)ᴴ."""
    return where(is_hermitian(a), 0.5, triangle(shape_of(a)[-1], lower, a, diagonal=0.5))


def hermitian_tangent(t: Value, a: Value, lower: bool = True) -> Value:
    """The tangent of the Hermitian matrix that a represents.

    LAPACK reads one triangle. Where a is Hermitian both triangles are taken to move together, so that cotangents are Hermitian
    too, as expected for a function of a symmetric matrix; they agree with differences along symmetric directions. Where a is not
    (only one triangle is filled in), the derivative is that of the triangle that is read.
    """
    half = weights(a, lower) * t
    return half + dagger(half)


def hermitian_cotangent(g: Value, a: Value, lower: bool = True) -> Value:
    """The transpose of `hermitian_tangent`."""
    return weights(a, lower) * (g + dagger(g))


def _hermitian(a: Any, *, lower: bool) -> Any:
    weights = triangle(shape_of(a)[-1], lower, a, diagonal=0.5)
    half = np.where(weights, weights * a, 0)  # whatever stands in the other triangle, nan too
    return half + np.conjugate(np.swapaxes(half, -1, -2))


hermitian = opaque(
    "hermitian",
    _hermitian,
    jvp=lambda ts, y, a, *, lower: hermitian_tangent(ts[0], a, lower),
    vjp=lambda g, y, a, *, lower: (hermitian_cotangent(g, a, lower),),
    axes=(),
    cases=[case((3, 3), lower=True), case((2, 3, 3), lower=False), case((1, 1), lower=True), case((0, 0), lower=True)],
    complex_domain=True,
    doc="The Hermitian matrix of which a triangle is given. See `hermitian_tangent` for its derivative.",
)

# -- completing a basis -----------------------------------------------------------------------------------------


def complete_tangent(q: Value, k: int, t: Value) -> Value:
    """The tangent of a unitary [q₁ q₂] of which q₁, k columns, moves by t: q₂ rotates as little as possible."""
    n = shape_of(q)[-1]
    if k == n:
        return t
    q1, q2 = columns(q, 0, k), columns(q, k, n)
    return concatenate(t, -(q1 @ (dagger(t) @ q2)), axis=ndim_of(q) - 1)


def complete_cotangent(q: Value, k: int, g: Value | None) -> Value | None:
    """The transpose of `complete_tangent`: the cotangent of the first k columns."""
    n = shape_of(q)[-1]
    if k == n or g is None:
        return g
    q1, q2 = columns(q, 0, k), columns(q, k, n)
    return columns(g, 0, k) - conjugate(q2) @ (dagger(columns(g, k, n)) @ conjugate(q1))
