"""Arithmetic, elementary functions, rounding and integers in terms of other ops.

log1p(x)     = log(1 + x) · x / ((1 + x) − 1)                  exact to a few ulp, near 0 too
sinh(x)      = (e + e/(e + 1))/2 with e = expm1(x)
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...api.control import while_loop
from ...compiler.llvm.vecmath import coefficients as table
from ...core.op import Op
from ...core.types import Value, dtype_of, ndim_of, shape_of
from ...ops import broadcast, integer
from ...ops import elementwise as ew
from ...ops.broadcast import broadcast_to, cast, where
from ...ops.elementwise import (
    absolute,
    copysign,
    equal,
    exp,
    expm1,
    floor,
    floor_divide,
    greater,
    greater_equal,
    isinf,
    isnan,
    ldexp,
    less,
    log,
    log1p,
    logical_and,
    logical_not,
    logical_or,
    maximum,
    minimum,
    mul,
    not_equal,
    power,
    rint,
    signbit,
    sin,
    sqrt,
    trunc,
)
from ...ops.integer import right_shift
from ...ops.reduce import any_
from .numerics import Expansion, horner, integers, kind_of, of_truths

# -- products, choices, truths ----------------------------------------------------------------------------------


def _strong_mul(g: Value, p: Value) -> Value:
    return where(equal(g, 0), np.zeros((), dtype_of(g)), mul(g, p))


def _strong_mul_either(a: Value, b: Value) -> Value:
    return where(logical_or(equal(a, 0), equal(b, 0)), np.zeros((), dtype_of(a)), mul(a, b))


def _choose(c: Value, a: Value, b: Value) -> Value:
    """where, of truths."""
    return logical_or(logical_and(c, a), logical_and(logical_not(c), b))


def _maximum(a: Value, b: Value) -> Value:
    if kind_of(a) == "b":
        return logical_or(a, b)
    return where(logical_or(greater(a, b), isnan(a)), a, b)


def _minimum(a: Value, b: Value) -> Value:
    if kind_of(a) == "b":
        return logical_and(a, b)
    return where(logical_or(less(a, b), isnan(a)), a, b)


def _signbit(x: Value) -> Value:
    """The sign of a zero is that of its reciprocal; that of a nan is not seen."""
    return logical_or(less(x, 0), logical_and(equal(x, 0), less(1 / x, 0)))


# -- exponentials, logarithms, powers ---------------------------------------------------------------------------


def _expm1(x: Value) -> Value:
    """After Kahan: the error of u = exp(x) cancels in (u − 1)·x/log(u)."""
    u = exp(x)
    near = less(absolute(x), 1)
    safe = where(logical_and(near, not_equal(u, 1)), u, 2.0)
    return where(near, where(equal(u, 1), x, (safe - 1) * x / log(safe)), u - 1)


def _log1p(x: Value) -> Value:
    u = 1 + x
    exact = logical_or(equal(u, 1), isinf(u))
    near = less(absolute(x), 1)
    safe = where(logical_and(near, logical_not(exact)), u, 2.0)
    return where(near, where(equal(u, 1), x, log(safe) * (x / (safe - 1))), log(u))


def _logaddexp(a: Value, b: Value) -> Value:
    same = equal(a, b)  # two equal infinities have no difference
    gap = where(same, 0.0, absolute(a - b))
    return maximum(a, b) + log1p(exp(-gap))


def _logaddexp2(a: Value, b: Value) -> Value:
    gap = where(equal(a, b), 0.0, absolute(a - b))
    return maximum(a, b) + log1p(ew.exp2(-gap)) / math.log(2)


def _hypot(a: Value, b: Value) -> Value:
    a, b = absolute(a), absolute(b)
    large, small = maximum(a, b), minimum(a, b)
    plain = logical_and(greater(large, 0), less(large, math.inf))
    ratio = small / where(plain, large, 1.0)
    infinite = logical_or(equal(a, math.inf), equal(b, math.inf))
    return where(infinite, math.inf, where(plain, large * sqrt(1 + ratio * ratio), large))


def _cbrt(x: Value) -> Value:
    a = absolute(x)
    plain = logical_and(greater(a, 0), less(a, math.inf))
    a1 = where(plain, a, 1.0)
    y = power(a1, 1 / 3)
    y = y - (y - a1 / (y * y)) / 3  # the third of 1/3 that is not a double
    return copysign(where(plain, y, a), x)


def _power(a: Value, b: Value) -> Value:
    """A power of integers, by squaring: an exponent has six bits that matter."""
    if kind_of(a) not in "iu":
        return NotImplemented
    one = np.ones((), dtype_of(a))
    total: Value = one
    for _ in range(6):
        half = floor_divide(b, 2)
        total = total * where(equal(b - 2 * half, 1), a, one)
        a, b = a * a, half
    return total


# -- trigonometric and hyperbolic functions ---------------------------------------------------------------------


def _arc(x: Value) -> tuple[Value, Value]:
    """(large, r) with arcsin|x| = r where |x| ≤ ½, else π/2 − 2r."""
    a = absolute(x)
    large = greater(a, 0.5)
    z = where(large, (1 - a) * 0.5, a * a)
    s = where(large, sqrt(z), a)
    return large, s + s * z * horner(z, table.ASIN_64)


def _arcsin(x: Value) -> Value:
    large, r = _arc(x)
    return copysign(where(large, math.pi / 2 - 2 * r, r), x)


def _arccos(x: Value) -> Value:
    large, r = _arc(x)
    return where(large, where(less(x, 0), math.pi - 2 * r, 2 * r), math.pi / 2 - copysign(r, x))


def _arctan(x: Value) -> Value:
    """arctan a = π/4 + arctan((a − 1)/(a + 1)) = π/2 − arctan(1/a)."""
    a = minimum(absolute(x), float(np.finfo(dtype_of(x)).max) / 4)
    bound = math.sqrt(2) - 1
    middle, large = greater(a, bound), greater(a, 1 / bound)
    t = where(large, -1 / maximum(a, 1.0), where(middle, (a - 1) / (a + 1), a))
    turn = where(large, math.pi / 2, where(middle, math.pi / 4, 0.0))
    square = t * t
    return copysign(turn + (t + t * square * horner(square, table.ATAN_64)), x)


def _arctan2(y: Value, x: Value) -> Value:
    a, b = absolute(y), absolute(x)
    infinite = logical_and(isinf(a), isinf(b))
    steep = greater(a, b)
    large, small = where(steep, a, b), where(steep, b, a)
    ratio = where(infinite, 1.0, where(equal(large, 0), 0.0, small / where(equal(large, 0), 1.0, large)))
    angle = ew.arctan(ratio)
    angle = where(steep, math.pi / 2 - angle, angle)
    angle = where(signbit(x), math.pi - angle, angle)
    return where(logical_or(isnan(x), isnan(y)), math.nan, copysign(angle, y))


def _sinh(x: Value) -> Value:
    a = absolute(x)
    e = expm1(minimum(a, 20.0))
    half = exp(a / 2)
    return where(isnan(x), x, copysign(where(greater(a, 20.0), 0.5 * half * half, 0.5 * (e + e / (e + 1))), x))


def _cosh(x: Value) -> Value:
    half = exp(absolute(x) / 2)
    return 0.5 * half * half + 0.5 / (half * half)


def _far(x: Value) -> Value:
    """Where the square is beyond the format, and 1 does not count beside it."""
    return greater(x, float(np.sqrt(np.finfo(dtype_of(x)).max)) / 4)


def _arcsinh(x: Value) -> Value:
    a = absolute(x)
    far = _far(a)
    b = where(far, 1.0, a)
    return copysign(where(far, log(a) + math.log(2), log1p(b + b * b / (1 + sqrt(b * b + 1)))), x)


def _arccosh(x: Value) -> Value:
    far = _far(x)
    t = where(logical_or(far, less(x, 1)), 1.0, x) - 1
    return where(less(x, 1), math.nan, where(far, log(x) + math.log(2), log1p(t + sqrt(2 * t + t * t))))


# -- rounding and remainders ------------------------------------------------------------------------------------


def _trunc(x: Value) -> Value:
    return x if kind_of(x) in "biu" else where(signbit(x), -floor(-x), floor(x))


def _unless_whole(op: Op) -> Expansion:
    """The rounding of an integer is itself; of a float, the target's."""
    return lambda x: x if kind_of(x) in "biu" else op(x)


