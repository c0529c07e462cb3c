"""scipy.fft, differentiable: the Fourier transforms are NumPy's for traced values; the other transforms are SciPy's.

from adjoint.scipy import fft
ad.grad(lambda x: np.sum(np.abs(fft.rfft(x)) ** 2))(np.ones(8))
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import scipy.fft as _scipy

from .. import numpy as anp
from ..core.errors import UnsupportedError
from .guard import guarded
from .numbers import is_traced, plain

_NAMES = ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft", "fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn", "rfftn", "irfftn"]
_PLAIN = ("overwrite_x", "workers", "plan")  # how SciPy computes: without effect on the result


def _either(name: str) -> Callable[..., Any]:
    original, ours = getattr(_scipy, name), getattr(anp.fft, name)

    @functools.wraps(original)
    def call(x: Any, *args: Any, **options: Any) -> Any:
        x = plain(x)
        if not is_traced(x):
            return original(x, *args, **options)
        if len(args) > 3:
            raise UnsupportedError(f"scipy.fft.{name} of traced values takes overwrite_x and what follows it by name")
        return ours(x, *args, **{key: given for key, given in options.items() if key not in _PLAIN})

    return call


for _name in _NAMES:
    globals()[_name] = _either(_name)
_REASON = "there is no rule for it; write it with fft of the extended signal"
_REFUSED = frozenset(["dct", "idct", "dst", "idst", "dctn", "idctn", "dstn", "idstn", "fht", "ifht"])


def __getattr__(name: str) -> Any:
    found = getattr(_scipy, name)
    return guarded(found, f"scipy.fft.{name}", _REASON) if name in _REFUSED else found


def __dir__() -> list[str]:
    return dir(_scipy)
