"""Numbers of a table at the places that a loop is at: the loop reads the table.

    d = gather table, i, j                    before the loop, whose rows are i, j and d
    u[i, j] = u[i - 1, j] + d                 becomes        u[i, j] = u[i - 1, j] + table[i, j], with rows i and j

The loop has the places in registers, for the tables that it writes, and LLVM knows how they move. To gather many single numbers
beforehand takes as long as a short loop.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ...core.types import Type
from ...ir.edit import cut, dead_code, has_bodies, map_bodies, renumber, unused_number, values_in
from ...ir.graph import Equation, Graph, Literal, Operand
from ...ops.control import scan
from ...ops.elementwise import add
from ...ops.index import gather

G = TypeVar("G", bound=Graph)

_INDEX = np.dtype(np.int64)


class _Read(NamedTuple):
    """Numbers of a table at constant places."""

    table: Operand
    places: tuple[Any, ...]  # along each axis, none of them negative
    type: Type  # of the table


class _Place(NamedTuple):
    """A place as a row of a loop, and what to add to it."""

    row: int
    apart: int


def read_at_places(graph: G) -> G:
    """The graph with such reads inside its loops."""
    if not has_bodies(graph):
        return graph
    inner: G = map_bodies(graph, lambda body: read_at_places(body))
    if not any(e.op is scan for e in inner.equations):
        return inner
    types = inner.types
    reads: dict[int, _Read] = {}
    for e in inner.equations:
        if e.op is gather and (found := _read_of(e, types, reads)) is not None:
            reads[e.outputs[0]] = found
    if not reads:
        return inner
    elsewhere = Counter(values_in(inner.outputs))  # how often each value is read other than as a row
    for e in inner.equations:
        first_row = e.params["consts"] + e.params["carries"] if e.op is scan else len(e.inputs)
        elsewhere.update(values_in(e.inputs[:first_row]))
    rows = {n: read for n, read in reads.items() if not elsewhere[n]}
    equations = tuple([_read_inside(e, rows) if e.op is scan else e for e in inner.equations])
    return inner if equations == tuple(inner.equations) else renumber(dead_code(replace(inner, equations=equations)))


def _read_of(e: Equation, types: Mapping[int, Type], reads: Mapping[int, _Read]) -> _Read | None:
    """What an equation reads, if it is single numbers of a table at constant places; from the first table of several."""
    table, *arrays = e.inputs
    type_ = types[table] if isinstance(table, int) else table.type
    if e.params["axis"] or len(arrays) != type_.ndim or e.types[0].ndim != 1:
        return None
    if not all(isinstance(a, Literal) and a.type.ndim == 1 and a.type.dtype.kind in "iu" for a in arrays):
        return None
    places = []
    for a, size in zip(arrays, type_.shape, strict=True):
        place = np.asarray(a.value).astype(_INDEX)  # type: ignore[union-attr]
        if not place.size or place.min() < -size or place.max() >= size:
            return None
        places.append(np.where(place < 0, place + size, place))
    before = reads.get(table) if isinstance(table, int) else None
    if before is None:
        return _Read(table, tuple(np.broadcast_arrays(*places)), type_)
    return before._replace(places=tuple([place[places[0]] for place in before.places]))


def _read_inside(e: Equation, reads: Mapping[int, _Read]) -> Equation:
    """A scan that reads the tables of those rows whose places it knows."""
    body, consts = e.params["body"], e.params["consts"]
    first_row = consts + e.params["carries"]
    known = _known_rows(e.inputs, first_row)
    tables: dict[Operand, int] = {}  # by operand: its number in the body
    written: list[Equation] = []
    places: dict[_Place, int] = {}
    types, number = dict(body.types), unused_number(body) + len(e.inputs)
    replaced: set[int] = set()
    for n in range(first_row, len(e.inputs)):
        read = reads.get(e.inputs[n]) if isinstance(e.inputs[n], int) else None  # type: ignore[arg-type]
        found = None if read is None else [_place_of(place, known) for place in read.places]
        if read is None or found is None or None in found:
            continue
        for place in found:
            assert place is not None
            if place not in places:
                places[place] = place.row
                if place.apart:
                    places[place] = number
                    moved = place.row, Literal(np.int64(place.apart))
                    written.append(Equation(add, moved, {}, (number,), (Type((), _INDEX),), e.line))
                    number += 1
        if read.table not in tables:
            tables[read.table] = number
            types[number] = read.type
            number += 1
        element = (tables[read.table], *(places[place] for place in found if place is not None))
        written.append(Equation(gather, element, {"axis": 0}, (n,), (body.input_types[n],), e.line))
        replaced.add(n)
    if not replaced:
        return e
    left = [n for n in range(len(e.inputs)) if n not in replaced]
    longer = replace(body, equations=(*written, *body.equations))
    inputs = [*left[:consts], *tables.values(), *left[consts:]]
    kept = [e.inputs[n] for n in left]
    operands: tuple[Operand, ...] = (*kept[:consts], *tables, *kept[consts:])
    params = {**e.params, "consts": consts + len(tables), "body": cut(body.name, longer, inputs, types)}
    return replace(e, inputs=operands, params=params)


def _known_rows(operands: Sequence[Operand], first_row: int) -> dict[bytes, _Place]:
    """The rows that are constant places, by their differences: each with minus its first number."""
    found: dict[bytes, _Place] = {}
    for n in range(first_row, len(operands)):
        operand = operands[n]
        if isinstance(operand, Literal) and operand.type.ndim == 1 and operand.type.dtype == _INDEX and operand.type.shape[0]:
            values = np.asarray(operand.value)
            found.setdefault((values - values[0]).tobytes(), _Place(n, -int(values[0])))
    return found


def _place_of(place: Any, known: Mapping[bytes, _Place]) -> _Place | None:
    """A row and what to add to it, if one has these places."""
    row = known.get((place - place[0]).tobytes())
    return None if row is None else _Place(row.row, row.apart + int(place[0]))
