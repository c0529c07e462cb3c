"""Point tiles: one function that runs loops, and the kernels between them, for a piece of their points, tile by tile.

    define internal void @point_tiles(ptr %table, i64 %piece)

The table holds the addresses of buffers and constants, then the status: not 0 if a piece was interrupted. Buffers of one tile are
in the memory of the piece. All tiles have the same number of points, which is thus a constant in the loops: the last one of a
piece overlaps the one before, and computes the same numbers again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..lower.kernel import Buffer, Kernel, View, size_of
from ..lower.memory import ALIGNMENT
from ..lower.point_tiles import kernels_of
from ..lower.step import PointTiles, Scan
from ..runtime import signals
from .instruction import Code
from .nest import Nest

if TYPE_CHECKING:
    from .program import StepRoutine


def emit(routine: StepRoutine, step: PointTiles) -> None:
    outside = dict.fromkeys(view.buffer for view in (*step.reads(), *step.writes()))
    pointers = {buffer: routine.pointers[buffer] for buffer in outside}
    for scan in step.members:
        for buffer in scan.body.buffers if isinstance(scan, Scan) else ():
            if buffer.kind == "constant":
                pointers[buffer] = routine.module.constant(routine.code, buffer)
    name = routine.module.name("point_tiles")
    piece = _Piece(routine, step, list(pointers))
    routine.module.definitions.append(piece.define(name))
    routine.module.declared |= piece.code.declared
    table = routine.table(list(pointers.values()), more=1)
    status = routine.code.slot(table, len(pointers))
    routine.code.do(f"store i32 0, ptr {status}")
    routine.in_parallel(name, table, step.chunks)
    routine.check(routine.code.let(f"load i32, ptr {status}"))


def leave_if_interrupted(code: Code, status: str) -> None:
    """Look for signals; where a handler has raised, a piece notes that and returns."""
    found = code.let("call i32 @adjoint_signals()")
    code.do(f"br i1 {code.let(f'icmp eq i32 {found}, 0')}, label %go_on, label %stopped")
    code.label("stopped")
    code.do(f"store i32 {found}, ptr {status}")
    code.do("ret void")
    code.label("go_on")


class _Piece:
    """Writes the function of a piece."""

    def __init__(self, routine: StepRoutine, step: PointTiles, table: list[Buffer]) -> None:
        self.routine, self.step = routine, step
        self.code = code = Code()
        self.pointers = {b: code.let(f"load ptr, ptr {code.slot('%table', i)}") for i, b in enumerate(table)}
        memory = self.moved(self.pointers[step.memory], "%piece", step.memory.nbytes // step.chunks)
        for buffer, offset in step.offsets.items():
            self.pointers[buffer] = code.let(f"getelementptr i8, ptr {memory}, i64 {offset}")
        self.status = code.slot("%table", len(table))
        self.start = "0"

    def define(self, name: str) -> str:
        code, step = self.code, self.step
        code.declared |= {signals.DECLARATION, "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)"}
        per = max(step.tile, -(-step.length // step.chunks))
        begin = code.smaller(code.let(f"mul nuw nsw i64 %piece, {per}"), str(step.length - step.tile))
        stop = code.smaller(code.let(f"add nuw nsw i64 {begin}, {per}"), str(step.length))
        last = code.let(f"sub nsw i64 {stop}, {step.tile}")
        with code.iterations(begin, stop, step.tile) as at:
            leave_if_interrupted(code, self.status)
            self.start = code.smaller(at, last)
            for member in step.members:
                if isinstance(member, Scan):
                    self.scan(member)
                else:
                    self.kernel(member, self.pointers, {})
        code.do("ret void")
        return "\n".join([f"define internal void {name}(ptr %table, i64 %piece) nounwind noinline {{", *code.lines, "}"])

    def kernel(self, kernel: Kernel, pointers: Mapping[Buffer, str], tiled: Mapping[Buffer, bool]) -> None:
        """Call a kernel for the points of the tile, or once if it has no points."""
        own = {b for view in kernel.views if tiled.get(b := view.buffer, b in self.step.offsets)}
        is_whole = size_of(kernel.domain) == 1
        nest = Nest(kernel) if is_whole else Nest(kernel, own=own, iterations=self.step.tile)
        name = self.routine.define_nest(nest, "kernel")
        start, count = ("0", 1) if is_whole else (self.start, self.step.tile)
        given = [*(f"ptr {pointers[b]}" for b in nest.buffers), f"i64 {start}", f"i64 {count}"]
        self.code.do(f"call void {name}({', '.join(given)})")

    def scan(self, scan: Scan) -> None:
        """All iterations, in two copies of the carries: an iteration reads one and writes the other."""
        code, body, step = self.code, scan.body, self.step
        first, rest = len(scan.consts), len(scan.consts) + len(scan.carries)
        begins, ends = body.inputs[first:rest], [view.buffer for view in body.outputs[: len(scan.carries)]]
        for begin, view in zip(begins, scan.carries, strict=True):
            self.copy(self.place(view, begin), self.pointers[begin], self.size(begin))
        pointers = dict(self.pointers)
        tiled = {b: step.rows.get(b, 1) > 0 for b in step.offsets}  # but for values of no point
        for inner, view in zip(body.inputs[:first], scan.consts, strict=True):
            pointers[inner], tiled[inner] = self.at(view), view.buffer in step.offsets
        with code.iterations("0", str(scan.length)) as i:
            odd = code.let(f"and i64 {i}, 1")
            even = code.let(f"xor i64 {odd}, 1")
            for begin, end in zip(begins, ends, strict=True):
                base = self.pointers[begin]
                pointers[begin], pointers[end] = self.copy_at(base, begin, odd), self.copy_at(base, begin, even)
                tiled[end] = tiled[begin] = step.rows[begin] > 0
            row = code.let(f"sub nsw i64 {scan.length - 1}, {i}") if scan.reverse else i
            stacked = [*zip(body.inputs[rest:], scan.rows, strict=True)]
            stacked += [(out.buffer, view) for out, view in zip(body.outputs[len(ends) :], scan.stacks, strict=True)]
            for inner, view in stacked:
                tiled[inner] = view.buffer in step.offsets
                apart = self.size(inner) if tiled[inner] else view.strides[0] * view.dtype.itemsize
                pointers[inner] = self.moved(self.at(view), row, apart)
            for kernel in kernels_of(scan):
                self.kernel(kernel, pointers, tiled)
        for begin, view in zip(begins, scan.finals, strict=True):
            source = self.copy_at(self.pointers[begin], begin, str(scan.length % 2))
            size: int | str = self.size(begin)
            if not step.rows[begin]:  # the same for all tiles: the first one writes it
                is_first = code.let(f"icmp eq i64 {self.start}, 0")
                size = code.let(f"select i1 {is_first}, i64 {size}, i64 0")
            self.copy(source, self.place(view, begin), size)

    def size(self, buffer: Buffer) -> int:
        """Bytes of a body's buffer for one tile."""
        row = self.step.rows[buffer]
        return row * self.step.tile * buffer.dtype.itemsize if row > 0 else buffer.nbytes

    def copy_at(self, base: str, buffer: Buffer, which: str) -> str:
        """The address of one of two copies."""
        size = self.size(buffer) if self.step.rows[buffer] > 0 else max(ALIGNMENT, buffer.nbytes)
        return self.moved(base, which, size)

    def moved(self, base: str, by: str, size: int) -> str:
        """The address so many times a size behind another, or before it."""
        return self.code.let(f"getelementptr i8, ptr {base}, i64 {self.code.let(f'mul nsw i64 {by}, {size}')}")

    def at(self, view: View) -> str:
        return self.code.let(f"getelementptr i8, ptr {self.pointers[view.buffer]}, i64 {view.offset * view.dtype.itemsize}")

    def place(self, view: View, carry: Buffer) -> str:
        """The address of the tile's elements of what a carry starts from, or ends in."""
        row = self.step.rows[carry]
        if view.buffer in self.step.offsets or not row:
            return self.at(view)
        return self.moved(self.at(view), self.start, row * view.dtype.itemsize)

    def copy(self, source: str, target: str, size: int | str) -> None:
        self.code.do(f"call void @llvm.memcpy.p0.p0.i64(ptr {target}, ptr {source}, i64 {size}, i1 false)")
