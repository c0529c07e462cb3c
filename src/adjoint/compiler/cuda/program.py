"""A lowered program on a device: a list of actions over a table of addresses.

    program = DeviceProgram(lower(graph), GPU())
    program(x, y)                                   # arrays of the device in, arrays of the device out

Every buffer of a program has a slot in the table: inputs, outputs, constants, and intermediate arrays, which are places in one
arena. The body of a loop is a routine with a separate table, in the scratch memory of its step. Launches are asynchronous; the
host waits only where it needs a number: a guard, an index out of bounds, and, unless the program is recorded as a CUDA graph, the
condition of a loop or a branch. `routine` makes the actions, `control` those of loops and branches.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from ...core.errors import DeviceError
from ...ir.graph import Graph
from ..lower.donate import reusable
from ..lower.kernel import Buffer, View
from ..lower.step import Lowered
from ..runtime.entry import ERRORS, MISS
from .gpu import GPU, Held
from .lowering import lower
from .rehearse import Rehearsals
from .replay import FEWEST, Replays, can_be_captured, launches
from .routine import DeviceRoutine, flags
from .table import Action, Table
from .text import DeviceKernel, DeviceModule
from .threads import Threads
from .tiles import TileThreads


class DeviceProgram:
    """A compiled program; a call takes and returns arrays of its device. Results may be written over the `donated` inputs."""

    def __init__(
        self,
        lowered: Lowered,
        device: Any,
        precision: str = "highest",
        donated: Collection[int] = (),
        clock: Clock | None = None,
    ) -> None:
        self.lowered, self.device, self.precision, self.clock = lowered, device, precision, clock
        self.module = DeviceModule()
        self.kernels: list[DeviceKernel] = []
        self.libraries = device.libraries(precision)
        self.reused = reusable(lowered, donated)  # by output: the input whose memory it takes
        self.noted: list[int] = []  # failures that bodies of loops and branches may have, as codes of ERRORS
        self.notes = threading.local()  # `start`: the address of their flags, in the arena of this thread's call
        self.on_host: list[Any] = []  # steps that are calls on the host
        self.rehearsals: Rehearsals = {}
        self.main = DeviceRoutine(self, lowered)
        with device.beside(self.rehearsals):
            self.functions = device.load(self.module)
        device.wait()  # for the constants, which other streams will read
        self.outputs = [view.type for view in lowered.outputs]
        self.launches = launches(lowered)
        is_long = (self.launches is None or self.launches >= FEWEST) and can_be_captured(lowered, device)
        self.replays = Replays(device) if is_long and clock is None else None
        self.checks = flags(lowered)
        self.guard = lowered.guard
        self.is_checked = bool(self.checks or self.noted) or self.guard is not None
        self.arena = lowered.arena + len(self.noted)
        self.allocate, self.arrays = device.results(self.outputs, self.arena)
        #: Nothing but actions on results and inputs: the fast path of a short program.
        self.is_plain = not (self.reused or self.arena or self.replays or self.is_checked) and self.main.is_in_order

    def kernel(self, threads: Threads | TileThreads) -> DeviceKernel:
        threads.changing |= {b for b in threads.buffers if b.shared}
        made = self.module.add(threads)
        self.kernels.append(made)
        return made

    def __call__(self, *arrays: Any) -> Any:
        """The results, or MISS if the guards do not hold. Arguments are arrays of the device, in order."""
        return self.at([self.device.address(array) for array in arrays], dict(enumerate(arrays)))

    def at(self, addresses: Sequence[int], given: Mapping[int, Any]) -> Any:
        """The results for inputs at these addresses. `given` has the arrays of those that were donated, by number."""
        try:
            if not self.is_plain:
                return self.run(addresses, given)
            held, places, _ = self.allocate()
            table = [*addresses, *places, *self.main.rest]
            for action in self.main.actions:
                action(table)
            return self.arrays(held)
        except MemoryError as error:
            results = sum(t.size * t.dtype.itemsize for t in self.outputs)
            raise MemoryError(
                f"no memory on {self.device.name} {self.device.number} for the {results} bytes of the results and the "
                f"{self.lowered.arena} bytes of intermediate arrays; free some memory and call again ({error})"
            ) from error
        except self.device.failures as error:
            raise DeviceError(
                f"{self.device.name} {self.device.number} has failed: {error}. It may work again in a new process"
            ) from error

    def run(self, addresses: Sequence[int], given: Mapping[int, Any]) -> Any:
        main = self.main
        if self.reused:
            held, places, start = self.over_donated(given)
        else:
            held, places, start = self.allocate()
        table = main.table([*addresses, *places])
        main.place(table, start)
        if self.noted:
            self.notes.start = start + self.lowered.arena
        if self.replays is None:
            self.perform(table)
        else:
            self.replays.run((start, *addresses, *places), lambda: self.perform(table))
        if self.is_checked and not self.check(table, start):
            return MISS
        return tuple(held[0]) if self.reused else self.arrays(held)

    def perform(self, table: Table) -> None:
        if self.noted:
            self.failures(self.notes.start)[...] = False
        self.main.perform(table)

    def failures(self, start: int) -> Any:
        """The failure flags of bodies, at an address."""
        buffer = Buffer(0, np.dtype(bool), len(self.noted), "local")
        return self.device.array(View.whole(buffer, (buffer.size,)), start)

    def over_donated(self, given: Mapping[int, Any]) -> Held:
        """As `allocate`, with results as arrays: over a donated input, or in new memory."""
        taken = [given.get(self.reused.get(i, -1)) for i in range(len(self.outputs))]
        device = self.device
        results = [device.empty(t) if x is None else device.again(x, t) for x, t in zip(taken, self.outputs, strict=True)]
        arena, _, start = device.results((), self.arena).allocate()
        return (results, arena), [device.address(y) for y in results], start

    def timed(self, addresses: Sequence[int]) -> list[tuple[str, int, float]]:
        """Time a call with inputs at these addresses: for each kernel or step, how often it ran and the seconds."""
        clock = Clock(self.device)
        DeviceProgram(self.lowered, self.device, self.precision, clock=clock).at(addresses, {})
        return clock.rows()

    def check(self, table: Table, arena: int) -> bool:
        """Read the flags after a run: false if the guards do not hold, an error if something failed."""
        main = self.main
        if self.guard is not None and not main.number(table, self.guard):
            return False
        found = [code for view, code in self.checks if main.number(table, view)]
        if self.noted:
            notes = self.device.host(self.failures(arena + self.lowered.arena))
            found += [code for code, failed in zip(self.noted, notes, strict=True) if failed]
        if found:
            kind, message = ERRORS[found[0]]
            raise kind(message)
        return True


class Clock:
    """Adds up the time that actions take on a device."""

    def __init__(self, device: Any) -> None:
        self.device = device
        self.marks: list[tuple[str, Any, Any]] = []

    def around(self, what: str, action: Action) -> Action:
        def run(table: Table) -> None:
            begin = self.device.mark()
            action(table)
            self.marks.append((what, begin, self.device.mark()))

        return run

    def rows(self) -> list[tuple[str, int, float]]:
        spent: dict[str, list[float]] = {}
        for what, begin, end in self.marks:
            spent.setdefault(what, []).append(self.device.between(begin, end))
        return [(what, len(times), sum(times)) for what, times in spent.items()]


def compiled(
    graph: Graph,
    device: Any = None,
    *,
    weak: Collection[int] = (),
    guarded: bool = False,
    unread: int = 0,
    precision: str = "highest",
) -> DeviceProgram:
    """The program of a graph for a device, the current GPU if none is given: `weak`, `guarded` and `unread` as for `lower`.

    A call takes the flat arrays of the device (`GPU.adopt` makes them) and returns the flat results, or MISS if the guards do not
    hold.
    """
    return DeviceProgram(lower(graph, weak, guarded, unread), GPU() if device is None else device, precision)
