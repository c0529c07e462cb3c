"""Rolling: equations that repeat, as those of a Python loop do, become one `scan`.

    v1 = sin x;  v2 = mul v1, w;  v3 = sin v2;  v4 = mul v3, w;  …        becomes a scan of   sin, mul   with a carry

`repeats.py` finds what repeats, `find.py` what the operands of a turn are, `write.py` writes the scans. The backward half of a
differentiated loop reads the values of the forward half from the last turn to the first: these are stacked, and it becomes a
scan in reverse. Inner loops are rolled first, then the loops around them. The values stay the same bit by bit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...ir.columns import Columns
from ...ir.graph import Graph
from ...ops.control import scan
from ...ops.index import getitem
from ..simplify.passes import dead_code, renumber
from .find import Flat
from .peel import hoisted
from .repeats import Stretch, disjoint
from .roles import RefusedError
from .write import TURN, with_scans

LEAST_TURNS = 8
LEAST_SAVING = 128  # equations that a loop makes unnecessary; below, straight code compiles quickly and runs best
_MOST_DEPTH = 8  # of loops in loops
_ATTEMPTS = 4  # to find other loops where those that were found first are none


@dataclass(frozen=True)
class Loop:
    """A loop that was rolled. `depth` tells how many others it is in."""

    turns: int
    equations: int  # in a turn
    line: str
    depth: int = 0

    def __str__(self) -> str:
        where = f" ({self.line})" if self.line else ""
        return f"{self.turns} turns of {self.equations} equations are a loop{', inside another' if self.depth else ''}{where}"


@dataclass(frozen=True)
class Unrolled:
    """Equations that repeat, or seem to, and were left as they are."""

    equations: int
    line: str
    reason: str

    def __str__(self) -> str:
        where = f" ({self.line})" if self.line else ""
        return f"{self.equations} equations are not a loop{where}: {self.reason}"


@dataclass(frozen=True)
class Rolled:
    """What rolling gives: a graph of the same values, and what became of its loops."""

    graph: Any
    loops: tuple[Loop, ...]
    unrolled: tuple[Unrolled, ...]


def roll(graph: Graph, weak: Collection[int] = (), *, turns: int = LEAST_TURNS, saving: int = LEAST_SAVING) -> Rolled:
    """The graph with its repeating equations as loops. The inputs `weak` are Python numbers.

    A loop has at least `turns` turns, and saves at least `saving` equations.
    """
    turns = max(turns, 6)
    graph = _with_rolled_bodies(graph, turns, saving)
    unrolled: list[Unrolled] = []
    for _ in range(_MOST_DEPTH):
        if len(graph) < saving:
            break
        flat, unrolled = _search(graph, weak, turns, saving)
        if not flat.loops:
            unrolled += list(_irregular(flat, graph, saving, unrolled))
            break
        graph = renumber(dead_code(with_scans(flat)))
        unrolled = []
    return Rolled(graph, tuple(_loops(graph)), tuple(unrolled))


def _search(graph: Graph, weak: Collection[int], turns: int, saving: int) -> tuple[Flat, list[Unrolled]]:
    """The graph as numbers, with the loops in it, and what was tried."""
    flat = Flat(graph if _in_order(graph) else renumber(graph), weak)
    better = hoisted(flat, _stretches(flat, turns, saving, [], []))
    if better is not None:
        flat = Flat(better, weak)
    banned: list[Stretch] = []
    reasons: list[tuple[Stretch, str]] = []
    for _ in range(_ATTEMPTS):
        flat.forget()
        refusals: list[tuple[Stretch, int]] = []
        refused = len(banned)
        for stretch in _stretches(flat, turns, saving, banned, refusals):
            try:
                flat.enter(flat.turns(flat.phased(stretch, turns), turns))
            except RefusedError as error:
                reasons.append((stretch, str(error)))
                banned.append(stretch)
        if len(banned) == refused:
            break
    reasons += [(stretch, _difference(flat, stretch, at)) for stretch, at in refusals]
    return flat, list(_left(flat, reasons))


def _stretches(
    flat: Flat, turns: int, saving: int, banned: Sequence[Stretch], refusals: list[tuple[Stretch, int]]
) -> list[Stretch]:
    def narrow(stretch: Stretch) -> list[Stretch]:
        if any(b.period == stretch.period and b.start < stretch.stop and stretch.start < b.stop for b in banned):
            return []
        return [] if _only_reads(flat, stretch) else flat.narrow(stretch, refusals)

    return disjoint(flat.keys, flat.weights, turns, saving, narrow)


def _in_order(graph: Graph) -> bool:
    if isinstance(graph.equations, Columns):
        return True
    numbers = [n for e in graph.equations for n in e.outputs]
    first = len(graph.input_types)
    return numbers == list(range(first, first + len(numbers)))


def _only_reads(flat: Flat, stretch: Stretch) -> bool:
    """Whether a turn does nothing but read rows: whoever reads these is a loop over the rows itself."""
    return all(flat.kind(i).op is getitem for i in range(stretch.start, stretch.start + stretch.period))


def _with_rolled_bodies(graph: Graph, turns: int, saving: int) -> Graph:
    """The graph with the loops in the bodies of the user's own loops and branches."""
    if not _has_bodies(graph):
        return graph
    equations = list(graph.equations)
    changed = False
    for i, e in enumerate(equations):
        bodies = {name: roll(part, turns=turns, saving=saving) for name, part in e.params.items() if isinstance(part, Graph)}
        if any(body.loops for body in bodies.values()):
            changed = True
            equations[i] = replace(e, params={**e.params, **{name: body.graph for name, body in bodies.items()}})
    return replace(graph, equations=tuple(equations)) if changed else graph


