"""Matrices made of vectors: Toeplitz, circulant, Hankel, block diagonal. Each element is read by its index."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core.types import Value, dtype_of, ndim_of, shape_of
from ..numpy.table import lift
from ..ops import broadcast as shapes
from ..ops.index import read, scatter
from ..ops.shape import concatenate


def _vector(x: Any) -> Value:
    x = lift(x)
    return x if ndim_of(x) == 1 else shapes.reshape(x, shape=(math.prod(shape_of(x)),))


def _tail(x: Value) -> Value:
    return read(x, slice(1, None))


def _grid(rows: int, columns: int) -> tuple[Any, Any]:
    return np.arange(rows)[:, None], np.arange(columns)[None, :]


def _vectors(*xs: Any) -> list[Value]:
    """Vectors along the last axis, with common leading axes; a number is a vector of one."""
    values = [shapes.reshape(x, shape=(1,)) if ndim_of(x) == 0 else x for x in map(lift, xs)]
    lead = np.broadcast_shapes(*(shape_of(x)[:-1] for x in values))
    return [x if shape_of(x)[:-1] == lead else shapes.broadcast_to(x, shape=(*lead, shape_of(x)[-1])) for x in values]


def toeplitz(c: Any, r: Any = None) -> Value:
    """c down the first column, r along the first row, constant diagonals. Leading axes are a stack."""
    (c,) = _vectors(c)
    c, r = _vectors(c, np.conjugate(c) if r is None and dtype_of(c).kind == "c" else c if r is None else r)
    i, j = _grid(shape_of(c)[-1], shape_of(r)[-1])
    values = concatenate(c, read(r, (..., slice(1, None))), axis=ndim_of(c) - 1)
    return read(values, (..., np.where(i >= j, i - j, shape_of(c)[-1] - 1 + j - i)))


def circulant(c: Any) -> Value:
    """Each column is the previous one, rotated by one. Leading axes are a stack."""
    c = lift(c)
    n = shape_of(c)[-1]
    i, j = _grid(n, n)
    return read(c, (..., (i - j) % n))


def hankel(c: Any, r: Any = None) -> Value:
    """c down the first column, r along the last row, constant antidiagonals."""
    c = _vector(c)
    i, j = _grid(shape_of(c)[0], shape_of(c)[0] if r is None else shape_of(_vector(r))[0])
    rest = np.zeros(max(shape_of(c)[0] - 1, 0), dtype_of(c)) if r is None else _tail(_vector(r))
    return read(concatenate(c, rest, axis=0), i + j)


def block_diag(*arrs: Any) -> Value:
    """Matrices along the diagonal, zero elsewhere. Leading axes are a stack."""
    blocks = [lift(a) for a in arrs] or [np.empty((1, 0))]
    blocks = [b if ndim_of(b) >= 2 else shapes.reshape(b, shape=(1, math.prod(shape_of(b)))) for b in blocks]
    lead = np.broadcast_shapes(*(shape_of(b)[:-2] for b in blocks))
    width = sum(shape_of(b)[-1] for b in blocks)
    strips, start = [], 0
    for block in blocks:
        m, n = shape_of(block)[-2:]
        block = block if shape_of(block)[:-2] == lead else shapes.broadcast_to(block, shape=(*lead, m, n))
        before, after = (np.zeros((*lead, m, k), dtype_of(block)) for k in (start, width - start - n))
        strips.append(concatenate(before, block, after, axis=len(lead) + 1))
        start += n
    return concatenate(*strips, axis=len(lead))


def companion(a: Any) -> Value:
    """The matrix whose eigenvalues are the roots of a polynomial with coefficients a. Leading axes are a stack."""
    (a,) = _vectors(a)
    *lead, size = shape_of(a)
    n = size - 1
    if n < 1:
        raise ValueError("The length of `a` along the last axis must be at least 2.")
    top = -read(a, (..., None, slice(1, None))) / read(a, (..., None, slice(0, 1)))
    return concatenate(top, np.broadcast_to(np.eye(n - 1, n, dtype=dtype_of(top)), (*lead, n - 1, n)), axis=len(lead))


def leslie(f: Any, s: Any) -> Value:
    """Fecundities in the first row, survival rates below the diagonal. Leading axes are a stack."""
    f, s = _vectors(f, s)
    *lead, n = shape_of(f)
    if shape_of(s)[-1] != n - 1:
        raise ValueError(
            "Incorrect lengths for f and s. The length of s along the last axis must be one less than the length of f."
        )
    full = (*lead, n, n)
    return scatter(f, (..., 0, slice(None)), full) + scatter(s, (..., np.arange(1, n), np.arange(n - 1)), full)


def convolution_matrix(a: Any, n: int, mode: str = "full") -> Value:
    """The matrix that convolves a vector of length n with a. Leading axes are a stack."""
    (a,) = _vectors(a)
    m = shape_of(a)[-1]
    if n <= 0 or mode not in ("full", "same", "valid"):
        raise ValueError("n must be a positive integer, and mode one of 'full', 'valid' and 'same'")
    i, j = _grid(m + n - 1, n)
    k = i - j
    inside = (k >= 0) & (k < m)
    full = shapes.where(inside, read(a, (..., np.where(inside, k, 0))), 0.0)
    short, long = min(m, n), max(m, n)
    start = {"full": 0, "same": (short - 1) // 2, "valid": short - 1}[mode]
    size = {"full": m + n - 1, "same": long, "valid": long - short + 1}[mode]
    return read(full, (..., slice(start, start + size), slice(None)))


def khatri_rao(a: Any, b: Any) -> Value:
    """The Kronecker products of the columns."""
    a, b = lift(a), lift(b)
    (*_, m, k), (*_, n, _) = shape_of(a), shape_of(b)
    product = read(a, (..., slice(None), None, slice(None))) * read(b, (..., None, slice(None), slice(None)))
    return shapes.reshape(product, shape=(*shape_of(product)[:-3], m * n, k))
