"""How each op is padded: the position of its result, the positions at which it needs its operands, and its padded form.

per element    result where the first operand is; every operand at the position of the result
sum, matmul    the padding of what is summed over is masked by zeros
read, write    slices become moves, gathers or selects
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...core.op import Op
from ...core.types import Shape
from ...ir.graph import Equation, Literal, Operand
from ...ops.broadcast import broadcast_to, cast, reshape, sum_, transpose, where
from ...ops.index import gather, getitem, put
from ...ops.linalg import matmul
from ...ops.shape import concatenate
from .find import is_per_element
from .padded_groups import Group, SliceKind, region
from .padded_operands import PaddedOperands, Position
from .roles import RefusedError
from .write import trimmed


class PaddedForm:
    """The equations of one op, padded: `e` is one of them, `group` is its group, `pad` holds the operands."""

    def position(self, pad: PaddedOperands, e: Equation, group: Group) -> Position:
        """The position of the result."""
        raise NotImplementedError

    def wanted(self, pad: PaddedOperands, e: Equation, group: Group, j: int) -> Position:
        """The position at which operand j is needed; where any will do, the one that it has."""
        return pad.position_of(e.inputs[j])

    def padded(self, pad: PaddedOperands, e: Equation, group: Group) -> Operand:
        """The equation on padded operands, written to `pad.out`."""
        raise NotImplementedError


class PerElement(PaddedForm):
    """Elementwise ops, and the base of those whose operands broadcast."""

    def position(self, pad: PaddedOperands, e: Equation, group: Group) -> Position:
        """Along each axis, that of the first operand that has elements there."""
        ndim = e.types[0].ndim
        found = [0] * ndim
        for o, ones in reversed(list(zip(e.inputs, group.ones, strict=True))):
            at = pad.position_of(o)
            if len(at) != len(ones) or len(at) > ndim:
                raise RefusedError("the number of axes changes")
            for axis, (p, one) in enumerate(zip(at, ones, strict=True), ndim - len(at)):
                if isinstance(o, int) and not one:
                    found[axis] = p
        return tuple(found)

    def wanted(self, pad: PaddedOperands, e: Equation, group: Group, j: int) -> Position:
        result = pad.at[e.outputs[0]]
        last = result[len(result) - len(pad.position_of(e.inputs[j])) :]
        return tuple([0 if one else p for one, p in zip(group.ones[j], last, strict=True)])

    def padded(self, pad: PaddedOperands, e: Equation, group: Group) -> Operand:
        return pad.out.emit(e.op, *(self.fitted(pad, e, group, j) for j in range(len(e.inputs))), line=e.line, **e.params)

    def fitted(self, pad: PaddedOperands, e: Equation, group: Group, j: int) -> Operand:
        """An operand where the equation needs it, with the lengths of the group, except where it is broadcast."""
        x = pad.value(e.inputs[j])
        at = pad.position_of(e.inputs[j])
        for axis, (p, wanted) in enumerate(zip(at, self.wanted(pad, e, group, j), strict=True)):
            length = 1 if group.ones[j][axis] else group.shape[axis - len(at)]
            x = pad.moved(x, axis, wanted - p, length, group.distance.get((j, axis)))
        return x


class PaddedBroadcast(PerElement):
    def padded(self, pad: PaddedOperands, e: Equation, group: Group) -> Operand:
        return pad.out.emit(e.op, self.fitted(pad, e, group, 0), line=e.line, shape=group.shape)


class PaddedSum(PaddedForm):
    def position(self, pad: PaddedOperands, e: Equation, group: Group) -> Position:
        summed, keepdims = e.params["axis"], e.params["keepdims"]
        at = pad.position_of(e.inputs[0])
        return tuple([0 if axis in summed else p for axis, p in enumerate(at) if keepdims or axis not in summed])

    def padded(self, pad: PaddedOperands, e: Equation, group: Group) -> Operand:
        return pad.out.emit(e.op, pad.masked(e.inputs[0]), line=e.line, **e.params)


class PaddedTranspose(PaddedForm):
    def position(self, pad: PaddedOperands, e: Equation, group: Group) -> Position:
        at = pad.position_of(e.inputs[0])
        return tuple([at[axis] for axis in e.params["axes"]])

    def padded(self, pad: PaddedOperands, e: Equation, group: Group) -> Operand:
        return pad.out.emit(e.op, pad.value(e.inputs[0]), line=e.line, **e.params)


class PaddedReshape(PaddedForm):
    """Axes of length 1 are added or removed; any other reshape is refused."""

    def position(self, pad: PaddedOperands, e: Equation, group: Group) -> Position:
        moved = [p for p, one in zip(pad.position_of(e.inputs[0]), group.ones[0], strict=True) if not one]
        shape = e.types[0].shape
        if len(moved) != len(_lengths(shape)):
            raise RefusedError("'reshape' of arrays whose lengths change")
        rest = iter(moved)
        return tuple([0 if n == 1 else next(rest) for n in shape])

    def padded(self, pad: PaddedOperands, e: Equation, group: Group) -> Operand:
        x = pad.value(e.inputs[0])
        if _lengths(pad.out.type_of(x).shape) != _lengths(group.shape):
            raise RefusedError("'reshape' of arrays whose lengths change")
        return pad.out.emit(e.op, x, line=e.line, shape=group.shape)


class PaddedMatMul(PaddedForm):
    def position(self, pad: PaddedOperands, e: Equation, group: Group) -> Position:
        a, b = (pad.position_of(o) for o in e.inputs)
        is_broadcast = len(a) != len(b) and max(len(a), len(b)) > 2
        if any(a[:-2]) or any(b[:-2]) or (is_broadcast and any((*a, *b))):
            raise RefusedError("a product of stacks whose lengths change")
        ndim = e.types[0].ndim
        if is_broadcast and ndim > 2:
            return (0,) * ndim
        return (*a[:-1], b[-1]) if len(b) > 1 else a[:-1]

    def wanted(self, pad: PaddedOperands, e: Equation, group: Group, j: int) -> Position:
        """The axis of the second factor that is summed over is moved to the position of the first."""
        at = pad.position_of(e.inputs[j])
        if j == 0:
            return at
        axis = max(len(at) - 2, 0)
        return (*at[:axis], pad.position_of(e.inputs[0])[-1], *at[axis + 1 :])

    def padded(self, pad: PaddedOperands, e: Equation, group: Group) -> Operand:
        return pad.out.emit(e.op, *self.factors(pad, e, group), line=e.line, **e.params)

    def factors(self, pad: PaddedOperands, e: Equation, group: Group) -> list[Operand]:
        """The factors of a matrix product, with one position and length along the axes that are summed over.

        The padding is zero. It is masked after a factor was moved, since a gather repeats elements there.
        """
        shapes = [pad.out.type_of(pad.value(o)).shape for o in e.inputs]
        axes = [len(shapes[0]) - 1, max(len(shapes[1]) - 2, 0)]
        length = max(shape[axis] for shape, axis in zip(shapes, axes, strict=True))
        (count,) = {pad.shape(o)[axis] for o, axis in zip(e.inputs, axes, strict=True)}
        at = pad.position_of(e.inputs[0])[-1]
        found: list[Operand] = []
        for j, (o, axis) in enumerate(zip(e.inputs, axes, strict=True)):
            x = pad.masked(o, but=axis)
            usual = 0 if j == 0 else group.distance.get((j, axis))
            x = pad.moved(x, axis, at - pad.position_of(o)[axis], length, usual)
            inside = pad.inside(at, count, pad.out.type_of(x).shape, axis)
            zero = Literal(np.zeros((), pad.out.type_of(x).dtype))
            if isinstance(x, Literal):
                x = pad.constant(np.where(inside.value, x.value, zero.value))
            else:
                x = pad.out.emit(where, inside, x, zero, line=pad.line)
            found.append(x)
        return found


class PaddedSlice(PaddedForm):
    """A read with a basic index: its integers first, then its slices."""

    def position(self, pad: PaddedOperands, e: Equation, group: Group) -> Position:
        return tuple(self._positions(pad, e, group))

    def _positions(self, pad: PaddedOperands, e: Equation, group: Group) -> Iterator[int]:
        (o,) = e.inputs
        at = pad.remaining(o, e.params["spec"])
        for axis, (start, *_) in enumerate(region(e.params["spec"], pad.shape(o))):
            p = next(at)
            match group.read(axis, pad.keep):
                case SliceKind.KEPT:
                    yield p + start
                case SliceKind.CUT:
                    yield p
                case SliceKind.GATHERED:
                    yield 0

    def padded(self, pad: PaddedOperands, e: Equation, group: Group) -> Operand:
        (o,), spec = e.inputs, e.params["spec"]
        own = pad.shape(o)
        at = pad.position_of(o)
        whole = [
            part if part is None or isinstance(part, slice) else at[axis] + part % own[axis]
            for part, axis in zip(spec, _axes(spec), strict=True)
        ]
        whole = [slice(None) if isinstance(part, slice) else part for part in whole]
        x = pad.out.read(pad.value(o), trimmed(tuple(whole)), pad.line)
        remaining = pad.remaining(o, spec)
        for axis, (start, _, step, _) in enumerate(region(spec, own)):
            p, length = next(remaining), group.shape[axis]
            match group.read(axis, pad.keep):
                case SliceKind.CUT:
                    x = pad.moved(x, axis, -start, length, -start)
                case SliceKind.GATHERED:
                    x = pad.gathered(x, axis, p + start + step * np.arange(length))
        return x


class PaddedWrite(PaddedForm):
    """A write with a basic index: a select between new and old elements, in the row that the integers of the index are."""

    def position(self, pad: PaddedOperands, e: Equation, group: Group) -> Position:
        return (0,) * e.types[0].ndim

    def wanted(self, pad: PaddedOperands, e: Equation, group: Group, j: int) -> Position:
        at = pad.position_of(e.inputs[j])
        if j == 0 or not at:
            return at
        return tuple([start for start, *_ in region(e.params["spec"], pad.shape(e.inputs[0]))])

    def padded(self, pad: PaddedOperands, e: Equation, group: Group) -> Operand:
        (o, v), spec = e.inputs, e.params["spec"]
        x, own = pad.value(o), pad.shape(o)
        if pad.out.type_of(x).shape != own or any(pad.position_of(o)) or None in spec:
            raise RefusedError("a write to an array whose length changes")
        row = trimmed(tuple([slice(None) if isinstance(part, slice) else part for part in spec]))
        old = pad.out.read(x, row, pad.line)
        shape, dtype = pad.out.type_of(old).shape, e.types[0].dtype
        new = self.laid_out(pad, Literal(np.asarray(v.value, dtype)) if isinstance(v, Literal) else v, e, group, shape)
        if pad.out.type_of(new).dtype != dtype:
            new = pad.out.emit(cast, new, line=pad.line, dtype=dtype)
        for axis, (start, count, step, _) in enumerate(region(spec, own)):
            if group.partial[axis]:
                inside = pad.inside(min(start, start + step * (count - 1)), count, shape, axis)
                new = pad.out.emit(where, inside, new, old, line=pad.line)
        return pad.out.emit(put, x, new, line=pad.line, spec=row) if row else new

    def laid_out(self, pad: PaddedOperands, v: Operand, e: Equation, group: Group, shape: Shape) -> Operand:
        """The elements to be written, each where it is in a row of the given shape."""
        new, own = pad.value(v), pad.shape(v)
        parts = list(region(e.params["spec"], pad.shape(e.inputs[0])))
        if own != tuple([count for _, count, *_ in parts]):
            raise RefusedError("a value is broadcast as it is written")
        for axis, (start, _, step, _) in enumerate(parts):
            p = pad.position_of(v)[axis]
            if all(step == 1 for _, step in group.starts[axis]):
                new = pad.moved(new, axis, start - p, shape[axis], group.distance.get((1, axis)))
            elif abs(step) == 1:
                new = pad.gathered(new, axis, p + step * (np.arange(shape[axis]) - start))
            else:
                raise RefusedError("a write with a step")
        return new


class PaddedConcatenate(PerElement):
    def position(self, pad: PaddedOperands, e: Equation, group: Group) -> Position:
        found, axis = super().position(pad, e, group), e.params["axis"]
        return (*found[:axis], 0, *found[axis + 1 :])

    def wanted(self, pad: PaddedOperands, e: Equation, group: Group, j: int) -> Position:
        at = pad.position_of(e.inputs[j])
        return tuple([at[axis] if axis == e.params["axis"] else p for axis, p in enumerate(pad.at[e.outputs[0]])])

    def padded(self, pad: PaddedOperands, e: Equation, group: Group) -> Operand:
        """A concatenation, whose parts begin where those before them end."""
        axis, shape = e.params["axis"], group.shape
        places, behind, parts = [], 0, []
        for j, o in enumerate(e.inputs):
            x = pad.value(o) if isinstance(o, int) else o.strong()
            length = pad.out.type_of(x).shape[axis]
            at = pad.position_of(o)
            for other, (p, wanted) in enumerate(zip(at, self.wanted(pad, e, group, j), strict=True)):
                if other != axis:
                    x = pad.moved(x, other, wanted - p, shape[other], group.distance.get((j, other)))
            places.append(behind + at[axis] + np.arange(pad.shape(o)[axis]))
            behind += length
            parts.append(x)
        order = np.zeros(shape[axis], np.int64)
        joined = np.concatenate(places)
        order[: len(joined)] = joined
        whole = pad.out.emit(concatenate, *parts, line=pad.line, axis=axis)
        return pad.out.emit(gather, whole, pad.constant(order), line=pad.line, axis=axis)


_PER_ELEMENT = PerElement()
_FORMS: dict[Op, PaddedForm] = {
    cast: _PER_ELEMENT,
    broadcast_to: PaddedBroadcast(),
    sum_: PaddedSum(),
    transpose: PaddedTranspose(),
    reshape: PaddedReshape(),
    matmul: PaddedMatMul(),
    getitem: PaddedSlice(),
    put: PaddedWrite(),
    concatenate: PaddedConcatenate(),
}


def form_of(op: Op) -> PaddedForm:
    """The padded form of an op; RefusedError if there is none."""
    found = _PER_ELEMENT if is_per_element(op) else _FORMS.get(op)
    if found is None:
        raise RefusedError(f"{op.name!r} of arrays whose lengths change")
    return found


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
