"""Repeated structure: the layers of a network, the steps of a loop that was recorded while it ran.

A run is a stretch of equations in which the same sequence of ops, with the same types, comes three times or more. It can be
shown as one box; opened, it shows one box for each repetition, and these open in turn.

>>> [(run.start, run.period, run.times) for run in runs("a b c b c b c b c d".split())]
[(1, 2, 4)]
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np

LEAST_TIMES = 3
LEAST_LENGTH = 6  # equations in all: less needs no folding
LONGEST_PERIOD = 1000


class Run(NamedTuple):
    """`times` repetitions of `period` items, from `start` on."""

    start: int
    period: int
    times: int

    @property
    def stop(self) -> int:
        return self.start + self.period * self.times


def runs(items: Sequence[Hashable]) -> list[Run]:
    """The runs in a sequence, in order and apart from each other: those that cover most, of the shortest period, first."""
    numbers: dict[Hashable, int] = {}
    codes = np.array([numbers.setdefault(item, len(numbers)) for item in items], dtype=np.int64)
    found: list[Run] = []
    for period in range(1, min(len(codes) // LEAST_TIMES, LONGEST_PERIOD) + 1):
        equal = np.concatenate(([False], codes[period:] == codes[:-period], [False]))
        edges = np.flatnonzero(equal[1:] != equal[:-1])
        for start, stop in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
            times = (stop - start) // period + 1
            if times >= LEAST_TIMES and times * period >= LEAST_LENGTH:
                found.append(Run(start, period, times))
    found.sort(key=lambda run: (run.start - run.stop, run.period, run.start))
    taken = np.zeros(len(codes), dtype=bool)
    kept = []
    for run in found:
        if not taken[run.start : run.stop].any():
            taken[run.start : run.stop] = True
            kept.append(run)
    return sorted(kept)
