"""Loops and branches of a program on a device: each step becomes an action that runs its body again and again.

A loop whose length is known is launched from Python, iteration by iteration. The condition of a `while` or a `cond` is a flag on
the device: while a CUDA graph is recorded it becomes a conditional node, otherwise the host reads it back.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...ops.control import segment_length
from ..lower.kernel import View, size_of
from ..lower.step import Branch, Scan, While, WhileVjp
from ..lower.sweep import Sweep
from .loops import Looping
from .table import Action, Table, fill, picker

if TYPE_CHECKING:
    from .routine import DeviceRoutine

_APART = 256  # bytes: arrays begin at multiples of it


def scan(routine: DeviceRoutine, step: Scan) -> Action:
    """Iterations alternate between two buffers for the carries, such that the last one writes to the final buffer; and between
    the orders of the blocks, so that what one has just written is read while it is in the cache."""
    body = routine.body(step.body)
    rows = [_row_size(v) for v in (*step.rows, *step.stacks)]
    count = len(step.rows)

    def run(table: Table) -> None:
        at = functools.partial(routine.addresses, table)
        finals, spare, carries, consts = at(step.finals), at(step.spare), at(step.carries), at(step.consts)
        if not step.length:
            routine.copy(table, step.carries, step.finals)
            return
        moving, inside, scratch = at((*step.rows, *step.stacks)), body.table(), routine.scratch(table, step)
        for i in reversed(range(step.length)) if step.reverse else range(step.length):
            done = step.length - i if step.reverse else i + 1  # with this iteration
            targets = finals if (step.length - done) % 2 == 0 else spare
            moved = [p + i * size for p, size in zip(moving, rows, strict=True)]
            fill(inside, body.inputs, [*consts, *carries, *moved[:count]])
            fill(inside, body.outputs, [*targets, *moved[count:]])
            inside[-1] = i % 2
            body.run(inside, scratch)
            carries = targets

    return run


def sweep(routine: DeviceRoutine, step: Sweep) -> Action:
    """One launch. The buffers of the body are those of the scan; constants stay."""
    scan, body = step.scan, routine.body(step.scan.body, empty=True)
    kernel = routine.program.kernel(Looping(step))
    slots = [body.slot(b) for b in kernel.buffers]
    program, pick = routine.program, picker(slots)
    inputs, outputs = (*scan.consts, *scan.carries, *scan.rows), (*scan.finals, *scan.stacks)

    def run(table: Table) -> None:
        inside = body.table()
        fill(inside, body.inputs, [routine.address(table, v) for v in inputs])
        fill(inside, body.outputs, [routine.address(table, v) for v in outputs])
        program.device.launcher(program.functions[kernel.name], kernel)(pick(inside))

    return run


def while_loop(routine: DeviceRoutine, step: While) -> Action:
    test, body = routine.body(step.test), routine.body(step.body)
    half = len(step.spare) // 2
    truth = step.test.outputs[0]

    def holds(table: Table, carries: Sequence[int], found: int, scratch: int) -> Table:
        """Run the test, which writes its flag to an address."""
        inside = test.table()
        fill(inside, test.inputs, [*routine.addresses(table, step.test_consts), *carries])
        fill(inside, test.outputs, [found])
        test.run(inside, scratch)
        return inside

    def run(table: Table) -> None:
        at = functools.partial(routine.addresses, table)
        carries, spare, scratch = at(step.carries), at(step.spare), routine.scratch(table, step)
        places, others, consts = spare[:half], spare[half:], at(step.body_consts)
        memory = routine.device.bytes(_APART)
        found = routine.device.address(memory)
        graph = routine.device.recording()
        if graph is not None:
            # A recorded iteration always reads and writes at the same addresses.
            routine.move(step.carries, carries, places)

            def iterate() -> None:
                body.call([*consts, *places], others, scratch)
                routine.move(step.carries, others, places)
                holds(table, places, found, scratch)

            holds(table, places, found, scratch)
            graph.repeat(found, iterate)
            carries = places
        else:
            while test.number(holds(table, carries, found, scratch), truth):
                body.call([*consts, *carries], places, scratch)
                carries, places, others = places, others, places
        routine.move(step.finals, carries, at(step.finals))

    return run


def while_vjp(routine: DeviceRoutine, step: WhileVjp) -> Action:
    """The backward pass of a while loop: see `llvm.while_vjp`. The host reads only the number of iterations."""
    forward, pull = routine.body(step.step), routine.body(step.pull)
    offsets, record = _record(step.carries)

    def carried(state: int) -> list[int]:
        return [state + offset for offset in offsets]

    def run(table: Table) -> None:
        count = int(routine.number(table, step.count))
        at = functools.partial(routine.addresses, table)
        consts, parts, scratch = at(step.consts), at(step.parts), routine.scratch(table, step)
        for total in step.totals:
            routine.array(table, total)[...] = 0
        routine.copy(table, step.cotangents, step.finals)
        if count <= 0:
            return
        length = count if step.checkpoint is None else segment_length(count, step.checkpoint)
        segments = -(-count // length)
        memory = routine.device.bytes((segments + length) * record)  # a state for each segment, and those of one segment
        start = routine.device.address(memory)
        marks = [start + i * record for i in range(segments)]
        states = [start + (segments + i) * record for i in range(length)]
        iterate = functools.partial(forward.call, scratch=scratch)
        for view, address in zip(step.carries, carried(marks[0]), strict=True):
            routine.device.array(View.whole(view.buffer, view.shape), address)[...] = routine.array(table, view)
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
                    routine.array(table, total)[...] += routine.array(table, part)
        if count % 2:
            routine.copy(table, step.spare, step.finals)

    return run


def branch(routine: DeviceRoutine, step: Branch) -> Action:
    bodies = {True: routine.body(step.true), False: routine.body(step.false)}

    def run(table: Table) -> None:
        operands, outs = routine.addresses(table, step.operands), routine.addresses(table, step.outs)
        scratch, graph = routine.scratch(table, step), routine.device.recording()
        if graph is None:
            bodies[bool(routine.number(table, step.truth))].call(operands, outs, scratch)
        else:
            work = [functools.partial(bodies[truth].call, operands, outs, scratch) for truth in (True, False)]
            graph.choose(routine.address(table, step.truth), *work)

    return run


def _row_size(view: View) -> int:
    """Bytes from one row to the next."""
    return view.dtype.itemsize * size_of(view.shape[1:])


def _record(views: Sequence[View]) -> tuple[list[int], int]:
    """The offsets of arrays in a record of all of them, each aligned as a separate allocation, and the size of the record."""
    offsets, end = [], 0
    for view in views:
        offsets.append(end)
        end += -(-view.buffer.nbytes // _APART) * _APART
    return offsets, max(end, _APART)
