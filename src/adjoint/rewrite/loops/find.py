"""The turns of a loop in a flat graph: which equations repeat, and what each of their operands is in every turn.

Equations repeat if their keys do: op, types, and parameters without the integers of an index, which may change from turn to
turn like the constants.
"""

from __future__ import annotations

import bisect
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from ...core.op import Elementwise
from ...core.types import Type
from ...derive import type_rule
from ...ir.columns import Kind, columns_of
from ...ir.graph import Equation, Graph, Literal, Operand
from ...ops.broadcast import where
from ...ops.elementwise import absorb_op, chain_op, equal, greater, greater_equal, less, less_equal, not_equal
from ...ops.index import getitem, place, put
from .repeats import Stretch
from .roles import Carried, Fixed, Grown, Inside, Numbers, RefusedError, Role, RowOf, Rows, Turns, Varying

MOST_LAG = 4  # turns that a value may be read after its own
_PER_ELEMENT = (chain_op, absorb_op, where, less, less_equal, greater, greater_equal, equal, not_equal)


def size(equation: Equation | Kind) -> int:
    """How many equations one is, with those of the graphs that it holds."""
    held = [part for part in equation.params.values() if isinstance(part, Graph)]
    return 1 + sum(size(e) for part in held for e in part.equations)


def axis_of(spec: Sequence[Any], place_: int) -> int:
    """The axis that an entry of an index reads."""
    return sum(part is not None for part in spec[:place_])


