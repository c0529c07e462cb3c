"""The operands of a candidate loop as a table: a row for each iteration, a column for each operand of the body.

    v2 = sin x;  v3 = mul v2, w;  v4 = sin v3;  v5 = mul v4, w;  …        x and w are the values 0 and 1

                   sin reads     mul reads
    iteration 0        0          2    1
    iteration 1        3          4    1
    iteration 2        5          6    1
    kind           COMPUTED   COMPUTED INVARIANT         as in the middle of the loop
    offset, lag       1, 1       0, 0

The kind of a column is found from two iterations in the middle, since the first and last ones may differ. `fits` tells in which
iterations the column is what its kind says: here in all but for the first operand of iteration 0, where the carry starts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Any

import numpy as np

from .repeats import runs
from .roles import Numbers, RowSource

Mask = np.ndarray[Any, np.dtype[np.bool_]]
MOST_LAG = 4  # iterations over which a value may be carried


class OperandKind(IntEnum):
    """What an operand of the body is in every iteration."""

    UNKNOWN = 0  # nothing that a scan can express
    COMPUTED = 1  # computed by the loop: value `offset` of the iteration `lag` before, or of the same one (lag 0)
    INVARIANT = 2  # one value from before the loop
    CONSTANT = 3  # a constant, which may differ from iteration to iteration
    ROW = 4  # a row of `source`: an array, or a value of an earlier loop, one for each of its iterations


class Operands:
    """The table; `kind`, `offset`, `lag` and `source` have an entry for each column."""

    def __init__(self, table: Numbers, first_value: int, stride: int, row_source: Numbers) -> None:
        self.table = table
        self.first_values = first_value + stride * np.arange(len(table))  # number of the first value of each iteration
        middle = len(table) // 2
        before, now = table[middle - 1], table[middle]
        relative = table - self.first_values[:, None]
        sources = np.where(table >= 0, row_source[np.maximum(table, 0)], -1)
        distance, self.source = relative[middle], sources[middle]
        self.lag, self.offset = -(distance // stride), distance % stride
        is_kind = {
            OperandKind.CONSTANT: now < 0,
            OperandKind.INVARIANT: now == before,
            OperandKind.COMPUTED: (now - before == stride) & (self.lag >= 0) & (self.lag <= MOST_LAG),
            OperandKind.ROW: self.source >= 0,
        }
        self.kind = np.select(list(is_kind.values()), list(is_kind), OperandKind.UNKNOWN)
        self.carried: Mask = (self.kind == OperandKind.COMPUTED) & (self.lag > 0)
        fits_kind: dict[OperandKind, Callable[[Numbers], Mask]] = {  # of some columns
            OperandKind.CONSTANT: lambda c: table[:, c] < 0,
            OperandKind.INVARIANT: lambda c: table[:, c] == now[c],
            OperandKind.COMPUTED: lambda c: (relative[:, c] == distance[c]) & (table[:, c] >= 0),
            OperandKind.ROW: lambda c: sources[:, c] == self.source[c],
        }
        self.fits: Mask = np.zeros(table.shape, bool)
        for kind, fits in fits_kind.items():
            columns = np.flatnonzero(self.kind == kind)
            self.fits[:, columns] = fits(columns)

    def longest_fit(self) -> tuple[int, int]:
        """The longest run of iterations that fit, with one more in front where only the carries start there."""
        low, high = max(runs(np.all(self.fits, axis=1)), key=lambda run: run[1] - run[0], default=(0, 0))
        if low > 0 and (self.fits[low - 1] | self.carried).all() and self._can_be_first(low - 1):
            low -= 1
        return low, high

    def misfit(self) -> tuple[int, int]:
        """An iteration that does not fit, best one behind the middle, and its first column that does not."""
        bad = np.flatnonzero(~self.fits.all(axis=1))
        late = bad[bad >= len(self.table) // 2]
        t = int(late[0] if len(late) else bad[-1])
        return t, int(np.flatnonzero(~self.fits[t])[0])

    def _can_be_first(self, t: int) -> bool:
        """Whether all that an iteration does not compute itself comes from before it."""
        row, first = self.table[t], self.first_values[t]
        carried, invariant = row[self.carried], row[self.kind == OperandKind.INVARIANT]
        return bool(((carried >= 0) & (carried < first)).all() and (invariant < first).all())

    def feeds_all(self, t: int, arrays: Mapping[int, RowSource]) -> bool:
        """Whether an iteration computes an invariant, or an array with rows, of the others, so that it is not one of them."""
        invariant = self.table[t, self.kind == OperandKind.INVARIANT]
        rows = [arrays[s].array for s in self.source[self.kind == OperandKind.ROW].tolist() if s in arrays]
        return any(n >= self.first_values[t] for n in [*invariant, *rows])

    def initial(self, low: int, high: int) -> dict[tuple[int, int], int] | None:
        """By (offset, lag), the values from before iteration `low` that are read as carries; None if two operands disagree."""
        table = self.table[low:high]
        found: dict[tuple[int, int], int] = {}
        for c in np.flatnonzero(self.carried).tolist():
            offset, lag = int(self.offset[c]), int(self.lag[c])
            for t in range(lag):
                number = int(table[t, c])
                if found.setdefault((offset, lag - t), number) != number:
                    return None
        return found
