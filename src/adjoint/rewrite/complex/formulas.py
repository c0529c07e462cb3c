"""Elementwise functions of complex numbers, written for their real and imaginary parts.

    z = a + bi, w = c + di        mul: (ac − bd) + (ad + bc)i

Values, infinities, nan and signed zeros are those of NumPy, which has its own formulas (a division by Smith's method) or those
of C's library. Two things follow: no product with the imaginary part 0 of a real operand may be left out, since 0·∞ is nan; and
what C defines for infinite or zero operands is chosen by `where`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ...core.op import Op
from ...core.types import Value, dtype_of
from ...ops import elementwise as ops
from ...ops.broadcast import conj, imag, real, where

Formula = Callable[..., Any]


class ComplexParts(NamedTuple):
    """A complex value: its real and its imaginary part, of one dtype."""

    re: Value
    im: Value


def _is_single(z: ComplexParts) -> bool:
    return any(dtype_of(part) == np.float32 and type(part) is not float for part in z)


# -- arithmetic -------------------------------------------------------------------------------------------------


def _mul(z: ComplexParts, w: ComplexParts) -> ComplexParts:
    return ComplexParts(z.re * w.re - z.im * w.im, z.re * w.im + z.im * w.re)


def _div(z: ComplexParts, w: ComplexParts) -> ComplexParts:
    """By Smith's method: the denominator is scaled by its larger part, and is not squared."""
    is_real = ops.greater_equal(ops.absolute(w.re), ops.absolute(w.im))  # mostly
    is_zero = ops.logical_and(ops.equal(w.re, 0.0), ops.equal(w.im, 0.0))
    large, small = where(is_real, w.re, w.im), where(is_real, w.im, w.re)
    ratio = small / large
    scale = 1.0 / where(is_zero, 0.0, large + small * ratio)
    first, second = where(is_real, z.re, z.im), where(is_real, z.im, z.re)
    across = first * ratio
    im = where(is_real, second - across, across - second)
    return ComplexParts(where(is_zero, z.re, first + second * ratio) * scale, where(is_zero, z.im, im) * scale)


def _reciprocal(z: ComplexParts) -> ComplexParts:
    is_real = ops.less_equal(ops.absolute(z.im), ops.absolute(z.re))
    large, small = where(is_real, z.re, z.im), where(is_real, z.im, z.re)
    ratio = small / large
    length = large + small * ratio
    return ComplexParts(where(is_real, 1.0, ratio) / length, -where(is_real, ratio, 1.0) / length)


def is_zero(z: ComplexParts) -> Value:
    return ops.logical_and(ops.equal(z.re, 0.0), ops.equal(z.im, 0.0))


def _chosen(condition: Value, z: ComplexParts, w: ComplexParts) -> ComplexParts:
    return ComplexParts(where(condition, z.re, w.re), where(condition, z.im, w.im))


_ZERO, _ONE, _NAN = ComplexParts(0.0, 0.0), ComplexParts(1.0, 0.0), ComplexParts(math.nan, math.nan)


def _strong_mul(g: ComplexParts, p: ComplexParts) -> ComplexParts:
    return _chosen(is_zero(g), _ZERO, _mul(g, p))


def _strong_mul_either(a: ComplexParts, b: ComplexParts) -> ComplexParts:
    return _chosen(ops.logical_or(is_zero(a), is_zero(b)), _ZERO, _mul(a, b))


# -- exponentials and logarithms --------------------------------------------------------------------------------


def _exp(z: ComplexParts) -> ComplexParts:
    """exp(a)·(cos b + i sin b). A large factor exp(a) is applied in two steps: the product may be finite where it is not."""
    most = 88.0 if _is_single(z) else 709.0
    is_large = ops.greater(z.re, most)
    size, rest = ops.exp(where(is_large, z.re - most, z.re)), where(is_large, math.exp(most), 1.0)
    is_angle = ops.isfinite(z.im)
    re, im = ops.cos(z.im) * rest * size, ops.sin(z.im) * rest * size
    re = where(is_angle, re, where(ops.equal(z.re, -math.inf), 0.0, where(ops.equal(z.re, math.inf), math.inf, re)))
    im = where(is_angle, im, where(ops.equal(z.re, -math.inf), ops.copysign(0.0, z.im), im))
    return ComplexParts(re, where(ops.equal(z.im, 0.0), z.im, im))


