"""Memory planning: all intermediate arrays share one arena, and a range is reused after the last read of its array."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable

from .kernel import Buffer
from .step import Lowered

ALIGNMENT = 64  # bytes: a cache line, and the widest vector


def plan(lowered: Lowered) -> None:
    """Give each local buffer an offset in the arena."""
    lowered.offsets, lowered.arena = pack(lowered)


def pack(lowered: Lowered, wanted: Callable[[Buffer], bool] = lambda buffer: True) -> tuple[dict[Buffer, int], int]:
    """An offset for each local buffer that is wanted, and the size of all, in bytes.

    It is the lowest gap that is free from the first to the last step of the buffer. Inputs and outputs of a program already have
    memory, even if they are local to the enclosing program.
    """
    given = {*lowered.inputs, *(view.buffer for view in lowered.outputs)}
    first: dict[Buffer, int] = {}
    last: dict[Buffer, int] = {}
    for position, step in enumerate(lowered.steps):
        for view in (*step.reads(), *step.writes()):
            first.setdefault(view.buffer, position)
            last[view.buffer] = position
    asked = [*lowered.out_of_bounds, *(failed for failed, _ in lowered.failures), *([lowered.guard] if lowered.guard else [])]
    for view in asked:  # at the end
        last[view.buffer] = len(lowered.steps)
    ending: dict[int, list[Buffer]] = {}
    offsets: dict[Buffer, int] = {}
    free = FreeRanges()
    starting: dict[int, list[Buffer]] = {}
    for buffer, position in first.items():
        if buffer.kind == "local" and buffer not in given and wanted(buffer):
            starting.setdefault(position, []).append(buffer)
            ending.setdefault(last[buffer], []).append(buffer)
    for position in range(len(lowered.steps)):
        for buffer in sorted(starting.get(position, ()), key=lambda b: -b.nbytes):
            offsets[buffer] = free.take(_length(buffer))
        for buffer in ending.get(position, ()):
            free.give(offsets[buffer], _length(buffer))
    return offsets, free.size


def _length(buffer: Buffer) -> int:
    return max(ALIGNMENT, -(-buffer.nbytes // ALIGNMENT) * ALIGNMENT)


class FreeRanges:
    """Free ranges of memory, in order. Looking for one takes time in the number of gaps, not of arrays in use."""

    def __init__(self) -> None:
        self.begins, self.ends = [0], [math.inf]
        self.size = 0  # the end of all ranges that were ever taken

    def take(self, length: int) -> int:
        """The lowest offset with room."""
        i = next(i for i, (begin, end) in enumerate(zip(self.begins, self.ends, strict=True)) if end - begin >= length)
        offset = self.begins[i]
        if self.ends[i] - offset == length:
            del self.begins[i], self.ends[i]
        else:
            self.begins[i] += length
        self.size = max(self.size, offset + length)
        return offset

    def give(self, begin: int, length: int) -> None:
        """Free a range; it is joined with the gaps beside it."""
        i, end = bisect_left(self.begins, begin), begin + length
        if self.begins[i] == end:  # there is always a gap above: the last one has no end
            self.begins[i] = begin
        else:
            self.begins.insert(i, begin)
            self.ends.insert(i, end)
        if i and self.ends[i - 1] == begin:
            del self.begins[i], self.ends[i - 1]
