"""SciPy functions without a rule: they work on plain numbers, and raise for traced values with a reason."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..core.errors import UnsupportedError
from ..numpy.table import REMEDY, holds_traced


def guarded(function: Callable[..., Any], name: str, reason: str) -> Callable[..., Any]:
    """A SciPy function that raises on traced values, with the reason."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if any(map(holds_traced, args)) or any(map(holds_traced, kwargs.values())):
            raise UnsupportedError(f"{name} cannot be differentiated: {reason}. {REMEDY}")
        return function(*args, **kwargs)

    return call