class Flat:
    """A graph as columns of numbers, with the loops that have been found in it, and which values are rows of arrays."""

    def __init__(self, graph: Graph, weak: Collection[int]) -> None:
        self.graph = graph
        self.weak = frozenset(weak)
        self.columns = columns = columns_of(graph)
        self.inputs = columns.inputs
        self.keys = columns.kind
        self.weights = np.array([size(kind) for kind in columns.kinds], np.int64)[columns.kind]
        self.operands, self.literals = columns.operands, columns.literals
        self.first_operand, self.first_number = columns.first_operand, columns.first_number
        self.position = columns.made_by
        self.row_source = np.full(columns.values, -1, np.int64)
        self.row_index = np.zeros(columns.values, np.int64)
        self.sources = 0
        self.arrays: dict[int, Rows] = {}
        self.loops: list[Turns] = []

    def kind(self, position: int) -> Kind:
        return self.columns.kinds[self.keys[position]]

    def type_of(self, o: Operand) -> Type:
        return self.columns.type_of(o)

    def integers(self, positions: Numbers) -> Numbers:
        """The integers of the indices of equations of one kind, a row for each."""
        places = np.arange(len(self.kind(int(positions[0])).places))
        return self.columns.integers[self.columns.first_integer[positions][:, None] + places]

    def _find_rows(self) -> None:
        """Values that are read of an array by an integer are its rows."""
        for number, kind in enumerate(self.columns.kinds):
            if kind.op is not getitem or not kind.places:
                continue
            positions = np.flatnonzero(self.keys == number)
            arrays = self.operands[self.first_operand[positions]]
            positions, arrays = positions[arrays >= 0], arrays[arrays >= 0]  # not of a constant
            if not len(positions):
                continue
            found = self.integers(positions)
            read = np.column_stack([arrays, found[:, 1:]])  # the array, and where its rows are read but for the first integer
            distinct, which = np.unique(read if read.shape[1] > 1 else read[:, 0], axis=0, return_inverse=True)
            for source, (array, *rest) in enumerate(distinct.reshape(len(distinct), -1).tolist(), self.sources):
                spec = list(kind.params_with([0, *rest])["spec"])
                spec[kind.places[0]] = slice(None)
                self.arrays[source] = Rows(array, tuple(spec), kind.places[0])
            numbers = self.first_number[positions]
            self.row_source[numbers], self.row_index[numbers] = self.sources + which.reshape(-1), found[:, 0] % kind.sizes[0]
            self.sources += len(distinct)

    # -- which equations repeat, with operands that do ----------------------------------------------------------

    def narrow(self, stretch: Stretch, refusals: list[tuple[Stretch, int]]) -> list[Stretch]:
        """The parts of a stretch in which the operands go on from turn to turn in one way, each of its own."""
        start, stop, period = stretch
        width = int(self.first_operand[start + period] - self.first_operand[start])
        step = int(self.first_number[start + period] - self.first_number[start])
        flat = self.operands[self.first_operand[start] : self.first_operand[stop]]
        now, before = flat[width:], flat[: len(flat) - width]
        code = np.where((now >= 0) & (before >= 0), (1 << 40) + now - before, 0)
        code[(now < 0) & (before < 0)] = 3
        code[(now == before) & (now >= 0)] = 2
        inside = now >= self.first_number[start]
        code[inside & (now != before)] = 5
        code[inside & (now - before == step)] = 1
        equation = np.repeat(np.arange(start, stop), np.diff(self.first_operand[start : stop + 1]))[width:]
        unknown = equation[code == 0]
        later, earlier = code[width:], code[: len(code) - width]
        changed = equation[width:][(later != earlier) & ~((later == 1) & (earlier == 5))]
        breaks = sorted({(int(i), 2 * period) for i in changed} | {(int(i), period) for i in unknown})
        found, begin = [], start
        for i, length in breaks:
            found.append(Stretch(begin, i, period))
            begin = max(begin, i - length + 1)
        found.append(Stretch(begin, stop, period))
        longest = max(found, key=lambda s: s.saving)
        if breaks and longest.saving * 2 < stretch.saving:
            refusals.append((stretch, breaks[0][0]))
        return found

    def phased(self, stretch: Stretch, least: int) -> Stretch:
        """The stretch from the equation on at which the fewest bytes pass from one turn to the next, in whole turns."""
        start, stop, period = stretch
        furthest: dict[int, int] = {}
        for i in range(stop - period, stop):
            for number in self.operands[self.first_operand[i] : self.first_operand[i + 1]].tolist():
                if number >= self.first_number[start]:
                    furthest[number] = max(furthest.get(number, 0), i)
        cost = np.zeros(2 * period)
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
        turns = (stop - start - shift) // period
        return Stretch(start + shift, start + shift + turns * period, period)

    # -- the roles of the operands ------------------------------------------------------------------------------

    def turns(self, stretch: Stretch, least: int) -> Turns:
        """The loop in a stretch, with fewer turns if those at its ends differ; raises RefusedError if there is none."""
        start, _, period = stretch
        count = stretch.turns
        width = int(self.first_operand[start + period] - self.first_operand[start])
        values = int(self.first_number[start + period] - self.first_number[start])
        first = int(self.first_number[start])
        begin = int(self.first_operand[start])
        table = self.operands[begin : begin + count * width].reshape(count, width)
        bases = first + values * np.arange(count)
        equal, carried, kinds = self._columns(table, bases, values)
        good = equal.all(axis=1)
        strict = good & carried.all(axis=1)
        low, high = _longest(strict)
        if low > 0 and good[low - 1] and self._starts(table[low - 1], kinds, int(bases[low - 1])):
            low -= 1
        if high - low < least:
            bad = next((t for t in range(count // 2, count) if not strict[t]), None)
            bad = bad if bad is not None else int(np.flatnonzero(~strict)[-1])
            column = int(np.flatnonzero(~(equal[bad] & carried[bad]))[0])
            raise RefusedError(f"turn {bad + 1} of {count} {self._difference(start + bad * period, column)}")
        while self._starts_itself(table[low], kinds, int(bases[low])) or not _starts_once(table[low:high], kinds):
            low += 1  # turns that only read what others of the loop have made do not
        loop = Turns(start + low * period, period, high - low, int(bases[low]), values)
        table = table[low:high]
        loop.initial = _initial(table, kinds)
        self._assign(loop, table, kinds)
        self._look_outside(loop)
        self._find_grown(loop)
        self._check_indices(loop)
        return loop

    def _columns(self, table: Numbers, bases: Numbers, values: int) -> tuple[Any, Any, Numbers]:
        """For each operand of a turn: where it is as in the middle of the loop, and (kind, offset or source, lag)."""
        count, width = table.shape
        middle = count // 2
        a, b = table[middle - 1], table[middle]
        kinds = np.zeros((width, 3), np.int64)
        equal = np.zeros(table.shape, bool)
        carried = np.ones(table.shape, bool)
        relative = table - bases[:, None]
        sources = np.where(table >= 0, self.row_source[np.maximum(table, 0)], -1)
        for c in range(width):
            offset = int(relative[middle, c])
            if b[c] < 0:
                kinds[c] = 3, 0, 0
                equal[:, c] = table[:, c] < 0
            elif a[c] == b[c]:
                kinds[c] = 2, 0, 0
                equal[:, c] = table[:, c] == b[c]
            elif b[c] - a[c] == values and -MOST_LAG * values <= offset < values:
                kinds[c] = 1, offset % values, -(offset // values)
                as_others = (relative[:, c] == offset) & (table[:, c] >= 0)
                (equal if offset >= 0 else carried)[:, c] = as_others
                if offset < 0:
                    equal[:, c] = True
            elif sources[middle, c] >= 0:
                kinds[c] = 4, sources[middle, c], 0
                equal[:, c] = sources[:, c] == sources[middle, c]
        return equal, carried, kinds

    def _starts(self, row: Numbers, kinds: Numbers, base: int) -> bool:
        """Whether a turn can be the first: what it carries comes from before it."""
        carried = (kinds[:, 0] == 1) & (kinds[:, 2] > 0)
        fixed = kinds[:, 0] == 2
        return bool(((row[carried] >= 0) & (row[carried] < base)).all() and (row[fixed] < base).all())

    def _starts_itself(self, row: Numbers, kinds: Numbers, base: int) -> bool:
        """Whether a turn gives a value, or an array with rows, to all others, so that it cannot be one of them."""
        rows = [self.arrays[k].array for k in kinds[kinds[:, 0] == 4, 1].tolist() if k in self.arrays]
        return bool((row[kinds[:, 0] == 2] >= base).any()) or any(array >= base for array in rows)

    def _difference(self, position: int, column: int) -> str:
        begin = int(self.first_operand[position])
        i = int(np.searchsorted(self.first_operand, begin + column, side="right")) - 1
        return f"differs in what {self.graph.equations[i].op.name!r} reads{self.at(i)}"

    def at(self, position: int) -> str:
        line = self.graph.equations[position].line
        return f" ({line})" if line else ""

    def _assign(self, loop: Turns, table: Numbers, kinds: Numbers) -> None:
        column = 0
        for i in range(loop.period):
            e = self.graph.equations[loop.start + i]
            roles: list[Role] = []
            for j in range(len(e.inputs)):
                kind, offset, lag = kinds[column].tolist()
                entries = table[:, column]
                role: Role
                if kind == 1:
                    role = Carried(offset, lag) if lag else Inside(offset)
                elif kind == 2:
                    role = Fixed(int(entries[0]))
                elif kind == 4:
                    role = RowOf(offset, tuple(self.row_index[entries].tolist()))
                elif (entries == entries[0]).all():
                    role = Fixed(self.literals[-1 - int(entries[0])])
                else:
                    role = self._varying(e, j, [self.literals[-1 - n] for n in entries.tolist()], loop.start + i)
                roles.append(role)
                column += 1
            if any(isinstance(r, Fixed) and isinstance(r.operand, int) and r.operand in self.weak for r in roles):
                self._check_types(e, {}, loop.start + i)
            loop.roles.append(roles)
            kind = self.kind(loop.start + i)
            if kind.places:
                indices = self.integers(loop.start + i + loop.period * np.arange(loop.count))
                if (indices != indices[0]).any():
                    loop.indices[i] = indices % np.array(kind.sizes, np.int64)

    def _varying(self, e: Equation, place_: int, literals: list[Literal], position: int) -> Varying:
        """Constants that become rows of an array. A Python number, which is weak, takes the dtype that it would be cast to."""
        if not literals[0].is_weak:
            return Varying(np.stack([o.value for o in literals]))
        if e.op.name in ("power", "float_power") or not (
            isinstance(e.op, Elementwise) or isinstance(e.op.impl, np.ufunc) or e.op in _PER_ELEMENT
        ):
            raise RefusedError(f"a number that {e.op.name!r} takes changes from turn to turn{self.at(position)}")
        dtype = np.result_type(
            *[o.value if isinstance(o, Literal) and o.is_weak else self.type_of(o).dtype for o in e.inputs]
        )  # which does not depend on the number, but on its class
        self._check_types(e, {place_: Type((), dtype)}, position)
        values = [o.value for o in literals]
        if dtype.kind in "iu" and not np.iinfo(dtype).min <= min(values) <= max(values) <= np.iinfo(dtype).max:
            raise RefusedError(f"a number that changes from turn to turn is out of the range of {dtype}{self.at(position)}")
        return Varying(np.array(values).astype(dtype))

    def _check_types(self, e: Equation, strong: dict[int, Type], position: int) -> None:
        """The results must keep their types when numbers are not weak any more."""
        types = [strong.get(j, self.type_of(o)) for j, o in enumerate(e.inputs)]
        numbers = [o.value if isinstance(o, Literal) and o.is_weak and j not in strong else None for j, o in enumerate(e.inputs)]
        found = type_rule(e.op, types, e.params, numbers)
        if (found if e.op.many else (found,)) != e.types:
            raise RefusedError(f"{e.op.name!r} depends on a Python number being weak in promotion{self.at(position)}")

    # -- what is read outside -----------------------------------------------------------------------------------

    def _look_outside(self, loop: Turns) -> None:
        results = [o for o in self.graph.outputs if isinstance(o, int)]
        reads = np.concatenate([self.operands[self.first_operand[loop.stop] :], np.array(results, np.int64)]) - loop.first
        turn, offset = np.divmod(reads[(reads >= 0) & (reads < loop.count * loop.values)], loop.values)
        earliest = np.full(loop.values, loop.count)
        np.minimum.at(earliest, offset, turn)
        loop.outside = {o: int(earliest[o]) for o in np.flatnonzero(earliest < loop.count).tolist()}

    def _find_grown(self, loop: Turns) -> None:
        """Arrays to which every turn adds rows, or in which it writes them, without reading them."""
        readers: dict[int, list[tuple[int, int, int]]] = {}
        for i, roles in enumerate(loop.roles):
            for j, role in enumerate(roles):
                if isinstance(role, (Inside, Carried)):
                    readers.setdefault(role.offset, []).append((i, j, role.lag if isinstance(role, Carried) else 0))
        offsets = (self.first_number[loop.start : loop.start + loop.period] - loop.first).tolist()
        for carried, lag in loop.lags().items():
            if lag > 1 or loop.outside.get(carried, loop.count) < loop.count - 1:
                continue
            grown = Grown(carried, "", [], set())
            at = carried
            while True:
                reads = readers.get(at, [])
                if (
                    len(reads) != 1
                    or (at != carried and at in loop.outside)
                    or not self._grows(loop, grown, reads[0], readers, offsets)
                ):
                    break
                at = offsets[reads[0][0]]
                if at == carried:
                    if self._in_step(loop, grown):
                        loop.grown.append(grown)
                    break

    def _grows(self, loop: Turns, grown: Grown, read: tuple[int, int, int], readers: dict[int, Any], offsets: list[int]) -> bool:
        """Whether an equation only adds a row to the array that it reads, or writes one; it is then noted."""
        i, j, lag = read
        e = self.graph.equations[loop.start + i]
        if (lag == 1) != (not grown.parts) or i in grown.equations:
            return False
        if e.op is put and j == 0:
            kind, placed = "put", i
        elif e.op.name == "add":
            role = loop.roles[i][1 - j]
            if not isinstance(role, Inside) or role.offset in loop.outside or len(readers[role.offset]) != 1:
                return False
            placed = bisect.bisect_right(offsets, role.offset) - 1
            other = self.graph.equations[loop.start + placed]
            if other.op is not place or other.types != e.types or e.types[0].dtype.kind not in "fc":
                return False
            kind = "add"
        else:
            return False
        if placed not in loop.indices or grown.kind not in ("", kind):
            return False
        grown.kind = kind
        grown.parts.append((placed, 1 if kind == "put" else 0))
        grown.equations |= {i, placed}
        return self.type_of(loop.first + grown.offset) == e.types[0]

    def _in_step(self, loop: Turns, grown: Grown) -> bool:
        """Whether the rows move by the same step along the same axis; rows that are written must be the same ones."""
        steps, first = set(), []
        for i, _ in grown.parts:
            found = varying_index(loop.indices[i])
            spec = self.graph.equations[loop.start + i].params["spec"]
            if found is None or linear(found[1]) in (None, 0):
                return False
            steps.add((axis_of(spec, entry_of(spec, found[0])), linear(found[1])))
            first.append(int(found[1][0]))
        return len(steps) == 1 and (grown.kind == "add" or len(set(first)) == 1)

    def _check_indices(self, loop: Turns) -> None:
        done = set().union(*(g.equations for g in loop.grown)) if loop.grown else set()
        for i, indices in loop.indices.items():
            e = self.graph.equations[loop.start + i]
            if i in done or e.op is getitem:
                continue
            if varying_index(indices) is None or (e.op is put and self.type_of(e.inputs[0]) != e.types[0]):
                raise RefusedError(f"several integers of an index change from turn to turn{self.at(loop.start + i)}")

    def forget(self) -> None:
        """Start again without loops."""
        self.loops, self.sources = [], 0
        self.row_source[:] = -1
        self.arrays.clear()
        self._find_rows()

    def enter(self, loop: Turns) -> None:
        """Let later loops read the values of a loop as rows."""
        loop.source = self.sources
        self.sources += loop.values
        low, high = loop.first, loop.first + loop.count * loop.values
        self.row_source[low:high] = np.tile(loop.source + np.arange(loop.values), loop.count)
        self.row_index[low:high] = np.repeat(np.arange(loop.count), loop.values)
        self.loops.append(loop)

    def loop_of(self, source: int) -> Turns | None:
        """The loop whose values a source of rows is."""
        at = bisect.bisect_right(self.loops, source, key=lambda loop: loop.source) - 1
        return self.loops[at] if at >= 0 and source < self.loops[at].source + self.loops[at].values else None

    def loop_with(self, number: int) -> Turns:
        """The loop that gives a value."""
        return self.loops[bisect.bisect_right(self.loops, number, key=lambda loop: loop.first) - 1]


def _longest(flags: Any) -> tuple[int, int]:
    """Where the longest run of true flags begins and ends."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(np.int8)))
    if not len(edges):
        return 0, 0
    best = int(np.argmax(edges[1::2] - edges[::2]))
    return int(edges[2 * best]), int(edges[2 * best + 1])


def _initial(table: Numbers, kinds: Numbers) -> dict[tuple[int, int], int]:
    """What the first turns read of the turns before them: by offset and lag."""
    found: dict[tuple[int, int], int] = {}
    for c in np.flatnonzero((kinds[:, 0] == 1) & (kinds[:, 2] > 0)):
        offset, lag = kinds[c, 1:].tolist()
        for t in range(lag):
            found.setdefault((offset, lag - t), int(table[t, c]))
    return found


def _starts_once(table: Numbers, kinds: Numbers) -> bool:
    """Whether all that reads a value of the turns before starts from the same one."""
    found = _initial(table, kinds)
    carried = np.flatnonzero((kinds[:, 0] == 1) & (kinds[:, 2] > 0))
    return all(found[int(kinds[c, 1]), int(kinds[c, 2]) - t] == table[t, c] for c in carried for t in range(kinds[c, 2]))


def varying_index(indices: Numbers) -> tuple[int, Numbers] | None:
    """Which one of the integers of an index varies, and how."""
    varies = np.flatnonzero((indices != indices[0]).any(axis=0))
    return (int(varies[0]), indices[:, varies[0]]) if len(varies) == 1 else None


def entry_of(spec: tuple[Any, ...], which: int) -> int:
    """The entry of an index that is its n-th integer."""
    return [k for k, part in enumerate(spec) if isinstance(part, int)][which]


def linear(indices: Any) -> int | None:
    """The step of indices that go on by one; None if there is none."""
    steps = np.diff(indices)
    return int(steps[0]) if (steps == steps[0]).all() else None
