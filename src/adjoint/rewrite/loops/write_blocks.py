"""Writing the scan of a region of blocks (`blocks.py`).

    S: v = s - row * x[j]           v = sub s, (mul row, (gather x, j));      s = where S_runs, v, s
    F: x[i] = s / row               w = div s, row;      x = put_at x, (where F_runs, w, (gather x, i)), i

Each iteration computes all blocks and keeps the results of those that run in it. If an operand comes from different sources
(`block_reads.py`) in different runs, the iteration selects one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...core.types import Type
from ...derive import type_rule
from ...ir.graph import Equation, Graph, Literal, Operand
from ...ops.broadcast import broadcast_to, transpose, where
from ...ops.control import scan
from ...ops.index import gather, getitem, put, put_at
from ...ops.shape import concatenate, stack
from .block_reads import BlockReads, OperandSource
from .block_rows import BodyInputs, integers_first
from .blocks import Region
from .find import FlatGraph, axis_of, neighbours
from .roles import Numbers, RefusedError
from .write import BODY, EquationWriter, trimmed

_MOST_SELECTED = 64  # elements of an array that an iteration may select as a whole


def with_blocks(flat: FlatGraph, region: Region) -> Graph:
    """The graph with a region as a scan; raises RefusedError if it cannot be one."""
    return _BlockRolling(flat, region).run()


class _BlockRolling:
    """The graph around the scan: what comes before the region, the scan, and what comes after it."""

    def __init__(self, flat: FlatGraph, region: Region) -> None:
        self.flat, self.region = flat, region
        self.out = EquationWriter(flat.graph.input_types)
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
        self.scan = BlockScan(self, self.needed(late))
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


class BlockScan(BlockReads):
    """The scan of a region: its body, written block by block, and its results."""

    def __init__(self, rolling: _BlockRolling, needed: Numbers) -> None:
        super().__init__(rolling.flat, rolling.region, needed)
        self.rolling, self.out = rolling, rolling.out

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

    def write(self) -> None:
        carries = self.carries()
        self.inputs = BodyInputs(self)
        self.inputs.collect()
        consts, rows = self.inputs.consts, self.inputs.rows
        keys = [*consts, *carries, *rows]
        operands = [*consts.values(), *carries.values(), *rows.values()]
        types = [self.out.type_of(o) for o in [*consts.values(), *carries.values()]]
        types += [Type(t.shape[1:], t.dtype) for t in map(self.out.type_of, rows.values())]
        self.input = {key: n for n, key in enumerate(keys)}
        self.writer = EquationWriter(types)
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
        """Write the equations of block b into the body, and keep the results that other blocks or iterations read."""
        runs = self.runs(b)
        for q in range(self.region.equations[b].shape[1]):
            e = self.equation(b, q)
            inputs = [self.read(b, q, j, e) for j in range(len(e.inputs))]
            if e.op is put:
                results: tuple[Operand, ...] = (self.put(b, q, e, inputs, runs),)
            elif e.op is getitem and (indices := self.inputs.indices.get((b, q))) is not None:
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
            at = self.inputs.place_in_history(r)
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
            value = self.writer.emit(where, self.input[self.inputs.flags[b, q, j, k]], one, value, line=e.line)
        assert value is not None
        return value

    def read_from(self, b: int, q: int, j: int, k: int, e: Equation) -> Operand:
        read = self.operands[b, q, j][k]
        match read.source:
            case OperandSource.ROW:
                literal = self.inputs.literals.get((b, q, j))
                return self.input[self.inputs.row_keys[b, q, j]] if literal is None else literal
            case OperandSource.LOCAL:
                value = self.computed[read.result]
            case OperandSource.LATEST:
                value = self.state["latest", read.result, read.lag]
            case OperandSource.STORAGE:
                value = self.state["storage", read.result]
            case OperandSource.HISTORY:
                at = self.input[self.inputs.history_keys[b, q, j, k]]
                value = self.writer.emit(gather, self.state["history", read.result], at, line=e.line, axis=0)
        if read.spec is None:
            return value
        return self.element(value, read.spec, self.inputs.element_keys[b, q, j, k], e.line)

    def element(self, x: Operand, spec: tuple[Any, ...], keys: Sequence[Any], line: str) -> Operand:
        """What an index reads whose integers are inputs of the body, or constants."""
        numbers = [self.index(key) for key in keys]
        which = [k for k, part in enumerate(spec) if isinstance(part, int)]
        if neighbours(spec, list(range(len(which)))) is not None:
            axis = axis_of(spec, which[0])
        else:
            x, axis = self.writer.emit(transpose, x, line=line, axes=integers_first(spec, self.writer.type_of(x).ndim)), 0
        x = self.writer.emit(gather, x, *numbers, line=line, axis=axis)
        return self.writer.read(x, trimmed(tuple([part for part in spec if not isinstance(part, int)])), line)

    def index(self, key: Any) -> Operand:
        return key if isinstance(key, Literal) else self.input[key]

    def put(self, b: int, q: int, e: Equation, inputs: list[Operand], runs: Operand | None) -> Operand:
        """A write to a storage: of what is there already, if the block does not run."""
        array, value = inputs
        spec = e.params["spec"]
        keys = self.inputs.indices.get((b, q), [])
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
