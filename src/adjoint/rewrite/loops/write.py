"""Writing the scans of the loops that `find.py` has found.

    v2 = sin x;  v3 = add v2, a[0];  v4 = sin v3;  v5 = add v4, a[1];  …        return the last value

    scan (carry = x, rows = a):  v2 = sin carry;  v3 = add v2, row;  return v3

Carried values are the carries of the scan, invariants its consts, rows and constants that vary its rows. A result that is read
after the loop is a carry if only that of the last iteration is read, else it is stacked. An accumulator is written after the
loop, from its stacked rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ...core.op import Op
from ...core.types import Type
from ...derive import type_rule
from ...ir.columns import hashable
from ...ir.graph import Equation, Graph, Literal, Operand, weak_numbers
from ...ops.broadcast import broadcast_to, reshape, transpose
from ...ops.control import scan
from ...ops.elementwise import add
from ...ops.index import gather, getitem, place, put, put_at, scatter_add
from ...ops.shape import concatenate, stack
from .find import FlatGraph, axis_of, constant_step, entry_of, neighbours, varying, varying_index
from .roles import Accumulator, Carried, Constants, Invariant, Local, Loop, Role, Row, Update

BODY = "iteration_of_loop"  # the name of the bodies
_MANY = 8  # operands of a stack that are worth being joined from rows


def with_scans(flat: FlatGraph) -> Graph:
    """The graph with its loops as scans."""
    return _Rolling(flat).run()


class EquationWriter:
    """Writes the equations of a graph, with the types that the ops give."""

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
        weak = weak_numbers(inputs)
        type_ = type_rule(op, [self.type_of(o) for o in inputs], params, weak)
        return self.copy(op, inputs, params, (type_,), line)[0]

    def moved(self, o: Operand, axis: int, to: int, line: str) -> Operand:
        """With an axis moved to another place."""
        axes = [a for a in range(self.type_of(o).ndim) if a != axis]
        axes.insert(to, axis)
        return o if axis == to else self.emit(transpose, o, line=line, axes=tuple(axes))

    def read(self, o: Operand, spec: tuple[Any, ...], line: str) -> Operand:
        whole = all(isinstance(part, slice) and part == slice(None) for part in spec)
        return o if whole else self.emit(getitem, o, line=line, spec=spec)

    def rows(self, array: Operand, spec: tuple[Any, ...], entry: int, indices: Sequence[int], line: str) -> Operand:
        """The elements that an index reads with each of the integers at one of its entries, stacked."""
        axis = axis_of(spec, entry)
        part = _slice(indices, self.type_of(array).shape[axis])
        if part is None:
            array = self.emit(gather, array, Literal(np.array(indices, np.int64)), line=line, axis=axis)
            part = slice(None)
        found = self.read(array, trimmed((*spec[:entry], part, *spec[entry + 1 :])), line)
        return self.moved(found, _result_axis(spec, entry), 0, line)


def _result_axis(spec: Sequence[Any], entry: int) -> int:
    """The axis of the result that an entry of an index gives, if it is a slice."""
    return sum(not isinstance(part, int) for part in spec[:entry])


def trimmed(spec: tuple[Any, ...]) -> tuple[Any, ...]:
    """Without the full slices at the end."""
    while spec and isinstance(spec[-1], slice) and spec[-1] == slice(None):
        spec = spec[:-1]
    return spec


def _slice(indices: Sequence[int], size: int) -> slice | None:
    """Indices as a slice; None if they are not evenly spaced."""
    step = constant_step(indices)
    if not step:
        return None
    first, stop = indices[0], indices[-1] + (1 if step > 0 else -1)
    if step == 1 and first == 0 and stop == size:
        return slice(None)
    return slice(first, None if stop < 0 else stop, None if step == 1 else step)


class _Rolling:
    """One walk over a graph: equations are copied, those of a loop become a scan in place of the first of them."""

    def __init__(self, flat: FlatGraph) -> None:
        self.flat = flat
        self.out = EquationWriter(flat.graph.input_types)
        self.known: dict[int, Operand] = {i: i for i in range(flat.inputs)}  # the new operand for an old value
        self.scans: dict[int, _RolledScan] = {}  # by the source of a loop's values

    def run(self) -> Graph:
        graph = self.flat.graph
        starts = {loop.start: loop for loop in self.flat.loops}
        i = 0
        while i < len(graph.equations):
            loop = starts.get(i)
            if loop is not None:
                self.scans[loop.source] = scan_ = _RolledScan(self, loop)
                scan_.write()
                i = loop.stop
                continue
            e = graph.equations[i]
            is_long_join = (e.op is stack or e.op is concatenate) and len(e.inputs) >= _MANY
            found = (self.joined(e) if is_long_join else None) or self.copied(e)
            self.known.update(zip(e.outputs, found, strict=True))
            i += 1
        outputs = tuple([self.operand(o) for o in graph.outputs])  # which may write equations
        return replace(graph, equations=tuple(self.out.equations), outputs=outputs)

    def copied(self, e: Equation) -> tuple[Operand, ...]:
        return self.out.copy(e.op, tuple([self.operand(o) for o in e.inputs]), e.params, e.types, e.line)

    def operand(self, o: Operand) -> Operand:
        if not isinstance(o, int):
            return o
        if o not in self.known:
            loop = self.flat.loop_of_value(o)
            t, offset = divmod(o - loop.first_value, loop.stride)
            self.known[o] = self.scans[loop.source].value(t, offset)
        return self.known[o]

    def rows(self, source: int, indices: Sequence[int], line: str) -> Operand:
        """Rows of an array, or of the stacked results of a loop."""
        loop = self.flat.loop_of_source(source)
        if loop is not None:
            made = self.scans[loop.source]
            return self.out.rows(made.stacked[source - loop.source], (slice(None),), 0, [made.row(t) for t in indices], line)
        array, spec, entry = self.flat.arrays[source]
        return self.out.rows(self.operand(array), spec, entry, indices, line)

    def joined(self, e: Equation) -> tuple[Operand, ...] | None:
        """A stack or concatenation in which runs of rows are slices of stacked results; None if there are few such runs.

        stack v4 v6 v8 x v10 v12 …      where v4, v6, … are the rows 0, 1, … of a loop's results r
        concatenate r[0:3], x[None], r[3:]
        """
        flat, axis = self.flat, e.params["axis"]
        sources = [(int(flat.row_source[o]), int(flat.row_index[o])) if isinstance(o, int) else (-1, 0) for o in e.inputs]
        runs = _consecutive(sources)
        if len(runs) * 2 > len(e.inputs):
            return None
        pieces: list[Operand] = []
        for low, high in runs:
            source = sources[low][0]
            if high - low > 1:
                piece = self.rows(source, [index for _, index in sources[low:high]], e.line)
                moved = self.out.moved(piece, 0, axis, e.line)
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
        return (whole,) if self.out.type_of(whole) == e.types[0] else None


def _consecutive(sources: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Where runs of rows of one source begin and end, whose indices rise or fall by one."""
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


