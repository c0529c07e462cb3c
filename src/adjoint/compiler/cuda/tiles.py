"""Row tiles: several kernels over the same rows in one launch, so that what one leaves for the next stays in shared memory.

    kernel over (n, m): m[i]    = max of row i                 each block takes tiles of 8 rows, 32 threads a row:
    kernel over (n, m): e[i, j] = exp(x[i, j] - m[i])   →        m; barrier; e and its sum; barrier; y
    kernel over (n, m): y[i, j] = e[i, j] / sum of row i

`lower.row_tiles` finds the kernels, as it does for the CPU's caches. Sums over all rows, such as the gradient of a weight, are
gathered in shared memory, each element by the same thread for all tiles of a block, and left for a second launch to combine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ..llvm.instruction import MEMORY, REGISTER, VecmathFunction, start_of
from ..lower.kernel import Buffer, Kernel, Reduce, View, size_of
from ..lower.row_tiles import split
from ..lower.step import RowTiles
from .launch import Launch, covers
from .layout import NEIGHBOURS, SHARED, THREADS, Layout, is_flag, power_of_two, reduced_loops
from .threads import PhaseBodies, Threads, combined

MOST_BLOCKS = 1024  # that gather totals
TERMS, FEW_TERMS = 16, 4  # of a row, per thread: if one warp can process the row, it need not wait for others; if it cannot
FEWEST_THREADS = 1 << 14  # for which rows are enough to keep a GPU busy


@dataclass(slots=True, eq=False)
class Tile:
    """Kernels that one launch runs, tile by tile of rows."""

    kernels: tuple[Launch, ...]
    length: int  # rows
    own: dict[Buffer, int]  # in shared memory: elements of a row
    totals: dict[Buffer, str]  # of all rows, and how they are combined
    lanes: int
    blocks: int
    parts: dict[Buffer, Buffer] = field(default_factory=dict)  # where the blocks leave their totals

    @property
    def lines(self) -> dict[str, None]:
        return {line: None for kernel in self.kernels for line in kernel.lines}

    @property
    def rows(self) -> int:
        """Of a tile."""
        return THREADS // self.lanes

    @property
    def tiles(self) -> int:
        return -(-self.length // self.rows)

    def reads(self) -> Iterator[View]:
        yield from (view for kernel in self.kernels for view in kernel.reads() if view.buffer not in self.own)

    def writes(self) -> Iterator[View]:
        yield from (view for kernel in self.kernels for view in kernel.writes() if view.buffer not in self.own)
        yield from (View.whole(parts, (parts.size,)) for parts in self.parts.values())

    def __str__(self) -> str:
        head = f"tiles of {self.rows} of {self.length} rows, with {self.own} in shared memory:"
        return "\n  ".join([head, *(line for kernel in self.kernels for line in str(kernel).splitlines())])


def tiled(group: RowTiles) -> Tile | None:
    """The kernels of a group as one launch; None if that is not possible."""
    lanes = _lanes(group)
    if lanes == 0:
        return None
    kernels: list[Launch] = []
    totals: dict[Buffer, str] = {}
    for kernel in group.kernels:
        made = Launch(kernel.domain, kernel.code, kernel.stores, kernel.reductions, lines=kernel.lines, loops=kernel.loops)
        inner = tuple(range(1, len(kernel.loops)))
        made.layout = Layout((0,), inner, group.length, size_of(kernel.loops[i].length for i in inner), lanes, 1, True)
        kernels.append(made)
        if len({reduced_loops(made, r) for r in sums_of_rows(made)}) > 1:
            return None
        for r in made.reductions:
            if not is_flag(made, r) and _is_total(made, r):
                if not _suits(made, r) or not covers(made, r.view.buffer):
                    return None
                totals[r.view.buffer] = r.how
    rows = THREADS // lanes
    tiles = -(-group.length // rows)
    tile = Tile(tuple(kernels), group.length, {}, totals, lanes, min(tiles, MOST_BLOCKS) if totals else tiles)
    room = SHARED - _room_of_totals(tile) - THREADS * 8 * max(len(made.reductions) for made in kernels)
    if room < 0:
        return None
    for buffer, row in sorted(group.own.items(), key=lambda pair: pair[1] * pair[0].dtype.itemsize):
        room -= -(-rows * row * buffer.dtype.itemsize // 16) * 16
        if room >= 0:
            tile.own[buffer] = row
    return tile


def _lanes(group: RowTiles) -> int:
    """Threads of a row: a few terms each where a row is reduced to one result, one result each where it has several; 0 if the
    rows would not keep a GPU busy."""
    wanted, most = 1, THREADS
    for kernel in group.kernels:
        kernel.loops = split(kernel, group.length)
        results, terms = (size_of(kernel.loops[i].length for i in loops) for loops in inside_row(kernel))
        wanted = max(wanted, terms if results == 1 else TERMS * min(results, NEIGHBOURS))
        most = min(most, THREADS if results == 1 else power_of_two(results))
    lanes = power_of_two(-(-wanted // (TERMS if wanted <= TERMS * NEIGHBOURS else FEW_TERMS)))
    while group.length * lanes < FEWEST_THREADS and lanes < min(wanted, most):
        lanes *= 2
    return lanes if group.length * lanes >= FEWEST_THREADS and lanes <= most else 0


def inside_row(kernel: Kernel) -> tuple[list[int], list[int]]:
    """The loops inside a row: those with a result for each of their points, and those along which a result is reduced."""
    inner = range(1, len(kernel.loops))
    sums = sums_of_rows(kernel)
    reduced = reduced_loops(kernel, sums[0]) if sums else frozenset(inner)
    return [i for i in inner if i not in reduced], [i for i in inner if i in reduced]


def sums_of_rows(kernel: Kernel) -> list[Reduce]:
    """The reductions whose results belong to one row: one for the row, or several."""
    return [r for r in kernel.reductions if not is_flag(kernel, r) and not _is_total(kernel, r)]


def _is_total(kernel: Kernel, r: Reduce) -> bool:
    return not kernel.loops[0].strides[_place(kernel, r)]


def _place(kernel: Kernel, r: Reduce) -> int:
    return next(i for i, view in enumerate(kernel.views) if view is r.view)


def _suits(kernel: Kernel, r: Reduce) -> bool:
    """Whether a total has one element per point of a row, or one for all; otherwise several threads would share an element."""
    return r.view.buffer.size == 1 or all(loop.strides[_place(kernel, r)] for loop in kernel.loops[1:])


def _room_of_totals(tile: Tile) -> int:
    return sum(-(-_elements(tile, b) * b.dtype.itemsize // 16) * 16 for b in tile.totals)


def _elements(tile: Tile, total: Buffer) -> int:
    """Of shared memory: a copy of the total for each row of a tile, or for each thread if it is one number."""
    return THREADS if total.size == 1 else tile.rows * total.size


class TileThreads:
    """Writes the phases of a tile: what is done before the tiles, for each, and after them."""

    is_repeated = False

    def __init__(self, tile: Tile) -> None:
        self.tile = tile
        writers = [_Writer(kernel, self) for kernel in tile.kernels]
        buffers = dict.fromkeys(b for w in writers for b in w.buffers if b not in tile.own and b not in tile.totals)
        self.buffers = [*buffers, *tile.parts.values()]
        written = {v.buffer for k in tile.kernels for v in k.writes()}
        self.changing = {b for b in self.buffers if b in written}
        room = max(w.room for w in writers)
        for w in writers:
            w.room = room
        start = writers[0].shared
        self.starts: dict[Buffer, int] = {}
        for buffer in (*tile.own, *tile.totals):
            self.starts[buffer] = start
            count = tile.rows * tile.own[buffer] if buffer in tile.own else _elements(tile, buffer)
            start += -(-count * buffer.dtype.itemsize // 16) * 16
        self.shared = start
        for w in writers:
            w.buffers, w.changing = self.buffers, self.changing
        self.writers = writers
        self.launch = tile.kernels[0]
        self.declared: set[str] = set()
        self.functions: set[VecmathFunction] = set()

    @property
    def arguments(self) -> str:
        return self.writers[0].arguments

    def parts(self) -> PhaseBodies:
        before = [self.writers[0].phase(self.writers[0].clear)] if self.tile.totals else []
        inside = [body for w in self.writers for body in w.phases()]
        after = [self.writers[0].phase(self.writers[0].leave)] if self.tile.totals else []
        for w in self.writers:
            self.declared |= w.declared
            self.functions |= w.functions
        return PhaseBodies(before, inside, after, self.tile.tiles, self.launch.layout.is_in_warps)


class _Writer(Threads):
    """The phases of one kernel of a tile."""

    def __init__(self, launch: Launch, around: TileThreads) -> None:
        super().__init__(launch)
        self.around, self.tile = around, around.tile
        self.totalled = [r for r in self.sums if _is_total(launch, r)]
        self.sums = sums_of_rows(launch)
        self.slots = self.slots[: len(self.sums)]
        self.kept, self.reduced = inside_row(launch)

    def phases(self) -> list[str]:
        if self.kept:
            return [self.phase(self.results_of_row)]
        return super().phases() if self.sums else [self.phase(self.first)]

    def results_of_row(self) -> None:
        """The lanes of a row share its results; each is reduced by one thread, such as an element of a small product."""
        code = self.code
        row, lane, _ = self.place()
        totals = [code.let(f"alloca {REGISTER[r.view.dtype]}") for r in self.sums]
        kept, reduced = ([self.loops[i].length for i in loops] for loops in (self.kept, self.reduced))
        with (
            code.when(code.let(f"icmp ult i64 {row}, {self.layout.results}")),
            code.iterations(lane, str(size_of(kept)), self.tile.lanes) as result,
        ):
            self.indices = [row] + ["0"] * (len(self.loops) - 1)
            for i, index in zip(self.kept, self.split(result, kept), strict=True):
                self.indices[i] = index
            for r, total in zip(self.sums, totals, strict=True):
                code.do(f"store {REGISTER[r.view.dtype]} {start_of(r.how, r.view.dtype)}, ptr {total}")
            start = list(self.indices)
            with code.iterations("0", str(size_of(reduced))) as term:
                for i, index in zip(self.reduced, self.split(term, reduced), strict=True):
                    self.indices[i] = index
                self.point(totals)
            self.indices = start
            for r, total in zip(self.sums, totals, strict=True):
                value = code.let(f"load {REGISTER[r.view.dtype]}, ptr {total}")
                code.store(value, self.address(r.view), r.view.dtype)

    def point(self, totals: Sequence[str]) -> list[str]:
        values = super().point(totals)
        for r in self.totalled:
            pointer = self.total(r.view.buffer, self.index_in_total(r))
            value = combined(self.code, r, self.code.load(pointer, r.view.dtype), values[r.scalar])
            self.code.store(value, pointer, r.view.dtype)
        return values

    def index_in_total(self, r: Reduce) -> str:
        """The element that a thread accumulates into."""
        if r.view.buffer.size == 1:
            return "%thread"
        inner = [*zip(self.indices[1:], self.strides[id(r.view)][1:], strict=True)]
        row = self.code.let(f"udiv i64 %thread, {self.tile.lanes}")
        return self.offset(r.view.offset, [*inner, (row, r.view.buffer.size)])

    def total(self, buffer: Buffer, index: str) -> str:
        base = self.code.let(f"getelementptr inbounds i8, ptr %shared, i64 {self.around.starts[buffer]}")
        return self.code.let(f"getelementptr inbounds {MEMORY[buffer.dtype]}, ptr {base}, i64 {index}")

    def address(self, view: View, moved: Sequence[tuple[str, int]] = ()) -> str:
        if view.buffer not in self.tile.own:
            return super().address(view, moved)
        row = self.code.let(f"udiv i64 %thread, {self.tile.lanes}")
        inner = [*zip(self.indices[1:], self.strides[id(view)][1:], strict=True)]
        index = self.offset(view.offset, [(row, self.tile.own[view.buffer]), *inner, *moved])
        return self.total(view.buffer, index)

    def clear(self) -> None:
        """Set the totals to their beginning."""
        for buffer, how in self.tile.totals.items():
            with self.code.iterations("%thread", str(_elements(self.tile, buffer)), THREADS) as i:
                self.code.store(start_of(how, buffer.dtype), self.total(buffer, i), buffer.dtype)

    def leave(self) -> None:
        """Combine the copies of the totals, in order, and leave them for the launch that combines those of the blocks."""
        code = self.code
        registers = {buffer: code.let(f"alloca {MEMORY[buffer.dtype]}") for buffer in self.tile.totals}
        for buffer, how in self.tile.totals.items():
            so_far = registers[buffer]
            copies = _elements(self.tile, buffer) // buffer.size
            parts = self.tile.parts[buffer]
            r = Reduce(how, 0, (), View.whole(buffer, (buffer.size,)))
            with code.iterations("%thread", str(buffer.size), THREADS) as i:
                code.store(start_of(how, buffer.dtype), so_far, buffer.dtype)
                with code.iterations("0", str(copies)) as copy:
                    index = self.offset(0, [(copy, buffer.size), (i, 1)])
                    part = code.load(self.total(buffer, index), buffer.dtype)
                    code.store(combined(code, r, code.load(so_far, buffer.dtype), part), so_far, buffer.dtype)
                target = self.pointer(parts, 0, [("%block", buffer.size), (i, 1)])
                code.store(code.load(so_far, buffer.dtype), target, buffer.dtype)
