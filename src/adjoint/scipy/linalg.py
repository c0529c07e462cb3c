"""scipy.linalg, differentiable: systems, factorisations and functions of matrices, as numpy.linalg's where they agree.

`overwrite_*` and `check_finite` are accepted and ignored. Where a factorisation is not unique (the phase of a vector, the order
of equal pivots), the choice is NumPy's, and SciPy's where that calls the same LAPACK routine; take derivatives of functions that
do not depend on it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg as _scipy

from ..core.bind import Traced
from ..core.errors import UnsupportedError
from ..core.types import Value, dtype_of, ndim_of, shape_of
from ..numpy.dropin import drop_in
from ..numpy.shape import astype
from ..numpy.table import FUNCTIONS, REFUSED, refuse
from ..numpy.table import lift as lift_any
from ..ops import broadcast as shapes
from ..ops import matrix
from ..ops.elementwise import stop_gradient
from .factorisations import (  # noqa: F401
    cho_factor,
    cho_solve,
    cholesky,
    eig,
    eigh,
    eigvals,
    eigvalsh,
    lu,
    lu_factor,
    lu_solve,
    norm,
    polar,
    qr,
    svd,
    svdvals,
)
from .guard import guarded
from .matrix_functions import coshm, cosm, expm, expm_frechet, fractional_matrix_power, logm, sinhm, sinm, sqrtm, tanhm, tanm  # noqa: F401
from .operands import LinAlgError, double, lift
from .structured import block_diag as _block_diag
from .structured import circulant as _circulant
from .structured import companion as _companion
from .structured import convolution_matrix as _convolution_matrix
from .structured import hankel as _hankel
from .structured import khatri_rao as _khatri_rao
from .structured import leslie as _leslie
from .structured import toeplitz as _toeplitz
from .systems import (  # noqa: F401
    det,
    inv,
    lstsq,
    pinv,
    solve,
    solve_banded,
    solve_continuous_lyapunov,
    solve_discrete_lyapunov,
    solve_lyapunov,
    solve_sylvester,
    solve_triangular,
)

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
    return solve(double(matrix_), double(lift(b)))


@drop_in(_scipy.matmul_toeplitz)
def matmul_toeplitz(c_or_cr: Any, x: Any, check_finite: bool = False, workers: Any = None) -> Value:
    return double(_toeplitz(*c_or_cr) if isinstance(c_or_cr, tuple) else _toeplitz(c_or_cr)) @ double(lift(x))


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
_RICCATI = "there is no rule for Riccati equations; write an iteration that solves them in NumPy"
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
    return dir(_scipy)
