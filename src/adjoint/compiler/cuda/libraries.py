"""Products and linear algebra on a GPU: cuBLAS and cuSOLVER.

A routine takes the arrays of its step (see `lower.matrix`): operands, arrays that it changes in place, results, and last a
boolean that says whether it failed. The libraries expect column-major matrices. Those of `Lapack` steps are column-major unless
the routine says otherwise; a row-major matrix is passed as its transpose.

A stack of small matrices is one batched call; large matrices are one call each. QR has no batched form.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from typing import Any

import numpy as np

from ...core.locks import cached
from ..lower.kernel import View, size_of
from ..lower.step import Lapack, Product
from . import raw

LibraryCall = Callable[..., None]
_BLOCK = 1000  # rows per block of the pullback: fewer, larger products are faster
_BATCHED = 128  # rows up to which the matrices of a stack share a call
_JACOBI = 32  # rows and columns up to which cuSOLVER has batched singular values
#: Routines that do not synchronise, so that they can be part of a CUDA graph.
ASYNCHRONOUS = frozenset(
    {"cholesky", "cholesky_pullback", "triangular", "factors", "solve", "inverse", "reflectors", "orthogonal", "is_symmetric"}
)


class Transposition(IntEnum):
    """cublasOperation_t."""

    PLAIN = 0
    TRANSPOSED = 1


class Fill(IntEnum):
    """cublasFillMode_t."""

    LOWER = 0
    UPPER = 1


class Side(IntEnum):
    """cublasSideMode_t."""

    LEFT = 0
    RIGHT = 1


class Math(IntEnum):
    """cublasMath_t."""

    DEFAULT = 0
    TF32 = 3


_FILL = {"L": Fill.LOWER, "U": Fill.UPPER}
_WAY = {"N": Transposition.PLAIN, "T": Transposition.TRANSPOSED}
_VECTORS = 1  # CUSOLVER_EIG_MODE_VECTOR
_NON_UNIT = 0  # CUBLAS_DIAG_NON_UNIT


class Libraries:
    """The routines for a device. `blas` and `solver` give a function of a library by its name, with its handle filled in."""

    def __init__(
        self, device: Any, blas: Callable[[str, Any], LibraryCall], solver: Callable[[str, Any], LibraryCall], precision: str
    ) -> None:
        self.device, self.xp, self.address = device, device.xp, device.address
        self.blas, self.solver, self.precision = blas, solver, precision
        self.numbers = {d: (np.array(1, d), np.array(0, d)) for d in ("f", "d")}
        self.one = {d: one.ctypes.data for d, (one, _) in self.numbers.items()}
        self.zero = {d: zero.ctypes.data for d, (_, zero) in self.numbers.items()}
        self._jacobi: dict[str, int] = {}  # options, by method: for the life of the process

    # -- products --

    def product(self, step: Product) -> Callable[[Sequence[int]], None]:
        """A function of the addresses of left, right and out. It computes the transpose of the product of transposes."""
        dtype = step.out.dtype
        one, zero = self.one[dtype.char], self.zero[dtype.char]
        rows, columns = step.out.shape[-2:]
        (how_a, long_a), (how_b, long_b) = _layout(step.left), _layout(step.right)
        sizes = (_WAY[how_b], _WAY[how_a], columns, rows, step.left.shape[-1], one)
        count, steps, outer = _batched(step)
        starts = [
            [(view.offset + move) * dtype.itemsize for view, move in zip((step.right, step.left, step.out), moves, strict=True)]
            for moves in outer
        ]
        is_fast = self.precision == "tf32" and dtype == np.float32
        name = "cublas?gemm_v2" if count == 1 else "cublas?gemmStridedBatched"
        call, blas = self.blas(name, dtype), self.blas

        def run(pointers: Sequence[int]) -> None:
            left, right, out = pointers
            if is_fast:
                blas("cublasSetMathMode", dtype)(Math.TF32)
            for b, a, c in starts:
                if count == 1:
                    call(*sizes, right + b, long_b, left + a, long_a, zero, out + c, columns)
                else:
                    matrices = (right + b, long_b, steps[0], left + a, long_a, steps[1])
                    call(*sizes, *matrices, zero, out + c, columns, steps[2], count)
            if is_fast:
                blas("cublasSetMathMode", dtype)(Math.DEFAULT)

        return run

    # -- what routines share --

    def each(self, *arrays: Any) -> Iterator[tuple[int, ...]]:
        """For each matrix of a stack, the addresses in the arrays, which have the axes of the stack in front."""
        stack = arrays[0].shape[:-2]
        starts = [self.address(a) for a in arrays]
        for index in np.ndindex(stack):
            yield tuple(
                start + sum(i * stride for i, stride in zip(index, a.strides, strict=False))
                for start, a in zip(starts, arrays, strict=True)
            )

    def pointers(self, a: Any, stack: tuple[int, ...]) -> Any:
        """An array on the device with the address of each matrix of a stack."""
        xp, start = self.xp, self.address(a)
        moving = [(n, stride) for n, stride in zip(stack, a.strides, strict=False) if n > 1]
        if moving and all(outer == n * stride for (_, outer), (n, stride) in itertools.pairwise(moving)) and moving[-1][1]:
            step = moving[-1][1]
            return raw.addresses(xp, start, step, size_of(stack))
        offsets = xp.zeros(stack, np.int64)
        for axis, (n, stride) in enumerate(zip(stack, a.strides, strict=False)):
            if n > 1 and stride:
                offsets = offsets + (xp.arange(n, dtype=np.int64) * stride).reshape((n,) + (1,) * (len(stack) - 1 - axis))
        return (offsets + start).reshape(-1)

    def infos(self, count: int) -> tuple[Any, Sequence[int]]:
        """A number for each matrix, which says whether a routine failed, and their addresses."""
        made = self.xp.zeros(count, np.int32)
        start = self.address(made)
        return made, range(start, start + 4 * count, 4)

    def room(self, name: str, dtype: Any, *arguments: Any, after: Sequence[Any] = ()) -> tuple[Any, int, int]:
        """Work memory of a routine of cuSOLVER: the array, its address and its size."""
        size = ctypes.c_int()
        self.solver(f"{name}_bufferSize", dtype)(*arguments, ctypes.addressof(size), *after)
        memory = self.xp.empty(max(size.value, 1), dtype)
        return memory, self.address(memory), size.value

    def lower(self, a: Any, diagonal: float = 1.0, out: Any = None) -> Any:
        """The lower triangle of each square matrix, with the diagonal scaled. One launch; CuPy's `tril` would make a mask."""
        out = self.xp.empty(a.shape, a.dtype) if out is None else out
        if self.xp is np:
            out[...] = np.tril(a) * (1 - (1 - diagonal) * np.eye(a.shape[-1], dtype=a.dtype))
        else:
            self.lower_kernel(a, a.shape[-1], diagonal, out)
        return out

    @cached
    def lower_kernel(self) -> Any:
        how = "long long row = i / n % n, column = i % n; y = row < column ? T(0) : row == column ? T(x * diagonal) : x"
        return self.xp.ElementwiseKernel("T x, int64 n, T diagonal", "T y", how, "adjoint_lower")

    # -- Cholesky --

    def cholesky(self, step: Lapack, a: Any, failed: Any) -> None:
        """a = l lᵀ, by rows, of the lower triangle."""
        xp, n, dtype, stack = self.xp, a.shape[-1], a.dtype, a.shape[:-2]
        count = size_of(stack)
        info, places = self.infos(count)
        if count > 1 and n <= _BATCHED:  # the libraries see aᵀ, and write the upper triangle lᵀ
            first = self.pointers(a, stack)
            self.solver("cusolverDn?potrfBatched", dtype)(Fill.UPPER, n, self.address(first), n, places[0], count)
            self.lower(a, out=a)
        else:  # cuSOLVER is far faster with a lower triangle, as it sees it: the transpose is factored
            factor = xp.ascontiguousarray(xp.swapaxes(a, -1, -2))
            _memory, work, size = self.room("cusolverDn?potrf", dtype, Fill.LOWER, n, self.address(factor), n)
            potrf = self.solver("cusolverDn?potrf", dtype)
            for (matrix,), place in zip(self.each(factor), places, strict=True):
                potrf(Fill.LOWER, n, matrix, n, work, size, place)
            self.lower(xp.swapaxes(factor, -1, -2), out=a)
        raw.has_failed(self.xp, info, failed)

    def cholesky_pullback(self, step: Lapack, l: Any, g: Any, failed: Any) -> None:  # noqa: E741
        """The cotangent g of the factor l, by rows, becomes that of its matrix."""
        stack, n = g.shape[:-2], g.shape[-1]
        if size_of(stack) > 1 and n <= _BATCHED:
            self.pull_back_factors(l, g)
        else:
            for index in np.ndindex(stack):
                self.pull_back_factor(l[index], g[index])
        failed[...] = False

    def pull_back_factors(self, l: Any, g: Any) -> None:  # noqa: E741
        """Those of a stack: p + pᵀ with p = l⁻ᵀ Φ(lᵀ g) l⁻¹; Φ is the lower triangle, with half of the diagonal."""
        xp, n, dtype = self.xp, g.shape[-1], g.dtype
        count = size_of(g.shape[:-2])
        factor, given = (self.lower(x).reshape(count, n, n) for x in (l, g))
        inner = xp.empty((count, n, n), dtype)
        one, zero = self.one[dtype.char], self.zero[dtype.char]
        # The libraries see gᵀ and lᵀ, and compute (lᵀ g)ᵀ = gᵀ l.
        matrices = (self.address(given), n, n * n, self.address(factor), n, n * n)
        self.blas("cublas?gemmStridedBatched", dtype)(
            Transposition.PLAIN, Transposition.TRANSPOSED, n, n, n, one, *matrices, zero, self.address(inner), n, n * n, count
        )
        inner = self.lower(inner, 0.5)
        # They see l as the upper triangle lᵀ, and inner as innerᵀ.
        self.trsm(factor, inner, n, Side.RIGHT, Fill.UPPER, Transposition.TRANSPOSED)  # innerᵀ l⁻¹: by rows l⁻ᵀ inner
        self.trsm(factor, inner, n, Side.LEFT, Fill.UPPER, Transposition.PLAIN)  # l⁻ᵀ (…)ᵀ: by rows (…) l⁻¹
        g[...] = (inner + xp.swapaxes(inner, -1, -2)).reshape(g.shape)

    def pull_back_factor(self, l: Any, g: Any) -> None:  # noqa: E741
        """That of one matrix, by blocks from the last to the first: see Murray, Differentiation of the Cholesky decomposition,
        2016. With the inverses of the blocks of the diagonal, all are products.

            l = [ ]            r, d, b, c are the blocks that the columns and rows of d, one on the diagonal, meet
                [r d  ]
                [b c  ]
        """
        n, times = len(g), self.times
        for j in reversed(range(0, n, _BLOCK)):
            k = min(j + _BLOCK, n)
            r, d, b, c = l[j:k, :j], self.lower(l[j:k, j:k]), l[k:, :j], l[k:, j:k]
            inverse = self.inverse_of_lower(d)
            own = g[j:k, j:k]
            if k < n:
                below = g[k:, j:k]
                below[...] = times(below, inverse)
                own -= times(below.T, c)
            half = times(times(inverse.T, self.lower(times(d.T, self.lower(own)), 0.5)), inverse)
            whole = half + half.T
            self.lower(whole, 0.5, out=own)
            if j:
                g[j:k, :j] -= times(whole, r)
            if j and k < n:
                g[k:, :j] -= times(below, r)
                g[j:k, :j] -= times(below.T, b)
        lower = self.lower(g)
        g[...] = lower + lower.T

    def inverse_of_lower(self, a: Any) -> Any:
        """By rows, BLAS sees the transpose of a, an upper triangle u; u⁻¹ is the transpose of the inverse."""
        inverse = self.xp.eye(len(a), dtype=a.dtype)
        self.trsm(self.xp.ascontiguousarray(a), inverse, len(a), Side.LEFT, Fill.UPPER, Transposition.PLAIN)
        return inverse

    def times(self, a: Any, b: Any) -> Any:
        """a @ b of two matrices with contiguous rows or columns: CuPy's product cannot be captured."""
        (rows, inner), columns, dtype = a.shape, b.shape[1], a.dtype
        out = self.xp.empty((rows, columns), dtype)
        ways = [_seen(x.shape, [stride // dtype.itemsize for stride in x.strides]) for x in (b, a)]
        (how_b, long_b), (how_a, long_a) = ways
        sizes = (_WAY[how_b], _WAY[how_a], columns, rows, inner, self.one[dtype.char])
        matrices = (self.address(b), long_b, self.address(a), long_a, self.zero[dtype.char], self.address(out), columns)
        self.blas("cublas?gemm_v2", dtype)(*sizes, *matrices)
        return out

    # -- triangular systems --

    def triangular(self, step: Lapack, a: Any, x: Any, failed: Any) -> None:
        """As BLAS sees it (the options say so); x by rows is its transpose, solved for from the right."""
        options = step.options
        side = Side.RIGHT if options["by_rows"] and x.shape[-1] > 1 else Side.LEFT
        self.trsm(a, x, options["leading"], side, _FILL[options["triangle"]], _WAY[options["transposed"]])
        failed[...] = False

    def trsm(self, a: Any, x: Any, leading: int, side: Side, fill: Fill, way: Transposition) -> None:
        """Solve a x = b for each matrix of a stack, or x a = b from the right; x holds b and is contiguous."""
        *stack, rows, columns = x.shape
        m, n = (columns, rows) if side is Side.RIGHT else (rows, columns)
        how, one, dtype = (side, fill, way, _NON_UNIT, m, n), self.one[x.dtype.char], x.dtype
        count = size_of(stack)
        if count > 1 and a.shape[-1] <= _BATCHED:
            first, target = self.pointers(a, tuple(stack)), self.pointers(x, tuple(stack))
            self.blas("cublas?trsmBatched", dtype)(*how, one, self.address(first), leading, self.address(target), m, count)
            return
        trsm = self.blas("cublas?trsm_v2", dtype)
        for target, matrix in self.each(x, a):
            trsm(*how, one, matrix, leading, target, m)

    # -- LU --

    def factors(self, step: Lapack, a: Any, pivots: Any, zero: Any, failed: Any) -> None:
        """p a = l u in place; the rows that were exchanged count from 1. `zero`: whether u has a zero on its diagonal."""
        n, dtype, stack = a.shape[-1], a.dtype, a.shape[:-2]
        count = size_of(stack)
        info, places = self.infos(count)
        if count > 1 and n <= _BATCHED:
            first = self.pointers(a, stack)
            self.blas("cublas?getrfBatched", dtype)(n, self.address(first), n, self.address(pivots), places[0], count)
        else:
            _memory, work, _ = self.room("cusolverDn?getrf", dtype, n, n, self.address(a), n)
            getrf, rows = self.solver("cusolverDn?getrf", dtype), self.address(pivots)
            for i, ((matrix,), place) in enumerate(zip(self.each(a), places, strict=True)):
                getrf(n, n, matrix, n, work, rows + 4 * n * i, place)
        raw.are_set(self.xp, info, zero)
        raw.has_failed(self.xp, info, failed)

    def solve(self, step: Lapack, a: Any, pivots: Any, x: Any, failed: Any) -> None:
        """a x = b or aᵀ x = b by the factors of a; x holds b. Where a pivot is zero, the program ends with an error anyway."""
        *stack, n, columns = x.shape
        count, way, dtype = size_of(stack), _WAY[step.options["transposed"]], x.dtype
        pivots = self.xp.ascontiguousarray(pivots)  # one set of factors may serve many right-hand sides
        rows = self.address(pivots)
        if count > 1 and n <= _BATCHED:
            first, target, info = self.pointers(a, tuple(stack)), self.pointers(x, tuple(stack)), ctypes.c_int()
            arrays = (self.address(first), n, rows, self.address(target), n)
            self.blas("cublas?getrsBatched", dtype)(way, n, columns, *arrays, ctypes.addressof(info), count)
        else:
            getrs, (_info, places) = self.solver("cusolverDn?getrs", dtype), self.infos(1)
            for i, (target, matrix) in enumerate(self.each(x, a)):
                getrs(way, n, columns, matrix, n, rows + 4 * n * i, target, n, places[0])
        failed[...] = False

    def inverse(self, step: Lapack, pivots: Any, zero: Any, x: Any, failed: Any) -> None:
        """x holds the factors of a and becomes its inverse; nan where there is none."""
        xp, dtype = self.xp, x.dtype
        *stack, n, _ = x.shape
        count = size_of(stack)
        # By rows, so that the libraries write transposes: for each matrix, columns that follow each other.
        made = xp.zeros((*stack, n, n), dtype)
        rows = self.address(pivots)
        if count > 1 and n <= _BATCHED:
            first, target, (_info, places) = self.pointers(x, tuple(stack)), self.pointers(made, tuple(stack)), self.infos(count)
            arrays = (self.address(first), n, rows, self.address(target), n)
            self.blas("cublas?getriBatched", dtype)(n, *arrays, places[0], count)
        else:
            made += xp.eye(n, dtype=dtype)
            getrs, (_info, places) = self.solver("cusolverDn?getrs", dtype), self.infos(1)
            for i, (target, matrix) in enumerate(self.each(made, x)):
                getrs(Transposition.PLAIN, n, n, matrix, n, rows + 4 * n * i, target, n, places[0])
        x[...] = xp.where(zero[..., None, None], np.nan, xp.swapaxes(made, -1, -2))
        failed[...] = False

    # -- QR --

    def reflectors(self, step: Lapack, a: Any, tau: Any, failed: Any) -> None:
        """a = q r: r in the upper triangle of a, the reflectors of q below it and in tau."""
        m, n = a.shape[-2:]
        info, places = self.infos(size_of(a.shape[:-2]))
        _memory, work, size = self.room("cusolverDn?geqrf", a.dtype, m, n, self.address(a), m)
        geqrf = self.solver("cusolverDn?geqrf", a.dtype)
        for (matrix, scale), place in zip(self.each(a, tau), places, strict=True):
            geqrf(m, n, matrix, m, scale, work, size, place)
        raw.has_failed(self.xp, info, failed)

    def orthogonal(self, step: Lapack, tau: Any, q: Any, failed: Any) -> None:
        """The columns of q, which holds reflectors."""
        (m, n), k = q.shape[-2:], tau.shape[-1]
        info, places = self.infos(size_of(q.shape[:-2]))
        _memory, work, size = self.room("cusolverDn?orgqr", q.dtype, m, n, k, self.address(q), m, self.address(tau))
        orgqr = self.solver("cusolverDn?orgqr", q.dtype)
        for (matrix, scale), place in zip(self.each(q, tau), places, strict=True):
            orgqr(m, n, k, matrix, m, scale, work, size, place)
        raw.has_failed(self.xp, info, failed)

    # -- eigenvalues and singular values: nan counts as a failure, as on the host --

    def parameters(self, kind: str) -> int:
        """The default options of a Jacobi method."""
        made = ctypes.c_void_p()
        self.solver(f"cusolverDnCreate{kind}Info", None)(ctypes.addressof(made))
        assert made.value is not None
        return made.value

    def eigen(self, step: Lapack, a: Any, values: Any, failed: Any) -> None:
        """a = v w vᵀ, of one triangle of a, which becomes v; values in rising order."""
        n, dtype, stack = a.shape[-1], a.dtype, a.shape[:-2]
        fill, count = _FILL[step.options["triangle"]], size_of(stack)
        info, places = self.infos(count)
        what = (_VECTORS, fill, n, self.address(a), n, self.address(values))
        if count > 1 and n <= _JACOBI:
            jacobi = self.jacobi("Syevj")
            _memory, work, size = self.room("cusolverDn?syevjBatched", dtype, *what, after=(jacobi, count))
            self.solver("cusolverDn?syevjBatched", dtype)(*what, work, size, places[0], jacobi, count)
        else:
            _memory, work, size = self.room("cusolverDn?syevd", dtype, *what)
            syevd = self.solver("cusolverDn?syevd", dtype)
            w = self.address(values)
            for i, ((matrix,), place) in enumerate(zip(self.each(a), places, strict=True)):
                syevd(_VECTORS, fill, n, matrix, n, w + n * dtype.itemsize * i, work, size, place)
        raw.has_failed(self.xp, info, failed, values)

    def singular(self, step: Lapack, a: Any, s: Any, *rest: Any) -> None:
        """a = u s vh, in falling order; u and vh only if they are read."""
        *vectors, failed = rest
        xp, (m, n), job = self.xp, a.shape[-2:], step.options["job"]
        count, k = size_of(a.shape[:-2]), min(a.shape[-2:])
        if count > 1 and max(m, n) <= _JACOBI:
            left, right, info = self.singular_batched(a, s)
            if job != "A":
                left, right = left[..., :k], right[..., :k]
            right = xp.swapaxes(right, -1, -2)
        elif m >= n:
            left, right, info = self.singular_each(a, s, job)
        else:  # cuSOLVER takes tall matrices: aᵀ = vhᵀ s uᵀ
            right, left, info = self.singular_each(xp.swapaxes(a, -1, -2), s, job)
            left, right = xp.swapaxes(left, -1, -2), xp.swapaxes(right, -1, -2)
        for out, part in zip(vectors, (left, right), strict=False):
            out[...] = part
        raw.has_failed(xp, info, failed, s)

    def singular_each(self, a: Any, s: Any, job: str) -> tuple[Any, Any, Any]:
        """u, vh and the status, for each tall matrix of a stack; works on a copy, which the routine destroys."""
        *stack, m, n = a.shape
        dtype, wide = a.dtype, m if job == "A" else n
        copy = self.by_columns((*stack, m, n), dtype)
        copy[...] = a
        u, vh = self.by_columns((*stack, m, wide), dtype), self.by_columns((*stack, n, n), dtype)
        info, places = self.infos(size_of(stack))
        _memory, work, size = self.room("cusolverDn?gesvd", dtype, m, n)
        gesvd, which = self.solver("cusolverDn?gesvd", dtype), ord(job)
        values = self.address(s)
        for i, ((matrix, left, right), place) in enumerate(zip(self.each(copy, u, vh), places, strict=True)):
            gesvd(which, which, m, n, matrix, m, values + n * dtype.itemsize * i, left, m, right, n, work, size, 0, place)
        return u, vh, info

    def singular_batched(self, a: Any, s: Any) -> tuple[Any, Any, Any]:
        """u, v (not its transpose), both square, and the status, for small matrices."""
        *stack, m, n = a.shape
        dtype, count = a.dtype, size_of(stack)
        u, v = self.by_columns((*stack, m, m), dtype), self.by_columns((*stack, n, n), dtype)
        info, places = self.infos(count)
        jacobi = self.jacobi("Gesvdj")
        what = (_VECTORS, m, n, self.address(a), m, self.address(s), self.address(u), m, self.address(v), n)
        _memory, work, size = self.room("cusolverDn?gesvdjBatched", dtype, *what, after=(jacobi, count))
        self.solver("cusolverDn?gesvdjBatched", dtype)(*what, work, size, places[0], jacobi, count)
        return u, v, info

    def jacobi(self, kind: str) -> int:
        found = self._jacobi.get(kind)
        if found is None:
            found = self._jacobi[kind] = self.parameters(kind)
        return found

    def by_columns(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """A new stack of matrices, each by columns."""
        *stack, m, n = shape
        return self.xp.swapaxes(self.xp.empty((*stack, n, m), dtype), -1, -2)

    def is_symmetric(self, step: Lapack, a: Any, out: Any, failed: Any) -> None:
        raw.is_symmetric(self.xp, a, out)
        failed[...] = False


def _layout(view: View) -> tuple[str, int]:
    return _seen(view.shape[-2:], view.strides[-2:])


def _seen(shape: Sequence[int], strides: Sequence[int]) -> tuple[str, int]:
    """How BLAS, which sees the transpose, reads a matrix: unchanged if rows are contiguous, else transposed."""
    (rows, columns), (down, across) = shape, strides
    if (across == 1 or columns == 1) and (down >= columns or rows == 1):
        return "N", max(down, columns, 1)
    return "T", max(across, rows, 1)


def _batched(step: Product) -> tuple[int, tuple[int, ...], list[tuple[int, ...]]]:
    """A stack as one call for the axes with a common stride: matrices per call, their strides, and the offsets of the calls."""
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
