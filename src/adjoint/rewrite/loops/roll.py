"""Loop rolling: equations that repeat, as those of a Python loop do, become one `scan`.

    v1 = sin x;  v2 = mul v1, w;  v3 = sin v2;  v4 = mul v3, w;  …        becomes a scan of   sin, mul   with a carry

`moving.py` writes slices that move as integer arrays, `repeats.py` finds what repeats, `peel.py` makes first iterations like the
others, `find.py` finds the role of each operand, `write.py` writes the scans. The backward half of a differentiated loop reads
the values of the forward half from the last iteration to the first: these are stacked, and it becomes a scan in reverse. Inner
loops are rolled first, then the loops around them. The results stay the same bit for bit.

If much is left that is in no loop, loops without a period are looked for: `blocks.py` finds nests whose inner loops differ in
length, and branches on a counter; `padded.py` gives arrays of changing length the length of the longest,
so that their sums may be added in another order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ...ir.edit import bodies, dead_code, has_bodies, is_in_order, map_bodies, renumber
from ...ir.graph import Equation, Graph
from ...ops.control import scan
from ...ops.index import getitem
from ..saving import LEAST_SAVING, is_long_enough
from .blocks import regions
from .find import FlatGraph, weight
from .moving import with_arrays, with_slices
from .padded import padded
from .peel import peel
from .repeats import Stretch, disjoint
from .roles import RefusedError
from .write import BODY, with_scans
from .write_blocks import with_blocks

LEAST_ITERATIONS = 8
_ARRAY = 4  # the weight of an equation on arrays, in scalar ones, as code that is in no loop
_STRAIGHT = 4  # times what a loop saves at least: the weight of equations that may be left in no loop
_SMALLER = 3  # times: loops of blocks, and of padded arrays, make a program at least so much smaller
_MOST_DEPTH = 8  # of nested loops, and loops of blocks
_ATTEMPTS = 4  # searches, each without the stretches that were refused before


@dataclass(frozen=True)
class RolledLoop:
    """A loop that was rolled, `depth` levels inside others."""

    iterations: int
    equations: int  # in an iteration
    line: str
    depth: int = 0

    def __str__(self) -> str:
        where = f" ({self.line})" if self.line else ""
        nested = ", inside another" if self.depth else ""
        return f"{self.iterations} iterations of {self.equations} equations are a loop{nested}{where}"


@dataclass(frozen=True)
class Unrolled:
    """Equations that repeat, or seem to, and were not rolled."""

    equations: int
    line: str
    reason: str

    def __str__(self) -> str:
        where = f" ({self.line})" if self.line else ""
        return f"{self.equations} equations are not a loop{where}: {self.reason}"


@dataclass(frozen=True)
class Rolled:
    """The rolled graph, and what became of its loops."""

    graph: Any
    loops: tuple[RolledLoop, ...]
    unrolled: tuple[Unrolled, ...]


def roll(graph: Graph, weak: Collection[int] = (), *, least: int = LEAST_ITERATIONS, saving: int = LEAST_SAVING) -> Rolled:
    """The graph with its repeating equations as loops. The inputs `weak` are Python numbers.

    A loop has at least `least` iterations, and saves equations that weigh at least `saving`: see `find.weight`.
    """
    least = max(least, 6)
    graph = map_bodies(graph, lambda body: _rolled_body(body, least, saving))
    if not is_long_enough(len(graph), saving):
        return Rolled(graph, tuple(_loops(graph)), ())
    graph, slices = with_arrays(graph if is_in_order(graph) else renumber(graph), least)
    rolled, unrolled = _roll_flat(graph, weak, least, saving)
    if _may_shrink(rolled, saving) and (longer := padded(graph, least)) is not None:
        trial, reasons = _roll_flat(longer, weak, least, saving)
        if _SMALLER * _size(trial) < _size(rolled):
            rolled, unrolled = trial, reasons
    return Rolled(with_slices(rolled, slices), tuple(_loops(rolled)), tuple(unrolled))


def _roll_flat(graph: Graph, weak: Collection[int], least: int, saving: int) -> tuple[Graph, list[Unrolled]]:
    """With loops whose iterations are alike; if much is left, with loops that run some of several blocks."""
    rolled, unrolled = _roll_iterations(graph, weak, least, saving)
    if _may_shrink(rolled, _STRAIGHT * saving):
        blocks, reasons = _roll_blocks(graph, weak, least, saving)
        if blocks is None:
            return rolled, unrolled + reasons
        blocks, reasons = _roll_iterations(blocks, weak, least, saving)
        if _SMALLER * _size(blocks) < _size(rolled):
            return blocks, reasons
    return rolled, unrolled


def _may_shrink(graph: Graph, least: int) -> bool:
    """Whether a graph is heavy, and may become `_SMALLER` times lighter by other loops: its heaviest equation, a loop, stays."""
    sizes = list(map(_size_of, graph.equations))
    return sum(sizes) > max(least, _SMALLER * max(sizes, default=0))


def _size(graph: Graph) -> int:
    """The weight of all equations, those of loops included."""
    return sum(map(_size_of, graph.equations))


def _size_of(e: Equation) -> int:
    """The weight of an equation; one on arrays is a loop nest of its own."""
    return weight(e) * (_ARRAY if any(t.shape for t in e.types) else 1)


def _roll_iterations(graph: Graph, weak: Collection[int], least: int, saving: int) -> tuple[Graph, list[Unrolled]]:
    """With loops whose iterations are all alike, inner ones first, and what is none."""
    unrolled: list[Unrolled] = []
    for _ in range(_MOST_DEPTH):
        if not is_long_enough(len(graph), saving):
            break
        flat, unrolled = _search(graph, weak, least, saving)
        if not flat.loops:
            unrolled += list(_irregular(flat, graph, saving, unrolled))
            break
        graph = renumber(dead_code(with_scans(flat)))
        unrolled = []
    return graph, unrolled


def _roll_blocks(graph: Graph, weak: Collection[int], least: int, saving: int) -> tuple[Graph | None, list[Unrolled]]:
    """With loops whose iterations run some of several blocks, the longest first; None if there are no such loops."""
    found: Graph | None = None
    unrolled: list[Unrolled] = []
    for _ in range(_MOST_DEPTH):
        flat = FlatGraph(graph, weak)
        unrolled = []
        for region in sorted(regions(flat, least, saving), key=lambda region: region.start - region.stop):
            try:
                graph = found = renumber(dead_code(with_blocks(flat, region)))
                break
            except RefusedError as error:
                unrolled.append(Unrolled(region.stop - region.start, flat.graph.equations[region.start].line, str(error)))
        else:
            break
    return found, unrolled


def _search(graph: Graph, weak: Collection[int], least: int, saving: int) -> tuple[FlatGraph, list[Unrolled]]:
    """The flat graph with the loops in it, and the stretches that are none."""
    flat = FlatGraph(graph if is_in_order(graph) else renumber(graph), weak)
    peeled = peel(flat, _stretches(flat, least, saving, [], []))
    if peeled is not None:
        flat = FlatGraph(peeled, weak)
    banned: list[Stretch] = []
    reasons: list[tuple[Stretch, str]] = []
    for _ in range(_ATTEMPTS):
        flat.reset()
        refusals: list[tuple[Stretch, int]] = []
        refused = len(banned)
        for stretch in _stretches(flat, least, saving, banned, refusals):
            try:
                flat.add(flat.loop_in(flat.rotated(stretch, least), least))
            except RefusedError as error:
                reasons.append((stretch, str(error)))
                banned.append(stretch)
        if len(banned) == refused:
            break
    reasons += [(stretch, flat.difference(stretch, at)) for stretch, at in refusals]
    return flat, list(_unrolled(flat, reasons))


def _stretches(
    flat: FlatGraph, least: int, saving: int, banned: Sequence[Stretch], refusals: list[tuple[Stretch, int]]
) -> list[Stretch]:
    def narrow(stretch: Stretch) -> list[Stretch]:
        if any(b.period == stretch.period and b.start < stretch.stop and stretch.start < b.stop for b in banned):
            return []
        return [] if _only_reads(flat, stretch) else flat.narrow(stretch, refusals)

    return disjoint(flat.keys, flat.weights, least, saving, narrow)


def _only_reads(flat: FlatGraph, stretch: Stretch) -> bool:
    """Whether an iteration only reads rows of arrays: the loop that uses these reads them itself."""
    return all(flat.kind(i).op is getitem for i in range(stretch.start, stretch.start + stretch.period))


def _rolled_body(body: Graph, least: int, saving: int) -> Graph:
    rolled = roll(body, least=least, saving=saving)
    return rolled.graph if rolled.loops else body


def _loops(graph: Graph, depth: int = 0) -> Iterator[RolledLoop]:
    """The loops that were rolled, each before those inside it."""
    if not has_bodies(graph):
        return
    for e in graph.equations:
        held = list(bodies(e.params).values())
        own = e.op is scan and held[0].name.endswith(BODY)  # a transform adds a prefix to the name
        if own:
            yield RolledLoop(e.params["length"], len(held[0]), e.line, depth)
        for part in held:
            yield from _loops(part, depth + own)


def _unrolled(flat: FlatGraph, reasons: Sequence[tuple[Stretch, str]]) -> Iterator[Unrolled]:
    """Where no loop was found, why the longest stretch there is none."""
    taken = [(loop.start, loop.stop) for loop in flat.loops]
    for stretch, reason in sorted(reasons, key=lambda pair: -pair[0].saving):
        if not any(start < stretch.stop and stretch.start < stop for start, stop in taken):
            taken.append((stretch.start, stretch.stop))
            yield Unrolled(stretch.stop - stretch.start, flat.graph.equations[stretch.start].line, reason)


def _irregular(flat: FlatGraph, graph: Graph, saving: int, said: Sequence[Unrolled]) -> Iterator[Unrolled]:
    """The user's lines with many equations that are in no loop, and what is different about them."""
    by_line: dict[str, list[int]] = {}
    for i, line in enumerate(flat.columns.lines.tolist()):
        if line:
            by_line.setdefault(line, []).append(i)
    known = sum(loop.equations for loop in _loops(graph))  # first and last iterations that differ are expected
    for line, positions in by_line.items():
        if len(positions) < saving + 4 * known or line in {u.line for u in said}:
            continue
        kinds = {int(flat.keys[i]) for i in positions}
        ops = Counter(flat.columns.kinds[kind].op.name for kind in kinds)
        reason = "the equations do not repeat in iterations"
        if len(kinds) > 4 * len(ops):
            reason = f"shapes or parameters change, those of {ops.most_common(1)[0][0]!r} for one"
        yield Unrolled(len(positions), line, reason)
