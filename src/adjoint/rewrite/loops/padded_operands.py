"""Padded operands: where the elements of each value are in its padded array, and how they are moved, cut and masked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...core.types import Shape
from ...ir.graph import Graph, Literal, Operand
from ...ops.broadcast import where
from ...ops.index import gather, getitem, place
from .padded_groups import Group
from .roles import RefusedError
from .write import EquationWriter, trimmed

MOST_ELEMENTS = 1 << 23  # of all positions and masks

#: Where the first element of an array is in its padded one, along each axis.
Position = tuple[int, ...]


class PaddedOperands:
    """The values of a graph that is written with padding. With `keep`, slices that move keep their elements where they are."""

    def __init__(self, graph: Graph, keep: bool) -> None:
        self.keep = keep
        self.out = EquationWriter(graph.input_types)
        self.known: dict[int, Operand] = {i: i for i in range(len(graph.input_types))}  # padded, if it is in a group
        self.own: dict[int, Shape] = {n: t.shape for n, t in graph.types.items()}  # the shape of each value, unpadded
        self.at: dict[int, Position] = {i: (0,) * t.ndim for i, t in enumerate(graph.input_types)}
        self.group_of: dict[int, Group] = {}  # by value
        self.line = ""
        self.elements = 0  # of constants

    # -- without padding --

    def shape(self, o: Operand) -> Shape:
        """The shape without padding."""
        return self.own[o] if isinstance(o, int) else o.type.shape

    def whole(self, o: Operand) -> Operand:
        """An operand without its padding."""
        if not isinstance(o, int):
            return o
        have = self.out.type_of(self.known[o]).shape
        parts = zip(have, self.at[o], self.own[o], strict=True)
        return self.out.read(
            self.known[o], trimmed(tuple([slice(None) if n == own else slice(p, p + own) for n, p, own in parts])), self.line
        )

    def value(self, o: Operand) -> Operand:
        return self.known[o] if isinstance(o, int) else o

    def moved(self, x: Operand, axis: int, by: int, length: int, usual: int | None) -> Operand:
        """With another length, and each element further along an axis. The usual distance takes slices instead of a gather."""
        have = self.out.type_of(x).shape
        if by == usual == 0 and have[axis] == length:
            return x
        if isinstance(x, Literal) or by != usual:
            return self.gathered(x, axis, np.arange(length) - by)
        before = (slice(None),) * axis
        first, last = max(-by, 0), min(have[axis], length - by)
        if first >= last:
            return Literal(np.zeros((*have[:axis], length, *have[axis + 1 :]), self.out.type_of(x).dtype))
        if (first, last) != (0, have[axis]):
            x = self.out.emit(getitem, x, line=self.line, spec=(*before, slice(first, last)))
        if last - first == length:
            return x
        shape = (*have[:axis], length, *have[axis + 1 :])
        return self.out.emit(place, x, line=self.line, spec=(*before, slice(first + by, last + by)), shape=shape)

    def gathered(self, x: Operand, axis: int, at: Any) -> Operand:
        """The elements at some positions along an axis, which may be outside of the array."""
        have = self.out.type_of(x).shape
        if have[axis] == 0:
            return Literal(np.zeros((*have[:axis], len(at), *have[axis + 1 :]), self.out.type_of(x).dtype))
        at = np.clip(at, 0, have[axis] - 1)
        if isinstance(x, Literal):
            return self.constant(np.take(x.strong().value, at, axis))
        return self.out.emit(gather, x, self.constant(at), line=self.line, axis=axis)

    def constant(self, values: Any) -> Literal:
        self.elements += values.size
        if self.elements > MOST_ELEMENTS:
            raise RefusedError("the positions of the elements take too much memory")
        return Literal(values)

    def masked(self, o: Operand, but: int | None = None) -> Operand:
        """An operand with zeros in its padding, but for that along one axis."""
        x = self.value(o)
        if not isinstance(o, int) or o not in self.group_of:
            return x
        zero = Literal(np.zeros((), self.out.type_of(x).dtype))
        for axis, varies in enumerate(self.group_of[o].varies):
            if varies and axis != but:
                inside = self.inside(self.at[o][axis], self.own[o][axis], self.out.type_of(x).shape, axis)
                x = self.out.emit(where, inside, x, zero, line=self.line)
        return x

    def inside(self, start: int, count: int, shape: Shape, axis: int) -> Literal:
        """Which positions along an axis are those of some elements."""
        at = np.arange(shape[axis])
        return self.constant(((start <= at) & (at < start + count)).reshape((-1,) + (1,) * (len(shape) - axis - 1)))

    # -- positions --

    def remaining(self, o: Operand, spec: tuple[Any, ...]) -> Iterator[int]:
        """The positions along the axes that an index leaves, and adds."""
        at = self.position_of(o)
        axis = 0
        for part in spec:
            if part is None or isinstance(part, slice):
                yield 0 if part is None else at[axis]
            axis += part is not None
        yield from at[axis:]

    def position_of(self, o: Operand) -> Position:
        return self.at[o] if isinstance(o, int) else (0,) * o.type.ndim
