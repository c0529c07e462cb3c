"""Unrolled products of narrow matrices: a tile of rows times all columns stays in vector registers.

    for each tile of rows:
      C[rows, :] = A[rows, :] @ B         with the columns of C in a few vectors: see `microkernel`

BLAS first packs parts of both matrices, which does not pay for few columns. B is row-major; A may have any strides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lower.kernel import size_of
from ..lower.step import Product
from .microkernel import HEAD, Microkernel, TileRows, registers

if TYPE_CHECKING:
    from .program import StepRoutine


def product(routine: StepRoutine, step: Product) -> None:
    """Emit a product: its tiles are the iterations of one loop, in pieces that may run in parallel."""
    tile = _Tile(step)
    name = routine.module.function("tile", tile.define())
    routine.module.declared |= tile.code.declared
    views = (step.left, step.right, step.out)
    routine.in_pieces(name, [v.buffer for v in views], tile.count, min(step.chunks, tile.count))


class _Tile(Microkernel):
    """Writes the function of buffers, start and length, which runs a part of the tiles."""

    def __init__(self, step: Product) -> None:
        super().__init__(step.out.dtype)
        self.step = step
        *self.stack, self.rows, self.columns = step.out.shape
        size, most, wide = registers()
        self.panels = _panels(self.columns, size // self.dtype.itemsize, wide)
        height = most // max(len(panel) for panel in self.panels)
        self.blocks = -(-self.rows // height)
        self.height = -(-self.rows // self.blocks)
        self.blocks = -(-self.rows // self.height)
        self.count = size_of(self.stack) * self.blocks

    def define(self) -> str:
        code = self.code
        stop = code.let("add nuw nsw i64 %start, %length")
        loop = code.repeat(first="%start")
        block = code.let(f"urem i64 {loop.index}, {self.blocks}")
        index = code.let(f"udiv i64 {loop.index}, {self.blocks}")
        named = ("%a", self.step.left), ("%b", self.step.right), ("%c", self.step.out)
        left, right, out = (self.matrix(base, view, index) for base, view in named)
        row = code.let(f"mul nuw nsw i64 {block}, {self.height}")
        left, out = self.at(left, row, self.step.left.strides[-2]), self.at(out, row, self.step.out.strides[-2])
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
        return code.define(HEAD)

    def tile(self, left: str, right: str, out: str, height: int) -> None:
        """Some rows of the product, panel by panel."""
        column, row, inner = 0, self.step.right.strides[-2], self.step.right.shape[-2]
        down, along = self.step.left.strides[-2:]
        for panel in self.panels:
            part = TileRows(left, down, along, self.at(out, column), self.step.out.strides[-2], height)
            self.multiply(part, self.at(right, column), row, [self.vector(lanes) for lanes in panel], str(inner))
            column += sum(panel)


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
