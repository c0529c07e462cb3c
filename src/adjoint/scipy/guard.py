"""What a module of ours gives for a function of SciPy's that it has no rule for: SciPy's own, or the reason why not."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..core.errors import UnsupportedError
from ..numpy.table import REMEDY, holds_traced


def guarded(function: Callable[..., Any], name: str, reason: str) -> Callable[..., Any]:
    """A function of SciPy that says why it takes no traced values."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if any(map(holds_traced, args)) or any(map(holds_traced, kwargs.values())):
            raise UnsupportedError(f"{name} cannot be differentiated: {reason}. {REMEDY}")
        return function(*args, **kwargs)

    return call
