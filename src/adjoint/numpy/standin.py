"""Attributes that a traced value has only if the underlying value has them: `hasattr(x, "shape")` is False for a number.

Our own modules find them on every traced value.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.bind import Traced, class_of, is_ours
from ..core.errors import is_plumbing, note_refusal, user_line
from ..core.types import shape_of
from ..eager.batch import Batch
from .caller import call_of

_TYPES = shape_of.__globals__  # of the module that asks most often


def of_arrays(name: str, getter: Callable[[Any], Any]) -> property:
    """An attribute of NumPy's values, which a Python number does not have."""

    def get(self: Traced) -> Any:
        if type(self.underlying) is not np.ndarray:
            asks = sys._getframe(1)
            if asks.f_globals is not _TYPES and not is_ours(asks) and not hasattr(class_of(self), name):
                raise missing(self, name)
        return getter(self)

    return property(get)


class Sought:
    """A method that `hasattr` and `getattr` find where the class of the value behind has it.

    Other code finds it always: a special method has to say itself what is wrong, and `x.sum()` of a number does no harm.
    """

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self.name, self.function = name, function
        self.of_arrays = hasattr(np.ndarray, name)

    def __get__(self, x: Traced | None, owner: Any = None) -> Any:
        if x is None:
            return self.function
        is_array = type(x.underlying) is np.ndarray and type(x.by) is not Batch  # which holds numbers as arrays
        is_found = self.of_arrays if is_array else hasattr(class_of(x), self.name)
        if not is_found and is_sought(sys._getframe(1)):
            raise missing(x, self.name)
        return types.MethodType(self.function, x)


def lacking(name: str, error: Callable[[Traced], AttributeError] | None = None) -> property:
    """An attribute of the value behind that no traced value has, such as the address of its memory.

    Where user code continues without it, after `hasattr` or `getattr`, the transform compares with a run on plain numbers.
    """

    def get(self: Traced) -> Any:
        frame = sys._getframe(1)
        if is_sought(frame) and hasattr(class_of(self), name) and not is_plumbing(frame):
            note_refusal(f"a value traced by {self.by.name} has no .{name} ({user_line()})")
        raise missing(self, name) if error is None else error(self)

    return property(get)


def is_sought(frame: types.FrameType) -> bool:
    return not is_ours(frame) and call_of(frame).function in (hasattr, getattr)


def missing(x: Traced, name: str) -> AttributeError:
    return AttributeError(f"{class_of(x).__name__!r} object has no attribute {name!r}")
