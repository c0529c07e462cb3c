"""Products and linear algebra of a program: cuBLAS and cuSOLVER on a card, NumPy and SciPy on the host.

A routine takes the arrays of its step (see `lower.matrix`): operands, what it changes in place, results. It gives whether it
failed. What has no form on the card yet is copied to the host and back.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...core.locks import cached
from ..lower.kernel import View, size_of
from ..lower.step import Lapack, Product

Arrays = Sequence[Any]
_BLOCK = 1000  # rows that are pulled back together: fewer, larger products are faster
_PLAIN, _TF32 = 0, 3  # cuBLAS's modes of products: CUBLAS_DEFAULT_MATH, CUBLAS_TF32_TENSOR_OP_MATH


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


def _cholesky_pullback(step: Lapack, l: Any, g: Any) -> bool:  # noqa: E741
    from scipy.linalg import solve_triangular

    inner = np.tril(l.T @ np.tril(g))
    np.fill_diagonal(inner, 0.5 * np.diagonal(inner))
    half = solve_triangular(l, inner, lower=True, trans="T")
    p = solve_triangular(l, half.T, lower=True, trans="T")
    g[...] = p + p.T
    return False


def _factors(step: Lapack, a: Any, pivots: Any, zero: Any) -> bool:
    from scipy.linalg import lapack

    getrf = lapack.dgetrf if a.dtype == np.float64 else lapack.sgetrf
    lu, found, info = getrf(a)
    a[...], pivots[...], zero[...] = lu, found + 1, info != 0
    return bool(info != 0)


def _solve(step: Lapack, a: Any, pivots: Any, x: Any) -> bool:
    from scipy.linalg import lu_solve

    with np.errstate(all="ignore"):
        if (np.diagonal(a) != 0).all():  # else the program ends with an error
            x[...] = lu_solve((a, pivots - 1), x, trans=int(step.options["transposed"] == "T"), check_finite=False)
    return False


def _inverse(step: Lapack, pivots: Any, zero: Any, x: Any) -> bool:
    from scipy.linalg import lapack

    if zero[()]:
        x[...] = np.nan
    else:
        x[...] = (lapack.dgetri if x.dtype == np.float64 else lapack.sgetri)(x, pivots - 1)[0]
    return False


def _triangular(step: Lapack, a: Any, x: Any) -> bool:
    from scipy.linalg import solve_triangular

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
    from scipy.linalg import lapack

    geqrf = lapack.dgeqrf if a.dtype == np.float64 else lapack.sgeqrf
    a[...], tau[...], _, info = geqrf(a)
    return bool(info != 0)


def _orthogonal(step: Lapack, tau: Any, q: Any) -> bool:
    from scipy.linalg import lapack

    orgqr = lapack.dorgqr if q.dtype == np.float64 else lapack.sorgqr
    q[...], _, info = orgqr(q, tau)
    return bool(info != 0)


def _singular(step: Lapack, a: Any, u: Any, s: Any, vh: Any) -> bool:
    try:
        u[...], s[...], vh[...] = np.linalg.svd(a, full_matrices=step.options["full"])
    except np.linalg.LinAlgError:
        return True
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


def _is_symmetric(xp: Any, a: Any, out: Any, failed: Any) -> None:
    """Up to rounding; see `ops.matrix.is_hermitian`."""
    other = xp.swapaxes(a, -1, -2)
    slack = math.sqrt(np.finfo(a.dtype).eps) * xp.max(xp.abs(a), axis=(-2, -1), keepdims=True)
    with np.errstate(invalid="ignore"):
        near = xp.abs(a - other) <= slack
    out[...] = xp.all((a == other) | near, axis=(-2, -1), keepdims=True).reshape(out.shape)
    failed[...] = False


def on_host(step: Lapack, arrays: Arrays) -> None:
    """Run a routine for each matrix of a stack. The last array is a truth: whether one failed."""
    if step.routine == "is_symmetric":
        return _is_symmetric(np, *arrays)
    *views, failed = arrays
    routine, stack = _ON_HOST[step.routine], (*step.inout, *step.outs)[0].shape[:-2]
    found = False
    for index in np.ndindex(stack):
        found |= routine(step, *(a[(*index, ...)] for a in views))
    failed[...] = found
    return None


def product_on_host(step: Product, left: Any, right: Any, out: Any) -> None:
    np.matmul(left, right, out=out)


# -- on a card --------------------------------------------------------------------------------------------------


class Libraries:
    """cuBLAS and cuSOLVER, through CuPy."""

    def __init__(self, xp: Any, precision: str = "highest") -> None:
        from cupy.cuda import device
        from cupy_backends.cuda.libs import cublas, cusolver

        self.xp, self.device, self.cublas, self.cusolver = xp, device, cublas, cusolver
        self.precision = precision
        self.numbers = {d: (np.array(1, d), np.array(0, d), np.array(-1, d)) for d in ("f", "d")}

    def function(self, library: Any, name: str, dtype: Any) -> Any:
        return getattr(library, f"{'d' if dtype == np.float64 else 's'}{name}")

    def product(self, step: Product, pointers: Sequence[int]) -> None:
        """It sees matrices by columns, so it computes the transpose of the product of transposes."""
        blas, handle = self.cublas, self.device.get_cublas_handle()
        dtype = step.out.dtype
        one, zero, _ = (x.ctypes.data for x in self.numbers[dtype.char])
        rows, columns = step.out.shape[-2:]
        inner = step.left.shape[-1]
        (how_a, long_a), (how_b, long_b) = _layout(step.left), _layout(step.right)
        ways = [blas.CUBLAS_OP_T if how == "T" else blas.CUBLAS_OP_N for how in (how_b, how_a)]
        views = (step.right, step.left, step.out)
        fast = self.precision == "tf32" and dtype == np.float32
        if fast:
            blas.setMathMode(handle, _TF32)
        count, steps, outer = _batched(step)
        for moves in outer:
            b, a, c = (
                pointers[i] + (view.offset + move) * dtype.itemsize for i, view, move in zip((1, 0, 2), views, moves, strict=True)
            )
            sizes = (columns, rows, inner)
            if count == 1:
                self.function(blas, "gemm", dtype)(handle, *ways, *sizes, one, b, long_b, a, long_a, zero, c, columns)
            else:
                self.function(blas, "gemmStridedBatched", dtype)(
                    handle, *ways, *sizes, one, b, long_b, steps[0], a, long_a, steps[1], zero, c, columns, steps[2], count
                )
        if fast:
            blas.setMathMode(handle, _PLAIN)

    def cholesky(self, step: Lapack, a: Any, failed: Any) -> None:
        xp, n = self.xp, a.shape[-1]
        handle, upper = self.device.get_cusolver_handle(), self.cublas.CUBLAS_FILL_MODE_UPPER
        count = size_of(a.shape[:-2])
        info = xp.empty(count, np.int32)
        if a.ndim > 2:
            first = xp.arange(count, dtype=np.uintp) * (n * n * a.itemsize) + np.uintp(a.data.ptr)
            self.function(self.cusolver, "potrfBatched", a.dtype)(handle, upper, n, first.data.ptr, n, info.data.ptr, count)
            a[...] = xp.tril(a)
        else:
            # cuSOLVER is far faster with a lower triangle, as it sees it: the transpose of ours is factored.
            factor, lower = xp.ascontiguousarray(a.T), self.cublas.CUBLAS_FILL_MODE_LOWER
            size = self.function(self.cusolver, "potrf_bufferSize", a.dtype)(handle, lower, n, factor.data.ptr, n)
            work = xp.empty(max(size, 1), a.dtype)
            potrf = self.function(self.cusolver, "potrf", a.dtype)
            potrf(handle, lower, n, factor.data.ptr, n, work.data.ptr, size, info.data.ptr)
            a[...] = xp.tril(factor.T)
        failed[...] = xp.any(info != 0)

    def triangular(self, step: Lapack, a: Any, x: Any, failed: Any) -> None:
        """As BLAS sees it; x by rows is its transpose, to be solved for from the right."""
        columns = x.shape[-1]
        from_right = step.options["by_rows"] and columns > 1
        for index in np.ndindex(x.shape[:-2]):
            self.trsm(
                a[index], x[index], step.options["leading"], from_right, step.options["triangle"], step.options["transposed"]
            )
        failed[...] = False

    def trsm(self, a: Any, x: Any, leading: int, from_right: bool, triangle: str, transposed: str) -> None:
        blas, (rows, columns) = self.cublas, x.shape
        m, n = (columns, rows) if from_right else (rows, columns)
        self.function(blas, "trsm", x.dtype)(
            self.device.get_cublas_handle(),
            blas.CUBLAS_SIDE_RIGHT if from_right else blas.CUBLAS_SIDE_LEFT,
            blas.CUBLAS_FILL_MODE_UPPER if triangle == "U" else blas.CUBLAS_FILL_MODE_LOWER,
            blas.CUBLAS_OP_T if transposed == "T" else blas.CUBLAS_OP_N,
            blas.CUBLAS_DIAG_NON_UNIT,
            *(m, n, self.numbers[x.dtype.char][0].ctypes.data, a.data.ptr, leading, x.data.ptr, m),
        )

    def cholesky_pullback(self, step: Lapack, l: Any, g: Any, failed: Any) -> None:  # noqa: E741
        for index in np.ndindex(g.shape[:-2]):
            self.pull_back_factor(l[index], g[index])
        failed[...] = False

    def pull_back_factor(self, l: Any, g: Any) -> None:  # noqa: E741
        """The cotangent of a factor becomes that of its matrix, by blocks from the last to the first: see Murray,
        Differentiation of the Cholesky decomposition, 2016. With the inverses of the blocks of the diagonal, all are products.

            l = [ ]            r, d, b, c are the blocks that the columns and rows of d, one on the diagonal, meet
                [r d  ]
                [b c  ]
        """
        xp, n = self.xp, len(g)
        for j in reversed(range(0, n, _BLOCK)):
            k = min(j + _BLOCK, n)
            r, d, b, c = l[j:k, :j], xp.tril(l[j:k, j:k]), l[k:, :j], l[k:, j:k]
            inverse = self.inverse_of_lower(d)
            own = g[j:k, j:k]
            if k < n:
                below = g[k:, j:k]
                below[...] = below @ inverse
                own -= below.T @ c
            half = inverse.T @ self.half_lower(d.T @ xp.tril(own)) @ inverse
            whole = half + half.T
            own[...] = self.half_lower(whole)
            if j:
                g[j:k, :j] -= whole @ r
            if j and k < n:
                g[k:, :j] -= below @ r
                g[j:k, :j] -= below.T @ b
        lower = xp.tril(g)
        g[...] = lower + lower.T

    def half_lower(self, a: Any) -> Any:
        """The lower triangle, with half of the diagonal."""
        lower, i = self.xp.tril(a), self.xp.arange(len(a))
        lower[i, i] *= 0.5
        return lower

    def inverse_of_lower(self, a: Any) -> Any:
        """By rows, BLAS sees the transpose of a, an upper triangle u; u⁻¹ is the transpose of the inverse."""
        inverse = self.xp.eye(len(a), dtype=a.dtype)
        self.trsm(self.xp.ascontiguousarray(a), inverse, len(a), False, "U", "N")
        return inverse

    def is_symmetric(self, step: Lapack, a: Any, out: Any, failed: Any) -> None:
        """As `_is_symmetric`, in two passes over the matrix; by rows, since CuPy has one block for each result of a reduction."""
        slack = math.sqrt(np.finfo(a.dtype).eps) * self.xp.max(self.xp.abs(a), axis=(-2, -1), keepdims=True)
        rows = self.near(a, self.xp.swapaxes(a, -1, -2), slack, axis=-1)
        out[...] = self.xp.all(rows, axis=-1).reshape(out.shape)
        failed[...] = False

    @cached
    def near(self) -> Any:
        test = "a == b || abs(a - b) <= slack"
        return self.xp.ReductionKernel("T a, T b, T slack", "bool near", test, "a && b", "near = a", "true", "adjoint_near")


def _layout(view: View) -> tuple[str, int]:
    """How BLAS reads a matrix of ours, of which it sees the transpose: as it is if rows are contiguous, else transposed."""
    (rows, columns), (down, across) = view.shape[-2:], view.strides[-2:]
    if (across == 1 or columns == 1) and (down >= columns or rows == 1):
        return "N", max(down, columns, 1)
    return "T", max(across, rows, 1)


def _batched(step: Product) -> tuple[int, tuple[int, ...], list[tuple[int, ...]]]:
    """A stack as one call for the axes that move alike: matrices of a call, the steps between them, and where calls begin."""
    stack = step.out.shape[:-2]
    views = (step.right, step.left, step.out)
    axes = [(n, tuple(v.strides[k] for v in views)) for k, n in enumerate(stack) if n > 1]
    if not axes:
        return 1, (0, 0, 0), [(0, 0, 0)]
    count, steps = axes.pop()
    while axes and all(a == b * count for a, b in zip(axes[-1][1], steps, strict=True)):
        count *= axes.pop()[0]
    starts = [
        tuple(sum(i * move[k] for i, (_, move) in zip(index, axes, strict=True)) for k in range(3))
        for index in itertools.product(*(range(n) for n, _ in axes))
    ]
    return count, steps, starts
