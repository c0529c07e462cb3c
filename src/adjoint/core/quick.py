"""Functions with native dispatch: the original for plain arguments, ours for others. `adopt/native.py` makes them."""

from __future__ import annotations

import functools
import types
from typing import Any

import numpy as np


class NativePair(tuple[Any, ...]):
    """The two functions of a native one, which is its method: the original and ours."""

    def __getattr__(self, name: str) -> Any:
        if name != self[1].__name__:
            raise AttributeError(name)
        return self[1]  # pickle asks for the method by its name

    def __reduce__(self) -> Any:
        return NativePair, (tuple(self),)


class Quick(functools.partial[Any]):
    """A native function with the attributes of `ours`, for those functions that are no builtin ones of NumPy."""

    ours: Any

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """As an attribute of a class, a function of NumPy that is written in Python is a method; a ufunc is not."""
        return self if instance is None or isinstance(self.ours, np.ufunc) else types.MethodType(self, instance)

    def __getattr__(self, name: str) -> Any:
        if name == "ours":
            raise AttributeError(name)
        return getattr(self.ours, name)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return np.ufunc if isinstance(self.ours, np.ufunc) else type(self)

    def __repr__(self) -> str:
        return repr(self.ours)

    def __eq__(self, other: object) -> bool:
        return bool(self.ours == (other.ours if type(other) is Quick else other))

    def __hash__(self) -> int:
        return hash(self.ours)

    def __reduce__(self) -> Any:
        return unquick, (self.ours,)


def unquick(f: Any) -> Any:
    """Our form of a function, which is written in Python; anything else unchanged."""
    if type(f) is types.BuiltinFunctionType and type(f.__self__) is NativePair:
        return f.__self__[1]
    return f.ours if type(f) is Quick else f
