"""Whether NumPy shall raise for division by zero, overflow or an invalid operation: `np.errstate(divide="raise")`.

NumPy keeps one object for the state that the running code has set. Nearly always it is the one that was looked at last: then the
answer takes one comparison.
"""

from __future__ import annotations

import warnings

import numpy as np
from numpy._core.umath import _extobj_contextvar  # type: ignore[attr-defined]

state = _extobj_contextvar.get
QUIET = [state()]  # the last state that was found not to raise
_STRICT = frozenset({"raise", "call"})


def raises() -> bool:
    """Whether an operation that goes wrong raises, or calls a function of the user's."""
    current = state()
    if current is QUIET[0]:
        return False
    if _STRICT.isdisjoint(np.geterr().values()):
        QUIET[0] = current
        return False
    return True


def warnings_are_errors() -> bool:
    """Whether the warning of such an operation raises."""
    for action, _, category, *_ in warnings.filters:
        if issubclass(RuntimeWarning, category):
            return action == "error"
    return False
