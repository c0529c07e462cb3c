"""Sums of arrays that are zero except for one row each become stacks.

    v1 = place a {spec=(0,), shape=(2, n)};  v2 = place b {spec=(1,), shape=(2, n)};  v3 = add v1, v2
    v3 = stack a, b {axis=0}

    x̄ of x[::2] and x[1::2]:   place a {spec=(0::2,)} + place b {spec=(1::2,)}   =   reshape(stack a, b {axis=1})

The gradient of a function that reads its argument row by row is such a sum. A stack is one write of each element.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any, NamedTuple

from ..core.types import Shape, Type
from ..ir.edit import dead_code, map_bodies, renumber, unused_number, values_in
from ..ir.graph import Equation, Graph, Operand
from ..ops.broadcast import reshape
from ..ops.elementwise import add
from ..ops.index import place
from ..ops.shape import stack

_MOST = 64  # rows of a stack
_LEAST = 64  # elements: a smaller array is a few registers


class PlacedRow(NamedTuple):
    """Where `place` writes: one of `total` rows along an axis, or every total-th element of it."""

    axis: int
    number: int
    total: int
    is_strided: bool


def join_places(graph: Graph) -> Graph:
    """The graph with stacks for sums of places that cover an array, in the bodies of loops too."""
    graph = map_bodies(graph, join_places)
    if sum(e.op is place for e in graph.equations) < 2:
        return graph
    types = graph.types
    rows = {e.outputs[0]: (e, row) for e in graph.equations if e.op is place and (row := _row(e, types)) is not None}
    uses = Counter(values_in([*graph.outputs, *(o for e in graph.equations for o in e.inputs)]))
    sums = {e.outputs[0]: e for e in graph.equations if e.op is add}
    inner = {o for e in sums.values() for o in values_in(e.inputs) if o in sums and uses[o] == 1}
    free = unused_number(graph)
    equations: list[Equation] = []
    changed = False
    for e in graph.equations:
        made = _joined(e, sums, inner, rows, uses, free) if e.op is add and e.outputs[0] not in inner else []
        free += max(0, len(made) - 1)
        equations += made or [e]
        changed |= bool(made)
    return renumber(dead_code(replace(graph, equations=tuple(equations)))) if changed else graph


def _row(e: Equation, types: dict[int, Type]) -> PlacedRow | None:
    """The row that is written, if the rest of the index is whole and the value is not broadcast."""
    (x,), shape, spec = e.inputs, e.params["shape"], e.params["spec"]
    if None in spec or e.types[0].size < _LEAST or not isinstance(x, int):
        return None
    whole = [isinstance(part, slice) and part.indices(n) == (0, n, 1) for part, n in zip(spec, shape, strict=False)]
    if whole.count(False) != 1:
        return None
    axis = whole.index(False)
    part, n = spec[axis], shape[axis]
    if isinstance(part, int):
        found, length, written = PlacedRow(axis, part % n, n, False), n, tuple[int, ...]()
    else:
        start, stop, step = part.indices(n)
        if step < 2 or n % step or start >= step or len(range(start, stop, step)) != n // step:
            return None
        found, length, written = PlacedRow(axis, start, step, True), step, (n // step,)
    is_whole = types[x].shape == (*shape[:axis], *written, *shape[axis + 1 :])
    return found if is_whole and 1 < length <= _MOST else None


def _terms(root: Equation, sums: dict[int, Equation], inner: set[int]) -> list[Operand]:
    """The terms of a sum, from left to right; `inner` are the sums in it."""
    terms: list[Operand] = []
    left: list[Operand] = [*reversed(root.inputs)]
    while left:
        o = left.pop()
        if isinstance(o, int) and o in inner:
            left += reversed(sums[o].inputs)
        else:
            terms.append(o)
    return terms


def _joined(
    root: Equation,
    sums: dict[int, Equation],
    inner: set[int],
    rows: dict[int, tuple[Equation, PlacedRow]],
    uses: Counter[int],
    free: int,
) -> list[Equation]:
    """The equations of a sum, with stacks of the places that cover the array; none if there are no such."""
    terms = _terms(root, sums, inner)
    groups: dict[Any, dict[int, int]] = {}
    for o in terms:
        if isinstance(o, int) and o in rows and uses[o] == 1:
            e, row = rows[o]
            if e.types == root.types:
                groups.setdefault((row.axis, row.total, row.is_strided), {}).setdefault(row.number, o)
    made: list[Equation] = []
    (type_,) = root.types
    for (axis, count, is_strided), members in groups.items():
        if len(members) < count:
            continue
        values = tuple([rows[members[k]][0].inputs[0] for k in range(count)])
        terms = [o for o in terms if o not in members.values()]
        shape: Shape = (*type_.shape[:axis], type_.shape[axis] // count, count, *type_.shape[axis + 1 :])
        stacked = Type(shape, type_.dtype) if is_strided else type_
        made.append(Equation(stack, values, {"axis": axis + is_strided}, (free,), (stacked,), root.line))
        if is_strided:
            made.append(Equation(reshape, (free,), {"shape": type_.shape}, (free + 1,), (type_,), root.line))
        free += 1 + is_strided
        terms.append(free - 1)
    if not made:
        return []
    total = terms[-1]
    for o in terms[:-1]:
        made.append(Equation(add, (o, total), {}, (free,), root.types, root.line))
        total, free = free, free + 1
    return [*made[:-1], replace(made[-1], outputs=root.outputs)]
