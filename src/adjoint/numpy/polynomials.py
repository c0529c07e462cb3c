"""Polynomials as arrays of coefficients, the highest power first: numpy.poly1d's family of functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.bind import fresh
from ..core.errors import BatchError, UnsupportedError
from ..core.types import Value, dtype_of, ndim_of, shape_of
from ..ops import broadcast as shapes
from ..ops import elementwise as ops
from ..ops import index as indexing
from ..ops import linalg
from ..ops import shape as joins
from ..ops.polynomial import roots as roots_
from .calculus import convolve
from .concrete import primal
from .layout import held
from .shape import astype, atleast_1d, concatenate, ravel, stack
from .table import implements, lift


def _coefficients(p: Any) -> Value:
    return atleast_1d(p.coeffs if isinstance(p, np.poly1d) else p)


@implements(np.polyval)
def polyval(p: Any, x: Any) -> Value:
    p, x = _coefficients(p), lift(x.coeffs if isinstance(x, np.poly1d) else x)
    y: Value = np.zeros(shape_of(x), np.result_type(dtype_of(x), dtype_of(p)))
    for i in range(shape_of(p)[0]):
        y = y * x + indexing.getitem(p, spec=(i,))
    return held(y, "K", x)


def _same_length(a: Value, b: Value) -> tuple[Value, Value]:
    n = max(shape_of(a)[0], shape_of(b)[0])
    longer = []
    for x in (a, b):
        missing = n - shape_of(x)[0]
        longer.append(concatenate([np.zeros(missing, dtype_of(x)), x]) if missing else x)
    return longer[0], longer[1]


@implements(np.polyadd)
def polyadd(a1: Any, a2: Any) -> Value:
    a, b = _same_length(_coefficients(a1), _coefficients(a2))
    return a + b


@implements(np.polysub)
def polysub(a1: Any, a2: Any) -> Value:
    a, b = _same_length(_coefficients(a1), _coefficients(a2))
    return a - b


@implements(np.polymul)
def polymul(a1: Any, a2: Any) -> Value:
    return convolve(_trimmed(a1), _trimmed(a2))


def _trimmed(p: Any) -> Value:
    """Without leading zeros, as poly1d has it."""
    p = _coefficients(p)
    if not shape_of(p)[0]:
        return np.zeros(1, dtype_of(p))
    try:
        nonzero = np.flatnonzero(primal(p))
    except (
        BatchError,
        UnsupportedError,
    ) as error:  # keep leading zeros: other examples of the batch, or other runs, may have none
        error.mark_handled()
        return p
    start = int(nonzero[0]) if nonzero.size else shape_of(p)[0] - 1
    return p[start:] if start else p


@implements(np.polydiv)
def polydiv(u: Any, v: Any) -> tuple[Value, Value]:
    r, v = _coefficients(u) + 0.0, _coefficients(v) + 0.0
    m, n = shape_of(r)[0] - 1, shape_of(v)[0] - 1
    scale = 1.0 / v[0]
    quotient = []
    for k in range(m - n + 1):
        d = scale * r[k]
        quotient.append(d)
        r = indexing.write(r, slice(k, k + n + 1), r[k : k + n + 1] - d * v)
    found = stack(quotient) if quotient else np.zeros(1, dtype_of(r))
    rest = primal(r)
    start = 0
    while start < m and abs(rest[start]) <= 1e-8:  # NumPy's threshold for zero
        start += 1
    return found, r[start:]


@implements(np.polyder)
def polyder(p: Any, m: int = 1) -> Value:
    m = int(m)
    if m < 0:
        raise ValueError("Order of derivative must be positive (see polyint)")
    p = _coefficients(p)
    for _ in range(m):
        p = p[:-1] * np.arange(shape_of(p)[0] - 1, 0, -1)
    return p


@implements(np.polyint)
def polyint(p: Any, m: int = 1, k: Any = None) -> Value:
    m = int(m)
    if m < 0:
        raise ValueError("Order of integral must be positive (see polyder)")
    constants = np.zeros(m) if k is None else atleast_1d(k)
    if shape_of(constants)[0] == 1 and m > 1:
        constants = shapes.broadcast_to(constants, shape=(m,))
    if shape_of(constants)[0] < m:
        raise ValueError("k must be a scalar or a rank-1 array of length 1 or >m.")
    p = _coefficients(p)
    for i in range(m):
        p = concatenate([p / np.arange(shape_of(p)[0], 0, -1), constants[i : i + 1]])
    return p


@implements(np.poly)
def poly(seq_of_zeros: Any) -> Value:
    zeros = atleast_1d(seq_of_zeros)
    if ndim_of(zeros) == 2 and shape_of(zeros)[0] == shape_of(zeros)[1] != 0:
        zeros = np.linalg.eigvals(zeros)
    elif ndim_of(zeros) != 1:
        raise ValueError("input must be 1d or non-empty square 2d array.")
    kind = np.dtype(np.mintypecode(dtype_of(zeros).char))  # a float at least
    zeros = zeros if dtype_of(zeros) == kind else astype(zeros, kind)
    p: Value = np.ones(1, kind)
    for i in range(shape_of(zeros)[0]):
        p = concatenate([p, np.zeros(1, dtype_of(p))]) - concatenate([np.zeros(1, dtype_of(p)), p * zeros[i]])
    return shapes.real(p) if dtype_of(p).kind == "c" and _in_pairs(zeros) else p


def _in_pairs(zeros: Value) -> bool:
    """Whether complex zeros come with their conjugates, so that the polynomial is real; unknown inside vmap."""
    try:
        plain = primal(zeros)
    except BatchError as error:
        error.mark_handled()
        return False
    return bool(np.all(np.sort(plain) == np.sort(plain.conjugate())))


@implements(np.roots)
def roots(p: Any) -> Value:
    """By the implicit function theorem: dr = -p(r; dp) / p'(r). A root that is not simple has no derivative."""
    p = _trimmed(p)
    if ndim_of(p) != 1:
        raise ValueError("Input must be a rank-1 array.")
    if shape_of(p)[0] < 2:
        return fresh(np.array([]))
    plain = np.roots(primal(p))
    r = roots_(p)
    return r if plain.dtype.kind == "c" else shapes.real(r)


