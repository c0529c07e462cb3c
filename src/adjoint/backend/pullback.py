"""The pull-back through a Cholesky factor of one matrix, in place: the cotangent p of l lᵀ from g, that of l.

By blocks of columns, the last first (after Murray, arXiv:1602.07527). Once the block p₂ right below a block is known,

    [ l₁     ]   [ p₁     ]       p₂₁ = (g₂₁ − p₂ c) l₁⁻¹
    [ c   l₂ ]   [ p₂₁ p₂ ]       p₁ is found in the same way from l₁ and g₁ − p₂₁ᵀ c, a column at a time

p is symmetric, and both of its triangles are written as it is found, so the products are plain ones, for BLAS. What is left to
do here is a small part of the work: transposing, a triangular system with many sides, and the blocks on the diagonal.
All matrices lie by rows. Of g and l only the lower triangles are read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from .instruction import literal

if TYPE_CHECKING:
    from .lapack import Matrix

_SMALL, _LARGE, _MANY = 16, 32, 512  # columns of a block; rows from which on it is a large one
_PANEL = 256  # bytes of the vectors in which right-hand sides are solved for


def pull_back(c: Matrix, factor: str, p: str) -> str:
    """p holds g, and in the end p."""
    _Blocks(c, factor, p).run()
    return "false"


class _Blocks:
    def __init__(self, c: Matrix, factor: str, p: str) -> None:
        self.c, self.code, self.factor, self.p = c, c.code, factor, p
        self.n, self.leading = c.side(), c.options["leading"]
        self.size = _SMALL if self.n < _MANY else _LARGE
        self.total = self.code.let(f"alloca {c.kind}")
        self.row = self.code.let(f"alloca [{self.size} x {c.kind}]")
        self.lanes = _PANEL // c.dtype.itemsize
        self.panel = self.code.let(f"alloca <{self.lanes} x {c.kind}>")

    def run(self) -> None:
        c, code, n = self.c, self.code, self.n
        if n <= self.size:
            self.corner("0", str(n))
            return
        width, rest, step, leading = (c.number(k) for k in (0, 0, n, self.leading))
        one, minus = (c.number(literal(value, c.dtype), c.kind) for value in (1, -1))
        as_is, turned = c.letter("N"), c.letter("T")

        def block(turn: str) -> None:
            stop = code.let(f"sub nsw i64 {n}, {code.let(f'mul nsw i64 {turn}, {self.size}')}")
            start = self.greater(code.let(f"sub nsw i64 {stop}, {self.size}"), "0")
            code.do(f"store i32 {self.short(code.let(f'sub nsw i64 {stop}, {start}'))}, ptr {width}")
            code.do(f"store i32 {self.short(code.let(f'sub nsw i64 {n}, {stop}'))}, ptr {rest}")
            below, right = self.at_l(stop, start), self.at_p(start, stop)
            self.each_below(start, stop, lambda i, j: self.copy(self.at_p(i, j), self.at_p(j, i)))
            known = self.at_p(stop, stop)
            c.call("gemm", as_is, turned, rest, width, rest, minus, known, step, below, leading, one, right, step)
            self.solve(start, stop)
            own = self.at_p(start, start)
            c.call("gemm", as_is, as_is, width, width, rest, minus, below, leading, right, step, one, own, step)
            self.corner(start, stop)
            self.each_below(start, stop, lambda i, j: self.copy(self.at_p(j, i), self.at_p(i, j)))

        c.span("0", str(-(-n // self.size)), block)

    # -- parts of a block ---------------------------------------------------------------------------------------

    def each_below(self, start: str, stop: str, do: Callable[[str, str], None]) -> None:
        """Every element below the block."""
        self.c.span(stop, str(self.n), lambda i: self.c.span(start, stop, lambda j: do(i, j)))

    def solve(self, start: str, stop: str) -> None:
        """The columns right of the block, by the transpose of its triangle: vectors of them first, then what is left."""
        code, lanes = self.code, self.lanes
        across = code.let(f"sub nsw i64 {self.n}, {stop}")
        panels = code.let(f"sdiv i64 {across}, {lanes}")
        first = code.let(f"add nsw i64 {stop}, {code.let(f'mul nsw i64 {panels}, {lanes}')}")

        def panel(number: str) -> None:
            column = code.let(f"add nsw i64 {stop}, {code.let(f'mul nsw i64 {number}, {lanes}')}")
            self.substitute(start, stop, column, lanes)

        self.c.span("0", panels, panel)
        self.c.span(first, str(self.n), lambda column: self.substitute(start, stop, column, 1))

    def substitute(self, start: str, stop: str, column: str, lanes: int) -> None:
        """Some columns, from the last unknown to the first, in registers."""
        c, code = self.c, self.code
        kind = c.kind if lanes == 1 else f"<{lanes} x {c.kind}>"
        slot = self.total if lanes == 1 else self.panel
        suffix = ("" if lanes == 1 else f"v{lanes}") + f"f{8 * c.dtype.itemsize}"
        code.declared.add(f"declare {kind} @llvm.fmuladd.{suffix}({kind}, {kind}, {kind})")

        def load(pointer: str) -> str:
            return code.let(f"load {kind}, ptr {pointer}, align {c.dtype.itemsize}")

        def unknown(j: str) -> None:
            place = self.at_p(j, column)
            code.do(f"store {kind} {load(place)}, ptr {slot}")

            def known(k: str) -> None:
                factor = code.let(f"fneg {c.kind} {code.load(self.at_l(k, j), c.dtype)}")
                arguments = (self.repeated(factor, lanes), load(self.at_p(k, column)), code.let(f"load {kind}, ptr {slot}"))
                total = code.let(f"call {kind} @llvm.fmuladd.{suffix}({', '.join(f'{kind} {a}' for a in arguments)})")
                code.do(f"store {kind} {total}, ptr {slot}")

            c.span(code.let(f"add nsw i64 {j}, 1"), stop, known)
            total = code.let(f"load {kind}, ptr {slot}")
            solved = code.let(f"fmul {kind} {total}, {self.repeated(self.inverse(j), lanes)}")
            code.do(f"store {kind} {solved}, ptr {place}, align {c.dtype.itemsize}")

        self.backward(start, stop, unknown)

    def corner(self, start: str, stop: str) -> None:
        """The block on the diagonal: the same with blocks of one column."""
        c, code = self.c, self.code

        def place(i: str) -> str:
            return c.element(self.row, code.let(f"sub nsw i64 {i}, {start}"))

        def column(j: str) -> None:
            after = code.let(f"add nsw i64 {j}, 1")

            def known(k: str) -> None:
                factor = code.let(f"fneg {c.kind} {code.load(self.at_l(k, j), c.dtype)}")
                c.span(after, stop, lambda i: self.add_product(place(i), factor, code.load(self.at_p(k, i), c.dtype)))

            c.span(after, stop, lambda i: self.copy(self.at_p(i, j), place(i)))
            c.span(after, stop, known)
            inverse, own = self.inverse(j), self.at_p(j, j)
            self.copy(own, self.total)

            def found(i: str) -> None:
                value = code.let(f"fmul {c.kind} {code.load(place(i), c.dtype)}, {inverse}")
                for pointer in (self.at_p(i, j), self.at_p(j, i)):
                    code.store(value, pointer, c.dtype)
                self.add_product(self.total, code.let(f"fneg {c.kind} {value}"), code.load(self.at_l(i, j), c.dtype))

            c.span(after, stop, found)
            code.store(code.let(f"fmul {c.kind} {code.load(self.total, c.dtype)}, {inverse}"), own, c.dtype)

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
        self.c.span(start, stop, lambda turn: body(self.code.let(f"sub nsw i64 {last}, {turn}")))

    def copy(self, source: str, target: str) -> None:
        self.code.store(self.code.load(source, self.c.dtype), target, self.c.dtype)

    def add_product(self, place: str, a: str, b: str) -> None:
        total = self.code.intrinsic("fmuladd", self.c.kind, a, b, self.code.load(place, self.c.dtype))
        self.code.store(total, place, self.c.dtype)

    def inverse(self, j: str) -> str:
        one = literal(1, self.c.dtype)
        return self.code.let(f"fdiv {self.c.kind} {one}, {self.code.load(self.at_l(j, j), self.c.dtype)}")

    def repeated(self, value: str, lanes: int) -> str:
        """A number in all lanes of a vector."""
        if lanes == 1:
            return value
        kind = f"<{lanes} x {self.c.kind}>"
        single = self.code.let(f"insertelement {kind} poison, {self.c.kind} {value}, i64 0")
        return self.code.let(f"shufflevector {kind} {single}, {kind} poison, <{lanes} x i32> zeroinitializer")

    def greater(self, a: str, b: str) -> str:
        return self.code.let(f"select i1 {self.code.let(f'icmp sgt i64 {a}, {b}')}, i64 {a}, i64 {b}")

    def short(self, number: str) -> str:
        return self.code.let(f"trunc i64 {number} to i32")