def _exp2(z: ComplexParts) -> ComplexParts:
    return _exp(ComplexParts(z.re * math.log(2), z.im * math.log(2)))


def _expm1(z: ComplexParts) -> ComplexParts:
    half = ops.sin(z.im / 2)
    return ComplexParts(ops.expm1(z.re) * ops.cos(z.im) - 2 * half * half, ops.exp(z.re) * ops.sin(z.im))


def _log(z: ComplexParts) -> ComplexParts:
    return ComplexParts(_log_modulus(z), ops.arctan2(z.im, z.re))


def _log_modulus(z: ComplexParts) -> Value:
    """log|z|, to a few units in the last place near |z| = 1, too, where log of the rounded modulus has none of them right."""
    x, y = ops.absolute(z.re), ops.absolute(z.im)
    large, small = ops.maximum(x, y), ops.minimum(x, y)
    single = _is_single(z)
    huge, tiny = (1e37, 1e-30) if single else (1e300, 1e-290)
    factor = where(ops.greater(large, huge), 0.0625, where(ops.less(large, tiny), 2.0**60, 1.0))
    offset = where(ops.greater(large, huge), 4 * math.log(2), where(ops.less(large, tiny), -60 * math.log(2), 0.0))
    usual = ops.log(ops.hypot(x * factor, y * factor)) + offset
    (square, error), (other, other_error) = _square(large, single), _square(small, single)
    excess = (square - 1.0) + other + (error + other_error)  # |z|² − 1
    is_near = ops.logical_and(ops.greater(large, 0.5), ops.less(ops.absolute(excess), 0.5))
    return where(is_near, 0.5 * ops.log1p(where(is_near, excess, 0.0)), usual)


def _square(x: Value, single: bool) -> tuple[Value, Value]:
    """x² rounded, and its rounding error: the halves of the digits have exact products (Veltkamp and Dekker)."""
    wide = x * (2.0**12 + 1 if single else 2.0**27 + 1)
    high = wide - (wide - x)
    low = x - high
    square = x * x
    return square, ((high * high - square) + 2.0 * (high * low)) + low * low


def _log_by(factor: float) -> Formula:
    def log(z: ComplexParts) -> ComplexParts:
        re, im = _log(z)
        return ComplexParts(re * factor, im * factor)

    return log


def _log1p(z: ComplexParts) -> ComplexParts:
    return ComplexParts(ops.log(ops.hypot(z.re + 1.0, z.im)), ops.arctan2(z.im, z.re + 1.0))


def _sqrt(z: ComplexParts) -> ComplexParts:
    """The larger part is a root of a sum of positive terms, the other a quotient; both scaled where squares leave the range."""
    single = _is_single(z)
    huge, tiny = (1e37, 1e-30) if single else (1e300, 1e-290)
    large = ops.maximum(ops.absolute(z.re), ops.absolute(z.im))
    is_huge, is_tiny = ops.greater(large, huge), ops.less(large, tiny)
    down, back = where(is_huge, 0.0625, where(is_tiny, 2.0**60, 1.0)), where(is_huge, 4.0, where(is_tiny, 2.0**-30, 1.0))
    x, y = ops.absolute(z.re) * down, z.im * down
    root = ops.sqrt(0.5 * (x + ops.hypot(x, y)))
    other = where(ops.equal(root, 0.0), y, 0.5 * y / root)
    turned = ops.less(z.re, 0.0)
    re, im = where(turned, ops.absolute(other), root) * back, where(turned, ops.copysign(root, z.im), other) * back
    is_infinite = ops.isinf(z.im)
    return ComplexParts(where(is_infinite, math.inf, re), where(is_infinite, z.im, im))


