"""Staging for a compiler: the path that a call takes is written down, with what it depends on.

Python code that asks for a number (an `if`, an index, a number of turns) gets that of this call, and the question is kept as a
guard: the program is right for all calls that give the same answers.

    if x > 0: …        a guard on the value of x > 0, which was True
"""

from __future__ import annotations

from enum import Enum
from typing import Any, NamedTuple

import numpy as np

from ..core.bind import Traced, bind
from ..core.errors import user_line
from ..core.op import Op
from ..core.types import Type, Value
from .stage import Stage


class Asked(Enum):
    """How much of a value an answer depends on."""

    TRUTH = "whether it is zero"
    WHOLE = "its whole part"
    ALL = "every bit"
    TYPE = "nothing but its type"


_PARTS = {
    "the truth of": Asked.TRUTH,
    "int() of": Asked.WHOLE,
    "the order in memory of": Asked.TYPE,
    "the printed number of": Asked.TYPE,  # nothing comes back from where it is printed
}


class Guard(NamedTuple):
    """A question that was asked of a value, and its answer."""

    number: int  # of the value
    of: Asked
    answer: Any
    what: str
    line: str


class Guarded(Stage):
    """One recording. `value` is the number of this call, which nobody sees without asking; `aux` as in `Stage`."""

    __slots__ = ("guards",)

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.guards: dict[tuple[int, Asked], Guard] = {}

    def input_like(self, name: str, value: Value) -> Traced:
        x = self.input(name, Type.of(value))
        x.value = value
        return x

    def inner(self, name: str) -> Stage:
        return Stage(name)  # the body of a loop is right for every turn: it may not ask

    def process(self, op: Op, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        inputs = tuple([self.operand(a) for a in args])
        numbers = [a.value if isinstance(a, Traced) else a for a in args]
        return self.note_values(op, inputs, params, bind(op, *numbers, **params))

    def concrete(self, x: Traced, what: str) -> Any:
        number, of = x.aux[0], _PARTS.get(what, Asked.ALL)
        if of is not Asked.TYPE and (number, of) not in self.guards:
            answer = x.value.copy() if isinstance(x.value, np.ndarray) else x.value
            if of is Asked.TRUTH:
                answer = bool(answer)
            elif of is Asked.WHOLE and x.aux[1].dtype.kind == "f":
                answer = np.trunc(answer)
            self.guards[number, of] = Guard(number, of, answer, what, user_line())
        return x.value
