"""SciPy, differentiable: `from adjoint.scipy import special, stats, linalg`.

Each module is SciPy's module of the same name, with some functions replaced by ones that take traced values; the rest is SciPy's.
A module is loaded on first access. Other modules of SciPy can be accessed here too (`adjoint.scipy.integrate`); they are not
listed, since they are SciPy's and cannot be imported under this name.
"""

from __future__ import annotations

import importlib
from typing import Any

_MODULES = ("linalg", "special", "stats")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name.startswith("__"):
        raise AttributeError(name)
    scipy = importlib.import_module("scipy")
    return getattr(scipy, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
