"""Repeated structure: the layers of a network, the iterations of a recorded loop.

A run is a range of equations in which the same sequence of ops, with the same types, repeats three times or more. It is shown as
one box; opened, it shows one box per repetition, and these open too.

>>> [(run.start, run.period, run.times) for run in runs("a b c b c b c b c d".split())]
[(1, 2, 4)]
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np

LEAST_TIMES = 3
LEAST_LENGTH = 6  # equations in all; shorter runs are not folded
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
    """The disjoint runs in a sequence, in order: the longest runs, of the shortest period, are preferred."""
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
