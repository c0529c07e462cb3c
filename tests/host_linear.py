"""Products and linear algebra of a device program, by NumPy and SciPy: what `cuda.libraries` is on a GPU, for the simulator.

A routine takes the arrays of its step (see `lower.matrix`): operands, arrays that it changes in place, results. It returns
whether it failed.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.linalg import lapack, lu_solve, solve_triangular

from adjoint.compiler.cuda import raw
from adjoint.compiler.lower.step import Lapack, Product


def solves(step: Lapack) -> tuple[bool, bool]:
    """Whether the matrix of a triangular system is a lower triangle, and transposed; the options say how BLAS sees it."""
    a, x = step.operands[0], step.inout[0]
    sees_transpose = a.strides[-1] == 1 and a.shape[-1] > 1
    lower = (step.options["triangle"] == "U") == sees_transpose
    flipped = (step.options["transposed"] == "T") != (step.options["by_rows"] and x.shape[-1] > 1)
    return lower, flipped != sees_transpose


# -- on the host, matrix by matrix ------------------------------------------------------------------------------


def _cholesky(step: Lapack, a: Any) -> bool:
    try:
        a[...] = np.linalg.cholesky(a)
    except np.linalg.LinAlgError:
        return True
    return False


def _cholesky_pullback(step: Lapack, l: Any, g: Any) -> bool:
    inner = np.tril(np.tril(l).T @ np.tril(g))
    np.fill_diagonal(inner, 0.5 * np.diagonal(inner))
    half = solve_triangular(l, inner, lower=True, trans="T")
    p = solve_triangular(l, half.T, lower=True, trans="T")
    g[...] = p + p.T
    return False


def _factors(step: Lapack, a: Any, pivots: Any, zero: Any) -> bool:
    getrf = lapack.dgetrf if a.dtype == np.float64 else lapack.sgetrf
    lu, found, info = getrf(a)
    a[...], pivots[...], zero[...] = lu, found + 1, info != 0
    return bool(info != 0)


def _solve(step: Lapack, a: Any, pivots: Any, x: Any) -> bool:
    with np.errstate(all="ignore"):
        if (np.diagonal(a) != 0).all():  # else the program ends with an error
            x[...] = lu_solve((a, pivots - 1), x, trans=int(step.options["transposed"] == "T"), check_finite=False)
    return False


def _inverse(step: Lapack, pivots: Any, zero: Any, x: Any) -> bool:
    if zero[()]:
        x[...] = np.nan
    else:
        x[...] = (lapack.dgetri if x.dtype == np.float64 else lapack.sgetri)(x, pivots - 1)[0]
    return False


def _triangular(step: Lapack, a: Any, x: Any) -> bool:
    lower, transposed = solves(step)
    if (np.diagonal(a) != 0).all():  # else the program ends with an error
        x[...] = solve_triangular(a, x, lower=lower, trans="T" if transposed else "N", check_finite=False)
    return False


def _eigen(step: Lapack, a: Any, values: Any) -> bool:
    try:
        values[...], a[...] = np.linalg.eigh(a, step.options["triangle"])
    except np.linalg.LinAlgError:
        return True
    return False


def _reflectors(step: Lapack, a: Any, tau: Any) -> bool:
    geqrf = lapack.dgeqrf if a.dtype == np.float64 else lapack.sgeqrf
    a[...], tau[...], _, info = geqrf(a)
    return bool(info != 0)


def _orthogonal(step: Lapack, tau: Any, q: Any) -> bool:
    orgqr = lapack.dorgqr if q.dtype == np.float64 else lapack.sorgqr
    q[...], _, info = orgqr(q, tau)
    return bool(info != 0)


def _singular(step: Lapack, a: Any, s: Any, *vectors: Any) -> bool:
    try:
        u, s[...], vh = np.linalg.svd(a, full_matrices=step.options["job"] == "A")
    except np.linalg.LinAlgError:
        return True
    for out, part in zip(vectors, (u, vh), strict=False):
        out[...] = part
    return False


_ON_HOST: dict[str, Callable[..., bool]] = {
    "cholesky": _cholesky,
    "cholesky_pullback": _cholesky_pullback,
    "factors": _factors,
    "solve": _solve,
    "inverse": _inverse,
    "triangular": _triangular,
    "eigen": _eigen,
    "reflectors": _reflectors,
    "orthogonal": _orthogonal,
    "singular": _singular,
}


class HostLibraries:
    """The interface of `cuda.libraries.Libraries`: a product of addresses, and a routine by its name."""

    def __init__(self, device: Any) -> None:
        self.device = device

    def product(self, step: Product) -> Callable[[Sequence[int]], None]:
        views = (step.left, step.right, step.out)

        def run(pointers: Sequence[int]) -> None:
            left, right, out = (self.device.array(view, p) for view, p in zip(views, pointers, strict=True))
            np.matmul(left, right, out=out)

        return run

    def __getattr__(self, routine: str) -> Callable[..., None]:
        return self.is_symmetric_matrix if routine == "is_symmetric" else self.stacked

    def is_symmetric_matrix(self, step: Lapack, a: Any, out: Any, failed: Any) -> None:
        failed[...] = False
        raw.is_symmetric(np, a, out)

    def stacked(self, step: Lapack, *arrays: Any) -> None:
        """Run a routine for each matrix of a stack. The last array is a flag: whether one failed."""
        *views, failed = arrays
        routine, stack = _ON_HOST[step.routine], (*step.inout, *step.outs)[0].shape[:-2]
        found = False
        for index in np.ndindex(stack):
            found |= routine(step, *(a[(*index, ...)] for a in views))
        failed[...] = found
