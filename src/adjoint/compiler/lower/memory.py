"""Where the intermediate arrays live: one arena, in which a place is used again once its array is read no more."""

from __future__ import annotations

from bisect import insort

from .kernel import Buffer
from .step import Lowered

ALIGNMENT = 64  # bytes: a cache line, and the widest vector


def plan(lowered: Lowered) -> None:
    """Give each local buffer a place: the lowest gap that is free from its first to its last step.

    What a program is given, or gives, has a place already, even if it is local to the program around it.
    """
    given = {*lowered.inputs, *(view.buffer for view in lowered.outputs)}
    first: dict[Buffer, int] = {}
    last: dict[Buffer, int] = {}
    for position, step in enumerate(lowered.steps):
        for view in (*step.reads(), *step.writes()):
            first.setdefault(view.buffer, position)
            last[view.buffer] = position
    asked = [*lowered.outside, *(failed for failed, _ in lowered.failures), *([lowered.guard] if lowered.guard else [])]
    for view in asked:  # when all is done
        last[view.buffer] = len(lowered.steps)
    ending: dict[int, list[Buffer]] = {}
    offsets: dict[Buffer, int] = {}
    taken: list[tuple[int, int]] = []  # pieces in use: where they begin and end
    size = 0
    starting: dict[int, list[Buffer]] = {}
    for buffer, position in first.items():
        if buffer.kind == "local" and buffer not in given:
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
    lowered.offsets, lowered.arena = offsets, size


def _gap(taken: list[tuple[int, int]], length: int) -> int:
    """The lowest place with room."""
    end = 0
    for begin, until in taken:
        if begin - end >= length:
            return end
        end = max(end, until)
    return end
