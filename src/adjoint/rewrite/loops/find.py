"""Loops in a flat graph: which equations repeat, and what each of their operands is in every iteration.

Equations repeat if their keys do: op, types, and parameters without the integers of an index, which may change from iteration
to iteration like the constants. `repeats.py` finds stretches of keys, `FlatGraph.narrow` cuts them where operands break the
pattern, `FlatGraph.rotated` chooses where an iteration begins, `FlatGraph.loop_in` assigns the roles of `roles.py`.
"""

from __future__ import annotations

import bisect
from collections.abc import Collection, Sequence
from enum import IntEnum
from typing import Any

import numpy as np

from ...core.locks import cached
from ...core.op import Elementwise, Op
from ...core.types import Type
from ...derive import type_rule
from ...ir.columns import Kind, columns_of, hashable
from ...ir.graph import Equation, Graph, Literal
from ...ops.broadcast import where
from ...ops.elementwise import PRODUCTS, add, equal, greater, greater_equal, less, less_equal, not_equal, power
from ...ops.index import getitem, place, put
from ..saving import FUNCTION
from .operands import OperandKind, Operands
from .repeats import Stretch
from .roles import Accumulator, Carried, Constants, Invariant, Local, Loop, Numbers, RefusedError, Role, Row, RowSource, Update

_PER_ELEMENT = (*PRODUCTS, where, less, less_equal, greater, greater_equal, equal, not_equal)


class Step(IntEnum):
    """How an operand moves from one iteration to the next. STRIDE + d is for a move by d values."""

    MIXED = 0  # a constant in one of them, a value from before the loop in the other
    COMPUTED = 1  # to the value that the next iteration computes in the same place
    INVARIANT = 2  # not at all
    CONSTANT = 3  # a constant in both
    ENTERS = 4  # into the loop from elsewhere: the start of a carry
    STRIDE = 1 << 40  # among the values from before the loop, which may be rows of an earlier one


_LONG = 10  # additions that a function costs


def weight(equation: Equation | Kind) -> int:
    """How much code an equation is, in operators, with those of the graphs that it holds."""
    held = [part for part in equation.params.values() if isinstance(part, Graph)]
    is_function = isinstance(equation.op, Elementwise) and equation.op.cost >= _LONG
    return (FUNCTION if is_function else 1) + sum(weight(e) for part in held for e in part.equations)


def is_per_element(op: Op) -> bool:
    """Whether an op computes each element of its result from one of each operand."""
    is_ufunc = isinstance(op.impl, np.ufunc) and op.impl.signature is None
    return is_ufunc or isinstance(op, Elementwise) or op in _PER_ELEMENT


def axis_of(spec: Sequence[Any], entry: int) -> int:
    """The axis that an entry of an index reads."""
    return sum(part is not None for part in spec[:entry])


