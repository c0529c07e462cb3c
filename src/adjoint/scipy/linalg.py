"""scipy.linalg, differentiable: systems, factorisations and functions of matrices, as numpy.linalg's where they agree.

`overwrite_*` and `check_finite` are taken and make no difference. What a factorisation leaves open (the phase of a
vector, the order of equal pivots) is as in NumPy, and as in SciPy where that calls the same routine of LAPACK; take
derivatives of functions that do not depend on it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg as _scipy
from scipy import __version__ as _version

from ..core.bind import Traced
from ..core.errors import BatchError, UnsupportedError
from ..core.types import Value, dtype_of, ndim_of, shape_of
from ..numpy import linalg as numpy_linalg
from ..numpy.dropin import drop_in
from ..numpy.reduce import squared
from ..numpy.shape import astype
from ..numpy.table import FUNCTIONS, REFUSED, refuse
from ..numpy.table import lift as lift_any
from ..ops import banded, decompose, determinant, matrix
from ..ops import broadcast as shapes
from ..ops import matrix_functions as functions
from ..ops import solve as systems
from ..ops.elementwise import stop_gradient
from ..ops.linalg import column, row, swap
from ..ops.shape import concatenate
from .guard import guarded
from .structured import block_diag as _block_diag
from .structured import circulant as _circulant
from .structured import companion as _companion
from .structured import convolution_matrix as _convolution_matrix
from .structured import hankel as _hankel
from .structured import khatri_rao as _khatri_rao
from .structured import leslie as _leslie
from .structured import toeplitz as _toeplitz

LinAlgError = _scipy.LinAlgError


def lift(x: Any) -> Value:
    """An array_like as a value. LAPACK knows single and double precision: SciPy computes in the nearest, and so do we."""
    x = lift_any(x)
    nearest = {"e": np.float32, "g": np.float64, "G": np.complex128}.get(dtype_of(x).char)
    return x if nearest is None else shapes.cast(x, dtype=np.dtype(nearest))


def _square(a: Any) -> Value:
    a = lift(a)
    if ndim_of(a) < 2 or shape_of(a)[-1] != shape_of(a)[-2]:
        raise ValueError(f"expected a square matrix, got an array of shape {shape_of(a)}")
    return a


def _double(a: Value) -> Value:
    """In double precision, where SciPy always computes so."""
    a = lift(a)
    wide = np.result_type(dtype_of(a), np.float64)
    return a if dtype_of(a) == wide else shapes.cast(a, dtype=wide)


def _as_columns(f: Any, b: Any) -> Value:
    """Run f on b as a matrix; a vector is one column."""
    b = lift(b)
    if ndim_of(b) != 1:
        return f(b)
    y = f(column(b))
    return shapes.reshape(y, shape=shape_of(y)[:-1])


# -- systems ------------------------------------------------------------------------------------------------------


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
    a = _square(a)
    kind = {None: "gen", "general": "gen", "symmetric": "sym", "hermitian": "her", "positive definite": "pos"}.get(
        assume_a, assume_a
    )
    if kind in ("lower triangular", "upper triangular"):
        return solve_triangular(a, b, int(transposed), kind.startswith("lower"))
    if kind == "pos":
        factor = decompose.cholesky(a if lower else matrix.dagger(a))
        return _as_columns(lambda b: _by_cholesky(matrix.conjugate(factor) if transposed else factor, b), b)
    if kind not in _READ:
        raise ValueError(f"{assume_a} is not a recognized matrix structure")
    a = _READ[kind](a, lower)
    return _as_columns(lambda b: systems.solve(swap(a) if transposed else a, b), b)


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


def _by_cholesky(low: Value, b: Value) -> Value:
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
    a = _square(a)
    mode = {"N": 0, "T": 1, "C": 2}.get(trans, trans)
    if unit_diagonal:
        n = shape_of(a)[-1]
        a = (np.tril(a, -1) if lower else np.triu(a, 1)) + np.eye(n, dtype=dtype_of(a))
    if mode == 2:
        a = matrix.conjugate(a)
    return _as_columns(lambda b: systems.triangular_solve(a, b, lower=bool(lower), transposed=bool(mode)), b)


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
    return _as_columns(lambda b: banded.banded_solve(ab, b, lower=lower, upper=upper), b)


@drop_in(_scipy.inv)
def inv(
    a: Any, overwrite_a: bool = False, check_finite: bool = True, *, assume_a: str | None = None, lower: bool = False
) -> Value:
    a = _square(a)
    if assume_a not in (None, "gen", "general"):
        return solve(a, np.eye(shape_of(a)[-1], dtype=dtype_of(a)), lower, assume_a=assume_a)
    return systems.inv(a, strict=True)


@drop_in(_scipy.det)
def det(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Value:
    return determinant.det(_double(_square(a)))


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
    x, residuals, rank, s = numpy_linalg.lstsq(a, b, float(np.finfo(dtype_of(a)).eps) if cond is None else cond)
    if shape_of(residuals) == (0,) or lapack_driver == "gelsy":
        residuals = np.array([], dtype_of(x))
    else:
        residuals = astype(residuals, dtype_of(x)) if _RESIDUALS_LIKE_X else residuals
        residuals = shapes.reshape(residuals, shape=()) if ndim_of(b) == 1 else residuals
    # The driver gelsy gives neither residuals nor singular values.
    return x, residuals, astype(rank, int) if isinstance(rank, Traced) else int(rank), None if lapack_driver == "gelsy" else s


def _nothing_to_solve(a: Value, b: Value) -> Any:
    """What SciPy gives where there are no equations, or no unknowns."""
    n = shape_of(a)[1]
    x = np.zeros((n, *shape_of(b)[1:]), np.common_type(*(np.empty(0, dtype_of(v)) for v in (a, b))))
    return x, np.empty(0) if n else np.sum(squared(b if dtype_of(b).kind in "fc" else astype(b, float)), axis=0), 0, np.empty(0)


@drop_in(_scipy.solve_sylvester)
def solve_sylvester(a: Any, b: Any, q: Any) -> Value:
    return _sylvester(_square(a), _square(b), lift(q))


def _sylvester(a: Value, b: Value, q: Value) -> Value:
    """All real or all complex: of one of each, SciPy reads part of the real one's Schur form, and solves another equation."""
    xs = [a, b, q]
    if any(map(matrix.is_complex, xs)):
        xs = [x if matrix.is_complex(x) else shapes.cast(x, dtype=np.result_type(dtype_of(x), np.complex64)) for x in xs]
    return functions.sylvester(*xs)


