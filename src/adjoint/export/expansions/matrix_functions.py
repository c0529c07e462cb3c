"""Pseudoinverses, cofactors, exponentials of matrices and matrix equations in terms of other ops."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...api.control import while_loop
from ...core.op import Op
from ...ops import decompose, determinant, matrix_functions, pseudo
from ...ops.index import gather
from ...ops.matrix import conjugate, dagger
from .numerics import Expansion

_MINORS = 6  # up to which size a cofactor is a determinant


def _decomposed(a: Any) -> tuple[Any, Any, Any]:
    u, s, vh = decompose.svd(a, full=False)
    return u, s, vh


def _pinv(a: Any, *, rcond: float) -> Any:
    u, s, vh = _decomposed(a)
    kept = s > rcond * np.max(s, axis=-1, keepdims=True)
    inverse = np.where(kept, 1.0 / np.where(kept, s, 1.0), 0.0)
    return dagger(vh) @ (inverse[..., :, None] * dagger(u))


def _lstsq(a: Any, b: Any, *, rcond: float) -> Any:
    _, s, _ = _decomposed(a)
    rank = np.sum(s > rcond * np.max(s, axis=-1, keepdims=True), axis=-1)
    return _pinv(a, rcond=rcond) @ b, s, rank.astype(np.int32)


def _rank(a: Any, *, tol: Any, rtol: Any, hermitian: bool) -> Any:
    s = np.abs(decompose.eigh(a, lower=True)[0]) if hermitian else _decomposed(a)[1]
    if tol is None:
        relative = max(a.shape[-2:]) * float(np.finfo(a.dtype).eps) if rtol is None else rtol
        tol = np.max(s, axis=-1, keepdims=True) * relative
    return np.sum(s > tol, axis=-1)


def _without(s: Any, *left_out: int) -> Any:
    """The product of all singular values but some."""
    rest = [i for i in range(s.shape[-1]) if i not in left_out]
    return np.prod(s[..., rest], axis=-1) if rest else np.ones_like(s[..., 0])


def _rotations(a: Any) -> tuple[Any, Any, Any, Any]:
    u, s, vh = _decomposed(a)
    return u, s, vh, (np.linalg.det(u) * np.linalg.det(vh))[..., None, None]


def _cofactor(a: Any) -> Any:
    """Determinants of what is left without a row and a column; for larger matrices, from the singular values."""
    n = a.shape[-1]
    if n > _MINORS:
        u, s, vh, turn = _rotations(a)
        others = np.stack([_without(s, i) for i in range(n)], -1)
        return turn * ((conjugate(u) * others[..., None, :]) @ conjugate(vh))
    if n < 2:
        return np.ones(a.shape, a.dtype)
    others = np.array([[j for j in range(n) if j != i] for i in range(n)])
    minors = gather(a, others[:, None, :, None], others[None, :, None, :], axis=a.ndim - 2)
    signs = np.where(np.add.outer(np.arange(n), np.arange(n)) % 2, -1, 1).astype(a.dtype)
    return determinant.det(minors) * signs


def _cofactor_slope(a: Any, t: Any) -> Any:
    u, s, vh, turn = _rotations(a)
    n = a.shape[-1]
    zero = np.zeros_like(s[..., 0])
    pairs = np.stack([np.stack([_without(s, i, j) if i != j else zero for j in range(n)], -1) for i in range(n)], -2)
    e_ = dagger(u) @ t @ dagger(vh)
    d = np.sum(pairs * np.sum(e_ * np.eye(n), -1)[..., None, :], -1)
    inner = -pairs * np.swapaxes(e_, -1, -2) + np.eye(n) * d[..., None, :]
    return turn * (conjugate(u) @ inner @ conjugate(vh))


def _sylvester(a: Any, b: Any, q: Any) -> Any:
    """One system for all elements of x: small matrices."""
    m, n = q.shape[-2:]
    left = np.reshape(a[..., :, None, :, None] * np.eye(n)[:, None, :], (*a.shape[:-2], m * n, m * n))
    turned = np.swapaxes(b, -1, -2)
    right = np.reshape(np.eye(m)[:, None, :, None] * turned[..., None, :, None, :], (*b.shape[:-2], m * n, m * n))
    system = left + right
    wanted = np.broadcast_to(q, (*np.broadcast_shapes(system.shape[:-2], q.shape[:-2]), m, n))
    return np.reshape(np.linalg.solve(system, np.reshape(wanted, (*wanted.shape[:-2], m * n, 1))), wanted.shape)


#: Of the Padé approximant of degree 13, with 1-norms up to 5.37 (Higham, 2005).
_PADE = tuple(
    float(math.factorial(26 - k) * math.factorial(13) // (math.factorial(k) * math.factorial(13 - k))) for k in range(14)
)


def _expm(a: Any) -> Any:
    """Scaling and squaring."""
    size = np.max(np.sum(np.abs(a), axis=-2))
    squarings = np.where(size > 5.37, np.ceil(np.log2(np.where(size > 5.37, size, 5.37) / 5.37)), 0.0)
    a = a * np.exp2(-squarings)
    one = np.broadcast_to(np.eye(a.shape[-1]), a.shape)
    b = [c / _PADE[0] for c in _PADE]
    a2 = a @ a
    a4 = a2 @ a2
    a6 = a4 @ a2
    odd = a @ (a6 @ (b[13] * a6 + b[11] * a4 + b[9] * a2) + b[7] * a6 + b[5] * a4 + b[3] * a2 + b[1] * one)
    even = a6 @ (b[12] * a6 + b[10] * a4 + b[8] * a2) + b[6] * a6 + b[4] * a4 + b[2] * a2 + b[0] * one
    y = np.linalg.solve(even - odd, even + odd)
    return while_loop(lambda c: c[0] > 0.5, lambda c: (c[0] - 1.0, c[1] @ c[1]), (squarings, y))[1]


def _expm_slope(a: Any, t: Any) -> Any:
    """The upper right block of the exponential of [[a, t], [0, a]]."""
    n = a.shape[-1]
    shape = (*np.broadcast_shapes(a.shape[:-2], t.shape[:-2]), n, n)
    a, t = np.broadcast_to(a, shape), np.broadcast_to(t, shape)
    top = np.concatenate([a, t], axis=-1)
    return _expm(np.concatenate([top, np.concatenate([np.zeros(shape), a], axis=-1)], axis=-2))[..., :n, n:]


EXPANSIONS: dict[Op, Expansion] = {
    pseudo.pinv: _pinv,
    pseudo.lstsq: _lstsq,
    pseudo.rank: _rank,
    pseudo.stein: pseudo.stein.impl,
    determinant.cofactor: _cofactor,
    determinant.cofactor_slope: _cofactor_slope,
    matrix_functions.sylvester: _sylvester,
    matrix_functions.expm: _expm,
    matrix_functions.expm_slope: _expm_slope,
}
