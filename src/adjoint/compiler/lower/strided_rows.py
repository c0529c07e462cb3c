"""Rows of a tiled loop are read where they are, instead of from a copy in the order of the iterations.

    z: (points, steps);  scan over the rows of z.T             z: (points, steps)
    kernel over (steps, points): copy z.T                →     tiles of points: scan, iteration t reads z[point, t]
    tiles of points: scan, iteration t reads copy[t]

All iterations of a tile of points run one after the other, so that a cache line of z is read from memory once. The copy would be
written and read back whole. The same holds for rows with a stride between them, or between their elements: z[:, 0] of an array
(steps, 2, points), or (steps, points, 2).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from .kernel import Buffer, Kernel, KernelLine, LoopLevel, Store, View
from .parts import Result, only
from .point_tiles import kernels_of
from .schedule import cut
from .step import Lowered, PointTiles, Scan


class _Copy(NamedTuple):
    """A kernel that copies a view, without changing it."""

    kernel: Kernel
    store: Store
    source: View


def read_strided_rows(lowered: Lowered) -> None:
    """Let tiled loops read their rows from what these are copies of, after grouping."""
    found: list[_Copy] = []
    current: dict[Buffer, _Copy] = {}  # copies whose source has not been written to since
    for step in lowered.steps:
        if isinstance(step, PointTiles):
            for member in step.members:
                if isinstance(member, Scan):
                    _read_sources(member, current)
        written = {view.buffer for view in step.writes()}
        current = {b: copy for b, copy in current.items() if not written & {b, copy.source.buffer}}
        if isinstance(step, Kernel):
            copies = list(_copies(step))
            found += copies
            current.update({copy.store.view.buffer: copy for copy in copies})
    if found:
        _drop_unread(lowered, found)


def _read_sources(scan: Scan, copies: Mapping[Buffer, _Copy]) -> None:
    for k, view in enumerate(scan.rows):
        copy = copies.get(view.buffer)
        # A reshaped copy may have other rows than its source.
        if copy is not None and view.is_whole and view.shape[0] == copy.source.shape[0] and _is_read_by_point(scan, k):
            _redirect(scan, k, copy.source)


def _copies(kernel: Kernel) -> Iterator[_Copy]:
    for store in kernel.stores:
        line = kernel.code[store.scalar]
        if (
            line.kind == "load"
            and store.view.is_whole
            and len(store.view.shape) == 2
            and 1 not in store.view.shape
            and store.view.buffer.kind == "local"
            and line.data.shape == store.view.shape == kernel.domain
            and line.data.dtype == store.view.dtype
            and sum(other.view.buffer is store.view.buffer for other in kernel.stores) == 1
        ):
            yield _Copy(kernel, store, line.data)


def _is_read_by_point(scan: Scan, k: int) -> bool:
    """Whether only kernels read a row, which has one element for each point, and none at a computed place."""
    given = scan.body.inputs[len(scan.consts) + len(scan.carries) + k]
    if any(view.buffer is given for view in scan.body.outputs):
        return False
    return not any(line.kind == "gather" and line.data[0].buffer is given for kernel in kernels_of(scan) for line in kernel.code)


def _redirect(scan: Scan, k: int, source: View) -> None:
    """Read the row k of each iteration from a view, whose elements may have a stride."""
    given = scan.body.inputs[len(scan.consts) + len(scan.carries) + k]
    scan.rows = (*scan.rows[:k], source, *scan.rows[k + 1 :])
    if source.strides[1] != 1:
        for kernel in kernels_of(scan):
            _stretch(kernel, given, source.strides[1])


def _stretch(kernel: Kernel, buffer: Buffer, by: int) -> None:
    """Let a kernel find the elements of a buffer so many times as far apart."""
    moved = {i for i, view in enumerate(kernel.views) if view.buffer is buffer}
    if not moved:
        return
    loops = []
    for loop in kernel.loops:
        strides = [s * by if i in moved else s for i, s in enumerate(loop.strides)]
        loops.append(LoopLevel(loop.length, strides, loop.axes))
    kernel.loops = loops

    def stretched(line: KernelLine) -> KernelLine:
        if line.kind == "window":
            inner, window = line.data
            return replace(line, data=(tuple(map(stretched, inner)), window))
        if line.kind != "load" or line.data.buffer is not buffer:
            return line
        view = line.data
        return replace(line, data=replace(view, strides=tuple(s * by for s in view.strides), offset=view.offset * by))

    kernel.code[:] = map(stretched, kernel.code)


def _drop_unread(lowered: Lowered, copies: Sequence[_Copy]) -> None:
    """Drop copies that nothing reads any more."""
    read = {view.buffer for step in lowered.steps for view in step.reads()}.union(view.buffer for view in lowered.asked)
    unread = {copy.store: copy.kernel for copy in copies if copy.store.view.buffer not in read}
    for kernel in dict.fromkeys(unread.values()):
        at = lowered.steps.index(kernel)
        left: list[Result] = [store for store in kernel.stores if store not in unread]
        left += [*kernel.reductions, *kernel.scatters]
        if left:
            lowered.steps[at] = smaller = only(kernel, left)
            cut(smaller, lowered.buffers)
        else:
            del lowered.steps[at]
