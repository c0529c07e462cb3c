"""Equations that differ only in the lengths of their arrays: with one op, on one line, with the same axes (`padded.py`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from ...core.types import Shape, Type
from ...ir.columns import Columns, Kind, columns_of, hashable
from ...ir.graph import Graph
from ...ops.broadcast import reshape
from ...ops.index import getitem, put


class SliceKind(Enum):
    """What a slice of a padded array is, along one axis."""

    KEPT = auto()  # the array, with its elements where they are
    CUT = auto()  # a slice of it, the same one in all iterations
    GATHERED = auto()  # elements at the positions that an iteration is given, from position 0 on


@dataclass(eq=False)
class Group:
    """Equations with one op on one line, whose shapes differ."""

    positions: list[int]
    ones: tuple[tuple[bool, ...], ...]  # by operand: the axes along which it always has one element
    # Of a read or a write, by axis of the region:
    starts: tuple[frozenset[tuple[int, int]], ...]  # the starts and steps of the slice
    partial: tuple[bool, ...]  # not always all elements
    shape: Shape = ()  # of the padded results
    varies: tuple[bool, ...] = ()  # along which axes the padding is not always empty
    distance: dict[tuple[int, int], int | None] = field(default_factory=dict)  # by operand and axis: how far nearly all are moved

    def read(self, axis: int, keep: bool) -> SliceKind:
        starts = self.starts[axis]
        if any(step != 1 for _, step in starts):
            return SliceKind.GATHERED
        if len(starts) == 1:
            return SliceKind.CUT
        return SliceKind.KEPT if keep else SliceKind.GATHERED


def groups_of(graph: Graph, least: int) -> dict[int, Group]:
    """By equation, its group, if it is in one."""
    columns = columns_of(graph)
    keys = [_key(kind) for kind in columns.kinds]
    if len(keys) == len(set(keys)):
        return {}
    members: dict[Any, list[int]] = {}
    for i, (number, line) in enumerate(zip(columns.kind.tolist(), columns.lines.tolist(), strict=True)):
        if keys[number] is not None:
            members.setdefault((keys[number], line), []).append(i)
    found: dict[int, Group] = {}
    for positions in members.values():
        kinds = [columns.kinds[k] for k in set(columns.kind[positions].tolist())]
        if len(positions) >= least and len({_shapes(kind) for kind in kinds}) > 1:
            found.update(dict.fromkeys(positions, _group(columns, positions, kinds)))
    return found


def _group(columns: Columns, positions: list[int], kinds: list[Kind]) -> Group:
    operands = zip(*(_shapes(kind)[1:] for kind in kinds), strict=True)
    ones = tuple([_ones([shape for shape in column if shape is not None]) for column in operands])
    starts: tuple[frozenset[tuple[int, int]], ...] = ()
    partial: tuple[bool, ...] = ()
    if kinds[0].op in (getitem, put):
        slices = []
        for i in positions:  # the integers of an index are no part of a kind
            e = columns[i]
            shape = _shapes(columns.kinds[columns.kind[i]])[1]
            assert shape is not None
            slices.append(list(region(e.params["spec"], shape)))
        starts = tuple([frozenset((part[0], part[2]) for part in axis) for axis in zip(*slices, strict=True)])
        partial = tuple([any(not is_full for *_, is_full in axis) for axis in zip(*slices, strict=True)])
    return Group(positions, ones, starts, partial)


def region(spec: tuple[Any, ...], shape: Shape) -> Iterator[tuple[int, int, int, bool]]:
    """By axis of what an index reads: start, length, step, and whether that is the whole axis. A new axis is whole."""
    axis = 0
    for part in (*spec, *(slice(None),) * (len(shape) - sum(part is not None for part in spec))):
        if part is None:
            yield 0, 1, 1, True
            continue
        if isinstance(part, slice):
            start, stop, step = part.indices(shape[axis])
            count = len(range(start, stop, step))
            yield start, count, step, (start, count, step) == (0, shape[axis], 1)
        axis += 1


def _key(kind: Kind) -> Any:
    """What kinds have in common that differ in lengths, and in the bounds of slices."""
    if len(kind.types) != 1 or any(isinstance(part, Graph) for part in kind.params.values()):
        return None
    params = {name: value for name, value in kind.params.items() if name not in ("shape", "spec")}
    spec = kind.params.get("spec", ())
    parts = tuple(["i" if isinstance(part, int) else "n" if part is None else ":" for part in spec])
    dimensions = tuple([(o.ndim, o.dtype) if isinstance(o, Type) else "constant" for o in kind.operands])
    (result,) = kind.types
    ones = tuple([n == 1 for n in result.shape]) if kind.op is reshape else ()  # a row is no column
    return kind.op, parts, hashable(tuple(params.items())), dimensions, result.ndim, result.dtype, ones


def _shapes(kind: Kind) -> tuple[Shape | None, ...]:
    """The shapes of the results and the operands."""
    types = [*kind.types, *(o if isinstance(o, Type) else o[1] for o in kind.operands)]
    return tuple([None if t is None else t.shape for t in types])


def _ones(shapes: list[Shape]) -> tuple[bool, ...]:
    """The axes along which all shapes have one element; of shapes with fewer axes, those at the end count."""
    ndim = min(map(len, shapes), default=0)
    return tuple([all(shape[axis - ndim] == 1 for shape in shapes) for axis in range(ndim)])