class FlatGraph:
    """A graph as columns of numbers, the loops that have been found in it, and which of its values are rows."""

    def __init__(self, graph: Graph, weak: Collection[int]) -> None:
        self.graph = graph
        self.weak = frozenset(weak)
        self.columns = columns = columns_of(graph)
        self.inputs, self.type_of = columns.inputs, columns.type_of
        self.keys = columns.kind
        self.weights = np.array([weight(kind) for kind in columns.kinds], np.int64)[columns.kind]
        self.operands, self.literals = columns.operands, columns.literals
        self.first_operand, self.first_number = columns.first_operand, columns.first_number
        self.position = columns.made_by
        self.row_source = np.full(columns.values, -1, np.int64)  # by value: what it is a row of, -1 for nothing,
        self.row_index = np.zeros(columns.values, np.int64)  # and which one
        self.sources = 0
        self.arrays: dict[int, RowSource] = {}  # the sources that are no values of loops
        self.loops: list[Loop] = []

    @cached
    def reads(self) -> Any:
        """By equation: whether it reads at integers from an array that is no such element itself."""
        is_read = np.array([kind.op is getitem and bool(kind.places) for kind in self.columns.kinds], bool)[self.keys]
        arrays = np.where(is_read, self.operands[np.minimum(self.first_operand[:-1], len(self.operands) - 1)], -1)
        is_element = np.zeros(len(is_read), bool)
        computed = arrays >= self.inputs
        is_element[computed] = is_read[self.position[arrays[computed] - self.inputs]]
        return is_read & ~is_element

    def arrays_read(self, numbers: Numbers) -> tuple[Numbers, Numbers]:
        """For operands: the arrays that they are read from, and the equations that read; themselves and -1 for the others."""
        made = np.where(numbers >= self.inputs, self.position[np.maximum(numbers - self.inputs, 0)], -1)
        made = np.where((made >= 0) & self.reads[made], made, -1)
        arrays = self.operands[np.where(made >= 0, self.first_operand[made], 0)]
        return np.where(made >= 0, arrays, numbers), made

    def kind(self, position: int) -> Kind:
        return self.columns.kinds[self.keys[position]]

    def at(self, position: int) -> str:
        """The user's line of an equation, for a message."""
        line = self.graph.equations[position].line
        return f" ({line})" if line else ""

    def integers(self, positions: Numbers) -> Numbers:
        """The integers of the indices of equations of one kind, a row for each."""
        entries = np.arange(len(self.kind(int(positions[0])).places))
        return self.columns.integers[self.columns.first_integer[positions][:, None] + entries]

    def offsets(self, loop: Loop) -> list[int]:
        """The offset of the first result of each equation of the body."""
        return (self.first_number[loop.start : loop.start + loop.period] - loop.first_value).tolist()  # type: ignore[no-any-return]

    def body_size(self, stretch: Stretch) -> tuple[int, int]:
        """How many operands an iteration reads, and how many values it computes."""
        start, _, period = stretch
        operands, numbers = self.first_operand, self.first_number
        return int(operands[start + period] - operands[start]), int(numbers[start + period] - numbers[start])

    # -- sources of rows ----------------------------------------------------------------------------------------

    def reset(self) -> None:
        """Forget all loops."""
        self.loops, self.sources = [], 0
        self.row_source[:] = -1
        self.arrays.clear()
        self._find_rows()

    def _find_rows(self) -> None:
        """Values that are read from an array by an integer are its rows."""
        for number, kind in enumerate(self.columns.kinds):
            if kind.op is not getitem or not kind.places:
                continue
            positions = np.flatnonzero(self.keys == number)
            arrays = self.operands[self.first_operand[positions]]
            positions, arrays = positions[arrays >= 0], arrays[arrays >= 0]  # not of a constant
            if not len(positions):
                continue
            found = self.integers(positions)
            read = np.column_stack([arrays, found[:, 1:]])  # rows of one source differ in the first integer only
            distinct, which = np.unique(read if read.shape[1] > 1 else read[:, 0], axis=0, return_inverse=True)
            for source, (array, *rest) in enumerate(distinct.reshape(len(distinct), -1).tolist(), self.sources):
                spec = list(kind.params_with([0, *rest])["spec"])
                spec[kind.places[0]] = slice(None)
                self.arrays[source] = RowSource(array, tuple(spec), kind.places[0])
            numbers = self.first_number[positions]
            self.row_source[numbers], self.row_index[numbers] = self.sources + which.reshape(-1), found[:, 0] % kind.sizes[0]
            self.sources += len(distinct)

    def add(self, loop: Loop) -> None:
        """Let later loops read the values of a loop as rows."""
        loop.source = self.sources
        self.sources += loop.stride
        low, high = loop.first_value, loop.first_value + loop.iterations * loop.stride
        self.row_source[low:high] = np.tile(loop.source + np.arange(loop.stride), loop.iterations)
        self.row_index[low:high] = np.repeat(np.arange(loop.iterations), loop.stride)
        self.loops.append(loop)

    def loop_of_source(self, source: int) -> Loop | None:
        """The loop whose values are the rows of a source."""
        at = bisect.bisect_right(self.loops, source, key=lambda loop: loop.source) - 1
        return self.loops[at] if at >= 0 and source < self.loops[at].source + self.loops[at].stride else None

    def loop_of_value(self, number: int) -> Loop:
        """The loop that computes a value."""
        return self.loops[bisect.bisect_right(self.loops, number, key=lambda loop: loop.first_value) - 1]

    # -- stretches whose operands repeat ------------------------------------------------------------------------

    def narrow(self, stretch: Stretch, refusals: list[tuple[Stretch, int]]) -> list[Stretch]:
        """The parts of a stretch in which each operand takes the same `Step` from iteration to iteration.

        Two iterations make a step, three can show that it changes. With one value per iteration, from v8 on:

            iteration        0      1         2         3      4         5
            first operand    v0     v8        v9        v10    v11       v12          ENTERS, then COMPUTED: a carry
            second operand   v1     v1        v1        v4     v4        v4           INVARIANT but for STRIDE + 3

        The parts are the iterations 0 to 2, 2 and 3, 3 to 5; where parts overlap, the longest is used. A stretch whose parts are
        all short is added to `refusals`, with the equation that breaks the pattern first.
        """
        start, stop, period = stretch
        width, _ = self.body_size(stretch)
        steps, equation = self._steps(stretch)
        later, earlier = steps[width:], steps[: len(steps) - width]
        is_start = (earlier == Step.ENTERS) & (later == Step.COMPUTED)
        changed = equation[width:][(later != earlier) & ~is_start]
        mixed = equation[steps == Step.MIXED]
        # A part may not hold all iterations that a break was seen in: three, or two.
        breaks = sorted({(int(i), 2 * period) for i in changed} | {(int(i), period) for i in mixed})
        found, begin = [], start
        for i, back in breaks:
            found.append(Stretch(begin, i, period))
            begin = max(begin, i - back + 1)
        found.append(Stretch(begin, stop, period))
        if breaks and max(part.saving for part in found) * 2 < stretch.saving:
            refusals.append((stretch, breaks[0][0]))
        return found

    def _steps(self, stretch: Stretch) -> tuple[Numbers, Numbers]:
        """The steps into each operand from the second iteration on, and the equations that read them."""
        start, stop, _ = stretch
        width, stride = self.body_size(stretch)
        read = self.operands[self.first_operand[start] : self.first_operand[stop]]
        now, before = read[width:], read[: len(read) - width]
        is_inside = now >= self.first_number[start]
        steps = np.where((now >= 0) & (before >= 0), Step.STRIDE + now - before, Step.MIXED)
        steps[(now < 0) & (before < 0)] = Step.CONSTANT
        steps[(now == before) & (now >= 0)] = Step.INVARIANT
        steps[is_inside & (now != before)] = Step.ENTERS
        steps[is_inside & (now - before == stride)] = Step.COMPUTED
        equation = np.repeat(np.arange(start, stop), np.diff(self.first_operand[start : stop + 1]))
        return steps, equation[width:]

    def rotated(self, stretch: Stretch, least: int) -> Stretch:
        """Whole iterations of a stretch, from the equation on at which the fewest bytes are carried to the next."""
        start, stop, period = stretch
        furthest: dict[int, int] = {}  # by value: its last reader in an iteration
        for i in range(stop - period, stop):
            for number in self.operands[self.first_operand[i] : self.first_operand[i + 1]].tolist():
                if number >= self.first_number[start]:
                    furthest[number] = max(furthest.get(number, 0), i)
        cost = np.zeros(2 * period)  # bytes that are alive at each equation; the second half wraps around
        for number, i in furthest.items():
            made = int(self.position[number - self.inputs])
            type_ = self.type_of(number)
            weight = 16 + type_.size * type_.dtype.itemsize
            offset, distance = (made + 1 - start) % period, i - made
            cost[:period] += (distance // period) * weight
            cost[offset : offset + distance % period] += weight
        cost = cost[:period] + cost[period:]
        order = sorted(range(period), key=lambda s: (cost[s], -((stop - start - s) // period), s))
        shift = next((s for s in order if (stop - start - s) // period >= least), 0)
        iterations = (stop - start - shift) // period
        return Stretch(start + shift, start + shift + iterations * period, period)

    # -- the roles of the operands ------------------------------------------------------------------------------

    def loop_in(self, stretch: Stretch, least: int) -> Loop:
        """The loop in a stretch, without the iterations at its ends that differ; raises RefusedError if there is none."""
        start, _, period = stretch
        count = stretch.iterations
        width, stride = self.body_size(stretch)
        begin = int(self.first_operand[start])
        table = self.operands[begin : begin + count * width].reshape(count, width)
        operands = Operands(table, int(self.first_number[start]), stride, self.row_source)
        low, high = operands.longest_fit()
        if high - low < least:
            t, column = operands.misfit()
            operand = self.first_operand[start + t * period] + column
            raise RefusedError(self.difference(stretch, int(np.searchsorted(self.first_operand, operand, side="right")) - 1))
        while operands.feeds_all(low, self.arrays) or (initial := operands.initial(low, high)) is None:
            low += 1  # an iteration that feeds all others, or starts a carry from two values, stays in front of the loop
        loop = Loop(start + low * period, period, high - low, int(operands.first_values[low]), stride, initial=initial)
        self._assign_roles(loop, operands, low, high)
        self._find_live_out(loop)
        self._find_accumulators(loop)
        self._check_indices(loop)
        return loop

    def difference(self, stretch: Stretch, i: int) -> str:
        """Why a stretch is not a loop: an equation reads something else than in other iterations."""
        t = (i - stretch.start) // stretch.period + 1
        op = self.graph.equations[i].op
        return f"iteration {t} of {stretch.iterations} differs in what {op.name!r} reads{self.at(i)}"

    def _assign_roles(self, loop: Loop, operands: Operands, low: int, high: int) -> None:
        column = 0
        for i in range(loop.period):
            e = self.graph.equations[loop.start + i]
            roles: list[Role] = []
            for j in range(len(e.inputs)):
                roles.append(self._role(e, j, operands, column, operands.table[low:high, column], loop.start + i))
                column += 1
            if any(isinstance(r, Invariant) and isinstance(r.operand, int) and r.operand in self.weak for r in roles):
                self.check_types(e, {}, loop.start + i)
            loop.roles.append(roles)
            kind = self.kind(loop.start + i)
            if kind.places:
                positions = loop.start + i + loop.period * np.arange(loop.iterations)
                indices = self.integers(positions) % np.array(kind.sizes, np.int64)
                if (indices != indices[0]).any():  # counted from the front: -1 and n - 1 are one place
                    loop.indices[i] = indices

    def _role(self, e: Equation, j: int, operands: Operands, column: int, entries: Numbers, position: int) -> Role:
        match operands.kind[column]:
            case OperandKind.COMPUTED:
                offset, lag = int(operands.offset[column]), int(operands.lag[column])
                return Carried(offset, lag) if lag else Local(offset)
            case OperandKind.INVARIANT:
                return Invariant(int(entries[0]))
            case OperandKind.ROW:
                return Row(int(operands.source[column]), tuple(self.row_index[entries].tolist()))
        if (entries == entries[0]).all():
            return Invariant(self.literals[-1 - int(entries[0])])
        return self.constants(e, j, [self.literals[-1 - n] for n in entries.tolist()], position)

    def constants(self, e: Equation, j: int, literals: list[Literal], position: int) -> Constants:
        """Constants that become rows of an array. A Python number, which is weak, takes the dtype that it would be cast to."""
        if len({(o.is_weak, np.shape(o.value)) for o in literals}) > 1:
            raise RefusedError(f"{e.op.name!r} takes numbers and arrays in turn{self.at(position)}")
        if not literals[0].is_weak:
            return _stacked(np.stack([o.value for o in literals]))
        if e.op is power or not is_per_element(e.op):
            raise RefusedError(f"a number that {e.op.name!r} takes changes from iteration to iteration{self.at(position)}")
        dtype = np.result_type(
            *[o.value if isinstance(o, Literal) and o.is_weak else self.type_of(o).dtype for o in e.inputs]
        )  # which does not depend on the number, but on its class
        self.check_types(e, {j: Type((), dtype)}, position)
        values = [o.value for o in literals]
        if dtype.kind in "iu" and not np.iinfo(dtype).min <= min(values) <= max(values) <= np.iinfo(dtype).max:
            raise RefusedError(
                f"a number that changes from iteration to iteration is out of the range of {dtype}{self.at(position)}"
            )
        return _stacked(np.array(values).astype(dtype))

    def check_types(self, e: Equation, strong: dict[int, Type], position: int) -> None:
        """The results must keep their types when numbers are not weak any more."""
        types = [strong.get(j, self.type_of(o)) for j, o in enumerate(e.inputs)]
        numbers = [o.value if isinstance(o, Literal) and o.is_weak and j not in strong else None for j, o in enumerate(e.inputs)]
        found = type_rule(e.op, types, e.params, numbers)
        if (found if e.op.many else (found,)) != e.types:
            raise RefusedError(f"{e.op.name!r} depends on a Python number being weak in promotion{self.at(position)}")

    # -- results and accumulators -------------------------------------------------------------------------------

    def _find_live_out(self, loop: Loop) -> None:
        results = [o for o in self.graph.outputs if isinstance(o, int)]
        reads = np.concatenate([self.operands[self.first_operand[loop.stop] :], np.array(results, np.int64)]) - loop.first_value
        t, offset = np.divmod(reads[(reads >= 0) & (reads < loop.iterations * loop.stride)], loop.stride)
        earliest = np.full(loop.stride, loop.iterations)
        np.minimum.at(earliest, offset, t)
        loop.live_out = {o: int(earliest[o]) for o in np.flatnonzero(earliest < loop.iterations).tolist()}

    def _find_accumulators(self, loop: Loop) -> None:
        readers: dict[int, list[tuple[int, int, int]]] = {}  # by offset: (equation, operand, lag)
        for i, roles in enumerate(loop.roles):
            for j, role in enumerate(roles):
                if isinstance(role, (Local, Carried)):
                    readers.setdefault(role.offset, []).append((i, j, role.lag if isinstance(role, Carried) else 0))
        for carried, lag in loop.lags().items():
            if lag > 1 or loop.live_out.get(carried, loop.iterations) < loop.iterations - 1:
                continue  # an earlier state is read
            if (accumulator := self._accumulator(loop, carried, readers)) is not None:
                loop.accumulators.append(accumulator)

    def _accumulator(self, loop: Loop, carried: int, readers: dict[int, Any]) -> Accumulator | None:
        """Follow a carry through the body to its next value, as long as each equation only adds or writes rows."""
        found, offsets = Accumulator(carried), self.offsets(loop)
        at = carried
        while at != carried or not found.parts:
            reads = readers.get(at, [])
            if len(reads) != 1 or (at != carried and at in loop.live_out):
                return None
            if not self._extend(found, loop, reads[0], readers, offsets):
                return None
            at = offsets[reads[0][0]]
        return found if self._moves_by_one_step(loop, found) else None

    def _extend(
        self, found: Accumulator, loop: Loop, read: tuple[int, int, int], readers: dict[int, Any], offsets: list[int]
    ) -> bool:
        """Add the equation that reads an accumulator to it, if it is an update: put(array, rows), or add(array, place(rows))."""
        i, j, lag = read
        e = self.graph.equations[loop.start + i]
        if (lag == 1) != (not found.parts) or i in found.equations:
            return False
        if e.op is put and j == 0:
            update, written = Update.PUT, i
        elif e.op is add:
            role = loop.roles[i][1 - j]
            if not isinstance(role, Local) or role.offset in loop.live_out or len(readers[role.offset]) != 1:
                return False
            update, written = Update.ADD, bisect.bisect_right(offsets, role.offset) - 1
            other = self.graph.equations[loop.start + written]
            if other.op is not place or other.types != e.types or e.types[0].dtype.kind not in "fc":
                return False
        else:
            return False
        if written not in loop.indices or found.update not in (None, update):
            return False
        found.update = update
        found.parts.append((written, 1 if update is Update.PUT else 0))
        found.equations |= {i, written}
        return self.type_of(loop.first_value + found.offset) == e.types[0]

    def _moves_by_one_step(self, loop: Loop, found: Accumulator) -> bool:
        """Whether the rows move by one step along one axis; rows that are overwritten must be the same ones."""
        steps, first = set(), set()
        for i, _ in found.parts:
            varying = varying_index(loop.indices[i])
            spec = self.graph.equations[loop.start + i].params["spec"]
            if varying is None or not constant_step(varying[1]):
                return False
            steps.add((axis_of(spec, entry_of(spec, varying[0])), constant_step(varying[1])))
            first.add(int(varying[1][0]))
        return len(steps) == 1 and (found.update is Update.ADD or len(first) == 1)

    def _check_indices(self, loop: Loop) -> None:
        accumulated = loop.accumulated()
        for i, indices in loop.indices.items():
            e = self.graph.equations[loop.start + i]
            if i in accumulated or e.op is getitem:
                continue
            if neighbours(e.params["spec"], varying(indices)) is None or (
                e.op is put and self.type_of(e.inputs[0]) != e.types[0]
            ):
                raise RefusedError(
                    f"integers of an index that are not adjacent change from iteration to iteration{self.at(loop.start + i)}"
                )


def _stacked(values: np.ndarray[Any, Any]) -> Constants:
    return Constants(values, hashable(values))


def varying_index(indices: Numbers) -> tuple[int, Numbers] | None:
    """Which one of the integers of an index varies, and how."""
    varies = varying(indices)
    return (varies[0], indices[:, varies[0]]) if len(varies) == 1 else None


def varying(indices: Numbers) -> list[int]:
    """Which integers of an index vary."""
    return np.flatnonzero((indices != indices[0]).any(axis=0)).tolist()  # type: ignore[no-any-return]


def entry_of(spec: tuple[Any, ...], which: int) -> int:
    """The entry of an index that is its n-th integer."""
    return [k for k, part in enumerate(spec) if isinstance(part, int)][which]


def neighbours(spec: tuple[Any, ...], which: list[int]) -> tuple[int, int] | None:
    """The entries of an index from the first to behind the last of some of its integers; None if there are others between."""
    first, stop = entry_of(spec, which[0]), entry_of(spec, which[-1]) + 1
    return (first, stop) if all(isinstance(part, int) for part in spec[first:stop]) else None


def constant_step(indices: Any) -> int | None:
    """The difference between consecutive indices, if it is always the same."""
    steps = np.diff(indices)
    return int(steps[0]) if (steps == steps[0]).all() else None
