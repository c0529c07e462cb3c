"""Writing the scans of loops that `find.py` has found.

Values of the turn before are carries, those that stay are consts, constants and rows that change are the rows of the scan. A
value that is read outside is a carry, if only that of the last turn is, or a stacked result. An array that the turns only
write to, each its own rows, is put together afterwards from a stacked result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...core.op import Op
from ...core.types import Type
from ...derive import type_rule
from ...ir.graph import Equation, Graph, Literal, Operand
from ...ops.broadcast import broadcast_to, reshape, transpose, where
from ...ops.control import scan
from ...ops.elementwise import add, equal
from ...ops.index import gather, getitem, place, put
from ...ops.shape import concatenate, stack
from .find import Flat, axis_of, entry_of, linear, varying_index
from .roles import Carried, Fixed, Grown, Inside, RowOf, Turns, Varying

TURN = "turn_of_loop"  # the name of the bodies
_MANY = 8  # operands of a stack, from which on it is looked at whether they are rows


def with_scans(flat: Flat) -> Graph:
    """The graph with its loops as scans."""
    return _Rolling(flat).run()


def line_of(equations: Sequence[Equation]) -> str:
    """The line that most of the equations come from."""
    lines = Counter(e.line for e in equations if e.line)
    return lines.most_common(1)[0][0] if lines else ""


class _Writer:
    """A graph being written: equations with the types that the ops give."""

    def __init__(self, types: Sequence[Type]) -> None:
        self.types: list[Type] = list(types)
        self.equations: list[Equation] = []

    def type_of(self, o: Operand) -> Type:
        return self.types[o] if isinstance(o, int) else o.type

    def copy(
        self, op: Op, inputs: tuple[Operand, ...], params: dict[str, Any], types: tuple[Type, ...], line: str
    ) -> tuple[int, ...]:
        numbers = tuple(range(len(self.types), len(self.types) + len(types)))
        self.types += types
        self.equations.append(Equation(op, inputs, params, numbers, types, line))
        return numbers

    def emit(self, op: Op, *inputs: Operand, line: str, **params: Any) -> int:
        weak = [o.value if isinstance(o, Literal) and o.is_weak else None for o in inputs]
        type_ = type_rule(op, [self.type_of(o) for o in inputs], params, weak)
        return self.copy(op, inputs, params, (type_,), line)[0]

    def to_front(self, o: Operand, axis: int, line: str) -> Operand:
        if not axis:
            return o
        rest = [a for a in range(self.type_of(o).ndim) if a != axis]
        return self.emit(transpose, o, line=line, axes=(axis, *rest))

    def from_front(self, o: Operand, axis: int, line: str) -> Operand:
        if not axis:
            return o
        return self.emit(transpose, o, line=line, axes=(*range(1, axis + 1), 0, *range(axis + 1, self.type_of(o).ndim)))

    def read(self, o: Operand, spec: tuple[Any, ...], line: str) -> Operand:
        whole = all(isinstance(part, slice) and part == slice(None) for part in spec)
        return o if whole else self.emit(getitem, o, line=line, spec=spec)

    def rows(self, array: Operand, spec: tuple[Any, ...], at: int, indices: Sequence[int], line: str) -> Operand:
        """What an index reads for each of the integers at one of its entries, stacked."""
        axis = axis_of(spec, at)
        size = self.type_of(array).shape[axis]
        part = _slice(indices, size)
        if part is None:
            array = self.emit(gather, array, Literal(np.array(indices, np.int64)), line=line, axis=axis)
            part = slice(None)
        found = self.read(array, _trimmed((*spec[:at], part, *spec[at + 1 :])), line)
        return self.to_front(found, _kept(spec, at), line)


def _kept(spec: Sequence[Any], at: int) -> int:
    """The axis of the result that an entry of an index gives, if it is a slice."""
    return sum(not isinstance(part, int) for part in spec[:at])


def _trimmed(spec: tuple[Any, ...]) -> tuple[Any, ...]:
    while spec and isinstance(spec[-1], slice) and spec[-1] == slice(None):
        spec = spec[:-1]
    return spec


def _slice(indices: Sequence[int], size: int) -> slice | None:
    """Indices as a slice; None if they do not go on by one step."""
    step = linear(indices)
    if not step:
        return None
    first, stop = indices[0], indices[-1] + (1 if step > 0 else -1)
    if step == 1 and first == 0 and stop == size:
        return slice(None)
    return slice(first, None if stop < 0 else stop, None if step == 1 else step)


class _Rolling:
    """One walk over a graph: equations are copied, those of a loop become a scan where the first of them stood."""

    def __init__(self, flat: Flat) -> None:
        self.flat = flat
        self.out = _Writer(flat.graph.input_types)
        self.known: dict[int, Operand] = {i: i for i in range(flat.inputs)}
        self.bodies: dict[int, _Body] = {}  # by the source of a loop's values

    def run(self) -> Graph:
        graph = self.flat.graph
        starts = {p.start: p for p in self.flat.loops}
        i = 0
        while i < len(graph.equations):
            loop = starts.get(i)
            if loop is not None:
                self.bodies[loop.source] = body = _Body(self, loop)
                body.write()
                i = loop.stop
                continue
            e = graph.equations[i]
            if (e.op is stack or e.op is concatenate) and len(e.inputs) >= _MANY:
                found = self.joined(e)
            else:
                found = self.out.copy(e.op, tuple([self.operand(o) for o in e.inputs]), e.params, e.types, e.line)
            self.known.update(zip(e.outputs, found, strict=True))
            i += 1
        outputs = tuple([self.operand(o) for o in graph.outputs])  # which may write equations
        return replace(graph, equations=tuple(self.out.equations), outputs=outputs)

    def operand(self, o: Operand) -> Operand:
        if not isinstance(o, int):
            return o
        if o not in self.known:
            loop = self.flat.loop_with(o)
            turn, offset = divmod(o - loop.first, loop.values)
            self.known[o] = self.bodies[loop.source].value(turn, offset)
        return self.known[o]

    def source(self, source: int, indices: Sequence[int], line: str) -> Operand:
        """Rows of an array that there is, or of the results of a loop, stacked."""
        loop = self.flat.loop_of(source)
        if loop is not None:
            body = self.bodies[loop.source]
            return self.out.rows(body.stacked[source - loop.source], (slice(None),), 0, [body.row(t) for t in indices], line)
        rows = self.flat.arrays[source]
        return self.out.rows(self.operand(rows.array), rows.spec, rows.place, indices, line)

    def joined(self, e: Equation) -> tuple[Operand, ...]:
        """A stack of values that are mostly rows of loops: in pieces, each with many of them."""
        flat, axis = self.flat, e.params["axis"]
        sources = [(int(flat.row_source[o]), int(flat.row_index[o])) if isinstance(o, int) else (-1, 0) for o in e.inputs]
        runs = _consecutive(sources)
        if len(runs) * 2 > len(e.inputs):
            return self.out.copy(e.op, tuple([self.operand(o) for o in e.inputs]), e.params, e.types, e.line)
        pieces: list[Operand] = []
        for low, high in runs:
            source = sources[low][0]
            if high - low > 1:
                piece = self.source(source, [index for _, index in sources[low:high]], e.line)
                moved = self.out.from_front(piece, axis, e.line)
                if e.op is concatenate:
                    shape = self.out.type_of(moved).shape
                    merged = (*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :])
                    moved = self.out.emit(reshape, moved, line=e.line, shape=merged)
                pieces.append(moved)
            else:
                single = self.operand(e.inputs[low])
                if e.op is stack:
                    shape = self.out.type_of(single).shape
                    strong = single.strong() if isinstance(single, Literal) else single
                    single = self.out.emit(reshape, strong, line=e.line, shape=(*shape[:axis], 1, *shape[axis:]))
                pieces.append(single)
        whole = pieces[0] if len(pieces) == 1 else self.out.emit(concatenate, *pieces, line=e.line, axis=axis)
        if self.out.type_of(whole) != e.types[0]:
            return self.out.copy(e.op, tuple([self.operand(o) for o in e.inputs]), e.params, e.types, e.line)
        return (whole,)


def _consecutive(sources: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Where runs of rows of one source begin and end, each row a step of one from the last."""
    runs: list[tuple[int, int]] = []
    low = 0
    for i in range(1, len(sources) + 1):
        if i < len(sources):
            (a, x), (b, y) = sources[i - 1], sources[i]
            step = y - x
            if a == b >= 0 and abs(step) == 1 and (i - low < 2 or step == x - sources[i - 2][1]):
                continue
        runs.append((low, i))
        low = i
    return runs


