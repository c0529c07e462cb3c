"""Linear algebra as loops over columns.

    cholesky       column by column: l_j = (a_j − l lᴴ_j) / √(its diagonal element)
    lu, solve, …   Gaussian elimination with the pivots of LAPACK; a solution goes along as further columns
    qr             Householder reflections with the signs of LAPACK

An index that changes with the iteration is a row of the identity matrix, a mask: selecting is `where` and a sum. So stacks of
matrices need nothing else, and what is not selected, nan too, does not count. What NumPy refuses (a singular matrix, one that is
not positive) gives nan or infinities. For small matrices: n loops over n² elements.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...api.control import scan
from ...core.op import Op
from ...core.types import Value, dtype_of, ndim_of, shape_of
from ...ops import decompose, determinant, gaps, matrix, matrix_functions, solve
from ...ops.broadcast import broadcast_to, cast, conj, expand_dims, imag, real, reshape, sum_, where
from ...ops.elementwise import absolute, copysign, equal, greater, hypot, less_equal, log, logical_and, not_equal, sqrt
from ...ops.index import getitem
from ...ops.linalg import matmul, swap
from ...ops.matrix import dagger, diagonal_of, triangle
from ...ops.reduce import any_, argmax, max_, prod
from ...ops.shape import concatenate

INT32, INT64 = np.dtype(np.int32), np.dtype(np.int64)


def _zero(x: Value) -> Any:
    return np.zeros((), dtype_of(x))


def _selected(x: Value, mask: Value, axis: int, keepdims: bool = False) -> Value:
    """The element along an axis at which a mask is true."""
    return sum_(where(mask, x, _zero(x)), axis=(ndim_of(x) + axis,), keepdims=keepdims)


def _row(x: Value, at: Value) -> Value:
    return _selected(x, expand_dims(at, (ndim_of(at),)), -2)


def _with_row(x: Value, at: Value, row: Value) -> Value:
    return where(expand_dims(at, (ndim_of(at),)), expand_dims(row, (ndim_of(row) - 1,)), x)


def _outer(a: Value, b: Value) -> Value:
    return expand_dims(a, (ndim_of(a),)) * expand_dims(b, (ndim_of(b) - 1,))


def _apply(a: Value, x: Value) -> Value:
    """A matrix times a vector, in stacks."""
    y = matmul(a, expand_dims(x, (ndim_of(x),)))
    return reshape(y, shape=shape_of(y)[:-1])


def _masks(n: int, rows: int | None = None) -> tuple[Any, Any]:
    """For each iteration k: the mask of k, and the mask of the indices after k."""
    m = n if rows is None else rows
    return np.eye(n, m, dtype=bool), np.arange(m) > np.arange(n)[:, None]


def _real(x: Value) -> Value:
    return real(x) if dtype_of(x).kind == "c" else x


def _conjugate(x: Value) -> Value:
    return conj(x) if dtype_of(x).kind == "c" else x


# -- positive matrices ------------------------------------------------------------------------------------------


def _cholesky(a: Value) -> Value:
    n = shape_of(a)[-1]

    def column(factor: Value, masks: Any) -> Any:
        at, behind = masks
        rest = _selected(a, at, -1) - _apply(factor, _conjugate(_row(factor, at)))
        pivot = sqrt(_real(_selected(rest, at, -1, keepdims=True)))
        rest = where(behind, rest / pivot, where(at, cast(pivot, dtype=dtype_of(a)), _zero(a)))
        return where(at, expand_dims(rest, (ndim_of(rest),)), factor), ()

    return scan(column, np.zeros(shape_of(a), dtype_of(a)), _masks(n))[0] if n else a


def _cholesky_pullback(l: Value, g: Value) -> Value:  # noqa: E741
    """p = l⁻ᵀ (s + sᴴ) l̄⁻¹, where s is the lower triangle of lᵀ g with half of its diagonal."""
    n = shape_of(l)[-1]
    low = where(triangle(n, True, l) != 0, l, _zero(l))
    s = triangle(n, True, l, 0.5) * matmul(swap(low), g)
    half = solve.triangular_solve(l, s, lower=True, transposed=True)
    whole = dagger(solve.triangular_solve(l, dagger(half), lower=True, transposed=True))
    return whole + dagger(whole)


def _hermitian(a: Value, *, lower: bool) -> Value:
    weights = triangle(shape_of(a)[-1], lower, a, diagonal=0.5)
    half = where(weights != 0, weights * a, _zero(a))
    return half + dagger(half)


def _is_hermitian(a: Value) -> Value:
    """Equal to its adjoint, or as near as the square root of the precision."""
    if not shape_of(a)[-1]:
        return np.ones((*shape_of(a)[:-2], 1, 1), bool)
    other = dagger(a)
    axes = (ndim_of(a) - 2, ndim_of(a) - 1)
    difference = a - other
    sizes = [hypot(real(x), imag(x)) if dtype_of(a).kind == "c" else absolute(x) for x in (a, difference)]
    slack = float(np.sqrt(np.finfo(dtype_of(a)).eps))
    near = sizes[1] <= slack * np.max(sizes[0], axis=axes, keepdims=True)
    return np.all(np.logical_or(equal(a, other), near), axis=axes, keepdims=True)


# -- triangular matrices, elimination ---------------------------------------------------------------------------


def _triangular_solve(a: Value, b: Value, *, lower: bool, transposed: bool) -> Value:
    """One row of the solution after the other, from the corner."""
    n = shape_of(a)[-1]
    if not n:
        return b
    a = where(triangle(n, lower, a) != 0, a, _zero(a))
    if transposed:
        a, lower = swap(a), not lower
    lead = np.broadcast_shapes(shape_of(a)[:-2], shape_of(b)[:-2])
    b = broadcast_to(b, shape=(*lead, *shape_of(b)[-2:]))

    def row(x: Value, masks: Any) -> Any:
        at, _ = masks
        coefficients = _row(a, at)
        known = reshape(matmul(expand_dims(coefficients, (ndim_of(coefficients) - 1,)), x), shape=(*lead, shape_of(b)[-1]))
        pivot = _selected(coefficients, at, -1, keepdims=True)
        return _with_row(x, at, (_row(b, at) - known) / pivot), ()

    start = np.zeros(shape_of(b), np.result_type(dtype_of(a), dtype_of(b)))
    return scan(row, start, _masks(n), reverse=not lower)[0]


def _eliminated(a: Value, n: int) -> tuple[Value, Value]:
    """A matrix after elimination of its first n columns, with the multipliers below the diagonal, and the rows of the pivots."""
    width = shape_of(a)[-1]
    rows, columns = _masks(n), _masks(n, width)

    def step(a: Value, masks: Any) -> Any:
        (at, behind), (column_at, column_behind) = masks
        column = _selected(a, column_at, -1)
        size = absolute(_real(column)) + absolute(imag(column)) if dtype_of(a).kind == "c" else absolute(column)
        ahead = np.logical_or(at, behind)
        pivot = argmax(where(ahead, size, np.full((), -1, dtype_of(size))), axis=ndim_of(size) - 1)
        chosen = equal(expand_dims(pivot, (ndim_of(pivot),)), np.arange(n))
        upper, lower = _row(a, chosen), _row(a, at)
        a = _with_row(_with_row(a, chosen, lower), at, upper)
        top = _selected(upper, column_at, -1, keepdims=True)
        none = equal(top, 0)
        factors = where(behind, _selected(a, column_at, -1) / where(none, np.ones((), dtype_of(a)), top), _zero(a))
        a = a - _outer(factors, where(column_behind, upper, _zero(a)))
        below = logical_and(expand_dims(behind, (1,)), expand_dims(column_at, (0,)))
        return where(below, expand_dims(factors, (ndim_of(factors),)), a), pivot

    made, pivots = scan(step, a, (rows, columns))
    return made, np.moveaxis(pivots, 0, -1)


def _lu(a: Value) -> tuple[Value, Value]:
    made, pivots = _eliminated(a, shape_of(a)[-1])
    return made, cast(pivots, dtype=INT32)


def _permutation(pivots: Value) -> Value:
    """The exchanges, one after the other, of the numbers of the rows."""
    n = shape_of(pivots)[-1]
    pivots = cast(pivots, dtype=INT64)

    def exchange(order: Value, row: Any) -> Any:
        at, pivot = row
        other = equal(expand_dims(pivot, (ndim_of(pivot),)), np.arange(n))
        mine, theirs = _selected(order, at, -1, True), _selected(order, other, -1, True)
        return where(at, theirs, where(other, mine, order)), ()

    start = np.broadcast_to(np.arange(n), shape_of(pivots)).copy()
    return scan(exchange, start, (np.eye(n, dtype=bool), np.moveaxis(pivots, -1, 0)))[0] if n else start


def _solve(a: Value, b: Value) -> Value:
    n, width = shape_of(a)[-1], shape_of(b)[-1]
    lead = np.broadcast_shapes(shape_of(a)[:-2], shape_of(b)[:-2])
    if not n or not width or not math.prod(lead):
        return b
    dtype = np.result_type(dtype_of(a), dtype_of(b))
    both = [broadcast_to(cast(x, dtype=dtype), shape=(*lead, *shape_of(x)[-2:])) for x in (a, b)]
    made, _ = _eliminated(concatenate(*both, axis=len(lead) + 1), n)
    every = (slice(None),) * (len(lead) + 1)
    u, rest = getitem(made, spec=(*every, slice(0, n))), getitem(made, spec=(*every, slice(n, n + width)))
    return solve.triangular_solve(u, rest, lower=False, transposed=False)


def _inv(a: Value, *, strict: bool) -> Value:
    n = shape_of(a)[-1]
    if not n:
        return a
    found = _solve(a, np.eye(n, dtype=dtype_of(a)))
    return found if strict else where(equal(found - found, 0), found, np.full((), np.nan, dtype_of(a)))


def _pivot_parts(a: Value) -> tuple[Value, Value]:
    """The diagonal after elimination, and −1 for an odd number of exchanges."""
    n = shape_of(a)[-1]
    made, pivots = _eliminated(a, n)
    moved = not_equal(pivots, np.arange(n))
    signs = where(moved, -np.ones((), dtype_of(a)), np.ones((), dtype_of(a)))
    return diagonal_of(made), prod(signs, axis=ndim_of(signs) - 1)


def _det(a: Value) -> Value:
    if not shape_of(a)[-1]:
        return np.ones(shape_of(a)[:-2], dtype_of(a))
    diagonal, sign = _pivot_parts(a)
    return prod(diagonal, axis=ndim_of(diagonal) - 1) * sign


def _slogdet(a: Value) -> Any:
    real_dtype = np.empty((), dtype_of(a)).real.dtype
    if not shape_of(a)[-1]:
        return np.ones(shape_of(a)[:-2], dtype_of(a)), np.zeros(shape_of(a)[:-2], real_dtype)
    diagonal, sign = _pivot_parts(a)
    last = ndim_of(diagonal) - 1
    sizes, none = absolute(diagonal), equal(diagonal, 0)
    if dtype_of(a).kind == "c":
        directions = diagonal / where(none, np.ones((), real_dtype), sizes)
    else:
        directions = where(greater(diagonal, 0), np.ones((), real_dtype), -np.ones((), real_dtype))
    signs = where(none, _zero(a), directions)
    return prod(signs, axis=last) * sign, sum_(log(sizes), axis=(last,), keepdims=False)


# -- orthogonal matrices ----------------------------------------------------------------------------------------


def _qr(a: Value, *, complete: bool) -> Any:
    if dtype_of(a).kind == "c":
        return NotImplemented
    m, n = shape_of(a)[-2:]
    k = min(m, n)
    lead = shape_of(a)[:-2]
    if not k:
        size = m if complete else 0
        return np.broadcast_to(np.eye(m, size, dtype=dtype_of(a)), (*lead, m, size)).copy(), np.zeros(
            (*lead, size, n), dtype_of(a)
        )

    def reflect(carry: Any, masks: Any) -> Any:
        q, r = carry
        (at, behind), column_at = masks
        column = _selected(r, column_at, -1)
        first = _selected(column, at, -1, True)
        rest = where(behind, column, _zero(a))
        length = sqrt(sum_(rest * rest, axis=(ndim_of(rest) - 1,), keepdims=True))
        none = equal(length, 0)
        beta = where(none, first, -copysign(hypot(first, length), first))
        safe = where(none, np.ones((), dtype_of(a)), first - beta)
        v = where(at, np.ones((), dtype_of(a)), rest / safe)
        tau = where(none, _zero(a), (beta - first) / where(equal(beta, 0), np.ones((), dtype_of(a)), beta))
        r = r - _outer(tau * v, _apply(swap(r), v))
        q = q - _outer(_apply(q, v), tau * v)
        return (q, r), ()

    start = np.broadcast_to(np.eye(m, dtype=dtype_of(a)), (*lead, m, m)).copy()
    q, r = scan(reflect, (start, a), (_masks(k, m), np.eye(k, n, dtype=bool)))[0]
    size = m if complete else k
    every = (slice(None),) * len(lead)
    upper = np.triu(np.ones((m, n), bool))
    r = where(upper, r, _zero(a))
    return getitem(q, spec=(*every, slice(None), slice(0, size))), getitem(r, spec=(*every, slice(0, size)))


# -- gaps between eigenvalues, whose implementations are functions of NumPy that adjoint has, too ----------------------------


def _negligible(w: Value, *, sign: int) -> Value:
    size = expand_dims(sum_(absolute(w), axis=(ndim_of(w) - 1,), keepdims=True), (ndim_of(w),))
    return less_equal(absolute(_pairs(w, sign)), 8 * float(np.finfo(dtype_of(w)).eps) * size)


def _pairs(w: Value, sign: int) -> Value:
    return expand_dims(w, (ndim_of(w) - 1,)) + sign * expand_dims(w, (ndim_of(w),))


def _told_apart(g: Value, w: Value) -> Value:
    largest = expand_dims(max_(absolute(g), axis=(ndim_of(g) - 1,), keepdims=True), (ndim_of(g),))
    differ = greater(absolute(_pairs(g, -1)), 8 * float(np.finfo(dtype_of(g)).eps) ** 0.5 * largest)
    both = logical_and(gaps.negligible(w, sign=-1), differ)
    return any_(both, axis=(ndim_of(both) - 1,), keepdims=False)


EXPANSIONS: dict[Op, Any] = {
    **{
        op: op.impl for op in (gaps.splitting, gaps.gap_splitting, gaps.crowded, gaps.cancelled, gaps.magnitude, gaps.first_order)
    },
    gaps.negligible: _negligible,
    gaps.told_apart: _told_apart,
    decompose.cholesky: _cholesky,
    decompose.cholesky_pullback: _cholesky_pullback,
    decompose.qr: _qr,
    matrix.hermitian: _hermitian,
    matrix.is_hermitian: _is_hermitian,
    solve.triangular_solve: _triangular_solve,
    solve.solve: _solve,
    solve.inv: _inv,
    matrix_functions.lu: _lu,
    matrix_functions.permutation: _permutation,
    determinant.det: _det,
    determinant.slogdet: _slogdet,
}
