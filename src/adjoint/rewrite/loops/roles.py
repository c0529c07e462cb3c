"""What the operands of a turn are, and a loop as its turns.

inside     the result of an equation of the same turn
carried    that of an equation of an earlier turn, the first turns read something from before
fixed      the same value, from before the loop, in every turn
varying    constants, one for each turn
rows       values that are rows of an array, one for each turn
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ...ir.graph import Operand

Numbers = np.ndarray[Any, np.dtype[np.int64]]


class RefusedError(Exception):
    """Why a stretch of equations is not a loop."""


class Rows(NamedTuple):
    """The rows that a varying index reads of an array: one per turn. `place` is that of the index in the spec."""

    array: int
    spec: tuple[Any, ...]
    place: int


@dataclass(frozen=True, slots=True)
class Inside:
    offset: int  # of the value among those of a turn


@dataclass(frozen=True, slots=True)
class Carried:
    offset: int
    lag: int


@dataclass(frozen=True, slots=True)
class Fixed:
    operand: Operand


@dataclass(frozen=True, slots=True, eq=False)
class Varying:
    values: np.ndarray[Any, Any]  # stacked


@dataclass(frozen=True, slots=True)
class RowOf:
    source: int
    indices: tuple[int, ...]


Role = Inside | Carried | Fixed | Varying | RowOf


@dataclass
class Grown:
    """An array to which each turn adds, or writes, rows of its own, and that no turn reads: `kind` is add or put."""

    offset: int  # of the value that is carried
    kind: str
    parts: list[tuple[int, int]]  # (equation that adds or writes, operand with the value) in the order of the turn
    equations: set[int]


@dataclass
class Turns:
    """A loop: `count` turns of `period` equations from `start` on, with the role of each operand of a turn."""

    start: int
    period: int
    count: int
    first: int  # number of the first value
    values: int  # in a turn
    roles: list[list[Role]] = field(default_factory=list)  # by equation of the turn
    initial: dict[tuple[int, int], int] = field(default_factory=dict)  # (offset, lag): number of the value before the first turn
    indices: dict[int, Numbers] = field(default_factory=dict)  # by equation: the integers of its index, for those that vary
    grown: list[Grown] = field(default_factory=list)
    outside: dict[int, int] = field(default_factory=dict)  # by offset: the first turn whose value is read outside
    source: int = -1  # of the rows that its values are

    @property
    def stop(self) -> int:
        return self.start + self.period * self.count

    def lags(self) -> dict[int, int]:
        """For each value that is carried, by how many turns at most."""
        found: dict[int, int] = {}
        for offset, lag in self.initial:
            found[offset] = max(found.get(offset, 0), lag)
        return found
