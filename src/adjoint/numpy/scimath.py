"""np.emath: functions that give complex results outside their real domain.

Whether the result is complex depends on the numbers: a compiled program has a guard for it, and under vmap it is an error if the
examples differ.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.types import Value, dtype_of
from ..ops.broadcast import cast
from .table import implements, lift
from .ways import as_array

_SINGLE = frozenset(map(np.dtype, ("f4", "i1", "i2", "u1", "u2")))  # their complex results have 64 bits


def _extended(x: Value, is_outside: Callable[[Any], Any]) -> Value:
    """A real x as a complex one if any element is outside of the real function's domain."""
    if dtype_of(x).kind == "c" or not np.any(is_outside(x)):
        return x
    dtype = np.dtype(np.complex64 if dtype_of(x) in _SINGLE else np.complex128)
    return cast(x, dtype=dtype)


def _negative(x: Any) -> Any:
    return x < 0


def _beyond_one(x: Any) -> Any:
    return abs(x) > 1


def _declare(name: str, is_outside: Callable[[Any], Any]) -> None:
    function = getattr(np, name)

    @implements(getattr(np.emath, name))
    def extended(x: Any) -> Value:
        return function(_extended(x, is_outside))


for _name in ("sqrt", "log", "log2", "log10"):
    _declare(_name, _negative)
_declare("arctanh", _beyond_one)


@implements(np.emath.arccos)
def arccos(x: Any) -> Value:
    z = _extended(x, _beyond_one)
    if dtype_of(x).kind == "c" or dtype_of(z).kind != "c":
        return np.arccos(z)
    return _MINUS_I * np.arccosh(z)  # whose derivative on the branch cut is that of the side on which the value is


@implements(np.emath.arcsin)
def arcsin(x: Any) -> Value:
    z = _extended(x, _beyond_one)
    if dtype_of(x).kind == "c" or dtype_of(z).kind != "c":
        return np.arcsin(z)
    return 0.5 * np.pi - arccos(x)


_MINUS_I = complex(0.0, -1.0)


@implements(np.emath.logn)
def logn(n: Any, x: Any) -> Value:
    return np.log(_extended(lift(x), _negative)) / np.log(_extended(lift(n), _negative))


@implements(np.emath.power)
def power(x: Any, p: Any) -> Value:
    x, p = _extended(as_array(lift(x)), _negative), as_array(lift(p))
    if dtype_of(p).kind in "iu" and np.any(p < 0):
        p = p * 1.0
    return np.power(x, p)
