"""Basic blocks: nests whose inner loops differ in length, and branches on a counter, recovered from their trace.

    for i in range(n):                          trace        F  S F  S S F  S S S F  …
        s = b[i]                                blocks       S: mul, sub        F: div, put
        for j in range(i):                      iterations   _ F | S F | S _ | S F | S _ | S _ | S F | …
            s = s - a[i, j] * x[j]
        x[i] = s / a[i, i]

Equations of one kind on one line are a symbol, and the trace is a word. Symbols that always follow each other are a block. An
iteration runs each block at most once, in a fixed order: the one with the fewest iterations. Reads of elements are part of the
equations that use them, since staging shares an element that is read twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np

from ...core.op import Structured
from ...core.types import Type
from ...ir.columns import hashable, parameters
from ...ops.elementwise import power
from ...ops.index import gather, place, put, put_at, scatter_add
from .find import FlatGraph, is_per_element
from .roles import Numbers

_MOST_BLOCKS = 24
_MOST_WORK = 8  # times that of the trace: each iteration computes all blocks, and selects from the results
_FREE = 1000  # additions that a call may take longer for each equation that is not compiled
_OVERHEAD = 8  # additions that an iteration takes besides its equations
_AT_INDICES = (gather, put_at, scatter_add)  # these raise if an index is out of bounds


@dataclass(frozen=True)
class Region:
    """Consecutive equations of a graph that are runs of a few blocks."""

    stop: int  # the first equation behind
    hoisted: tuple[int, ...]  # equations that do not depend on the region, and occur once
    runs: Numbers  # the block of each run, in the order of the trace
    iteration: Numbers  # the iteration of each run
    order: tuple[int, ...]  # of the blocks in an iteration
    equations: tuple[Numbers, ...]  # by block: a row of equations for each of its runs

    @property
    def iterations(self) -> int:
        return int(self.iteration[-1]) + 1

    @property
    def start(self) -> int:
        return min(int(table[0, 0]) for table in self.equations)


def regions(flat: FlatGraph, least: int, saving: int) -> list[Region]:
    """The stretches of a graph in which each symbol occurs often, as runs of blocks."""
    symbols = _symbols(flat)
    counts = np.bincount(symbols[symbols >= 0], minlength=1)
    is_frequent = (symbols >= 0) & (counts[np.maximum(symbols, 0)] >= least)
    found: list[Region] = []
    run: list[int] = []
    hoisted: set[int] = set()

    def close(stop: int) -> None:
        for part in reversed(_apart(symbols, np.array(run, np.int64))):
            if int(flat.weights[part].sum()) >= saving:
                own = tuple([i for i in sorted(hoisted) if part[0] < i < stop])
                region = _region(flat, symbols, part, own, stop)
                if region is not None and region.iterations >= least and _saved(flat, part, region) >= saving:
                    found.append(region)
            stop = int(part[0])
        run.clear()
        hoisted.clear()

    for i in np.flatnonzero(~flat.reads).tolist():
        if is_frequent[i]:
            run.append(i)
        elif run:
            made = _sources(flat, i)
            if symbols[i] >= 0 and all(k < run[0] or k in hoisted for k in made):
                hoisted.add(i)
            else:
                close(i)
    close(len(flat.keys))
    return found


def _saved(flat: FlatGraph, part: Numbers, region: Region) -> int:
    """The weight of the equations that the loop makes unnecessary."""
    return int(flat.weights[part].sum() - sum(flat.weights[table[0]].sum() for table in region.equations))


def _apart(symbols: Numbers, positions: Numbers) -> list[Numbers]:
    """Loops one after another, which have no symbol in common."""
    if not len(positions):
        return []
    _, word = np.unique(symbols[positions], return_inverse=True)
    last = np.zeros(word.max() + 1, np.int64)
    np.maximum.at(last, word.reshape(-1), np.arange(len(word)))
    ends = np.maximum.accumulate(last[word.reshape(-1)])  # of the symbols so far
    return np.split(positions, np.flatnonzero(ends == np.arange(len(word)))[:-1] + 1)


def _sources(flat: FlatGraph, i: int) -> list[int]:
    """The equations whose results an equation uses, as they are or by reading elements; -1 for inputs and constants."""
    arrays, _ = flat.arrays_read(flat.operands[flat.first_operand[i] : flat.first_operand[i + 1]])
    return [int(flat.position[n - flat.inputs]) if n >= flat.inputs else -1 for n in arrays.tolist()]


# -- symbols ----------------------------------------------------------------------------------------------------------


def _symbols(flat: FlatGraph) -> Numbers:
    """By equation, the number of its symbol; -1 for reads, and for equations that must run only where the trace has them."""
    columns = flat.columns
    signatures: dict[Any, int] = {}
    by_line: dict[tuple[int, str, Any], int] = {}
    merged = _merged_kinds(flat)
    found = np.full(len(flat.keys), -1, np.int64)
    lines = columns.lines.tolist()
    for i, number in enumerate(columns.kind.tolist()):
        if flat.reads[i] or merged[number] is None:
            continue
        fixed = merged[number]
        kind = columns.kinds[number]
        own: Any = ()
        if not _takes_any_number(kind.op):  # a weak number that is not a parameter of a computation on elements
            read = flat.operands[flat.first_operand[i] : flat.first_operand[i + 1]].tolist()
            own = tuple([n for n in read if n < 0 and flat.literals[-1 - n].is_weak])
            if kind.op in _AT_INDICES and any(n >= 0 for n in read[1 if kind.op is not put_at else 2 :]):
                continue
        if kind.op is place and kind.places:
            own = (own, tuple(flat.integers(np.array([i]))[0].tolist()))
        key = (signatures.setdefault(fixed, len(signatures)), lines[i], own)
        found[i] = by_line.setdefault(key, len(by_line))
    return found


def _takes_any_number(op: Any) -> bool:
    return op is not power and (is_per_element(op) or op is put)


def _merged_kinds(flat: FlatGraph) -> list[Any]:
    """A key for each kind, the same for kinds that differ only in which operands are constants; None for kinds of no block."""
    groups: dict[Any, list[int]] = {}
    keys: list[Any] = []
    for number, kind in enumerate(flat.columns.kinds):
        if isinstance(kind.op, Structured) or (kind.op.may_fail and kind.op not in _AT_INDICES):
            keys.append(None)
            continue
        base = (kind.op, parameters(kind.op, kind.params), kind.types, len(kind.operands))
        keys.append(base)
        groups.setdefault(base, []).append(number)
    for base, numbers in groups.items():
        operands = [flat.columns.kinds[number].operands for number in numbers]
        types = [{o for o in column if isinstance(o, Type)} for column in zip(*operands, strict=True)]
        if any(len(each) > 1 for each in types) or not _takes_any_number(base[0]):
            for number in numbers:
                keys[number] = (base, tuple([hashable(o) for o in flat.columns.kinds[number].operands]))
    return keys


# -- blocks -----------------------------------------------------------------------------------------------------------


def _region(flat: FlatGraph, symbols: Numbers, positions: Numbers, hoisted: tuple[int, ...], stop: int) -> Region | None:
    """The equations at these positions as runs of basic blocks, ordered in iterations; None if a loop over them does not pay."""
    names, word = np.unique(symbols[positions], return_inverse=True)
    word = word.reshape(-1)
    work = np.zeros(len(names))
    work[word] = [_work(flat, i) for i in positions.tolist()]
    blocks, runs = _chains(word, len(names))
    if len(blocks) > _MOST_BLOCKS:
        return None
    blocks, runs = _joined(blocks, runs, work)
    used = np.unique(runs)
    blocks, runs = [blocks[b] for b in used.tolist()], np.searchsorted(used, runs)
    order = _order(_pairs(runs, len(blocks)), range(len(blocks)))
    costs = [work[list(block)].sum() for block in blocks]
    iteration = _iterations(runs, order)
    written = work[word].sum() + _OVERHEAD * len(runs)
    computed = (iteration[-1] + 1) * (sum(costs) + _OVERHEAD)
    if computed > min(_MOST_WORK * written, 1.5 * written + _FREE * len(word)) or 3 * sum(map(len, blocks)) > len(word):
        return None
    lengths = np.array([len(block) for block in blocks])[runs]
    first = np.cumsum(lengths) - lengths
    tables = [positions[first[runs == b][:, None] + np.arange(len(blocks[b]))] for b in range(len(blocks))]
    return Region(stop, hoisted, runs, iteration, tuple(order), tuple(tables))


def _work(flat: FlatGraph, i: int) -> float:
    kind = flat.kind(i)
    return max(kind.op.cost, 1) * sum(max(t.size, 1) for t in kind.types) if kind.op is not put else 1.0


def _chains(word: Numbers, count: int) -> tuple[list[tuple[int, ...]], Numbers]:
    """Symbols that always follow each other, as blocks, and the word in blocks."""
    pairs = np.unique(np.stack([word[:-1], word[1:]], 1), axis=0)
    followers, leaders = np.bincount(pairs[:, 0], minlength=count), np.bincount(pairs[:, 1], minlength=count)
    followers[word[-1]] += 1  # the end, and the start
    leaders[word[0]] += 1
    following = {int(a): int(b) for a, b in pairs.tolist() if followers[a] == 1 and leaders[b] == 1}
    heads = sorted(set(range(count)) - set(following.values()))
    blocks = []
    for head in heads:
        block = [head]
        while block[-1] in following:
            block.append(following[block[-1]])
        blocks.append(tuple(block))
    number = np.full(count, -1)
    number[heads] = np.arange(len(heads))
    runs = number[word]
    return blocks, runs[runs >= 0]


def _joined(blocks: list[tuple[int, ...]], runs: Numbers, work: Any) -> tuple[list[tuple[int, ...]], Numbers]:
    """With blocks joined that share a symbol, `mul add mul sin` say, as long as this makes the loop cheaper."""
    costs = [float(work[list(block)].sum()) for block in blocks]

    def price(runs: Numbers, costs: Sequence[float]) -> float:
        used = np.unique(runs)
        pairs = _pairs(runs, len(costs))[np.ix_(used, used)]
        order = _order(pairs, range(len(used)))
        return (_descents(pairs, order) + 1) * (_OVERHEAD + sum(costs[b] for b in used.tolist()))

    best = price(runs, costs)
    while len(blocks) < 2 * _MOST_BLOCKS:
        pairs = _pairs(runs, len(blocks))
        candidates = [
            (a, b)
            for a, b in np.argwhere(pairs).tolist()
            if a != b and (pairs[a, b] == pairs[a].sum() or pairs[a, b] == pairs[:, b].sum())
        ]
        trials = []
        for a, b in candidates:
            at = np.flatnonzero((runs[:-1] == a) & (runs[1:] == b))
            changed = runs.copy()
            changed[at] = len(blocks)
            changed = np.delete(changed, at + 1)
            trials.append((price(changed, [*costs, costs[a] + costs[b]]), a, b, changed))
        if not trials:
            break
        cheapest, a, b, changed = min(trials, key=lambda trial: trial[0])
        if cheapest > best:
            break
        best, runs = cheapest, changed
        blocks, costs = [*blocks, blocks[a] + blocks[b]], [*costs, costs[a] + costs[b]]
    return blocks, runs


def _pairs(runs: Numbers, count: int) -> Any:
    """How often one block follows another."""
    return np.bincount(runs[:-1] * count + runs[1:], minlength=count * count).reshape(count, count)


def _descents(pairs: Any, order: Sequence[int]) -> int:
    """How often a new iteration begins: a block is followed by one that is not behind it in the order."""
    sorted_pairs = pairs[np.ix_(order, order)]
    return int(np.tril(sorted_pairs).sum())


def _order(pairs: Any, start: Sequence[int]) -> list[int]:
    """An order of the blocks with few iterations: each block is moved to where it is best, until nothing improves."""
    order = list(start)
    after, before = pairs.tolist(), pairs.T.tolist()  # Python's numbers: there are a few dozen, and this is called often
    improved = True
    while improved:
        improved = False
        for b in list(order):
            now = order.index(b)
            rest = order[:now] + order[now + 1 :]
            # The descents that b takes part in, by its place among the others, up to a constant: one place further back, those
            # from b to the block that is now in front of it are more, and those from that block to b are none.
            down, up = after[b], before[b]
            counts = list(accumulate([down[x] - up[x] for x in rest], initial=0))
            best = min(counts)
            if best < counts[now]:
                place = counts.index(best)
                order, improved = [*rest[:place], b, *rest[place:]], True
    return order


def _iterations(runs: Numbers, order: Sequence[int]) -> Numbers:
    """The iteration of each run."""
    place = np.empty(len(order), np.int64)
    place[list(order)] = np.arange(len(order))
    return np.concatenate([[0], np.cumsum(place[runs[1:]] <= place[runs[:-1]])])
