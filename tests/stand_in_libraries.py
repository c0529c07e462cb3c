"""cuBLAS and cuSOLVER on the host, by LAPACK: the routines that `cuda.libraries` calls, with the arguments of the C functions.

It stands in for them where there is no GPU, so that layouts, leading dimensions and options are tested. Matrices are by columns.
"""

import ctypes

import numpy as np
from scipy.linalg import blas as fortran
from scipy.linalg import lapack
from simulator import Simulator

from adjoint.compiler.cuda.libraries import Libraries


def memory(address, count, dtype):
    kind = np.ctypeslib.as_ctypes_type(dtype)
    return np.ctypeslib.as_array((kind * count).from_address(address))


def matrix(address, m, n, leading, dtype):
    """A matrix by columns in memory."""
    assert leading >= max(m, 1)
    flat = memory(address, leading * (n - 1) + m, dtype)
    return np.lib.stride_tricks.as_strided(flat, (m, n), (dtype.itemsize, leading * dtype.itemsize))


def number(address, dtype):
    return memory(address, 1, dtype)[0]


def pointers(address, count):
    return [int(p) for p in memory(address, count, np.dtype(np.uint64))]


def set_int(address, value):
    memory(address, 1, np.dtype(np.int32))[0] = value


class Stand:
    """The functions for a precision, without their handle."""

    def __init__(self, dtype):
        self.dtype = np.dtype(dtype)
        self.letter = "d" if self.dtype == np.float64 else "s"

    def lapack(self, name):
        return getattr(lapack, self.letter + name)

    # -- cuBLAS --

    def gemm_v2(self, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc):
        left = matrix(a, *((k, m) if ta else (m, k)), lda, self.dtype)
        right = matrix(b, *((n, k) if tb else (k, n)), ldb, self.dtype)
        assert (number(alpha, self.dtype), number(beta, self.dtype)) == (1, 0)
        matrix(c, m, n, ldc, self.dtype)[...] = (left.T if ta else left) @ (right.T if tb else right)

    def gemmStridedBatched(self, ta, tb, m, n, k, alpha, a, lda, sa, b, ldb, sb, beta, c, ldc, sc, count):  # noqa: N802
        size = self.dtype.itemsize
        for i in range(count):
            self.gemm_v2(ta, tb, m, n, k, alpha, a + i * sa * size, lda, b + i * sb * size, ldb, beta, c + i * sc * size, ldc)

    def trsm_v2(self, side, fill, way, diag, m, n, alpha, a, lda, b, ldb):
        k = n if side else m
        x = matrix(b, m, n, ldb, self.dtype)
        trsm = getattr(fortran, self.letter + "trsm")
        triangle = np.array(matrix(a, k, k, lda, self.dtype))
        x[...] = trsm(number(alpha, self.dtype), triangle, np.array(x), side=side, lower=1 - fill, trans_a=way, diag=diag)

    def trsmBatched(self, side, fill, way, diag, m, n, alpha, a, lda, b, ldb, count):  # noqa: N802
        for one, other in zip(pointers(a, count), pointers(b, count), strict=True):
            self.trsm_v2(side, fill, way, diag, m, n, alpha, one, lda, other, ldb)

    def getrfBatched(self, n, a, lda, pivots, info, count):  # noqa: N802
        for i, p in enumerate(pointers(a, count)):
            self.getrf(n, n, p, lda, 0, pivots + 4 * n * i, info + 4 * i)

    def getrsBatched(self, way, n, columns, a, lda, pivots, b, ldb, info, count):  # noqa: N802
        for i, (p, q) in enumerate(zip(pointers(a, count), pointers(b, count), strict=True)):
            self.getrs(way, n, columns, p, lda, pivots + 4 * n * i, q, ldb, info)

    def getriBatched(self, n, a, lda, pivots, c, ldc, info, count):  # noqa: N802
        for i, (p, q) in enumerate(zip(pointers(a, count), pointers(c, count), strict=True)):
            rows = memory(pivots + 4 * n * i, n, np.dtype(np.int32)) - 1
            found, failed = self.lapack("getri")(np.array(matrix(p, n, n, lda, self.dtype)), rows)
            matrix(q, n, n, ldc, self.dtype)[...] = found
            set_int(info + 4 * i, failed)

    # -- cuSOLVER --

    def potrf(self, fill, n, a, lda, work, size, info):
        x = matrix(a, n, n, lda, self.dtype)
        found, failed = self.lapack("potrf")(np.array(x), lower=1 - fill, clean=0)
        x[...] = found
        set_int(info, failed)

    def potrfBatched(self, fill, n, a, lda, info, count):  # noqa: N802
        for i, p in enumerate(pointers(a, count)):
            self.potrf(fill, n, p, lda, 0, 0, info + 4 * i)

    def getrf(self, m, n, a, lda, work, pivots, info):
        x = matrix(a, m, n, lda, self.dtype)
        found, rows, failed = self.lapack("getrf")(np.array(x))
        x[...] = found
        memory(pivots, min(m, n), np.dtype(np.int32))[...] = rows + 1
        set_int(info, failed)

    def getrs(self, way, n, columns, a, lda, pivots, b, ldb, info):
        x, rows = matrix(b, n, columns, ldb, self.dtype), memory(pivots, n, np.dtype(np.int32)) - 1
        factors = np.array(matrix(a, n, n, lda, self.dtype))
        if (np.diagonal(factors) != 0).all():
            x[...], _ = self.lapack("getrs")(factors, rows, np.array(x), trans=way)
        set_int(info, 0)

    def geqrf(self, m, n, a, lda, tau, work, size, info):
        x = matrix(a, m, n, lda, self.dtype)
        x[...], scales, _, failed = self.lapack("geqrf")(np.array(x))
        memory(tau, min(m, n), self.dtype)[...] = scales
        set_int(info, failed)

    def orgqr(self, m, n, k, a, lda, tau, work, size, info):
        x = matrix(a, m, n, lda, self.dtype)
        x[...], _, failed = self.lapack("orgqr")(np.array(x), memory(tau, k, self.dtype))
        set_int(info, failed)

    def syevd(self, job, fill, n, a, lda, values, work, size, info):
        assert job == 1
        x = matrix(a, n, n, lda, self.dtype)
        w, v, failed = self.lapack("syevd")(np.array(x), lower=1 - fill)
        x[...], memory(values, n, self.dtype)[...] = v, w
        set_int(info, failed)

    def syevjBatched(self, job, fill, n, a, lda, values, work, size, info, options, count):  # noqa: N802
        step = self.dtype.itemsize * n
        for i in range(count):
            self.syevd(job, fill, n, a + i * step * lda, lda, values + i * step, work, size, info + 4 * i)

    def gesvd(self, job, other, m, n, a, lda, s, u, ldu, vh, ldv, work, size, rwork, info):
        assert m >= n, "cuSOLVER takes tall matrices only"
        assert job == other
        full = chr(job) == "A"
        left, values, right, failed = self.lapack("gesdd")(np.array(matrix(a, m, n, lda, self.dtype)), full_matrices=full)
        matrix(u, m, m if full else n, ldu, self.dtype)[...] = left
        matrix(vh, n, n, ldv, self.dtype)[...] = right
        memory(s, n, self.dtype)[...] = values
        matrix(a, m, n, lda, self.dtype)[...] = 7.0  # it is destroyed
        set_int(info, failed)

    def gesvdjBatched(self, job, m, n, a, lda, s, u, ldu, v, ldv, work, size, info, options, count):  # noqa: N802
        assert max(m, n) <= 32
        step, k = self.dtype.itemsize, min(m, n)
        for i in range(count):
            left, values, right, failed = self.lapack("gesdd")(np.array(matrix(a + i * lda * n * step, m, n, lda, self.dtype)))
            matrix(u + i * ldu * m * step, m, m, ldu, self.dtype)[...] = left
            matrix(v + i * ldv * n * step, n, n, ldv, self.dtype)[...] = right.T
            memory(s + i * k * step, k, self.dtype)[...] = values
            set_int(info + 4 * i, failed)


def blas(name, dtype):
    if name == "cublasSetMathMode":
        return lambda mode: None
    return getattr(Stand(dtype), name.removeprefix("cublas?"))


def solver(name, dtype):
    if name.startswith("cusolverDnCreate"):
        return lambda made: ctypes.c_void_p.from_address(made).__setattr__("value", 1)
    if name.endswith("_bufferSize"):
        at = -3 if "Batched" in name else -1  # where the size goes: options and count come after it
        return lambda *arguments: set_int(arguments[at], 1)
    return getattr(Stand(dtype), name.removeprefix("cusolverDn?"))


class WithLibraries(Simulator):
    """The simulator, with linear algebra as a GPU has it."""

    def libraries(self, precision):
        return Libraries(self, blas, solver, precision)
