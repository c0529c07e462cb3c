"""Programs of many launches, captured as CUDA graphs and replayed: one call of the driver instead of one for each launch.

A graph holds the addresses of what its kernels read and write. Memory pools hand out the same addresses again and again, so a
program keeps a graph for each set of addresses that it has met twice.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from ..lower.step import Branch, Lowered, Scan, While, WhileVjp
from ..lower.sweep import Sweep
from .launch import Launch
from .tiles import Tile

FEWEST = 8  # launches of a program that is worth a graph
MOST = 8  # graphs of one program; those that were not used for longest go


def launches(lowered: Lowered) -> int | None:
    """How many launches and calls of libraries a program makes; None if that depends on numbers."""
    count = 0
    for step in lowered.steps:
        if isinstance(step, (While, WhileVjp, Branch)):
            return None
        inside = launches(step.body) if isinstance(step, Scan) else 1
        if inside is None:
            return None
        count += inside * (step.length if isinstance(step, Scan) else 1)
    return count


def can_be_captured(lowered: Lowered) -> bool:
    """Whether a program is made of kernels alone: CuPy captures no calls of libraries, and the memory they take would be gone."""
    return all(
        isinstance(step, (Launch, Tile, Sweep)) or (isinstance(step, Scan) and step.length > 0 and can_be_captured(step.body))
        for step in lowered.steps
    )


class Replays:
    """The graphs of a program, by the addresses that they hold; None for addresses that were met once."""

    def __init__(self, device: Any) -> None:
        self.device = device
        self.known: OrderedDict[tuple[int, ...], Callable[[], None] | None] = OrderedDict()

    def run(self, addresses: tuple[int, ...], work: Callable[[], None]) -> None:
        """Do the work, which reads and writes at these addresses."""
        if addresses not in self.known:
            self.known[addresses] = None
            if len(self.known) > MOST:
                self.known.popitem(last=False)
            work()
            return
        graph = self.known[addresses] or self.device.captured(work)
        self.known[addresses] = graph
        self.known.move_to_end(addresses)
        graph()
