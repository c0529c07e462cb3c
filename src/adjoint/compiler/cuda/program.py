"""A lowered program on a device: a list of actions over a table of addresses.

    program = Program(lower(graph), GPU())         # or Simulator()
    program(x, y)                                   # arrays of the device in, arrays of the device out

Every buffer of a program has a slot in the table: inputs, outputs, constants, and intermediate arrays, which are places in one
arena. The body of a loop is a routine with a separate table, in the scratch memory of its step. Launches are asynchronous; the
host waits only where it needs a number: a guard, an index out of bounds, and, unless the program is recorded as a CUDA graph, the
condition of a loop or a branch.
"""

from __future__ import annotations

import functools
import itertools
import operator
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ...core.errors import DeviceError, OperationError, UnsupportedError
from ...core.types import Type
from ...ir.graph import Graph
from ...ops.control import segment_length
from ..llvm.lapack import FAILURES
from ..lower.donate import reusable
from ..lower.kernel import Buffer, View, size_of
from ..lower.step import Branch, Foreign, Lapack, Lowered, Product, Scan, While, WhileVjp
from ..lower.sweep import Sweep
from ..runtime.entry import ERRORS, MISS
from . import linear
from .foreign import REFUSALS, on_gpu
from .gpu import GPU, Made
from .launch import Launch
from .loops import Looping
from .lowering import lower
from .replay import FEWEST, Replays, can_be_captured, launches
from .schedule import AddAt
from .text import Kernel, Module
from .threads import Threads
from .tiles import Tile, TileThreads

Table = list[int]
Action = Callable[[Table], None]
_APART = 256  # bytes: arrays begin at multiples of it


class Program:
    """A compiled program; a call takes and gives arrays of its device.

    The inputs `donated` are the program's own: results may be written over them.
    """

    def __init__(
        self,
        lowered: Lowered,
        device: Any,
        precision: str = "highest",
        donated: Collection[int] = (),
        clock: Clock | None = None,
    ) -> None:
        self.lowered, self.device, self.precision, self.clock = lowered, device, precision, clock
        self.module = Module()
        self.kernels: list[Kernel] = []
        self.libraries = device.libraries(precision)
        self.reused = reusable(lowered, donated)  # by output: the input whose memory it takes
        self.noted: list[int] = []  # what bodies of loops and branches may fail with, as codes of ERRORS
        self.notes = threading.local()  # `start`: where the truths of that stand, in the arena of the call of a thread
        self.on_host: list[Any] = []  # steps that are calls on the host
        self.main = Routine(self, lowered)
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
        self.make = device.maker(self.outputs, self.arena)
        #: Nothing but actions on results and inputs: the way of a short program.
        self.is_plain = not (self.reused or self.arena or self.replays or self.is_checked) and self.main.is_in_order

    def kernel(self, threads: Threads | TileThreads) -> Kernel:
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
            return self.run(addresses, given)
        except MemoryError as error:
            results = sum(t.size * t.dtype.itemsize for t in self.outputs)
            raise MemoryError(
                f"no memory on {self.device.name} {self.device.number} for the {results} bytes of the results and the "
                f"{self.lowered.arena} bytes of what is between; free some, and call again ({error})"
            ) from error
        except self.device.failures as error:
            raise DeviceError(
                f"{self.device.name} {self.device.number} has failed: {error}. It may be of use again in a new process"
            ) from error

    def run(self, addresses: Sequence[int], given: Mapping[int, Any]) -> Any:
        main = self.main
        if self.is_plain:
            outputs, places, _, _ = self.make()
            table = [*addresses, *places, *main.rest]
            for action in main.actions:
                action(table)
            return tuple(outputs)
        if self.reused:
            outputs, places, start, _arena = self.results(given)
        else:
            outputs, places, start, _arena = self.make()
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
        return tuple(outputs)

    def perform(self, table: Table) -> None:
        if self.noted:
            self.failures(self.notes.start)[...] = False
        self.main.perform(table)

    def failures(self, start: int) -> Any:
        """The truths of what bodies have failed with, at an address."""
        buffer = Buffer(0, np.dtype(bool), len(self.noted), "local")
        return self.device.array(View.whole(buffer, (buffer.size,)), start)

    def results(self, given: Mapping[int, Any]) -> Made:
        """Where the results go: to memory of their own, or over an input that was donated."""
        taken = [given.get(self.reused.get(i, -1)) for i in range(len(self.outputs))]
        device = self.device
        results = [device.empty(t) if x is None else device.again(x, t) for x, t in zip(taken, self.outputs, strict=True)]
        return results, [device.address(y) for y in results], *device.maker((), self.arena)()[2:]

    def timed(self, addresses: Sequence[int]) -> list[tuple[str, int, float]]:
        """What a call with inputs at these addresses spends its time on: a kernel or a step, how often it ran, the seconds."""
        clock = Clock(self.device)
        Program(self.lowered, self.device, self.precision, clock=clock).at(addresses, {})
        return clock.rows()

    def check(self, table: Table, arena: int) -> bool:
        """Look at what was found out on the way: false if the guards do not hold, an error if something failed."""
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


