"""The pullback through a Cholesky factor of one matrix, in place: the cotangent p of l lᵀ from g, that of l.

By blocks of columns, the last first (after Murray, arXiv:1602.07527). Once the block p₂ right below a block is known,

    [ l₁     ]   [ p₁     ]       p₂₁ = (g₂₁ − p₂ c) l₁⁻¹
    [ c   l₂ ]   [ p₂₁ p₂ ]       p₁ is found in the same way from l₁ and g₁ − p₂₁ᵀ c, a column at a time

p is symmetric, and both of its triangles are stored, so the products are ordinary ones. They are nearly all of the work. They are
narrow, so they are unrolled, as in `tile`: BLAS, which copies p₂ every time, takes nearly twice as long on one core. For large
matrices BLAS is used anyway, for its threads. All matrices are row-major. Only the lower triangles of g and l are read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from .builder import WRITTEN_AS_VECTORS
from .instruction import literal
from .microkernel import registers
from .vector import Vector

if TYPE_CHECKING:
    from .lapack import Matrix

_STRIPE = 16  # columns that are transposed together
_PANEL = 4  # vectors of right-hand sides that are solved for together


def pull_back(c: Matrix, factor: str, p: str, *work: str) -> str:
    """p holds g, and at the end p. The memory, for the columns below a block, is given if the products are unrolled."""
    c.attributes = WRITTEN_AS_VECTORS
    _Blocks(c, factor, p, *work).run()
    return "false"


class _Blocks:
    def __init__(self, c: Matrix, factor: str, p: str, below: str = "") -> None:
        self.c, self.code, self.factor, self.p, self.below = c, c.code, factor, p, below
        self.n, self.leading, self.width = c.side(), c.options["leading"], c.options["width"]
        size, most, _ = registers()
        item = c.dtype.itemsize
        self.single, self.panel, self.row = (
            Vector(self.code, c.kind, lanes, item) for lanes in (1, _PANEL * size // item, self.width)
        )
        self.total, self.totals = self.single.slot(), self.panel.slot()
        self.line = self.code.let(f"alloca [{self.width} x {c.kind}]")
        height = max(1, most * size // (self.width * item)) if below else 0  # rows that fit in registers
        self.rows = [self.row.slot() for _ in range(1 << height.bit_length() >> 1)]

    def run(self) -> None:
        c, code, n = self.c, self.code, self.n
        if n <= self.width:
            self.corner("0", str(n))
            return
        multiply = self.written_out if self.below else self.by_blas()

        def block(count: str) -> None:
            number = code.let(f"sub nsw i64 {-(-n // self.width) - 1}, {count}")
            start = code.let(f"mul nsw i64 {number}, {self.width}")
            stop = self.code.smaller(code.let(f"add nsw i64 {start}, {self.width}"), str(n))
            if self.below:
                c.span(stop, str(n), lambda i: self.keep(i, start, stop))

            def phase(number: str) -> None:
                """First below the block, then on the diagonal, from the result below it."""
                is_first = code.let(f"icmp eq i64 {number}, 0")
                top, bottom = (code.let(f"select i1 {is_first}, i64 {x}, i64 {y}") for x, y in ((stop, start), (str(n), stop)))
                multiply(top, bottom, start, stop)
                c.when(is_first, lambda: self.below_block(start, stop))

            c.span("0", code.let(f"select i1 {code.let(f'icmp slt i64 {stop}, {n}')}, i64 2, i64 0"), phase)
            self.corner(start, stop)
            self.each_below(start, stop, lambda i, j: self.copy(self.at_p(j, i), self.at_p(i, j)))

        c.span("0", str(-(-n // self.width)), block)

    # -- products: in some rows, from the columns of the block are taken those right of it times what is below it in l --

    def by_blas(self) -> Callable[[str, str, str, str], None]:
        c = self.c
        height, width, inner, step, leading = (c.number(k) for k in (0, 0, 0, self.n, self.leading))
        one, minus = (c.number(literal(value, c.dtype), c.kind) for value in (1, -1))
        as_is = c.letter("N")

        def multiply(top: str, bottom: str, start: str, stop: str) -> None:
            for place, upper, lower in ((height, bottom, top), (width, stop, start), (inner, str(self.n), stop)):
                count = self.code.let(f"trunc i64 {self.code.let(f'sub nsw i64 {upper}, {lower}')} to i32")
                self.code.do(f"store i32 {count}, ptr {place}")
            below, right, out = self.at_l(stop, start), self.at_p(top, stop), self.at_p(top, start)
            c.call("gemm", as_is, as_is, width, height, inner, minus, below, leading, right, step, one, out, step)

        return multiply

    def written_out(self, top: str, bottom: str, start: str, stop: str) -> None:
        """A few rows at a time, in registers. Where fewer are left, the last is computed repeatedly."""
        code, row = self.code, self.row
        height = len(self.rows)
        last = code.let(f"sub nsw i64 {bottom}, 1")

        def tile(number: str) -> None:
            first = code.let(f"add nsw i64 {top}, {code.let(f'mul nsw i64 {number}, {height}')}")
            rows = [self.code.smaller(code.let(f"add nsw i64 {first}, {r}"), last) for r in range(height)]
            for i, slot in zip(rows, self.rows, strict=True):
                row.store(row.load(self.at_p(i, start)), slot)

            def inner(k: str) -> None:
                kept = row.load(self.at_kept(k, stop))
                for i, slot in zip(rows, self.rows, strict=True):
                    row.add_product(slot, row.repeated(self.single.load(self.at_p(i, k))), kept)

            self.c.span(stop, str(self.n), inner)
            for i, slot in zip(rows, self.rows, strict=True):
                row.store(row.load(slot), self.at_p(i, start))

        beyond = code.let(f"add nsw i64 {code.let(f'sub nsw i64 {bottom}, {top}')}, {height - 1}")
        self.c.span("0", code.let(f"sdiv i64 {beyond}, {height}"), tile)

    def keep(self, i: str, start: str, stop: str) -> None:
        """A row below the block, packed and negated."""
        value = self.code.let(f"fneg {self.row.type} {self.row.load(self.at_l(i, start))}")
        self.row.store(value, self.at_kept(i, stop))

    def at_kept(self, i: str, stop: str) -> str:
        row = self.code.let(f"sub nsw i64 {i}, {stop}")
        return self.c.element(self.below, self.code.let(f"mul nsw i64 {row}, {self.width}"))

    def below_block(self, start: str, stop: str) -> None:
        """Transpose the remainder, and solve the transposed system."""
        self.each_below(start, stop, lambda i, j: self.copy(self.at_p(i, j), self.at_p(j, i)))
        self.solve(start, stop)

    # -- the rest of a block ------------------------------------------------------------------------------------

    def each_below(self, start: str, stop: str, do: Callable[[str, str], None]) -> None:
        """Every element below the block, a few columns at a time: their mirrored rows are in as many pages."""
        code = self.code

        def stripe(number: str) -> None:
            left = code.let(f"add nsw i64 {start}, {code.let(f'mul nsw i64 {number}, {_STRIPE}')}")
            visit(left, self.code.smaller(code.let(f"add nsw i64 {left}, {_STRIPE}"), stop))

        def visit(left: str, right: str) -> None:
            self.c.span(stop, str(self.n), lambda i: self.c.span(left, right, lambda j: do(i, j)))

        if self.width > _STRIPE:
            self.c.span("0", str(-(-self.width // _STRIPE)), stripe)
        else:
            visit(start, stop)

    def solve(self, start: str, stop: str) -> None:
        """The columns right of the block, by the transpose of its triangle: whole vectors first, then the rest."""
        code, lanes = self.code, self.panel.lanes
        across = code.let(f"sub nsw i64 {self.n}, {stop}")
        panels = code.let(f"sdiv i64 {across}, {lanes}")
        first = code.let(f"add nsw i64 {stop}, {code.let(f'mul nsw i64 {panels}, {lanes}')}")

        def panel(number: str) -> None:
            column = code.let(f"add nsw i64 {stop}, {code.let(f'mul nsw i64 {number}, {lanes}')}")
            self.substitute(start, stop, column, self.panel, self.totals)

        self.c.span("0", panels, panel)
        self.c.span(first, str(self.n), lambda column: self.substitute(start, stop, column, self.single, self.total))

    def substitute(self, start: str, stop: str, column: str, vector: Vector, total: str) -> None:
        """Some columns, from the last unknown to the first."""

        def unknown(j: str) -> None:
            place = self.at_p(j, column)
            vector.store(vector.load(place), total)
            self.c.span(
                self.code.let(f"add nsw i64 {j}, 1"),
                stop,
                lambda k: vector.add_product(
                    total, vector.repeated(self.minus(self.at_l(k, j))), vector.load(self.at_p(k, column))
                ),
            )
            solved = self.code.let(f"fmul {vector.type} {vector.load(total)}, {vector.repeated(self.inverse(j))}")
            vector.store(solved, place)

        self.backward(start, stop, unknown)

    def corner(self, start: str, stop: str) -> None:
        """The block on the diagonal: the same with blocks of one column."""
        c, code, single = self.c, self.code, self.single

        def place(i: str) -> str:
            return c.element(self.line, code.let(f"sub nsw i64 {i}, {start}"))

        def column(j: str) -> None:
            after = code.let(f"add nsw i64 {j}, 1")

            def known(k: str) -> None:
                factor = self.minus(self.at_l(k, j))
                c.span(after, stop, lambda i: single.add_product(place(i), factor, single.load(self.at_p(k, i))))

            c.span(after, stop, lambda i: self.copy(self.at_p(i, j), place(i)))
            c.span(after, stop, known)
            inverse, own = self.inverse(j), self.at_p(j, j)
            self.copy(own, self.total)

            def found(i: str) -> None:
                value = code.let(f"fmul {c.kind} {single.load(place(i))}, {inverse}")
                for pointer in (self.at_p(i, j), self.at_p(j, i)):
                    single.store(value, pointer)
                single.add_product(self.total, value, self.minus(self.at_l(i, j)))

            c.span(after, stop, found)
            single.store(code.let(f"fmul {c.kind} {single.load(self.total)}, {inverse}"), own)

        self.backward(start, stop, column)

    # -- words --------------------------------------------------------------------------------------------------

    def at_l(self, i: str, j: str) -> str:
        return self.at(self.factor, i, j, self.leading)

    def at_p(self, i: str, j: str) -> str:
        return self.at(self.p, i, j, self.n)

    def at(self, base: str, i: str, j: str, leading: int) -> str:
        return self.c.element(base, self.code.let(f"add nsw i64 {self.code.let(f'mul nsw i64 {i}, {leading}')}, {j}"))

    def backward(self, start: str, stop: str, body: Callable[[str], None]) -> None:
        last = self.code.let(f"sub nsw i64 {self.code.let(f'add nsw i64 {start}, {stop}')}, 1")
        self.c.span(start, stop, lambda count: body(self.code.let(f"sub nsw i64 {last}, {count}")))

    def copy(self, source: str, target: str) -> None:
        self.single.store(self.single.load(source), target)

    def minus(self, pointer: str) -> str:
        return self.code.let(f"fneg {self.c.kind} {self.single.load(pointer)}")

    def inverse(self, j: str) -> str:
        return self.code.let(f"fdiv {self.c.kind} {literal(1, self.c.dtype)}, {self.single.load(self.at_l(j, j))}")
