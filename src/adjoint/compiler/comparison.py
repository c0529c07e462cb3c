"""A function compared with its compiled programs: by result, if it calls `type`; by time, if it has too many programs.

`type(x)` of a tracer is not that of the value, so a function that calls `type` also runs eagerly, once for each program, and
their results must agree: for these arguments, and for numbers close to them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..core.bind import Trace
from ..core.errors import ConversionError
from ..core.tree import map_leaves
from ..numpy.layout import own
from ..staging.type_queries import agree, nearby, same_objects
from .arguments import HOST, Arguments, own_on_host
from .specialization import Specialization

_MUCH_LONGER = 4  # times: some calls are taken by one of the programs
_COMPARED_CALLS = 8  # that compare the time of the function with that of trying its programs: the first ones may be slow


class Difference(NamedTuple):
    """The result of a function whose program gives another one, and why it is not compiled; None if only this call differs."""

    result: Any
    why: str | None


@dataclass(frozen=True)
class TypeCheck:
    """Compares a function that calls `type` with its programs."""

    line: str  # on which it calls `type`
    arguments: Arguments
    eagerly: Callable[[Any, Any], Any]  # the function itself
    attempt: Callable[[Specialization, list[Any], Any, Any], Any]  # a program
    by_order: bool  # arguments that are not in C order are opened as they are

    def difference(self, specialization: Specialization, leaves: list[Any], args: Any, kwargs: Any) -> Difference | None:
        """How a program differs from the function in this call or for numbers close to its arguments."""
        before = Trace("jit").level
        copies = [x.copy() if hasattr(x, "copy") else x for x in leaves]  # a program may write over donated arguments
        result, found = self.eagerly(args, kwargs), self.attempt(specialization, copies, args, kwargs)
        if found is specialization.missed:
            if specialization.outside()[1] is not None:  # what it reads outside has changed meanwhile: it is staged again
                return Difference(result, None)
            asked = f"so that its result, which may depend on type() ({self.line}), cannot be compared"
            return Difference(result, f"by rounding, a value is on the other side of a threshold in machine code, {asked}")
        ours, expected = map_leaves(own_on_host, found), map_leaves(own_on_host, result)
        is_same = agree(ours, expected, lambda: _values(specialization, leaves))
        if is_same and not self._differs_nearby(specialization, args, kwargs):
            return None
        if Trace("jit").level > before + 1:  # a transform inside the function has passed its tracers to `type`
            raise ConversionError(
                f"type() of a traced value gives the class of the tracer ({self.line}); write isinstance(x, …), "
                "or x.__class__ for type(x)"
            )
        return Difference(result, f"type() is asked for a value, and looks past what it stands for ({self.line})")

    def _differs_nearby(self, specialization: Specialization, args: Any, kwargs: Any) -> bool:
        """Whether a program gives other results than the function for numbers close to the arguments, on the same path."""
        given = self.arguments.given(args, kwargs)[0]
        if not all(isinstance(x, HOST) for x in given):
            return False
        numbers = [nearby(x, i) for i, x in enumerate(given)]
        moved = self.arguments.replaced(args, kwargs, [numbers[i] for i in same_objects(given)])
        try:
            result = self.eagerly(*moved)
        except Exception:  # the function is not defined there
            return False
        leaves = self.arguments.open(*moved, self.by_order)[0]
        found = self.attempt(specialization, [own(x) for x in leaves], *moved)
        return found is not specialization.missed and not agree(found, result, lambda: _values(specialization, leaves))


def _values(specialization: Specialization, leaves: Sequence[Any]) -> Iterable[Any]:
    """The values of all equations of a program."""
    given = [own_on_host(x) for x in [*leaves, *specialization.outside()[0]]]
    values: Iterable[Any] = specialization.staged.evaluate(given, keep=True).values()
    return values


def time_of_tries(known: Sequence[Specialization], leaves: Sequence[Any]) -> float:
    """The seconds that a call loses by trying all these programs."""
    began = time.perf_counter()
    for specialization in known:
        specialization.run([*leaves, *specialization.outside()[0]])
    return time.perf_counter() - began


class Tries:
    """How long it takes to try all programs of a signature, which a call does that none of them takes."""

    def __init__(self, known: Sequence[Specialization], leaves: Sequence[Any]) -> None:
        self.seconds = time_of_tries(known, leaves)
        self.calls = 0  # that were compared

    def is_waste(self, seconds: float) -> bool:
        """Whether trying took much longer than the function did in this call."""
        self.calls += 1
        return _MUCH_LONGER * seconds < self.seconds

    @property
    def has_enough_calls(self) -> bool:
        """Whether enough calls have been compared."""
        return self.calls == _COMPARED_CALLS
