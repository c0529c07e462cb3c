"""A function that catches an error of ours inside a transform, and continues.

    def f(x):
        try:
            return float(x) ** 2     # refused inside grad: the derivative would be lost
        except TypeError:
            return 0.0               # never reached on plain numbers

Its result counts if the function gives the same on plain numbers. Otherwise the transform raises the error. Two formulas with
different derivatives may agree at a single point, as `x * x` and `x` do at 1, so derivatives are compared next to it too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core import handled as handled  # which watches for errors of other code
from ..core.bind import Traced
from ..core.errors import UnsupportedError, refused
from ..core.tree import final, flatten, map_leaves
from ..eager.tape import Tape
from ..staging.type_queries import agree, nearby
from .arguments import name_of

Function = Callable[..., Any]
_ROUNDING = 1e-12  # both runs make the same calls of NumPy; what differs is `math.sin` and `np.sin`, say


class Caught:
    """Watches one run of a function inside a transform."""

    def __init__(self, f: Function, transform: str) -> None:
        self.f, self.transform = f, transform
        self.before = refused.get()

    def refuse(self) -> None:
        """Raise the error that the function has caught, if there is one: it is staged, perhaps for other numbers."""
        if refused.get() is not self.before:
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
        if refused.get() is self.before or any(isinstance(x, Traced) for x in inputs):
            return
        error = self.error()
        try:
            expected = plain()
        except Exception as other:
            raise error from other
        result = found()
        if any(isinstance(y, Traced) for y in (*flatten(result)[0], *flatten(expected)[0])):
            return
        if not agree(result, expected, lambda: inputs, _ROUNDING):
            raise error
        if called is not None:
            self._compare_nearby(inputs, called, error)
        refused.set(self.before)

    def _compare_nearby(self, inputs: Sequence[Any], called: Callable[[Sequence[Any]], Any], error: UnsupportedError) -> None:
        near = [nearby(x, i) for i, x in enumerate(inputs)]
        try:
            with np.errstate(all="ignore"), Tape(self.transform) as tape:
                result = map_leaves(tape.leave, final(called([tape.leaf(x) for x in near])))
            expected = called(near)
        except Exception as other:
            raise error from other
        if not agree(result, expected, lambda: near, _ROUNDING):
            raise error

    def error(self) -> UnsupportedError:
        return UnsupportedError(
            f"{name_of(self.f)} catches an error that it meets only inside {self.transform}, and continues: {refused.get()}", ""
        )