def flags(lowered: Lowered) -> list[tuple[View, int]]:
    """The truths that say whether something failed, each with its code in ERRORS."""
    return [(view, 1) for view in lowered.out_of_bounds] + [(view, FAILURES[how]) for view, how in lowered.failures]


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


class Routine:
    """The steps of a program, or of a body, as actions."""

    def __init__(self, program: Program, lowered: Lowered, empty: bool = False, is_body: bool = False) -> None:
        self.is_body = is_body
        self.program, self.device, self.lowered = program, program.device, lowered
        self.noted: list[tuple[View, int]] = []  # truths of a body, and where they are collected: see `Program.noted`
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
        self.blank: Table = [0] * len(self.slots)  # what the table of a call begins with: the addresses of constants
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
        _fill(table, [*self.inputs, *self.outputs], given)
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

    # -- what a step finds in the table --

    def address(self, table: Table, view: View) -> int:
        return table[self.slots[view.buffer]] + view.offset * view.dtype.itemsize

    def addresses(self, table: Table, views: Iterable[View]) -> list[int]:
        return [self.address(table, v) for v in views]

    def array(self, table: Table, view: View) -> Any:
        return self.device.array(view, table[self.slots[view.buffer]])

    def number(self, table: Table, view: View) -> Any:
        """A number on the device, for the host: waits for it."""
        return self.device.host(self.array(table, view)).item()

    # -- actions --

    def watched(self, step: Any) -> Action:
        """The action of a step, with a look at the clock if there is one; of loops and branches, their steps are timed."""
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
            Scan: self.scan,
            Sweep: self.sweep,
            While: self.while_loop,
            WhileVjp: self.while_vjp,
            Branch: self.branch,
        }
        if type(step) not in kinds:
            name = type(step).__name__.lower()
            raise UnsupportedError(f"{name} has no form on a GPU ({', '.join(step.lines)}); compile it for the CPU")
        return kinds[type(step)](step)

    def launch(self, step: Launch) -> Action:
        return self.launched(self.program.kernel(Threads(step, self.is_body)))

    def tile(self, step: Tile) -> Action:
        return self.launched(self.program.kernel(TileThreads(step)))

    def launched(self, kernel: Kernel) -> Action:
        if not kernel.blocks:  # of an empty array
            return lambda table: None
        slots = [self.slot(b) for b in kernel.buffers]
        program, pick, launch = self.program, _picker(slots), None

        def run(table: Table) -> None:
            nonlocal launch
            if launch is None:  # the functions are loaded when all kernels are written
                launch = program.device.launcher(program.functions[kernel.name], kernel)
            launch(pick(table))

        return run

    def add_at(self, step: AddAt) -> Action:
        """Sort the places, keeping the order of equal ones; then a thread for each element of the target adds what is its own.

        Places that never change are sorted once.
        """
        xp = self.device.xp
        count, size = size_of(step.places.shape), step.target.size
        target = View.whole(step.target, (size,))
        places, values = (View(v.buffer, (count,), (1,)) for v in (step.places, step.values))

        def ranked(table: Table) -> tuple[Any, Any]:
            where = self.array(table, places)
            order = xp.argsort(where, kind="stable")
            return order, xp.searchsorted(where[order], xp.arange(size + 1))

        known: list[tuple[Any, Any]] = []

        def run(table: Table) -> None:
            if step.is_fixed and not known:
                found = ranked(table)
                self.device.wait()  # other streams will read it
                known.append(found)
            order, starts = known[0] if known else ranked(table)
            add_in_order(self.program, self.array(table, values), order, starts, self.array(table, target))

        return run

    def product(self, step: Product) -> Action:
        libraries = self.program.libraries
        views = (step.left, step.right, step.out)
        if libraries is None:
            return lambda table: linear.product_on_host(step, *(self.array(table, v) for v in views))
        multiply, pick = libraries.product(step), operator.itemgetter(*(self.slots[v.buffer] for v in views))
        return lambda table: multiply(pick(table))

    def lapack(self, step: Lapack) -> Action:
        views = (*step.operands, *step.inout, *step.outs)
        libraries = self.program.libraries
        if libraries is None:
            return lambda table: linear.on_host(step, [self.array(table, v) for v in views])
        routine = getattr(libraries, step.routine)
        return lambda table: routine(step, *(self.array(table, v) for v in views))

    def foreign(self, step: Foreign) -> Action:
        """A call on the GPU if CuPy has a counterpart of the op, else on the host."""
        there, on_host = on_gpu(step, self.device), self.program.on_host
        if there is None:
            on_host.append(step)

        def run(table: Table) -> None:
            nonlocal there
            if there is not None:
                try:
                    result = there([self.array(table, o) if isinstance(o, View) else o for o in step.operands])
                    for view, part in zip(step.outs, result, strict=True):
                        self.array(table, view)[...] = part
                except REFUSALS:
                    there = None  # CuPy does not do it; `report()` says so
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

    def body(self, lowered: Lowered, empty: bool = False) -> Routine:
        """The program inside a step; if `empty`, its buffers only."""
        made, noted = Routine(self.program, lowered, empty, is_body=True), self.program.noted
        for view, code in flags(lowered):
            made.noted.append((view, len(noted)))
            noted.append(code)
        return made

    def scratch(self, table: Table, step: Any) -> int:
        return self.address(table, step.scratch[0]) if step.scratch else 0

    def scan(self, step: Scan) -> Action:
        """Iterations write their carries alternately to two places, so that the last one writes to the final one."""
        body = self.body(step.body)
        rows = [_row_size(v) for v in (*step.rows, *step.stacks)]
        count = len(step.rows)

        def run(table: Table) -> None:
            at = functools.partial(self.addresses, table)
            finals, spare, carries, consts = at(step.finals), at(step.spare), at(step.carries), at(step.consts)
            if not step.length:
                self.copy(table, step.carries, step.finals)
                return
            moving, inside, scratch = at((*step.rows, *step.stacks)), body.table(), self.scratch(table, step)
            for i in reversed(range(step.length)) if step.reverse else range(step.length):
                done = step.length - i if step.reverse else i + 1  # with this iteration
                targets = finals if (step.length - done) % 2 == 0 else spare
                moved = [p + i * size for p, size in zip(moving, rows, strict=True)]
                _fill(inside, body.inputs, [*consts, *carries, *moved[:count]])
                _fill(inside, body.outputs, [*targets, *moved[count:]])
                body.run(inside, scratch)
                carries = targets

        return run

    def sweep(self, step: Sweep) -> Action:
        """One launch. The buffers of the body are those of the scan, its constants as they are."""
        scan, body = step.scan, self.body(step.scan.body, empty=True)
        kernel = self.program.kernel(Looping(step))
        slots = [body.slot(b) for b in kernel.buffers]
        program, pick = self.program, _picker(slots)
        inputs, outputs = (*scan.consts, *scan.carries, *scan.rows), (*scan.finals, *scan.stacks)

        def run(table: Table) -> None:
            inside = body.table()
            _fill(inside, body.inputs, [self.address(table, v) for v in inputs])
            _fill(inside, body.outputs, [self.address(table, v) for v in outputs])
            program.device.launcher(program.functions[kernel.name], kernel)(pick(inside))

        return run

    def while_loop(self, step: While) -> Action:
        test, body = self.body(step.test), self.body(step.body)
        half = len(step.spare) // 2
        truth = step.test.outputs[0]

        def holds(table: Table, carries: Sequence[int], found: int, scratch: int) -> Table:
            """Run the test, which leaves its truth at an address."""
            inside = test.table()
            _fill(inside, test.inputs, [*self.addresses(table, step.test_consts), *carries])
            _fill(inside, test.outputs, [found])
            test.run(inside, scratch)
            return inside

        def run(table: Table) -> None:
            at = functools.partial(self.addresses, table)
            carries, spare, scratch = at(step.carries), at(step.spare), self.scratch(table, step)
            places, others, consts = spare[:half], spare[half:], at(step.body_consts)
            memory = self.device.bytes(_APART)
            found = self.device.address(memory)
            graph = self.device.recording()
            if graph is not None:
                # A recorded iteration always reads and writes at the same addresses.
                self.move(step.carries, carries, places)

                def iterate() -> None:
                    body.call([*consts, *places], others, scratch)
                    self.move(step.carries, others, places)
                    holds(table, places, found, scratch)

                holds(table, places, found, scratch)
                graph.repeat(found, iterate)
                carries = places
            else:
                while test.number(holds(table, carries, found, scratch), truth):
                    body.call([*consts, *carries], places, scratch)
                    carries, places, others = places, others, places
            self.move(step.finals, carries, at(step.finals))

        return run

    def move(self, views: Sequence[View], sources: Sequence[int], targets: Sequence[int]) -> None:
        """Copy arrays like those of the views from some addresses to others."""
        for view, source, target in zip(views, sources, targets, strict=True):
            whole = View.whole(Buffer(0, view.dtype, size_of(view.shape), "local"), view.shape)
            self.device.array(whole, target)[...] = self.device.array(whole, source)

    def while_vjp(self, step: WhileVjp) -> Action:
        """The backward pass of a while loop: see `llvm.while_vjp`. The host reads the number of iterations, and nothing else."""
        forward, pull = self.body(step.step), self.body(step.pull)
        offsets, record = _record(step.carries)

        def carried(state: int) -> list[int]:
            return [state + offset for offset in offsets]

        def run(table: Table) -> None:
            count = int(self.number(table, step.count))
            at = functools.partial(self.addresses, table)
            consts, parts, scratch = at(step.consts), at(step.parts), self.scratch(table, step)
            for total in step.totals:
                self.array(table, total)[...] = 0
            self.copy(table, step.cotangents, step.finals)
            if count <= 0:
                return
            length = count if step.checkpoint is None else segment_length(count, step.checkpoint)
            segments = -(-count // length)
            memory = self.device.bytes((segments + length) * record)  # a state for each segment, and those of one segment
            start = self.device.address(memory)
            marks = [start + i * record for i in range(segments)]
            states = [start + (segments + i) * record for i in range(length)]
            iterate = functools.partial(forward.call, scratch=scratch)
            for view, address in zip(step.carries, carried(marks[0]), strict=True):
                self.device.array(View.whole(view.buffer, view.shape), address)[...] = self.array(table, view)
            for mark, following in itertools.pairwise(marks):
                state = mark
                for target in [*states[1:], following]:
                    iterate([*consts, *carried(state)], carried(target))
                    state = target
            cotangents, others = at(step.finals), at(step.spare)
            for k in reversed(range(segments)):
                reached = [marks[k], *states[1 : min(length, count - k * length)]]
                for state, target in itertools.pairwise(reached):
                    iterate([*consts, *carried(state)], carried(target))
                for state in reversed(reached):
                    pull.call([*consts, *carried(state), *cotangents], [*parts, *others], scratch)
                    cotangents, others = others, cotangents
                    for total, part in zip(step.totals, step.parts, strict=True):
                        self.array(table, total)[...] += self.array(table, part)
            if count % 2:
                self.copy(table, step.spare, step.finals)

        return run

    def call(self, inputs: Sequence[int], outputs: Sequence[int], scratch: int) -> None:
        """Run a body, with its inputs and outputs at these addresses."""
        self.run(self.table([*inputs, *outputs]), scratch)

    def branch(self, step: Branch) -> Action:
        bodies = {True: self.body(step.true), False: self.body(step.false)}

        def run(table: Table) -> None:
            operands, outs = self.addresses(table, step.operands), self.addresses(table, step.outs)
            scratch, graph = self.scratch(table, step), self.device.recording()
            if graph is None:
                bodies[bool(self.number(table, step.truth))].call(operands, outs, scratch)
            else:
                work = [functools.partial(bodies[truth].call, operands, outs, scratch) for truth in (True, False)]
                graph.choose(self.address(table, step.truth), *work)

        return run

    def copy(self, table: Table, sources: Sequence[View], targets: Sequence[View]) -> None:
        for source, target in zip(sources, targets, strict=True):
            self.array(table, target)[...] = self.array(table, source)


def add_in_order(program: Program, values: Any, order: Any, starts: Any, target: Any) -> None:
    """target[k] += values[order[i]] for i from starts[k] to starts[k + 1], one after the other."""
    xp = program.device.xp
    if xp is np:
        np.add.at(target, np.repeat(np.arange(target.size), np.diff(starts)), values[order])
    else:
        kind = {"float64": "double", "float32": "float", "int64": "long long", "int32": "int"}[target.dtype.name]
        _segments(xp, kind)(((target.size + 255) // 256,), (256,), (values, order, starts, target, np.int64(target.size)))


_SOURCE = """extern "C" __global__ void add(const T* v, const long long* order, const long long* starts, T* out, long long n) {
  long long k = blockIdx.x * 256LL + threadIdx.x;
  if (k >= n) return;
  T total = out[k];
  for (long long i = starts[k]; i < starts[k + 1]; ++i) total = total + v[order[i]];
  out[k] = total;
}"""


@functools.cache
def _segments(xp: Any, kind: str) -> Any:
    return xp.RawKernel(_SOURCE.replace("T ", f"{kind} ").replace("T*", f"{kind}*"), "add")


def _picker(slots: Sequence[int]) -> Callable[[Table], Sequence[int]]:
    """What stands in some slots of a table."""
    if len(slots) == 1:
        (slot,) = slots
        return lambda table: (table[slot],)
    return operator.itemgetter(*slots)


def _fill(table: Table, slots: Sequence[int], addresses: Sequence[int]) -> None:
    for slot, address in zip(slots, addresses, strict=True):
        table[slot] = address


def _row_size(view: View) -> int:
    """Bytes from one row to the next."""
    return view.dtype.itemsize * size_of(view.shape[1:])


def _record(views: Sequence[View]) -> tuple[list[int], int]:
    """Where arrays stand in a record of all of them, each as in memory of its own; and the bytes of the record."""
    offsets, end = [], 0
    for view in views:
        offsets.append(end)
        end += -(-view.buffer.nbytes // _APART) * _APART
    return offsets, max(end, _APART)


def compiled(
    graph: Graph, device: Any = None, *, weak: Collection[int] = (), guarded: bool = False, precision: str = "highest"
) -> Program:
    """The program of a graph for a device, the current GPU if none is given: `weak` and `guarded` as for `lower`.

    A call takes the flat arrays of the device (`GPU.adopt` makes them) and gives the flat results, or MISS if the guards do not
    hold.
    """
    return Program(lower(graph, weak, guarded), GPU() if device is None else device, precision)
