"""Where the operands of a region of blocks (`blocks.py`) come from, run by run.

LOCAL      a result of the same run
LATEST     the latest result of a block, or one of those before it: a carry
HISTORY    any earlier result: a carry that is an array of all results
STORAGE    an array that is written to in place, by one block or several: a carry
ROW        anything from before the region: constants, values, elements of arrays; stacked in the order of the iterations
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

import numpy as np

from ...core.types import Type
from ...ir.graph import Equation, Literal, Operand
from ...ops.index import put
from .blocks import Region
from .find import FlatGraph
from .operands import MOST_LAG
from .roles import Numbers, RefusedError

MOST_ELEMENTS = 1 << 23  # of a stack of rows, or a history


class OperandSource(Enum):
    """Where an operand comes from: see above."""

    LOCAL = "local"
    LATEST = "latest"
    HISTORY = "history"
    STORAGE = "storage"
    ROW = "row"


class BlockResult(NamedTuple):
    """A result of a block."""

    block: int
    equation: int  # of the block
    which: int  # of its results
    type: Type


class BlockRead(NamedTuple):
    """How some runs of a block get an operand."""

    runs: Any  # which of them: a mask
    source: OperandSource
    result: int = -1  # LOCAL, LATEST, HISTORY: the result; STORAGE: the storage
    lag: int = 0  # LATEST: 1 for the latest
    spec: tuple[Any, ...] | None = None  # of the elements that are read from it


@dataclass
class Storage:
    """An array that several blocks may write to: each write takes the array as the write before has left it."""

    writes: Numbers  # when, sorted
    initial: int | None = None  # the operand that the first write takes


class BlockReads:
    """The blocks of a region: their runs, their results, the arrays they write to, and how each run gets each operand."""

    def __init__(self, flat: FlatGraph, region: Region, needed: Numbers) -> None:
        self.flat, self.region = flat, region
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
        self.results: list[BlockResult] = []
        self.result_of = np.full(flat.columns.values, -1, np.int64)  # by value
        self.run_of = np.zeros(flat.columns.values, np.int64)
        for b, table in enumerate(region.equations):
            for q in range(table.shape[1]):
                for which, type_ in enumerate(flat.kind(int(table[0, q])).types):
                    numbers = flat.first_number[table[:, q]] + which
                    self.result_of[numbers] = len(self.results)
                    self.run_of[numbers] = np.arange(len(table))
                    self.results.append(BlockResult(b, q, which, type_))
        self.needed = needed[self.result_of[needed] >= 0]
        self.stored: dict[int, int] = {}  # by result: its storage
        self.storages: dict[int, Storage] = {}
        self.begins: dict[int, int] = {}  # by storage: the array from before the region that its first write takes, or -1
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
            first = min((r for r in parent if self.stored[r] == s), key=lambda r: self.first_write(r))
            start = int(self.numbers(self.results[first].block, self.results[first].equation, 0)[0])
            self.begins[s] = start if start >= 0 and self.result_of[start] < 0 else -1

    def first_write(self, r: int) -> int:
        """When a result is first computed."""
        return int(self.times[self.results[r].block][0]) * self.width + self.results[r].equation

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

    def reads_of(self, b: int, q: int, j: int) -> list[BlockRead]:
        flat = self.flat
        numbers = self.numbers(b, q, j)
        arrays, made = flat.arrays_read(numbers)
        is_element = made >= 0
        results = np.where(arrays >= 0, self.result_of[np.maximum(arrays, 0)], -1)
        kinds = np.where(is_element, flat.keys[made], -1)
        now = self.times[b] * self.width + q
        found: list[BlockRead] = []
        for r, kind in sorted(set(zip(results.tolist(), kinds.tolist(), strict=True))):
            if r < 0:
                continue
            runs = (results == r) & (kinds == kind)
            spec = None if kind < 0 else flat.columns.kinds[kind].params["spec"]
            if r in self.stored:
                self.check_storage(self.stored[r], arrays[runs], now[runs], self.at(b, q))
                self.merge(found, BlockRead(runs, OperandSource.STORAGE, self.stored[r], spec=spec))
            else:
                found += self.reads_of_result(b, r, runs, arrays, spec)
        outside = results < 0
        for k, read in enumerate(found):
            if read.source is OperandSource.STORAGE and read.spec is not None:
                runs = outside & self.before_writes(read, arrays, kinds, now)
                found[k], outside = read._replace(runs=read.runs | runs), outside & ~runs
        if outside.any() and not self.is_initial(b, q, j, outside, numbers, is_element, found):
            found.append(BlockRead(outside, OperandSource.ROW))
        return found

    def before_writes(self, read: BlockRead, arrays: Numbers, kinds: Numbers, now: Numbers) -> Any:
        """The runs that read elements of the array that a storage starts from, before anything is written to it."""
        specs = {kind: self.flat.columns.kinds[kind].params["spec"] for kind in set(kinds.tolist()) if kind >= 0}
        alike = [kind for kind, spec in specs.items() if _template(spec) == _template(read.spec)]
        is_start = (arrays == self.begins[read.result]) & (arrays >= 0)
        return is_start & np.isin(kinds, alike) & (now < self.storages[read.result].writes[0])

    @staticmethod
    def merge(found: list[BlockRead], read: BlockRead) -> None:
        """Reads of one storage, written by different blocks, are one."""
        for k, other in enumerate(found):
            if (other.source, other.result, _template(other.spec)) == (read.source, read.result, _template(read.spec)):
                found[k] = other._replace(runs=other.runs | read.runs)
                return
        found.append(read)

    def reads_of_result(self, b: int, r: int, runs: Any, arrays: Numbers, spec: Any) -> list[BlockRead]:
        block = self.results[r].block
        before = np.searchsorted(self.times[block], self.times[b], side="left")
        lags = before - self.run_of[arrays.clip(0)]
        if block == b:
            lags = np.where(self.run_of[arrays.clip(0)] == np.arange(len(lags)), 0, lags)
        local, earlier = runs & (lags == 0), runs & (lags > 0)
        found = [BlockRead(local, OperandSource.LOCAL, r, spec=spec)] if local.any() else []
        distinct = np.unique(lags[earlier]).tolist()
        if distinct and (distinct[-1] > MOST_LAG or len(distinct) > 2):
            if self.results[r].type.size * len(self.times[block]) > MOST_ELEMENTS:
                raise RefusedError("earlier values are read, which take too much memory to keep")
            self.histories[r] = None
            return [*found, BlockRead(earlier, OperandSource.HISTORY, r, spec=spec)]
        for lag in distinct:
            self.lags[r] = max(self.lags.get(r, 0), lag)
            found.append(BlockRead(runs & (lags == lag), OperandSource.LATEST, r, lag, spec))
        return found

    def is_initial(self, b: int, q: int, j: int, outside: Any, numbers: Numbers, is_element: Any, found: list[BlockRead]) -> bool:
        """Whether what some runs read from before the region is what a carry of the others starts from."""
        distinct = np.unique(numbers[outside])
        if len(found) != 1 or len(distinct) != 1 or found[0].spec is not None or is_element[outside].any():
            return False
        (read,), number = found, int(distinct[0])
        now = (self.times[b] * self.width + q)[outside]
        if read.source is OperandSource.STORAGE:
            storage = self.storages[read.result]
            if (now > storage.writes[0]).any() or storage.initial not in (None, number):
                raise RefusedError(f"an array is written to that is another one in other iterations{self.at(b, q)}")
            storage.initial = number
        elif read.source is OperandSource.LATEST and read.lag == 1:
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


def _template(spec: tuple[Any, ...] | None) -> Any:
    """An index without its integers."""
    return None if spec is None else tuple(["i" if isinstance(part, int) else str(part) for part in spec])