@implements(np.vander)
def vander(x: Any, N: int | None = None, increasing: bool = False) -> Value:
    x = lift(x)
    if ndim_of(x) != 1:
        raise ValueError("x must be a one-dimensional array or sequence.")
    kind = np.promote_types(dtype_of(x), int)  # float32 becomes float64, as in NumPy
    x = astype(x, kind) if kind != dtype_of(x) else x
    n = shape_of(x)[0] if N is None else N
    if n == 0:
        return fresh(np.zeros((shape_of(x)[0], 0), dtype_of(x)))
    columns: list[Value] = [np.ones(shape_of(x), dtype_of(x))]
    for _ in range(n - 1):
        columns.append(columns[-1] * x if len(columns) > 1 else x)
    return joins.stack(*(columns if increasing else columns[::-1]), axis=1)


@implements(np.polyfit)
def polyfit(x: Any, y: Any, deg: int, rcond: Any = None, full: bool = False, w: Any = None, cov: Any = False) -> Any:
    """Least squares by the QR factors of the scaled Vandermonde matrix; of full rank, or it has no derivative."""
    if full:
        raise UnsupportedError("np.polyfit with full=True returns the rank, which has no derivative; omit it")
    x, y = lift(x) + 0.0, lift(y) + 0.0
    order = int(deg) + 1
    if deg < 0:
        raise ValueError("expected deg >= 0")
    if ndim_of(x) != 1 or not 1 <= ndim_of(y) <= 2 or shape_of(x)[0] != shape_of(y)[0]:
        raise TypeError("expected x and y to have same length")
    left, right = vander(x, order), y
    if w is not None:
        w = lift(w) + 0.0
        left = left * linalg.column(w)
        right = right * (linalg.column(w) if ndim_of(y) == 2 else w)
    scale = ops.sqrt(np.sum(left * left, axis=0))
    scaled = left / scale
    q, r = np.linalg.qr(scaled)
    c = np.linalg.solve(r, linalg.matmul(np.conj(linalg.swap(q)), linalg.column(right) if ndim_of(y) == 1 else right))
    c = c / linalg.column(scale)
    solution = ravel(c) if ndim_of(y) == 1 else c
    if not cov:
        return solution
    normal = linalg.matmul(linalg.swap(scaled), scaled) if dtype_of(scaled).kind == "c" else linalg.matmul(linalg.swap(r), r)
    inverse = np.linalg.inv(normal) / (linalg.column(scale) * linalg.row(scale))
    factor: Value = 1.0
    if cov != "unscaled":
        if shape_of(x)[0] <= order:
            raise ValueError("the number of data points must exceed order to scale the covariance matrix")
        misfit = linalg.matmul(left, c) - (linalg.column(right) if ndim_of(y) == 1 else right)
        factor = np.sum(np.real(misfit * np.conj(misfit)), axis=0) / (shape_of(x)[0] - order)
        factor = factor[0] if ndim_of(y) == 1 else factor
    return solution, inverse * factor if ndim_of(y) == 1 else shapes.expand_dims(inverse, (2,)) * factor