_MOST_FACTORS = 100  # NumPy multiplies below


def _power(z: ComplexParts, w: ComplexParts) -> ComplexParts:
    """z**w. A whole number is a count of factors, as in NumPy; the rest goes by modulus and angle."""
    n = w.re if type(w.re) in (int, float) else None
    if n is not None and w.im == 0.0 and float(n).is_integer() and abs(n) < _MOST_FACTORS:
        return _whole_power(z, int(n))
    angle, size = ops.arctan2(z.im, z.re), ops.hypot(z.re, z.im)
    length = ops.power(size, w.re)
    turn = w.re * angle
    if type(w.im) is not float or w.im != 0.0:
        length, turn = length * ops.exp(-(w.im * angle)), turn + w.im * ops.log(size)
    im = where(ops.equal(turn, 0.0), turn, length * ops.sin(turn))  # of a positive number, however large
    result = ComplexParts(length * ops.cos(turn), im)
    result = _chosen(is_zero(z), _chosen(ops.greater(w.re, 0.0), _ZERO, _NAN), result)
    return _chosen(is_zero(w), _ONE, result)


def _whole_power(z: ComplexParts, n: int) -> ComplexParts:
    if n == 0:
        return ComplexParts(1.0, 0.0)
    result: ComplexParts | None = None
    factor, left = z, abs(n)
    while True:
        if left & 1:
            result = factor if result is None else _mul(result, factor)
        left >>= 1
        if not left:
            break
        factor = _mul(factor, factor)
    assert result is not None
    return result if n > 0 else _chosen(is_zero(z), _NAN, _div(_ONE, result))


# -- trigonometric and hyperbolic -------------------------------------------------------------------------------


def _times(a: Value, b: Value) -> Value:
    """a·b, in which a zero wins over an infinity or nan."""

    def beside(x: Value, zero: Value) -> Value:
        won = ops.logical_and(ops.equal(zero, 0.0), ops.logical_not(ops.isfinite(x)))
        return where(won, ops.copysign(1.0, x), x)

    return beside(a, b) * beside(b, a)


def _sinh(z: ComplexParts) -> ComplexParts:
    no_angle = ops.logical_not(ops.isfinite(z.im))
    re = _times(ops.sinh(z.re), ops.cos(z.im))
    re = where(ops.logical_and(ops.isinf(z.re), no_angle), z.re, re)
    return ComplexParts(re, _times(ops.sin(z.im), ops.cosh(z.re)))


def _cosh(z: ComplexParts) -> ComplexParts:
    no_angle = ops.logical_not(ops.isfinite(z.im))
    re = ops.cosh(z.re) * ops.cos(z.im)
    re = where(ops.logical_and(ops.isinf(z.re), no_angle), math.inf, re)
    return ComplexParts(re, _times(ops.sinh(z.re), ops.sin(z.im)))


def _tanh(z: ComplexParts) -> ComplexParts:
    """sinh a cosh a and sin b cos b over sinh² a + cos² b; ±1 where that overflows."""
    rise, cosine = ops.sinh(z.re), ops.cos(z.im)
    below = rise * rise + cosine * cosine
    is_angle, beyond = ops.isfinite(z.im), ops.isinf(z.re)
    is_far = ops.greater(ops.absolute(z.re), 9.5 if _is_single(z) else 20.0)
    is_one = ops.logical_and(is_far, ops.logical_or(is_angle, beyond))
    re = where(is_one, ops.copysign(1.0, z.re), where(ops.equal(z.re, 0.0), z.re, rise * ops.cosh(z.re) / below))
    im = where(ops.equal(z.im, 0.0), z.im, ops.sin(z.im) * cosine / below)
    return ComplexParts(re, where(ops.logical_and(beyond, ops.logical_not(is_angle)), ops.copysign(0.0, z.im), im))


