"""The table of a program on a device: the address of each buffer, by its slot. An action reads it and does one step."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence

Table = list[int]
Action = Callable[[Table], None]


def picker(slots: Sequence[int]) -> Callable[[Table], Sequence[int]]:
    """A function that reads some slots of a table."""
    if len(slots) == 1:
        (slot,) = slots
        return lambda table: (table[slot],)
    return operator.itemgetter(*slots)


def fill(table: Table, slots: Sequence[int], addresses: Sequence[int]) -> None:
    for slot, address in zip(slots, addresses, strict=True):
        table[slot] = address
