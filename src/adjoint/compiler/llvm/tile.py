"""Unrolled products of narrow matrices: a tile of rows times all columns stays in vector registers.

    for each tile of rows:                  C[rows, :] = A[rows, :] @ B, with the columns of C in a few vectors
      total = 0                             a vector for each row and each vector of columns
      for k in inner:
        total[r] += A[r, k] * B[k, :]
      C[rows] = total

BLAS first packs parts of both matrices, which does not pay for few columns. B is row-major; A may have any strides.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import llvmlite.binding as llvm

from ..lower.kernel import View, size_of
from ..lower.step import Product
from .instruction import REGISTER, Code

if TYPE_CHECKING:
    from .program import StepRoutine


@functools.cache
def registers() -> tuple[int, int, int]:
    """Bytes of a vector of this processor, vectors of a tile, and how many of them side by side."""
    features = llvm.get_host_cpu_features()
    if features.get("avx512f"):
        return 64, 24, 4
    return (32, 12, 3) if features.get("avx2") else (16, 12, 3)


def product(routine: StepRoutine, step: Product) -> None:
    """Emit a product: its tiles are the iterations of one loop, in pieces that may run in parallel."""
    tile = _Tile(step)
    name = routine.module.name("tile")
    routine.module.definitions.append(tile.define(name))
    routine.module.declared |= tile.code.declared
    views = (step.left, step.right, step.out)
    routine.in_pieces(name, [v.buffer for v in views], tile.count, min(step.chunks, tile.count))


class _Tile:
    """Writes the function `name(left, right, out, start, length)`, which runs a part of the tiles."""

    def __init__(self, step: Product) -> None:
        self.step, self.code = step, Code()
        *self.stack, self.rows, self.columns = step.out.shape
        self.inner = step.left.shape[-1]
        self.kind = REGISTER[step.out.dtype]
        size, most, wide = registers()
        self.panels = _panels(self.columns, size // step.out.dtype.itemsize, wide)
        height = most // max(len(panel) for panel in self.panels)
        self.blocks = -(-self.rows // height)
        self.height = -(-self.rows // self.blocks)
        self.blocks = -(-self.rows // self.height)
        self.count = size_of(self.stack) * self.blocks

    def define(self, name: str) -> str:
        code = self.code
        stop = code.let("add nuw nsw i64 %start, %length")
        loop = code.repeat(first="%start")
        block = code.let(f"urem i64 {loop.index}, {self.blocks}")
        matrix = code.let(f"udiv i64 {loop.index}, {self.blocks}")
        row = code.let(f"mul nuw nsw i64 {block}, {self.height}")
        left, right, out = (
            self.matrix(base, view, matrix)
            for base, view in (("%a", self.step.left), ("%b", self.step.right), ("%c", self.step.out))
        )
        left, out = self.moved(left, self.step.left, row), self.moved(out, self.step.out, row)
        last = self.rows - (self.blocks - 1) * self.height
        if last != self.height:
            code.branch(code.let(f"icmp eq i64 {block}, {self.blocks - 1}"), "rest", "full")
            code.label("rest")
            self.tile(left, right, out, last)
            code.jump("done")
            code.label("full")
        self.tile(left, right, out, self.height)
        code.enter("done")
        loop.close(stop)
        code.do("ret void")
        arguments = "ptr noalias %a, ptr noalias %b, ptr noalias %c, i64 %start, i64 %length"
        head = f'define internal void {name}({arguments}) nounwind noinline "prefer-vector-width"="512"'
        return code.define(head)

    def matrix(self, base: str, view: View, index: str) -> str:
        """The address of one matrix of a stack."""
        code, total, step = self.code, str(view.offset), size_of(self.stack)
        for length, stride in zip(self.stack, view.strides, strict=False):
            step //= length
            if stride:
                i = code.let(f"urem i64 {code.let(f'udiv i64 {index}, {step}')}, {length}")
                total = code.let(f"add nsw i64 {total}, {code.let(f'mul nsw i64 {i}, {stride}')}")
        return self.at(base, total)

    def moved(self, base: str, view: View, row: str) -> str:
        return self.at(base, self.code.let(f"mul nsw i64 {row}, {view.strides[-2]}"))

    def at(self, base: str, index: str | int) -> str:
        return base if str(index) == "0" else self.code.let(f"getelementptr inbounds {self.kind}, ptr {base}, i64 {index}")

    def tile(self, left: str, right: str, out: str, height: int) -> None:
        """Some rows of the product, panel by panel."""
        column = 0
        for panel in self.panels:
            self.panel(left, self.at(right, column), self.at(out, column), height, panel)
            column += sum(panel)

    def panel(self, left: str, right: str, out: str, height: int, panel: Sequence[int]) -> None:
        code = self.code
        down, along = self.step.left.strides[-2:]
        loop = code.repeat([(self.vector(width), "zeroinitializer") for _ in range(height) for width in panel])
        totals = [loop.values[r * len(panel) : (r + 1) * len(panel)] for r in range(height)]
        b = self.at(right, code.let(f"mul nsw i64 {loop.index}, {self.step.right.strides[-2]}"))
        a = self.at(left, code.let(f"mul nsw i64 {loop.index}, {along}"))
        vectors = self.loaded(b, panel)
        sums = []
        for r in range(height):
            element = code.let(f"load {self.kind}, ptr {self.at(a, r * down)}, align {self.step.left.dtype.itemsize}")
            spread = {width: self.spread(element, width) for width in panel}
            sums.append([self.fused(width, spread[width], v, t) for width, v, t in zip(panel, vectors, totals[r], strict=True)])
        loop.close(str(self.inner), [total for row in sums for total in row])
        for r in range(height):
            column = 0
            for width, s in zip(panel, sums[r], strict=True):
                target = self.at(out, r * self.step.out.strides[-2] + column)
                code.do(f"store {self.vector(width)} {s}, ptr {target}, align {self.step.out.dtype.itemsize}")
                column += width

    def vector(self, width: int) -> str:
        return f"<{width} x {self.kind}>"

    def loaded(self, base: str, panel: Sequence[int]) -> list[str]:
        found, column = [], 0
        for width in panel:
            size = self.step.right.dtype.itemsize
            found.append(self.code.let(f"load {self.vector(width)}, ptr {self.at(base, column)}, align {size}"))
            column += width
        return found

    def spread(self, element: str, width: int) -> str:
        """A number repeated in all lanes."""
        code, vector = self.code, self.vector(width)
        first = code.let(f"insertelement {vector} poison, {self.kind} {element}, i64 0")
        return code.let(f"shufflevector {vector} {first}, {vector} poison, <{width} x i32> zeroinitializer")

    def fused(self, width: int, a: str, b: str, total: str) -> str:
        """total + a b, rounded once where the processor can."""
        vector = self.vector(width)
        name = f"llvm.fmuladd.v{width}f{64 if self.kind == 'double' else 32}"
        self.code.declared.add(f"declare {vector} @{name}({vector}, {vector}, {vector})")
        return self.code.let(f"call {vector} @{name}({vector} {a}, {vector} {b}, {vector} {total})")


def _panels(columns: int, lanes: int, wide: int) -> list[list[int]]:
    """The columns as vectors, some side by side: full ones, then smaller ones.

    >>> _panels(20, 8, 4), _panels(19, 4, 3)
    ([[8, 8, 4]], [[4, 4, 4], [4, 2, 1]])
    """
    widths = [lanes] * (columns // lanes)
    rest, width = columns % lanes, lanes // 2
    while rest:
        if rest >= width:
            widths.append(width)
            rest -= width
        width //= 2
    return [widths[i : i + wide] for i in range(0, len(widths), wide)]
