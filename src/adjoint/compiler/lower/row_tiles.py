"""Row tiles: run several kernels over one block of rows at a time, so that intermediates stay in the cache.

    kernel over (10000, 16): max of each row          row tiles of 256 of 10000 iterations:
    kernel over (10000, 16): exp(x - max), its sum      kernel over (10000, 16): max of each row
    kernel over (10000, 16): exp(x - max) / sum         …

A kernel joins a group if each iteration of its outermost loop accesses one row of the arrays that it shares with the others, the
same row as they do; or if it reduces over all rows into a result that no kernel of the group reads. Small kernels in between that
do not depend on the group are moved in front of it, independent steps behind. Arrays that only the group uses hold one tile.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from ..switches import Switch
from .kernel import Buffer, Kernel, LoopLevel, View, size_of
from .step import Lowered, RowTiles, Step

WORTH = 1 << 17  # bytes of intermediates; fewer stay in the cache anyway
_LARGE = 1 << 14  # bytes of the largest array of the first kernel of a group
TILE = 1 << 15  # bytes of the rows of a tile
LARGEST_PARTIAL = 1 << 14  # elements of a partial result per piece
_WINDOW = 24  # steps considered for one group


def in_row_tiles(lowered: Lowered, finest: bool = False) -> None:
    """Group the kernels of a program, after scheduling; if `finest`, by the shortest possible rows."""
    if not Switch.ROW_TILES.on:
        return
    asked = [*lowered.outputs, *lowered.out_of_bounds, *(failed for failed, _ in lowered.failures)]
    asked += [lowered.guard] if lowered.guard else []
    users = Counter(view.buffer for view in asked)
    for step in lowered.steps:
        users.update(_touched(step))
    steps, done = lowered.steps, 0
    while done < len(steps):
        group = _best(steps[done : done + _WINDOW], finest)
        if group is not None:
            others = [step for step in steps[done : done + _WINDOW] if step not in group.kernels and step not in group.before]
            steps[done : done + _WINDOW] = [*group.before, group.step(users), *others]
            done += len(group.before)
        done += 1


def _touched(step: Step) -> set[Buffer]:
    return {view.buffer for view in (*step.reads(), *step.writes())}


def _is_small(kernel: Kernel) -> bool:
    return max(buffer.nbytes for buffer in _touched(kernel)) < _LARGE


def _best(steps: Sequence[Step], finest: bool) -> _Group | None:
    """The group of the first step that saves most; None if none pays."""
    first = steps[0]
    if not isinstance(first, Kernel) or _is_small(first):
        return None
    groups = [group for n in lengths(first) if (group := _grown(steps, n)) is not None]
    best = max(groups, key=lambda group: (group.spared, group.length if finest else 0), default=None)
    return best if best is not None and best.spared >= WORTH and best.tile > 0 else None


def _grown(steps: Sequence[Step], length: int) -> _Group | None:
    """The group that the first step begins, with so many iterations."""
    group = _Group(length)
    read: set[Buffer] = set()  # by steps moved behind the group
    written: set[Buffer] = set()
    for step in steps:
        reads, writes = {view.buffer for view in step.reads()}, {view.buffer for view in step.writes()}
        free = not (writes & (read | written) or reads & written)
        if not (free and isinstance(step, Kernel) and group.join(step)):
            if not group.kernels:
                return None
            if free and isinstance(step, Kernel) and _is_small(step) and group.is_independent_of(reads, writes):
                group.before.append(step)
                continue
            read |= reads
            written |= writes
    return group


def lengths(kernel: Kernel) -> list[int]:
    """The possible lengths of the outermost loop: its own, or that of the first of its merged axes."""
    found, iterations = [], 1
    for axis in kernel.loops[0].axes if kernel.loops and all(kernel.domain) else ():
        iterations *= kernel.domain[axis]
        found.append(iterations)
    return found


@dataclass
class _Use:
    """How a kernel accesses its buffers: the elements from one row to the next, 0 if rows overlap or differ between accesses."""

    reads: dict[Buffer, int]
    writes: dict[Buffer, int]
    totals: dict[Buffer, str]  # results of reductions over all rows, and the operation

    @staticmethod
    def of(kernel: Kernel, length: int) -> _Use:
        loops, views = split(kernel, length), kernel.views
        count = len(list(kernel.reads()))
        totals = {id(r.view): r.how for r in kernel.reductions if not loops[0].strides[views.index(r.view)]}
        gathered = {id(line.data[0]) for line in kernel.code if line.kind == "gather"}
        use = _Use({}, {}, {view.buffer: totals[id(view)] for view in views if id(view) in totals})
        for i, view in enumerate(views):
            if id(view) not in totals:
                row = 0 if id(view) in gathered else row_of(view, [(loop.length, loop.strides[i]) for loop in loops])
                accessed = use.reads if i < count else use.writes
                accessed[view.buffer] = row if row == accessed.get(view.buffer, row) else 0
        return use


@dataclass
class _Group:
    """Kernels, and the row strides of the buffers they write: elements per iteration."""

    length: int
    kernels: list[Kernel] = field(default_factory=list)
    rows: dict[Buffer, int] = field(default_factory=dict)
    shared: set[Buffer] = field(default_factory=set)  # written by one, read by a later one
    totals: dict[Buffer, str] = field(default_factory=dict)  # results of reductions over all rows, and the operation
    given: dict[Buffer, int] = field(default_factory=dict)  # read before it is written, and its row stride; 0 if it has none
    again: set[Buffer] = field(default_factory=set)  # read by several kernels, by rows
    before: list[Kernel] = field(default_factory=list)  # that run in front of the group

    def join(self, kernel: Kernel) -> bool:
        """Add a kernel, if it fits."""
        if kernel.scatters or self.length not in lengths(kernel):
            return False
        use = _Use.of(kernel, self.length)
        if not (self._partials_fit(use) and self._reads_rows(use) and self._writes_rows(use) and self._is_related(use)):
            return False
        self.shared |= use.reads.keys() & self.rows.keys()
        self.again |= self._read_again(use)
        self.given |= {b: row if row == self.given.get(b, row) else 0 for b, row in self._from_outside(use).items()}
        self.rows |= use.writes
        self.totals |= use.totals
        self.kernels.append(kernel)
        return True

    def is_independent_of(self, reads: set[Buffer], writes: set[Buffer]) -> bool:
        """Whether a step may run before the group, if it reads and writes these."""
        made = self.rows.keys() | self.totals.keys()
        return not (reads & made or writes & (made | self.given.keys()))

    def _partials_fit(self, use: _Use) -> bool:
        """Whether its reductions over all rows are small enough to have one per piece, and no kernel of the group uses them."""
        known = self.rows.keys() | self.given.keys() | self.totals.keys()
        return all(b.size <= LARGEST_PARTIAL and b not in known for b in use.totals)

    def _reads_rows(self, use: _Use) -> bool:
        """Whether it reads results of the group row by row; a total is complete only after all rows."""
        inside = use.reads.keys() & self.rows.keys()
        unfinished = self.totals.keys() | (self.given.keys() & inside)
        return unfinished.isdisjoint(use.reads) and all(use.reads[b] == self.rows[b] for b in inside)

    def _writes_rows(self, use: _Use) -> bool:
        """Whether it writes row by row, and nothing that an earlier kernel may read at other rows, or sums up."""
        others = self.given.keys() | self.totals.keys()
        return others.isdisjoint(use.writes) and all(row and row == self.rows.get(b, row) for b, row in use.writes.items())

    def _is_related(self, use: _Use) -> bool:
        """Whether it shares rows with the group."""
        return not self.kernels or bool(self._read_again(use)) or not self.rows.keys().isdisjoint({**use.reads, **use.writes})

    def _read_again(self, use: _Use) -> set[Buffer]:
        """What the group has read before, by the same rows."""
        return {b for b, row in self._from_outside(use).items() if row and row == self.given.get(b)}

    def _from_outside(self, use: _Use) -> dict[Buffer, int]:
        return {b: row for b, row in use.reads.items() if b not in self.rows}

    @property
    def spared(self) -> int:
        """Bytes of memory traffic saved."""
        return sum(buffer.nbytes for buffer in self.shared | self.again)

    @property
    def tile(self) -> int:
        """The number of rows that fit in the cache."""
        rows = self.given | self.rows
        row = sum(rows[buffer] * buffer.dtype.itemsize for buffer in self.shared | self.again)
        return min(TILE // max(row, 1), self.length)

    def step(self, users: Counter[Buffer]) -> RowTiles:
        """The step. Buffers used by other steps too are stored whole."""
        inside = Counter(buffer for kernel in self.kernels for buffer in _touched(kernel))
        for kernel in self.kernels:
            kernel.loops = split(kernel, self.length)
        own = {b: self.rows[b] for b in self.rows if b in self.shared and b.kind == "local" and users[b] == inside[b]}
        return RowTiles(tuple(self.kernels), self.length, self.tile, own, self.totals)


def row_of(view: View, loops: Sequence[tuple[int, int]]) -> int:
    """The stride of a view along the first loop, if its iterations access disjoint elements; else 0."""
    (_, step), *inner = loops
    least = view.offset + sum(min(0, (n - 1) * s) for n, s in inner)
    most = view.offset + sum(max(0, (n - 1) * s) for n, s in inner)
    return step if least >= 0 and most < step else 0


def split(kernel: Kernel, length: int) -> list[LoopLevel]:
    """The loops of a kernel, with an outermost one of so many iterations."""
    first, *rest = kernel.loops
    if first.length == length:
        return kernel.loops
    inside = first.length // length
    axes = 1
    while size_of(kernel.domain[axis] for axis in first.axes[:axes]) < length:
        axes += 1
    outer = LoopLevel(length, [s * inside for s in first.strides], first.axes[:axes])
    return [outer, LoopLevel(inside, first.strides, first.axes[axes:]), *rest]
