"""NumPy, differentiable: `import adjoint.numpy as np`.

Plain `numpy` works on traced values through NumPy's own protocols; this module is numpy with the few functions
that those protocols cannot reach: making arrays from traced values, and arrays that traced values are written to.
"""

from __future__ import annotations

from typing import Any

import numpy as _numpy

from . import (
    arrange,
    calculus,
    counting,
    elementwise,
    missing,
    mutate,
    padding,
    polynomials,
    product,
    protocols,
    query,
    reduce,
    selection,
    statistics,
)
from . import create as _create
from . import fft as fft
from . import linalg as linalg
from .create import array as array
from .create import asarray as asarray
from .reach import (
    asanyarray,
    asarray_chkfinite,
    ascontiguousarray,
    asfortranarray,
    fill_diagonal,
    fromfunction,
    fromiter,
    full,
    kaiser,
    nan_to_num,
    pad,
    piecewise,
    polyfit,
    repeat,
    require,
    take,
    unwrap,
    vectorize,
)

protocols.install()

zeros = _create.trackable(_numpy.zeros)
ones = _create.trackable(_numpy.ones)
empty = _create.trackable(_numpy.empty)
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


_: Any = (
    *(arrange, calculus, counting, elementwise, missing, mutate, padding, polynomials, product, query, reduce, selection),
    *(statistics, asanyarray, asarray_chkfinite, ascontiguousarray, asfortranarray, fill_diagonal, fromfunction, fromiter),
    *(full, kaiser, nan_to_num, pad, piecewise, polyfit, repeat, require, take, unwrap, vectorize),
)

# Modules of ours must not hide NumPy's own names.
shape = _numpy.shape
ufunc = _numpy.ufunc
