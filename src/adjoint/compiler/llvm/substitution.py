"""Triangular systems, and systems with LU factors, for one column-major matrix.

Small ones are solved inline: calling BLAS takes longer than the work, and it may use its threads for a system of a few unknowns,
which on a busy machine costs milliseconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ..switches import Switch
from .instruction import literal

if TYPE_CHECKING:
    from .lapack import Matrix

SMALL = 16  # unknowns
LITTLE = 1 << 13  # multiplications
ROWS_WRITTEN_OUT = 8  # of factors, that have code of their own
WORK_WRITTEN_OUT = 6**3  # multiplications of a system that has


class Triangle(NamedTuple):
    """A triangle of a matrix, as BLAS sees it."""

    pointer: str
    leading: int
    lower: bool
    transposed: bool
    unit: bool = False  # ones on the diagonal, which are not stored


class Unknowns(NamedTuple):
    """The right-hand sides, which become the solutions; strides from one unknown and one side to the next."""

    pointer: str
    rows: int
    columns: int
    down: int
    across: int


def is_small(rows: int, columns: int) -> bool:
    return Switch.SMALL_SYSTEMS.on and rows <= SMALL and rows * rows * columns <= LITTLE


def substitute(c: Matrix, a: Triangle, x: Unknowns) -> None:
    """Solve a small system, one unknown after the other."""
    code, n = c.code, x.rows
    c.writes_out = n * n * x.columns <= WORK_WRITTEN_OUT
    forward = a.lower != a.transposed

    def each(count: str) -> None:
        k = count if forward else c.less(n - 1, count)
        others = (c.next(k), str(n)) if a.lower else ("0", k)
        if not a.transposed:
            divide(k)
        c.span(*others, lambda i: c.span("0", str(x.columns), lambda j: eliminate(k, i, j)))
        if a.transposed:
            divide(k)

    def eliminate(k: str, i: str, j: str) -> None:
        """Eliminate unknown i from equation k, or k from i, in one of the right-hand sides."""
        target, known = (k, i) if a.transposed else (i, k)
        factor = code.load(c.element(a.pointer, _at(c, (i, 1), (k, a.leading))), c.dtype)
        place = c.element(x.pointer, _at(c, (target, x.down), (j, x.across)))
        term = code.let(
            f"fmul {c.kind} {factor}, {code.load(c.element(x.pointer, _at(c, (known, x.down), (j, x.across))), c.dtype)}"
        )
        code.store(code.let(f"fsub {c.kind} {code.load(place, c.dtype)}, {term}"), place, c.dtype)

    def divide(k: str) -> None:
        if a.unit:
            return
        diagonal = code.load(c.element(a.pointer, _at(c, (k, a.leading + 1))), c.dtype)

        def side(j: str) -> None:
            place = c.element(x.pointer, _at(c, (k, x.down), (j, x.across)))
            code.store(code.let(f"fdiv {c.kind} {code.load(place, c.dtype)}, {diagonal}"), place, c.dtype)

        c.span("0", str(x.columns), side)

    c.span("0", str(n), each)


def triangular(c: Matrix, a: Triangle, x: Unknowns) -> None:
    """Solve a system whose unknowns are column-major."""
    if is_small(x.rows, x.columns):
        substitute(c, a, x)
        return
    one = c.number(literal(1, c.dtype), c.kind)
    how = [c.letter(letter) for letter in ("L" if a.lower else "U", "T" if a.transposed else "N", "U" if a.unit else "N")]
    rows, columns, leading, down = (c.number(k) for k in (x.rows, x.columns, a.leading, x.across))
    if x.columns == 1:
        c.call("trsv", *how, rows, a.pointer, leading, x.pointer, c.number(1))
    else:
        c.call("trsm", c.letter("L"), *how, rows, columns, one, a.pointer, leading, x.pointer, down)


def by_factors(c: Matrix, factors: str, pivots: str, x: Unknowns, transposed: bool) -> None:
    """Solve with P L U, as getrf gives them: P x = b first, or last if it is transposed."""
    lower, upper = (Triangle(factors, x.rows, low, transposed, unit=low) for low in (True, False))
    if transposed:
        triangular(c, upper, x)
        triangular(c, lower, x)
        exchange(c, pivots, x, backward=True)
    else:
        exchange(c, pivots, x, backward=False)
        triangular(c, lower, x)
        triangular(c, upper, x)


def exchange(c: Matrix, pivots: str, x: Unknowns, backward: bool) -> None:
    """Exchange rows by the pivots, which count from one."""
    code = c.code

    def each(count: str) -> None:
        i = c.less(x.rows - 1, count) if backward else count
        pivot = code.let(f"load i32, ptr {code.let(f'getelementptr i32, ptr {pivots}, i64 {i}')}")
        other = code.let(f"sub nsw i64 {code.let(f'sext i32 {pivot} to i64')}, 1")

        def side(j: str) -> None:
            places = [c.element(x.pointer, _at(c, (row, x.down), (j, x.across))) for row in (i, other)]
            values = [code.load(place, c.dtype) for place in places]
            for place, value in zip(places, reversed(values), strict=True):
                code.store(value, place, c.dtype)

        c.span("0", str(x.columns), side)

    c.span("0", str(x.rows), each)


def _at(c: Matrix, *steps: tuple[str, int]) -> str:
    """The offset of an element: the sum of indices times strides."""
    terms = [index if stride == 1 else c.code.let(f"mul nsw i64 {index}, {stride}") for index, stride in steps]
    total = terms[0]
    for term in terms[1:]:
        total = c.code.let(f"add nsw i64 {total}, {term}")
    return total
