"""BLAS products and LAPACK routines in a program: one function for a single matrix, called for each of a stack.

    define internal i1 @potrf3(ptr %p0)        the Cholesky factor of one matrix, in place; true if there is none

Matrices are column-major and contiguous, unless stated otherwise. `lower.matrix` uses the routines.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..lower.kernel import View, size_of
from ..lower.step import Lapack, Product
from ..switches import Switch
from . import elimination
from .cholesky import pull_back
from .instruction import REGISTER, Code, literal
from .substitution import SMALL, Triangle, Unknowns, by_factors, is_small, substitute
from .symmetry import is_symmetric

if TYPE_CHECKING:
    from .program import StepRoutine

#: The code of each failure in `entry.ERRORS`.
FAILURES = {"singular": 5, "indefinite": 6, "eigenvalues": 7, "singular values": 8}

#: Multiplications of a short call, which gets one thread of BLAS (`runtime.blas`): it takes 3 ms at most, and on a busy machine
#: hundreds with all threads.
SHORT = 1 << 26
#: Multiplications below which a call has one thread anyway: OpenBLAS computes such a product with one. A triangular system it
#: cuts from eight unknowns on, but the smallest ones are solved inline.
ALONE = {Product: 1 << 16, Lapack: (SMALL + 1) ** 3 // 3}

_NAME = "@NAME"  # placeholder for the name of a function
_BLOCK, _MOST_BLOCKS = 64, 32  # of a triangular system


def emit(routine: StepRoutine, step: Lapack) -> None:
    """Call the function for each matrix. The last result is a bool: whether one of the calls failed."""
    *outs, failed = step.outs
    views = [*step.operands, *step.inout, *outs]
    stack = (*step.inout, *outs)[0].shape[:-2]
    matrix = Matrix(step, len(views) + len(step.work))
    name = _defined(routine, matrix, step.routine)
    code = routine.code
    bases = [routine.at(v) for v in views]
    work = [routine.at(v) for v in step.work]

    def call(index: str) -> str:
        pointers = [_moved(code, p, v, stack, index) for p, v in zip(bases, views, strict=True)]
        return code.let(f"call i1 {name}({', '.join(f'ptr {p}' for p in (*pointers, *work))})")

    count = size_of(stack)
    status = call("0") if count == 1 else _for_each(routine, count, call)
    code.store(status, routine.at(failed), failed.dtype)


def product(routine: StepRoutine, step: Product) -> None:
    """Matrix products by BLAS. BLAS is column-major, so it computes the transpose as the product of transposes."""
    views = [step.left, step.right, step.out]
    matrix = Matrix(step, len(views))
    matrix.attributes = routine.how
    name = _defined(routine, matrix, "product")
    code, stack = routine.code, step.out.shape[:-2]
    bases = [routine.at(v) for v in views]

    def call(index: str) -> str:
        pointers = [_moved(code, p, v, stack, index) for p, v in zip(bases, views, strict=True)]
        return code.let(f"call i1 {name}({', '.join(f'ptr {p}' for p in pointers)})")

    count = size_of(stack)
    if count == 1:
        call("0")
    else:
        _for_each(routine, count, call)


def _defined(routine: StepRoutine, matrix: Matrix, what: str) -> str:
    """The name of the function for one matrix. Steps of the same sizes share one."""
    name = routine.module.function(what, matrix.define())
    routine.module.declared |= matrix.code.declared
    return name


def _for_each(routine: StepRoutine, count: int, call: Callable[[str], str]) -> str:
    """Call for each index; returns whether one of the calls gave true."""
    code = routine.code
    loop = code.repeat([("i1", "false")])
    failed = code.let(f"or i1 {loop.values[0]}, {call(loop.index)}")
    loop.close(str(count), [failed])
    return failed


def _moved(code: Code, pointer: str, view: View, stack: tuple[int, ...], index: str) -> str:
    """The address of one matrix of a stack."""
    total, step = "0", size_of(stack)
    for length, stride in zip(stack, view.strides, strict=False):
        step //= length
        if stride and index != "0":
            i = code.let(f"urem i64 {code.let(f'udiv i64 {index}, {step}')}, {length}")
            total = code.let(f"add i64 {total}, {code.let(f'mul i64 {i}, {stride}')}")
    if total == "0":
        return pointer
    return code.let(f"getelementptr i8, ptr {pointer}, i64 {code.let(f'mul i64 {total}, {view.dtype.itemsize}')}")


class Matrix:
    """Writes the function for one matrix: %p0, %p1, … are its operands, in-place arguments, results and work memory."""

    def __init__(self, step: Lapack | Product, count: int) -> None:
        self.code = Code()
        self.step: Any = step
        self.options = step.options if isinstance(step, Lapack) else {}
        self.count = count
        self.dtype = next(v.dtype for v in (*step.writes(), *step.reads()) if v.dtype.kind == "f")
        self.kind = REGISTER[self.dtype]
        self.attributes = ""  # of the function
        self.writes_out = False  # loops of a known number of iterations

    def define(self) -> str:
        """The text of the function, with a placeholder for its name."""
        routine = _product if isinstance(self.step, Product) else _ROUTINES[self.step.routine]
        is_short = Switch.ONE_BLAS_THREAD.on and ALONE[type(self.step)] <= multiplications(self.step) < SHORT
        if is_short:
            self.limit_threads("one")
        result = routine(self, *(f"%p{i}" for i in range(self.count)))
        if is_short:
            self.limit_threads("usual")
        arguments = ", ".join(f"ptr noalias %p{i}" for i in range(self.count))
        head = f"define internal i1 {_NAME}({arguments}) nounwind noinline {self.attributes}"
        self.code.do(f"ret i1 {result}")
        return self.code.define(head)

    def limit_threads(self, to: str) -> None:
        """Of BLAS: to `one`, or to the `usual` number."""
        self.code.declared.add(f"declare void @adjoint_{to}_thread{'s' * (to == 'usual')}() nounwind")
        self.code.do(f"call void @adjoint_{to}_thread{'s' * (to == 'usual')}()")

    def number(self, value: Any, kind: str = "i32") -> str:
        """A number in memory, since Fortran passes by reference."""
        pointer = self.code.let(f"alloca {kind}")
        self.code.do(f"store {kind} {value}, ptr {pointer}")
        return pointer

    def letter(self, value: str) -> str:
        return self.number(ord(value), "i8")

    def call(self, name: str, *arguments: str) -> None:
        full = f"adjoint_{'d' if self.kind == 'double' else 's'}{name}"
        self.code.declared.add(f"declare void @{full}({', '.join(['ptr'] * len(arguments))}) nounwind")
        self.code.do(f"call void @{full}({', '.join(f'ptr {a}' for a in arguments)})")

    def lapack(self, name: str, *arguments: str) -> str:
        """Call a routine; returns whether it reports a failure."""
        info = self.number(0)
        self.call(name, *arguments, info)
        return self.code.let(f"icmp ne i32 {self.code.let(f'load i32, ptr {info}')}, 0")

    def span(self, start: str, stop: str, body: Callable[[str], None]) -> None:
        """A loop from one number to another, or its iterations one after the other, where loops are written out."""
        if self.writes_out and start.isdigit() and stop.isdigit():
            for number in range(int(start), int(stop)):
                body(str(number))
            return
        with self.code.iterations(start, stop) as index:
            body(index)

    def less(self, last: int, index: str) -> str:
        """last - index, which is a number where the index is one."""
        return str(last - int(index)) if index.isdigit() else self.code.let(f"sub nsw i64 {last}, {index}")

    def next(self, index: str) -> str:
        return str(int(index) + 1) if index.isdigit() else self.code.let(f"add nuw nsw i64 {index}, 1")

    def when(self, condition: str, body: Callable[[], None]) -> None:
        with self.code.when(condition):
            body()

    def clear(self, pointer: str, count: str) -> None:
        """Set elements to zero."""
        self.code.declared.add("declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)")
        size = self.code.let(f"mul nuw nsw i64 {count}, {self.dtype.itemsize}")
        self.code.do(f"call void @llvm.memset.p0.i64(ptr {pointer}, i8 0, i64 {size}, i1 false)")

    def element(self, pointer: str, index: str) -> str:
        return self.code.let(f"getelementptr {self.kind}, ptr {pointer}, i64 {index}")

    def vector_product(
        self, transposed: bool, sizes: tuple[int, int], matrix: str, leading: int, vector: str, step: int, out: str
    ) -> None:
        """A matrix of these sizes, of which BLAS sees the transpose or not, times a vector."""
        m, n = (self.number(x) for x in (sizes[::-1] if transposed else sizes))
        one, zero = (self.number(literal(value, self.dtype), self.kind) for value in (1, 0))
        how, unit = self.letter("T" if transposed else "N"), self.number(1)
        self.call("gemv", how, m, n, one, matrix, self.number(leading), vector, self.number(max(step, 1)), zero, out, unit)

    def side(self, view: int = 0) -> int:
        """The number of rows of an in-place argument."""
        return self.step.inout[view].shape[-2]


def multiplications(step: Lapack | Product) -> int:
    """About how many a call makes."""
    if isinstance(step, Product):
        return step.left.shape[-2] * step.left.shape[-1] * step.right.shape[-1]
    sides = [size for view in (*step.operands, *step.inout, *step.outs) for size in view.shape[-2:]]
    return max(sides, default=0) ** 3 // 3


def _product(c: Matrix, left: str, right: str, out: str) -> str:
    a, b = c.step.left, c.step.right
    (rows, inner), columns = a.shape[-2:], b.shape[-1]
    one, zero = (c.number(literal(value, c.dtype), c.kind) for value in (1, 0))
    (how_a, long_a), (how_b, long_b) = layout(a), layout(b)
    if columns == 1:
        c.vector_product(how_a == "N", (rows, inner), left, long_a, right, b.strides[-2], out)
    elif rows == 1:
        c.vector_product(how_b == "T", (columns, inner), right, long_b, left, a.strides[-1], out)
    else:
        ways = (c.letter(how_b), c.letter(how_a))
        leading = [c.number(x) for x in (long_b, long_a, columns)]
        for start, stop, first, end in _stripes(rows, inner, c.step.triangle):
            sizes = [c.number(x) for x in (columns, stop - start, end - first)]
            part_a = c.element(left, str(start * a.strides[-2] + first * a.strides[-1]))
            part_b, part = c.element(right, str(first * b.strides[-2])), c.element(out, str(start * columns))
            c.call("gemm", *ways, *sizes, one, part_b, leading[0], part_a, leading[1], zero, part, leading[2])
    return "false"


def _stripes(rows: int, inner: int, triangle: str) -> list[tuple[int, int, int, int]]:
    """Rows of a product, with the range of the inner axis where they are not zero."""
    if not triangle or rows < 2 * _BLOCK:
        return [(0, rows, 0, inner)]
    size = max(_BLOCK, -(-rows // _MOST_BLOCKS))
    parts = [(start, min(start + size, rows)) for start in range(0, rows, size)]
    return [(lo, hi, 0, hi) if triangle == "lower" else (lo, hi, lo, inner) for lo, hi in parts]


def layout(view: View) -> tuple[str, int]:
    """How BLAS, which sees the transpose, reads a matrix: unchanged if rows are contiguous, else transposed."""
    (rows, columns), (down, across) = view.shape[-2:], view.strides[-2:]
    if (across == 1 or columns == 1) and (down >= columns or rows == 1):
        return "N", max(down, columns, 1)
    return "T", max(across, rows, 1)


def _cholesky(c: Matrix, a: str) -> str:
    """Row-major: LAPACK sees the transpose, whose upper triangle is our lower one."""
    n = c.side()
    failed = c.lapack("potrf", c.letter("U"), c.number(n), a, c.number(n))

    def clear_rest(i: str) -> None:
        row = c.code.let(f"mul nuw nsw i64 {i}, {n + 1}")
        c.clear(c.element(a, c.code.let(f"add nuw nsw i64 {row}, 1")), c.code.let(f"sub nuw nsw i64 {n - 1}, {i}"))

    c.span("0", str(n), clear_rest)
    return failed


def _factors(c: Matrix, a: str, pivots: str, info: str) -> str:
    n = c.side()
    if elimination.is_small(n):
        failed = elimination.factors(c, a, pivots, n)
    else:
        failed = c.lapack("getrf", c.number(n), c.number(n), a, c.number(n), pivots)
    c.code.store(failed, info, np.dtype(bool))
    return failed


def _solve(c: Matrix, a: str, pivots: str, x: str) -> str:
    n, columns = c.step.inout[0].shape[-2:]
    by_factors(c, a, pivots, Unknowns(x, n, columns, 1, n), c.options["transposed"] == "T")
    return "false"


def _inverse(c: Matrix, pivots: str, info: str, x: str, work: str) -> str:
    """From the factors, in place; nan if there is none."""
    n = c.side()
    size = c.step.work[0].buffer.size
    if elimination.is_small(n) and n * n <= size:
        elimination.inverse(c, x, pivots, work, n)
    else:
        c.lapack("getri", c.number(n), x, c.number(n), pivots, work, c.number(size))

    def put_nan(i: str) -> None:
        c.code.do(f"store {c.kind} {literal(np.nan, c.dtype)}, ptr {c.element(x, i)}")

    c.when(c.code.load(info, np.dtype(bool)), lambda: c.span("0", str(n * n), put_nan))
    return "false"


def _triangular(c: Matrix, a: str, x: str) -> str:
    """One triangle, as BLAS sees it; a row-major x is its transpose, solved from the right."""
    rows, columns = c.step.inout[0].shape[-2:]
    if is_small(rows, columns):
        steps = (columns, 1) if c.options["by_rows"] else (1, rows)
        lower, transposed = c.options["triangle"] == "L", c.options["transposed"] == "T"
        # From the right, the transposed system is solved.
        transposed = transposed != (c.options["by_rows"] and columns > 1)
        substitute(c, Triangle(a, c.options["leading"], lower, transposed), Unknowns(x, rows, columns, *steps))
        return "false"
    uplo, trans = c.letter(c.options["triangle"]), c.letter(c.options["transposed"])
    leading = c.number(c.options["leading"])
    if columns == 1:
        c.call("trsv", uplo, trans, c.letter("N"), c.number(rows), a, leading, x, c.number(1))
        return "false"
    one, minus = (c.number(literal(value, c.dtype), c.kind) for value in (1, -1))
    from_right = c.options["by_rows"]
    side, n, plain = c.letter("R" if from_right else "L"), c.letter("N"), c.options["transposed"] == "N"
    across, height = c.number(columns), c.number(columns if from_right else rows)
    is_upper = (c.options["triangle"] == "U") == plain
    for start, stop, known in _blocks(rows, forward=is_upper == from_right):
        size = c.number(stop - start)
        part = c.element(x, str(start * columns if from_right else start))
        if known:  # move the known part of x to the right-hand side
            first, count = known[0], c.number(known[1] - known[0])
            rest = c.element(x, str(first * columns if from_right else first))
            i, j = (start, first) if plain != from_right else (first, start)
            block = c.element(a, str(i + j * c.options["leading"]))
            if from_right:
                c.call("gemm", n, trans, across, size, count, minus, rest, height, block, leading, one, part, height)
            else:
                c.call("gemm", trans, n, size, across, count, minus, block, leading, rest, height, one, part, height)
        m, k = (across, size) if from_right else (size, across)
        own = c.element(a, str(start * (1 + c.options["leading"])))
        c.call("trsm", side, uplo, trans, n, m, k, one, own, leading, part, height)
    return "false"


def _blocks(n: int, forward: bool) -> list[tuple[int, int, tuple[int, int] | None]]:
    """Blocks of a triangular system, in order, with the unknowns solved before. Products are faster than solving."""
    size = max(_BLOCK, -(-n // _MOST_BLOCKS)) if Switch.TRIANGULAR_BLOCKS.on else n
    parts = [(start, min(start + size, n)) for start in range(0, n, size)]
    if forward:
        return [(start, stop, (0, start) if start else None) for start, stop in parts]
    return [(start, stop, (stop, n) if stop < n else None) for start, stop in reversed(parts)]


def _eigen(c: Matrix, a: str, values: str, work: str, whole: str) -> str:
    n = c.side()
    sizes = [c.number(v.buffer.size) for v in c.step.work]
    job, uplo = (c.letter(letter) for letter in ("V" if c.options["vectors"] else "N", c.options["triangle"]))
    return c.lapack("syevd", job, uplo, c.number(n), a, c.number(n), values, work, sizes[0], whole, sizes[1])


def _reflectors(c: Matrix, a: str, tau: str, work: str) -> str:
    m, n = c.step.inout[0].shape[-2:]
    return c.lapack("geqrf", c.number(m), c.number(n), a, c.number(m), tau, work, c.number(c.step.work[0].buffer.size))


def _orthogonal(c: Matrix, tau: str, q: str, work: str) -> str:
    m, n = c.step.inout[0].shape[-2:]
    k = c.step.operands[0].shape[-1]
    size = c.number(c.step.work[0].buffer.size)
    return c.lapack("orgqr", c.number(m), c.number(n), c.number(k), q, c.number(m), tau, work, size)


def _singular(c: Matrix, a: str, s: str, *rest: str) -> str:
    *vectors, work, whole = rest
    u, vh = vectors or (a, a)  # those that are not wanted are not written
    m, n = c.step.inout[0].shape[-2:]
    sizes = [c.number(x) for x in (m, n, m, m, c.step.outs[2].shape[-2] if vectors else n)]
    size, job = c.number(c.step.work[0].buffer.size), c.letter(c.options["job"])
    return c.lapack("gesdd", job, sizes[0], sizes[1], a, sizes[2], s, u, sizes[3], vh, sizes[4], work, size, whole)


_ROUTINES: dict[str, Callable[..., str]] = {
    "cholesky": _cholesky,
    "cholesky_pullback": pull_back,
    "factors": _factors,
    "solve": _solve,
    "inverse": _inverse,
    "triangular": _triangular,
    "eigen": _eigen,
    "reflectors": _reflectors,
    "orthogonal": _orthogonal,
    "singular": _singular,
    "is_symmetric": is_symmetric,
}
