"""Writing the scan of a region of blocks (`blocks.py`).

    S: v = s - row * x[j]           v = sub s, (mul row, (gather x, j));      s = where S_runs, v, s
    F: x[i] = s / row               w = div s, row;      x = put_at x, (where F_runs, w, (gather x, i)), i

Each iteration computes all blocks and keeps the results of those that run in it. If an operand comes from different sources in
different runs, the iteration selects one:

    LOCAL      a result of the same run
    LATEST     the latest result of a block, or one of those before it: a carry
    HISTORY    any earlier result: a carry that is an array of all results
    STORAGE    an array that is written to in place, by one block or several: a carry
    ROW        anything from before the region: constants, values, elements of arrays; stacked in the order of the iterations
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, NamedTuple

import numpy as np

from ...core.types import Type
from ...derive import type_rule
from ...ir.graph import Equation, Graph, Literal, Operand
from ...ops.broadcast import broadcast_to, reshape, transpose, where
from ...ops.control import scan
from ...ops.index import gather, getitem, put, put_at
from ...ops.shape import concatenate, stack
from .blocks import Region
from .find import FlatGraph, axis_of, neighbours
from .operands import MOST_LAG
from .roles import Numbers, RefusedError
from .write import BODY, Writer, trimmed

_MOST_ELEMENTS = 1 << 23  # of a stack of rows, or a history
_SMALL = 64  # elements of a row that is stacked at little cost
_MOST_SELECTED = 64  # elements of an array that an iteration may select as a whole


class Source(Enum):
    """Where an operand comes from: see above."""

    LOCAL = "local"
    LATEST = "latest"
    HISTORY = "history"
    STORAGE = "storage"
    ROW = "row"


class Result(NamedTuple):
    """A result of a block."""

    block: int
    equation: int  # of the block
    which: int  # of its results
    type: Type


class Read(NamedTuple):
    """How some runs of a block get an operand."""

    runs: Any  # which of them: a mask
    source: Source
    result: int = -1  # LOCAL, LATEST, HISTORY: the result; STORAGE: the storage
    lag: int = 0  # LATEST: 1 for the latest
    spec: tuple[Any, ...] | None = None  # of the elements that are read from it


@dataclass
class Storage:
    """An array that several blocks may write to: each write takes the array as the write before has left it."""

    writes: Numbers  # when, sorted
    initial: int | None = None  # the operand that the first write takes


def with_blocks(flat: FlatGraph, region: Region) -> Graph:
    """The graph with a region as a scan; raises RefusedError if it cannot be one."""
    return _BlockRolling(flat, region).run()


class _BlockRolling:
    def __init__(self, flat: FlatGraph, region: Region) -> None:
        self.flat, self.region = flat, region
        self.out = Writer(flat.graph.input_types)
        self.known: dict[int, Operand] = {i: i for i in range(flat.inputs)}  # the new operand for an old value

    def run(self) -> Graph:
        flat, region = self.flat, self.region
        graph = flat.graph
        inside = np.zeros(len(flat.keys), bool)
        for table in region.equations:
            inside[table] = True
        inside[list(region.hoisted)] = True
        outside = np.flatnonzero(~inside & ~flat.reads)
        first = region.start
        for i in [*outside[outside < first].tolist(), *region.hoisted]:
            self.copy(graph.equations[i])
        late = outside[outside >= first]
        self.scan = _BlockScan(self, self.needed(late))
        self.scan.write()
        for i in late.tolist():
            self.copy(graph.equations[i])
        outputs = tuple([self.operand(o) for o in graph.outputs])
        return replace(graph, equations=tuple(self.out.equations), outputs=outputs)

    def needed(self, late: Numbers) -> Numbers:
        """The values that equations behind the region read, and results of the graph."""
        flat = self.flat
        read = [flat.operands[flat.first_operand[i] : flat.first_operand[i + 1]] for i in late.tolist()]
        numbers = np.unique(np.concatenate([*read, np.array([o for o in flat.graph.outputs if isinstance(o, int)], np.int64)]))
        arrays, _ = flat.arrays_read(numbers)
        return np.unique(arrays[arrays >= flat.inputs])

    def copy(self, e: Equation) -> None:
        found = self.joined(e) if e.op in (stack, concatenate) else None
        if found is None:
            found = self.out.copy(e.op, tuple([self.operand(o) for o in e.inputs]), e.params, e.types, e.line)
        self.known.update(zip(e.outputs, found, strict=True))

    def joined(self, e: Equation) -> tuple[Operand, ...] | None:
        """A stack of results of one block, as rows of the scan's results."""
        numbers = [o if isinstance(o, int) else -1 for o in e.inputs]
        if e.op is not stack or not hasattr(self, "scan") or min(numbers) < 0 or len(numbers) < 8:
            return None
        results = self.scan.result_of[numbers]
        if results[0] < 0 or (results != results[0]).any() or int(results[0]) not in self.scan.stacked:
            return None
        rows = self.scan.rows_at(int(results[0]), self.scan.run_of[numbers], e.line)
        return (self.out.moved(rows, 0, e.params["axis"], e.line),)

    def operand(self, o: Operand) -> Operand:
        if not isinstance(o, int):
            return o
        if o not in self.known:
            e = self.flat.graph.equations[int(self.flat.position[o - self.flat.inputs])]
            if self.flat.reads[self.flat.position[o - self.flat.inputs]]:
                array = self.operand(e.inputs[0])
                self.known[o] = self.out.copy(getitem, (array,), e.params, e.types, e.line)[0]
            else:
                self.known[o] = self.scan.value_after(o)
        return self.known[o]


