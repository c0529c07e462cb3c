"""Guards: a question that Python asks about a value, and the answer in this call.

    if x > 0: …        Guard(number of x > 0, Asked.TRUTH, True, "the truth of", "model.py:12")

A program checks `same_answer` for each of its guards. A guard compares only the part of the value that the answer depends on:
int(x) needs the integer part of x, an `if` needs to know whether it is zero.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, NamedTuple

import numpy as np

from ..core.types import Type, Value
from ..ops.elementwise import equal, isnan, logical_and, logical_or, not_equal, trunc
from ..ops.reduce import all_


class Asked(Enum):
    """How much of a value an answer depends on."""

    TRUTH = "whether it is zero"
    WHOLE = "its integer part"
    ALL = "every bit"
    TYPE = "nothing but its type"


IN_MEMORY = "the order in memory of"
ARITHMETIC = "no integer overflows and no division raises"  # the conditions on Python's numbers, in one guard
#: The part of a value that each question asks for; any other question asks for all of it.
PARTS = {
    "the truth of": Asked.TRUTH,
    "int() of": Asked.WHOLE,
    IN_MEMORY: Asked.TYPE,  # that of arrays in C order, as programs take them
    "the printed number of": Asked.TYPE,  # nothing comes back from where it is printed
}


class Guard(NamedTuple):
    """A question about a value, and its answer."""

    number: int  # of the value
    of: Asked
    answer: Any
    what: str
    line: str

    def __str__(self) -> str:
        asked = self.what if self.what == ARITHMETIC else f"{self.what} a value was {self.answer!r}"
        return f"guard: {asked} ({self.line})"


def same_answer(x: Value, type_: Type, guard: Guard) -> Value:
    """Whether a value has the answer of a guard."""
    kind, answer = type_.dtype.kind, np.asarray(guard.answer)
    if guard.of is Asked.TRUTH:
        same = (not_equal if guard.answer else equal)(x, np.zeros((), type_.dtype))
    else:
        x = trunc(x) if guard.of is Asked.WHOLE and kind == "f" else x
        same = equal(x, answer)
        if kind in "fc" and np.any(np.isnan(answer)):
            same = logical_or(same, logical_and(isnan(x), np.isnan(answer)))
    return all_(same, axis=tuple(range(type_.ndim)), keepdims=False) if type_.shape else same
