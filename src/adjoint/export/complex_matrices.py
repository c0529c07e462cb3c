"""Systems and factors of complex matrices, as those of real matrices of twice the size.

    a + bi   →   [a  −b]        an element becomes a block of two rows and two columns
                 [b   a]

Sums, products and inverses of such matrices are those of the complex ones. The factor of a positive matrix has real diagonal
elements, so that its blocks form a lower triangle: it is the real matrix's own factor. Failures are told as for real matrices.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.op import Op
from ..core.types import Value, dtype_of, ndim_of, shape_of
from ..ops.broadcast import imag, real, reshape, where
from ..ops.decompose import cholesky
from ..ops.index import getitem
from ..ops.pairs import from_parts
from ..ops.shape import concatenate, stack
from ..ops.solve import inv, solve


def _blocks(re: Value, im: Value) -> Value:
    *lead, n, m = shape_of(re)
    axis = len(lead) + 2
    made = stack(stack(re, -im, axis=axis), stack(im, re, axis=axis), axis=axis - 1)
    return reshape(made, shape=(*lead, 2 * n, 2 * m))


def _joined(x: Value) -> Value:
    """Complex numbers, from the first column of each block."""
    *lead, n, m = shape_of(x)
    halves, front = reshape(x, shape=(*lead, n // 2, 2, m)), (slice(None),) * (len(lead) + 1)
    return from_parts(*(getitem(halves, spec=(*front, k)) for k in range(2)))


def _first_columns(x: Value) -> Value:
    return getitem(x, spec=(*(slice(None),) * (ndim_of(x) - 1), slice(0, None, 2)))


def _solve(a: Value, b: Value) -> Value:
    *lead, n, m = shape_of(b)
    re, im = real(b), imag(b) if dtype_of(b).kind == "c" else np.zeros(shape_of(b), dtype_of(b))
    if dtype_of(a).kind == "c":
        columns = reshape(stack(re, im, axis=len(lead) + 1), shape=(*lead, 2 * n, m))
        return _joined(solve(_blocks(real(a), imag(a)), columns))
    x = solve(a, concatenate(re, im, axis=len(lead) + 1))
    front = (slice(None),) * (ndim_of(x) - 1)
    return from_parts(getitem(x, spec=(*front, slice(0, m))), getitem(x, spec=(*front, slice(m, 2 * m))))


def _inv(a: Value, *, strict: bool) -> Value:
    return _joined(_first_columns(inv(_blocks(real(a), imag(a)), strict=strict)))


def _cholesky(a: Value) -> Value:
    re, im = real(a), imag(a)
    im = where(np.eye(shape_of(a)[-1], dtype=bool), np.zeros((), dtype_of(im)), im)  # LAPACK does not read the diagonal's
    return _joined(_first_columns(cholesky(_blocks(re, im))))


EXPANSIONS: dict[Op, Any] = {solve: _solve, inv: _inv, cholesky: _cholesky}
