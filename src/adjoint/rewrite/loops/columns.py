"""Loops over many points with short rows: one carry per column, instead of one array of rows.

    scan: s: (n, 3);  x, y, z = s[:, 0], s[:, 1], s[:, 2];  s + h * stack([y - x, …], axis=1)
    scan: x: (n,), y: (n,), z: (n,);  x + h * (y - x);  …

A column is contiguous, so that each operation is a vector instruction over points, and all columns share one kernel. The state of
a differential equation has such rows, written with a leading axis or batched by `vmap`. Each number is computed as before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from ...core.op import Op
from ...core.types import Type
from ...ir.edit import cut, dead_code, mapped, renumber, unused_number
from ...ir.graph import Equation, Graph, Literal, Operand
from ...ops.broadcast import broadcast_to, reshape, sum_
from ...ops.control import scan
from ...ops.elementwise import add, logical_or
from ...ops.index import getitem, place
from ...ops.reduce import any_
from ...ops.shape import concatenate, stack
from ..pointwise import is_pointwise
from .point_sums import LEAST_ITERATIONS, LEAST_POINTS

G = TypeVar("G", bound=Graph)

MOST_COLUMNS = 8
MOST_EQUATIONS = 500  # of a body whose columns are apart
_DEEPEST = 16  # equations in a row between two loops
_ALL = slice(None)


class _RefusedError(Exception):
    """An equation for which columns have no rule."""


def split_columns(graph: G) -> G:
    """The same results, from loops that carry columns instead of short rows."""
    if not any(e.op is scan and _points(e) for e in graph.equations):
        return graph
    outside = _Outside(unused_number(graph), graph.types)
    for e in graph.equations:
        points = _points(e) if e.op is scan else 0
        known = dict(outside.columns)
        try:
            made = outside.loop(e, points) if points else None
        except _RefusedError:
            made, outside.columns = None, known
        outside.equations += [e] if made is None else made
        outside.made |= dict.fromkeys(e.outputs, e)
    if not outside.columns:
        return graph
    return renumber(dead_code(replace(graph, equations=tuple(outside.equations))))


def _points(e: Equation) -> int:
    """The number of points of a loop that carries short rows of which it reads or builds columns; else 0."""
    body, consts, carries = (e.params[key] for key in ("body", "consts", "carries"))
    if e.params["length"] < LEAST_ITERATIONS:
        return 0
    shapes = [t.shape for t in body.input_types[consts : consts + carries]]
    found = {shape[0] for shape in shapes if len(shape) == 2 and shape[0] >= LEAST_POINTS and 1 < shape[1] <= MOST_COLUMNS}
    uses_columns = any(q.op in (getitem, stack, concatenate, place) for q in body.equations)
    return found.pop() if len(found) == 1 and uses_columns else 0


Columns = Sequence[Operand]


class _Outside:
    """The equations around the loops, and the columns of their results."""

    def __init__(self, number: int, types: Mapping[int, Type]) -> None:
        self.number, self.types = number, types
        self.equations: list[Equation] = []
        self.made: dict[int, Equation] = {}
        self.columns: dict[int, Columns] = {}

    def new(self) -> int:
        self.number += 1
        return self.number - 1

    def loop(self, e: Equation, points: int) -> list[Equation]:
        """The equations in place of a scan."""
        body, consts, carries = (e.params[key] for key in ("body", "consts", "carries"))
        inside = _Inside(body, points)
        before: list[Equation] = []
        inputs: list[Operand] = []
        counts = [0, 0, 0]  # of consts, carries and rows
        for i, operand in enumerate(e.inputs):
            columns = inside.count(body.input_types[i])
            kind = 0 if i < consts else 1 if i < consts + carries else 2
            given = self.columns_of(operand, columns, kind == 2, e, body.input_types[i], before) if columns else [operand]
            inputs += given
            counts[kind] += len(given)
        inside.run()
        outputs: list[int] = []
        types: list[Type] = []
        behind: list[Equation] = []
        known: dict[int, Columns] = {}
        for i, (n, t) in enumerate(zip(e.outputs, e.types, strict=True)):
            columns = len(inside.results[i]) if inside.is_split[i] else 0
            if not columns:
                outputs.append(n)
                types.append(t)
                continue
            parts = [self.new() for _ in range(columns)]
            outputs += parts
            types += [Type(t.shape[:-1], t.dtype)] * columns
            behind.append(Equation(stack, tuple(parts), {"axis": t.ndim - 1}, (n,), (t,), e.line))
            known[n] = parts
        self.columns |= known
        params = {**e.params, "body": inside.graph(), "consts": counts[0], "carries": counts[1]}
        return [*before, Equation(scan, tuple(inputs), params, tuple(outputs), tuple(types), e.line), *behind]

    def columns_of(
        self, operand: Operand, count: int, of_rows: bool, e: Equation, given: Type, before: list[Equation]
    ) -> list[Operand]:
        """The columns of what a loop reads: known ones, or those that `before` will compute."""
        if isinstance(operand, Literal):
            return [Literal(np.ascontiguousarray(operand.value[..., j])) for j in range(count)]
        if operand not in self.columns and not of_rows:
            self.follow(operand, given, before)
        if operand in self.columns:
            return list(self.columns[operand])
        spec = (_ALL,) * (1 + of_rows)
        t = Type((e.params["length"],) * of_rows + given.shape[:1], given.dtype)
        found = [self.new() for _ in range(count)]
        before += [Equation(getitem, (operand,), {"spec": (*spec, j)}, (n,), (t,), e.line) for j, n in enumerate(found)]
        return list(found)

    def follow(self, n: int, t: Type, before: list[Equation], depth: int = 0) -> None:
        """Note the columns of a value that pointwise equations compute from the columns of a loop's results.

        Such equations, between a loop and its backward pass, would otherwise build rows and take them apart.
        """
        q = self.made.get(n)
        if q is None or not is_pointwise(q) or depth > _DEEPEST:
            return
        for o in q.inputs:
            if isinstance(o, int) and o not in self.columns and o in self.made and self.types[o].shape == t.shape:
                self.follow(o, self.types[o], before, depth + 1)
        rows = [o for o in q.inputs if (self.types[o] if isinstance(o, int) else o.type).shape]
        if not rows or not all(isinstance(o, int) and len(self.columns.get(o, ())) == t.shape[1] for o in rows):
            return
        column, found = Type(t.shape[:1], t.dtype), []
        for j in range(t.shape[1]):
            inputs = [self.columns[o][j] if isinstance(o, int) and o in self.columns else o for o in q.inputs]
            found.append(self.new())
            before.append(Equation(q.op, tuple(inputs), q.params, (found[-1],), (column,), q.line))
        self.columns[n] = found


class _Inside:
    """The body of a loop, with columns in place of short rows."""

    def __init__(self, body: Graph, points: int) -> None:
        self.body, self.points = body, points
        self.types: dict[int, Type] = {}
        self.values: dict[int, Operand] = {}  # of the body as it was: what they are now
        self.columns: dict[int, Columns] = {}  # or which columns they have
        self.equations: list[Equation] = []
        names: list[str] = []
        for n, (name, t) in enumerate(zip(body.input_names, body.input_types, strict=True)):
            count = self.count(t)
            parts = [self.value(Type(t.shape[:1], t.dtype)) for _ in range(count)] if count else [self.value(t)]
            names += [f"{name}_{j}" for j in range(count)] if count else [name]
            if count:
                self.columns[n] = parts
            else:
                self.values[n] = parts[0]
        self.names = tuple(names)
        self.input_types = tuple(self.types[n] for n in range(len(names)))

    def count(self, t: Type) -> int:
        """How many columns the rows of a type have; 0 if it is no array of short rows."""
        is_rows = t.ndim == 2 and t.shape[0] == self.points and 1 <= t.shape[1] <= MOST_COLUMNS
        return t.shape[1] if is_rows else 0

    def value(self, t: Type) -> int:
        self.types[len(self.types)] = t
        return len(self.types) - 1

    def run(self) -> None:
        for q in self.body.equations:
            if len(q.outputs) != 1 or len(self.equations) > MOST_EQUATIONS:
                raise _RefusedError
            self.equation(q)
        given = [self.result(o) for o in self.body.outputs]
        self.is_split = [split for split, _ in given]
        self.results = [parts for _, parts in given]

    def result(self, o: Operand) -> tuple[bool, Columns]:
        """What an output of the body is now, and whether it is columns."""
        if isinstance(o, Literal):
            count = self.count(o.type)
            return bool(count), [Literal(np.ascontiguousarray(o.value[:, j])) for j in range(count)] or [o]
        return (True, self.columns[o]) if o in self.columns else (False, [self.values[o]])

    def graph(self) -> Graph:
        outputs = tuple([o for parts in self.results for o in parts])
        made = Graph(self.body.name, self.names, self.input_types, tuple(self.equations), outputs)
        return cut(self.body.name, dead_code(made), range(len(self.names)))

    def emit(self, q: Equation, op: Op, inputs: Sequence[Operand], params: dict[str, Any], t: Type) -> int:
        n = self.value(t)
        self.equations.append(Equation(op, tuple(inputs), params, (n,), (t,), q.line))
        return n

    def equation(self, q: Equation) -> None:
        (n,), (t,) = q.outputs, q.types
        count = self.count(t)
        if not count and not any(o in self.columns for o in q.inputs if isinstance(o, int)):
            self.values[n] = self.emit(q, q.op, mapped(q.inputs, self.values.__getitem__), q.params, t)
        elif count and is_pointwise(q):
            column = Type(t.shape[:1], t.dtype)
            self.columns[n] = [
                self.emit(q, q.op, [self.column(q, o, j, count) for o in q.inputs], q.params, column) for j in range(count)
            ]
        elif q.op in _RULES:
            found = _RULES[q.op](self, q, t)
            if t.shape[:1] != (self.points,) or len(found) != (count or 1) or t.ndim > 2:
                raise _RefusedError
            if count:
                self.columns[n] = found
            else:
                self.values[n] = found[0]
        else:
            raise _RefusedError

    def column(self, q: Equation, o: Operand, j: int, count: int) -> Operand:
        """Column j of an operand that is broadcast to so many."""
        shape = self.body.types[o].shape if isinstance(o, int) else o.type.shape
        if not shape:
            return self.values[o] if isinstance(o, int) else o
        if shape[-1] not in (1, count):
            raise _RefusedError
        j = min(j, shape[-1] - 1)
        if isinstance(o, Literal):
            column = o.value[..., j]
            return Literal(np.ascontiguousarray(column).reshape(column.shape if column.size > 1 else ()))
        if o in self.columns:
            return self.columns[o][j]
        if len(shape) > 2 or (len(shape) == 2 and shape[0] != 1):
            raise _RefusedError
        spec = (0,) * (len(shape) - 1) + (j,)
        return self.emit(q, getitem, [self.values[o]], {"spec": spec}, Type((), self.body.types[o].dtype))


# -- rules for equations that read or build columns: the columns of the result, or the one result ------------------------------


def _parts(inside: _Inside, o: Operand) -> Columns:
    """The columns of an operand; itself, if it has one number for each point."""
    if not isinstance(o, int):
        raise _RefusedError
    if o in inside.columns:
        return inside.columns[o]
    if len(inside.body.types[o].shape) != 1:
        raise _RefusedError
    return [inside.values[o]]


def _chosen(spec: tuple[Any, ...], numbers: Any) -> list[int]:
    """Of the columns with these numbers, those that an index chooses. A single number stands for an array without columns."""
    first, *rest = spec or (None,)
    if not isinstance(first, slice) or first != _ALL or not all(part is None or isinstance(part, (int, slice)) for part in rest):
        raise _RefusedError
    if sum(part is not None for part in rest) > np.ndim(numbers):
        raise _RefusedError
    found = np.asarray(numbers[tuple(rest)])
    if found.ndim > 1:
        raise _RefusedError
    return [int(j) for j in found.ravel()]


def _getitem(inside: _Inside, q: Equation, t: Type) -> Columns:
    (o,) = q.inputs
    parts = _parts(inside, o)
    numbers = np.arange(len(parts)) if o in inside.columns else np.array(0)  # type: ignore[comparison-overlap]
    return [parts[j] for j in _chosen(q.params["spec"], numbers)]


def _place(inside: _Inside, q: Equation, t: Type) -> Columns:
    (o,) = q.inputs
    parts = _parts(inside, o)
    if t.ndim > 2:
        raise _RefusedError
    at = _chosen(q.params["spec"], np.arange(t.shape[1]) if t.ndim == 2 else np.array(0))
    if len(at) != len(parts):
        raise _RefusedError
    if t.ndim == 1:
        return parts
    column = Type(t.shape[:1], t.dtype)
    zero = inside.emit(q, broadcast_to, [Literal(np.zeros((), t.dtype))], {"shape": column.shape}, column)
    found = dict(zip(at, parts, strict=True))
    return [found.get(j, zero) for j in range(t.shape[1])]


def _stack(inside: _Inside, q: Equation, t: Type) -> Columns:
    if q.params["axis"] != 1 or not inside.count(t):
        raise _RefusedError
    return [_single(inside, o) for o in q.inputs]


def _concatenate(inside: _Inside, q: Equation, t: Type) -> Columns:
    if q.params["axis"] != 1 or not all(isinstance(o, int) and o in inside.columns for o in q.inputs):
        raise _RefusedError
    return [column for o in q.inputs for column in inside.columns[o]]  # type: ignore[index]


def _single(inside: _Inside, o: Operand) -> Operand:
    if isinstance(o, Literal):
        return o
    if o not in inside.values:
        raise _RefusedError
    return inside.values[o]


def _reshape(inside: _Inside, q: Equation, t: Type) -> Columns:
    (o,) = q.inputs
    given = inside.body.types[o].shape if isinstance(o, int) else ()
    if isinstance(o, int) and given == t.shape[:1]:
        return [inside.values[o]]
    if isinstance(o, int) and o in inside.columns and (given == t.shape or (given[1] == 1 and t.shape == given[:1])):
        return inside.columns[o]
    raise _RefusedError


def _broadcast_to(inside: _Inside, q: Equation, t: Type) -> Columns:
    (o,), count = q.inputs, inside.count(t)
    column = Type(t.shape[:1], t.dtype)
    parts = [inside.column(q, o, j, count) for j in range(count)]
    of_points = isinstance(o, int) and o in inside.columns
    return parts if of_points else [inside.emit(q, broadcast_to, [x], {"shape": column.shape}, column) for x in parts]


def _reduction(joined: Op) -> Callable[[_Inside, Equation, Type], Columns]:
    """A reduction along the rows: the columns one after the other."""

    def rule(inside: _Inside, q: Equation, t: Type) -> Columns:
        (o,) = q.inputs
        if q.params["axis"] != (1,) or t.shape[1:] not in ((), (1,)) or o not in inside.columns:  # type: ignore[comparison-overlap]
            raise _RefusedError
        column = Type(t.shape[:1], t.dtype)
        total, *rest = inside.columns[o]  # type: ignore[index]
        if inside.body.types[o].dtype != t.dtype:  # type: ignore[index]
            raise _RefusedError
        for x in rest:
            total = inside.emit(q, joined, [total, x], {}, column)
        return [total]

    return rule


_RULES: Mapping[Op, Callable[[_Inside, Equation, Type], Columns]] = {
    getitem: _getitem,
    place: _place,
    stack: _stack,
    concatenate: _concatenate,
    reshape: _reshape,
    broadcast_to: _broadcast_to,
    sum_: _reduction(add),
    any_: _reduction(logical_or),
}
