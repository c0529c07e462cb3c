"""Slices of one length that move from iteration to iteration, as reads and writes at integer arrays, which a loop can be given.

    v1 = getitem x, spec=0:4;  …  v9 = getitem x, spec=1:5;  …        x[i : i + 4] of a Python loop
    v1 = gather x, [0 1 2 3];  …  v9 = gather x, [1 2 3 4];  …        equal but for their constants: rows of the loop

What is not rolled afterwards becomes slices again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from ...core.op import Op
from ...core.types import Type
from ...derive import type_rule
from ...ir.columns import Kind, columns_of
from ...ir.edit import map_bodies, renumber, unused_number
from ...ir.graph import Equation, Graph, Literal
from ...ops.index import gather, getitem, place, put, put_at, scatter_add

_AS_ARRAYS: dict[Op, Op] = {getitem: gather, put: put_at, place: scatter_add}
_AS_SLICES = {arrays: slices for slices, arrays in _AS_ARRAYS.items()}

_LONGEST = 64  # elements of a slice; a longer one is read faster from the array than at integers

#: By id of an array of places: that array, and the slice that it stands for.
Slices = dict[int, tuple[Literal, slice]]


def with_arrays(graph: Graph, least: int) -> tuple[Graph, Slices]:
    """The graph with slices as integer arrays, where at least so many of one length begin at different places."""
    columns = columns_of(graph)
    can_move = np.array([_has_one_slice(kind) for kind in columns.kinds], bool)[columns.kind]
    if np.count_nonzero(can_move) < least:
        return graph, {}
    types = graph.types
    groups: dict[Any, list[tuple[int, int, int]]] = {}
    for i in np.flatnonzero(can_move).tolist():
        for key, axis, start in _moving(columns[i], types):
            groups.setdefault(key, []).append((i, axis, start))
    moving = {
        i: (axis, start, count, step)
        for (*_, count, step), found in groups.items()
        if len({start for _, _, start in found}) >= least
        for i, axis, start in found
    }
    if not moving:
        return graph, {}
    made: dict[tuple[int, int, int], Literal] = {}
    slices: Slices = {}
    equations = []
    free = unused_number(graph)
    for i, e in enumerate(graph.equations):
        if i not in moving:
            equations.append(e)
            continue
        axis, *places = moving[i]
        start, count, step = places
        if any(isinstance(part, int) for part in e.params["spec"]):  # a row first
            equations.append(replace(_row(e, axis, types), outputs=(free,)))
            e, free = replace(e, inputs=(free,)), free + 1
            axis -= sum(isinstance(part, int) for part in equations[-1].params["spec"][:axis])
        if (start, count, step) not in made:
            at = made[start, count, step] = Literal(np.arange(start, start + count * step, step))
            stop = start + count * step
            slices[id(at)] = at, slice(start, None if stop < 0 else stop, None if step == 1 else step)
        params = {"axis": axis} | ({"shape": e.params["shape"]} if e.op is place else {})
        equations.append(replace(e, op=_AS_ARRAYS[e.op], inputs=(*e.inputs, made[start, count, step]), params=params))
    return renumber(replace(graph, equations=tuple(equations))), slices


def _row(e: Equation, axis: int, types: dict[int, Type]) -> Equation:
    """Of a read at integers and a slice: the read at the integers alone."""
    spec = (*e.params["spec"][:axis], slice(None), *e.params["spec"][axis + 1 :])
    array = types[e.inputs[0]] if isinstance(e.inputs[0], int) else e.inputs[0].type
    type_ = type_rule(getitem, [array], {"spec": spec})
    return replace(e, params={"spec": spec}, types=(type_,))


def with_slices(graph: Graph, slices: Slices) -> Graph:
    """The graph with slices again, where an array of places is still a constant."""
    if not slices:
        return graph
    return _restored(map_bodies(graph, lambda body: with_slices(body, slices)), slices)


def _restored(graph: Graph, slices: Slices) -> Graph:
    equations, changed = [], False
    for e in graph.equations:
        op = _AS_SLICES.get(e.op)
        if op is not None and isinstance(e.inputs[-1], Literal) and id(e.inputs[-1]) in slices:
            spec = (*(slice(None),) * e.params["axis"], slices[id(e.inputs[-1])][1])
            params = {"spec": spec} | ({"shape": e.params["shape"]} if op is place else {})
            e, changed = replace(e, op=op, inputs=e.inputs[:-1], params=params), True
        equations.append(e)
    return replace(graph, equations=tuple(equations)) if changed else graph


def _has_one_slice(kind: Kind) -> bool:
    """Whether the index of a kind has one slice that is not full; a read may have integers as well."""
    if kind.op not in _AS_ARRAYS:
        return False
    parts = [part for part in kind.params["spec"] if part != slice(None)]
    integers = sum(isinstance(part, int) for part in parts)
    return sum(isinstance(part, slice) for part in parts) == 1 == len(parts) - integers and (kind.op is getitem or not integers)


def _moving(e: Equation, types: dict[int, Type]) -> Iterator[tuple[Any, int, int]]:
    """What an index with one slice has in common with others, the axis of the slice, and its start."""
    spec = e.params["spec"]
    axis = next(k for k, part in enumerate(spec) if isinstance(part, slice) and part != slice(None))
    given = [types[o] if isinstance(o, int) else o.type for o in e.inputs]
    whole = given[0].shape if e.op is getitem else e.types[0].shape
    start, stop, step = spec[axis].indices(whole[axis])
    count = len(range(start, stop, step))
    if not 0 < count <= _LONGEST or (e.op is place and given[0].shape != (*whole[:axis], count, *whole[axis + 1 :])):
        return
    integers = tuple([k for k, part in enumerate(spec) if isinstance(part, int)])
    yield (e.op, tuple(given), e.types, integers, axis, count, step), axis, start
