"""A lowered program on a device: a list of actions over a table of addresses.

    program = Program(lower(graph), Card())         # or Simulator()
    program(x, y)                                   # arrays of the device in, arrays of the device out

Every buffer of a program has a slot in the table: inputs, outputs, constants, and intermediate arrays, which are places in one
arena. The body of a loop is a routine with a table of its own, in the scratch memory of its step. Launches are asynchronous; the
host waits only where it must know a number: a guard, an index out of bounds, the condition of a loop or a branch.
"""

from __future__ import annotations

import functools
import itertools
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
from .card import Card
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
        self.main = Routine(self, lowered)
        self.functions = device.load(self.module)
        device.wait()  # for the constants, which other streams will read
        self.outputs = [view.type for view in lowered.outputs]
        self.launches = launches(lowered)
        is_long = (self.launches or 0) >= FEWEST and can_be_captured(lowered)
        self.replays = Replays(device) if is_long and clock is None else None
        asked = [*lowered.out_of_bounds, *(view for view, _ in lowered.failures)]
        self.checks = [(view, 1) for view in lowered.out_of_bounds] + [(view, FAILURES[how]) for view, how in lowered.failures]
        self.guard = lowered.guard
        self.is_checked = bool(asked) or self.guard is not None

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
        device, main = self.device, self.main
        outputs = [device.empty(t) for t in self.outputs] if not self.reused else self.results(given)
        table = main.table([*addresses, *map(device.address, outputs)])
        arena = device.bytes(self.lowered.arena) if self.lowered.arena else None
        start = 0 if arena is None else device.address(arena)
        if self.replays is None:
            main.run(table, start)
        else:
            self.replays.run((start, *addresses, *(table[s] for s in main.outputs)), lambda: main.run(table, start))
        if self.is_checked and not self.check(table):
            return MISS
        return tuple(outputs)

    def results(self, given: Mapping[int, Any]) -> list[Any]:
        """Where the results go: to memory of their own, or over an input that was donated."""
        taken = [given.get(self.reused.get(i, -1)) for i in range(len(self.outputs))]
        device = self.device
        return [device.empty(t) if x is None else device.again(x, t) for x, t in zip(taken, self.outputs, strict=True)]

    def timed(self, addresses: Sequence[int]) -> list[tuple[str, int, float]]:
        """What a call with inputs at these addresses spends its time on: a kernel or a step, how often it ran, the seconds."""
        clock = Clock(self.device)
        Program(self.lowered, self.device, self.precision, clock=clock).at(addresses, {})
        return clock.rows()

    def check(self, table: Table) -> bool:
        """Look at what was found out on the way: false if the guards do not hold, an error if something failed."""
        main = self.main
        if self.guard is not None and not main.number(table, self.guard):
            return False
        for view, code in self.checks:
            if main.number(table, view):
                kind, message = ERRORS[code]
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


class Routine:
    """The steps of a program, or of a body, as actions."""

    def __init__(self, program: Program, lowered: Lowered, empty: bool = False) -> None:
        self.program, self.device, self.lowered = program, program.device, lowered
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
        self.blank: Table = [0] * len(self.slots)
        for slot, address in known:
            self.blank[slot] = address

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
        for slot, offset in self.places:
            table[slot] = arena + offset
        for action in self.actions:
            action(table)

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
            WhileVjp: self.unwind,
            Branch: self.branch,
        }
        if type(step) not in kinds:
            name = type(step).__name__.lower()
            raise UnsupportedError(f"{name} has no form on a card ({', '.join(step.lines)}); compile it for the CPU")
        return kinds[type(step)](step)

    def launch(self, step: Launch) -> Action:
        return self.launched(self.program.kernel(Threads(step)))

    def tile(self, step: Tile) -> Action:
        return self.launched(self.program.kernel(TileThreads(step)))

    def launched(self, kernel: Kernel) -> Action:
        if not kernel.blocks:  # of an empty array
            return lambda table: None
        slots = [self.slot(b) for b in kernel.buffers]
        program, launch, name = self.program, self.device.launch, kernel.name

        def run(table: Table) -> None:
            launch(program.functions[name], kernel, [table[s] for s in slots])

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
        return lambda table: libraries.product(step, [table[self.slots[v.buffer]] for v in views])

    def lapack(self, step: Lapack) -> Action:
        views = (*step.operands, *step.inout, *step.outs)
        libraries = self.program.libraries
        if libraries is None:
            return lambda table: linear.on_host(step, [self.array(table, v) for v in views])
        routine = getattr(libraries, step.routine, None)
        if routine is not None:
            return lambda table: routine(step, *(self.array(table, v) for v in views))

        def run(table: Table) -> None:
            arrays = [self.array(table, v) for v in views]
            copies = [self.device.host(a) for a in arrays]
            linear.on_host(step, copies)
            for array, copy in zip(arrays[len(step.operands) :], copies[len(step.operands) :], strict=True):
                array[...] = self.device.xp.asarray(copy)

        return run

    def foreign(self, step: Foreign) -> Action:
        """A call on the host."""

        def run(table: Table) -> None:
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
        return Routine(self.program, lowered, empty)

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
        program, launch, name = self.program, self.device.launch, kernel.name
        inputs, outputs = (*scan.consts, *scan.carries, *scan.rows), (*scan.finals, *scan.stacks)

        def run(table: Table) -> None:
            inside = body.table()
            _fill(inside, body.inputs, [self.address(table, v) for v in inputs])
            _fill(inside, body.outputs, [self.address(table, v) for v in outputs])
            launch(program.functions[name], kernel, [inside[s] for s in slots])

        return run

    def while_loop(self, step: While) -> Action:
        test, body = self.body(step.test), self.body(step.body)
        half = len(step.spare) // 2
        truth = step.test.outputs[0]

        def run(table: Table) -> None:
            at = functools.partial(self.addresses, table)
            carries, spare, scratch = at(step.carries), at(step.spare), self.scratch(table, step)
            places, others = spare[:half], spare[half:]
            found = self.device.bytes(256)
            test_consts, body_consts = at(step.test_consts), at(step.body_consts)
            while True:
                inside = test.table()
                _fill(inside, test.inputs, [*test_consts, *carries])
                _fill(inside, test.outputs, [self.device.address(found)])
                test.run(inside, scratch)
                if not test.number(inside, truth):
                    break
                body.call([*body_consts, *carries], places, scratch)
                carries, places, others = places, others, places
            for view, address in zip(step.finals, carries, strict=True):
                self.array(table, view)[...] = self.device.array(View.whole(view.buffer, view.shape), address)

        return run

    def unwind(self, step: WhileVjp) -> Action:
        """The backward pass of a while loop: see `backend.unwind`. The host reads the number of iterations, and nothing else."""
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
            body = bodies[bool(self.number(table, step.truth))]
            body.call(self.addresses(table, step.operands), self.addresses(table, step.outs), self.scratch(table, step))

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
    """The program of a graph for a device, the current card if none is given: `weak` and `guarded` as for `lower`.

    A call takes the flat arrays of the device (`Card.adopt` makes them) and gives the flat results, or MISS if the guards do not
    hold.
    """
    return Program(lower(graph, weak, guarded), Card() if device is None else device, precision)
