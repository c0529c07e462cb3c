"""The factorisations of scipy.linalg."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg as _scipy

from ..core.errors import BatchError, UnsupportedError
from ..core.types import Value, dtype_of, ndim_of, shape_of
from ..numpy import linalg as numpy_linalg
from ..numpy.dropin import drop_in
from ..numpy.table import lift as lift_any
from ..ops import broadcast as shapes
from ..ops import decompose, matrix
from ..ops import matrix_functions as functions
from ..ops import solve as systems
from ..ops.elementwise import stop_gradient
from ..ops.linalg import column, row
from ..ops.shape import concatenate
from .operands import LinAlgError, as_columns, double, lift, square
from .systems import by_cholesky, solve


@drop_in(_scipy.cholesky)
def cholesky(a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> Value:
    a = square(a)
    return decompose.cholesky(a) if lower else matrix.dagger(decompose.cholesky(matrix.dagger(a)))


@drop_in(_scipy.cho_factor)
def cho_factor(a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> tuple[Value, bool]:
    """The factor for `cho_solve`. The other triangle, which SciPy leaves undefined, is zero."""
    return cholesky(a, lower), bool(lower)


@drop_in(_scipy.cho_solve)
def cho_solve(c_and_lower: Any, b: Any, overwrite_b: bool = False, check_finite: bool = True) -> Value:
    factor, lower = c_and_lower
    factor = square(factor)
    return as_columns(lambda b: by_cholesky(factor if lower else matrix.dagger(factor), b), b)


@drop_in(_scipy.lu_factor)
def lu_factor(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> tuple[Value, Value]:
    a = lift(a)
    if ndim_of(a) >= 2 and shape_of(a)[-2] != shape_of(a)[-1]:
        raise UnsupportedError("scipy.linalg.lu_factor of a traced matrix that is not square has no rule; use qr")
    packed, pivots = functions.lu(square(a))
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

    return as_columns(run, b)


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
    a = square(a)
    if b is None:
        w, v = decompose.eigh(a, lower=bool(lower))
    else:
        # a v = b v w with b = l lᴴ becomes an ordinary problem for lᴴ v.
        b = square(b)
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
    a = square(a)
    w, v = decompose.eig(a)
    if not right:
        return w
    return w, shapes.real(v) if not matrix.is_complex(a) and _all_real(w) else v


def _all_real(w: Value) -> bool:
    """Whether the eigenvalues are real, so that SciPy gives real vectors; complex if not known."""
    try:
        return bool(np.all(np.imag(stop_gradient(w)) == 0))
    except (BatchError, UnsupportedError) as error:
        error.mark_handled()
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
    return double(y) if by_blas and axis is None and not keepdims else y
