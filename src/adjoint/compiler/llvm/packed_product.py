"""Matrix products in our own code, where BLAS does not use the widest vectors of the processor.

    for each block of the inner axis:
      for each panel of columns:
        pack the block of the panel, row by row, on the stack          it stays in the L1 cache
        for each tile of rows:
          C[tile, panel] += A[tile, block] @ packed                    in registers: see `microkernel`

OpenBLAS takes processors that are newer than itself for older ones: on a Zen 5 its vectors are half as long as they could be, and
these products are 1.3 to 2.5 times as fast. A call computes some matrices of a stack, or some panels or tiles of one matrix;
threads share the calls. The pieces follow from the sizes alone, so that the result is the same for any number of threads. The
functions for a tile and for packing have the strides as arguments: all products of a program share them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from ..lower.kernel import size_of
from ..lower.step import Product
from ..runtime import blas
from ..switches import Switch
from .builder import WRITTEN_AS_VECTORS
from .lapack import multiplications
from .microkernel import HEAD, Microkernel, TileRows, registers
from .vector import Vector

if TYPE_CHECKING:
    from .program import StepRoutine

_Size = TypeVar("_Size")
_Panel = tuple[tuple[int, int], ...]  # vectors side by side: their lanes, and if not 0, how many of them are columns

_HOW = f"nounwind noinline {WRITTEN_AS_VECTORS}"
_FEWEST = 4  # rows and columns; narrower products are left to BLAS, and those with vectors anyway
_HIGHEST = 12  # rows of a tile: their addresses are in registers, too
_PACKED = 32 << 10  # bytes of a packed panel: two thirds of the L1 cache
_SQUARE = 8  # rows and columns that are transposed in registers
_PIECE = 1 << 21  # multiplications of a piece
_MOST_PIECES = 64
_ROWS_OF_PIECE = 64  # each piece packs the panels again


def fits(step: Product) -> bool:
    """Whether a product is computed here, not by BLAS."""
    fewest = min(step.out.shape[-2:])
    return Switch.PACKED_PRODUCTS.on and fewest > 1 and fewest >= _FEWEST and not step.triangle and _blas_is_narrow()


@functools.cache
def _blas_is_narrow() -> bool:
    """Whether BLAS is known to use shorter vectors than the processor has."""
    size = blas.vector_bytes()
    return size is not None and size < registers()[0]


def emit(routine: StepRoutine, step: Product) -> None:
    product = _PackedProduct(routine, step)
    name = routine.module.function("product", product.define())
    routine.module.declared |= product.code.declared
    routine.in_pieces(name, [v.buffer for v in (step.left, step.right, step.out)], product.count, product.pieces)


class _PackedProduct(Microkernel):
    """Writes the function of buffers, start and length, which computes a part of the product."""

    def __init__(self, routine: StepRoutine, step: Product) -> None:
        super().__init__(step.out.dtype)
        self.routine, self.step = routine, step
        *self.stack, self.rows, self.columns = step.out.shape
        self.inner = step.left.shape[-1]
        size, most, wide = registers()
        lanes = min(size // self.dtype.itemsize, 1 << (self.columns - 1).bit_length())
        across = _even(-(-self.columns // lanes), wide)
        self.width = across * lanes
        self.panels = -(-self.columns // self.width)
        self.full = _panel(self.width, lanes)
        self.last = _panel(self.columns - (self.panels - 1) * self.width, lanes)
        self.height = _even(self.rows, min(most // across, _HIGHEST))
        self.tiles = -(-self.rows // self.height)
        self.block = _even(self.inner, _PACKED // (self.width * self.dtype.itemsize))
        self.blocks = -(-self.inner // self.block)
        self.count, self.pieces = self._cut()

    def _cut(self) -> tuple[int, int]:
        """How many parts there are, which are matrices, panels or tiles; and in how many pieces they are computed."""
        matrices, parts = size_of(self.stack), self.rows // _ROWS_OF_PIECE
        self.by_panels = matrices == 1 and self.panels >= parts
        if matrices > 1:
            count = most = matrices
        elif self.by_panels:
            count = most = self.panels
        else:
            count, most = self.tiles, parts
        pieces = min(multiplications(self.step) * matrices // _PIECE, _MOST_PIECES, most) if Switch.PIECES.on else 1
        return count, -(-count // -(-count // max(1, pieces)))  # none of them empty

    def shared(self, write: Callable[..., str], *sizes: object) -> str:
        """The name of a function that other products may use, too."""
        kernel = Microkernel(self.dtype)
        name = self.routine.module.function("product", write(kernel, *sizes))
        self.routine.module.declared |= kernel.code.declared
        return name

    def define(self) -> str:
        code = self.code
        stop = code.let("add nuw nsw i64 %start, %length")
        self.packed = code.let(f"alloca [{self.block * self.width} x {self.kind}], align 64")
        part, panels, tiles = ("%start", stop), ("0", str(self.panels)), ("0", str(self.tiles))
        if size_of(self.stack) > 1:
            with code.iterations(*part) as matrix:
                self.one_matrix(matrix, panels, tiles)
        elif self.by_panels:
            self.one_matrix("0", part, tiles)
        else:
            self.one_matrix("0", panels, part)
        code.do("ret void")
        return code.define(HEAD)

    def one_matrix(self, index: str, panels: tuple[str, str], tiles: tuple[str, str]) -> None:
        """Some panels and tiles of one matrix."""
        code, step = self.code, self.step
        left, right, out = (
            self.matrix(base, view, index) for base, view in (("%a", step.left), ("%b", step.right), ("%c", step.out))
        )
        with code.loop(str(self.blocks)) as block:
            self.is_first = code.let(f"icmp eq i64 {block}, 0")
            first = code.let(f"mul nuw nsw i64 {block}, {self.block}")
            self.length = code.smaller(str(self.block), code.let(f"sub nsw i64 {self.inner}, {first}"))
            a, b = self.at(left, first, step.left.strides[-1]), self.at(right, first, step.right.strides[-2])
            with code.iterations(*panels) as panel:
                column = code.let(f"mul nuw nsw i64 {panel}, {self.width}")
                source, target = self.at(b, column, step.right.strides[-1]), self.at(out, column)
                self.one(panel, self.panels, self.full, self.last, lambda own: self.panel(source, a, target, own, tiles))

    def panel(self, b: str, a: str, out: str, panel: _Panel, tiles: tuple[str, str]) -> None:
        """Some rows of a panel, for a block of the inner axis."""
        code, left = self.code, self.step.left
        down, along = self.step.right.strides[-2:]
        pack = self.shared(_pack_rows if along == 1 else _pack_columns, panel)  # BLAS needs one of both strides to be 1
        code.do(f"call void {pack}(ptr {b}, i64 {down if along == 1 else along}, ptr {self.packed}, i64 {self.length})")
        with code.iterations(*tiles) as tile:
            row = code.let(f"mul nuw nsw i64 {tile}, {self.height}")
            places = self.at(a, row, left.strides[-2]), self.at(out, row, self.columns)

            def multiply(height: int) -> None:
                name = self.shared(_multiply, panel, height)
                strides = f"i64 {left.strides[-2]}, i64 {left.strides[-1]}, i64 {self.columns}"
                operands = f"ptr {places[0]}, ptr {self.packed}, ptr {places[1]}"
                code.do(f"call void {name}({operands}, {strides}, i64 {self.length}, i1 {self.is_first})")

            self.one(tile, self.tiles, self.height, self.rows - (self.tiles - 1) * self.height, multiply)

    def one(self, index: str, count: int, full: _Size, last: _Size, body: Callable[[_Size], None]) -> None:
        """One of several iterations, of which the last may be smaller."""
        code = self.code
        if full == last or count == 1:
            body(last)
            return
        rest, whole, done = map(code.mark, ("rest", "whole", "done"))
        code.branch(code.let(f"icmp eq i64 {index}, {count - 1}"), rest, whole)
        code.label(rest)
        body(last)
        code.jump(done)
        code.label(whole)
        body(full)
        code.enter(done)


def _panel(columns: int, lanes: int) -> _Panel:
    """So many columns as vectors.

    >>> _panel(20, 8)
    ((8, 0), (8, 0), (8, 4))
    """
    return ((lanes, 0),) * (columns // lanes) + ((lanes, columns % lanes),) * (columns % lanes > 0)


def _even(length: int, most: int) -> int:
    """The size of parts of at most `most`, of nearly equal sizes.

    >>> _even(10, 4), _even(8, 4), _even(3, 4)
    (4, 4, 3)
    """
    return -(-length // -(-length // most))


# -- functions that products share ------------------------------------------------------------------------------


def _multiply(kernel: Microkernel, panel: _Panel, height: int) -> str:
    """A tile of rows times a packed panel."""
    vectors = [kernel.vector(*sizes) for sizes in panel]
    tile = TileRows("%a", "%down", "%along", "%c", "%row", height)
    kernel.multiply(tile, "%b", _width(panel), vectors, "%length", "%is_first")
    kernel.code.do("ret void")
    sizes = "i64 %down, i64 %along, i64 %row, i64 %length, i1 %is_first"
    return kernel.code.define(f"define internal void @NAME(ptr noalias %a, ptr noalias %b, ptr noalias %c, {sizes}) {_HOW}")


def _pack_rows(kernel: Microkernel, panel: _Panel) -> str:
    """Copy a panel of a row-major matrix, so that its rows are contiguous."""
    with kernel.code.loop("%length") as k:
        source, target, column = kernel.at("%b", k, "%stride"), kernel.at("%packed", k, _width(panel)), 0
        for lanes, stored in panel:
            value = kernel.vector(lanes, stored).load(kernel.at(source, column))
            kernel.vector(lanes).store(value, kernel.at(target, column))
            column += lanes
    return _packing(kernel)


def _pack_columns(kernel: Microkernel, panel: _Panel) -> str:
    """The same for a column-major matrix: squares are transposed in registers; then the rest, element by element."""
    code, width = kernel.code, _width(panel)
    columns = sum(stored or lanes for lanes, stored in panel)
    wide = columns // _SQUARE * _SQUARE
    long = code.let(f"and i64 %length, {-_SQUARE}")
    row, single = kernel.vector(_SQUARE), kernel.vector(1)
    with code.iterations("0", str(wide), _SQUARE) as column, code.iterations("0", long, _SQUARE) as k:
        source = kernel.at(kernel.at("%b", column, "%stride"), k)
        target = kernel.at(kernel.at("%packed", k, width), column)
        square = [row.load(kernel.at(source, j, "%stride")) for j in range(_SQUARE)]
        for i, turned in enumerate(_transposed(row, square)):
            row.store(turned, kernel.at(target, i, width))
    with code.iterations("0", str(columns)) as column:
        is_wide = code.let(f"icmp slt i64 {column}, {wide}")
        with code.iterations(code.let(f"select i1 {is_wide}, i64 {long}, i64 0"), "%length") as k:
            element = single.load(kernel.at(kernel.at("%b", column, "%stride"), k))
            single.store(element, kernel.at(kernel.at("%packed", k, width), column))
    return _packing(kernel)


def _packing(kernel: Microkernel) -> str:
    kernel.code.do("ret void")
    return kernel.code.define(f"define internal void @NAME(ptr noalias %b, i64 %stride, ptr noalias %packed, i64 %length) {_HOW}")


def _width(panel: _Panel) -> int:
    return sum(lanes for lanes, _ in panel)


def _transposed(row: Vector, rows: Sequence[str]) -> Sequence[str]:
    """The columns of a square. Each pass interleaves two halves: after as many as an index has bits, rows are lanes."""
    half = _SQUARE // 2
    masks = [", ".join(f"i32 {i}, i32 {i + _SQUARE}" for i in range(first, first + half)) for first in (0, half)]
    for _ in range(_SQUARE.bit_length() - 1):
        rows = [
            row.code.let(f"shufflevector {row.type} {a}, {row.type} {b}, <{_SQUARE} x i32> <{mask}>")
            for a, b in zip(rows[:half], rows[half:], strict=True)
            for mask in masks
        ]
    return rows