def _rotated(hyperbolic: Formula, odd: bool) -> Formula:
    """sin z = −i sinh(iz), tan z = −i tanh(iz), cos z = cosh(iz)."""

    def formula(z: ComplexParts) -> ComplexParts:
        re, im = hyperbolic(ComplexParts(-z.im, z.re))
        return ComplexParts(im, -re) if odd else ComplexParts(re, im)

    return formula


# -- comparisons and tests --------------------------------------------------------------------------------------


def _ordered(strictly: Op, also: Op) -> Formula:
    """By the real parts, then by the imaginary ones; never, if there is a nan."""

    def compare(z: ComplexParts, w: ComplexParts) -> Value:
        known = ops.logical_not(ops.logical_or(ops.isnan(z.im), ops.isnan(w.im)))
        first = ops.logical_and(strictly(z.re, w.re), known)
        return ops.logical_or(first, ops.logical_and(ops.equal(z.re, w.re), also(z.im, w.im)))

    return compare


def truth(z: ComplexParts) -> Value:
    return ops.logical_or(ops.not_equal(z.re, 0.0), ops.not_equal(z.im, 0.0))


def _of_truths(op: Op) -> Formula:
    return lambda *zs: op(*map(truth, zs))


#: A formula gives parts, or one real value.
FORMULAS: dict[Op, Formula] = {
    ops.add: lambda z, w: ComplexParts(z.re + w.re, z.im + w.im),
    ops.sub: lambda z, w: ComplexParts(z.re - w.re, z.im - w.im),
    ops.mul: _mul,
    ops.ieee_mul: _mul,
    ops.strong_mul_op: _strong_mul,
    ops.strong_mul_either_op: _strong_mul_either,
    ops.div: _div,
    ops.neg: lambda z: ComplexParts(-z.re, -z.im),
    ops.pos: lambda z: z,
    ops.square: lambda z: ComplexParts(z.re * z.re - z.im * z.im, z.re * z.im + z.im * z.re),
    ops.reciprocal: _reciprocal,
    ops.power: _power,
    ops.stop_gradient: lambda z: z,
    ops.absolute: lambda z: ops.hypot(z.re, z.im),
    real: lambda z: z.re,
    imag: lambda z: z.im,
    conj: lambda z: ComplexParts(z.re, -z.im),
    ops.exp: _exp,
    ops.exp2: _exp2,
    ops.expm1: _expm1,
    ops.log: _log,
    ops.log2: _log_by(1 / math.log(2)),
    ops.log10: _log_by(1 / math.log(10)),
    ops.log1p: _log1p,
    ops.sqrt: _sqrt,
    ops.sinh: _sinh,
    ops.cosh: _cosh,
    ops.tanh: _tanh,
    ops.sin: _rotated(_sinh, odd=True),
    ops.cos: _rotated(_cosh, odd=False),
    ops.tan: _rotated(_tanh, odd=True),
    ops.equal: lambda z, w: ops.logical_and(ops.equal(z.re, w.re), ops.equal(z.im, w.im)),
    ops.not_equal: lambda z, w: ops.logical_or(ops.not_equal(z.re, w.re), ops.not_equal(z.im, w.im)),
    ops.less: _ordered(ops.less, ops.less),
    ops.less_equal: _ordered(ops.less, ops.less_equal),
    ops.greater: _ordered(ops.greater, ops.greater),
    ops.greater_equal: _ordered(ops.greater, ops.greater_equal),
    ops.isnan: lambda z: ops.logical_or(ops.isnan(z.re), ops.isnan(z.im)),
    ops.isinf: lambda z: ops.logical_or(ops.isinf(z.re), ops.isinf(z.im)),
    ops.isfinite: lambda z: ops.logical_and(ops.isfinite(z.re), ops.isfinite(z.im)),
    ops.logical_and: _of_truths(ops.logical_and),
    ops.logical_or: _of_truths(ops.logical_or),
    ops.logical_xor: _of_truths(ops.logical_xor),
    ops.logical_not: _of_truths(ops.logical_not),
}
