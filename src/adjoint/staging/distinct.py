"""Outside objects that are distinct when a function is staged, and must stay distinct.

    if config.mode is FAST: …         modes[config.mode]         config.mode == FAST

An object that a program reads need not stay the same one: another of its class has the same program, and its attributes are
checked. But these three decide by identity, as the default `==` and hash of a class do. So two places that hold one object must
hold one object at each call (`Check.SAME`), and two places that hold two objects of one class must hold two (`Check.OTHER`).
Lists, dicts and arrays are compared by their contents; which of them are one object matters only to code that compares by `is`.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from ..core.places import Check, Load, values_at
from .uncopied import At

if TYPE_CHECKING:
    from .reads import Reads

_MOST_PAIRS = 1000  # of one class, each a nanosecond or two of a call; beyond that the objects must stay the same


def note_distinct(reads: Reads, compares_identity: bool) -> None:
    """Add the checks to the places of a function; the last ones, since each names two earlier places."""
    found: dict[type, dict[int, int]] = {}  # by class: the first place of each object, by its id
    values, _ = values_at(reads.places)
    for number, value in enumerate(values):
        check = reads.places[number].check
        if check in (Check.TYPE, Check.IS) or (compares_identity and check in (Check.INPUT, Check.LENGTH)):
            found.setdefault(type(value), {}).setdefault(id(value), number)
    for places in found.values():
        _note(reads, values, list(places.values()))


def _note(reads: Reads, values: list[Any], numbers: list[int]) -> None:
    free = [n for n in numbers if reads.places[n].check is not Check.IS]
    if len(free) * len(numbers) <= 2 * _MOST_PAIRS:
        for i, j in itertools.combinations(numbers, 2):
            if i in free or j in free:
                reads.note(_at(reads, j), Check.OTHER, i)
    else:
        for n in free:
            reads.note(_at(reads, n), Check.IS, values[n])


def _at(reads: Reads, number: int) -> At:
    """The value of an earlier place."""
    return At(Load.FIXED, number, None, reads.places[number].name, True)
