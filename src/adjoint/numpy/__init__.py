"""NumPy, differentiable: `import adjoint.numpy as np`.

Plain `numpy` works on traced values through NumPy's own protocols; this module is numpy with the few functions
that those protocols cannot reach: making arrays from traced values, and arrays that traced values are written to.
"""

from __future__ import annotations

from typing import Any

import numpy as _numpy

from . import create as _create
from . import elementwise, product, protocols, reduce, shape
from .create import array, asarray

protocols.install()

zeros = _create.trackable(_numpy.zeros)
ones = _create.trackable(_numpy.ones)
empty = _create.trackable(_numpy.empty)
full = _create.trackable(_numpy.full)
eye = _create.trackable(_numpy.eye)
identity = _create.trackable(_numpy.identity)
arange = _create.trackable(_numpy.arange)
linspace = _create.trackable(_numpy.linspace)
zeros_like = _create.trackable(_numpy.zeros_like)
ones_like = _create.trackable(_numpy.ones_like)
empty_like = _create.trackable(_numpy.empty_like)


def __getattr__(name: str) -> Any:
    return getattr(_numpy, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *dir(_numpy)})


_ = (elementwise, product, reduce, shape, array, asarray)
