"""Padding: arrays whose length changes from iteration to iteration get the length of the longest, so that iterations are alike.

    v1 = mul v[1:9], p;   v2 = mul v1[1:8], p;   v3 = mul v2[1:7], p;   …        a tree that shrinks
    v1 = mul v[1:9], p;   v2 = mul w1, p;        v3 = mul w2, p;        …        w1 = v1[1:8] and one more element, and so on

What is behind the end of an array is not defined. Sums and products replace it by zeros, a write leaves the old elements there,
and equations outside the loop read a slice of the array. The positions and masks that this takes are constants of the
iterations. Groups of equations on one line, with one op, whose shapes differ are padded.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ...core.types import Shape, Type
from ...ir.columns import Kind, columns_of, hashable
from ...ir.graph import Equation, Graph, Literal, Operand
from ...ops.broadcast import broadcast_to, cast, reshape, sum_, transpose, where
from ...ops.index import gather, getitem, place, put, put_at
from ...ops.linalg import matmul
from ...ops.shape import concatenate
from .find import is_per_element
from .roles import RefusedError
from .write import Writer, trimmed

_MOST_WORK = 4  # times as many elements
_MOST_ELEMENTS = 1 << 23  # of all positions and masks


def padded(graph: Graph, least: int) -> Graph | None:
    """The graph with arrays of different lengths padded; None if there are none, or an op is among them that cannot be padded."""
    groups = _groups(graph, least)
    if not groups:
        return None
    try:
        return _Padding(graph, groups).run()
    except RefusedError:
        return None


class Group(NamedTuple):
    """Equations with one op on one line, whose shapes differ."""

    shape: Shape  # of the padded results
    varies: tuple[bool, ...]  # along which axes the results differ
    ones: tuple[tuple[bool, ...], ...]  # by operand: the axes along which it always has one element
    from_start: bool  # all slices begin at 0, so that the padded array is read as it is


def _groups(graph: Graph, least: int) -> dict[int, Group]:
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
    work = longest = 0
    for positions in members.values():
        kinds = [columns.kinds[k] for k in set(columns.kind[positions].tolist())]
        if len(positions) < least or len({_shapes(kind) for kind in kinds}) == 1:
            continue
        shapes = [kind.types[0].shape for kind in kinds]
        largest = tuple(map(max, zip(*shapes, strict=True)))
        varies = tuple([len(set(lengths)) > 1 for lengths in zip(*shapes, strict=True)])
        operands = zip(*(_shapes(kind)[1:] for kind in kinds), strict=True)
        ones = tuple([_ones([shape for shape in column if shape is not None]) for column in operands])
        group = Group(largest, varies, ones, kinds[0].op is getitem and all(map(_is_from_start, kinds)))
        found.update(dict.fromkeys(positions, group))
        work += sum(math.prod(columns.kinds[columns.kind[i]].types[0].shape) for i in positions)
        longest += len(positions) * math.prod(largest)
    return found if longest <= _MOST_WORK * work + 64 * len(found) and longest < _MOST_ELEMENTS else {}


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


def _is_from_start(kind: Kind) -> bool:
    shape = _shapes(kind)[1]
    assert shape is not None
    return all(part.indices(shape[axis])[::2] == (0, 1) for axis, part, _ in _slices(kind.params["spec"]))


class _Padding:
    def __init__(self, graph: Graph, groups: dict[int, Group]) -> None:
        self.graph, self.groups = graph, groups
        self.out = Writer(graph.input_types)
        self.known: dict[int, Operand] = {i: i for i in range(len(graph.input_types))}  # padded, if it is in a group
        self.own: dict[int, Shape] = {i: t.shape for i, t in enumerate(graph.input_types)}  # the shape of each value, unpadded
        self.varies: dict[int, tuple[bool, ...]] = {}  # of padded values
        self.line = ""
        self.elements = 0  # of constants

    def run(self) -> Graph:
        for i, e in enumerate(self.graph.equations):
            self.line = e.line
            group = self.groups.get(i)
            if group is not None:
                results: Sequence[Operand] = (self.padded(e, group),)
                self.varies[e.outputs[0]] = group.varies
            else:
                results = self.out.copy(e.op, tuple(map(self.whole, e.inputs)), e.params, e.types, e.line)
            self.known.update(zip(e.outputs, results, strict=True))
            self.own.update({n: t.shape for n, t in zip(e.outputs, e.types, strict=True)})
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
        return self.cut(self.known[o], self.own[o])

    def cut(self, x: Operand, shape: Shape) -> Operand:
        """The first elements along each axis."""
        have = self.out.type_of(x).shape
        return self.out.read(
            x, trimmed(tuple([slice(None) if a == b else slice(0, b) for a, b in zip(have, shape, strict=True)])), self.line
        )

    def value(self, o: Operand) -> Operand:
        return self.known[o] if isinstance(o, int) else o

    def fitted(self, o: Operand, shape: Shape, ones: tuple[bool, ...]) -> Operand:
        """An operand with the lengths of `shape`, except where it is broadcast."""
        ndim = len(self.shape(o))
        if ndim == 0:
            return self.value(o)
        if len(ones) != ndim:
            raise RefusedError("the number of axes changes")
        return self.resized(self.value(o), tuple([1 if one else n for one, n in zip(ones, shape[-ndim:], strict=True)]))

    def resized(self, x: Operand, wanted: Shape) -> Operand:
        have = self.out.type_of(x).shape
        if have == wanted:
            return x
        if isinstance(x, Literal):
            kept = np.asarray(x.value)[tuple([slice(0, n) for n in wanted])]
            if 0 in kept.shape:
                return Literal(np.zeros(wanted, kept.dtype))
            return Literal(np.pad(kept, [(0, b - a) for a, b in zip(kept.shape, wanted, strict=True)], mode="edge"))
        least = tuple(map(min, have, wanted))
        x = self.cut(x, least)
        return (
            x
            if least == wanted
            else self.out.emit(place, x, line=self.line, spec=tuple([slice(0, n) for n in least]), shape=wanted)
        )

    def constant(self, values: Any) -> Literal:
        self.elements += values.size
        if self.elements > _MOST_ELEMENTS:
            raise RefusedError("the positions of the elements take too much memory")
        return Literal(values)

    def masked(self, o: Operand) -> Operand:
        """An operand with zeros in its padding."""
        x, own = self.value(o), self.shape(o)
        zero = Literal(np.zeros((), self.out.type_of(x).dtype))
        for axis, varies in enumerate(self.varies.get(o, ()) if isinstance(o, int) else ()):
            if varies:
                inside = self.first(own[axis], self.out.type_of(x).shape, axis)
                x = self.out.emit(where, inside, x, zero, line=self.line)
        return x

    def first(self, count: int, shape: Shape, axis: int) -> Literal:
        """Which elements along an axis are among the first ones."""
        return self.constant((np.arange(shape[axis]) < count).reshape((-1,) + (1,) * (len(shape) - axis - 1)))

    # -- ops ------------------------------------------------------------------------------------------------------------

    def padded(self, e: Equation, group: Group) -> Operand:
        op, emit, shape = e.op, self.out.emit, group.shape
        if is_per_element(op) or op is cast:
            inputs = [self.fitted(o, shape, ones) for o, ones in zip(e.inputs, group.ones, strict=True)]
            found: Operand = emit(op, *inputs, line=e.line, **e.params)
        elif op is getitem:
            found = self.read(e.inputs[0], e.params["spec"], group)
        elif op is put:
            found = self.written(e)
        elif op is matmul or op is sum_:
            masked = [self.masked(o) for o in e.inputs]
            if op is matmul:
                masked = self.contracted(e, masked)
            found = emit(op, *masked, line=e.line, **e.params)
        elif op is broadcast_to:
            found = emit(op, self.fitted(e.inputs[0], shape, group.ones[0]), line=e.line, shape=shape)
        elif op is transpose:
            found = emit(op, self.value(e.inputs[0]), line=e.line, **e.params)
        elif op is reshape and _lengths(self.out.type_of(self.value(e.inputs[0])).shape) == _lengths(shape):
            found = emit(op, self.value(e.inputs[0]), line=e.line, shape=shape)
        elif op is concatenate:
            found = self.joined(e, shape)
        else:
            raise RefusedError(f"{op.name!r} of arrays whose lengths change")
        if self.out.type_of(found).dtype != e.types[0].dtype:
            raise RefusedError("a type changes")
        have = self.out.type_of(found).shape
        return found if have == shape else self.resized(found, shape)

    def contracted(self, e: Equation, operands: list[Operand]) -> list[Operand]:
        """The factors of a matrix product, with one length along the axes that are summed over."""
        a, b = (self.out.type_of(o).shape for o in operands)
        axis = len(b) - 2 if len(b) > 1 else 0
        length = max(a[-1], b[axis])
        return [self.resized(operands[0], (*a[:-1], length)), self.resized(operands[1], (*b[:axis], length, *b[axis + 1 :]))]

    def read(self, o: Operand, spec: tuple[Any, ...], group: Group) -> Operand:
        """A basic index: its integers first, then its slices, which give as many elements as the result has."""
        own, shape = self.shape(o), group.shape
        whole = [
            slice(None) if isinstance(part, slice) else part + own[axis] if part is not None and part < 0 else part
            for part, axis in zip(spec, _axes(spec), strict=True)
        ]
        x = self.out.read(self.value(o), trimmed(tuple(whole)), self.line)
        sliced = {result: part.indices(own[axis]) for axis, part, result in _slices(spec)}
        for axis, length in enumerate(shape):
            start, _, step = sliced.get(axis, (0, 0, 1))
            have = self.out.type_of(x).shape[axis]
            if axis not in sliced or group.from_start or have == 0:
                x = self.along(x, axis, length)
            else:
                at = np.clip(start + step * np.arange(length), 0, have - 1)
                x = self.out.emit(gather, x, self.constant(at), line=self.line, axis=axis)
        return x

    def along(self, x: Operand, axis: int, length: int) -> Operand:
        have = self.out.type_of(x).shape
        return self.resized(x, (*have[:axis], length, *have[axis + 1 :]))

    def written(self, e: Equation) -> Operand:
        """A write of some elements; those of the padding are written as they are."""
        o, v = e.inputs
        own, spec = self.shape(o), e.params["spec"]
        if self.out.type_of(self.value(o)).shape != own or None in spec:
            raise RefusedError("a write to an array whose length changes")
        region = np.broadcast_to(False, own)[(*spec, ...)].shape
        if isinstance(v, Literal):
            v = Literal(np.asarray(v.value, e.types[0].dtype))
        if self.shape(v) != region and self.shape(v) != ():
            raise RefusedError("a value is broadcast as it is written")
        return self.put(self.value(o), list(spec), 0, v)

    def put(self, x: Operand, spec: list[Any], axis: int, v: Operand) -> Operand:
        """Write at the index from an axis on."""
        own = self.out.type_of(x).shape
        while axis < len(spec) and spec[axis] == slice(None):
            axis += 1
        if axis == len(spec):
            if self.shape(v) == ():
                return self.out.emit(broadcast_to, self.value(v), line=self.line, shape=own)
            return self.resized(self.value(v), own)
        part = spec[axis]
        if isinstance(part, int):
            old = self.out.emit(getitem, x, line=self.line, spec=(*(slice(None),) * axis, part))
            inner = self.put(old, [*spec[:axis], *spec[axis + 1 :]], axis, v)
            return self.out.emit(put, x, inner, line=self.line, spec=(*(slice(None),) * axis, part))
        start, stop, step = part.indices(own[axis])
        if abs(step) != 1:
            raise RefusedError("a write with a step")
        count = len(range(start, stop, step))
        at = self.constant((start + step * np.arange(own[axis])) % own[axis])  # each element once
        inside = self.first(count, own, axis)
        old = self.out.emit(gather, x, at, line=self.line, axis=axis)
        new = self.put(old, spec, axis + 1, v)
        new = self.out.emit(where, inside, new, old, line=self.line)
        return self.out.emit(put_at, x, new, at, line=self.line, axis=axis)

    def joined(self, e: Equation, shape: Shape) -> Operand:
        """A concatenation, whose parts begin where those before them end."""
        axis = e.params["axis"]
        places, behind, parts = [], 0, []
        for o in e.inputs:
            x = self.value(o) if isinstance(o, int) else o.strong()
            wanted = (*shape[:axis], self.out.type_of(x).shape[axis], *shape[axis + 1 :])
            x = self.resized(x, wanted)
            places.append(behind + np.arange(self.shape(o)[axis]))
            behind += wanted[axis]
            parts.append(x)
        at = np.zeros(shape[axis], np.int64)
        joined = np.concatenate(places)
        at[: len(joined)] = joined
        whole = self.out.emit(concatenate, *parts, line=self.line, axis=axis)
        return self.out.emit(gather, whole, self.constant(at), line=self.line, axis=axis)


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


def _slices(spec: tuple[Any, ...]) -> list[tuple[int, slice, int]]:
    """The slices of an index, with the axis that each reads and the axis that it gives."""
    found, result = [], 0
    for part, axis in zip(spec, _axes(spec), strict=True):
        if isinstance(part, slice):
            found.append((axis, part, result))
        result += not isinstance(part, int)
    return found
