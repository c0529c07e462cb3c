"""Functions that notice that their values are traced, and continue: is the result still that of plain numbers?

    def f(x):                        |    def f(x):
        try:                         |        if type(x) is float:     # False: the class of the tracer
            return float(x) ** 2     |            return x**2
        except TypeError:            |        return 0.0
            return 0.0               |

It may catch an error of ours, or decide by `type(x)`, or count the elements of `set(x)`, of which equal ones are distinct. Its
result counts if the function gives the same on plain numbers. Otherwise the transform raises an error. Two formulas with
different derivatives may agree at a single point, as `x * x` and `x` do at 1, so derivatives are compared next to it too.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core import handled as handled  # which watches for errors of other code
from ..core.bind import Traced, is_staged, numbers
from ..core.errors import AdjointError, ConversionError, UnsupportedError, refused, told_apart
from ..core.tree import final, flatten, map_leaves
from ..eager.tape import Tape
from ..staging.purity import Draws
from ..staging.type_decisions import line_of_decision
from ..staging.type_queries import agree, nearby
from .arguments import callee, name_of

Function = Callable[..., Any]
_FAILED: Any = object()
_ROUNDING = 1e-12  # both runs make the same calls of NumPy; what differs is `math.sin` and `np.sin`, say


class Caught:
    """Watches one run of a function inside a transform."""

    def __init__(self, f: Function, transform: str) -> None:
        self.f, self.transform = f, transform
        self.before, self.apart = refused.get(), told_apart.get()
        self.decision = line_of_decision(f, callee)
        self.draws = None if self.decision is None else Draws(f)

    @property
    def has_caught(self) -> bool:
        return refused.get() is not self.before

    @property
    def has_keys(self) -> bool:
        return told_apart.get() is not self.apart

    def refuse(self) -> None:
        """Raise the error that the function has caught, if there is one: it is staged, perhaps for other numbers."""
        if self.has_caught or self.has_keys:
            raise self.error()

    def compare(
        self,
        inputs: Sequence[Any],
        found: Callable[[], Any],
        plain: Callable[[], Any],
        called: Callable[[Sequence[Any]], Any] | None = None,
    ) -> None:
        """Raise it if the function gives another result on plain numbers, at the inputs or, `called` with others, next to them.

        Where a value is traced by a transform outside as well, that one compares.
        """
        if not (self.has_caught or self.decision or self.has_keys) or any(isinstance(x, Traced) for x in inputs):
            return
        error = self.error()
        try:
            with self._same_draws():
                expected = plain()
        except Exception as other:
            raise error from other
        result = found()
        if any(isinstance(y, Traced) for y in (*flatten(result)[0], *flatten(expected)[0])):
            if self.has_caught or any(map(is_staged, (*flatten(result)[0], *flatten(expected)[0]))):
                return
            result, expected = map_leaves(numbers, (result, expected))
        if not agree(result, expected, lambda: inputs, _ROUNDING):
            raise error
        if called is not None:
            self._compare_nearby(inputs, called, error)
        refused.set(self.before)
        told_apart.set(self.apart)

    def _compare_nearby(self, inputs: Sequence[Any], called: Callable[[Sequence[Any]], Any], error: AdjointError) -> None:
        near = [nearby(x, i) for i, x in enumerate(inputs)]
        result = self._attempt(lambda: self._traced(near, called), error)
        expected = self._attempt(lambda: called(near), error)
        if result is _FAILED and expected is _FAILED:
            return
        if result is _FAILED or expected is _FAILED:
            raise error
        if not agree(map_leaves(numbers, result), map_leaves(numbers, expected), lambda: near, _ROUNDING):
            raise error

    def _traced(self, inputs: Sequence[Any], called: Callable[[Sequence[Any]], Any]) -> Any:
        with np.errstate(all="ignore"), Tape(self.transform) as tape:
            return map_leaves(tape.leave, final(called([tape.leaf(x) for x in inputs])))

    def _attempt(self, run: Callable[[], Any], error: AdjointError) -> Any:
        """The result of a function next to the inputs, where it may not be defined."""
        try:
            with self._same_draws():
                return run()
        except Exception as other:
            if self.has_caught:
                raise error from other
            return _FAILED

    def _same_draws(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext() if self.draws is None else self.draws.repeated()

    def error(self) -> AdjointError:
        if self.has_caught:
            return UnsupportedError(
                f"{name_of(self.f)} catches an error that it meets only inside {self.transform}, and continues: {refused.get()}",
                "",
            )
        keys = told_apart.get()
        if keys is not None and self.has_keys:
            return ConversionError(
                f"{name_of(self.f)} gives another result inside {self.transform}, where equal traced numbers are distinct keys "
                f"of a dict or a set, since each has its own derivative ({keys[0]}); use ad.stop_gradient(x) as the key",
                "",
            )
        return ConversionError(
            f"{name_of(self.f)} gives another result inside {self.transform}, where type() of a traced value gives the class of "
            f"the tracer ({self.decision}); write isinstance(x, …), or x.__class__ for type(x)",
            "",
        )
