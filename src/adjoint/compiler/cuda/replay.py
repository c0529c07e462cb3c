"""Programs of many launches, captured as CUDA graphs and replayed: one call of the driver instead of one for each launch. Loops
and branches that depend on numbers are part of a graph where the driver has conditional nodes (see `graph`).

A graph holds the addresses that its kernels read and write. Memory pools tend to return the same addresses again, so a program
keeps a graph for each set of addresses that has occurred twice.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from ...core.errors import DeviceError
from ..lower.step import Branch, Foreign, Lapack, Lowered, Product, Scan, While, WhileVjp, bodies
from ..lower.sweep import Sweep
from .foreign import is_asynchronous
from .launch import Launch
from .libraries import ASYNCHRONOUS
from .tiles import Tile

FEWEST = 8  # launches of a program that is worth a graph
MOST = 8  # graphs of one program; the least recently used are dropped


def launches(lowered: Lowered) -> int | None:
    """How many launches and library calls a program makes; None if that depends on numbers."""
    count = 0
    for step in lowered.steps:
        if isinstance(step, (While, WhileVjp, Branch)):
            return None
        inside = launches(step.body) if isinstance(step, Scan) else 1
        if inside is None:
            return None
        count += inside * (step.length if isinstance(step, Scan) else 1)
    return count


def can_be_captured(lowered: Lowered, device: Any) -> bool:
    """Whether a program runs without synchronising."""

    def can_be(step: Any) -> bool:
        if isinstance(step, (Launch, Tile, Sweep, Product)):
            return True
        if isinstance(step, Lapack):
            return step.routine in ASYNCHRONOUS
        if isinstance(step, Foreign):
            return is_asynchronous(step, device)
        if isinstance(step, Scan):
            return step.length > 0 and can_be_captured(step.body, device)
        is_conditional = isinstance(step, (While, Branch)) and device.has_conditions
        return is_conditional and all(can_be_captured(body, device) for body in bodies(step))

    return all(map(can_be, lowered.steps))


class Replays:
    """The graphs of a program, by the addresses that they hold; None for addresses seen once."""

    def __init__(self, device: Any) -> None:
        self.device = device
        self.refused = ""  # why the program cannot be captured, if that was tried
        self.known: OrderedDict[tuple[int, ...], Callable[[], None] | None] = OrderedDict()

    def run(self, addresses: tuple[int, ...], work: Callable[[], None]) -> None:
        """Do the work, which reads and writes at these addresses."""
        if self.refused:
            work()
            return
        if addresses not in self.known:
            self.known[addresses] = None
            if len(self.known) > MOST:
                self.known.popitem(last=False)
            work()
            return
        graph = self.known[addresses]
        if graph is None:
            try:
                graph = self.known[addresses] = self.device.captured(work)
            except (DeviceError, MemoryError, NotImplementedError, *self.device.failures) as error:
                self.refused = f"{type(error).__name__}: {error}"
                self.known.clear()
                work()  # which fails as well if the reason was another
                return
        self.known.move_to_end(addresses)
        graph()
