"""Point tiles: loops whose points are independent run all their iterations for one tile of points at a time.

    scan of 500 iterations over 10000 points        for tiles of 16 points, in parallel:
    kernel over the points                    →         500 iterations of the scan; the kernel; 500 of the reverse scan
    reverse scan, reads what the first stacked

The carries of a tile stay in the L1 cache, and the residuals that a loop stacks for its backward pass in the L2 cache: arrays
that only the group uses hold one tile. A kernel can be a member, or part of the body of a member, if each point accesses only its
own elements of the arrays that the group writes. Values that are the same for all points, such as a counter, are recomputed for
each tile. The arithmetic of a point does not change: results are bitwise the same.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ...rewrite.loops.point_sums import LEAST_POINTS
from .kernel import Buffer, Kernel, View, size_of
from .memory import ALIGNMENT
from .parts import only
from .row_tiles import lengths, row_of, split
from .schedule import cut, work
from .step import Lowered, PointTiles, RowTiles, Scan, Step

_TILES = (128, 64, 32, 16)  # points of a tile
_CACHE = 1 << 19  # bytes of a tile: half of a typical L2 cache
_MOST_MEMORY = 1 << 22  # bytes of a tile, above which stacked arrays are stored whole
_PIECE = 200_000  # additions of the smallest piece
_MOST_PIECES = 16
_WINDOW = 12  # steps considered for one group
_WHOLE, _ANY = 0, -1  # accesses that are no row: the same element at all points; anything else


class Access(NamedTuple):
    """How the points access a buffer: so many elements each, in so many rows (of a stack, one for each iteration)."""

    row: int
    rows: int = 1


def in_point_tiles(lowered: Lowered) -> None:
    """Group the loops of a program whose points are independent, after scheduling."""
    if not any(isinstance(step, Scan) for step in lowered.steps):
        return
    asked = [*lowered.outputs, *lowered.out_of_bounds, *(failed for failed, _ in lowered.failures)]
    asked += [lowered.guard] if lowered.guard else []
    steps, done = lowered.steps, 0
    while done < len(steps):
        found = _grown(steps[done : done + _WINDOW], lowered.buffers)
        if found is not None:
            group, before, others = found
            outside = [*steps[:done], *before, *others, *steps[done + _WINDOW :]]
            used = {view.buffer for view in asked}.union(*map(_touched, outside))
            steps[done : done + _WINDOW] = [*before, group.step(used, lowered), *others]
            done += len(before)
        done += 1


def _touched(step: Step) -> set[Buffer]:
    return {view.buffer for view in (*step.reads(), *step.writes())}


def _grown(steps: Sequence[Step], buffers: list[Buffer]) -> tuple[_Group, list[Step], list[Step]] | None:
    """The group that the first step begins, and the steps before and behind it."""
    first = steps[0]
    if not isinstance(first, Scan):
        return None
    largest = max(kernels_of(first), key=lambda kernel: size_of(kernel.domain), default=None)
    for length in reversed(lengths(largest) if largest is not None else []):
        group = _Group(length)
        if length >= LEAST_POINTS and group.join(first):
            return group, *_rest(group, steps[1:], buffers)
    return None


def _rest(group: _Group, steps: Sequence[Step], buffers: list[Buffer]) -> tuple[list[Step], list[Step]]:
    """Let steps join a group. Of those that do not, and reductions over its points, which come before it, and which after it.

    A kernel comes before it if it depends on nothing that is computed since the group began, such as zeros for a later loop.
    """
    ahead: list[Step] = []
    behind: list[Step] = []
    read: set[Buffer] = set()
    written: set[Buffer] = set()
    for step in steps:
        reads, writes = ({view.buffer for view in views} for views in (step.reads(), step.writes()))
        computed = group.written | written
        if isinstance(step, Kernel) and not reads & computed and not writes & (computed | read | group.accesses.keys()):
            ahead.append(step)
            continue
        inside, after = _halves(step, buffers)
        if inside is not None:
            outs = {view.buffer for view in inside.writes()}
            if outs & (read | written) or reads & written or not group.join(inside):
                after = step
        if after is not None:
            read |= reads
            written |= {view.buffer for view in after.writes()}
            behind.append(after)
    return ahead, behind


def _halves(step: Step, buffers: list[Buffer]) -> tuple[Kernel | Scan | None, Step | None]:
    """What of a step may join a group, and what may not: a kernel is split in its stores and its reductions."""
    if isinstance(step, Scan):
        return step, None
    if not isinstance(step, Kernel) or step.scatters or not step.stores:
        return None, step
    if not step.reductions:
        return step, None
    after = only(step, step.reductions)
    cut(after, buffers)
    return only(step, step.stores), after


def kernels_of(scan: Scan) -> list[Kernel]:
    """The kernels of the body of a loop; none if it has other steps."""
    found: list[Kernel] = []
    for step in scan.body.steps:
        if isinstance(step, RowTiles) and not step.totals:
            found += step.kernels
        elif isinstance(step, Kernel) and not step.partials and not step.scatters:
            found.append(step)
        else:
            return []
    return found


def _accesses(kernel: Kernel, length: int) -> list[tuple[Buffer, int, bool]] | None:
    """For each view of a kernel: its buffer, the elements of a point, and whether it is written. None if it has other points."""
    reads = len(list(kernel.reads()))
    views = kernel.views
    if size_of(kernel.domain) == 1:
        return [(view.buffer, _WHOLE, i >= reads) for i, view in enumerate(views)]
    if length not in lengths(kernel):
        return None
    loops = split(kernel, length)
    moved = {id(line.data[0]) for line in kernel.code if line.kind == "gather"}
    found = []
    for i, view in enumerate(views):
        if not loops[0].strides[i] and i >= reads:
            return None  # a reduction over the points
        row = row_of(view, [(loop.length, loop.strides[i]) for loop in loops])
        whole = not loops[0].strides[i]
        found.append((view.buffer, _ANY if id(view) in moved else _WHOLE if whole else row or _ANY, i >= reads))
    return found


def _rows_of_body(scan: Scan, length: int) -> dict[Buffer, int] | None:
    """How the points access each buffer of a body; None if they depend on each other."""
    kernels, body = kernels_of(scan), scan.body
    if not kernels or not scan.length or body.can_fail or any(0 in kernel.domain for kernel in kernels):
        return None
    first, count = len(scan.consts), len(scan.carries)
    ends = [view.buffer for view in body.outputs]
    same = dict(zip(body.inputs[first : first + count], ends, strict=False))  # where carries begin: where they end
    found: dict[Buffer, set[int]] = {}
    written: set[Buffer] = {*ends}
    for kernel in kernels:
        accesses = _accesses(kernel, length)
        if accesses is None:
            return None
        for buffer, row, is_written in accesses:
            found.setdefault(same.get(buffer, buffer), set()).add(row)
            if is_written:
                written.add(buffer)
    rows = {buffer: next(iter(several)) if len(several) == 1 else _ANY for buffer, several in found.items()}
    for buffer in written:
        row = rows.get(buffer, _ANY)
        if row == _ANY or (row and row * length != buffer.size) or (not row and buffer.nbytes > ALIGNMENT):
            return None
    if any(rows[end] == _WHOLE for end in ends[count:]):
        return None  # stacked values of no point
    return rows | {begin: rows[end] for begin, end in same.items()}


@dataclass
class _Group:
    length: int
    members: list[Kernel | Scan] = field(default_factory=list)
    accesses: dict[Buffer, Access] = field(default_factory=dict)
    written: set[Buffer] = field(default_factory=set)
    rows: dict[Buffer, int] = field(default_factory=dict)  # of the bodies

    def join(self, step: Kernel | Scan) -> bool:
        """Add a step, if its points access only their own elements of what the group writes."""
        rows: dict[Buffer, int] = {}
        if isinstance(step, Scan):
            body = _rows_of_body(step, self.length)
            if body is None:
                return False
            found = list(_outside(step, body))
            rows = body
        else:
            accesses = _accesses(step, self.length) if all(step.domain) else None
            if accesses is None or size_of(step.domain) == 1 or step.partials:
                return False
            found = [(buffer, Access(row), is_written) for buffer, row, is_written in accesses]
        merged = dict(self.accesses)
        for buffer, access, _ in found:
            merged[buffer] = access if merged.get(buffer, access) == access else Access(_ANY)
        touched = {buffer for buffer, _, _ in found}
        written = {buffer for buffer, _, is_written in found if is_written}
        if written & self.accesses.keys():
            return False  # other points may still read it
        for buffer in self.written | written:
            row, stacked = merged[buffer]
            if row == _ANY or (row > 0 and row * stacked * self.length != buffer.size):
                return False
            if row == _WHOLE and buffer in self.written and buffer in touched:
                return False  # the first tile alone writes it
        if self.members and not self.written & touched:
            return False  # unrelated
        self.accesses, self.written = merged, self.written | written
        self.rows |= rows
        self.members.append(step)
        return True

    def step(self, used: Collection[Buffer], lowered: Lowered) -> PointTiles:
        """The step; what other steps use is stored whole."""
        own = [b for b in self.accesses if b in self.written and b not in used and self.accesses[b].row > 0]
        sizes = {b: self.accesses[b].row * self.accesses[b].rows * b.dtype.itemsize for b in own}  # bytes per point
        if sum(sizes.values()) * _TILES[-1] > _MOST_MEMORY:
            sizes = {b: size for b, size in sizes.items() if self.accesses[b].rows == 1}
        whole: dict[Buffer, int] = {}
        for member in self.members:
            if isinstance(member, Scan):
                _add_private(member, self.rows, sizes, whole)
            kernels = kernels_of(member) if isinstance(member, Scan) else [member]
            for kernel in kernels:
                if size_of(kernel.domain) > 1:
                    kernel.loops = split(kernel, self.length)
        tile = next((tile for tile in _TILES if tile * sum(sizes.values()) <= _CACHE), _TILES[-1])
        offsets, end = {}, 0
        for buffer, size in [*((b, size * tile) for b, size in sizes.items()), *whole.items()]:
            offsets[buffer] = end
            end += -(-size // ALIGNMENT) * ALIGNMENT
        end = max(end, ALIGNMENT)
        pieces = max(1, min(sum(map(work, self.members)) // _PIECE, _MOST_PIECES, self.length // tile))
        memory = Buffer(len(lowered.buffers), np.dtype(np.uint8), end * pieces, "local")
        lowered.buffers.append(memory)
        return PointTiles(tuple(self.members), self.length, tile, self.rows, offsets, memory, pieces)


def _outside(scan: Scan, body: dict[Buffer, int]) -> Iterator[tuple[Buffer, Access, bool]]:
    """How the points access the buffers that a loop reads and writes, and whether they are written."""
    before = (*scan.consts, *scan.carries)
    read = [*((view, 1) for view in before), *((view, scan.length) for view in scan.rows)]
    written = [*((view, 1) for view in scan.finals), *((view, scan.length) for view in scan.stacks)]
    for (view, count), inner in zip(read, scan.body.inputs, strict=True):
        yield view.buffer, _access(view, body.get(inner, _ANY), count), False
    for (view, count), out in zip(written, scan.body.outputs, strict=True):
        yield view.buffer, _access(view, body[out.buffer], count), True


def _access(view: View, row: int, count: int) -> Access:
    return Access(row if view.is_whole or row == _WHOLE else _ANY, count if row > 0 else 1)


def _add_private(scan: Scan, rows: dict[Buffer, int], sizes: dict[Buffer, int], whole: dict[Buffer, int]) -> None:
    """The carries, twice, and the intermediate arrays of a body: bytes per point, or in all."""
    given = {*scan.body.inputs, *(view.buffer for view in scan.body.outputs)}
    begins = scan.body.inputs[len(scan.consts) : len(scan.consts) + len(scan.carries)]
    inner = {view.buffer for kernel in kernels_of(scan) for view in (*kernel.reads(), *kernel.writes())}
    local = [b for b in inner if b not in given and b.kind == "local"]
    for buffer, copies in [*((b, 2) for b in begins), *((b, 1) for b in sorted(local, key=lambda b: b.number))]:
        if rows[buffer] > 0:
            sizes[buffer] = copies * rows[buffer] * buffer.dtype.itemsize
        else:
            whole[buffer] = copies * max(ALIGNMENT, buffer.nbytes)
