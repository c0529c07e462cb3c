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
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...core.types import Shape
from ...ir.graph import Equation, Graph, Literal, Operand
from ...ops.broadcast import broadcast_to, cast, reshape, sum_, transpose, where
from ...ops.index import gather, getitem, place, put
from ...ops.linalg import matmul
from ...ops.shape import concatenate
from .find import is_per_element
from .padded_groups import Group, Read, groups_of, region
from .roles import RefusedError
from .write import Writer, trimmed

_MOST_WORK = 4  # times as many elements
_MOST_ELEMENTS = 1 << 23  # of all positions and masks

#: Where the first element of an array is in its padded one, along each axis.
Position = tuple[int, ...]


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


class _Padding:
    """Padded forms of all groups. With `keep`, slices that move keep their elements where they are."""

    def __init__(self, graph: Graph, groups: dict[int, Group], keep: bool) -> None:
        self.graph, self.groups, self.keep = graph, groups, keep
        self.out = Writer(graph.input_types)
        self.known: dict[int, Operand] = {i: i for i in range(len(graph.input_types))}  # padded, if it is in a group
        self.own: dict[int, Shape] = {n: t.shape for n, t in graph.types.items()}  # the shape of each value, unpadded
        self.at: dict[int, Position] = {i: (0,) * t.ndim for i, t in enumerate(graph.input_types)}
        self.group_of: dict[int, Group] = {}  # by value
        self.line = ""
        self.elements = 0  # of constants
        self.lay_out()

    # -- positions ------------------------------------------------------------------------------------------------------

    def lay_out(self) -> None:
        """Find the positions of all values, the shapes of the groups, and how far operands are moved."""
        distances: dict[Group, dict[tuple[int, int], Counter[int]]] = {group: {} for group in self.groups.values()}
        for i, e in enumerate(self.graph.equations):
            group = self.groups.get(i)
            if group is None:
                self.at.update({n: (0,) * t.ndim for n, t in zip(e.outputs, e.types, strict=True)})
                continue
            (number,) = e.outputs
            at = self.at[number] = self.position(e, group)
            self.group_of[number] = group
            ends = tuple([a + n for a, n in zip(at, e.types[0].shape, strict=True)])
            group.shape = tuple(map(max, group.shape, ends)) if i != group.positions[0] else ends
            for j, o in enumerate(e.inputs):
                if isinstance(o, int):
                    for axis, (a, b) in enumerate(zip(self.at[o], self.wanted(e, group, j), strict=True)):
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
        return longest <= _MOST_WORK * work + 64 * len(self.groups) and longest < _MOST_ELEMENTS

    def position(self, e: Equation, group: Group) -> Position:
        """The position of a result, which is that of its first operand if there is a choice."""
        op, ndim = e.op, e.types[0].ndim
        if op is getitem:
            return tuple(self.read_position(e, group))
        if op is put:
            return (0,) * ndim
        at = [self.position_of(o) for o in e.inputs]
        if op is matmul:
            a, b = at
            if any(a[:-2]) or any(b[:-2]) or (len(a) != len(b) and max(len(a), len(b)) > 2 and any((*a, *b))):
                raise RefusedError("a product of stacks whose lengths change")
            return (0,) * ndim if ndim > 2 and len(a) != len(b) else (*a[:-1], *b[-1:]) if len(b) > 1 else a[:-1]
        if op is sum_:
            summed, keepdims = e.params["axis"], e.params["keepdims"]
            return tuple([0 if axis in summed else p for axis, p in enumerate(at[0]) if keepdims or axis not in summed])
        if op is transpose:
            return tuple([at[0][axis] for axis in e.params["axes"]])
        if op is reshape:
            moved = [p for p, one in zip(at[0], group.ones[0], strict=True) if not one]
            places = [axis for axis, n in enumerate(e.types[0].shape) if n != 1]
            if len(moved) != len(places):
                raise RefusedError("'reshape' of arrays whose lengths change")
            return tuple([moved[places.index(axis)] if axis in places else 0 for axis in range(ndim)])
        if any(len(p) > ndim for p in at):
            raise RefusedError(f"{op.name!r} of arrays whose lengths change")
        found = [0] * ndim
        for o, p, ones in reversed(list(zip(e.inputs, at, group.ones, strict=True))):
            if len(p) != len(ones):
                raise RefusedError("the number of axes changes")
            for axis, one in enumerate(ones):
                if isinstance(o, int) and not one:
                    found[ndim - len(ones) + axis] = p[axis]
        if op is concatenate:
            found[e.params["axis"]] = 0
        return tuple(found)

    def read_position(self, e: Equation, group: Group) -> Iterator[int]:
        (o,) = e.inputs
        at = iter(self.remaining(o, e.params["spec"]))
        for axis, (start, *_) in enumerate(region(e.params["spec"], self.shape(o))):
            p = next(at)
            match group.read(axis, self.keep):
                case Read.KEPT:
                    yield p + start
                case Read.CUT:
                    yield p
                case Read.GATHERED:
                    yield 0

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

    def wanted(self, e: Equation, group: Group, j: int) -> Position:
        """The position that an equation needs an operand at; where it takes any, that of the operand."""
        o = e.inputs[j]
        at = self.position_of(o)
        result = self.at[e.outputs[0]]
        if e.op is put:
            if j == 0 or not at:
                return at
            return tuple([start for start, *_ in region(e.params["spec"], self.shape(e.inputs[0]))])
        if e.op is matmul:
            summed = self.position_of(e.inputs[0])[-1]
            axis = max(len(at) - 2, 0)
            return at if j == 0 else (*at[:axis], summed, *at[axis + 1 :])
        if e.op is concatenate:
            return tuple([at[axis] if axis == e.params["axis"] else p for axis, p in enumerate(result)])
        if is_per_element(e.op) or e.op in (cast, broadcast_to):
            last = result[len(result) - len(at) :]
            return tuple([0 if one else p for one, p in zip(group.ones[j], last, strict=True)])
        return at

    # -- the graph ------------------------------------------------------------------------------------------------------

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

    # -- operands -------------------------------------------------------------------------------------------------------

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

    def fitted(self, e: Equation, group: Group, j: int, shape: Shape) -> Operand:
        """An operand where the equation needs it, with the lengths of `shape`, except where it is broadcast."""
        o = e.inputs[j]
        x = self.value(o)
        at = self.position_of(o)
        for axis, (p, wanted) in enumerate(zip(at, self.wanted(e, group, j), strict=True)):
            length = shape[axis - len(at)]
            if e.op is not put and group.ones[j][axis]:
                length = 1
            x = self.moved(x, axis, wanted - p, length, group.distance.get((j, axis)))
        return x

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
        if self.elements > _MOST_ELEMENTS:
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

    # -- ops ------------------------------------------------------------------------------------------------------------

    def padded(self, e: Equation, group: Group) -> Operand:
        op, emit, shape = e.op, self.out.emit, group.shape
        if is_per_element(op) or op is cast:
            found: Operand = emit(op, *(self.fitted(e, group, j, shape) for j in range(len(e.inputs))), line=e.line, **e.params)
        elif op is getitem:
            found = self.read(e, group)
        elif op is put:
            found = self.written(e, group)
        elif op is matmul:
            found = emit(op, *self.factors(e, group), line=e.line, **e.params)
        elif op is sum_:
            found = emit(op, self.masked(e.inputs[0]), line=e.line, **e.params)
        elif op is broadcast_to:
            found = emit(op, self.fitted(e, group, 0, shape), line=e.line, shape=shape)
        elif op is transpose:
            found = emit(op, self.value(e.inputs[0]), line=e.line, **e.params)
        elif op is reshape:
            lengths = _lengths(self.out.type_of(self.value(e.inputs[0])).shape)
            if lengths != _lengths(shape):
                raise RefusedError("'reshape' of arrays whose lengths change")
            found = emit(op, self.value(e.inputs[0]), line=e.line, shape=shape)
        elif op is concatenate:
            found = self.joined(e, group)
        else:
            raise RefusedError(f"{op.name!r} of arrays whose lengths change")
        if self.out.type_of(found).dtype != e.types[0].dtype:
            raise RefusedError("a type changes")
        for axis, length in enumerate(shape):
            found = self.moved(found, axis, 0, length, 0)
        return found

    def factors(self, e: Equation, group: Group) -> list[Operand]:
        """The factors of a matrix product, with one position and length along the axes that are summed over.

        The padding is zero. It is masked after a factor was moved, since a gather repeats elements there.
        """
        shapes = [self.out.type_of(self.value(o)).shape for o in e.inputs]
        axes = [len(shapes[0]) - 1, max(len(shapes[1]) - 2, 0)]
        length = max(shape[axis] for shape, axis in zip(shapes, axes, strict=True))
        (count,) = {self.shape(o)[axis] for o, axis in zip(e.inputs, axes, strict=True)}
        at = self.position_of(e.inputs[0])[-1]
        found: list[Operand] = []
        for j, (o, axis) in enumerate(zip(e.inputs, axes, strict=True)):
            x = self.masked(o, but=axis)
            usual = 0 if j == 0 else group.distance.get((j, axis))
            x = self.moved(x, axis, at - self.position_of(o)[axis], length, usual)
            inside = self.inside(at, count, self.out.type_of(x).shape, axis)
            zero = Literal(np.zeros((), self.out.type_of(x).dtype))
            if isinstance(x, Literal):
                x = self.constant(np.where(inside.value, x.value, zero.value))
            else:
                x = self.out.emit(where, inside, x, zero, line=self.line)
            found.append(x)
        return found

    def read(self, e: Equation, group: Group) -> Operand:
        """A basic index: its integers first, then its slices."""
        (o,), spec = e.inputs, e.params["spec"]
        own = self.shape(o)
        at = self.position_of(o)
        whole = [
            part if part is None or isinstance(part, slice) else at[axis] + part % own[axis]
            for part, axis in zip(spec, _axes(spec), strict=True)
        ]
        whole = [slice(None) if isinstance(part, slice) else part for part in whole]
        x = self.out.read(self.value(o), trimmed(tuple(whole)), self.line)
        remaining = self.remaining(o, spec)
        for axis, (start, _, step, _) in enumerate(region(spec, own)):
            p, length = next(remaining), group.shape[axis]
            match group.read(axis, self.keep):
                case Read.CUT:
                    x = self.moved(x, axis, -start, length, -start)
                case Read.GATHERED:
                    x = self.gathered(x, axis, p + start + step * np.arange(length))
        return x

    def written(self, e: Equation, group: Group) -> Operand:
        """A write of some elements: a select between them and the old ones, in the row that the integers of the index are."""
        (o, v), spec = e.inputs, e.params["spec"]
        x, own = self.value(o), self.shape(o)
        if self.out.type_of(x).shape != own or any(self.position_of(o)) or None in spec:
            raise RefusedError("a write to an array whose length changes")
        row = trimmed(tuple([slice(None) if isinstance(part, slice) else part for part in spec]))
        old = self.out.read(x, row, self.line)
        parts = list(region(spec, own))
        shape, dtype = self.out.type_of(old).shape, e.types[0].dtype
        if isinstance(v, Literal):
            v = Literal(np.asarray(v.value, dtype))
        if self.shape(v) != tuple([count for _, count, *_ in parts]) and self.shape(v) != ():
            raise RefusedError("a value is broadcast as it is written")
        new = self.value(v)
        if self.shape(v):
            for axis, (start, _, step, _) in enumerate(parts):
                p = self.position_of(v)[axis]
                if any(step != 1 for _, step in group.starts[axis]):
                    if abs(step) != 1:
                        raise RefusedError("a write with a step")
                    new = self.gathered(new, axis, p + step * (np.arange(shape[axis]) - start))
                else:
                    new = self.moved(new, axis, start - p, shape[axis], group.distance.get((1, axis)))
        elif any(abs(step) != 1 for starts in group.starts for _, step in starts):
            raise RefusedError("a write with a step")
        if self.out.type_of(new).dtype != dtype:
            new = self.out.emit(cast, new, line=self.line, dtype=dtype)
        for axis, (start, count, step, _) in enumerate(parts):
            if group.partial[axis]:
                inside = self.inside(min(start, start + step * (count - 1)), count, shape, axis)
                new = self.out.emit(where, inside, new, old, line=self.line)
        if self.out.type_of(new).shape != shape:
            new = self.out.emit(broadcast_to, new, line=self.line, shape=shape)
        return self.out.emit(put, x, new, line=self.line, spec=row) if row else new

    def joined(self, e: Equation, group: Group) -> Operand:
        """A concatenation, whose parts begin where those before them end."""
        axis, shape = e.params["axis"], group.shape
        places, behind, parts = [], 0, []
        for j, o in enumerate(e.inputs):
            x = self.value(o) if isinstance(o, int) else o.strong()
            length = self.out.type_of(x).shape[axis]
            at = self.position_of(o)
            for other, (p, wanted) in enumerate(zip(at, self.wanted(e, group, j), strict=True)):
                if other != axis:
                    x = self.moved(x, other, wanted - p, shape[other], group.distance.get((j, other)))
            places.append(behind + at[axis] + np.arange(self.shape(o)[axis]))
            behind += length
            parts.append(x)
        order = np.zeros(shape[axis], np.int64)
        joined = np.concatenate(places)
        order[: len(joined)] = joined
        whole = self.out.emit(concatenate, *parts, line=self.line, axis=axis)
        return self.out.emit(gather, whole, self.constant(order), line=self.line, axis=axis)


def _usual(distances: Counter[int]) -> int | None:
    """The distance of nearly all iterations; the others are not in the loop."""
    ((distance, count),) = distances.most_common(1)
    return distance if count * 8 >= distances.total() * 7 else None


def _lengths(shape: Shape) -> list[int]:
    """A shape without axes of length 1, which `reshape` may add and remove."""
    return [n for n in shape if n != 1]


def _axes(spec: tuple[Any, ...]) -> list[int]:
    """The axis that each entry of an index reads; for a new axis, the next one."""
    found, axis = [], 0
    for part in spec:
        found.append(axis)
        axis += part is not None
    return found
