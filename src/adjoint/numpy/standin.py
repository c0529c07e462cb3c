"""Attributes of arrays that a traced value has only where it stands for one: `hasattr(x, "shape")` is False of a number.

Our own modules find them on every traced value.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any

from ..core.bind import Traced, class_of, is_ours
from .caller import call_of

_PYTHON = frozenset({bool, int, float, complex})


def of_arrays(name: str, getter: Callable[[Any], Any]) -> property:
    """An attribute of NumPy's values, which a Python number does not have."""

    def get(self: Traced) -> Any:
        if not is_ours(sys._getframe(1)) and class_of(self) in _PYTHON:
            raise _missing(self, name)
        return getter(self)

    return property(get)


class OfArrays:
    """A special method of arrays. Python itself calls it on any value, and gets its TypeError; `hasattr` finds it on arrays."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self.name, self.function = name, function

    def __get__(self, x: Traced | None, owner: Any = None) -> Any:
        if x is None:
            return self.function
        if not x.shape and not hasattr(class_of(x), self.name):  # type: ignore[attr-defined]
            frame = sys._getframe(1)
            is_sought = not is_ours(frame) and call_of(frame).function in (hasattr, getattr)
            if is_sought:
                raise _missing(x, self.name)
        return types.MethodType(self.function, x)


def _missing(x: Traced, name: str) -> AttributeError:
    return AttributeError(f"{class_of(x).__name__!r} object has no attribute {name!r}")
