"""Editing graphs: what an equation reads, dead code, numbering, cutting, substitution, and the graphs that equations hold.

    graph f(x)  { v1 = sin x;  v2 = cos x;  v3 = mul v1, v1;  return v3 }

    dead_code(f)                   { v1 = sin x;  v3 = mul v1, v1;  return v3 }
    renumber(dead_code(f))         { v1 = sin x;  v2 = mul v1, v1;  return v2 }
    cut("g", f, [0, 1])            g(x, r1)  { … }, of x and of v1

A graph is immutable: each function returns another one. Those that only look at equations take them one by one; dead code of
`Columns`, which may be a million equations, is found by NumPy.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeVar

import numpy as np

from ..core.op import Carry, Structured
from ..core.types import Type
from .columns import Columns, ranges
from .graph import Equation, Graph, Operand

G = TypeVar("G", bound=Graph)

_MOST_ROUNDS = 64  # of vectorised dead-code elimination


# -- reading ----------------------------------------------------------------------------------------------------


def values_in(operands: Iterable[Operand]) -> list[int]:
    """The operands that are values of the graph, not constants."""
    return [o for o in operands if isinstance(o, int)]


def values_read(graph: Graph) -> set[int]:
    """The values that an equation or the return line reads."""
    found = set(values_in(graph.outputs))
    for e in graph.equations:
        found.update(values_in(e.inputs))
    return found


def unused_number(graph: Graph) -> int:
    """A number behind those of all values."""
    return 1 + max([len(graph.input_types), *(n for e in graph.equations for n in e.outputs)])


def is_in_order(graph: Graph) -> bool:
    """Whether the values are numbered in order, without gaps."""
    if isinstance(graph.equations, Columns):
        return True
    number = len(graph.input_types)
    for e in graph.equations:
        if e.outputs != tuple(range(number, number + len(e.outputs))):
            return False
        number += len(e.outputs)
    return True


def dependents(equations: Iterable[Equation], values: Iterable[int], passes: Callable[[Equation, Type], bool]) -> set[int]:
    """These values, and all that is computed from them by equations and in results that the dependence `passes` to."""
    found = set(values)
    for e in equations:
        if not found.isdisjoint(values_in(e.inputs)):
            found.update([n for n, t in zip(e.outputs, e.types, strict=True) if passes(e, t)])
    return found


# -- dead code --------------------------------------------------------------------------------------------------


def dead_code(graph: G) -> G:
    """Without the equations that no output depends on, and without the results of loops and branches that nothing reads."""
    if isinstance(graph.equations, Columns):
        equations, outputs = graph.equations.chosen(np.flatnonzero(live(graph.equations, graph.outputs)), graph.outputs)
        graph = replace(graph, equations=equations, outputs=outputs)
        if not any(isinstance(equations.kinds[kind].op, Structured) for kind in np.unique(equations.kind).tolist()):
            return graph
    needed = set(values_in(graph.outputs))
    kept: list[Equation] = []
    for e in reversed(graph.equations):
        if not needed.isdisjoint(e.outputs):
            if isinstance(e.op, Structured):
                e = _without_unread(_without_dead_carries(e, e.op, needed), e.op, needed)
            kept.append(e)
            needed.update(values_in(e.inputs))
    return replace(graph, equations=tuple(reversed(kept)))


def _without_dead_carries(equation: Equation, op: Structured, needed: set[int]) -> Equation:
    """A loop without the carries whose results nothing reads, and which only their own next iteration needs."""
    unread = {i for i, n in enumerate(equation.outputs) if n not in needed}
    dead = [carry for carry in op.carries(equation.params) if carry.result in unread] if unread else []
    while dead:
        graphs: dict[str, Graph] = {}
        alive: set[int] = set()
        for name in dead[0].graphs:
            body = equation.params[name]
            dropped = {carry.graphs[name][1] for carry in dead}
            graphs[name] = dead_code(replace(body, outputs=tuple([o for i, o in enumerate(body.outputs) if i not in dropped])))
            read = values_read(graphs[name])
            alive.update(carry.result for carry in dead if not read.isdisjoint(carry.graphs[name][0]))
        if not alive:
            return _with_carries_dropped(equation, op, dead, graphs)
        dead = [carry for carry in dead if carry.result not in alive]
    return equation


def _with_carries_dropped(equation: Equation, op: Structured, dead: Sequence[Carry], graphs: Mapping[str, Graph]) -> Equation:
    params = dict(op.shortened(equation.params, dead))
    for name, graph in graphs.items():
        gone = {i for carry in dead for i in carry.graphs[name][0]}
        params[name] = cut(graph.name, graph, [i for i in range(len(graph.input_types)) if i not in gone])
    operands, results = {i for carry in dead for i in carry.operands}, {carry.result for carry in dead}
    kept = [i for i in range(len(equation.outputs)) if i not in results]
    return replace(
        equation,
        params=params,
        inputs=tuple([x for i, x in enumerate(equation.inputs) if i not in operands]),
        outputs=tuple([equation.outputs[i] for i in kept]),
        types=tuple([equation.types[i] for i in kept]),
    )


def _without_unread(equation: Equation, op: Structured, needed: set[int]) -> Equation:
    """A loop or a branch without the results that nothing reads, and without what serves them alone: equations, operands."""
    first = op.lasting(equation.params)
    read = [i for i, n in enumerate(equation.outputs) if i < first or n in needed]
    if not op.returning or (len(read) == len(equation.outputs) and op.given is None):
        return equation
    graphs = {}
    for name in op.returning:
        body = equation.params[name]
        graphs[name] = dead_code(replace(body, outputs=tuple([body.outputs[i] for i in read])))
    inputs = equation.inputs
    if op.given is not None:
        found = set[int]().union(*map(values_read, graphs.values()))
        kept = [i for i in range(len(inputs) - op.given) if i in found]
        graphs = {name: cut(body.name, body, kept) for name, body in graphs.items()}
        inputs = (*inputs[: op.given], *[inputs[op.given + i] for i in kept])
    outputs, types = tuple([equation.outputs[i] for i in read]), tuple([equation.types[i] for i in read])
    return replace(equation, params={**equation.params, **graphs}, inputs=inputs, outputs=outputs, types=types)


def live(equations: Columns, outputs: Sequence[Operand]) -> Any:
    """A flag for each equation: unread ones are removed, then those that only they have read, and so on."""
    made_by, inputs, width = equations.made_by, equations.inputs, np.diff(equations.first_operand)
    reads = np.concatenate([equations.operands, np.array(values_in(outputs), np.int64)])
    uses = np.bincount(made_by[reads[reads >= inputs] - inputs], minlength=len(equations))  # of any result
    needed = np.ones(len(equations), bool)
    dead = np.flatnonzero(uses == 0)
    rounds = 0
    while len(dead):
        needed[dead] = False
        rounds += 1
        if rounds > _MOST_ROUNDS:
            return _live_one_by_one(equations, outputs)
        read = equations.operands[ranges(equations.first_operand[dead], width[dead])]
        behind = made_by[read[read >= inputs] - inputs]
        np.subtract.at(uses, behind, 1)
        dead = np.unique(behind[uses[behind] == 0])
    return needed


def _live_one_by_one(equations: Columns, outputs: Sequence[Operand]) -> Any:
    """The same for long chains of dead code."""
    needed = [False] * len(equations)
    made_by, inputs = equations.made_by.tolist(), equations.inputs
    operands, first = equations.operands.tolist(), equations.first_operand.tolist()
    for o in values_in(outputs):
        if o >= inputs:
            needed[made_by[o - inputs]] = True
    for i in range(len(equations) - 1, -1, -1):
        if needed[i]:
            for o in operands[first[i] : first[i + 1]]:
                if o >= inputs:
                    needed[made_by[o - inputs]] = True
    return np.array(needed, bool)


# -- numbering --------------------------------------------------------------------------------------------------


def mapped(operands: Iterable[Operand], number: Callable[[int], Operand]) -> tuple[Operand, ...]:
    """Operands with other values in place of values; constants stay."""
    return tuple([number(o) if isinstance(o, int) else o for o in operands])


def substitute(graph: G, replaced: Mapping[int, Operand]) -> G:
    """With other values or constants read in place of some."""

    def read(n: int) -> Operand:
        return replaced.get(n, n)

    equations = tuple([replace(e, inputs=mapped(e.inputs, read)) for e in graph.equations])
    return replace(graph, equations=equations, outputs=mapped(graph.outputs, read))


class EquationRewrite(Protocol):
    """An equation that becomes several: `number` is the first that they leave free."""

    number: int

    def write(self) -> tuple[list[Equation], dict[int, Operand]]:
        """The new equations, and what the results of the old one become."""


def rewrite_equations(graph: G, change: Callable[[Equation, int], EquationRewrite | None]) -> G:
    """With what `change(equation, unused number)` makes of each equation in its place, and the results of that read instead.

    The same graph if nothing changes. The values of another one are not numbered in order.
    """
    equations: list[Equation] = []
    replaced: dict[int, Operand] = {}
    number = unused_number(graph)

    def read(n: int) -> Operand:
        return replaced.get(n, n)

    for e in graph.equations:
        if replaced:
            e = replace(e, inputs=mapped(e.inputs, read))
        found = change(e, number)
        if found is None:
            equations.append(e)
            continue
        written, results = found.write()
        equations += written
        replaced |= results
        number = found.number
    return replace(graph, equations=tuple(equations), outputs=mapped(graph.outputs, read)) if replaced else graph


def renumber(graph: G) -> G:
    """With the values numbered in order, without gaps; equal graphs become equal objects, and print alike."""
    equations, outputs = numbered(graph.equations, graph.outputs, range(len(graph.input_types)))
    return replace(graph, equations=equations, outputs=outputs)


def numbered(
    equations: Iterable[Equation], outputs: Sequence[Operand], inputs: Iterable[int]
) -> tuple[tuple[Equation, ...], tuple[Operand, ...]]:
    """Equations and outputs as a function of these values, numbered in order. An input may be the result of an equation, too."""
    numbers = {n: i for i, n in enumerate(inputs)}
    read = numbers.__getitem__
    free = len(numbers)
    written = []
    for e in equations:
        operands = mapped(e.inputs, read)
        first = free
        for n in e.outputs:
            numbers.setdefault(n, free)
            free += 1
        written.append(Equation(e.op, operands, e.params, tuple(range(first, free)), e.types, e.line))
    return tuple(written), mapped(outputs, read)


def cut(name: str, graph: Graph, inputs: Sequence[int], types: Mapping[int, Type] | None = None) -> Graph:
    """The same equations as a function of these values, renumbered. Values that are no inputs of the graph are named r1, …"""
    types = graph.types if types is None else types
    names: list[str] = []
    for n in inputs:
        names.append(distinct(graph.input_names[n] if n < len(graph.input_names) else f"r{n}", names))
    return Graph(name, tuple(names), tuple([types[n] for n in inputs]), *numbered(graph.equations, graph.outputs, inputs))


def distinct(name: str, taken: Container[str]) -> str:
    """A name that is not taken, nor of the form that values of graphs have."""
    while name in taken or re.fullmatch(r"[vc][0-9]+|nan|inf", name):
        name += "_"
    return name


# -- graphs that equations hold ---------------------------------------------------------------------------------


def bodies(params: Mapping[str, Any]) -> dict[str, Graph]:
    """The graphs among the parameters of an equation: the body of a loop, the branches of a cond."""
    return {name: part for name, part in params.items() if isinstance(part, Graph)}


def has_bodies(graph: Graph) -> bool:
    """Whether any equation holds a graph."""
    held = graph.equations.kinds if isinstance(graph.equations, Columns) else graph.equations
    return any(isinstance(part, Graph) for one in held for part in one.params.values())


def map_bodies(graph: G, change: Callable[[Graph], Graph]) -> G:
    """With every graph that an equation holds replaced by what `change` makes of it; the same graph if that changes nothing."""
    held = graph.equations.kinds if isinstance(graph.equations, Columns) else graph.equations
    found = {id(body): body for one in held for body in bodies(one.params).values()}
    made = {key: change(body) for key, body in found.items()}
    if all(made[key] is body for key, body in found.items()):
        return graph
    equations = list(graph.equations)
    for i, e in enumerate(equations):
        new = {name: made[id(body)] for name, body in bodies(e.params).items()}
        if any(new[name] is not e.params[name] for name in new):
            equations[i] = replace(e, params={**e.params, **new})
    return replace(graph, equations=tuple(equations))
