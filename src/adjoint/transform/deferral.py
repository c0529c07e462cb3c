"""Reverse mode of a function that is being staged: its loops are rolled first, then it is differentiated.

    for _ in range(500): x = step(x)        500 iterations are staged, and become one scan; the tape sees the scan

Otherwise the backward pass of a Python loop would be staged iteration by iteration as well, three times as many equations in all,
and be rolled only afterwards. The derivative of a scan is a scan.
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
    """A tape for a function of these inputs. It is deferred if they are all values of a graph that is being staged.

    A gradient inside a gradient is recorded at once, and so is the rest of the outer one: the loops of second derivatives
    have common subexpressions, which are found while they are equations.
    """
    stage = inputs[0].by if inputs and isinstance(inputs[0], Traced) else None
    if stage is None:
        return Tape(transform, lasting=lasting)
    outer = [trace for trace in around.get() if isinstance(trace, Deferred)]
    for tape in outer:
        if not tape.materialised and not tape.closed:  # closed while the body of a loop or branch is staged
            tape.materialise()
    one = all(isinstance(x, Traced) and x.by is stage for x in inputs)
    if outer or not one or not isinstance(stage, Guarded) or stage.closed:
        return Tape(transform, lasting=lasting)
    return Deferred(transform, stage, lasting)


def finish(tape: Tape, result: Any) -> None:
    """Let a deferred tape record the rolled graph of a result, if loops are found."""
    if not isinstance(tape, Deferred) or tape.materialised:
        return
    stage, first = tape.stage, tape.begin.values
    if any(attempt[0] >= first for attempt in stage.attempts):
        return  # an op that may raise, inside a try statement, stays in its place
    count = len(stage.program.kind) - tape.begin.equations
    is_weak = any(number >= first for number in stage.light)  # results whose types depend on weak Python numbers
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
