"""Linear systems with a banded matrix in LAPACK's storage, where a matrix with `lower` and `upper` off-diagonals is

    ab[upper + i − j, j] = a[i, j]          shape (..., lower + upper + 1, n)

The derivatives use the same storage, so each costs O(n).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.op import case
from ..core.types import Value, ndim_of, shape_of
from .broadcast import sum_, where
from .declare import opaque
from .index import read
from .lazy import Lazy
from .solve import minus

_scipy = Lazy("scipy.linalg", "solve_banded")


def _solve(ab: Any, b: Any, *, lower: int, upper: int) -> Any:
    """Solve the system, or stacks of systems, which broadcast."""
    solve: Callable[..., Any] = lambda ab, b: _scipy((lower, upper), ab, b, check_finite=False)
    lead = np.broadcast_shapes(ab.shape[:-2], b.shape[:-2])
    if not lead:
        return solve(ab, b)
    if 0 in lead:  # an empty stack: the type of any system
        unit = np.zeros(ab.shape[-2:], ab.dtype)
        unit[upper] = 1
        return np.empty((*lead, *b.shape[-2:]), solve(unit, np.zeros(b.shape[-2:], b.dtype)).dtype)
    stacks = [np.broadcast_to(x, (*lead, *x.shape[-2:])).reshape(math.prod(lead), *x.shape[-2:]) for x in (ab, b)]
    return np.stack([solve(*pair) for pair in zip(*stacks, strict=True)]).reshape(*lead, *b.shape[-2:])


def _take(x: Value, mask: Any, *index: Any) -> Value:
    """Elements (or rows, if one index array is given) of the last two axes, zero outside the mask."""
    clipped = [np.where(mask, i, 0) for i in index]
    if len(clipped) == 1:
        return where(mask[..., None], read(x, (..., clipped[0], slice(None))), 0.0)
    return where(mask, read(x, (..., *clipped)), 0.0)


def _rows(ab: Value, upper: int) -> tuple[Any, Any, Any]:
    """For every element of the storage: its row r there, its row i in the matrix, and whether it is part of the matrix."""
    height, n = shape_of(ab)[-2:]
    r = np.arange(height)[:, None]
    i = np.arange(n) + r - upper
    return r, i, (i >= 0) & (i < n)


def _transposed(ab: Value, lower: int, upper: int) -> Value:
    """The transpose of a banded matrix, with `lower` and `upper` swapped."""
    r, column, inside = _rows(ab, lower)
    return _take(ab, inside, lower + upper - r, column)


def _product(ab: Value, x: Value, upper: int) -> Value:
    """A banded matrix times the columns of x: row i is Σ ab[r, j] x[j] over j = i − r + upper."""
    height, n = shape_of(ab)[-2:]
    r = np.arange(height)[:, None]
    j = np.arange(n) - r + upper
    inside = (j >= 0) & (j < n)
    elements = _take(ab, inside, np.broadcast_to(r, j.shape), j)
    terms = read(elements, (..., None)) * _take(x, inside, j)
    return sum_(terms, axis=(ndim_of(terms) - 3,), keepdims=False)


def _jvp(ts: Any, x: Value, ab: Value, b: Value, *, lower: int, upper: int) -> Value:
    tab, tb = ts
    return banded_solve(ab, minus(tb, None if tab is None else _product(tab, x, upper)), lower=lower, upper=upper)


def _vjp(g: Value, x: Value, ab: Value, b: Value, *, lower: int, upper: int) -> Any:
    gb = banded_solve(_transposed(ab, lower, upper), g, lower=upper, upper=lower)
    _, i, inside = _rows(ab, upper)
    terms = _take(gb, inside, i) * read(x, (..., None, slice(None), slice(None)))
    return -sum_(terms, axis=(ndim_of(terms) - 1,), keepdims=False), gb


_TRI = np.array([[0.0, 0.3, -0.4, 0.2], [2.0, 1.5, 1.8, 1.6], [0.1, 0.6, -0.7, 0.0]])
_WIDE = np.array([[1.1, 1.7, 1.4, 1.3], [0.2, -0.3, 0.4, 0.0], [0.1, 0.5, 0.0, 0.0]])

banded_solve = opaque(
    "banded_solve",
    _solve,
    jvp=_jvp,
    vjp=_vjp,
    axes=(),
    cases=[
        case(_TRI, (4, 2), lower=1, upper=1),
        case(_WIDE, (4, 1), lower=2, upper=0),
        case(np.stack([_TRI, 1.3 * _TRI]), (4, 2), lower=1, upper=1),
        case(_TRI, (2, 4, 1), lower=1, upper=1),
    ],
    complex_domain=True,
    doc="x with a x = b, where the banded matrix a is given by its diagonals.",
)
