"""The passes that need no algebra: each takes a graph and returns a graph of the same values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from ...core.op import Structured
from ...ir.columns import Columns, ranges
from ...ir.graph import Equation, Graph, Literal, Operand
from .rewriter import Index, Rewriter

G = TypeVar("G", bound=Graph)

_NO_RULES = Index(())
_MOST_ROUNDS = 64  # of vectorised dead-code elimination


def dead_code(graph: G) -> G:
    """Without the equations that no output depends on, and without the results of loops and branches that nothing reads."""
    if isinstance(graph.equations, Columns):
        equations, outputs = graph.equations.chosen(np.flatnonzero(needed_of(graph.equations, graph.outputs)), graph.outputs)
        graph = replace(graph, equations=equations, outputs=outputs)
        if not any(isinstance(equations.kinds[kind].op, Structured) for kind in np.unique(equations.kind).tolist()):
            return graph
    needed = {o for o in graph.outputs if isinstance(o, int)}
    kept: list[Equation] = []
    for equation in reversed(graph.equations):
        if not needed.isdisjoint(equation.outputs):
            if isinstance(equation.op, Structured):
                equation = _without_unread(equation, equation.op, needed)
            kept.append(equation)
            needed.update([o for o in equation.inputs if isinstance(o, int)])
    return replace(graph, equations=tuple(reversed(kept)))


def needed_of(equations: Columns, outputs: Sequence[Operand]) -> Any:
    """Which equations are live: unread ones are removed, then those that only they have read, and so on."""
    counts = np.diff(equations.first_number)
    made_by = np.repeat(np.arange(len(equations)), counts)
    inputs, ends = equations.inputs, np.diff(equations.first_operand)
    reads = np.concatenate([equations.operands, [o for o in outputs if isinstance(o, int)]]).astype(np.int64)
    uses = np.bincount(made_by[reads[reads >= inputs] - inputs], minlength=len(equations))  # of any result
    needed = np.ones(len(equations), bool)
    dead = np.flatnonzero(uses == 0)
    rounds = 0
    while len(dead):
        needed[dead] = False
        rounds += 1
        if rounds > _MOST_ROUNDS:
            return _needed_one_by_one(equations, outputs)
        read = equations.operands[ranges(equations.first_operand[dead], ends[dead])]
        behind = made_by[read[read >= inputs] - inputs]
        np.subtract.at(uses, behind, 1)
        dead = np.unique(behind[uses[behind] == 0])
    return needed


def _needed_one_by_one(equations: Columns, outputs: Sequence[Operand]) -> Any:
    """The same for long chains of dead code."""
    needed = [False] * len(equations)
    made_by = np.repeat(np.arange(len(equations)), np.diff(equations.first_number)).tolist()
    inputs, operands, first = equations.inputs, equations.operands.tolist(), equations.first_operand.tolist()
    for o in outputs:
        if isinstance(o, int) and o >= inputs:
            needed[made_by[o - inputs]] = True
    for i in range(len(equations) - 1, -1, -1):
        if needed[i]:
            for o in operands[first[i] : first[i + 1]]:
                if o >= inputs:
                    needed[made_by[o - inputs]] = True
    return np.array(needed, bool)


def _without_unread(equation: Equation, op: Structured, needed: set[int]) -> Equation:
    first = op.lasting(equation.params)
    read = [i for i, n in enumerate(equation.outputs) if i < first or n in needed]
    if not op.returning or len(read) == len(equation.outputs):
        return equation
    params = dict(equation.params)
    for name in op.returning:
        body = params[name]
        params[name] = dead_code(replace(body, outputs=tuple([body.outputs[i] for i in read])))
    outputs, types = tuple([equation.outputs[i] for i in read]), tuple([equation.types[i] for i in read])
    return replace(equation, params=params, outputs=outputs, types=types)


def renumber(graph: G) -> G:
    """With the values numbered in order, without gaps; equal graphs become equal objects, and print alike."""
    equations, outputs = numbered(graph.equations, graph.outputs, range(len(graph.input_types)))
    return replace(graph, equations=equations, outputs=outputs)


def numbered(
    equations: Iterable[Equation], outputs: Sequence[Operand], inputs: Iterable[int]
) -> tuple[tuple[Equation, ...], tuple[Operand, ...]]:
    """Equations and outputs as a function of these values, numbered in order. An input may be the result of an equation, too."""
    numbers = {n: i for i, n in enumerate(inputs)}
    free = len(numbers)

    written = []
    for e in equations:
        operands = tuple([o if isinstance(o, Literal) else numbers[o] for o in e.inputs])
        first = free
        for n in e.outputs:
            if n not in numbers:
                numbers[n] = free
            free += 1
        written.append(Equation(e.op, operands, e.params, tuple(range(first, free)), e.types, e.line))
    return tuple(written), tuple([o if isinstance(o, Literal) else numbers[o] for o in outputs])


def common_subexpressions(graph: G) -> G:
    """With one equation for each distinct op, operands and parameters."""
    return renumber(Rewriter(graph, _NO_RULES, fold=False).run())  # type: ignore[return-value]


def constant_folding(graph: G) -> G:
    """With the results of ops on constants as constants; those that would be large are left to be computed."""
    return renumber(Rewriter(graph, _NO_RULES, share=False).run())  # type: ignore[return-value]
