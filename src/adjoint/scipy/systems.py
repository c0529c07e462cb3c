"""Linear systems and least squares of scipy.linalg."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg as _scipy
from scipy import __version__ as _version

from ..core.bind import Traced
from ..core.errors import UnsupportedError
from ..core.types import Value, dtype_of, ndim_of, shape_of
from ..numpy import linalg as numpy_linalg
from ..numpy.dropin import drop_in
from ..numpy.reduce import squared
from ..numpy.shape import astype
from ..ops import banded, decompose, determinant, matrix, pseudo
from ..ops import broadcast as shapes
from ..ops import matrix_functions as functions
from ..ops import solve as systems
from ..ops.linalg import swap
from .operands import as_columns, double, lift, square


@drop_in(_scipy.solve)
def solve(
    a: Any,
    b: Any,
    lower: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
    assume_a: str | None = None,
    transposed: bool = False,
) -> Value:
    a = square(a)
    kind = {None: "gen", "general": "gen", "symmetric": "sym", "hermitian": "her", "positive definite": "pos"}.get(
        assume_a, assume_a
    )
    if kind in ("lower triangular", "upper triangular"):
        return solve_triangular(a, b, int(transposed), kind.startswith("lower"))
    if kind == "pos":
        factor = decompose.cholesky(a if lower else matrix.dagger(a))
        return as_columns(lambda b: by_cholesky(matrix.conjugate(factor) if transposed else factor, b), b)
    if kind not in _READ:
        raise ValueError(f"{assume_a} is not a recognized matrix structure")
    a = _READ[kind](a, lower)
    return as_columns(lambda b: systems.solve(swap(a) if transposed else a, b), b)


def _symmetric(a: Value, lower: bool) -> Value:
    half = np.tril(a, -1) if lower else np.triu(a, 1)
    return half + swap(half) + matrix.as_diagonal(matrix.diagonal_of(a))


#: The matrix that a structure stands for. Elements outside of it are not read, and have no derivative.
_READ: dict[str, Callable[[Value, bool], Value]] = {
    "gen": lambda a, lower: a,
    "banded": lambda a, lower: a,  # the bands are those that are not zero
    "her": lambda a, lower: matrix.hermitian(a, lower=lower),
    "sym": _symmetric,
    "diagonal": lambda a, lower: matrix.as_diagonal(matrix.diagonal_of(a)),
    "tridiagonal": lambda a, lower: np.triu(np.tril(a, 1), -1),
}


def by_cholesky(low: Value, b: Value) -> Value:
    """x with l lᴴ x = b."""
    half = systems.triangular_solve(low, b, lower=True, transposed=False)
    return systems.triangular_solve(matrix.conjugate(low), half, lower=True, transposed=True)


@drop_in(_scipy.solve_triangular)
def solve_triangular(
    a: Any,
    b: Any,
    trans: Any = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Value:
    a = square(a)
    mode = {"N": 0, "T": 1, "C": 2}.get(trans, trans)
    if unit_diagonal:
        n = shape_of(a)[-1]
        a = (np.tril(a, -1) if lower else np.triu(a, 1)) + np.eye(n, dtype=dtype_of(a))
    if mode == 2:
        a = matrix.conjugate(a)
    return as_columns(lambda b: systems.triangular_solve(a, b, lower=bool(lower), transposed=bool(mode)), b)


@drop_in(_scipy.solve_banded)
def solve_banded(
    l_and_u: Any, ab: Any, b: Any, overwrite_ab: bool = False, overwrite_b: bool = False, check_finite: bool = True
) -> Value:
    lower, upper = map(int, l_and_u)
    ab, b = lift(ab), lift(b)
    if lower + upper + 1 != shape_of(ab)[-2]:
        raise ValueError(
            f"invalid values for the number of lower and upper diagonals: l+u+1 ({lower + upper + 1}) does not equal "
            f"ab.shape[0] ({shape_of(ab)[-2]})"
        )
    if shape_of(ab)[-1] != shape_of(b)[0 if ndim_of(b) == 1 else -2]:
        raise ValueError("shapes of ab and b are not compatible.")
    return as_columns(lambda b: banded.banded_solve(ab, b, lower=lower, upper=upper), b)


@drop_in(_scipy.inv)
def inv(
    a: Any, overwrite_a: bool = False, check_finite: bool = True, *, assume_a: str | None = None, lower: bool = False
) -> Value:
    a = square(a)
    if assume_a not in (None, "gen", "general"):
        return solve(a, np.eye(shape_of(a)[-1], dtype=dtype_of(a)), lower, assume_a=assume_a)
    return systems.inv(a, strict=True)


@drop_in(_scipy.det)
def det(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Value:
    return determinant.det(double(square(a)))


@drop_in(_scipy.pinv)
def pinv(a: Any, *, atol: Any = None, rtol: Any = None, return_rank: bool = False, check_finite: bool = True) -> Value:
    if atol or return_rank:
        raise UnsupportedError("scipy.linalg.pinv with atol= or return_rank= is not supported on traced values; use rtol=")
    a = lift(a)
    return numpy_linalg.pinv(a, rtol=max(shape_of(a)[-2:]) * float(np.finfo(dtype_of(a)).eps) if rtol is None else rtol)


_RESIDUALS_LIKE_X = tuple(map(int, _version.split(".")[:2])) >= (1, 18)  # their dtype


@drop_in(_scipy.lstsq)
def lstsq(
    a: Any,
    b: Any,
    cond: Any = None,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
    lapack_driver: str | None = None,
) -> Any:
    a, b = lift(a), lift(b)
    if 0 in shape_of(a) and ndim_of(a) == 2 and shape_of(a)[0] == shape_of(b)[0]:
        return _nothing_to_solve(a, b)
    a = a if dtype_of(a).kind in "fc" else astype(a, float)
    if ndim_of(a) > 2 or ndim_of(b) > 2:
        return _least_squares_of_a_stack(a, b, float(np.finfo(dtype_of(a)).eps) if cond is None else float(cond), lapack_driver)
    x, residuals, rank, s = numpy_linalg.lstsq(a, b, float(np.finfo(dtype_of(a)).eps) if cond is None else cond)
    if shape_of(residuals) == (0,) or lapack_driver == "gelsy":
        residuals = np.array([], dtype_of(x))
    else:
        residuals = astype(residuals, dtype_of(x)) if _RESIDUALS_LIKE_X else residuals
        residuals = shapes.reshape(residuals, shape=()) if ndim_of(b) == 1 else residuals
    # The driver gelsy gives neither residuals nor singular values.
    return x, residuals, astype(rank, int) if isinstance(rank, Traced) else int(rank), None if lapack_driver == "gelsy" else s


def _least_squares_of_a_stack(a: Value, b: Value, cond: float, lapack_driver: str | None) -> Any:
    """As SciPy since 1.18: the residuals of a matrix without full rank are nan. Before, there are none if no rank is full."""
    vector = ndim_of(b) == 1
    b = b if dtype_of(b).kind in "fc" else astype(b, float)
    b = shapes.reshape(b, shape=(*shape_of(b), 1)) if vector else b
    (*lead_a, m, n), (*lead_b, rows, columns) = shape_of(a), shape_of(b)
    if m != rows:
        raise ValueError(f"Shape mismatch: a and b should have the same number of rows ({m} != {rows}).")
    lead = np.broadcast_shapes(tuple(lead_a), tuple(lead_b))
    a, b = np.broadcast_to(a, (*lead, m, n)), np.broadcast_to(b, (*lead, m, columns))
    x, s, rank = pseudo.lstsq(a, b, rcond=cond)
    x = x[..., 0] if vector else x
    if m <= n or lapack_driver == "gelsy":
        residuals = np.zeros((*lead, 0), dtype_of(x))
    else:
        rest = b[..., 0] - np.matvec(a, x) if vector else b - a @ x
        full = rank == n if vector else np.expand_dims(rank == n, -1)
        residuals = np.sum(squared(rest), axis=-1 if vector else -2)
        residuals = np.where(full, residuals, np.array(np.nan, dtype_of(s)))
        residuals = astype(residuals, dtype_of(x)) if _RESIDUALS_LIKE_X else residuals
    return x, residuals, astype(rank, int), None if lapack_driver == "gelsy" else s


def _nothing_to_solve(a: Value, b: Value) -> Any:
    """What SciPy gives where there are no equations, or no unknowns."""
    n = shape_of(a)[1]
    x = np.zeros((n, *shape_of(b)[1:]), np.common_type(*(np.empty(0, dtype_of(v)) for v in (a, b))))
    return x, np.empty(0) if n else np.sum(squared(b if dtype_of(b).kind in "fc" else astype(b, float)), axis=0), 0, np.empty(0)


@drop_in(_scipy.solve_sylvester)
def solve_sylvester(a: Any, b: Any, q: Any) -> Value:
    return _sylvester(square(a), square(b), lift(q))


def _sylvester(a: Value, b: Value, q: Value) -> Value:
    """All real or all complex: of one of each, SciPy reads part of the real one's Schur form, and solves another equation."""
    xs = [a, b, q]
    if any(map(matrix.is_complex, xs)):
        xs = [x if matrix.is_complex(x) else shapes.cast(x, dtype=np.result_type(dtype_of(x), np.complex64)) for x in xs]
    return functions.sylvester(*xs)


