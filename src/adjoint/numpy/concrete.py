"""The plain value beneath a traced one, for code that needs a single number: a length, a branch, a printed value."""

from __future__ import annotations

from typing import Any

from ..core.bind import Traced, rounded
from ..core.errors import BatchError, user_line
from ..eager.batch import Batch


def note_rounding(x: Any, decimals: int) -> None:
    """Note that a value is rounded to some decimals, as for print. A derivative that is zero for that reason warns."""
    if decimals > 0 and isinstance(x, Traced):
        rounded.set((x.by.level, user_line(), decimals))


def primal(x: Any) -> Any:
    """The plain value beneath every trace."""
    while isinstance(x, Traced):
        if isinstance(x.by, Batch):
            raise BatchError("a value inside vmap represents a whole batch; it has no single number")
        x = x.underlying if x.by.has_numbers else x.by.concrete(x, "the number behind")
    return x


def primals(x: Any) -> Any:
    """The same for each element of nested lists, tuples and dicts."""
    if isinstance(x, (list, tuple)):
        return type(x)(map(primals, x)) if type(x) in (list, tuple) else x
    if type(x) is dict:
        return {key: primals(value) for key, value in x.items()}
    return primal(x)
