"""A loop that was found in a flat graph: which equations its iterations are, and the role of each operand of the body.

v2 = sin x;  v3 = mul v2, w;  v4 = sin v3;  v5 = mul v4, w;  …        body: sin, mul; two values per iteration

sin reads   Carried(offset=1, lag=1)      the value 1 (mul) of the iteration before; the first iteration reads x
mul reads   Local(offset=0), Invariant(w)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np

from ...ir.graph import Operand

Numbers = np.ndarray[Any, np.dtype[np.int64]]


class RefusedError(Exception):
    """Why a stretch of equations is not a loop."""


class RowSource(NamedTuple):
    """The rows of an array, one for each integer at one entry of an index."""

    array: int
    spec: tuple[Any, ...]
    entry: int


@dataclass(frozen=True, slots=True)
class Local:
    """A result of the same iteration."""

    offset: int  # of the value among those of an iteration


@dataclass(frozen=True, slots=True)
class Carried:
    """A result of an earlier iteration."""

    offset: int
    lag: int  # iterations since


@dataclass(frozen=True, slots=True)
class Invariant:
    """The same value from before the loop, or the same constant, in every iteration."""

    operand: Operand


@dataclass(frozen=True, slots=True)
class Constants:
    """A constant for each iteration."""

    values: np.ndarray[Any, Any] = field(compare=False)  # stacked
    key: Any  # equal for equal values


@dataclass(frozen=True, slots=True)
class Row:
    """A row of an array for each iteration."""

    source: int
    indices: tuple[int, ...]


Role = Local | Carried | Invariant | Constants | Row


class Update(StrEnum):
    """What an iteration does to an accumulator."""

    ADD = "add"  # adds rows that are zero elsewhere
    PUT = "put"  # overwrites rows


@dataclass
class Accumulator:
    """A carried array to which each iteration adds, or writes, rows of its own, and that no iteration reads."""

    offset: int  # of the carried value
    update: Update | None = None
    parts: list[tuple[int, int]] = field(default_factory=list)  # (equation, operand with the rows), in the order of the body
    equations: set[int] = field(default_factory=set)  # of the body: they become one write of stacked rows after the loop


@dataclass
class Loop:
    """`iterations` times `period` equations from `start` on.

    Value `offset` of iteration t has the number first_value + t * stride + offset.
    """

    start: int
    period: int
    iterations: int
    first_value: int
    stride: int
    roles: list[list[Role]] = field(default_factory=list)  # by equation of the body
    initial: dict[tuple[int, int], int] = field(default_factory=dict)  # (offset, lag): number of the value before the loop
    indices: dict[int, Numbers] = field(default_factory=dict)  # by equation: the integers of its index, if they vary
    accumulators: list[Accumulator] = field(default_factory=list)
    live_out: dict[int, int] = field(default_factory=dict)  # by offset: the first iteration whose value is read after the loop
    source: int = -1  # of the rows that the values are for later loops; value `offset` is source + offset

    @property
    def stop(self) -> int:
        return self.start + self.period * self.iterations

    def lags(self) -> dict[int, int]:
        """For each value that is carried, over how many iterations at most."""
        found: dict[int, int] = {}
        for offset, lag in self.initial:
            found[offset] = max(found.get(offset, 0), lag)
        return found

    def accumulated(self) -> set[int]:
        """The equations of all accumulators, which the body of the scan does not have."""
        return {i for accumulator in self.accumulators for i in accumulator.equations}
