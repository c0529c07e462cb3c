"""Large matrix products in pieces of rows or columns: our threads share them, and each is a call of BLAS with one thread.

    define internal void @product(ptr %left, ptr %right, ptr %out, i64 %start, i64 %length)

The threads of BLAS itself wait for each other, which on a busy machine takes many times as long as the product: 5,000 × 20 × 50
took 26 ms with two threads of BLAS on two cores that ten processes share, and takes 0.4 ms. The pieces follow from the sizes
alone, so that the result is the same for any number of threads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lower.kernel import size_of
from ..lower.step import Product
from ..switches import Switch
from .instruction import literal
from .lapack import Matrix, layout, multiplications

if TYPE_CHECKING:
    from .program import StepRoutine

_LARGE = 1 << 22  # multiplications from which a product is cut
_PIECE = 1 << 21  # multiplications of a piece
_LEAST = 64  # rows or columns of a piece
_MOST_PIECES = 64


def pieces(step: Product) -> int:
    """In how many pieces a product is computed; 1 if it is one call of BLAS."""
    rows, columns = step.out.shape[-2:]
    if not Switch.ONE_BLAS_THREAD.on or step.triangle or min(rows, columns) == 1 or size_of(step.out.shape[:-2]) > 1:
        return 1
    work, length = multiplications(step), max(rows, columns)
    if work < _LARGE:
        return 1
    most = min(work // _PIECE, _MOST_PIECES, length // _LEAST)
    if most < 2:
        return 1
    count = 1 << (most.bit_length() - 1)  # a power of two: the same number for each of 2, 4, … threads
    return -(-length // -(-length // count))  # none of them empty


def emit(routine: StepRoutine, step: Product) -> None:
    matrix = Matrix(step, 3)
    _part(matrix, step)
    matrix.code.do("ret void")
    head = "define internal void @NAME(ptr noalias %p0, ptr noalias %p1, ptr noalias %p2, i64 %start, i64 %length) nounwind"
    name = routine.module.function("product", matrix.code.define(head))
    routine.module.declared |= matrix.code.declared
    buffers = [view.buffer for view in (step.left, step.right, step.out)]
    routine.in_pieces(name, buffers, max(step.out.shape[-2:]), pieces(step))


def _part(c: Matrix, step: Product) -> None:
    """BLAS is column-major, so it computes the transpose as the product of transposes, as in `lapack`."""
    a, b, out = step.left, step.right, step.out
    (rows, inner), columns = a.shape[-2:], b.shape[-1]
    by_rows = rows >= columns
    count = c.code.let("trunc i64 %length to i32")
    moved = [
        c.element(f"%p{i}", c.code.let(f"add nsw i64 {view.offset}, {c.code.let(f'mul nsw i64 %start, {stride}')}"))
        for i, (view, stride) in enumerate(
            ((a, a.strides[-2] if by_rows else 0), (b, 0 if by_rows else b.strides[-1]), (out, columns if by_rows else 1))
        )
    ]
    (how_a, long_a), (how_b, long_b) = layout(a), layout(b)
    one, zero = (c.number(literal(value, c.dtype), c.kind) for value in (1, 0))
    sizes = [c.number(x) for x in ((columns, count, inner) if by_rows else (count, rows, inner))]
    leading = [c.number(x) for x in (long_b, long_a, columns)]
    c.limit_threads("one")
    ways = c.letter(how_b), c.letter(how_a)
    c.call("gemm", *ways, *sizes, one, moved[1], leading[0], moved[0], leading[1], zero, moved[2], leading[2])
    c.limit_threads("usual")
