"""Time tiles: one function that runs several iterations of a stencil on the tiles of a piece of the grid.

    define internal void @time_tiles(ptr %table, i64 %piece)

The table holds the addresses of the states before and behind these iterations, of what all iterations read, and of the memory of
the tiles; then the number of iterations and the status: not 0 if a piece was interrupted. The memory of a tile holds its rows and
those around it, so that an address of it, less that of its first row, serves as the address of a whole state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lower.kernel import Buffer
from ..lower.step import TimeTiles
from ..runtime import signals
from .instruction import Code
from .nest import Nest
from .point_tiles import leave_if_interrupted

if TYPE_CHECKING:
    from .program import StepRoutine


def emit(routine: StepRoutine, step: TimeTiles) -> None:
    """The passes over the grid: each reads the states that the last one wrote, and the last one writes the final ones."""
    code, scan = routine.code, step.scan
    count = len(scan.carries)
    given = _given(step)
    addresses = dict(zip(scan.body.inputs, map(routine.at, scan.consts), strict=False))
    same = [addresses[b] if b in addresses else routine.module.constant(code, b) for b in given]
    table = routine.table(["null"] * (2 * count) + same + [routine.pointers[step.memory]], more=2)
    depth, status = (code.slot(table, 2 * count + len(given) + 1 + i) for i in range(2))
    code.do(f"store i32 0, ptr {status}")
    name = routine.module.name("time_tiles")
    piece = _Piece(routine, step, given)
    routine.module.definitions.append(piece.define(name))
    routine.module.declared |= piece.code.declared
    places = [[routine.at(v) for v in views] for views in (scan.carries, scan.finals, scan.spare)]
    passes = -(-scan.length // step.depth)
    with code.iterations("0", str(passes)) as i:
        is_first = code.let(f"icmp eq i64 {i}, 0")
        left = code.let(f"sub nsw i64 {passes - 1}, {i}")
        is_odd = code.let(f"icmp ne i64 {code.let(f'and i64 {left}, 1')}, 0")
        for k, (begin, final, spare) in enumerate(zip(*places, strict=True)):
            target = code.let(f"select i1 {is_odd}, ptr {spare}, ptr {final}")
            other = code.let(f"select i1 {is_odd}, ptr {final}, ptr {spare}")
            source = code.let(f"select i1 {is_first}, ptr {begin}, ptr {other}")
            code.do(f"store ptr {source}, ptr {code.slot(table, k)}")
            code.do(f"store ptr {target}, ptr {code.slot(table, count + k)}")
        done = code.let(f"mul nsw i64 {i}, {step.depth}")
        code.do(f"store i64 {code.smaller(str(step.depth), code.let(f'sub nsw i64 {scan.length}, {done}'))}, ptr {depth}")
        routine.in_parallel(name, table, step.chunks)
        routine.check(code.let(f"load i32, ptr {status}"))


def _given(step: TimeTiles) -> list[Buffer]:
    """What the kernel reads besides the state."""
    return [b for b in dict.fromkeys(view.buffer for view in step.kernel.reads()) if b not in step.rows]


class _Piece:
    """Writes the function of a piece."""

    def __init__(self, routine: StepRoutine, step: TimeTiles, given: list[Buffer]) -> None:
        self.routine, self.step = routine, step
        self.code = code = Code()
        scan = step.scan
        self.begins = scan.body.inputs[len(scan.consts) :]
        self.ends = [view.buffer for view in scan.body.outputs]
        count = len(self.begins)
        entries = [code.let(f"load ptr, ptr {code.slot('%table', i)}") for i in range(2 * count + len(given) + 1)]
        self.sources, self.targets = entries[:count], entries[count : 2 * count]
        self.pointers = dict(zip(given, entries[2 * count :], strict=False))
        depth, self.status = (code.slot("%table", len(entries) + i) for i in range(2))
        self.depth = code.let(f"load i64, ptr {depth}")
        self.memory = self.moved(entries[-1], "%piece", step.memory.nbytes // step.chunks)

    def define(self, name: str) -> str:
        code, step = self.code, self.step
        code.declared.add(signals.DECLARATION)
        tiles = -(-step.length // step.tile)
        begin = code.let(f"udiv i64 {code.let(f'mul nuw nsw i64 %piece, {tiles}')}, {step.chunks}")
        after = code.let(f"mul nuw nsw i64 {code.let('add nuw nsw i64 %piece, 1')}, {tiles}")
        with code.iterations(begin, code.let(f"udiv i64 {after}, {step.chunks}")) as tile:
            leave_if_interrupted(code, self.status)
            self.tile(code.let(f"mul nuw nsw i64 {tile}, {step.tile}"))
        code.do("ret void")
        return "\n".join([f"define internal void {name}(ptr %table, i64 %piece) nounwind noinline {{", *code.lines, "}"])

    def tile(self, first: str) -> None:
        """The iterations on the rows from the first one on: each has fewer rows around the tile than the one before."""
        code, step = self.code, self.step
        stop = code.smaller(code.let(f"add nuw nsw i64 {first}, {step.tile}"), str(step.length))
        held = code.let(f"sub nsw i64 {first}, {step.halo * (step.depth - 1)}")  # the first row in the memory of the tile
        copies = self.copies(held)
        with code.iterations("0", self.depth) as i:
            left = code.let(f"sub nsw i64 {code.let(f'sub nsw i64 {self.depth}, 1')}, {i}")
            around = code.let(f"mul nsw i64 {left}, {step.halo}")
            start = code.intrinsic("smax", "i64", code.let(f"sub nsw i64 {first}, {around}"), "0")
            end = code.smaller(code.let(f"add nsw i64 {stop}, {around}"), str(step.length))
            is_first, is_last = code.let(f"icmp eq i64 {i}, 0"), code.let(f"icmp eq i64 {left}, 0")
            is_odd = code.let(f"icmp ne i64 {code.let(f'and i64 {i}, 1')}, 0")
            pointers = dict(self.pointers)
            for k, (one, other) in enumerate(copies):
                written = code.let(f"select i1 {is_odd}, ptr {one}, ptr {other}")
                read = code.let(f"select i1 {is_odd}, ptr {other}, ptr {one}")
                pointers[self.begins[k]] = code.let(f"select i1 {is_first}, ptr {self.sources[k]}, ptr {read}")
                pointers[self.ends[k]] = code.let(f"select i1 {is_last}, ptr {self.targets[k]}, ptr {written}")
            nest = Nest(step.kernel, in_parts=True)
            name = self.routine.define_nest(nest, "kernel")
            length = code.let(f"sub nsw i64 {end}, {start}")
            given = [*(f"ptr {pointers[b]}" for b in nest.buffers), f"i64 {start}", f"i64 {length}"]
            code.do(f"call void {name}({', '.join(given)})")

    def copies(self, held: str) -> list[tuple[str, str]]:
        """For each carry the addresses of its two copies, as if they held the rows from 0 on."""
        found, at, step = [], 0, self.step
        for begin in self.begins:
            row = step.rows[begin] * begin.dtype.itemsize
            back = self.code.let(f"sub nsw i64 0, {held}")
            pair = []
            for _ in range(2):
                base = self.code.let(f"getelementptr i8, ptr {self.memory}, i64 {at}")
                pair.append(self.moved(base, back, row))
                at += row * (step.tile + 2 * step.halo * (step.depth - 1))
            found.append((pair[0], pair[1]))
        return found

    def moved(self, base: str, by: str, size: int) -> str:
        """The address so many times a size behind another, or before it."""
        return self.code.let(f"getelementptr i8, ptr {base}, i64 {self.code.let(f'mul nsw i64 {by}, {size}')}")
