"""SciPy, differentiable: `from adjoint.scipy import special, stats, linalg, integrate`.

Each module is SciPy's module of the same name, with some functions replaced by ones that take traced values; the rest is SciPy's.
A module is loaded on first access. Other modules of SciPy can be accessed here too (`adjoint.scipy.cluster`); they are not
listed, since they are SciPy's and cannot be imported under this name.

>>> import adjoint as ad
>>> from adjoint.scipy import special, stats
>>> ad.grad(special.gammaln)(2.0).round(6)
np.float64(0.422784)
>>> ad.grad(lambda scale: stats.norm.logpdf(1.0, 0.0, scale))(2.0)
np.float64(-0.375)
"""

from __future__ import annotations

import importlib
from typing import Any

_MODULES = ("fft", "integrate", "interpolate", "linalg", "ndimage", "optimize", "signal", "special", "stats")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name.startswith("__"):
        raise AttributeError(name)
    scipy = importlib.import_module("scipy")
    return getattr(scipy, name)


def __dir__() -> list[str]:
    return sorted({*(name for name in globals() if name.startswith("__")), *_MODULES})
