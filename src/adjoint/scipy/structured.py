"""Matrices made of vectors: Toeplitz, circulant, Hankel, block diagonal. Each element is read by its index."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.types import Value, dtype_of, ndim_of, shape_of
from ..numpy.table import lift
from ..ops import broadcast as shapes
from ..ops.index import read, scatter
from ..ops.shape import concatenate


def _vector(x: Any) -> Value:
    x = lift(x)
    n = int(np.prod(shape_of(x)))
    return x if ndim_of(x) == 1 else shapes.reshape(x, shape=(n,))


def _tail(x: Value) -> Value:
    return read(x, slice(1, None))


def _grid(rows: int, columns: int) -> tuple[Any, Any]:
    return np.arange(rows)[:, None], np.arange(columns)[None, :]


def toeplitz(c: Any, r: Any = None) -> Value:
    """c down the first column, r along the first row, constant diagonals."""
    c = _vector(c)
    r = np.conjugate(c) if r is None and dtype_of(c).kind == "c" else c if r is None else _vector(r)
    i, j = _grid(shape_of(c)[0], shape_of(r)[0])
    values = concatenate(c, _tail(r), axis=0)
    return read(values, np.where(i >= j, i - j, shape_of(c)[0] - 1 + j - i))


def circulant(c: Any) -> Value:
    """Each column is the one before, turned by one. Leading axes are a stack."""
    c = lift(c)
    n = shape_of(c)[-1]
    i, j = _grid(n, n)
    return read(c, (..., (i - j) % n))


def hankel(c: Any, r: Any = None) -> Value:
    """c down the first column, r along the last row, constant antidiagonals."""
    c = _vector(c)
    i, j = _grid(shape_of(c)[0], shape_of(c)[0] if r is None else shape_of(_vector(r))[0])
    rest = np.zeros(shape_of(c)[0] - 1, dtype_of(c)) if r is None else _tail(_vector(r))
    return read(concatenate(c, rest, axis=0), i + j)


def block_diag(*arrs: Any) -> Value:
    blocks = [lift(a) for a in arrs] or [np.empty((1, 0))]
    blocks = [b if ndim_of(b) == 2 else shapes.reshape(b, shape=(1, int(np.prod(shape_of(b))))) for b in blocks]
    width = sum(shape_of(b)[1] for b in blocks)
    strips, start = [], 0
    for block in blocks:
        m, n = shape_of(block)
        before, after = np.zeros((m, start), dtype_of(block)), np.zeros((m, width - start - n), dtype_of(block))
        strips.append(concatenate(before, block, after, axis=1))
        start += n
    return concatenate(*strips, axis=0)


def companion(a: Any) -> Value:
    """The matrix whose eigenvalues are the roots of a polynomial with coefficients a."""
    a = lift(a)
    n = shape_of(a)[0] - 1
    top = -_tail(a) / read(a, 0)
    return concatenate(shapes.reshape(top, shape=(1, n)), np.eye(n - 1, n), axis=0)


def leslie(f: Any, s: Any) -> Value:
    """Fecundities in the first row, survival rates below the diagonal."""
    f, s = lift(f), lift(s)
    n = shape_of(f)[0]
    return scatter(f, (0, slice(None)), (n, n)) + scatter(s, (np.arange(1, n), np.arange(n - 1)), (n, n))


def convolution_matrix(a: Any, n: int, mode: str = "full") -> Value:
    """The matrix that convolves a vector of length n with a."""
    a = _vector(a)
    m = shape_of(a)[0]
    if n <= 0 or mode not in ("full", "same", "valid"):
        raise ValueError("n must be a positive integer, and mode one of 'full', 'valid' and 'same'")
    i, j = _grid(m + n - 1, n)
    k = i - j
    inside = (k >= 0) & (k < m)
    full = shapes.where(inside, read(a, np.where(inside, k, 0)), 0.0)
    short, long = min(m, n), max(m, n)
    start = {"full": 0, "same": (short - 1) // 2, "valid": short - 1}[mode]
    size = {"full": m + n - 1, "same": long, "valid": long - short + 1}[mode]
    return read(full, slice(start, start + size))


def khatri_rao(a: Any, b: Any) -> Value:
    """The Kronecker products of the columns."""
    a, b = lift(a), lift(b)
    (*_, m, k), (*_, n, _) = shape_of(a), shape_of(b)
    product = read(a, (..., slice(None), None, slice(None))) * read(b, (..., None, slice(None), slice(None)))
    return shapes.reshape(product, shape=(*shape_of(product)[:-3], m * n, k))
