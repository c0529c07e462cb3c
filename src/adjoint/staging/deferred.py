"""A tape over a graph that is being staged, which makes its nodes when the function has returned.

    for _ in range(500): x = step(x)        500 iterations are staged, and become one scan; the tape sees the scan

Under jit(grad(f)) f is staged, then its loops are rolled (`finish`), then the short graph is differentiated: the derivative of a
scan is a scan. Otherwise the backward pass would be staged iteration by iteration as well, three times as many equations in all,
and be rolled only afterwards.

The function runs as under a `Tape`. Since the stage keeps every equation, nothing is recorded meanwhile: the nodes can be made
from the equations later (`materialise`). If the loops of what was staged (`segment`) have been rolled, the nodes are made from
the short graph instead (`run`). Asking for a node early (a custom rule does) materialises the tape, which is an ordinary `Tape`
from then on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..core.bind import FRESH, Traced, around, class_of
from ..core.errors import in_a_try
from ..core.op import Constant, Elementwise, Op, Structured
from ..core.tree import flatten
from ..core.types import PYTHON_NUMBERS, Value, dtype_of
from ..derive import TYPE, VALUE, plan
from ..eager.record import at_once
from ..eager.repeated import rates
from ..eager.tape import Node, Outputs, Tape, save
from ..ir.columns import Columns
from ..ir.edit import dead_code
from ..ir.graph import Graph
from ..rewrite.saving import is_long_enough
from .guard import Guarded
from .python import strengthened
from .unread import unread


def tape_for(inputs: Sequence[Value], transform: str, lasting: bool = False) -> Tape:
    """The tape of a function of these inputs. It is deferred if they are all values of one graph that is being staged.

    A gradient inside a gradient is recorded at once, and so is the rest of the outer one: the loops of second derivatives
    have common subexpressions, which are found while they are equations.
    """
    if not inputs or not isinstance(inputs[0], Traced):
        return Tape(transform, lasting=lasting)
    stage = inputs[0].by
    outer = [trace for trace in around.get() if isinstance(trace, Deferred)]
    for tape in outer:
        if not tape.materialised and not tape.closed:  # closed while the body of a loop or branch is staged
            tape.materialise()
    one = all(isinstance(x, Traced) and x.by is stage for x in inputs)
    if outer or not one or not isinstance(stage, Guarded) or stage.closed:
        return Tape(transform, lasting=lasting)
    return Deferred(transform, stage, lasting)


class Mark(NamedTuple):
    """Where the columns of a program end."""

    equations: int
    operands: int
    integers: int
    values: int


@at_once
class Deferred(Tape):
    """One recording. `value` is staged; `aux` is None while the node is not made."""

    __slots__ = ("begin", "has_bodies", "leaves", "light", "materialised", "moved", "nodes", "stage")

    def __init__(self, name: str, stage: Guarded, lasting: bool = False) -> None:
        super().__init__(name, lasting=lasting)
        self.complicate()
        self.stage = stage
        self.light = stage.light  # the values that are Python numbers
        self.leaves: dict[int, Traced] = {}  # these and all others by value number in the program
        self.nodes: dict[int, Node] = {}
        self.moved: dict[int, Value] = {}  # values of the short program
        self.has_bodies = False  # an op was run that holds a graph
        self.materialised = False
        self.begin = self._end()

    def _end(self) -> Mark:
        program = self.stage.program
        return Mark(len(program.kind), len(program.operands), len(program.integers), len(program.type_of))

    def leaf(self, value: Value, kind: type[Node] = Node) -> Traced:
        """A differentiated variable. It is distinct from its initial value, which the function may see as well."""
        leaf = super().leaf(self.stage.alias(value), kind)
        number = leaf.underlying.aux[0]
        self.leaves[number] = Traced(self, leaf.underlying, leaf.aux)  # the function may write to its argument
        self.nodes[number] = leaf.aux
        self.begin = self._end()
        return leaf

    def operate(self, name: str, run: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """An operator or ufunc in user code; between Python numbers a ufunc gives NumPy scalars."""
        if name == "ufunc" and all(class_of(a) in PYTHON_NUMBERS for a in args):
            args = tuple(map(strengthened, args))
        return run(*args)

    def process(self, op: Op, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        if self.materialised:
            return self.record(op, args, params)
        stage = self.stage
        values: list[Any] = []
        mask, bit = 0, 1
        is_direct = True
        for a in args:
            if type(a) is Traced and a.by is self:
                mask |= bit
                a = a.underlying
            elif type(a) not in PYTHON_NUMBERS and isinstance(a, Traced):
                if a.by is self:  # a view
                    mask |= bit
                    a = a.underlying
                elif a.by is FRESH:
                    a = a.underlying
                if isinstance(a, Traced) and a.by is not stage:
                    is_direct = False
            values.append(a)
            bit += bit
        if type(op) is Elementwise and is_direct:  # most ops: one equation with one result
            y = stage.process(op, values, params)
            op.derived.get((len(values), mask)) or plan(op, len(values), mask)  # raises if there is no derivative
            return Traced(self, y, None)
        may_be_caught = isinstance(op, Structured) and in_a_try(stage.depth)  # that a body has no derivative, which a node says
        if not is_direct or may_be_caught:  # or it depends on traces outside the program
            self.materialise()
            return self.record(op, args, params)
        y = stage.process(op, values, params)
        if isinstance(op, Constant):
            return y
        if isinstance(op, Structured):
            self.has_bodies = True
        else:
            key = (len(values), mask)
            op.derived.get(key) or plan(op, *key)  # raises if there is no derivative
        if op.many:
            rates(op, y, params)  # adds a guard that no eigenvalue is repeated
            return tuple([Traced(self, part, None) if dtype_of(part).kind in "fc" else part for part in y])
        return Traced(self, y, None)

    # -- nodes --------------------------------------------------------------------------------------------------

    def record(self, op: Op, args: Iterable[Any], params: dict[str, Any]) -> Any:
        """As a tape does."""
        return super().process(op, tuple([self.recorded(a) for a in args]), params)

    def recorded(self, x: Any) -> Any:
        """A value with its node, if it is one of this tape."""
        if not isinstance(x, Traced) or x.by is not self or x.aux is not None:
            return x
        node = self.node(x)
        return x.underlying if node is None else Traced(self, x.underlying, node)

    def node(self, x: Value) -> Node | None:
        """The node of a value; None of one that depends on no variable, as some results of a branch do not."""
        if not isinstance(x, Traced) or x.by is not self:
            return None
        if not self.materialised:  # of a variable too: what a custom rule makes of its node is in no equation
            self.materialise()
        return self.nodes.get(x.underlying.aux[0]) if x.aux is None else x.aux

    def materialise(self) -> None:
        """Make the nodes of all that was done so far."""
        self.materialised = True
        program, nodes = self.stage.program, self.nodes
        known: dict[int, Any] = {}

        def value(operand: int) -> Any:
            if operand not in known:
                known[operand] = self.value(operand) if operand >= 0 else program.literals[-1 - operand].value
            return known[operand]

        for number, operands, integers, first in self._equations():
            mask, bit = 0, 1
            for o in operands:
                if o in nodes:
                    mask |= bit
                bit += bit
            kind = program.kinds[number]
            op = kind.op
            if not mask or isinstance(op, Constant):
                continue
            params: Any = kind.params_with(integers)
            parents = [nodes[o] for o in operands if o in nodes]
            if op.many:
                self._materialise_many(op, [value(o) for o in operands], parents, mask, params, first, len(kind.types))
                continue
            step = op.derived.get((len(operands), mask)) or plan(op, len(operands), mask)
            saved = tuple(
                [
                    value(o) if what == VALUE else program.type_of_operand(o) if what == TYPE else None
                    for what, o in zip(step.keep, (first, *operands), strict=True)
                ]
            )
            (type_,) = kind.types
            node = nodes[first] = Node(op, parents, step, saved, params, type_.shape, type_.dtype, False)
            node.line = program.line_of[first]

    def _materialise_many(
        self, op: Op, values: list[Any], parents: list[Node], mask: int, params: Any, first: int, count: int
    ) -> None:
        """Make the nodes of an op with several results."""
        if isinstance(op, Structured):
            parts = self.structured(op, values, parents, mask, params)
        else:
            ys = tuple([self.value(n) for n in range(first, first + count)])
            step = plan(op, len(values), mask)
            parts = self.outputs(ys, Outputs(op, parents, step, save(step.keep, ys, values), params, (), None, False))  # type: ignore[arg-type]
        for number, part in enumerate(parts, first):
            if isinstance(part, Traced) and part.by is self:
                self.nodes[number] = part.aux

    def leave(self, x: Any) -> Any:
        """A result without its node, as a value of the short program."""
        below = super().leave(x)
        return self.moved.get(below.aux[0], below) if isinstance(below, Traced) and below.by is self.stage else below

    def number(self, x: Any) -> int:
        """The number in the program of a value of this tape or of the program; -1 for any other."""
        below = super().leave(x)
        return below.aux[0] if isinstance(below, Traced) and below.by is self.stage else -1

    def finish(self, result: Any) -> None:
        """Record the rolled graph of the function's result, if loops are found."""
        stage, first = self.stage, self.begin.values
        if self.materialised or any(attempt[0] >= first for attempt in stage.attempts):
            return  # an op that may raise, inside a try statement, stays in its place
        count = len(stage.program.kind) - self.begin.equations
        is_weak = any(number >= first for number in stage.light)  # results whose types depend on weak Python numbers
        is_long = is_long_enough(count) and not is_weak
        if not (is_long or self.has_bodies):
            return
        condition = stage.holds(first)
        results = [n for n in dict.fromkeys(map(self.number, [*flatten(result)[0], condition])) if n >= first]
        failing = unread(stage, map(self.value, results), first)
        wanted = list(dict.fromkeys([*results, *(y.aux[0] for y in failing)]))
        graph, before = self.segment(wanted)
        graph = dead_code(graph)
        changed = graph
        if is_long:
            from ..rewrite import loops, written  # heavy: the search for loops, which short programs do not need

            weak = [i for i, n in enumerate(before) if n in stage.light]
            changed = written.forward_writes(loops.roll(graph, weak).graph, weak)
        if changed is not graph or self.has_bodies:
            stage.risky = {n: count for n, count in stage.risky.items() if n < first}  # those of the new graph take their places
            self.run(changed, before, wanted)
            stage.risky.update({self.leave(y).aux[0]: 1 for y in failing})
        if condition is not None:
            stage.require(self.leave(condition), first)

    # -- what was written ---------------------------------------------------------------------------------------

    def segment(self, outputs: Sequence[int]) -> tuple[Graph, list[int]]:
        """The equations since the tape began, as a graph of the earlier values that they read, and the numbers of these."""
        program, begin = self.stage.program, self.begin
        operands = np.array(program.operands[begin.operands :], np.int64)
        before = np.unique(operands[(operands >= 0) & (operands < begin.values)])
        inside = operands >= begin.values
        moved = np.where(inside, operands - begin.values + len(before), operands)
        outer = (operands >= 0) & ~inside
        moved[outer] = np.searchsorted(before, operands[outer])
        types = [program.types[program.type_of[n]] for n in before.tolist()]
        columns = Columns(
            types,
            program.kinds,
            program.literals,
            program.kind[begin.equations :],
            moved,
            program.integers[begin.integers :],
            program.lines[begin.equations :],
        )
        names = tuple([f"x{i}" for i in range(len(before))])
        results = tuple([n - begin.values + len(before) for n in outputs])
        return Graph(self.name, names, tuple(types), columns, results), before.tolist()

    def run(self, graph: Graph, before: Sequence[int], outputs: Sequence[int]) -> None:
        """Record a graph in place of what was written: of values from before, with these values as its results."""
        self.materialised = True
        found = graph.run_flat([self.leaves[n] if n in self.leaves else self.value(n) for n in before])
        for number, y in zip(outputs, found, strict=True):
            node = self.node(y)
            if node is not None:
                self.nodes[number] = node
            self.moved[number] = y.underlying if node is not None else y

    def value(self, number: int) -> Traced:
        """A value of the program."""
        program = self.stage.program
        type_ = program.types[program.type_of[number]]
        return Traced(self.stage, None, (number, type_, type_.shape != ()))

    def _equations(self) -> Iterator[tuple[int, list[int], list[int], int]]:
        """The equations since the tape began: kinds, operands, integers of an index, numbers of the first results."""
        program = self.stage.program
        end, at, integer, number = self.begin
        for k in program.kind[end:]:
            kind = program.kinds[k]
            stop, stop_integer = at + len(kind.operands), integer + len(kind.places)
            yield k, program.operands[at:stop], program.integers[integer:stop_integer], number
            at, integer, number = stop, stop_integer, number + len(kind.types)
