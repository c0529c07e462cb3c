"""Where a sequence repeats: stretches in which each entry equals the one a period before it.

    a b c d b c d b c d e        entries 1 to 9 repeat with period 3, in 3 iterations

The cost is a few dozen sorts of the sequence.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

Entries = np.ndarray[Any, Any]  # whole numbers

_MOST_PERIODS = 256  # that are tried
_LONG = 1 << 15  # entries of a sequence that is sampled first,
_PIECE = 1 << 13  # in pieces of so many
_LEFT = 16  # iterations that are kept at either end of a long stretch


class Stretch(NamedTuple):
    """Entries from start to stop repeat with a period."""

    start: int
    stop: int
    period: int

    @property
    def iterations(self) -> int:
        return (self.stop - self.start) // self.period

    @property
    def saving(self) -> int:
        """How many entries are repetitions of others."""
        return self.stop - self.start - self.period


Narrow = Callable[[Stretch], Iterable[Stretch]]


def periods(entries: Entries, least: int) -> list[int]:
    """The periods with which `least` iterations (six or more) may repeat.

    Of a stretch that is a large part of the whole, the iterations in the middle are left out of the search. No loop around it is
    missed: the sequence has no room for its other iterations.
    """
    kept = np.ones(len(entries), bool)
    found = set()
    for stretch in _long_stretches(entries, least) if len(entries) > _LONG else ():
        found.add(stretch.period)
        ends = _LEFT * stretch.period
        spare = (stretch.stop - stretch.start - 2 * ends) // stretch.period * stretch.period
        kept[stretch.start + ends : stretch.start + ends + max(spare, 0)] = False
    return sorted(found.union(_periods(entries[kept] if found else entries, least)))


def _long_stretches(entries: Entries, least: int) -> list[Stretch]:
    """Stretches that are more than a fifth of the whole, found from samples at ten positions."""
    part = len(entries) // 10
    found: list[Stretch] = []
    for at in range(part // 2, len(entries), part):
        piece = entries[at : at + min(part, _PIECE)]
        if any(stretch.start <= at < stretch.stop for stretch in found):
            continue
        period = next((p for p in _periods(piece, least) if np.array_equal(piece[p:], piece[:-p])), None)
        if period is not None:
            found += [s for s in stretches(entries, period, least) if s.start <= at < s.stop and s.stop - s.start > 2 * part]
    return found


def _periods(entries: Entries, least: int) -> list[int]:
    """Periods, found as distances between equal windows whose sizes are the powers of two.

    A window of the size of an iteration occurs again after one period, and not before, unless a shorter period fits as well.
    Windows of twice the size are ranked from pairs of ranks, as in the construction of a suffix array by prefix doubling.
    """
    found: dict[int, int] = {}
    words, width = entries, 1
    while len(words) > 1:
        order = np.argsort(words, kind="stable")
        sorted_words = words[order]
        again = sorted_words[1:] == sorted_words[:-1]
        counts = np.bincount((order[1:] - order[:-1])[again], minlength=1)
        for p in np.flatnonzero(counts > (least - 4) * np.arange(len(counts))).tolist():
            found[p] = max(found.get(p, 0), int(counts[p]))
        if not again.any() or width * least > len(entries):
            break  # longer windows do not occur often enough
        ranks = np.empty(len(words), np.int64)
        ranks[order] = np.concatenate([[0], np.cumsum(~again)])
        words = ranks[:-width] * (len(words) + 1) + ranks[width:]
        width *= 2
    best = sorted(found, key=lambda p: -found[p])[:_MOST_PERIODS]
    return sorted(best)


def stretches(entries: Entries, period: int, least: int) -> list[Stretch]:
    """The maximal stretches of a period with at least so many iterations."""
    differs = np.flatnonzero(entries[period:] != entries[:-period])
    edges = np.concatenate([[-1], differs, [len(entries) - period]])
    long = np.flatnonzero(np.diff(edges) > (least - 1) * period)
    return [Stretch(int(edges[i]) + 1, int(edges[i + 1]) + period, period) for i in long]


def disjoint(entries: Entries, weights: Entries, least: int, worth: int, narrow: Narrow) -> list[Stretch]:
    """Stretches of at least `least` iterations that do not overlap, those of short periods first.

    The repetitions in each weigh at least `worth`. `narrow` gives the parts of a stretch that may be used; parts of these may be
    used as well.
    """
    if entries.max(initial=0) < 1 << 16:
        entries = entries.astype(np.uint16)  # faster to compare and to sort
    taken = np.zeros(len(entries), bool)
    total = np.concatenate([[0], np.cumsum(weights)])
    heap: list[tuple[int, int, Stretch, bool]] = []

    def offer(stretch: Stretch, usable: bool) -> None:
        if stretch.iterations >= least:
            saving = int(total[stretch.stop] - total[stretch.start + stretch.period])
            if saving >= worth:
                heapq.heappush(heap, (stretch.period, -saving, stretch, usable))

    for period in periods(entries, least):
        for stretch in stretches(entries, period, least):
            offer(stretch, False)
    chosen = []
    while heap:
        *_, stretch, usable = heapq.heappop(heap)
        if taken[stretch.start : stretch.stop].any():
            for start, stop in runs(~taken[stretch.start : stretch.stop]):
                offer(Stretch(stretch.start + start, stretch.start + stop, stretch.period), usable)
        elif usable:
            taken[stretch.start : stretch.stop] = True
            chosen.append(stretch)
        else:
            parts = list(narrow(stretch))
            for part in parts:
                offer(part, True)
            if all(part.iterations < least for part in parts):
                # Iterations that alternate, between two matrices say, are alike two by two.
                offer(stretch._replace(period=2 * stretch.period), False)
    return sorted(chosen)


def runs(flags: Any) -> list[tuple[int, int]]:
    """Where runs of true flags begin and end."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(np.int8)))
    return [(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True)]