def _has_bodies(graph: Graph) -> bool:
    held = graph.equations.kinds if isinstance(graph.equations, Columns) else graph.equations
    return any(isinstance(part, Graph) for one in held for part in one.params.values())


def _loops(graph: Graph, depth: int = 0) -> Iterator[Loop]:
    """The loops that were rolled, those inside others behind them."""
    if not _has_bodies(graph):
        return
    for e in graph.equations:
        held = [part for part in e.params.values() if isinstance(part, Graph)]
        own = e.op is scan and held[0].name.endswith(TURN)  # or what a transform has made of one
        if own:
            yield Loop(e.params["length"], len(held[0]), e.line, depth)
        for part in held:
            yield from _loops(part, depth + own)


def _difference(flat: Flat, stretch: Stretch, at: int) -> str:
    turn = (at - stretch.start) // stretch.period + 1
    return f"turn {turn} of {stretch.turns} differs in what {flat.graph.equations[at].op.name!r} reads{flat.at(at)}"


def _left(flat: Flat, reasons: Sequence[tuple[Stretch, str]]) -> Iterator[Unrolled]:
    """Where no loop was found, why the longest stretch there is none."""
    taken = [(p.start, p.stop) for p in flat.loops]
    for stretch, reason in sorted(reasons, key=lambda pair: -pair[0].saving):
        if not any(start < stretch.stop and stretch.start < stop for start, stop in taken):
            taken.append((stretch.start, stretch.stop))
            yield Unrolled(stretch.stop - stretch.start, flat.graph.equations[stretch.start].line, reason)


def _irregular(flat: Flat, graph: Graph, saving: int, said: Sequence[Unrolled]) -> Iterator[Unrolled]:
    """Lines of the program that gave many equations which are in no loop, and what is different about them."""
    by_line: dict[str, list[int]] = {}
    for i, line in enumerate(flat.columns.lines.tolist()):
        if line:
            by_line.setdefault(line, []).append(i)
    known = sum(loop.equations for loop in _loops(graph))  # first and last turns that differ are no news
    for line, positions in by_line.items():
        if len(positions) < saving + 4 * known or line in {u.line for u in said}:
            continue
        kinds = {int(flat.keys[i]) for i in positions}
        ops = Counter(flat.columns.kinds[kind].op.name for kind in kinds)
        reason = "the equations do not repeat in turns"
        if len(kinds) > 4 * len(ops):
            reason = f"shapes or parameters change, those of {ops.most_common(1)[0][0]!r} for one"
        yield Unrolled(len(positions), line, reason)
