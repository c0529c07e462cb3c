"""NumPy's ufuncs, each as one op or written in other ops."""

from __future__ import annotations

import numpy as np

from ..core.bind import Traced, class_of, is_array
from ..core.op import Op
from ..core.types import Value, dtype_of, is_inexact, ndim_of
from ..ops import broadcast as shapes
from ..ops import elementwise as ops
from .table import UFUNCS, implements

#: An op has the name of the ufunc that it stands for.
UFUNCS.update(
    {f: op for op in vars(ops).values() if isinstance(op, Op) and isinstance(f := getattr(np, op.name, None), np.ufunc)}
)
UFUNCS.update(
    {
        np.add: ops.add,
        np.subtract: ops.sub,
        np.multiply: ops.mul,
        np.divide: ops.div,
        np.negative: ops.neg,
        np.positive: ops.pos,
        np.radians: ops.deg2rad,
        np.degrees: ops.rad2deg,
        np.conjugate: shapes.conj,
    }
)


@implements(np.power)
def ufunc_power(a: Value, b: Value) -> Value:
    """a**b; the exponent ½ is a square root to NumPy's ufunc, and to arrays: C's power of −inf is inf, its root is nan."""
    if type(b) is int and dtype_of(a).kind == "b":  # the operator has its own dtype for b**2, int8
        a = shapes.cast(a, dtype=np.dtype(int))
    return ops.sqrt(a) if _is_root(a, b) else power(a, b)


def power(a: Value, b: Value) -> Value:
    """The operator a**b; a small plain exponent that keeps the dtype takes a shortcut."""
    if class_of(a) is np.bool and type(b) is int:  # the square of an array of bools is int8, that of a scalar int64
        a = shapes.cast(a, dtype=np.dtype(int))
    if (type(b) is int and dtype_of(a).kind != "b") or (type(b) is float and is_inexact(dtype_of(a))):
        if b == 2:
            return ops.square(a)
        if b == 1:
            return ops.pos(a)
        if b != 0.5:
            return ops.power(a, b)
    if is_array(a) and _is_root(a, b):
        return ops.sqrt(a)
    return ops.power(_complex_base(a, b), b)


def _complex_base(a: Value, b: Value) -> Value:
    """The base of a power: complex if the exponent is, since the derivative has its logarithm, and it may be negative."""
    if dtype_of(b).kind != "c" or dtype_of(a).kind == "c":
        return a
    if class_of(a) in (int, float):
        return a + 0j  # still weak in promotion
    return shapes.cast(a, dtype=np.result_type(dtype_of(a), 1j if class_of(b) is complex else dtype_of(b)))


def _is_root(a: Value, b: Value) -> bool:
    """Whether a staged a**b is a square root: the exponent is ½ and does not change the dtype. On numbers NumPy decides."""
    if isinstance(b, Traced) or ndim_of(b) or b != 0.5 or not is_inexact(dtype_of(a)):
        return False
    below = a
    while isinstance(below, Traced) and below.by.has_numbers:
        below = below.underlying
    if not isinstance(below, Traced):
        return False
    return type(b) is float or (class_of(a) is not float and np.result_type(dtype_of(a), dtype_of(b)) == dtype_of(a))


@implements(np.float_power)
def float_power(a: Value, b: Value) -> Value:
    wide = np.result_type(dtype_of(a), dtype_of(b), float)
    a, b = (shapes.cast(v, dtype=wide) if dtype_of(v) != wide and type(v) not in (int, float) else v for v in (a, b))
    return ops.power(_complex_base(a, b), b)


@implements(np.absolute)
def absolute(x: Value) -> Value:
    if dtype_of(x).kind == "c":
        return ops.hypot(shapes.real(x), shapes.imag(x))
    return ops.absolute(x)


@implements(np.sign)
def sign(x: Value) -> Value:
    if dtype_of(x).kind != "c":
        return ops.sign(x)
    size, re, im = absolute(x), shapes.real(x), shapes.imag(x)
    along = shapes.where(ops.isinf(re), ops.sign(re) + 0j, ops.sign(im) * 1j)
    far = shapes.where(ops.logical_and(ops.isinf(re), ops.isinf(im)), complex(np.nan, np.nan), along)
    return shapes.where(ops.isinf(size), far, ops.safe_ratio(x, shapes.where(ops.isinf(size), 1.0, size)))


@implements(np.divmod)
def divmod_(a: Value, b: Value) -> tuple[Value, Value]:
    return ops.floor_divide(a, b), ops.remainder(a, b)


@implements(np.modf)
def modf(x: Value) -> tuple[Value, Value]:
    return ops.fraction(x), ops.whole(x)


@implements(np.frexp)
def frexp(x: Value) -> tuple[Value, Value]:
    return ops.mantissa(x), ops.exponent(x)