def _fmod(a: Value, b: Value) -> Value:
    if kind_of(a) not in "iu":
        return NotImplemented
    r = ew.remainder(absolute(a), absolute(b))
    return where(less(a, 0), -r, r)


def _remainder(a: Value, b: Value) -> Value:
    if kind_of(a) in "iu":
        return where(equal(b, 0), np.zeros((), dtype_of(a)), a - floor_divide(a, b) * b)
    r = ew.fmod(a, b)
    shifted = where(logical_and(not_equal(r, 0), not_equal(less(b, 0), less(r, 0))), r + b, r)
    return where(equal(shifted, 0), copysign(np.zeros((), dtype_of(a)), b), shifted)


def _floor_divide(a: Value, b: Value) -> Value:
    """As NumPy: the quotient without the remainder, rounded to a whole number."""
    r = ew.fmod(a, b)
    quotient = (a - r) / b
    quotient = where(logical_and(not_equal(r, 0), not_equal(less(b, 0), less(r, 0))), quotient - 1, quotient)
    whole = floor(quotient)
    whole = where(greater(quotient - whole, 0.5), whole + 1, whole)
    return where(equal(b, 0), a / b, where(equal(quotient, 0), copysign(np.zeros((), dtype_of(a)), a / b), whole))


def _round_to(x: Value, *, decimals: int) -> Value:
    if kind_of(x) in "biu" and decimals >= 0:
        return x
    scale = 10.0 ** abs(decimals)
    return rint(x * scale) / scale if decimals >= 0 else rint(x / scale) * scale


