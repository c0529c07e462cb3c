"""Sums over the points of a loop, as one sum after it.

    scan: total += sum(x * y over the points)      becomes      scan: totals += x * y, for each point;  total + sum(totals)

The cotangent of a parameter that all points of a loop share has this form. Without the sum, the points of the loop are
independent, so that it runs tile by tile (`compiler.lower.point_tiles`). The terms are the same, added in another order.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ...core.op import Op
from ...core.types import Type
from ...ir.edit import cut, dead_code, mapped, renumber, rewrite_equations, unused_number, values_in
from ...ir.graph import Equation, Graph, Literal, Operand
from ...ops.broadcast import broadcast_to, reshape, sum_
from ...ops.control import scan
from ...ops.elementwise import add, logical_or, neg, sub
from ...ops.index import getitem, place
from ...ops.reduce import any_
from ...ops.shape import concatenate, stack
from ..pointwise import is_pointwise

G = TypeVar("G", bound=Graph)

LEAST_ITERATIONS = 4
LEAST_POINTS = 256  # of a loop that runs tile by tile
_REDUCTIONS = {add: sum_, sub: sum_, logical_or: any_}  # how a carry accumulates: the reduction that commutes with it


def sum_points_last(graph: G) -> G:
    """The same results, with sums over the points of a loop taken after it, if its points are then independent."""
    if not any(e.op is scan for e in graph.equations):
        return graph
    zeros: dict[Type, Equation] = {}  # computed before all loops, which thus stay next to each other

    def change(e: Equation, number: int) -> _Loop | None:
        loop = _Loop(e, number, zeros) if e.op is scan and e.params["length"] >= LEAST_ITERATIONS else None
        return loop if loop is not None and loop.sums and loop.is_pointwise() else None

    made = rewrite_equations(graph, change)
    return graph if made is graph else renumber(replace(made, equations=(*zeros.values(), *made.equations)))


class _PointSum(NamedTuple):
    """A carry to which each iteration adds the sum of a value over the points."""

    how: Op
    term: Operand  # of the body
    type: Type  # of the term
    axis: tuple[int, ...]


@dataclass
class _Loop:
    """A scan whose carries in `sums` are to hold one partial result per point."""

    e: Equation
    number: int
    zeros: dict[Type, Equation]

    def __post_init__(self) -> None:
        self.body: Graph = self.e.params["body"]
        self.consts, self.carries = self.e.params["consts"], self.e.params["carries"]
        self.types: dict[int, Type] = dict(self.body.types)
        self.made = {n: q for q in self.body.equations for n in q.outputs}
        self.uses = Counter(values_in([*(o for q in self.body.equations for o in q.inputs), *self.body.outputs]))
        self.added: list[Equation] = []  # to the body
        self.free = unused_number(self.body)
        self.sums = {k: found for k in range(self.carries) if (found := self.find_sum(k)) is not None}
        self.changed = self.find_changed()

    def find_sum(self, k: int) -> _PointSum | None:
        carry, out = self.consts + k, self.body.outputs[k]
        if not isinstance(out, int) or out not in self.made or self.uses[carry] != 1 or self.uses[out] != 1:
            return None
        q = self.made[out]
        if q.op not in _REDUCTIONS or carry not in q.inputs:
            return None
        (term,) = [o for o in q.inputs if o != carry]
        if q.op is sub and q.inputs[0] != carry:
            return None
        found = self.before_sum(term, _REDUCTIONS[q.op]) if isinstance(term, int) else None
        if found is None or self.types[term] != self.types[carry]:  # a number may be added to several totals
            return None
        return _PointSum(q.op, *found)

    def before_sum(self, n: int, reduction: Op) -> tuple[Operand, Type, tuple[int, ...]] | None:
        """The value whose sum over the points is n: the operand of a sum, or a linear function of such operands."""
        q = self.made.get(n)
        if q is None:
            return None
        if q.op is reduction:
            (x,) = q.inputs
            given, axis = self.types.get(x), q.params["axis"]  # type: ignore[arg-type]
            is_over_points = given is not None and given.ndim and 0 in axis and not q.params["keepdims"]
            if not is_over_points or given is None or given.dtype != q.types[0].dtype:
                return None
            return (x, given, tuple(axis)) if given.shape[0] >= LEAST_POINTS else None
        if q.op not in _LINEAR[reduction]:
            return None
        parts = [self.before_sum(o, reduction) if isinstance(o, int) else None for o in q.inputs]
        if None in parts or len({part[1:] for part in parts if part is not None}) != 1:
            return None
        _, given, axis = parts[0]  # type: ignore[misc]
        return self.emit(q, tuple([part[0] for part in parts if part is not None]), given), given, axis

    def emit(self, q: Equation, operands: tuple[Operand, ...], given: Type) -> int:
        """An equation of the body for each point, instead of for the sums."""
        self.free += 1
        self.types[self.free - 1] = given
        self.added.append(Equation(q.op, operands, q.params, (self.free - 1,), (given,), q.line))
        return self.free - 1

    def find_changed(self) -> Graph:
        """The body with the sums per point; the carries are its last inputs."""
        outputs = list(self.body.outputs)
        given = len(self.body.input_types)
        equations = [*self.body.equations, *self.added]
        names, types = list(self.body.input_names), list(self.body.input_types)
        moved = {n: n for n in range(given)} | {n: n + len(self.sums) for n in self.types if n >= given}
        read = moved.__getitem__
        equations = [replace(q, inputs=mapped(q.inputs, read), outputs=tuple(map(read, q.outputs))) for q in equations]
        free = self.free + len(self.sums)
        outputs = list(mapped(outputs, read))
        for i, (k, found) in enumerate(self.sums.items()):
            names.append(f"{names[self.consts + k]}_of_points")
            types.append(found.type)
            (term,) = mapped([found.term], read)
            line = self.made[self.body.outputs[k]].line  # type: ignore[index]
            equations.append(Equation(found.how, (given + i, term), {}, (free + i,), (found.type,), line))
            outputs[k] = free + i
        whole = Graph(self.body.name, tuple(names), tuple(types), tuple(equations), tuple(outputs))
        carries = {k: given + i for i, k in enumerate(self.sums)}
        inputs = [*range(self.consts), *(carries.get(k, self.consts + k) for k in range(self.carries))]
        return cut(self.body.name, dead_code(whole), [*inputs, *range(self.consts + self.carries, given)])

    def is_pointwise(self) -> bool:
        """Whether each equation keeps the points apart."""
        points, *others = {found.type.shape[0] for found in self.sums.values()}
        types = self.changed.types
        return not others and all(_keeps_apart(q, points, types) for q in self.changed.equations)

    def write(self) -> tuple[list[Equation], dict[int, Operand]]:
        """The equations in place of the scan, and its results that are others now."""
        e = self.e
        inputs, outputs, types = list(e.inputs), list(e.outputs), list(e.types)
        replaced: dict[int, Operand] = {}
        behind: list[Equation] = []
        for k, (how, _, given, axis) in self.sums.items():
            if given not in self.zeros:
                zero = Literal(np.zeros((), given.dtype))
                self.zeros[given] = Equation(broadcast_to, (zero,), {"shape": given.shape}, (self.new(),), (given,), e.line)
            (inputs[self.consts + k],) = self.zeros[given].outputs
            outputs[k], types[k] = self.new(), given
            total, replaced[e.outputs[k]] = self.new(), self.new()
            start, kept = e.inputs[self.consts + k], e.types[k]
            behind.append(Equation(_REDUCTIONS[how], (outputs[k],), {"axis": axis, "keepdims": False}, (total,), (kept,), e.line))
            how = add if how is sub else how
            behind.append(Equation(how, (start, total), {}, (self.number - 1,), (kept,), e.line))
        params = {**e.params, "body": self.changed}
        return [Equation(scan, tuple(inputs), params, tuple(outputs), tuple(types), e.line), *behind], replaced

    def new(self) -> int:
        self.number += 1
        return self.number - 1


_LINEAR: Mapping[Op, frozenset[Op]] = {sum_: frozenset([add, sub, neg]), any_: frozenset([logical_or])}


# -- which equations keep the points apart ----------------------------------------------------------------------


def _keeps_apart(q: Equation, points: int, types: Mapping[int, Type]) -> bool:
    """Whether row i of the result depends only on row i of the operands that have rows, or on numbers."""
    if len(q.types) != 1:
        return False
    result = q.types[0].shape
    shapes = [types[o].shape if isinstance(o, int) else o.type.shape for o in q.inputs]
    if not any(map(math.prod, (result, *shapes))):
        return False
    if all(math.prod(shape) == 1 for shape in (result, *shapes)):
        return True
    if result[:1] != (points,) or not all(shape[:1] == (points,) or math.prod(shape) == 1 for shape in shapes):
        return False
    if is_pointwise(q):
        return all(math.prod(shape) == 1 or len(shape) == len(result) for shape in shapes)
    keeps = _ROWS.get(q.op)
    return keeps is not None and keeps(q.params)


def _is_of_rows(spec: tuple[Any, ...]) -> bool:
    return bool(spec) and (spec[0] is Ellipsis or spec[0] == slice(None))


_ROWS: Mapping[Op, Callable[[Mapping[str, Any]], bool]] = {
    getitem: lambda params: _is_of_rows(params["spec"]),
    place: lambda params: _is_of_rows(params["spec"]),
    stack: lambda params: params["axis"] > 0,
    concatenate: lambda params: params["axis"] > 0,
    sum_: lambda params: 0 not in params["axis"],
    any_: lambda params: 0 not in params["axis"],
    reshape: lambda params: True,
    broadcast_to: lambda params: True,
}
