"""The Euclidean norm. Its slope at 0 is taken as 0, the mean over all directions.

The squares of large numbers overflow, and those of small ones underflow: then the norm is inf or 0, and its slope nan.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.op import case
from ..core.types import Shape, Value, shape_of
from .broadcast import spread, sum_, where
from .declare import opaque
from .elementwise import equal, isinf, logical_or, strong_mul, strong_mul_either
from .matrix import conjugate, real_part


def _norm(x: Any, *, axis: Shape, keepdims: bool) -> Any:
    x = np.asarray(x)
    if len(axis) == x.ndim and not keepdims:  # one pass, without an array of squares
        flat = x.ravel("K")
        return np.sqrt(np.vdot(flat, flat).real)
    squares: Any = np.square(x.real) + np.square(x.imag) if x.dtype.kind == "c" else np.square(x)
    return np.sqrt(np.sum(squares, axis=axis, keepdims=keepdims))


def _norm_jvp(ts: Any, y: Value, x: Value, *, axis: Shape, keepdims: bool) -> Value:
    slope = _slope(_inverse(y), x, axis, keepdims)
    return sum_(real_part(strong_mul(ts[0], slope)), axis=axis, keepdims=keepdims)


def _norm_vjp(g: Value, y: Value, x: Value, *, axis: Shape, keepdims: bool) -> Any:
    return (_slope(strong_mul(g, _inverse(y)), x, axis, keepdims),)


def _slope(weight: Value, x: Value, axis: Shape, keepdims: bool) -> Value:
    """A weight for each norm, times the elements of x."""
    if len(axis) < len(shape_of(x)) or keepdims:
        weight = spread(weight, shape_of(x), axis, keepdims)
    return strong_mul_either(weight, conjugate(x))


def _inverse(y: Value) -> Value:
    """1 / y; nan where that is no number, which the zeros of x win over."""
    lost = logical_or(equal(y, 0), isinf(y))
    return where(lost, np.nan, 1 / where(lost, 1.0, y))


norm = opaque(
    "norm",
    _norm,
    jvp=_norm_jvp,
    vjp=_norm_vjp,
    axes="axis",
    cases=[
        case((3,), axis=(0,), keepdims=False),
        case((2, 3), axis=(0, 1), keepdims=False),
        case((2, 3), axis=(1,), keepdims=True),
        case((2, 3, 2), axis=(0, 2), keepdims=False),
        case((), axis=(), keepdims=False),
        case((0,), axis=(0,), keepdims=False),
    ],
    complex_domain=True,
    python="np.sqrt(np.sum(np.abs({0}) ** 2, axis={axis}, keepdims={keepdims}))",
    finite=True,
    silent=True,
)
