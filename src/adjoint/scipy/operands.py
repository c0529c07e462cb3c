"""How scipy.linalg treats its arguments: precision, square matrices, vectors as columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg as _scipy

from ..core.types import Value, dtype_of, ndim_of, shape_of
from ..numpy.table import lift as lift_any
from ..ops import broadcast as shapes
from ..ops.linalg import column

LinAlgError = _scipy.LinAlgError


def lift(x: Any) -> Value:
    """An array_like as a value. LAPACK knows single and double precision: SciPy computes in the nearest, and so do we."""
    x = lift_any(x)
    nearest = {"e": np.float32, "g": np.float64, "G": np.complex128}.get(dtype_of(x).char)
    return x if nearest is None else shapes.cast(x, dtype=np.dtype(nearest))


def square(a: Any) -> Value:
    a = lift(a)
    if ndim_of(a) < 2 or shape_of(a)[-1] != shape_of(a)[-2]:
        raise ValueError(f"expected a square matrix, got an array of shape {shape_of(a)}")
    return a


def double(a: Value) -> Value:
    """In double precision, where SciPy always computes so."""
    a = lift(a)
    wide = np.result_type(dtype_of(a), np.float64)
    return a if dtype_of(a) == wide else shapes.cast(a, dtype=wide)


def as_columns(f: Any, b: Any) -> Value:
    """Run f on b as a matrix; a vector is one column."""
    b = lift(b)
    if ndim_of(b) != 1:
        return f(b)
    y = f(column(b))
    return shapes.reshape(y, shape=shape_of(y)[:-1])
