"""NumPy, differentiable: `import adjoint.numpy as np`.

Plain `numpy` works on traced values through NumPy's own protocols; this module is numpy with the few functions that those
protocols cannot intercept: making arrays from traced values, and arrays that accept writes of traced values.

>>> import adjoint as ad
>>> import adjoint.numpy as np
>>> def f(x):
...     a = np.zeros(3)
...     a[0] = x
...     return np.sum(np.array([x, 2 * x]) * a[:2])
>>> ad.grad(f)(3.0)
np.float64(6.0)
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as _numpy

from . import create as _create
from . import elementwise as _elementwise
from . import fallback as _fallback
from . import product as _product
from . import protocols as _protocols
from . import reduce as _reduce
from .create import array as array
from .create import asarray as asarray

_protocols.install()

zeros = _create.trackable(_numpy.zeros)
ones = _create.trackable(_numpy.ones)
empty = _create.trackable(_numpy.empty, _numpy.zeros)
eye = _create.trackable(_numpy.eye)
identity = _create.trackable(_numpy.identity)
arange = _create.trackable(_numpy.arange)
linspace = _create.trackable(_numpy.linspace)
zeros_like = _create.trackable(_numpy.zeros_like, takes_sizes=False)
ones_like = _create.trackable(_numpy.ones_like, takes_sizes=False)
empty_like = _create.trackable(_numpy.empty_like, _numpy.zeros_like, takes_sizes=False)

#: Other functions that the protocols cannot intercept; in `undispatched.py`, loaded on first use.
_UNDISPATCHED = frozenset(
    [
        *("asanyarray", "asarray_chkfinite", "ascontiguousarray", "asfortranarray", "fill_diagonal", "fromfunction"),
        *("fromiter", "full", "full_like", "kaiser", "nan_to_num", "pad", "piecewise", "polyfit", "repeat", "require", "take"),
        *("c_", "ndenumerate", "r_", "unwrap", "vectorize"),
    ]
)

#: Functions that copy arrays: what they give can be written to, as what `zeros` gives.
_COPYING = frozenset(
    [
        *("append", "block", "column_stack", "concat", "concatenate", "copy", "delete", "diag", "dstack", "geomspace", "hstack"),
        *("insert", "kron", "logspace", "outer", "roll", "stack", "tile", "tri", "tril", "triu", "vstack", "where"),
    ]
)

#: Functions that take more arguments in the Array API standard than in NumPy; in `standard.py`.
_STANDARD = frozenset(["__array_api_version__", "argsort", "diff", "expand_dims", "finfo", "iinfo", "sort"])


def __getattr__(name: str) -> Any:
    if name in ("linalg", "fft"):
        return importlib.import_module(f"{__name__}.{name}")
    if name == "special":  # a future extension of the standard, which SciPy already looks for
        return importlib.import_module("adjoint.scipy.special")
    if name in _UNDISPATCHED:
        value = getattr(importlib.import_module(f"{__name__}.undispatched"), name)
    elif name in _STANDARD:
        value = getattr(importlib.import_module(f"{__name__}.standard"), name)
    else:
        value = _fallback.wrapped(getattr(_numpy, name))
    if name in _COPYING:
        value = _create.copying(value)
    globals()[name] = value  # later lookups skip __getattr__
    return value


def __dir__() -> list[str]:
    return dir(_numpy)


# Modules of ours must not hide NumPy's own names.
_ = (_elementwise, _product, _reduce)
shape = _numpy.shape
ufunc = _numpy.ufunc
