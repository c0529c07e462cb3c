"""Determinants. det is a polynomial: its derivatives exist at singular matrices too, through cofactors.

d det(a) = Σ cof(a) ∘ da        d log|det(a)| = tr(a⁻¹ da)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.op import case
from ..core.types import Value, shape_of
from .broadcast import conj, expand_dims, imag, real, sum_
from .declare import opaque
from .elementwise import strong_mul
from .linalg import swap
from .matrix import is_complex
from .solve import inv

_A = np.array([[2.0, 0.3, -0.4], [0.1, 1.5, 0.6], [-0.7, 0.2, 1.8]])
_STACK = np.array([0.7, 1.0]).reshape(2, 1, 1) * _A
_SINGULAR = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]])
_RANK_ONE = np.outer([1.0, 2.0, -1.0], [1.0, 0.5, 2.0])


def matrix_sum(x: Value) -> Value:
    """The sum over the last two axes."""
    n = len(shape_of(x))
    return sum_(x, axis=(n - 2, n - 1), keepdims=False)


def as_matrices(x: Value) -> Value:
    """One number per matrix, shaped to multiply matrices."""
    n = len(shape_of(x))
    return expand_dims(x, (n, n + 1))


# -- cofactors --------------------------------------------------------------------------------------------------


def _products_without(s: Any) -> Any:
    """For each element of the last axis, the product of the others."""
    n = s.shape[-1]
    return np.stack([np.prod(np.delete(s, i, axis=-1), axis=-1) for i in range(n)], axis=-1) if n else s


def _products_without_two(s: Any) -> Any:
    """For each pair of elements of the last axis, the product of the others; 0 on the diagonal."""
    n = s.shape[-1]
    if np.all(s[..., -1] > s[..., 0] * np.finfo(s.dtype).eps ** 0.5):
        return np.prod(s, axis=-1)[..., None, None] / (s[..., None] * s[..., None, :]) * (1 - np.eye(n, dtype=s.dtype))
    pairs = np.zeros((*s.shape, n), s.dtype)
    for i in range(n):
        others = np.delete(np.arange(n), i)
        pairs[..., i, others] = _products_without(s[..., others])
    return pairs


def _rotations(a: Any) -> tuple[Any, Any, Any, Any]:
    """a = u s vᴴ, and the determinant of u vᴴ; nan for a matrix that is not finite, of which LAPACK's iteration does not end."""
    lost = ~np.all(np.isfinite(a), axis=(-1, -2), keepdims=True)
    u, s, vh = np.linalg.svd(np.where(lost, 0.0, a))
    return u, s, vh, np.where(lost, np.nan, (np.linalg.det(u) * np.linalg.det(vh))[..., None, None])


def _cofactor(a: Any) -> Any:
    if a.size == 0:
        return np.empty_like(a)
    y = _inverse_times_det(a)
    if y is None:
        u, s, vh, turn = _rotations(a)
        y = turn * ((np.conjugate(u) * _products_without(s)[..., None, :]) @ np.conjugate(vh))
    return y


def _inverse_times_det(a: Any) -> Any:
    """det(a) a⁻ᵀ, or None if a matrix is nearly singular."""
    try:
        inverse = np.linalg.inv(a)
    except np.linalg.LinAlgError:
        return None
    sizes, d = np.abs(a).sum(-1).max(-1) * np.abs(inverse).sum(-1).max(-1), np.linalg.det(a)
    # On a GPU, a matrix without an inverse raises nothing; what `inv` then gives is undefined.
    if not np.all((sizes < np.finfo(a.dtype).eps ** -0.5) & (d != 0)):
        return None
    return np.swapaxes(inverse, -1, -2) * d[..., None, None]


