"""Linear systems with a unique solution: solve, triangular solve, inverse.

All are batched over leading axes, which broadcast. The right-hand side is a matrix (..., n, k); `numpy/linalg.py` turns a vector
into one column.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core.op import case
from ..core.types import Value, ndim_of, shape_of
from .broadcast import align_all, reshape, transpose, where
from .declare import opaque
from .elementwise import isnan
from .linalg import swap
from .matrix import triangle

# -- square systems: a x = b, so a dx = db − da x ---------------------------------------------------------------


def minus(tb: Value | None, product: Value | None) -> Value:
    if product is None:
        return tb
    return -product if tb is None else tb - product


def _one_factorisation(op: Any, flags: tuple[bool, ...], a: Value, b: Value, **params: Any) -> Value:
    """The batched form. If all examples share one matrix, their right-hand sides become columns of one matrix."""
    if flags[0] or ndim_of(a) > 2:
        return op(*align_all(flags, (a, b)), **params)
    lead, (n, k) = shape_of(b)[:-2], shape_of(b)[-2:]
    count = len(lead)
    beside = reshape(transpose(b, axes=(count, *range(count), count + 1)), shape=(n, math.prod(lead) * k))
    y = reshape(op(a, beside, **params), shape=(n, *lead, k))
    return transpose(y, axes=(*range(1, count + 1), 0, count + 1))


def _solve_jvp(ts: Any, x: Value, a: Value, b: Value) -> Value:
    ta, tb = ts
    return solve(a, minus(tb, None if ta is None else ta @ x))


def _solve_vjp(g: Value, x: Value, a: Value, b: Value) -> Any:
    gb = solve(swap(a), g)
    return -(gb @ swap(x)), gb


_A = np.array([[2.0, 0.3, -0.4], [0.1, 1.5, 0.6], [-0.7, 0.2, 1.8]])
_LEFT = np.array([0.7, 1.0, 1.4]).reshape(3, 1, 1) * _A

solve = opaque(
    "solve",
    np.linalg.solve,
    jvp=_solve_jvp,
    vjp=_solve_vjp,
    batch=lambda flags, a, b: _one_factorisation(solve, flags, a, b),
    cases=[case(_A, (3, 2)), case(_LEFT, (3, 1)), case(_A, (2, 3, 2)), case((0, 0), (0, 2)), case(_A, (3, 0))],
    complex_domain=True,
    doc="x with a x = b.",
    may_fail=True,
    python="np.linalg.solve",
)


def _solve_triangular(a: Any, b: Any, *, lower: bool, transposed: bool) -> Any:
    n = a.shape[-1]
    if a.ndim == b.ndim == 2 and n >= 64 and b.size:  # below, importing SciPy does not pay
        from scipy.linalg import solve_triangular

        return solve_triangular(a, b, lower=lower, trans=int(transposed), check_finite=False)
    part = np.where(triangle(n, lower, a), a, 0)  # whatever stands in the other triangle, nan too
    return np.linalg.solve(np.swapaxes(part, -1, -2) if transposed else part, b)


def _triangular_jvp(ts: Any, x: Value, a: Value, b: Value, *, lower: bool, transposed: bool) -> Value:
    ta, tb = ts
    product = None
    if ta is not None:
        part = triangle(shape_of(a)[-1], lower, a) * ta
        product = (swap(part) if transposed else part) @ x
    return triangular_solve(a, minus(tb, product), lower=lower, transposed=transposed)


def _triangular_vjp(g: Value, x: Value, a: Value, b: Value, *, lower: bool, transposed: bool) -> Any:
    gb = triangular_solve(a, g, lower=lower, transposed=not transposed)
    ga = x @ swap(gb) if transposed else gb @ swap(x)
    return -(triangle(shape_of(a)[-1], lower, a) * ga), gb


triangular_solve = opaque(
    "triangular_solve",
    _solve_triangular,
    jvp=_triangular_jvp,
    vjp=_triangular_vjp,
    batch=lambda flags, a, b, **params: _one_factorisation(triangular_solve, flags, a, b, **params),
    cases=[
        case(_A, (3, 2), lower=True, transposed=False),
        case(_A, (3, 2), lower=False, transposed=True),
        case(_LEFT, (3, 2), lower=True, transposed=True),
        case(_A, (2, 3, 1), lower=False, transposed=False),
        case((0, 0), (0, 1), lower=True, transposed=False),
    ],
    complex_domain=True,
    doc="x with a x = b (or aᵀ x = b), reading one triangle of a.",
    may_fail=True,
)


def _inv(a: Any, *, strict: bool) -> Any:
    try:
        return np.linalg.inv(a)
    except np.linalg.LinAlgError:
        if strict or a.shape[-1] != a.shape[-2]:
            raise
        if a.ndim == 2:
            return np.full_like(a, np.nan)
        return np.stack([_inv(part, strict=False) for part in a])


def _finite(y: Value, strict: bool) -> Value:
    """Without an inverse there is no derivative: 0 keeps the rest of a stack finite."""
    return y if strict else where(isnan(y), 0.0, y)


def _inv_jvp(ts: Any, y: Value, a: Value, *, strict: bool) -> Value:
    y = _finite(y, strict)
    return -(y @ ts[0] @ y)


def _inv_vjp(g: Value, y: Value, a: Value, *, strict: bool) -> Any:
    h = swap(_finite(y, strict))
    return (-(h @ g @ h),)


inv = opaque(
    "inv",
    _inv,
    jvp=_inv_jvp,
    vjp=_inv_vjp,
    axes=(),
    cases=[case(_A, strict=True), case(_LEFT, strict=False), case((0, 0), strict=True)],
    complex_domain=True,
    doc="The inverse. If not strict, a singular matrix has an inverse of nan instead of raising.",
    may_fail=True,
    python="def",
)
