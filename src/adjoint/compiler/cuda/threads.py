"""A kernel as the code of one thread, in phases: between two phases, all threads of a block wait for each other.

    phase 0:  the thread's own terms, combined in a register; left in shared memory
    phase 1:  lane i takes that of lane i + 128
    ...
    phase 8:  lane 0 takes that of lane 1, and writes the result

A phase is a function of the buffers, of the block's shared memory, and of the numbers of block and thread. On a GPU, the phases
are called one after the other with barriers between them; the simulator runs each for all threads of a block in a loop. So
nothing stays in a register from one phase to the next.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ...device.gpu import ALIGNED
from ..llvm.instruction import MEMORY, REGISTER, Code, VecmathFunction, combine, start_of
from ..llvm.nest import Nest
from ..lower.kernel import Buffer, KernelLine, Reduce, Store, View, Window, size_of
from ..lower.schedule import cost
from .launch import Launch
from .layout import NEIGHBOURS, is_flag

_32_BITS = 1 << 31
LARGE = 16 << 20  # bytes that are not in the cache of a GPU when they are read again
UNROLLED = {20: 4, 100: 2}  # by the cost of an iteration in additions: how many are unrolled


class PhaseBodies(NamedTuple):
    """The bodies of phases: those before the tiles of a block, those for each tile, those after them; see `tiles`."""

    before: list[str]
    inside: list[str]
    after: list[str]
    tiles: int = 0  # of all blocks; 0: a block has one, of its own number
    in_warps: bool = False  # between phases inside, only the threads of a warp wait for each other


class Threads(Nest):
    """Writes the phases of one launch."""

    def __init__(self, launch: Launch, in_body: bool = False) -> None:
        super().__init__(launch)
        self.launch, self.layout, self.in_body = launch, launch.layout, in_body
        self.partials = {out: parts for out, (_, parts) in launch.partials.items()}
        self.buffers += [b for b in self.partials.values() if b not in self.buffers]
        self.sums = [r for r in launch.reductions if not is_flag(launch, r)]
        self.flags = [r for r in launch.reductions if is_flag(launch, r)]
        #: Threads that wait for each other between phases. Each group has its own part of the shared memory: others may be in
        #: another phase, whose reductions have other dtypes.
        self.group = min(NEIGHBOURS, self.layout.threads) if self.layout.is_in_warps else self.layout.threads
        self.slots, self.room = _slots(self.sums, self.group if self.layout.lanes > 1 else 0)
        self.ranges = [(0, loop.length) for loop in self.loops]
        self.changing: set[Buffer] = set()  # by other threads, between phases
        self.declared: set[str] = set()
        self.functions: set[VecmathFunction] = set()

    @property
    def shared(self) -> int:
        """Bytes of shared memory of a block."""
        return self.room * (self.layout.threads // self.group)

    @property
    def is_repeated(self) -> bool:
        """Whether a loop runs the kernel on more memory than a cache holds: then every other iteration begins where the one
        before has ended."""
        return self.in_body and sum(b.nbytes for b in self.buffers) > LARGE

    @property
    def arguments(self) -> str:
        pointers = [f"ptr {'' if b in self.changing else 'noalias '}%b{i}" for i, b in enumerate(self.buffers)]
        return ", ".join([*pointers, "ptr %shared", "i64 %block", "i64 %thread"])

    def parts(self) -> PhaseBodies:
        return PhaseBodies([], self.phases(), [], in_warps=self.layout.is_in_warps)

    def phases(self) -> list[str]:
        """The bodies of the phases, in order."""
        bodies = [self.phase(self.first)]
        half = self.layout.lanes // 2
        while half:
            bodies.append(self.phase(lambda half=half: self.fold(half)))
            half //= 2
        return bodies

    def phase(self, write: Any) -> str:
        self.code = Code()
        write()
        self.code.do("ret void")
        self.declared |= self.code.declared
        self.functions |= self.code.functions
        return "\n".join(self.code.lines)

    # -- where a thread is --

    def split(self, number: str, lengths: Sequence[int]) -> list[str]:
        """A point's number as indices of loops; in 32 bits where they suffice, since divisions are long."""
        code, found = self.code, []
        small = size_of(lengths) < _32_BITS
        kind = "i32" if small else "i64"
        rest = code.let(f"trunc i64 {number} to i32") if small and len(lengths) > 1 else number
        for length in reversed(lengths[1:]):
            index = code.let(f"urem {kind} {rest}, {length}")
            rest = code.let(f"udiv {kind} {rest}, {length}")
            found.append(code.let(f"zext nneg i32 {index} to i64") if small else index)
        if lengths:
            found.append(code.let(f"zext nneg i32 {rest} to i64") if small and len(lengths) > 1 else rest)
        return found[::-1]

    def place(self) -> tuple[str, str, str]:
        """The number of the thread's first kept point, its lane, and the piece of its block."""
        code, layout = self.code, self.layout
        block, piece = "%block", "0"
        if layout.pieces > 1:
            block = code.let(f"urem i64 %block, {layout.blocks_of_points}")
            piece = code.let(f"udiv i64 %block, {layout.blocks_of_points}")
        point, lane = "%thread", "0"
        if layout.lanes > 1:
            a, b = layout.lanes if layout.lanes_are_neighbours else layout.points, "%thread"
            inner, outer = code.let(f"urem i64 {b}, {a}"), code.let(f"udiv i64 {b}, {a}")
            point, lane = (outer, inner) if layout.lanes_are_neighbours else (inner, outer)
        before = code.let(f"mul nuw nsw i64 {block}, {layout.points}")
        point = code.let(f"add nuw nsw i64 {before}, {point}")
        if layout.per_thread > 1:
            point = code.let(f"mul nuw nsw i64 {point}, {layout.per_thread}")
        return point, lane, piece

    def at(self, point: str, term: str = "") -> None:
        """Move to a point of the kept loops and a term of the reduced ones; without a term, to their start."""
        layout = self.layout
        indices = ["0"] * len(self.loops)
        lengths = [self.loops[i].length for i in layout.kept]
        for i, index in zip(layout.kept, self.split(point, lengths), strict=True):
            indices[i] = index
        if term:
            lengths = [self.loops[i].length for i in layout.reduced]
            for i, index in zip(layout.reduced, self.split(term, lengths), strict=True):
                indices[i] = index
        self.indices = indices

    # -- phases --

    def first(self) -> None:
        """The points of the thread; its own terms of reductions."""
        code, layout = self.code, self.layout
        point, lane, piece = self.place()
        totals = [code.let(f"alloca {REGISTER[r.view.dtype]}") for r in self.sums]
        if layout.per_thread > 1:
            self.several(point)
            return
        with self.code.when(code.let(f"icmp ult i64 {point}, {layout.results}")):
            for r, total in zip(self.sums, totals, strict=True):
                code.do(f"store {REGISTER[r.view.dtype]} {start_of(r.how, r.view.dtype)}, ptr {total}")
            if layout.terms == layout.lanes == 1:
                self.at(point)
                self.in_and_out(lambda: self.point(totals))
            else:
                start = lane
                if layout.pieces > 1:
                    start = code.let(f"add nuw nsw i64 {code.let(f'mul nuw nsw i64 {piece}, {layout.lanes}')}, {lane}")
                with code.iterations(start, str(layout.terms), layout.lanes * layout.pieces) as term:
                    self.at(point, term)
                    self.point(totals)
                self.unroll()
            for slot, r, total in zip(self.slots, self.sums, totals, strict=True):
                value = code.let(f"load {REGISTER[r.view.dtype]}, ptr {total}")
                if layout.lanes > 1:
                    code.store(value, self.slot(slot, r, "%thread"), r.view.dtype)
                else:
                    self.result(r, value, point, piece)

    def unroll(self) -> None:
        """Mark the loop just written for unrolling: several short iterations together, so that their loads overlap."""
        work = sum(map(cost, self.kernel.code))
        count = next((count for most, count in UNROLLED.items() if work <= most), 1)
        if count > 1 and self.layout.terms > self.layout.lanes * self.layout.pieces:
            self.code.lines[-2] += f", !llvm.loop !UNROLL{count}"  # the branch back to its head

    def several(self, point: str) -> None:
        """Adjacent points of one thread, without tests between them; the last few one by one."""
        code, layout = self.code, self.layout
        assert not self.sums, "a thread of several points has nowhere to leave a reduction"
        end = code.let(f"add nuw nsw i64 {point}, {layout.per_thread}")
        full, rest, after = map(code.mark, ("full", "rest", "after"))
        code.branch(code.let(f"icmp ule i64 {end}, {layout.results}"), full, rest)
        code.label(full)
        self.at(point)
        self.in_and_out(self.neighbours)
        code.do(f"br label %{after}")
        code.label(rest)
        if layout.results % layout.per_thread:
            with code.iterations(point, str(layout.results)) as i:
                self.at(i)
                self.point([])
        code.do(f"br label %{after}")
        code.label(after)

    def in_and_out(self, write: Callable[[], Any]) -> None:
        """The code of a thread's points twice: without tests where all of them are inside all windows, so that all loads can be
        in flight at once; with tests elsewhere."""
        code, inner, inside = self.code, self.interior(), ""
        last = len(self.loops) - 1
        for level, (lo, hi) in enumerate(inner):
            index, stop = self.indices[level], hi - (self.layout.per_thread - 1 if level == last else 0)
            tests = [f"icmp sge i64 {index}, {lo}"] * (lo > 0) + [f"icmp slt i64 {index}, {stop}"] * (
                hi < self.loops[level].length
            )
            for test in map(code.let, tests):
                inside = code.let(f"and i1 {inside}, {test}") if inside else test
        if not inside:
            write()
            return
        within, edge, after = map(code.mark, ("interior", "edge", "after"))
        code.branch(inside, within, edge)
        indices, ranges = self.indices, self.ranges
        for label, known in ((within, inner), (edge, ranges)):
            code.label(label)
            self.indices, self.ranges = indices, known
            write()
            code.do(f"br label %{after}")
        self.ranges = ranges
        code.label(after)

    def interior(self) -> list[tuple[int, int]]:
        """For each loop, the range inside all windows; nothing if there are too few points in all of them."""
        windows = [line.data[1] for line in self.kernel.code if line.kind == "window"]
        found = []
        for loop in self.loops:
            bounds = [(0, loop.length)] + [window[loop.axes[0]] for window in windows if len(loop.axes) == 1]
            found.append((max(lo for lo, _ in bounds), min(hi for _, hi in bounds)))
        return found if all(2 * (hi - lo) > loop.length for (lo, hi), loop in zip(found, self.loops, strict=True)) else []

    def neighbours(self) -> None:
        """Adjacent points of a row at once: contiguous elements are read and written as one vector."""
        code, kernel = self.code, self.kernel
        *outer, first = self.indices
        places = [[*outer, code.let(f"add nuw nsw i64 {first}, {i}") if i else first] for i in range(self.layout.per_thread)]
        columns = self.side_by_side(kernel.code, places)
        for store in kernel.stores:
            given = []
            for self.indices, values in zip(places, columns, strict=True):
                given.append(self.stored(store, values))
            if self.is_vector(store.view):
                self.indices = places[0]
                self.vector_store(store.view, given)
            else:
                for self.indices, value in zip(places, given, strict=True):
                    code.store(value, self.address(store.view), store.view.dtype)
        for self.indices, values in zip(places, columns, strict=True):
            self.raise_flags(values)

    def side_by_side(self, lines: Sequence[KernelLine], places: Sequence[list[str]]) -> list[list[str]]:
        """For each of some adjacent points, the values of the lines."""
        columns: list[list[str]] = [[] for _ in places]
        for line in lines:
            if line.kind == "load" and self.is_vector(line.data):
                self.indices = places[0]
                found = self.vector_load(line.data)
            elif line.kind == "window" and self.is_inside(line.data[1]):
                found = [values[-1] for values in self.side_by_side(line.data[0], places)]
            else:
                found = []
                for self.indices, values in zip(places, columns, strict=True):
                    found.append(self.line(line, lines, values))
            for values, value in zip(columns, found, strict=True):
                values.append(value)
        return columns

    def is_inside(self, window: Window) -> bool:
        """Whether all points of the current ranges are inside a window."""
        if any(n == 1 and window[k] != (0, 1) for k, n in enumerate(self.kernel.domain)):
            return False  # it is empty
        bounds = [window[loop.axes[0]] if len(loop.axes) == 1 else (0, loop.length) for loop in self.loops]
        return all(lo <= start and stop <= hi for (lo, hi), (start, stop) in zip(bounds, self.ranges, strict=True))

    def line(self, line: KernelLine, lines: Sequence[KernelLine], values: Sequence[str]) -> str:
        """The value of one line, from the values of those before it."""
        if line.kind == "op":
            source = lines[line.args[0]].dtype
            return self.code.operation(line.data, [values[a] for a in line.args], source, line.dtype)
        if line.kind == "window" and line.args:
            inner, window = line.data
            return self.window(inner, window, values[line.args[0]], line.dtype)
        return self.run([line])[0]

    def is_vector(self, view: View) -> bool:
        """Whether the elements of neighbouring points are one vector, at an address that fits it."""
        count, (*outer, last) = self.layout.per_thread, self.strides[id(view)]
        is_row = self.in_body and view.buffer.kind in ("input", "output")  # perhaps; then the next one begins where it ends
        if is_row and view.buffer.nbytes % ALIGNED:
            return False
        return last == 1 and not any(stride % count for stride in (view.offset, *outer))

    def alignment(self, view: View) -> int:
        """Of a vector, in bytes."""
        return min(self.layout.per_thread * view.dtype.itemsize, ALIGNED)

    def vector_load(self, view: View) -> list[str]:
        code, count, kind = self.code, self.layout.per_thread, MEMORY[view.dtype]
        pointer = self.address(view)
        vector = code.let(f"load <{count} x {kind}>, ptr {pointer}, align {self.alignment(view)}")
        found = [code.let(f"extractelement <{count} x {kind}> {vector}, i64 {i}") for i in range(count)]
        return [code.let(f"icmp ne i8 {x}, 0") for x in found] if view.dtype.kind == "b" else found

    def vector_store(self, view: View, values: Sequence[str]) -> None:
        code, count, kind = self.code, self.layout.per_thread, MEMORY[view.dtype]
        if view.dtype.kind == "b":
            values = [code.let(f"zext i1 {x} to i8") for x in values]
        vector = "poison"
        for i, x in enumerate(values):
            vector = code.let(f"insertelement <{count} x {kind}> {vector}, {kind} {x}, i64 {i}")
        code.do(f"store <{count} x {kind}> {vector}, ptr {self.address(view)}, align {self.alignment(view)}")

    def point(self, totals: Sequence[str]) -> list[str]:
        """Emit the code of one point of the domain; returns the values of the lines."""
        code, kernel = self.code, self.kernel
        values = self.run(kernel.code)
        for store in kernel.stores:
            code.store(self.stored(store, values), self.address(store.view), store.view.dtype)
        self.raise_flags(values)
        for r, total in zip(self.sums, totals, strict=True):
            kind = REGISTER[r.view.dtype]
            so_far = code.let(f"load {kind}, ptr {total}")
            code.do(f"store {kind} {combined(code, r, so_far, values[r.scalar])}, ptr {total}")
        return values

    def raise_flags(self, values: Sequence[str]) -> None:
        """Set the flags over the whole domain that this point determines."""
        code = self.code
        for r in self.flags:
            found = values[r.scalar] if r.how == "any" else code.let(f"xor i1 {values[r.scalar]}, true")
            with code.when(found):
                code.store("true" if r.how == "any" else "false", self.address(r.view), r.view.dtype)

    def stored(self, store: Store, values: Sequence[str]) -> str:
        """The value of a store: a line's, or the place at which a scatter adds."""
        scatter = self.launch.places.get(store)
        if scatter is None:
            return values[store.scalar]
        moved = [(values[a], stride) for a, stride in zip(scatter.at, scatter.strides, strict=True)]
        return self.offset(scatter.view.offset, [*zip(self.indices, self.strides[id(scatter.view)], strict=True), *moved])

    def offset(self, start: int, at: Sequence[tuple[str, int]]) -> str:
        code, total = self.code, str(start)
        for index, stride in at:
            if stride:
                total = code.let(f"add nsw i64 {total}, {code.let(f'mul nsw i64 {index}, {stride}')}")
        return total

    def fold(self, half: int) -> None:
        """The lower half of the lanes takes the totals of the upper; the last one writes the results."""
        code, layout = self.code, self.layout
        point, lane, piece = self.place()
        inside = code.let(f"icmp ult i64 {point}, {layout.results}")
        lower = code.let(f"icmp ult i64 {lane}, {half}")
        with self.code.when(code.let(f"and i1 {inside}, {lower}")):
            step = half * (1 if layout.lanes_are_neighbours else layout.points)
            other = code.let(f"add nuw nsw i64 %thread, {step}")
            for slot, r in zip(self.slots, self.sums, strict=True):
                own = self.slot(slot, r, "%thread")
                a, b = (code.load(p, r.view.dtype) for p in (own, self.slot(slot, r, other)))
                value = combined(code, r, a, b)
                if half > 1:
                    code.store(value, own, r.view.dtype)
                else:
                    self.result(r, value, point, piece)

    def slot(self, start: int, r: Reduce, thread: str) -> str:
        """The address of a thread's partial total of a reduction, in the shared memory of its group."""
        code, place = self.code, str(start)
        if self.group < self.layout.threads:
            group, thread = code.let(f"udiv i64 {thread}, {self.group}"), code.let(f"urem i64 {thread}, {self.group}")
            place = self.offset(start, [(group, self.room)])
        base = code.let(f"getelementptr inbounds i8, ptr %shared, i64 {place}")
        return code.let(f"getelementptr inbounds {MEMORY[r.view.dtype]}, ptr {base}, i64 {thread}")

    def result(self, r: Reduce, value: str, point: str, piece: str) -> None:
        """Write the block's share of a result: all of it, or a partial result."""
        self.at(point)
        parts = self.partials.get(r.view.buffer)
        if parts is None:
            pointer = self.address(r.view)
        else:
            at = [*zip(self.indices, self.strides[id(r.view)], strict=True), (piece, r.view.buffer.size)]
            pointer = self.pointer(parts, r.view.offset, at)
        self.code.store(value, pointer, r.view.dtype)


def combined(code: Code, r: Reduce, a: str, b: str) -> str:
    """Two parts of a reduction, in this order: unlike on the CPU, LLVM is not free to change it."""
    dtype = r.view.dtype
    if r.how in ("sum", "prod") and dtype.kind == "f":
        return code.let(f"{'fadd' if r.how == 'sum' else 'fmul'} {REGISTER[dtype]} {a}, {b}")
    return combine(code, r.how, dtype, a, b)


def _slots(reductions: Sequence[Reduce], threads: int) -> tuple[list[int], int]:
    """The offset of the totals of each reduction in the shared memory of a group of threads, and the total size."""
    starts, size = [], 0
    for r in reductions:
        starts.append(size)
        size += -(-threads * r.view.dtype.itemsize // 16) * 16
    return starts, size
