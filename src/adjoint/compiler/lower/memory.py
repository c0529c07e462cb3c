"""Memory planning: all intermediate arrays share one arena, and a range is reused after the last read of its array."""

from __future__ import annotations

from bisect import insort
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
    taken: list[tuple[int, int]] = []  # ranges in use
    size = 0
    starting: dict[int, list[Buffer]] = {}
    for buffer, position in first.items():
        if buffer.kind == "local" and buffer not in given and wanted(buffer):
            starting.setdefault(position, []).append(buffer)
            ending.setdefault(last[buffer], []).append(buffer)
    for position in range(len(lowered.steps)):
        for buffer in sorted(starting.get(position, ()), key=lambda b: -b.nbytes):
            length = max(ALIGNMENT, -(-buffer.nbytes // ALIGNMENT) * ALIGNMENT)
            offset = _gap(taken, length)
            insort(taken, (offset, offset + length))
            offsets[buffer] = offset
            size = max(size, offset + length)
        for buffer in ending.get(position, ()):
            length = max(ALIGNMENT, -(-buffer.nbytes // ALIGNMENT) * ALIGNMENT)
            taken.remove((offsets[buffer], offsets[buffer] + length))
    return offsets, size


def _gap(taken: list[tuple[int, int]], length: int) -> int:
    """The lowest offset with room."""
    end = 0
    for begin, until in taken:
        if begin - end >= length:
            return end
        end = max(end, until)
    return end
