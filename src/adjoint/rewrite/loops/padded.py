"""Padding: arrays whose length changes from iteration to iteration get the length of the longest, so that iterations are alike.

    v1 = mul v[1:9], p;   v2 = mul v1[1:8], p;   v3 = mul v2[1:7], p;   …        a tree that shrinks
    v1 = mul v[1:9], p;   v2 = mul w1, p;        v3 = mul w2, p;        …        w1 = v1[1:8] and one more element, and so on

What is before the first and behind the last element of an array is not defined. Sums and products replace it by zeros, a write
leaves the old elements there, and equations outside the loop read a slice of the array. Groups of equations on one line, with one
op, whose shapes differ are padded.

A slice whose start moves, as c[k:] does, keeps its elements where they are: it is the whole array, and its first element is at
position k. So c[k:] = f(c[k:], c[k - 1 : -1]) is elementwise in c and c moved by one, with a select between new and old elements,
and a gather is needed only if the distance of two operands changes. The positions and masks are constants of the iterations.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from ...ir.graph import Equation, Graph, Operand
from .padded_groups import Group, groups_of
from .padded_operands import MOST_ELEMENTS, PaddedOperands
from .padded_ops import form_of
from .roles import RefusedError

_MOST_WORK = 4  # times as many elements


def padded(graph: Graph, least: int) -> Graph | None:
    """The graph with arrays of different lengths padded; None if there are none, or an op is among them that cannot be padded."""
    groups = groups_of(graph, least)
    if not groups:
        return None
    for keep in (True, False):
        try:
            padding = _Padding(graph, groups, keep)
            if padding.is_worth_it():
                return padding.run()
        except RefusedError:
            return None
    return None


class _Padding(PaddedOperands):
    """The graph with padded forms of all groups."""

    def __init__(self, graph: Graph, groups: dict[int, Group], keep: bool) -> None:
        super().__init__(graph, keep)
        self.graph, self.groups = graph, groups
        self.lay_out()

    def lay_out(self) -> None:
        """Find the positions of all values, the shapes of the groups, and how far operands are moved."""
        distances: dict[Group, dict[tuple[int, int], Counter[int]]] = {group: {} for group in self.groups.values()}
        for i, e in enumerate(self.graph.equations):
            group = self.groups.get(i)
            if group is None:
                self.at.update({n: (0,) * t.ndim for n, t in zip(e.outputs, e.types, strict=True)})
                continue
            (number,), form = e.outputs, form_of(e.op)
            at = self.at[number] = form.position(self, e, group)
            self.group_of[number] = group
            ends = tuple([a + n for a, n in zip(at, e.types[0].shape, strict=True)])
            group.shape = tuple(map(max, group.shape, ends)) if i != group.positions[0] else ends
            for j, o in enumerate(e.inputs):
                if isinstance(o, int):
                    for axis, (a, b) in enumerate(zip(self.at[o], form.wanted(self, e, group, j), strict=True)):
                        distances[group].setdefault((j, axis), Counter())[b - a] += 1
        for group, found in distances.items():
            group.distance = {operand: _usual(moved) for operand, moved in found.items()}
            results = [self.graph.equations[i].types[0].shape for i in group.positions]
            group.varies = tuple(
                [set(lengths) != {n} for lengths, n in zip(zip(*results, strict=True), group.shape, strict=True)]
            )

    def is_worth_it(self) -> bool:
        """Whether the padded arrays have not many more elements than the others."""
        work = sum(math.prod(self.graph.equations[i].types[0].shape) for i in self.groups)
        longest = sum(math.prod(group.shape) for group in self.groups.values())
        return longest <= _MOST_WORK * work + 64 * len(self.groups) and longest < MOST_ELEMENTS

    def run(self) -> Graph:
        for i, e in enumerate(self.graph.equations):
            self.line = e.line
            group = self.groups.get(i)
            if group is not None:
                results: Sequence[Operand] = (self.padded(e, group),)
            else:
                results = self.out.copy(e.op, tuple(map(self.whole, e.inputs)), e.params, e.types, e.line)
            self.known.update(zip(e.outputs, results, strict=True))
        outputs = tuple(map(self.whole, self.graph.outputs))
        return replace(self.graph, equations=tuple(self.out.equations), outputs=outputs)

    def padded(self, e: Equation, group: Group) -> Operand:
        """The result of an equation, with the shape of its group."""
        found = form_of(e.op).padded(self, e, group)
        if self.out.type_of(found).dtype != e.types[0].dtype:
            raise RefusedError("a type changes")
        for axis, length in enumerate(group.shape):
            found = self.moved(found, axis, 0, length, 0)
        return found


def _usual(distances: Counter[int]) -> int | None:
    """The distance of nearly all iterations; the others are not in the loop."""
    ((distance, count),) = distances.most_common(1)
    return distance if count * 8 >= distances.total() * 7 else None
