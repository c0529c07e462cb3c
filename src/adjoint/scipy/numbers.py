"""Numbers of traced values, for algorithms that decide by them: which nodes, which root."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import numpy as anp
from ..adopt.builtin import is_batched
from ..core.bind import FRESH, Traced, unwrap_fresh
from ..core.errors import UnsupportedError
from ..eager.batch import Batch
from ..numpy.table import holds_traced
from ..ops.elementwise import stop_gradient
from ..staging.guard import Guarded
from ..staging.stage import Stage


def number(x: Any, what: str) -> Any:
    """The numbers of a value. A compiled program is valid for these only.

    >>> number(2.0, "the root by")
    2.0
    """
    if is_batched(x):
        raise UnsupportedError(
            f"{what} a value inside vmap may differ between examples; use ad.map to run the examples one by one"
        )
    if isinstance(x, (tuple, list)):
        return type(x)([number(item, what) for item in x])
    while isinstance(x, Traced):
        x = x.by.concrete(x, what)
    return x


def seen(x: Any, what: str) -> Any:
    """The numbers of a value in this call. A choice by them must be right for other numbers, or be checked in the program."""
    while isinstance(x, Traced) and not is_batched(x):
        x = x.by.known(x) if isinstance(x.by, Guarded) else x.by.concrete(x, what)
    return number(x, what)


def holds(condition: Any) -> bool:
    """Whether a condition holds, of a batch for all its examples."""
    while isinstance(condition, Traced) and isinstance(condition.by, Batch):
        condition = anp.all(condition.underlying)
    return bool(condition)


def plain(x: Any) -> Any:
    """An argument as SciPy takes it, if it has no derivative: arrays made by `adjoint.numpy` as arrays of NumPy."""
    return unwrap_fresh(anp.asarray(x)) if isinstance(x, (list, tuple)) and holds_traced(x) else unwrap_fresh(x)


def known_numbers(x: Any, what: str) -> Any:
    """An argument that must be plain numbers: a staged one is known, and a compiled program is valid for its numbers only."""
    x = plain(x)
    return number(x, what) if isinstance(x, Traced) and isinstance(x.by, Stage) else x


def is_traced(x: Any) -> bool:
    """Whether a value may have a derivative."""
    return isinstance(x, Traced) and x.by is not FRESH


class Noted:
    """A function whose results are numbers, which notes whether one of them was traced."""

    def __init__(self, f: Callable[..., Any], what: str) -> None:
        self.f, self.what, self.traced = f, what, False

    def __call__(self, *args: Any) -> Any:
        y = self.f(*args)
        if isinstance(y, tuple):  # a value with its derivative
            return tuple(map(self.number, y))
        return self.number(y)

    def number(self, y: Any) -> Any:
        y = plain(y)
        self.traced = self.traced or isinstance(y, Traced)
        return number(y, self.what)


def with_value(y: Any, value: Any) -> Any:
    """A value, to rounding that of y, with the derivatives of y."""
    return value + (y - stop_gradient(y))