class _Body:
    """The scan of one loop."""

    def __init__(self, rolling: _Rolling, loop: Turns) -> None:
        self.rolling = rolling
        self.loop = loop
        self.flat = rolling.flat
        self.turn = self.flat.graph.equations[loop.start : loop.start + loop.period]
        self.line = line_of(self.turn)
        self.grown = {g.offset: g for g in loop.grown}
        self.lags = {offset: lag for offset, lag in loop.lags().items() if offset not in self.grown}
        self.results: dict[tuple[int, int], Operand] = {}  # what is left of the carries, by offset and lag
        self.stacked: dict[int, Operand] = {}  # by offset
        self.last: dict[int, Operand] = {}  # arrays that have grown
        self.reverse = self.runs_backwards()

    def row(self, turn: int) -> int:
        """The row of the stacked results that a turn wrote."""
        return self.loop.count - 1 - turn if self.reverse else turn

    def ordered(self, values: Sequence[Any]) -> list[Any]:
        """Something of each turn, in the order of the rows."""
        return list(values[::-1] if self.reverse else values)

    def value(self, turn: int, offset: int) -> Operand:
        """The value of one turn, outside."""
        if offset in self.last:
            return self.last[offset]
        lag = self.loop.count - turn
        if (offset, lag) in self.results:
            return self.results[offset, lag]
        return self.rolling.out.emit(getitem, self.stacked[offset], line=self.line, spec=(self.row(turn),))

    def runs_backwards(self) -> bool:
        """Whether most rows are read from the last to the first."""
        steps = []
        for i, roles in enumerate(self.loop.roles):
            for role in roles:
                if isinstance(role, RowOf):
                    indices: Any = role.indices
                    made = self.flat.loop_of(role.source)
                    if made is not None and self.rolling.bodies[made.source].reverse:
                        indices = indices[::-1]
                    steps.append(linear(indices))
            if i in self.loop.indices:
                varying = varying_index(self.loop.indices[i])
                steps.append(None if varying is None else linear(varying[1]))
        known = [s for s in steps if s]
        return sum(s < 0 for s in known) > sum(s > 0 for s in known)

    def write(self) -> None:
        loop, out = self.loop, self.rolling.out
        kept, stacked = self.asked()
        consts: dict[Any, Operand] = {}
        rows: dict[Any, Operand] = {}
        self.collect(consts, rows)
        registers = [(o, k) for o, lag in self.lags.items() for k in range(1, lag + 1)] + [(o, 1) for o in kept]
        states = [self.start(o, k) for o, k in registers]
        operands = [*consts.values(), *states, *rows.values()]
        types = [out.type_of(o) for o in operands]
        types[len(consts) + len(states) :] = [Type(t.shape[1:], t.dtype) for t in types[len(consts) + len(states) :]]
        self.places = {key: n for n, key in enumerate([*consts, *registers, *rows])}
        self.writer = _Writer(types)
        self.inside: dict[int, Operand] = {}
        self.write_turn()
        carried = [self.inside[o] if k == 1 else self.places[o, k - 1] for o, k in registers]
        grown = [self.grown_row(i, j) for g in loop.grown for i, j in g.parts]
        names = [f"const{n}" for n in range(len(consts))] + [f"carry{n}" for n in range(len(states))]
        names += [f"row{n}" for n in range(len(rows))]
        outputs = (*carried, *(self.inside[o] for o in stacked), *grown)
        body = Graph(TURN, tuple(names), tuple(types), tuple(self.writer.equations), outputs)
        params = {"body": body, "length": loop.count, "reverse": self.reverse, "carries": len(states), "consts": len(consts)}
        result = type_rule(scan, [out.type_of(o) for o in operands], params)
        found = list(out.copy(scan, tuple(operands), params, result, self.line))
        self.results = dict(zip(registers, found, strict=False))
        self.stacked = dict(zip(stacked, found[len(registers) :], strict=False))
        ends = iter(found[len(registers) + len(stacked) :])
        for g in loop.grown:
            self.last[g.offset] = self.whole(g, [next(ends) for _ in g.parts])

    def asked(self) -> tuple[list[int], list[int]]:
        """The values that are read outside: those of the last turn only, which are carried out, and those to be stacked."""
        kept, stacked = [], []
        for offset, turn in self.loop.outside.items():
            if offset in self.grown:
                continue
            lag = self.lags.get(offset, 0)
            if self.loop.count - turn <= lag:
                continue
            if not lag and turn == self.loop.count - 1:
                kept.append(offset)
            else:
                stacked.append(offset)
        return kept, stacked

    def start(self, offset: int, lag: int) -> Operand:
        number = self.loop.initial.get((offset, lag))
        if number is None:  # carried out of the loop only
            type_ = self.flat.type_of(self.loop.first + offset)
            return Literal(np.zeros(type_.shape, type_.dtype))
        return self.rolling.operand(number)

    # -- what a turn reads --------------------------------------------------------------------------------------

    def skipped(self) -> set[int]:
        """Equations that make an array grow: not in the body."""
        return set().union(*(g.equations for g in self.loop.grown)) if self.loop.grown else set()

    def collect(self, consts: dict[Any, Operand], rows: dict[Any, Operand]) -> None:
        """The operands of the scan that are no carries, by what the turn calls them."""
        out, loop, skipped = self.rolling.out, self.loop, self.skipped()
        values = {(i, j) for g in loop.grown for i, j in g.parts}
        for i, roles in enumerate(loop.roles):
            e = self.turn[i]
            read_by_row = i in loop.indices and e.op is getitem and self.by_row(i) is not None
            for j, role in enumerate(roles):
                if i in skipped and (i, j) not in values:
                    continue
                if isinstance(role, Fixed) and isinstance(role.operand, int) and not read_by_row:
                    consts.setdefault(role, self.rolling.operand(role.operand))
                elif isinstance(role, Varying) and self.role_key(role) not in rows:
                    rows[self.role_key(role)] = Literal(role.values[::-1] if self.reverse else role.values)
                elif isinstance(role, RowOf) and role not in rows:
                    rows[role] = self.rolling.source(role.source, self.ordered(role.indices), e.line)
            if i not in loop.indices or i in skipped:
                continue
            if read_by_row:
                key, array_number, spec, at, indices = self.by_row(i)  # type: ignore[misc]
                if key not in rows:
                    rows[key] = out.rows(self.rolling.operand(array_number), spec, at, self.ordered(indices), e.line)
            else:
                for c in np.flatnonzero((loop.indices[i] != loop.indices[i][0]).any(axis=0)).tolist():
                    key = self.index_key(i, c)
                    if key not in rows:
                        rows[key] = Literal(np.array(self.ordered(loop.indices[i][:, c].tolist()), np.int64))

    @staticmethod
    def role_key(role: Varying) -> Any:
        return "varying", role.values.dtype, role.values.shape, role.values.tobytes()

    def index_key(self, i: int, c: int) -> Any:
        return "index", self.loop.indices[i][:, c].tobytes()

    def by_row(self, i: int) -> Any:
        """How rows of an array from before the loop are read, if one integer of the index moves: whole, if it is the first."""
        role, found = self.loop.roles[i][0], varying_index(self.loop.indices[i])
        if not isinstance(role, Fixed) or found is None:
            return None
        spec = self.turn[i].params["spec"]
        at, indices = entry_of(spec, found[0]), found[1].tolist()
        number = role.operand
        if at == 0:
            spec = spec[:1]
        template = tuple(
            "row" if k == at else (s if not isinstance(s, slice) else ("slice", s.start, s.stop, s.step))
            for k, s in enumerate(spec)
        )
        return ("rows", role, template, tuple(indices)), number, spec, at, indices

    def operand(self, role: Any) -> Operand:
        if isinstance(role, Inside):
            return self.inside[role.offset]
        if isinstance(role, Carried):
            return self.places[role.offset, role.lag]
        if isinstance(role, Fixed) and not isinstance(role.operand, int):
            return role.operand
        return self.places[self.role_key(role) if isinstance(role, Varying) else role]

    # -- the equations of a turn --------------------------------------------------------------------------------

    def write_turn(self) -> None:
        skipped = self.skipped()
        first = (self.flat.first_number[self.loop.start : self.loop.start + self.loop.period] - self.loop.first).tolist()
        for i, e in enumerate(self.turn):
            if i in skipped:
                continue
            if i in self.loop.indices:
                found: tuple[Operand, ...] = (self.indexed(i, e),)
            else:
                inputs = tuple([self.operand(role) for role in self.loop.roles[i]])
                found = self.writer.copy(e.op, inputs, e.params, e.types, e.line)
            self.inside.update(zip(range(first[i], first[i] + len(found)), found, strict=True))

    def indexed(self, i: int, e: Equation) -> Operand:
        """A read or a write at an index that moves: of a row, or at a place that is known when it runs."""
        writer, spec, indices = self.writer, e.params["spec"], self.loop.indices[i]
        if e.op is getitem:
            found = self.by_row(i)
            if found is not None:
                key, _, used, at, _ = found
                return writer.read(self.places[key], _trimmed(spec[1:]) if at == 0 and len(used) == 1 else (), e.line)
            x = self.operand(self.loop.roles[i][0])
            for c in reversed(np.flatnonzero((indices != indices[0]).any(axis=0)).tolist()):
                at = [k for k, s in enumerate(spec) if isinstance(s, int)][c]
                x = writer.emit(gather, x, self.places[self.index_key(i, c)], line=e.line, axis=axis_of(spec, at))
                spec = (*spec[:at], *spec[at + 1 :])
            return writer.read(x, _trimmed(spec), e.line)
        varying = varying_index(indices)
        assert varying is not None
        at = entry_of(spec, varying[0])
        axis, index, rest = axis_of(spec, at), self.places[self.index_key(i, varying[0])], (*spec[:at], *spec[at + 1 :])
        (result,) = e.types
        shape = result.shape
        whole = Literal(np.arange(shape[axis]).reshape(shape[axis], *(1,) * (len(shape) - axis - 1)))
        here = writer.emit(equal, whole, index, line=e.line)
        row_shape = (*shape[:axis], *shape[axis + 1 :])
        operands = [self.operand(role) for role in self.loop.roles[i]]
        other: Operand = Literal(np.zeros((), result.dtype))
        if e.op is place:
            row = writer.emit(place, operands[0], line=e.line, spec=rest, shape=row_shape)
        else:
            other = operands[0]
            row = writer.emit(gather, other, index, line=e.line, axis=axis)
            row = writer.emit(put, row, operands[1], line=e.line, spec=rest)
        row = writer.emit(reshape, row, line=e.line, shape=(*shape[:axis], 1, *shape[axis + 1 :]))
        return writer.emit(where, here, row, other, line=e.line)

    # -- arrays that grow ---------------------------------------------------------------------------------------

    def grown_row(self, i: int, j: int) -> Operand:
        """What a turn adds to an array, or writes into it, in the shape of the place."""
        e = self.turn[i]
        value = self.operand(self.loop.roles[i][j])
        shape = np.broadcast_to(False, e.types[0].shape)[(*e.params["spec"], ...)].shape
        if isinstance(value, Literal):
            value = Literal(np.asarray(value.value, e.types[0].dtype))
        own = self.writer.type_of(value)
        return value if own.shape == shape else self.writer.emit(broadcast_to, value, line=e.line, shape=shape)

    def whole(self, grown: Grown, stacks: Sequence[int]) -> Operand:
        """The array after the last turn. Sums are taken in the order in which the turns would have."""
        out = self.rolling.out
        total = self.start(grown.offset, 1)
        parts = []
        for (i, _), rows in zip(grown.parts, stacks, strict=True):
            e = self.turn[i]
            found = varying_index(self.loop.indices[i])
            assert found is not None
            at, indices = entry_of(e.params["spec"], found[0]), found[1].tolist()
            step = linear(indices)
            assert step
            spec = e.params["spec"]
            part = _slice(self.ordered(indices), e.types[0].shape[axis_of(spec, at)])
            value = out.from_front(rows, _kept(spec, at), e.line)
            parts.append((-indices[0] * step, (*spec[:at], part, *spec[at + 1 :]), value, e))
        if grown.kind == "put":
            for _, spec, value, e in parts:
                total = out.emit(put, total, value, line=e.line, spec=spec)
            return total
        for _, spec, value, e in sorted(parts, key=lambda part: part[0]):
            placed = out.emit(place, value, line=e.line, spec=spec, shape=e.types[0].shape)
            total = out.emit(add, total, placed, line=e.line)
        # Each element met the zeros of the other turns: a negative zero is a positive one afterwards.
        return out.emit(add, total, Literal(np.zeros((), self.turn[grown.parts[0][0]].types[0].dtype)), line=self.line)
