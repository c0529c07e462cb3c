"""Kernels over the same rows run for a band of rows at a time, so that what one leaves for the next stays in the cache.

    kernel over (10000, 16): max of each row          bands of 256 of 10000 turns:
    kernel over (10000, 16): exp(x - max), its sum      kernel over (10000, 16): max of each row
    kernel over (10000, 16): exp(x - max) / sum         …

A kernel joins if, in each turn of its outermost loop, it touches one row of the arrays that it shares with the others, the same
one as they; or if it adds up over all turns what nobody of them reads. Steps between them that do not matter to it come later.
Arrays that nobody else uses have room for a band only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from .kernel import Buffer, Kernel, Loop, View, size_of
from .step import Bands, Lowered, Step

WORTH = 1 << 17  # bytes that are written for a later kernel; fewer stay in the cache anyway
_LARGE = 1 << 14  # bytes of the largest array that the first kernel of a group touches
BAND = 1 << 15  # bytes of the rows of a band
LARGEST_PARTIAL = 1 << 14  # elements of a result that each piece may have for itself
_WINDOW = 24  # steps that are looked at for one group


def in_bands(lowered: Lowered, finest: bool = False) -> None:
    """Group the kernels of a program, whose loops are chosen already; if `finest`, by the shortest rows that do."""
    asked = [*lowered.outputs, *lowered.outside, *(failed for failed, _ in lowered.failures)]
    asked += [lowered.guard] if lowered.guard else []
    users = Counter(view.buffer for view in asked)
    for step in lowered.steps:
        users.update(_touched(step))
    steps, done = lowered.steps, 0
    while done < len(steps):
        group = _best(steps[done : done + _WINDOW], finest)
        if group is not None:
            others = [step for step in steps[done : done + _WINDOW] if step not in group.kernels]
            steps[done : done + _WINDOW] = [group.bands(users), *others]
        done += 1


def _touched(step: Step) -> set[Buffer]:
    return {view.buffer for view in (*step.reads(), *step.writes())}


def _best(steps: Sequence[Step], finest: bool) -> _Group | None:
    """The group of the first step that spares most; None if none is worth it."""
    first = steps[0]
    if not isinstance(first, Kernel) or max(buffer.nbytes for buffer in _touched(first)) < _LARGE:
        return None
    groups = [group for n in _lengths(first) if (group := _grown(steps, n)) is not None]
    best = max(groups, key=lambda group: (group.spared, group.length if finest else 0), default=None)
    return best if best is not None and best.spared >= WORTH and best.band > 0 else None


def _grown(steps: Sequence[Step], length: int) -> _Group | None:
    """The group that the first step begins, with so many turns."""
    group = _Group(length)
    read: set[Buffer] = set()  # by the steps that come after the group
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
    """How many turns the outermost loop may have: its own, or those of the first of the axes that it stands for."""
    found, turns = [], 1
    for axis in kernel.loops[0].axes if kernel.loops and all(kernel.domain) else ():
        turns *= kernel.domain[axis]
        found.append(turns)
    return found


@dataclass
class _Group:
    """Kernels, and the rows of what they write: elements from one turn to the next."""

    length: int
    kernels: list[Kernel] = field(default_factory=list)
    rows: dict[Buffer, int] = field(default_factory=dict)
    shared: set[Buffer] = field(default_factory=set)  # written by one, read by a later one
    totals: dict[Buffer, str] = field(default_factory=dict)  # results of reductions over all turns, and how they are combined
    given: dict[Buffer, int] = field(default_factory=dict)  # read before anyone writes it, and its row; 0 if it has none
    again: set[Buffer] = field(default_factory=set)  # read by several, by rows

    def join(self, kernel: Kernel) -> bool:
        """Take a kernel in, if it fits."""
        if kernel.scatters or self.length not in _lengths(kernel):
            return False
        loops = split(kernel, self.length)
        views = kernel.views
        count = len(list(kernel.reads()))
        totals = {id(r.view): r for r in kernel.reductions if not loops[0].strides[views.index(r.view)]}
        if any(r.view.buffer.size > LARGEST_PARTIAL for r in totals.values()):
            return False
        moved = {id(line.data[0]) for line in kernel.code if line.kind == "gather"}
        rows: dict[Buffer, int] = {}  # of what it shares with the others
        given: dict[Buffer, int] = {}
        for i, view in enumerate(views):
            if view.buffer in self.totals:
                return False  # is there when all turns are made
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
            return False  # an earlier one may read other rows of it
        again = {b for b, row in given.items() if row and row == self.given.get(b)}
        if self.kernels and not again and self.rows.keys().isdisjoint(rows):
            return False  # has nothing to do with the others
        self.shared |= {view.buffer for view in views[:count] if view.buffer in self.rows}
        self.again |= again
        self.given |= {b: row if row == self.given.get(b, row) else 0 for b, row in given.items()}
        self.rows |= rows
        self.totals |= results
        self.kernels.append(kernel)
        return True

    @property
    def spared(self) -> int:
        """Bytes that need not come from memory again."""
        return sum(buffer.nbytes for buffer in self.shared | self.again)

    @property
    def band(self) -> int:
        """Turns whose rows stay in the cache."""
        rows = self.given | self.rows
        row = sum(rows[buffer] * buffer.dtype.itemsize for buffer in self.shared | self.again)
        return min(BAND // max(row, 1), self.length)

    def bands(self, users: Counter[Buffer]) -> Bands:
        """The step. Buffers that others use, too, are whole."""
        inside = Counter(buffer for kernel in self.kernels for buffer in _touched(kernel))
        for kernel in self.kernels:
            kernel.loops = split(kernel, self.length)
        own = {b: self.rows[b] for b in self.shared if b.kind == "local" and users[b] == inside[b]}
        return Bands(tuple(self.kernels), self.length, self.band, own, self.totals)


def _row(view: View, loops: Sequence[tuple[int, int]]) -> int:
    """How far a view moves in a turn of the first loop, if what it touches in one turn is apart from all other turns; else 0."""
    (_, step), *inner = loops
    least = view.offset + sum(min(0, (n - 1) * s) for n, s in inner)
    most = view.offset + sum(max(0, (n - 1) * s) for n, s in inner)
    return step if least >= 0 and most < step else 0


def split(kernel: Kernel, length: int) -> list[Loop]:
    """The loops of a kernel, with an outermost one of so many turns."""
    first, *rest = kernel.loops
    if first.length == length:
        return kernel.loops
    inside = first.length // length
    axes = 1
    while size_of(kernel.domain[axis] for axis in first.axes[:axes]) < length:
        axes += 1
    outer = Loop(length, [s * inside for s in first.strides], first.axes[:axes])
    return [outer, Loop(inside, first.strides, first.axes[axes:]), *rest]