def _parts(x: Value) -> tuple[Value, Value]:
    """The mantissa and the exponent of a float: x = m·2ᵉ with ½ ≤ |m| < 1. The logarithm is right but for one step."""
    plain = logical_and(not_equal(x, 0), less(absolute(x), math.inf))
    tiny = less(absolute(x), 2.0**-100)
    y = where(plain, where(tiny, x * 2.0**100, x), 0.5)
    e = floor(ew.log2(absolute(y))) + 1
    m = ldexp(y, integers(-e))
    for _ in range(2):
        up, down = greater_equal(absolute(m), 1), less(absolute(m), 0.5)
        m = where(up, m * 0.5, where(down, m * 2.0, m))
        e = where(up, e + 1, where(down, e - 1, e))
    return where(plain, m, x), where(plain, where(tiny, e - 100, e), 0.0)


def _ldexp(x: Value, n: Value) -> Value:
    """In three steps, so that no power of two is beyond the format."""
    dtype = dtype_of(x)
    most = 3 * (int(np.finfo(dtype).maxexp) - 2)
    n = minimum(maximum(integers(n), -most), most)
    third = floor_divide(n, 3)
    small, rest = (power(np.asarray(2, dtype), cast(k, dtype=dtype)) for k in (third, n - 2 * third))
    return x * small * small * rest


# -- integers ---------------------------------------------------------------------------------------------------


def _gcd(a: Value, b: Value) -> Value:
    a, b = (broadcast_to(absolute(x), shape=np.broadcast_shapes(shape_of(a), shape_of(b))) for x in (a, b))
    axes = tuple(range(ndim_of(a)))

    def step(pair: Any) -> Any:
        a, b = pair
        done = equal(b, 0)
        return where(done, a, b), where(done, b, ew.remainder(a, where(done, np.ones((), dtype_of(b)), b)))

    return while_loop(lambda pair: any_(not_equal(pair[1], 0), axis=axes, keepdims=False), step, (a, b))[0]


def _lcm(a: Value, b: Value) -> Value:
    divisor = integer.gcd(a, b)
    one = np.ones((), dtype_of(a))
    return absolute(floor_divide(a, where(equal(divisor, 0), one, divisor)) * b)


def _in_32_bits(op: Op) -> Expansion:
    """A shift of small integers: what reaches beyond their bits is cut off."""

    def expansion(x: Value, n: Value) -> Any:
        small = all(kind_of(v) in "iu" and dtype_of(v).itemsize < 4 for v in (x, n))
        return op(*(cast(v, dtype=np.dtype(np.int32)) for v in (x, n))) if small else NotImplemented

    return expansion