@drop_in(_scipy.solve_continuous_lyapunov)
def solve_continuous_lyapunov(a: Any, q: Any) -> Value:
    a = square(a)
    return _sylvester(a, matrix.dagger(a), square(q))


solve_lyapunov = solve_continuous_lyapunov


@drop_in(_scipy.solve_discrete_lyapunov)
def solve_discrete_lyapunov(a: Any, q: Any, method: str | None = None) -> Value:
    """x with a x aᴴ − x + q = 0, by the bilinear transform unless the matrix is small."""
    a, q = square(a), square(q)
    n = shape_of(a)[-1]
    if method not in (None, "direct", "bilinear"):
        raise ValueError(f"Unknown solver {method}")
    if method == "direct" or (method is None and n < 10):
        lead = shape_of(a)[:-2]
        product = a[..., :, None, :, None] * matrix.conjugate(a)[..., None, :, None, :]
        left = np.eye(n * n) - shapes.reshape(product, shape=(*lead, n * n, n * n))
        x = systems.solve(left, shapes.reshape(q, shape=(*shape_of(q)[:-2], n * n, 1)))
        return shapes.reshape(x, shape=(*shape_of(x)[:-2], n, n))
    eye = np.eye(n)
    b = matrix.dagger(a)
    inverse = systems.inv(b + eye, strict=True)
    c = 2 * systems.solve(a + eye, q) @ inverse
    transformed = matrix.dagger((b - eye) @ inverse)
    return _sylvester(transformed, matrix.dagger(transformed), -c)