class _BlockScan:
    """The scan of a region."""

    def __init__(self, rolling: _BlockRolling, needed: Numbers) -> None:
        self.rolling, self.flat, self.region, self.out = rolling, rolling.flat, rolling.region, rolling.out
        region, flat = self.region, self.flat
        count = len(region.equations)
        self.iterations = region.iterations
        self.times = [np.flatnonzero(region.runs == b) for b in range(count)]  # of the runs of each block
        self.in_iteration = [region.iteration[times] for times in self.times]
        self.active = np.zeros((count, self.iterations), bool)
        self.filled = np.zeros((count, self.iterations), np.int64)  # the run of each block in, or before, each iteration
        for b, at in enumerate(self.in_iteration):
            self.active[b, at] = True
            self.filled[b] = np.maximum(np.cumsum(self.active[b]) - 1, 0)
        self.width = max(table.shape[1] for table in region.equations) + 1
        self.results: list[Result] = []
        self.result_of = np.full(flat.columns.values, -1, np.int64)  # by value
        self.run_of = np.zeros(flat.columns.values, np.int64)
        for b, table in enumerate(region.equations):
            for q in range(table.shape[1]):
                for which, type_ in enumerate(flat.kind(int(table[0, q])).types):
                    numbers = flat.first_number[table[:, q]] + which
                    self.result_of[numbers] = len(self.results)
                    self.run_of[numbers] = np.arange(len(table))
                    self.results.append(Result(b, q, which, type_))
        self.needed = needed[self.result_of[needed] >= 0]
        self.stored: dict[int, int] = {}  # by result: its storage
        self.storages: dict[int, Storage] = {}
        self.find_storages()
        self.initial: dict[int, Operand] = {}  # by result: what its carry starts from
        self.lags: dict[int, int] = {}  # by result: how far back it is read
        self.histories: dict[int, None] = {}
        self.operands = {place: self.reads_of(*place) for place in self.places()}
        self.find_results_after()

    def equation(self, b: int, q: int) -> Equation:
        """An equation of a block, as it is in one of its runs."""
        table = self.region.equations[b]
        return self.flat.graph.equations[int(table[len(table) // 2, q])]

    def places(self) -> Iterator[tuple[int, int, int]]:
        """The operands of all blocks: block, equation, which."""
        for b, table in enumerate(self.region.equations):
            for q in range(table.shape[1]):
                for j in range(len(self.flat.kind(int(table[0, q])).operands)):
                    yield b, q, j

    def numbers(self, b: int, q: int, j: int) -> Numbers:
        """What an operand is in each run."""
        return self.flat.operands[self.flat.first_operand[self.region.equations[b][:, q]] + j]

    def at(self, b: int, q: int) -> str:
        return self.flat.at(int(self.region.equations[b][0, q]))

    # -- arrays that are written to -------------------------------------------------------------------------------------

    def find_storages(self) -> None:
        """Writes to one array, by any block, share a storage."""
        parent = {r: r for r, result in enumerate(self.results) if self.equation(result.block, result.equation).op is put}

        def root(r: int) -> int:
            while parent[r] != r:
                r = parent[r]
            return r

        for r in parent:
            b, q, *_ = self.results[r]
            for other in np.unique(self.result_of[np.maximum(self.numbers(b, q, 0), 0)]).tolist():
                if other >= 0:
                    if other not in parent:
                        raise RefusedError(f"an array that is computed in the loop is written to{self.at(b, q)}")
                    parent[root(other)] = root(r)
        for r in parent:
            self.stored[r] = root(r)
        for s in set(self.stored.values()):
            writes = [
                self.times[self.results[r].block] * self.width + self.results[r].equation for r in parent if self.stored[r] == s
            ]
            self.storages[s] = Storage(np.sort(np.concatenate(writes)))

    def check_storage(self, s: int, arrays: Numbers, now: Numbers, where_: str) -> None:
        """Whether each of some reads of a storage is of its state at that time."""
        results = self.result_of[arrays]
        blocks = np.array([result.block for result in self.results])[results]
        equations = np.array([result.equation for result in self.results])[results]
        times = np.concatenate([*self.times, [0]])
        first = np.cumsum([0, *map(len, self.times)])
        written = times[first[blocks] + self.run_of[arrays]] * self.width + equations
        writes = self.storages[s].writes
        if (writes[np.searchsorted(writes, now) - 1] != written).any():
            raise RefusedError(f"an earlier state of an array is read after it has been written to{where_}")

    # -- where operands come from ---------------------------------------------------------------------------------------

    def reads_of(self, b: int, q: int, j: int) -> list[Read]:
        flat = self.flat
        numbers = self.numbers(b, q, j)
        arrays, made = flat.arrays_read(numbers)
        is_element = made >= 0
        results = np.where(arrays >= 0, self.result_of[np.maximum(arrays, 0)], -1)
        kinds = np.where(is_element, flat.keys[made], -1)
        now = self.times[b] * self.width + q
        found: list[Read] = []
        for r, kind in sorted(set(zip(results.tolist(), kinds.tolist(), strict=True))):
            if r < 0:
                continue
            runs = (results == r) & (kinds == kind)
            spec = None if kind < 0 else flat.columns.kinds[kind].params["spec"]
            if r in self.stored:
                self.check_storage(self.stored[r], arrays[runs], now[runs], self.at(b, q))
                self.merge(found, Read(runs, Source.STORAGE, self.stored[r], spec=spec))
            else:
                found += self.reads_of_result(b, r, runs, arrays, spec)
        if (outside := results < 0).any() and not self.is_initial(b, q, j, outside, numbers, is_element, found):
            found.append(Read(outside, Source.ROW))
        return found

    @staticmethod
    def merge(found: list[Read], read: Read) -> None:
        """Reads of one storage, written by different blocks, are one."""
        for k, other in enumerate(found):
            if (other.source, other.result, _template(other.spec)) == (read.source, read.result, _template(read.spec)):
                found[k] = other._replace(runs=other.runs | read.runs)
                return
        found.append(read)

    def reads_of_result(self, b: int, r: int, runs: Any, arrays: Numbers, spec: Any) -> list[Read]:
        block = self.results[r].block
        before = np.searchsorted(self.times[block], self.times[b], side="left")
        lags = before - self.run_of[arrays.clip(0)]
        if block == b:
            lags = np.where(self.run_of[arrays.clip(0)] == np.arange(len(lags)), 0, lags)
        local, earlier = runs & (lags == 0), runs & (lags > 0)
        found = [Read(local, Source.LOCAL, r, spec=spec)] if local.any() else []
        distinct = np.unique(lags[earlier]).tolist()
        if distinct and (distinct[-1] > MOST_LAG or len(distinct) > 2):
            if self.results[r].type.size * len(self.times[block]) > _MOST_ELEMENTS:
                raise RefusedError("earlier values are read, which take too much memory to keep")
            self.histories[r] = None
            return [*found, Read(earlier, Source.HISTORY, r, spec=spec)]
        for lag in distinct:
            self.lags[r] = max(self.lags.get(r, 0), lag)
            found.append(Read(runs & (lags == lag), Source.LATEST, r, lag, spec))
        return found

    def is_initial(self, b: int, q: int, j: int, outside: Any, numbers: Numbers, is_element: Any, found: list[Read]) -> bool:
        """Whether what some runs read from before the region is what a carry of the others starts from."""
        distinct = np.unique(numbers[outside])
        if len(found) != 1 or len(distinct) != 1 or found[0].spec is not None or is_element[outside].any():
            return False
        (read,), number = found, int(distinct[0])
        now = (self.times[b] * self.width + q)[outside]
        if read.source is Source.STORAGE:
            storage = self.storages[read.result]
            if (now > storage.writes[0]).any() or storage.initial not in (None, number):
                raise RefusedError(f"an array is written to that is another one in other iterations{self.at(b, q)}")
            storage.initial = number
        elif read.source is Source.LATEST and read.lag == 1:
            result = self.results[read.result]
            if (self.times[b][outside] > self.times[result.block][0]).any():
                return False
            if number < 0:
                literal = self.strong(self.flat.literals[-1 - number], result.type)
                start: Operand = literal
                key: Any = literal.value.tobytes()
            else:
                start, key = number, number
            held = self.initial.get(read.result)
            if held is not None and (held.value.tobytes() if isinstance(held, Literal) else held) != key:
                return False
            self.initial[read.result] = start
        else:
            return False
        found[0] = read._replace(runs=read.runs | outside)
        return True

    @staticmethod
    def strong(literal: Literal, type_: Type) -> Literal:
        """A constant in place of a value."""
        value = np.asarray(literal.value)
        cast = value.astype(type_.dtype)
        if value.shape != type_.shape or not np.array_equal(cast, value, equal_nan=True):
            raise RefusedError(f"the constant {value} is no {type_}")
        return Literal(cast)

    def find_results_after(self) -> None:
        """The values that are read after the loop: carries if they are the latest ones, else stacked results."""
        self.stacked: dict[int, Operand] = {}
        for n in self.needed.tolist():
            r = int(self.result_of[n])
            if r in self.stored:
                self.check_storage(self.stored[r], np.array([n]), np.array([len(self.region.runs) * self.width]), "")
            elif self.run_of[n] == len(self.times[self.results[r].block]) - 1:
                self.lags[r] = max(self.lags.get(r, 0), 1)
            else:
                self.stacked[r] = -1

    def value_after(self, n: int) -> Operand:
        r = int(self.result_of[n])
        if r in self.stored:
            return self.finals["storage", self.stored[r]]
        if self.run_of[n] == len(self.times[self.results[r].block]) - 1:
            return self.finals["latest", r, 1]
        t = int(self.in_iteration[self.results[r].block][self.run_of[n]])
        return self.out.emit(getitem, self.stacked[r], line="", spec=(t,))

    def rows_at(self, r: int, runs: Numbers, line: str) -> Operand:
        """A result of some runs, stacked."""
        return self.out.rows(self.stacked[r], (slice(None),), 0, self.in_iteration[self.results[r].block][runs].tolist(), line)

    # -- writing --------------------------------------------------------------------------------------------------------

    def write(self) -> None:
        carries = self.carries()
        self.plan = _Plan(self)
        self.plan.collect()
        consts, rows = self.plan.consts, self.plan.rows
        keys = [*consts, *carries, *rows]
        operands = [*consts.values(), *carries.values(), *rows.values()]
        types = [self.out.type_of(o) for o in [*consts.values(), *carries.values()]]
        types += [Type(t.shape[1:], t.dtype) for t in map(self.out.type_of, rows.values())]
        self.input = {key: n for n, key in enumerate(keys)}
        self.writer = Writer(types)
        self.state: dict[Any, Operand] = {key: self.input[key] for key in carries}
        self.computed: dict[int, Operand] = {}
        for b in self.region.order:
            self.write_block(b)
        groups = {"const": len(consts), "carry": len(carries), "row": len(rows)}
        names = tuple([f"{name}{n}" for name, count in groups.items() for n in range(count)])
        outputs = (*(self.state[key] for key in carries), *(self.computed[r] for r in self.stacked))
        body = Graph(BODY, names, tuple(types), tuple(self.writer.equations), outputs)
        params = {"body": body, "length": self.iterations, "reverse": False, "carries": len(carries), "consts": len(consts)}
        result_types = type_rule(scan, [self.out.type_of(o) for o in operands], params)
        line = next((e.line for e in self.writer.equations if e.line), "")
        results = self.out.copy(scan, tuple(operands), params, result_types, line)
        self.finals = dict(zip(carries, results, strict=False))
        self.stacked = dict(zip(self.stacked, results[len(carries) :], strict=True))

    def carries(self) -> dict[Any, Operand]:
        """By key, what each carry starts from."""
        found: dict[Any, Operand] = {}
        for s, storage in self.storages.items():
            if storage.initial is None:
                raise RefusedError("an array that is written to has no beginning")
            n = storage.initial
            found["storage", s] = self.rolling.operand(n) if n >= 0 else self.flat.literals[-1 - n].strong()
        for r, most in self.lags.items():
            for lag in range(1, most + 1):
                start = self.initial.get(r) if lag == 1 else None
                type_ = self.results[r].type
                zeros = Literal(np.zeros(type_.shape, type_.dtype))
                found["latest", r, lag] = zeros if start is None else self.rolling.operand(start)
        for r in self.histories:
            type_ = self.results[r].type
            count = len(self.times[self.results[r].block]) + 1  # the last row takes what iterations without a run compute
            found["history", r] = Literal(np.zeros((count, *type_.shape), type_.dtype))
        return found

    def write_block(self, b: int) -> None:
        runs = self.runs(b)
        for q in range(self.region.equations[b].shape[1]):
            e = self.equation(b, q)
            inputs = [self.read(b, q, j, e) for j in range(len(e.inputs))]
            if e.op is put:
                results: tuple[Operand, ...] = (self.put(b, q, e, inputs, runs),)
            elif e.op is getitem and (indices := self.plan.indices.get((b, q))) is not None:
                results = (self.element(inputs[0], e.params["spec"], indices, e.line),)
            else:
                results = self.writer.copy(e.op, tuple(inputs), e.params, e.types, e.line)
            first = int(self.result_of[self.flat.first_number[self.region.equations[b][0, q]]])
            self.computed.update(enumerate(results, first))
        for r, result in enumerate(self.results):
            if result.block == b and r not in self.stored:
                self.keep(r, runs)

    def runs(self, b: int) -> Operand | None:
        """Whether a block runs in an iteration; None if it always does."""
        return None if self.active[b].all() else self.input["bytes", self.active[b].tobytes(), "bool"]

    def keep(self, r: int, runs: Operand | None) -> None:
        """Carry a result."""
        value: Operand = self.computed[r]
        for lag in range(1, self.lags.get(r, 0) + 1):
            old = self.state["latest", r, lag]
            new = value if runs is None else self.writer.emit(where, runs, value, old, line="")
            self.state["latest", r, lag], value = new, old
        if r in self.histories:
            at = self.plan.place_in_history(r)
            history = self.state["history", r]
            self.state["history", r] = self.writer.emit(put_at, history, self.computed[r], self.input[at], line="", axis=0)

    def read(self, b: int, q: int, j: int, e: Equation) -> Operand:
        """An operand of the body: from its source, or selected from those of several."""
        reads = self.operands[b, q, j]
        value: Operand | None = None
        for k in range(len(reads)):
            one = self.read_from(b, q, j, k, e)
            if value is None:
                value = one
                continue
            if max(self.writer.type_of(o).size for o in (one, value)) > _MOST_SELECTED:
                raise RefusedError(f"an array comes from different places in different iterations{self.at(b, q)}")
            value = self.writer.emit(where, self.input[self.plan.flags[b, q, j, k]], one, value, line=e.line)
        assert value is not None
        return value

    def read_from(self, b: int, q: int, j: int, k: int, e: Equation) -> Operand:
        read = self.operands[b, q, j][k]
        match read.source:
            case Source.ROW:
                literal = self.plan.literals.get((b, q, j))
                return self.input[self.plan.row_keys[b, q, j]] if literal is None else literal
            case Source.LOCAL:
                value = self.computed[read.result]
            case Source.LATEST:
                value = self.state["latest", read.result, read.lag]
            case Source.STORAGE:
                value = self.state["storage", read.result]
            case Source.HISTORY:
                at = self.input[self.plan.history_keys[b, q, j, k]]
                value = self.writer.emit(gather, self.state["history", read.result], at, line=e.line, axis=0)
        if read.spec is None:
            return value
        return self.element(value, read.spec, self.plan.element_keys[b, q, j, k], e.line)

    def element(self, x: Operand, spec: tuple[Any, ...], keys: Sequence[Any], line: str) -> Operand:
        """What an index reads whose integers are inputs of the body, or constants."""
        numbers = [self.index(key) for key in keys]
        which = [k for k, part in enumerate(spec) if isinstance(part, int)]
        if neighbours(spec, list(range(len(which)))) is not None:
            axis = axis_of(spec, which[0])
        else:
            x, axis = self.writer.emit(transpose, x, line=line, axes=_integers_first(spec, self.writer.type_of(x).ndim)), 0
        x = self.writer.emit(gather, x, *numbers, line=line, axis=axis)
        return self.writer.read(x, trimmed(tuple([part for part in spec if not isinstance(part, int)])), line)

    def index(self, key: Any) -> Operand:
        return key if isinstance(key, Literal) else self.input[key]

    def put(self, b: int, q: int, e: Equation, inputs: list[Operand], runs: Operand | None) -> Operand:
        """A write to a storage: of what is there already, if the block does not run."""
        array, value = inputs
        spec = e.params["spec"]
        keys = self.plan.indices.get((b, q), [])
        which = [k for k, part in enumerate(spec) if isinstance(part, int)]
        if which and neighbours(spec, list(range(len(which)))) is None:
            raise RefusedError(f"integers of an index that are not adjacent change from iteration to iteration{self.at(b, q)}")
        numbers = [self.index(key) for key in keys]
        axis = axis_of(spec, which[0]) if which else 0
        rest = trimmed(tuple([part for part in spec if not isinstance(part, int)]))
        dtype = e.types[0].dtype
        old = self.writer.emit(gather, array, *numbers, line=e.line, axis=axis) if which else array
        region = self.writer.read(old, rest, e.line)
        shape = self.writer.type_of(region).shape
        if isinstance(value, Literal):
            value = Literal(np.asarray(value.value, dtype))
        if self.writer.type_of(value).dtype != dtype:
            raise RefusedError(f"a value of another dtype is written to an array{self.at(b, q)}")
        if self.writer.type_of(value).shape != shape:
            value = self.writer.emit(broadcast_to, value, line=e.line, shape=shape)
        if runs is not None:
            value = self.writer.emit(where, runs, value, region, line=e.line)
        if rest or not which:
            value = self.writer.emit(put, old, value, line=e.line, spec=rest)
        if which:
            value = self.writer.emit(put_at, array, value, *numbers, line=e.line, axis=axis)
        (result,) = e.types
        if self.writer.type_of(value) != result:
            raise RefusedError(f"the type of an array changes{self.at(b, q)}")
        r = int(self.result_of[self.flat.first_number[self.region.equations[b][0, q]]])
        self.state["storage", self.stored[r]] = value
        return value


@dataclass
class _Plan:
    """The inputs of the body that are no carries: what each is before the loop, by the key under which the body reads it."""

    scan: _BlockScan
    consts: dict[Any, Operand] = field(default_factory=dict)
    rows: dict[Any, Operand] = field(default_factory=dict)
    literals: dict[Any, Operand] = field(default_factory=dict)  # operands that are the same constant in all runs
    row_keys: dict[Any, Any] = field(default_factory=dict)
    flags: dict[Any, Any] = field(default_factory=dict)
    history_keys: dict[Any, Any] = field(default_factory=dict)
    element_keys: dict[Any, Any] = field(default_factory=dict)
    indices: dict[tuple[int, int], list[Any]] = field(default_factory=dict)

    def collect(self) -> None:
        s = self.scan
        for b in range(len(s.active)):
            if not s.active[b].all():
                self.constant_rows(s.active[b])
        for r in s.histories:
            self.constant_rows(self.history_rows(r))
        for b, table in enumerate(s.region.equations):
            for q in range(table.shape[1]):
                kind = s.flat.kind(int(table[0, q]))
                if kind.places and kind.op in (put, getitem):
                    integers = s.flat.integers(table[:, q]) % np.array(kind.sizes)
                    self.indices[b, q] = self.index_keys(b, integers)
        for (b, q, j), reads in s.operands.items():
            for k, read in enumerate(reads):
                self.collect_read(b, q, j, k, read)

    def constant_rows(self, values: Any) -> Any:
        """The key of rows that are known."""
        key = ("bytes", values.tobytes(), str(values.dtype))
        self.rows.setdefault(key, Literal(values))
        return key

    def index_keys(self, b: int, integers: Numbers) -> list[Any]:
        """The keys of the integers of an index, which have a row for each run."""
        by_iteration = integers[self.scan.filled[b]]
        return [
            Literal(np.int64(column[0])) if (column == column[0]).all() else self.constant_rows(np.ascontiguousarray(column))
            for column in by_iteration.T
        ]

    def history_rows(self, r: int) -> Numbers:
        s = self.scan
        b = s.results[r].block
        return np.where(s.active[b], s.filled[b], len(s.times[b]))

    def place_in_history(self, r: int) -> Any:
        rows = self.history_rows(r)
        return "bytes", rows.tobytes(), str(rows.dtype)

    def collect_read(self, b: int, q: int, j: int, k: int, read: Read) -> None:
        s = self.scan
        filled = s.filled[b]
        if k > 0:
            self.flags[b, q, j, k] = self.constant_rows(read.runs[filled])
        if read.source is Source.ROW:
            self.collect_row(b, q, j, read)
            return
        numbers = s.numbers(b, q, j)
        if read.source is Source.HISTORY:
            arrays, _ = s.flat.arrays_read(numbers)
            runs = np.where(read.runs, s.run_of[arrays.clip(0)], 0)
            self.history_keys[b, q, j, k] = self.constant_rows(runs[filled])
        if read.spec is not None:
            _, made = s.flat.arrays_read(numbers[read.runs])
            kind = s.flat.kind(int(made[0]))
            integers = np.zeros((len(numbers), len(kind.places)), np.int64)
            integers[read.runs] = s.flat.integers(made) % np.array(kind.sizes)
            self.element_keys[b, q, j, k] = self.index_keys(b, integers)

    # -- what comes from before the region ------------------------------------------------------------------------------

    def collect_row(self, b: int, q: int, j: int, read: Read) -> None:
        s = self.scan
        e, position = s.equation(b, q), int(s.region.equations[b][0, q])
        numbers = s.numbers(b, q, j)[read.runs]
        whole = bool(read.runs.all())
        if whole and (numbers == numbers[0]).all():
            if numbers[0] < 0:
                self.literals[b, q, j] = s.flat.literals[-1 - int(numbers[0])]
                return
            number = int(numbers[0])
            if number in s.flat.weak:
                s.flat.check_types(e, {}, position)
            self.consts.setdefault(("const", number), s.rolling.operand(number))
            self.row_keys[b, q, j] = "const", number
            return
        if whole and (numbers < 0).all():
            constants = s.flat.constants(e, j, [s.flat.literals[-1 - n] for n in numbers.tolist()], position)
            self.row_keys[b, q, j] = self.constant_rows(np.ascontiguousarray(constants.values[s.filled[b]]))
            return
        type_ = self.type_of(b, q, j)
        s.flat.check_types(e, {j: type_}, position)
        if type_.size * s.iterations > _MOST_ELEMENTS:
            raise RefusedError(f"rows from before the loop take too much memory{s.at(b, q)}")
        if type_.size > max(_SMALL, 4 * e.types[0].size):  # the matrices of products with vectors, say
            raise RefusedError(f"to stack what {e.op.name!r} reads would take as long as to compute with it{s.at(b, q)}")
        where_ = np.zeros(len(read.runs), np.int64)
        where_[read.runs] = np.arange(len(numbers))
        order = where_[s.filled[b]]  # by iteration: which of the numbers
        key = ("rows", numbers.tobytes(), order.tobytes(), type_)
        if key not in self.rows:
            self.rows[key] = self.stacked(numbers, order, type_, e.line)
        self.row_keys[b, q, j] = key

    def type_of(self, b: int, q: int, j: int) -> Type:
        """The type of an operand that is a value in some of the runs."""
        numbers = self.scan.numbers(b, q, j)
        return (
            self.scan.flat.type_of(int(numbers[numbers >= 0][0])) if (numbers >= 0).any() else self.scan.equation(b, q).types[0]
        )

    def stacked(self, numbers: Numbers, order: Numbers, type_: Type, line: str) -> Operand:
        """A row for each iteration: constants, elements of arrays and other values, in this order, and taken from there."""
        s = self.scan
        flat, out = s.flat, s.out
        distinct, which = np.unique(numbers, return_inverse=True)
        which = which.reshape(-1)[order]
        pieces: list[Operand] = []
        place = np.zeros(len(distinct), np.int64)
        count = 0
        arrays, made = flat.arrays_read(distinct)
        is_element = made >= 0
        groups: dict[Any, list[int]] = {}
        for k in range(len(distinct)):
            group = ("element", int(arrays[k]), int(flat.keys[made[k]])) if is_element[k] else ("value",)
            groups.setdefault(group if distinct[k] >= 0 else ("constant",), []).append(k)
        for group, members in groups.items():
            chosen = distinct[members]
            place[members] = count + np.arange(len(members))
            count += len(members)
            if group[0] == "constant":
                constants = [s.strong(flat.literals[-1 - n], type_).value for n in chosen.tolist()]
                pieces.append(Literal(np.stack(constants)))
            elif group[0] == "element":
                pieces.append(self.elements(group[1], made[members], line))
            elif len(members) > 1:
                pieces.append(out.emit(stack, *(s.rolling.operand(n) for n in chosen.tolist()), line=line, axis=0))
            else:
                value = s.rolling.operand(int(chosen[0]))
                pieces.append(out.emit(reshape, value, line=line, shape=(1, *type_.shape)))
        whole = pieces[0] if len(pieces) == 1 else out.emit(concatenate, *pieces, line=line, axis=0)
        rows = out.rows(whole, (slice(None),), 0, place[which].tolist(), line)
        if out.type_of(rows) != Type((s.iterations, *type_.shape), type_.dtype):
            raise RefusedError("values of different types are read in the same place")
        return rows

    def elements(self, array: int, reads: Numbers, line: str) -> Operand:
        """What an array has at the indices of some reads, stacked."""
        s = self.scan
        out, kind = s.out, s.flat.kind(int(reads[0]))
        spec, integers = kind.params["spec"], s.flat.integers(reads) % np.array(kind.sizes)
        x: Operand = s.rolling.operand(array) if array >= 0 else s.flat.literals[-1 - array]
        axes = _integers_first(spec, out.type_of(x).ndim)
        if axes != tuple(range(len(axes))):
            x = out.emit(transpose, x, line=line, axes=axes)
        x = out.emit(gather, x, *(Literal(np.ascontiguousarray(column)) for column in integers.T), line=line, axis=0)
        return out.read(x, trimmed((slice(None), *(part for part in spec if not isinstance(part, int)))), line)


def _template(spec: tuple[Any, ...] | None) -> Any:
    """An index without its integers."""
    return None if spec is None else tuple(["i" if isinstance(part, int) else str(part) for part in spec])


def _integers_first(spec: tuple[Any, ...], ndim: int) -> tuple[int, ...]:
    """The axes of an array, those that the integers of an index read first."""
    first = [axis_of(spec, k) for k, part in enumerate(spec) if isinstance(part, int)]
    return (*first, *(a for a in range(ndim) if a not in first))