class _RowRead(NamedTuple):
    """A read of a row of an invariant array, where one integer of the index varies.

    If that is the first one, the whole row is handed to the body, which reads the rest of the index.
    """

    key: Any
    array: Operand
    spec: tuple[Any, ...]
    entry: int  # of the varying integer in the spec
    indices: list[int]


class _RolledScan:
    """The scan of one loop."""

    def __init__(self, rolling: _Rolling, loop: Loop) -> None:
        self.rolling = rolling
        self.loop = loop
        self.flat = rolling.flat
        self.body = self.flat.graph.equations[loop.start : loop.start + loop.period]
        lines = Counter(e.line for e in self.body if e.line)
        self.line = lines.most_common(1)[0][0] if lines else ""
        accumulated = {a.offset for a in loop.accumulators}
        self.lags = {offset: lag for offset, lag in loop.lags().items() if offset not in accumulated}
        self.last_only, self.to_stack = self.results_asked(accumulated)
        self.accumulated = loop.accumulated()  # equations that are not in the body of the scan
        self.row_reads = {i: read for i in loop.indices if (read := self.row_read(i)) is not None}
        self.reverse = self.runs_backwards()
        self.finals: dict[tuple[int, int], Operand] = {}  # the carries after the loop, by offset and lag
        self.stacked: dict[int, Operand] = {}  # by offset
        self.arrays: dict[int, Operand] = {}  # the accumulators after the loop, by offset

    def row(self, t: int) -> int:
        """The row of the stacked results that iteration t of the loop wrote."""
        return self.loop.iterations - 1 - t if self.reverse else t

    def in_row_order(self, values: Sequence[Any]) -> list[Any]:
        """Something of each iteration, in the order of the rows."""
        return list(values[::-1] if self.reverse else values)

    def value(self, t: int, offset: int) -> Operand:
        """A result of one iteration, after the loop."""
        if offset in self.arrays:
            return self.arrays[offset]
        lag = self.loop.iterations - t
        if (offset, lag) in self.finals:
            return self.finals[offset, lag]
        return self.rolling.out.emit(getitem, self.stacked[offset], line=self.line, spec=(self.row(t),))

    def results_asked(self, accumulated: set[int]) -> tuple[list[int], list[int]]:
        """The values that are read after the loop: those of the last iteration only, which are carried out, and the others."""
        last_only: list[int] = []
        stacked: list[int] = []
        for offset, t in self.loop.live_out.items():
            lag = self.lags.get(offset, 0)
            if offset in accumulated or self.loop.iterations - t <= lag:
                continue
            (last_only if not lag and t == self.loop.iterations - 1 else stacked).append(offset)
        return last_only, stacked

    def runs_backwards(self) -> bool:
        """Whether most rows are read from the last to the first."""
        steps = []
        for i, roles in enumerate(self.loop.roles):
            for role in roles:
                if isinstance(role, Row):
                    step = constant_step(role.indices)
                    made = self.flat.loop_of_source(role.source)
                    steps.append(-step if step and made is not None and self.rolling.scans[made.source].reverse else step)
            if i in self.loop.indices:
                index = varying_index(self.loop.indices[i])
                steps.append(None if index is None else constant_step(index[1]))
        return sum(s < 0 for s in steps if s) > sum(s > 0 for s in steps if s)

    def write(self) -> None:
        loop, out = self.loop, self.rolling.out
        consts, rows = self.inputs()
        registers = [(o, k) for o, lag in self.lags.items() for k in range(1, lag + 1)] + [(o, 1) for o in self.last_only]
        carries = [self.start(o, k) for o, k in registers]
        operands = [*consts.values(), *carries, *rows.values()]
        types = [out.type_of(o) for o in [*consts.values(), *carries]]
        types += [Type(t.shape[1:], t.dtype) for t in map(out.type_of, rows.values())]
        self.places = {key: n for n, key in enumerate([*consts, *registers, *rows])}  # the inputs of the body
        self.writer = EquationWriter(types)
        self.computed: dict[int, Operand] = {}  # by offset: the values of the body
        self.write_body()
        carried = [self.computed[o] if k == 1 else self.places[o, k - 1] for o, k in registers]
        updates = [self.update_rows(i, j) for a in loop.accumulators for i, j in a.parts]
        groups = {"const": len(consts), "carry": len(carries), "row": len(rows)}
        names = [f"{name}{n}" for name, count in groups.items() for n in range(count)]
        outputs = (*carried, *(self.computed[o] for o in self.to_stack), *updates)
        body = Graph(BODY, tuple(names), tuple(types), tuple(self.writer.equations), outputs)
        counts = {"carries": len(carries), "consts": len(consts)}
        params = {"body": body, "length": loop.iterations, "reverse": self.reverse, **counts}
        result_types = type_rule(scan, [out.type_of(o) for o in operands], params)
        results = iter(out.copy(scan, tuple(operands), params, result_types, self.line))
        self.finals = dict(zip(registers, results, strict=False))
        self.stacked = dict(zip(self.to_stack, results, strict=False))
        for a in loop.accumulators:
            self.arrays[a.offset] = self.accumulator_after(a, [next(results) for _ in a.parts])

    def start(self, offset: int, lag: int) -> Operand:
        """What a carry is before the loop."""
        number = self.loop.initial.get((offset, lag))
        if number is None:  # only carried out of the loop
            type_ = self.flat.type_of(self.loop.first_value + offset)
            return Literal(np.zeros(type_.shape, type_.dtype))
        return self.rolling.operand(number)

    # -- what an iteration reads --------------------------------------------------------------------------------

    def inputs(self) -> tuple[dict[Any, Operand], dict[Any, Operand]]:
        """The consts and the rows of the scan, each once, by the key under which the body reads them.

        h = tanh(w @ h + a[i, 2]) * c[i] + (h * b)[i]        c is a list of numbers

        consts   by Invariant           w, b
        rows     by _RowRead.key        a; the body reads row[2]
                 by Constants           c, stacked
                 by index_key           0, 1, 2, …, since h * b is computed by the body: gather (h * b), i
        """
        consts: dict[Any, Operand] = {}
        rows: dict[Any, Operand] = {}
        read_by_updates = {part for a in self.loop.accumulators for part in a.parts}
        for i, (e, roles) in enumerate(zip(self.body, self.loop.roles, strict=True)):
            if i in self.row_reads:
                self.add_row_read(rows, self.row_reads[i], e.line)
                continue
            for j, role in enumerate(roles):
                if i not in self.accumulated or (i, j) in read_by_updates:
                    self.add_operand(consts, rows, role, e.line)
            if i in self.loop.indices and i not in self.accumulated:
                self.add_indices(rows, i)
        return consts, rows

    def add_operand(self, consts: dict[Any, Operand], rows: dict[Any, Operand], role: Role, line: str) -> None:
        """What an operand of the body reads from outside the loop."""
        if isinstance(role, Invariant) and isinstance(role.operand, int) and role not in consts:
            consts[role] = self.rolling.operand(role.operand)
        elif isinstance(role, Constants) and role not in rows:
            rows[role] = Literal(role.values[::-1] if self.reverse else role.values)
        elif isinstance(role, Row) and role not in rows:
            rows[role] = self.rolling.rows(role.source, self.in_row_order(role.indices), line)

    def add_row_read(self, rows: dict[Any, Operand], read: _RowRead, line: str) -> None:
        """An array of which each iteration reads another row."""
        if read.key not in rows:
            array = self.rolling.operand(read.array)
            rows[read.key] = self.rolling.out.rows(array, read.spec, read.entry, self.in_row_order(read.indices), line)

    def add_indices(self, rows: dict[Any, Operand], i: int) -> None:
        """The indices of an equation that change from one iteration to the next."""
        for c in varying(self.loop.indices[i]):
            if (key := self.index_key(i, c)) not in rows:
                rows[key] = Literal(np.array(self.in_row_order(self.loop.indices[i][:, c].tolist()), np.int64))

    def index_key(self, i: int, c: int) -> Any:
        return "index", self.loop.indices[i][:, c].tobytes()

    def row_read(self, i: int) -> _RowRead | None:
        role, index = self.loop.roles[i][0], varying_index(self.loop.indices[i])
        if self.body[i].op is not getitem or not isinstance(role, Invariant) or index is None:
            return None
        spec = self.body[i].params["spec"]
        entry, indices = entry_of(spec, index[0]), index[1].tolist()
        if entry == 0:
            spec = spec[:1]
        template = hashable(tuple(["row" if k == entry else part for k, part in enumerate(spec)]))
        return _RowRead(("rows", role, template, tuple(indices)), role.operand, spec, entry, indices)

    def operand(self, role: Role) -> Operand:
        if isinstance(role, Local):
            return self.computed[role.offset]
        if isinstance(role, Carried):
            return self.places[role.offset, role.lag]
        if isinstance(role, Invariant) and not isinstance(role.operand, int):
            return role.operand
        return self.places[role]

    # -- the equations of the body ------------------------------------------------------------------------------

    def write_body(self) -> None:
        for i, (e, offset) in enumerate(zip(self.body, self.flat.offsets(self.loop), strict=True)):
            if i in self.accumulated:
                continue
            if i not in self.loop.indices:
                inputs = tuple([self.operand(role) for role in self.loop.roles[i]])
                found: tuple[Operand, ...] = self.writer.copy(e.op, inputs, e.params, e.types, e.line)
            else:
                found = (self.read_at(i, e) if e.op is getitem else self.write_at(i, e),)
            self.computed.update(enumerate(found, offset))

    def read_at(self, i: int, e: Equation) -> Operand:
        """A read at an index that varies: of a row of the scan, or by `gather` at the integers that the scan hands in."""
        spec = e.params["spec"]
        if i in self.row_reads:
            key, _, _, entry, _ = self.row_reads[i]
            return self.writer.read(self.places[key], trimmed(spec[1:]) if entry == 0 else (), e.line)
        x = self.operand(self.loop.roles[i][0])
        if neighbours(spec, varying(self.loop.indices[i])) is not None:
            numbers, axis, rest = self.place_of(i, spec)
            x = self.writer.emit(gather, x, *numbers, line=e.line, axis=axis)
            return self.writer.read(x, trimmed(rest), e.line)
        for c in reversed(varying(self.loop.indices[i])):
            entry = entry_of(spec, c)
            x = self.writer.emit(gather, x, self.places[self.index_key(i, c)], line=e.line, axis=axis_of(spec, entry))
            spec = (*spec[:entry], *spec[entry + 1 :])
        return self.writer.read(x, trimmed(spec), e.line)

    def place_of(self, i: int, spec: tuple[Any, ...]) -> tuple[list[Operand], int, tuple[Any, ...]]:
        """The integers of an index from the first to the last that varies, the axis of the first, and the rest of the index."""
        moving = {entry_of(spec, c): c for c in varying(self.loop.indices[i])}
        found = neighbours(spec, list(moving.values()))
        assert found is not None
        first, stop = found
        numbers: list[Operand] = [
            self.places[self.index_key(i, moving[k])] if k in moving else Literal(np.int64(spec[k])) for k in range(first, stop)
        ]
        return numbers, axis_of(spec, first), (*spec[:first], *spec[stop:])

    def write_at(self, i: int, e: Equation) -> Operand:
        """A `place` or `put` at an index of which some integers vary, as a `scatter_add` or `put_at`."""
        writer = self.writer
        numbers, axis, rest = self.place_of(i, e.params["spec"])
        rest = trimmed(rest)
        (result,) = e.types
        operands = [self.operand(role) for role in self.loop.roles[i]]
        shape = (*result.shape[:axis], *result.shape[axis + len(numbers) :])  # of a row
        row = operands[-1]
        if e.op is place:
            if rest:
                row = writer.emit(place, row, line=e.line, spec=rest, shape=shape)
            return writer.emit(scatter_add, row, *numbers, line=e.line, axis=axis, shape=result.shape)
        if rest:
            row = writer.emit(gather, operands[0], *numbers, line=e.line, axis=axis)
            row = writer.emit(put, row, operands[1], line=e.line, spec=rest)
        return writer.emit(put_at, operands[0], row, *numbers, line=e.line, axis=axis)

    # -- accumulators -------------------------------------------------------------------------------------------

    def update_rows(self, i: int, j: int) -> Operand:
        """What an iteration adds to an accumulator, or writes into it, in the shape of the rows there."""
        e = self.body[i]
        value = self.operand(self.loop.roles[i][j])
        shape = np.broadcast_to(False, e.types[0].shape)[(*e.params["spec"], ...)].shape
        if isinstance(value, Literal):
            value = Literal(np.asarray(value.value, e.types[0].dtype))
        own = self.writer.type_of(value)
        return value if own.shape == shape else self.writer.emit(broadcast_to, value, line=e.line, shape=shape)

    def accumulator_after(self, accumulator: Accumulator, stacks: Sequence[Operand]) -> Operand:
        """The array after the last iteration. Sums are taken in the order in which the iterations would have."""
        out = self.rolling.out
        total = self.start(accumulator.offset, 1)
        parts = []
        for (i, _), rows in zip(accumulator.parts, stacks, strict=True):
            e, index = self.body[i], varying_index(self.loop.indices[i])
            assert index is not None
            spec, indices = e.params["spec"], index[1].tolist()
            entry, step = entry_of(spec, index[0]), constant_step(indices)
            assert step
            part = _slice(self.in_row_order(indices), e.types[0].shape[axis_of(spec, entry)])
            value = out.moved(rows, 0, _result_axis(spec, entry), e.line)
            parts.append((-indices[0] * step, (*spec[:entry], part, *spec[entry + 1 :]), value, e))
        if accumulator.update is Update.PUT:
            for _, spec, value, e in parts:
                total = out.emit(put, total, value, line=e.line, spec=spec)
            return total
        for _, spec, value, e in sorted(parts, key=lambda part: part[0]):
            placed = out.emit(place, value, line=e.line, spec=spec, shape=e.types[0].shape)
            total = out.emit(add, total, placed, line=e.line)
        # Each iteration added zeros to the rows of the others, which makes a negative zero a positive one.
        return out.emit(add, total, Literal(np.zeros((), self.body[accumulator.parts[0][0]].types[0].dtype)), line=self.line)
