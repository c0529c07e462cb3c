"""The inputs of the body of a region of blocks (`blocks.py`) that are no carries: constants, and rows from before the region.

A row is stacked before the loop, in the order of the iterations: constants, elements of arrays, other values. Known integers (the
indices of elements, which source an iteration selects, whether a block runs) are rows too.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.types import Type
from ...ir.graph import Literal, Operand
from ...ops.broadcast import reshape, transpose
from ...ops.index import gather, getitem, put
from ...ops.shape import concatenate, stack
from .block_reads import MOST_ELEMENTS, BlockRead, OperandSource
from .find import axis_of
from .roles import Numbers, RefusedError
from .write import trimmed

if TYPE_CHECKING:
    from .write_blocks import BlockScan

_SMALL = 64  # elements of a row that is stacked at little cost


@dataclass
class BodyInputs:
    """What each input is before the loop, by the key under which the body reads it."""

    scan: BlockScan
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

    def collect_read(self, b: int, q: int, j: int, k: int, read: BlockRead) -> None:
        s = self.scan
        filled = s.filled[b]
        if k > 0:
            self.flags[b, q, j, k] = self.constant_rows(read.runs[filled])
        if read.source is OperandSource.ROW:
            self.collect_row(b, q, j, read)
            return
        numbers = s.numbers(b, q, j)
        if read.source is OperandSource.HISTORY:
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

    def collect_row(self, b: int, q: int, j: int, read: BlockRead) -> None:
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
        if type_.size * s.iterations > MOST_ELEMENTS:
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
        axes = integers_first(spec, out.type_of(x).ndim)
        if axes != tuple(range(len(axes))):
            x = out.emit(transpose, x, line=line, axes=axes)
        x = out.emit(gather, x, *(Literal(np.ascontiguousarray(column)) for column in integers.T), line=line, axis=0)
        return out.read(x, trimmed((slice(None), *(part for part in spec if not isinstance(part, int)))), line)


def integers_first(spec: tuple[Any, ...], ndim: int) -> tuple[int, ...]:
    """The axes of an array, those that the integers of an index read first."""
    first = [axis_of(spec, k) for k, part in enumerate(spec) if isinstance(part, int)]
    return (*first, *(a for a in range(ndim) if a not in first))
