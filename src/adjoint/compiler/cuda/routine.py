"""The steps of a program on a device, or of a body, as actions over a table of addresses.

    launch k1: reads b0, writes b1        action(table): launch k1 at table[slot of b0], table[slot of b1]

Every buffer has a slot in the table. Loops and branches are in `control`.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.errors import OperationError, UnsupportedError
from ...core.types import Type
from ..llvm.lapack import FAILURES
from ..lower.kernel import Buffer, View, size_of
from ..lower.step import Branch, Foreign, Lapack, Lowered, Product, Scan, While, WhileVjp
from ..lower.sweep import Sweep
from . import control, raw, rehearse
from .foreign import REFUSALS, on_gpu, rehearsed
from .launch import Launch
from .schedule import AddAt
from .table import Action, Table, fill, picker
from .text import DeviceKernel
from .threads import Threads
from .tiles import Tile, TileThreads

if TYPE_CHECKING:
    from .program import DeviceProgram


def flags(lowered: Lowered) -> list[tuple[View, int]]:
    """The failure flags of a program, each with its code in ERRORS."""
    return [(view, 1) for view in lowered.out_of_bounds] + [(view, FAILURES[how]) for view, how in lowered.failures]


class DeviceRoutine:
    """The steps of a program, or of a body, as actions."""

    def __init__(self, program: DeviceProgram, lowered: Lowered, empty: bool = False, is_body: bool = False) -> None:
        self.is_body = is_body
        self.program, self.device, self.lowered = program, program.device, lowered
        self.noted: list[tuple[View, int]] = []  # flags of a body, and where they are collected: see `DeviceProgram.noted`
        self.slots: dict[Buffer, int] = {}
        self.inputs = [self.slot(b) for b in lowered.inputs]
        self.outputs = [self.slot(v.buffer) for v in lowered.outputs]
        slots = [*self.inputs, *self.outputs]
        self.is_in_order = slots == list(range(len(slots)))
        self.places = [(self.slot(b), offset) for b, offset in lowered.offsets.items()]
        self.constants: list[Any] = []
        known: list[tuple[int, int]] = []
        for buffer in lowered.buffers:
            if buffer.kind == "constant":
                array = self.device.adopt(buffer.data, Type(buffer.data.shape, buffer.dtype))
                self.constants.append(array)
                known.append((self.slot(buffer), self.device.address(array)))
        self.actions: list[Action] = [] if empty else [self.watched(step) for step in lowered.steps]
        #: The initial table of a call, with the addresses of constants; and last, whether kernels take their blocks backwards.
        self.blank: Table = [0] * (len(self.slots) + 1)
        for slot, address in known:
            self.blank[slot] = address
        self.rest = self.blank[len(slots) :]

    def slot(self, buffer: Buffer) -> int:
        return self.slots.setdefault(buffer, len(self.slots))

    def table(self, given: Sequence[int] = ()) -> Table:
        """A new table, with inputs and outputs at these addresses."""
        if not given:
            return self.blank.copy()
        if self.is_in_order:
            return [*given, *self.blank[len(given) :]]
        table = self.blank.copy()
        fill(table, [*self.inputs, *self.outputs], given)
        return table

    def run(self, table: Table, arena: int) -> None:
        self.place(table, arena)
        self.perform(table)

    def place(self, table: Table, arena: int) -> None:
        """Fill in the addresses of intermediate arrays."""
        for slot, offset in self.places:
            table[slot] = arena + offset

    def perform(self, table: Table) -> None:
        for action in self.actions:
            action(table)
        if self.noted:
            notes = self.program.failures(self.program.notes.start)
            for view, i in self.noted:
                notes[i : i + 1] |= self.array(table, view).reshape(1)

    # -- reading the table --

    def address(self, table: Table, view: View) -> int:
        return table[self.slots[view.buffer]] + view.offset * view.dtype.itemsize

    def addresses(self, table: Table, views: Iterable[View]) -> list[int]:
        return [self.address(table, v) for v in views]

    def array(self, table: Table, view: View) -> Any:
        return self.device.array(view, table[self.slots[view.buffer]])

    def number(self, table: Table, view: View) -> Any:
        """A number on the device, copied to the host; synchronises."""
        return self.device.host(self.array(table, view)).item()

    # -- actions --

    def watched(self, step: Any) -> Action:
        """The action of a step, timed if there is a clock; for loops and branches the steps inside are timed."""
        action, clock = self.action(step), self.program.clock
        if clock is None or isinstance(step, (Scan, While, WhileVjp, Branch)):
            return action
        is_kernel = isinstance(step, (Launch, Tile, Sweep))
        what = f"kernel {self.program.kernels[-1].name}" if is_kernel else str(step).splitlines()[0].rstrip(":")
        return clock.around(f"{what} ({', '.join(step.lines)})" if step.lines else what, action)

    def action(self, step: Any) -> Action:
        for view in (*step.reads(), *step.writes()):
            self.slot(view.buffer)
        kinds: dict[type, Callable[[Any], Action]] = {
            Launch: self.launch,
            Tile: self.tile,
            AddAt: self.add_at,
            Product: self.product,
            Lapack: self.lapack,
            Foreign: self.foreign,
            Scan: functools.partial(control.scan, self),
            Sweep: functools.partial(control.sweep, self),
            While: functools.partial(control.while_loop, self),
            WhileVjp: functools.partial(control.while_vjp, self),
            Branch: functools.partial(control.branch, self),
        }
        if type(step) not in kinds:
            name = type(step).__name__.lower()
            raise UnsupportedError(f"{name} cannot run on a GPU ({', '.join(step.lines)}); compile it for the CPU")
        return kinds[type(step)](step)

    def launch(self, step: Launch) -> Action:
        return self.launched(self.program.kernel(Threads(step, self.is_body)))

    def tile(self, step: Tile) -> Action:
        return self.launched(self.program.kernel(TileThreads(step)))

    def launched(self, kernel: DeviceKernel) -> Action:
        if not kernel.blocks:  # of an empty array
            return lambda table: None
        slots = [self.slot(b) for b in kernel.buffers]
        program, pick, launch = self.program, picker([*slots, *([-1] if kernel.both_ways else [])]), None

        def run(table: Table) -> None:
            nonlocal launch
            if launch is None:  # the functions are loaded when all kernels are written
                launch = program.device.launcher(program.functions[kernel.name], kernel)
            launch(pick(table))

        return run

    def add_at(self, step: AddAt) -> Action:
        """Sort the offsets of rows stably; then one thread per element of the target adds the values of that element.

        Offsets that never change are sorted once.
        """
        xp = self.device.xp
        size, row = step.target.size, step.row
        target = View.whole(step.target, (size // row, row))
        places = View.whole(step.places.buffer, (size_of(step.places.shape),))
        values = View.whole(step.values.buffer, (*places.shape, row))

        def ranked(table: Table) -> tuple[Any, Any]:
            where = self.array(table, places)
            order = xp.argsort(where, kind="stable")
            return order, raw.starts(xp, where, order, size // row, row)

        known: list[tuple[Any, Any]] = []

        def rehearsal() -> None:
            where, out = (rehearse.array(xp, view) for view in (places, target))
            order = xp.argsort(where, kind="stable")
            starts = raw.starts(xp, where, order, len(out), row)
            raw.add_in_order(xp, rehearse.array(xp, values), order, starts, out)

        self.program.rehearsals[rehearse.key("add_at", (places, values, target))] = rehearsal

        def run(table: Table) -> None:
            if step.is_fixed and not known:
                found = ranked(table)
                self.device.wait()  # other streams will read it
                known.append(found)
            order, starts = known[0] if known else ranked(table)
            raw.add_in_order(xp, self.array(table, values), order, starts, self.array(table, target))

        return run

    def product(self, step: Product) -> Action:
        views = (step.left, step.right, step.out)
        multiply, pick = self.program.libraries.product(step), operator.itemgetter(*(self.slots[v.buffer] for v in views))
        return lambda table: multiply(pick(table))

    def lapack(self, step: Lapack) -> Action:
        views = (*step.operands, *step.inout, *step.outs)
        routine = getattr(self.program.libraries, step.routine)
        self.program.rehearsals |= rehearse.of_routine(self.device, step)
        return lambda table: routine(step, *(self.array(table, v) for v in views))

    def foreign(self, step: Foreign) -> Action:
        """A call on the GPU if CuPy has a counterpart of the op, else on the host."""
        there, on_host = on_gpu(step, self.device), self.program.on_host
        if there is None:
            on_host.append(step)
        else:
            self.program.rehearsals |= rehearsed(step, self.device)

        def run(table: Table) -> None:
            nonlocal there
            if there is not None:
                try:
                    given = [self.array(table, o) if isinstance(o, View) else o for o in step.operands]
                    there(given, [self.array(table, view) for view in step.outs])
                except REFUSALS:
                    there = None  # CuPy lacks it; `report()` says so
                    on_host.append(step)
                else:
                    return
            operands = [self.device.host(self.array(table, o))[()] if isinstance(o, View) else o for o in step.operands]
            for i in step.weak:
                operands[i] = operands[i].item()
            try:
                with np.errstate(all="ignore"):
                    result = step.op.impl(*operands, **step.params)
            except Exception as error:
                raise OperationError(f"{step.op.name} failed") from error
            for view, part in zip(step.outs, result if step.op.many else (result,), strict=True):
                self.array(table, view)[...] = self.device.xp.asarray(part)

        return run

    def body(self, lowered: Lowered, empty: bool = False) -> DeviceRoutine:
        """The program inside a step; if `empty`, its buffers only."""
        made, noted = DeviceRoutine(self.program, lowered, empty, is_body=True), self.program.noted
        for view, code in flags(lowered):
            made.noted.append((view, len(noted)))
            noted.append(code)
        return made

    def scratch(self, table: Table, step: Any) -> int:
        return self.address(table, step.scratch[0]) if step.scratch else 0

    def call(self, inputs: Sequence[int], outputs: Sequence[int], scratch: int) -> None:
        """Run a body, with its inputs and outputs at these addresses."""
        self.run(self.table([*inputs, *outputs]), scratch)

    def copy(self, table: Table, sources: Sequence[View], targets: Sequence[View]) -> None:
        for source, target in zip(sources, targets, strict=True):
            self.array(table, target)[...] = self.array(table, source)

    def move(self, views: Sequence[View], sources: Sequence[int], targets: Sequence[int]) -> None:
        """Copy arrays like those of the views from some addresses to others."""
        for view, source, target in zip(views, sources, targets, strict=True):
            whole = View.whole(Buffer(0, view.dtype, size_of(view.shape), "local"), view.shape)
            self.device.array(whole, target)[...] = self.device.array(whole, source)
