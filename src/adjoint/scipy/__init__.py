"""SciPy, differentiable: `from adjoint.scipy import special, stats, linalg`.

Each module is SciPy's module of the same name, with the functions that take traced values put in their place; what is
not covered is SciPy's own. A module is loaded when it is first asked for. Other modules of SciPy's can be read here too
(`adjoint.scipy.integrate`); they are not listed, since they are SciPy's own and cannot be imported under this name.
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
