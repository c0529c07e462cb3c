"""Reverse mode of a function that is being written down: its loops are found first, then it is differentiated.

    for _ in range(500): x = step(x)        500 turns are written, and become one scan; the tape sees the scan

The backward pass of a Python loop would be written turn by turn as well, three times as much in all, and found to be a loop only
afterwards. A scan has a derivative, which is a scan again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.bind import Traced, around
from ..core.tree import flatten
from ..core.types import Value
from ..eager.tape import Tape
from ..rewrite.loops import roll
from ..rewrite.loops.roll import LEAST_SAVING
from ..rewrite.simplify import dead_code
from ..staging.deferred import Deferred
from ..staging.guard import Guarded


def tape_for(inputs: Sequence[Value], transform: str, lasting: bool = False) -> Tape:
    """A tape for a function of these inputs. It is deferred if they are all values of a program that is being written.

    A gradient inside of a gradient is recorded as it goes, and so is the rest of the outer one: the loops of second derivatives
    share what they compute, which is seen best in equations.
    """
    stage = inputs[0].by if inputs and isinstance(inputs[0], Traced) else None
    if stage is None:
        return Tape(transform, lasting=lasting)
    outer = [trace for trace in around.get() if isinstance(trace, Deferred)]
    for tape in outer:
        if not tape.settled and not tape.closed:  # else a branch is being written, where nothing is done to it
            tape.settle()
    one = all(isinstance(x, Traced) and x.by is stage for x in inputs)
    if outer or not one or not isinstance(stage, Guarded) or stage.closed:
        return Tape(transform, lasting=lasting)
    return Deferred(transform, stage, lasting)


def finish(tape: Tape, result: Any) -> None:
    """Let the tape see a short program for what gives a result, if the function was written down and there is one."""
    if not isinstance(tape, Deferred) or tape.settled:
        return
    stage, first = tape.stage, tape.begin.values
    if any(attempt[0] >= first for attempt in stage.attempts):
        return  # what may fail, and be caught, stays where it was written
    count = len(stage.program.kind) - tape.begin.equations
    is_weak = any(number >= first for number in stage.light)  # what depends on Python numbers being weak stays as it is
    is_long = count >= LEAST_SAVING and not is_weak
    if not (is_long or tape.has_bodies):
        return
    condition = stage.holds(first)
    wanted = [n for n in dict.fromkeys(map(tape.number, [*flatten(result)[0], condition])) if n >= first]
    graph, before = tape.segment(wanted)
    graph = dead_code(graph)
    if is_long and (rolled := roll(graph, [i for i, n in enumerate(before) if n in stage.light])).loops:
        tape.run(rolled.graph, before, wanted)
    elif tape.has_bodies:
        tape.run(graph, before, wanted)
    if condition is not None:
        stage.require(tape.leave(condition), first)
