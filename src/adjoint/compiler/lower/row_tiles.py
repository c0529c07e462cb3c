"""Row tiles: run several kernels over one block of rows at a time, so that intermediates stay in the cache.

    kernel over (10000, 16): max of each row          row tiles of 256 of 10000 iterations:
    kernel over (10000, 16): exp(x - max), its sum      kernel over (10000, 16): max of each row
    kernel over (10000, 16): exp(x - max) / sum         …

A kernel joins a group if each iteration of its outermost loop accesses one row of the arrays that it shares with the others, the
same row as they do; or if it reduces over all rows into a result that no kernel of the group reads. Independent steps in between
are moved behind the group. Arrays that only the group uses hold one tile.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from ..switches import Switch
from .kernel import Buffer, Kernel, Loop, View, size_of
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
            others = [step for step in steps[done : done + _WINDOW] if step not in group.kernels]
            steps[done : done + _WINDOW] = [group.step(users), *others]
        done += 1


def _touched(step: Step) -> set[Buffer]:
    return {view.buffer for view in (*step.reads(), *step.writes())}


def _best(steps: Sequence[Step], finest: bool) -> _Group | None:
    """The group of the first step that saves most; None if none pays."""
    first = steps[0]
    if not isinstance(first, Kernel) or max(buffer.nbytes for buffer in _touched(first)) < _LARGE:
        return None
    groups = [group for n in _lengths(first) if (group := _grown(steps, n)) is not None]
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
            read |= reads
            written |= writes
    return group


def _lengths(kernel: Kernel) -> list[int]:
    """The possible lengths of the outermost loop: its own, or that of the first of its merged axes."""
    found, iterations = [], 1
    for axis in kernel.loops[0].axes if kernel.loops and all(kernel.domain) else ():
        iterations *= kernel.domain[axis]
        found.append(iterations)
    return found


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

    def join(self, kernel: Kernel) -> bool:
        """Add a kernel, if it fits."""
        if kernel.scatters or self.length not in _lengths(kernel):
            return False
        loops = split(kernel, self.length)
        views = kernel.views
        count = len(list(kernel.reads()))
        totals = {id(r.view): r for r in kernel.reductions if not loops[0].strides[views.index(r.view)]}
        if any(r.view.buffer.size > LARGEST_PARTIAL for r in totals.values()):
            return False
        moved = {id(line.data[0]) for line in kernel.code if line.kind == "gather"}
        rows: dict[Buffer, int] = {}  # of the shared buffers
        given: dict[Buffer, int] = {}
        for i, view in enumerate(views):
            if view.buffer in self.totals:
                return False  # complete only after all iterations
            if id(view) in totals:
                continue
            row = 0 if id(view) in moved else _row(view, [(loop.length, loop.strides[i]) for loop in loops])
            if i < count and view.buffer not in self.rows:
                given[view.buffer] = row if row == given.get(view.buffer, row) else 0
            elif row and row == self.rows.get(view.buffer, rows.get(view.buffer, row)):
                rows[view.buffer] = row
            else:
                return False
        results = {r.view.buffer: r.how for r in totals.values()}
        if not self.given.keys().isdisjoint(rows.keys() | results.keys()):
            return False  # an earlier kernel may read other rows of it
        again = {b for b, row in given.items() if row and row == self.given.get(b)}
        if self.kernels and not again and self.rows.keys().isdisjoint(rows):
            return False  # unrelated to the group
        self.shared |= {view.buffer for view in views[:count] if view.buffer in self.rows}
        self.again |= again
        self.given |= {b: row if row == self.given.get(b, row) else 0 for b, row in given.items()}
        self.rows |= rows
        self.totals |= results
        self.kernels.append(kernel)
        return True

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


def _row(view: View, loops: Sequence[tuple[int, int]]) -> int:
    """The stride of a view along the first loop, if its iterations access disjoint elements; else 0."""
    (_, step), *inner = loops
    least = view.offset + sum(min(0, (n - 1) * s) for n, s in inner)
    most = view.offset + sum(max(0, (n - 1) * s) for n, s in inner)
    return step if least >= 0 and most < step else 0


def split(kernel: Kernel, length: int) -> list[Loop]:
    """The loops of a kernel, with an outermost one of so many iterations."""
    first, *rest = kernel.loops
    if first.length == length:
        return kernel.loops
    inside = first.length // length
    axes = 1
    while size_of(kernel.domain[axis] for axis in first.axes[:axes]) < length:
        axes += 1
    outer = Loop(length, [s * inside for s in first.strides], first.axes[:axes])
    return [outer, Loop(inside, first.strides, first.axes[axes:]), *rest]
