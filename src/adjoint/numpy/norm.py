"""Norms of vectors and matrices, and the condition number: numpy.linalg's, in every order.

A norm has slope 0 at 0, as has a singular value where it vanishes; ties for the largest element share the cotangent equally.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core.bind import Traced
from ..core.types import Shape, Value, canonical_axes, canonical_axis, dtype_of, ndim_of, shape_of
from ..eager.dual import Dual
from ..eager.tape import Tape
from ..ops import broadcast as shapes
from ..ops import elementwise as ops
from ..ops.decompose import svd
from ..ops.matrix import real_part
from ..ops.norm import norm as euclidean
from ..ops.regular import regular
from ..ops.solve import inv
from .dropin import drop_in
from .elementwise import absolute
from .reduce import max as max_
from .reduce import min as min_
from .reduce import sum as sum_
from .shape import astype, moveaxis
from .table import lift


def _largest(x: Value, axis: Any, keepdims: bool = False) -> Value:
    """The maximum of numbers that are not negative; 0 if there are none."""
    empty = 0 in [shape_of(x)[a] for a in canonical_axes(axis, ndim_of(x))]
    return max_(x, axis, None, keepdims, **({"initial": 0} if empty else {}))


def _vector(x: Value, ord: Any, axis: Shape, keepdims: bool) -> Value:
    if isinstance(ord, str):
        raise ValueError(f"Invalid norm order '{ord}' for vectors")
    if ord is None or ord == 2:
        return euclidean(x, axis=axis, keepdims=keepdims)
    if ord == np.inf:
        return _largest(absolute(x), axis, keepdims)
    if ord == -np.inf:
        return min_(absolute(x), axis, None, keepdims)
    if ord == 0:
        one = np.ones((), dtype_of(x)).real
        return sum_(shapes.where(ops.not_equal(x, 0), one, one * 0), axis, None, None, keepdims)
    if ord == 1:
        return sum_(absolute(x), axis, None, None, keepdims)
    power = float(ord)
    total = sum_(_power(absolute(x), power), axis, None, None, keepdims)
    return _power(total, 1 / power)


def _power(x: Value, p: float) -> Value:
    """x**p for x ≥ 0; a vanishing x with p < 2 has slope 0, where x**p has none or an infinite one."""
    if p >= 2:
        return ops.power(x, p)
    zero = ops.equal(x, 0)
    return shapes.where(zero, 0.0 if p > 0 else np.inf, ops.power(shapes.where(zero, 1.0, x), p))


def singular_values(x: Value) -> Value:
    """Singular values; those that vanish up to rounding have slope 0, as |σ| has at 0."""
    _, s, _ = svd(x, full=False)
    plain = ops.stop_gradient(s)
    tiny = ops.less_equal(plain, 8 * np.finfo(dtype_of(s)).eps * sum_(plain, -1, None, None, True))
    return shapes.where(tiny, plain, s)


def _matrix(x: Value, ord: Any) -> Value:
    """The norm of the matrices on the last two axes."""
    if ord is None or ord in ("fro", "f"):
        return euclidean(x, axis=(ndim_of(x) - 2, ndim_of(x) - 1), keepdims=False)
    if ord == 1:
        return _largest(sum_(absolute(x), -2), -1)
    if ord == -1:
        return min_(sum_(absolute(x), -2), -1)
    if ord == np.inf:
        return _largest(sum_(absolute(x), -1), -1)
    if ord == -np.inf:
        return min_(sum_(absolute(x), -1), -1)
    if ord == "nuc":
        return sum_(singular_values(x), -1)
    if ord == 2:
        return _largest(singular_values(x), -1)
    if ord == -2:
        return min_(singular_values(x), -1)
    raise ValueError("Invalid norm order for matrices.")


def _floats(x: Any) -> Value:
    """Whole numbers as floats, whose squares do not wrap around."""
    x = lift(x)
    return x if dtype_of(x).kind in "fc" else astype(x, float)


@drop_in(np.linalg.norm)
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Value:
    x = _floats(x)
    n = ndim_of(x)
    if axis is None and (ord is None or (ord in ("f", "fro") and n == 2) or (ord == 2 and n == 1)):
        return euclidean(x, axis=tuple(range(n)), keepdims=bool(keepdims))
    if axis is not None and not isinstance(axis, tuple):
        try:
            axis = int(axis)
        except Exception as error:
            raise TypeError("'axis' must be None, an integer or a tuple of integers") from error
    if isinstance(axis, tuple) and len(axis) == 2 and canonical_axis(axis[0], n) == canonical_axis(axis[1], n):
        raise ValueError("Duplicate axes given.")
    axes = canonical_axes(axis, n)
    if len(axes) == 1:
        return _vector(x, ord, axes, bool(keepdims))
    if len(axes) != 2:
        raise ValueError("Improper number of dimensions to norm.")
    y = _matrix(x if axes == (n - 2, n - 1) else moveaxis(x, axes, (-2, -1)), ord)
    return shapes.expand_dims(y, axes) if keepdims else y


@drop_in(np.linalg.matrix_norm)
def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Value:
    return norm(x, ord, (-2, -1), keepdims)


@drop_in(np.linalg.vector_norm)
def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Value:
    x = _floats(x)
    shape = shape_of(x)
    axes = canonical_axes(axis, len(shape))
    rest = [i for i in range(len(shape)) if i not in axes]
    flat = shapes.transpose(x, axes=(*axes, *rest))
    flat = shapes.reshape(flat, shape=(math.prod(shape[i] for i in axes), *(shape[i] for i in rest)))
    y = _vector(flat, ord, (0,), False)
    return shapes.expand_dims(y, axes) if keepdims else y


@drop_in(np.linalg.cond)
def cond(x: Any, p: Any = None) -> Value:
    x = lift(x)
    if 0 in shape_of(x)[-2:]:
        raise np.linalg.LinAlgError("cond is not defined on empty arrays")
    with np.errstate(all="ignore"):
        if p is None or p in (2, -2):
            s = _singular_values(x)
            low, high = min_(s, -1), max_(s, -1)
            y = low / high if p == -2 else high / low
        elif p == "nuc":
            y = sum_(_singular_values(x), -1) * sum_(_singular_values(inv(x, strict=False)), -1)
        else:
            y = norm(x, p, (-2, -1)) * norm(inv(x, strict=False), p, (-2, -1))
    # A singular matrix has an infinite condition number, unless it contains nan.
    undefined = ops.logical_and(ops.isnan(y), ops.logical_not(ops.isnan(sum_(absolute(x), (-2, -1)))))
    return _without_slope(shapes.where(undefined, np.inf, y), x)


_NAN_RAISES = np.lib.NumpyVersion(np.__version__) < "2.5.0"


def _singular_values(x: Value) -> Value:
    """Of a matrix that is not finite they are nan, as LAPACK gives them without vectors. NumPy before 2.5 raises for nan."""
    lost = np.any(ops.isinf(x) if _NAN_RAISES else ops.logical_not(ops.isfinite(x)), axis=(-2, -1), keepdims=True)
    s = svd(shapes.where(lost, np.eye(*shape_of(x)[-2:], dtype=dtype_of(x)), x), full=False)[1]
    return shapes.where(lost[..., 0], np.array(np.nan, dtype_of(s)), s)


def _without_slope(y: Value, x: Value) -> Value:
    """Condition numbers, whose derivative is nan for matrices that are singular to working precision."""
    allowed = max(shape_of(x)[-2:]) * np.finfo(dtype_of(y)).eps
    lost = ops.logical_not(ops.logical_and(ops.less(allowed, y), ops.less(y, 1 / allowed)))  # for p = -2, y is small
    if isinstance(x, Traced) and isinstance(x.by, (Tape, Dual)):
        regular(lost, "the condition number of a singular matrix has no derivative")  # which warns
    total = sum_(shapes.where(ops.isfinite(x), real_part(x), 0.0), (-2, -1))
    zero = total - ops.stop_gradient(total)
    return shapes.where(lost, ops.stop_gradient(y) + ops.sqrt(ops.square(zero)), y)  # whose derivative at 0 is nan