def _cofactor_slope(a: Any, t: Any) -> Any:
    if a.size == 0:
        return np.empty(np.broadcast_shapes(a.shape, t.shape), np.result_type(a, t))
    u, s, vh, turn = _rotations(a)
    e = np.conjugate(np.swapaxes(u, -1, -2)) @ t @ np.conjugate(np.swapaxes(vh, -1, -2))
    n = s.shape[-1]
    pairs = _products_without_two(s)
    d = np.einsum("...ij,...j->...i", pairs, np.diagonal(e, axis1=-2, axis2=-1))
    inner = -pairs * np.swapaxes(e, -1, -2)
    inner = inner + np.eye(n, dtype=s.dtype) * d[..., None, :]
    return turn * (np.conjugate(u) @ inner @ np.conjugate(vh))


def _second_slope(a: Value, t: Value, h: Value) -> Value:
    """The derivative of cofactor_slope(a, t) by a along h: symmetric in t and h. Needs an invertible a."""
    b = swap(inv(a, strict=False))
    bt, bh = b @ swap(t), b @ swap(h)
    tt, th = as_matrices(matrix_sum(b * t)), as_matrices(matrix_sum(b * h))
    both = as_matrices(matrix_sum((bt @ b) * h))
    inner = (tt * th - both) * b + (bt @ bh + bh @ bt - th * bt - tt * bh) @ b
    return as_matrices(det(a)) * inner


def _slope_jvp(ts: Any, y: Value, a: Value, t: Value) -> Value:
    ta, tt = ts
    by_t = None if tt is None else cofactor_slope(a, tt)
    by_a = None if ta is None else _second_slope(a, t, ta)
    return by_a if by_t is None else by_t if by_a is None else by_t + by_a


cofactor = opaque(
    "cofactor",
    _cofactor,
    jvp=lambda ts, y, a: cofactor_slope(a, ts[0]),
    vjp=lambda g, y, a: (cofactor_slope(a, g),),
    axes=(),
    cases=[case(_A), case(_STACK), case((2, 2)), case((1, 1)), case((0, 0))],
    complex_domain=True,
    doc="The matrix of cofactors, det(a) a⁻ᵀ where a has an inverse.",
)

cofactor_slope = opaque(
    "cofactor_slope",
    _cofactor_slope,
    jvp=_slope_jvp,
    vjp=lambda g, y, a, t: (_second_slope(a, t, g), cofactor_slope(a, g)),
    axes=(),
    cases=[case(_A, (3, 3)), case(_STACK, (2, 3, 3)), case(_A[:2, :2], (2, 2)), case((0, 0), (0, 0))],
    complex_domain=True,
    doc="The derivative of the cofactors along t: symmetric, so it is its own transpose in t.",
)

det = opaque(
    "det",
    np.linalg.det,
    jvp=lambda ts, y, a: matrix_sum(strong_mul(ts[0], cofactor(a))),
    vjp=lambda g, y, a: (strong_mul(as_matrices(g), cofactor(a)),),
    axes=(),
    cases=[case(_A), case(_STACK), case(_SINGULAR), case(_RANK_ONE), case((2, 2)), case((1, 1)), case((0, 0))],
    complex_domain=True,
    python="np.linalg.det",
)

# -- sign and logarithm -----------------------------------------------------------------------------------------


def _slogdet_jvp(ts: Any, y: Any, a: Value) -> Any:
    trace = matrix_sum(strong_mul(ts[0], swap(inv(a, strict=False))))
    if not is_complex(a):
        return None, trace
    return y[0] * (1j * imag(trace)), real(trace)


def _slogdet_vjp(g: Any, y: Any, a: Value) -> Any:
    gsign, glog = g
    weight = glog
    if is_complex(a) and gsign is not None:
        turned = gsign * y[0]
        weight = 0.5 * (turned - conj(turned))
        weight = weight if glog is None else weight + glog
    if weight is None:
        return (None,)
    return (strong_mul(as_matrices(weight), swap(inv(a, strict=False))),)


slogdet = opaque(
    "slogdet",
    lambda a: tuple(np.linalg.slogdet(a)),
    jvp=_slogdet_jvp,
    vjp=_slogdet_vjp,
    axes=(),
    cases=[case(_A), case(_STACK), case((2, 2)), case((0, 0))],
    many=True,
    complex_domain=True,
    doc="The sign (of modulus one) and the logarithm of the modulus of the determinant.",
    python="np.linalg.slogdet",
)
