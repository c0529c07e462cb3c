"""NumPy's functions and ufuncs in `adjoint.numpy`: NumPy first, our function where NumPy refuses traced values.

`np.sum([x, y])`, `np.sin([x, y])` and `np.maximum.reduce([x, y])` pass NumPy a list, which it converts to an array. When that
raises, our function takes the call.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.bind import Traced
from ..core.errors import AdjointError, ConversionError, UnsupportedError
from ..core.quick import unquick
from ..device.arrays import gpu_of
from .dropin import in_place_of
from .protocols import general_ufunc, unsupported
from .table import FUNCTIONS, REFUSED, given_array, hold_traced, holds_traced, load_all

_REFUSALS = (ConversionError, UnsupportedError)


@functools.cache  # so that np.concat is np.concatenate
def with_fallback(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function with NumPy's protocol."""

    @in_place_of(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except _REFUSALS as error:
            ours = FUNCTIONS.get(function)
            if ours is None:
                raise
            _mark_handled(error)
            return ours(*args, **kwargs)
        except ValueError as error:
            ours = FUNCTIONS.get(function)
            if ours is None or not any(map(_gives_traced, (*args, *kwargs.values()))):
                raise
            _mark_handled(error)
            return ours(*args, **kwargs)

    return call


def _mark_handled(error: BaseException | None) -> None:
    """Say that our own code has caught an error: it is not one that the user's function catches, in a `with` or a `try`."""
    while error is not None:
        if isinstance(error, AdjointError):
            error.mark_handled()
        error = error.__cause__ or error.__context__


@functools.cache
def refusing(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function without a protocol: it raises on traced values instead of giving a wrong result."""

    @in_place_of(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if hold_traced(args) or (kwargs and hold_traced(kwargs.values())):
            load_all()
            if function in REFUSED:
                raise unsupported(function, f"np.{function.__name__}")
        return function(*args, **kwargs)

    return call


def wrapped(value: Any) -> Any:
    """A member of NumPy, wrapped for `adjoint.numpy`."""
    if isinstance(value, np.ufunc):
        return Ufunc(value)
    if hasattr(value, "_implementation"):
        return with_fallback(value)
    return refusing(value) if isinstance(value, (types.FunctionType, types.BuiltinFunctionType)) else value


class Ufunc:
    """A ufunc that accepts lists of traced values, also in its methods. isinstance and attributes are those of the ufunc."""

    def __init__(self, original: np.ufunc) -> None:
        self.original = original
        self.__name__ = original.__name__
        self.__doc__ = original.__doc__
        self.reduce, self.accumulate, self.outer = (self._method(name) for name in ("reduce", "accumulate", "outer"))
        self.reduceat, self.at = (self._method(name) for name in ("reduceat", "at"))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return self.original(*args, **kwargs)
        except _REFUSALS as error:
            if any(map(_is_list_of_traced, args)):
                _mark_handled(error)
                return general_ufunc(self.original, "__call__", args, kwargs)
            raise
        except ValueError as error:
            if any(map(_gives_traced, args)):
                _mark_handled(error)
                return general_ufunc(self.original, "__call__", args, kwargs)
            raise
        except TypeError:
            # An array on a GPU, as the first operand, is asked first, and does not know traced values.
            if any(isinstance(a, Traced) for a in args) and any(gpu_of(a) is not None for a in args):
                return general_ufunc(self.original, "__call__", args, kwargs)
            raise

    def _method(self, name: str) -> Callable[..., Any]:
        method = getattr(self.original, name)

        @functools.wraps(method)
        def call(*args: Any, **kwargs: Any) -> Any:
            try:
                return method(*args, **kwargs)
            except _REFUSALS as error:
                if any(map(holds_traced, (*args, *kwargs.values()))):
                    _mark_handled(error)
                    return general_ufunc(self.original, name, args, kwargs)
                raise

        return call

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return np.ufunc

    def __getattr__(self, name: str) -> Any:
        return getattr(self.original, name)

    def __repr__(self) -> str:
        return repr(self.original)

    def __eq__(self, other: object) -> bool:
        other = unquick(other)
        return self.original is (other.original if type(other) is Ufunc else other)

    def __hash__(self) -> int:
        return hash(self.original)

    def __reduce__(self) -> Any:
        return Ufunc, (self.original,)


def _gives_traced(x: Any) -> bool:
    return not isinstance(x, Traced) and given_array(x) is not None


def _is_list_of_traced(x: Any) -> bool:
    return isinstance(x, (list, tuple)) and holds_traced(x)
