"""Whether NumPy raises for division by zero, overflow or an invalid operation: `np.errstate(divide="raise")`.

NumPy keeps one object for the error state. Nearly always it is the one checked last, so one comparison suffices. Transforms
switch between two: the user's, and one that ignores all errors.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy._core.umath import _extobj_contextvar  # type: ignore[attr-defined]

state = _extobj_contextvar.get
QUIET = [state()]  # the last state known not to raise
_earlier: list[tuple[Any, ...]] = [()]  # others, kept alive so that no new state is taken for one of them; replaced as a whole
_MOST = 4
_STRICT = frozenset({"raise", "call"})


def raises() -> bool:
    """Whether a floating-point error raises, or calls the user's callback."""
    current = state()
    if current is QUIET[0]:
        return False
    earlier = _earlier[0]
    if not any(current is known for known in earlier):
        if not _STRICT.isdisjoint(np.geterr().values()):
            return True
        _earlier[0] = (*earlier[1 - _MOST :], current)
    QUIET[0] = current
    return False


def _filters() -> Sequence[Any]:
    return warnings.filters


#: The filters of warnings that apply here; since Python 3.14 a context may have its own.
filters: Callable[[], Sequence[Any]] = getattr(warnings, "_get_filters", _filters)


def warnings_are_errors() -> bool:
    """Whether the warning of such an operation raises."""
    for action, _, category, *_ in filters():
        if issubclass(RuntimeWarning, category):
            return action == "error"
    return False