def _bitwise_count(x: Value) -> Value:
    """Of the magnitude, as in NumPy: sums of neighbouring bits, then of neighbouring sums; 32 bits at a time."""
    x = absolute(x) if kind_of(x) == "i" else x
    dtype = dtype_of(x)
    if dtype.itemsize < 8:
        return _bits_in_half(ew.bitwise_and(integers(x), np.int64(256**dtype.itemsize - 1)))
    halves = (ew.bitwise_and(half, dtype.type(2**32 - 1)) for half in (x, right_shift(x, dtype.type(32))))
    low, high = (_bits_in_half(integers(half)) for half in halves)
    return low + high


def _bits_in_half(x: Value) -> Value:
    for bits, mask in ((1, 0x55555555), (2, 0x33333333), (4, 0x0F0F0F0F), (8, 0x00FF00FF), (16, 0x0000FFFF)):
        x = ew.bitwise_and(x, np.int64(mask)) + ew.bitwise_and(right_shift(x, np.int64(bits)), np.int64(mask))
    return x


EXPANSIONS: dict[Op, Expansion] = {
    ew.strong_mul_op: _strong_mul,
    ew.strong_mul_either_op: _strong_mul_either,
    ew.ieee_mul: mul,
    ew.add: of_truths(logical_or),
    ew.mul: of_truths(logical_and),
    where: lambda c, a, b: _choose(c, a, b) if kind_of(a) == "b" else NotImplemented,
    ew.maximum: _maximum,
    ew.minimum: _minimum,
    ew.absolute: lambda x: x if kind_of(x) in "bu" else where(less(x, 0), -x, x),
    ew.signbit: _signbit,
    ew.isnan: lambda x: not_equal(x, x),
    ew.bitwise_and: of_truths(logical_and),
    ew.bitwise_or: of_truths(logical_or),
    ew.bitwise_xor: of_truths(ew.logical_xor),
    ew.invert: of_truths(logical_not),
    ew.not_equal: of_truths(lambda a, b: logical_not(equal(a, b))),
    ew.less: of_truths(lambda a, b: logical_and(logical_not(a), b)),
    ew.less_equal: of_truths(lambda a, b: logical_or(logical_not(a), b)),
    ew.greater: of_truths(lambda a, b: logical_and(a, logical_not(b))),
    ew.greater_equal: of_truths(lambda a, b: logical_or(a, logical_not(b))),
    ew.expm1: _expm1,
    ew.log1p: _log1p,
    ew.exp2: lambda x: power(np.asarray(2, dtype_of(x)), x),
    ew.log2: lambda x: log(x) / math.log(2),
    ew.log10: lambda x: log(x) / math.log(10),
    ew.expit: lambda x: 1 / (1 + exp(-x)),
    ew.logaddexp: _logaddexp,
    ew.logaddexp2: _logaddexp2,
    ew.hypot: _hypot,
    ew.cbrt: _cbrt,
    ew.power: _power,
    ew.tan: lambda x: sin(x) / ew.cos(x),
    ew.arcsin: _arcsin,
    ew.arccos: _arccos,
    ew.arctan: _arctan,
    ew.arctan2: _arctan2,
    ew.sinh: _sinh,
    ew.cosh: _cosh,
    ew.arcsinh: _arcsinh,
    ew.arccosh: _arccosh,
    ew.arctanh: lambda x: 0.5 * log1p(2 * x / (1 - x)),
    ew.floor: _unless_whole(floor),
    ew.ceil: _unless_whole(ew.ceil),
    ew.rint: _unless_whole(rint),
    ew.trunc: _trunc,
    ew.fmod: _fmod,
    ew.remainder: _remainder,
    ew.floor_divide: _floor_divide,
    ew.rounded: _round_to,
    ew.mantissa: lambda x: _parts(x)[0],
    ew.exponent: lambda x: _parts(x)[1],
    ew.ldexp: _ldexp,
    ew.truncate: lambda x, *, dtype: cast(trunc(x) if kind_of(x) == "f" and dtype.kind in "iu" else x, dtype=dtype),
    integer.gcd: _gcd,
    integer.lcm: _lcm,
    integer.bitwise_count: _bitwise_count,
    integer.left_shift: _in_32_bits(integer.left_shift),
    integer.right_shift: _in_32_bits(integer.right_shift),
    broadcast.real: lambda x: x,
    broadcast.imag: lambda x: NotImplemented if kind_of(x) == "c" else x * 0,
    broadcast.conj: lambda x: NotImplemented if kind_of(x) == "c" else x,
}

__all__ = ["EXPANSIONS"]