@drop_in(_scipy.solve_continuous_lyapunov)
def solve_continuous_lyapunov(a: Any, q: Any) -> Value:
    a = _square(a)
    return _sylvester(a, matrix.dagger(a), _square(q))


solve_lyapunov = solve_continuous_lyapunov


@drop_in(_scipy.solve_discrete_lyapunov)
def solve_discrete_lyapunov(a: Any, q: Any, method: str | None = None) -> Value:
    """x with a x aᴴ − x + q = 0, by the bilinear transform unless the matrix is small."""
    a, q = _square(a), _square(q)
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


# -- factorisations -----------------------------------------------------------------------------------------------


@drop_in(_scipy.cholesky)
def cholesky(a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> Value:
    a = _square(a)
    return decompose.cholesky(a) if lower else matrix.dagger(decompose.cholesky(matrix.dagger(a)))


@drop_in(_scipy.cho_factor)
def cho_factor(a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> tuple[Value, bool]:
    """The factor for `cho_solve`. The other triangle, which SciPy leaves undefined, is zero."""
    return cholesky(a, lower), bool(lower)


@drop_in(_scipy.cho_solve)
def cho_solve(c_and_lower: Any, b: Any, overwrite_b: bool = False, check_finite: bool = True) -> Value:
    factor, lower = c_and_lower
    factor = _square(factor)
    return _as_columns(lambda b: _by_cholesky(factor if lower else matrix.dagger(factor), b), b)


@drop_in(_scipy.lu_factor)
def lu_factor(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> tuple[Value, Value]:
    a = lift(a)
    if ndim_of(a) >= 2 and shape_of(a)[-2] != shape_of(a)[-1]:
        raise UnsupportedError("scipy.linalg.lu_factor of a traced matrix that is not square has no rule; use qr")
    packed, pivots = functions.lu(_square(a))
    return packed, pivots


@drop_in(_scipy.lu_solve)
def lu_solve(lu_and_piv: Any, b: Any, trans: int = 0, overwrite_b: bool = False, check_finite: bool = True) -> Value:
    packed, pivots = lu_and_piv
    packed, order = lift(packed), functions.permutation(lift(pivots))
    if trans == 2:
        packed = matrix.conjugate(packed)
    low = functions.unit_lower(packed)

    def run(b: Value) -> Value:
        if not trans:
            half = systems.triangular_solve(low, functions.permute_rows(b, order), lower=True, transposed=False)
            return systems.triangular_solve(packed, half, lower=False, transposed=False)
        half = systems.triangular_solve(packed, b, lower=False, transposed=True)
        x = systems.triangular_solve(low, half, lower=True, transposed=True)
        return functions.permute_rows(x, functions.inverse_order(order))

    return _as_columns(run, b)


@drop_in(_scipy.lu)
def lu(a: Any, permute_l: bool = False, overwrite_a: bool = False, check_finite: bool = True, p_indices: bool = False) -> Any:
    a = lift(a)
    m, n = shape_of(a)[-2:]
    if m != n:
        raise UnsupportedError("scipy.linalg.lu of a traced matrix that is not square has no rule; use qr")
    packed, pivots = functions.lu(a)
    order = functions.permutation(pivots)
    low, up = functions.unit_lower(packed), functions.upper(packed)
    inverse = functions.inverse_order(order)
    if permute_l:
        return functions.permute_rows(low, inverse), up
    if p_indices:
        return shapes.cast(inverse, dtype=np.dtype(np.int32 if n != 1 else np.int64)), low, up
    return (
        shapes.cast(np.equal(column(inverse), np.arange(n)), dtype=np.finfo(dtype_of(a)).dtype if n != 1 else dtype_of(low)),
        low,
        up,
    )


@drop_in(_scipy.qr)
def qr(
    a: Any,
    overwrite_a: bool = False,
    lwork: Any = None,
    mode: str = "full",
    pivoting: bool = False,
    check_finite: bool = True,
) -> Any:
    if pivoting or mode == "raw":
        raise UnsupportedError("scipy.linalg.qr with pivoting=True or mode='raw' has no rule; use mode='economic' or 'full'")
    a = lift(a)
    if mode == "r":
        m, n = shape_of(a)[-2:]
        r = numpy_linalg.qr(a, "r")
        rest = m - shape_of(r)[-2]
        zeros = np.zeros((*shape_of(r)[:-2], rest, n), dtype_of(r))
        return (concatenate(r, zeros, axis=ndim_of(r) - 2) if rest else r,)
    return tuple(numpy_linalg.qr(a, {"full": "complete", "economic": "reduced"}.get(mode, mode)))


@drop_in(_scipy.svd)
def svd(
    a: Any,
    full_matrices: bool = True,
    compute_uv: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = True,
    lapack_driver: str = "gesdd",
) -> Any:
    result = numpy_linalg.svd(lift(a), full_matrices, compute_uv)
    return tuple(result) if compute_uv else result


@drop_in(_scipy.svdvals)
def svdvals(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Value:
    return numpy_linalg.svd(lift(a), compute_uv=False)


@drop_in(_scipy.eigh)
def eigh(
    a: Any,
    b: Any = None,
    *,
    lower: bool = True,
    eigvals_only: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    type: int = 1,
    check_finite: bool = True,
    subset_by_index: Any = None,
    subset_by_value: Any = None,
    driver: str | None = None,
) -> Any:
    if type != 1 or subset_by_value is not None:
        raise UnsupportedError("scipy.linalg.eigh with type= other than 1 or subset_by_value= is not supported on traced values")
    a = _square(a)
    if b is None:
        w, v = decompose.eigh(a, lower=bool(lower))
    else:
        # a v = b v w with b = l lᴴ becomes an ordinary problem for lᴴ v.
        b = _square(b)
        low = decompose.cholesky(b if lower else matrix.dagger(b))
        half = systems.triangular_solve(low, matrix.hermitian(a, lower=bool(lower)), lower=True, transposed=False)
        inner = matrix.dagger(systems.triangular_solve(low, matrix.dagger(half), lower=True, transposed=False))
        w, u = decompose.eigh(0.5 * (inner + matrix.dagger(inner)), lower=True)
        v = systems.triangular_solve(matrix.conjugate(low), u, lower=True, transposed=True)
    if subset_by_index is not None:
        first, last = subset_by_index
        w, v = w[..., first : last + 1], v[..., first : last + 1]
    return w if eigvals_only else (w, v)


@drop_in(_scipy.eigvalsh)
def eigvalsh(a: Any, b: Any = None, **options: Any) -> Value:
    return eigh(a, b, eigvals_only=True, **options)


@drop_in(_scipy.eig)
def eig(
    a: Any,
    b: Any = None,
    left: bool = False,
    right: bool = True,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
    homogeneous_eigvals: bool = False,
) -> Any:
    if b is not None or left or homogeneous_eigvals:
        raise UnsupportedError("scipy.linalg.eig with b=, left= or homogeneous_eigvals= is not supported on traced values")
    a = _square(a)
    w, v = decompose.eig(a)
    if not right:
        return w
    return w, shapes.real(v) if not matrix.is_complex(a) and _all_real(w) else v


def _all_real(w: Value) -> bool:
    """Whether the eigenvalues are real, so that SciPy gives real vectors; complex if not known."""
    try:
        return bool(np.all(np.imag(stop_gradient(w)) == 0))
    except (BatchError, UnsupportedError):
        return False


@drop_in(_scipy.eigvals)
def eigvals(
    a: Any, b: Any = None, overwrite_a: bool = False, check_finite: bool = True, homogeneous_eigvals: bool = False
) -> Value:
    if b is None or homogeneous_eigvals:
        return eig(a, b, right=False, homogeneous_eigvals=homogeneous_eigvals)
    try:
        reduced = solve(b, a)
    except LinAlgError:
        raise UnsupportedError(
            "scipy.linalg.eigvals(a, b) of traced values takes a matrix b that is not singular: some eigenvalues are infinite"
        ) from None
    return eig(reduced, right=False)


@drop_in(_scipy.polar)
def polar(a: Any, side: str = "right") -> tuple[Value, Value]:
    if side not in ("right", "left"):
        raise ValueError("`side` must be either 'right' or 'left'")
    w, s, vh = numpy_linalg.svd(lift(a), full_matrices=False)
    p = (matrix.dagger(vh) * row(s)) @ vh if side == "right" else (w * row(s)) @ matrix.dagger(w)
    return w @ vh, p


@drop_in(_scipy.norm)
def norm(a: Any, ord: Any = None, axis: Any = None, keepdims: bool = False, check_finite: bool = True) -> Value:
    a = lift_any(a)
    y = numpy_linalg.norm(a, ord, axis, keepdims)
    # SciPy calls BLAS and LAPACK for these, which give a Python number.
    by_blas = (ndim_of(a), ord) in ((1, None), (1, 2), (2, 1), (2, np.inf)) and 0 not in shape_of(a)
    by_blas = by_blas and (ndim_of(a) == 1 or 1 not in shape_of(a)) and dtype_of(a).char in "fdFD"
    return _double(y) if by_blas and axis is None and not keepdims else y


# -- functions of matrices ------------------------------------------------------------------------------------------


@drop_in(_scipy.expm)
def expm(A: Any) -> Value:
    A = lift(A)
    if ndim_of(A) < 2 and math.prod(shape_of(A)) == 1:  # a number
        A = shapes.reshape(_double(A), shape=(1, 1))
    return functions.expm(_square(A))


@drop_in(_scipy.expm_frechet)
def expm_frechet(A: Any, E: Any, method: str | None = None, compute_expm: bool = True, check_finite: bool = True) -> Any:
    A, E = _double(_square(A)), _double(_square(E))
    slope = functions.expm_slope(A, E)
    return (functions.expm(A), slope) if compute_expm else slope


@drop_in(_scipy.sqrtm)
def sqrtm(A: Any, disp: bool = True, blocksize: Any = None) -> Value:
    _no_estimate("sqrtm", disp)
    return functions.sqrtm(_square(A))


@drop_in(_scipy.logm)
def logm(A: Any, disp: bool = True) -> Value:
    _no_estimate("logm", disp)
    return functions.logm(_square(A))


def _no_estimate(name: str, disp: bool) -> None:
    if not disp:
        raise UnsupportedError(f"scipy.linalg.{name} of traced values gives no estimate of its error; leave out disp=False")


@drop_in(_scipy.fractional_matrix_power)
def fractional_matrix_power(A: Any, t: Any) -> Value:
    if not isinstance(t, Traced) and t == int(t):
        return numpy_linalg.matrix_power(A, int(t))
    return functions.expm(t * functions.logm(_square(A)))


def _real_if_real(y: Value, a: Value) -> Value:
    return y if matrix.is_complex(a) else shapes.real(y)


@drop_in(_scipy.cosm)
def cosm(A: Any) -> Value:
    A = _square(A)
    return _real_if_real(functions.expm(1j * A) if not matrix.is_complex(A) else 0.5 * (expm(1j * A) + expm(-1j * A)), A)


@drop_in(_scipy.sinm)
def sinm(A: Any) -> Value:
    A = _square(A)
    return -0.5j * (expm(1j * A) - expm(-1j * A)) if matrix.is_complex(A) else shapes.imag(functions.expm(1j * A))


@drop_in(_scipy.tanm)
def tanm(A: Any) -> Value:
    return systems.solve(cosm(A), sinm(A))


@drop_in(_scipy.coshm)
def coshm(A: Any) -> Value:
    A = _square(A)
    return 0.5 * (functions.expm(A) + functions.expm(-A))


@drop_in(_scipy.sinhm)
def sinhm(A: Any) -> Value:
    A = _square(A)
    return 0.5 * (functions.expm(A) - functions.expm(-A))


@drop_in(_scipy.tanhm)
def tanhm(A: Any) -> Value:
    return systems.solve(coshm(A), sinhm(A))


# -- matrices from vectors --------------------------------------------------------------------------------------------

block_diag = drop_in(_scipy.block_diag)(_block_diag)
toeplitz = drop_in(_scipy.toeplitz)(_toeplitz)
circulant = drop_in(_scipy.circulant)(_circulant)
hankel = drop_in(_scipy.hankel)(_hankel)
companion = drop_in(_scipy.companion)(_companion)
leslie = drop_in(_scipy.leslie)(_leslie)
convolution_matrix = drop_in(_scipy.convolution_matrix)(_convolution_matrix)
khatri_rao = drop_in(_scipy.khatri_rao)(_khatri_rao)


@drop_in(_scipy.solve_toeplitz)
def solve_toeplitz(c_or_cr: Any, b: Any, check_finite: bool = True) -> Value:
    """Solved as a dense system."""
    matrix_ = _toeplitz(*c_or_cr) if isinstance(c_or_cr, tuple) else _toeplitz(c_or_cr)
    return solve(_double(matrix_), _double(lift(b)))


@drop_in(_scipy.matmul_toeplitz)
def matmul_toeplitz(c_or_cr: Any, x: Any, check_finite: bool = False, workers: Any = None) -> Value:
    return _double(_toeplitz(*c_or_cr) if isinstance(c_or_cr, tuple) else _toeplitz(c_or_cr)) @ _double(lift(x))


@drop_in(_scipy.solve_circulant)
def solve_circulant(
    c: Any, b: Any, singular: str = "raise", tol: Any = None, caxis: int = -1, baxis: int = 0, outaxis: int = 0
) -> Value:
    """By Fourier transforms, which make the matrix diagonal."""
    if singular != "raise":
        raise UnsupportedError("scipy.linalg.solve_circulant of traced values takes singular='raise' only")
    c, b = (shapes.reshape(x, shape=(1,)) if ndim_of(x) == 0 else x for x in (lift_any(c), lift_any(b)))
    if 0 in shape_of(b):  # the dtype is that of any system
        of = np.fft.ifft(np.fft.fft(np.ones(1, dtype_of(c))) / np.fft.fft(np.ones(1, dtype_of(b))))
        return astype(b, (of if matrix.is_complex(c) or matrix.is_complex(b) else of.real).dtype)
    by_c, by_b = np.fft.fft(np.moveaxis(c, caxis, -1)), np.fft.fft(np.moveaxis(b, baxis, -1))
    size = stop_gradient(np.abs(by_c))
    small = size <= (np.max(size, -1, keepdims=True) * shape_of(size)[-1] * np.finfo(float).eps if tol is None else tol)
    if not isinstance(small, Traced) and np.any(small):
        raise LinAlgError("near singular circulant matrix.")
    x = np.fft.ifft(by_b / by_c)
    return np.moveaxis(x if matrix.is_complex(c) or matrix.is_complex(b) else shapes.real(x), -1, outaxis)


# -- where each function stands ---------------------------------------------------------------------------------------

_DENSE = "there is no rule for banded storage; build the matrix and use solve, cholesky or eigh, or use solve_banded"
_FORM = "there is no rule for this factorisation; use qr, svd, eigh, eig, lu_factor or cholesky"
_RICCATI = "there is no rule for Riccati equations yet; solve them with ad.implicit or an iteration written in NumPy"
_CHOICE = "the basis it returns is arbitrary, and its size may jump; use svd"

_REASONS: dict[str, str] = {
    name: reason
    for reason, names in {
        _DENSE: "solveh_banded cholesky_banded cho_solve_banded eig_banded eigvals_banded eigh_tridiagonal eigvalsh_tridiagonal",
        _FORM: "schur rsf2csf cdf2rdf hessenberg qz ordqz ldl rq qr_delete qr_insert qr_multiply qr_update cossin matrix_balance",
        _RICCATI: "solve_continuous_are solve_discrete_are",
        _CHOICE: "null_space orth",
        "there is no rule for it; use expm, logm, sqrtm, or eigh for a symmetric matrix": "funm signm expm_cond pinvh",
        "there is no rule for it; write it with svd": "subspace_angles orthogonal_procrustes clarkson_woodruff_transform",
        "there is no rule for it; write it with np.concatenate and indexing": "fiedler fiedler_companion diagsvd",
    }.items()
    for name in names.split()
}
for _name, _reason in _REASONS.items():
    if hasattr(_scipy, _name):
        refuse(_reason, getattr(_scipy, _name))


def status(name: str) -> str:
    """The status of a function of scipy.linalg: "differentiable", "constant" (it takes no real numbers) or "refused".

    >>> status("expm"), status("hilbert"), status("schur")
    ('differentiable', 'constant', 'refused')
    """
    function = getattr(_scipy, name)
    if not callable(function) or isinstance(function, type):
        return "constant"
    if function in REFUSED:
        return "refused"
    return "differentiable" if function in FUNCTIONS else "constant"


def __getattr__(name: str) -> Any:
    function = getattr(_scipy, name)
    return guarded(function, f"scipy.linalg.{name}", _REASONS[name]) if name in _REASONS else function


def __dir__() -> list[str]:
    return sorted({*globals(), *dir(_scipy)})
