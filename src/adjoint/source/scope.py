"""Which functions have their loops and branches staged from the source. The rewriting is in `rewrite.py`, loaded on demand."""

from __future__ import annotations

import os
import sys
import types
from dataclasses import dataclass
from typing import Any

from ..core.home import ADOPTED, COPIES, is_copy
from ..staging.reach import reached


@dataclass(frozen=True)
class Scope:
    """Whose loops and branches are staged: those of user code (`jit(f, source=True)`), or the loops of adopted code.

    A branch of adopted code outside of loops is a guard, which costs less to compile and to run, until calls have gone both ways.
    """

    is_all: bool
    varying: frozenset[str] = frozenset()  # lines of adopted code where calls have gone both ways

    def is_in(self, code: types.CodeType) -> bool:
        """Whether a varying line is in a function, or in one inside it."""
        if not self.varying:
            return False
        file = os.path.basename(code.co_filename)
        if any(f"{file}:{line}" in self.varying for _, _, line in code.co_lines()):
            return True
        return any(self.is_in(c) for c in code.co_consts if isinstance(c, types.CodeType))


ALL, ADOPTED_LOOPS = Scope(is_all=True), Scope(is_all=False)


def reaches_adopted(f: Any) -> bool:
    """Whether a function can call adopted code, as far as its names, closure and attributes tell."""
    if COPIES not in sys.modules:
        return False
    return any(is_adopted(x) for x in reached(f))


def is_adopted(x: Any) -> bool:
    """Whether a function, module or object belongs to adopted code."""
    if isinstance(x, types.FunctionType):
        return ADOPTED in x.__builtins__  # type: ignore[attr-defined]
    return is_copy(x.__name__ if isinstance(x, types.ModuleType) else (x if isinstance(x, type) else type(x)).__module__)
