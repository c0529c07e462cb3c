"""NumPy for staged functions that read plain arrays at traced indices: `np.eye(k)[labels]`, `np.array([1, 2, 4])[i]`.

NumPy converts the index to a plain integer before any of our hooks runs. So the function is staged again, with the arrays that it
makes and the constants that it reads outside as arrays of `adjoint.numpy`, which handle `a[i]` themselves.
"""

from __future__ import annotations

import functools
import types
from typing import Any

import numpy as np

import adjoint.numpy as own

from ..core.bind import table

_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, type(np.sum))


class Tables(types.ModuleType):
    """`adjoint.numpy`, of which every function gives arrays that can be read at traced indices."""

    def __init__(self) -> None:
        super().__init__(own.__name__, own.__doc__)

    def __getattr__(self, name: str) -> Any:
        found = getattr(own, name)
        seen = self.__dict__[name] = _giving_tables(found) if isinstance(found, _FUNCTIONS) else found
        return seen


def _giving_tables(function: Any) -> Any:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        y = function(*args, **kwargs)
        return type(y)(map(table, y)) if type(y) in (tuple, list) else table(y)

    return call


def traced_tables(x: Any) -> Any:
    """What stands for a constant array, for NumPy, or for one of its functions."""
    if isinstance(x, np.ndarray):
        return table(x)
    if isinstance(x, types.ModuleType):
        return Tables()
    name = getattr(x, "__name__", "")
    return _giving_tables(getattr(own, name)) if isinstance(x, _FUNCTIONS) and hasattr(own, name) else None
