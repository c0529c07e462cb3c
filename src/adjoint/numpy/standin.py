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
from ..core.types import PYTHON_NUMBERS, shape_of
from ..eager.batch import Batch
from .caller import call_of

_TYPES = shape_of.__globals__  # of the module that asks most often


def of_arrays(name: str, getter: Callable[[Any], Any]) -> property:
    """An attribute of NumPy's values, which a Python number does not have."""

    def get(self: Traced) -> Any:
        if type(self.value) is not np.ndarray:
            asks = sys._getframe(1)
            if asks.f_globals is not _TYPES and not is_ours(asks) and class_of(self) in PYTHON_NUMBERS:
                raise _missing(self, name)
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
        is_array = type(x.value) is np.ndarray and type(x.by) is not Batch  # which holds numbers as arrays
        is_found = self.of_arrays if is_array else hasattr(class_of(x), self.name)
        if not is_found and _is_sought(sys._getframe(1)):
            raise _missing(x, self.name)
        return types.MethodType(self.function, x)


def _is_sought(frame: types.FrameType) -> bool:
    return not is_ours(frame) and call_of(frame).function in (hasattr, getattr)


def _missing(x: Traced, name: str) -> AttributeError:
    return AttributeError(f"{class_of(x).__name__!r} object has no attribute {name!r}")
