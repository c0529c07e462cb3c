"""Inverse trigonometric functions."""

from __future__ import annotations

import math

from adjoint.compiler.llvm.vecmath import coefficients as table
from adjoint.compiler.llvm.vecmath.pair import Pair, ordered_sum, product, quotient, sum_of
from adjoint.compiler.llvm.vecmath.scalar import Scalar, at_most, copysign, fma, horner, magnitude, select, square_root

_ASIN = {64: table.ASIN_64, 32: table.ASIN_32}
_ATAN = {64: table.ATAN_64, 32: table.ATAN_32}
_QUARTER_PI = {64: table.QUARTER_PI_64, 32: table.QUARTER_PI_32}
_TAN_EIGHTH = math.sqrt(2) - 1  # tan(π/8)


def _arc(x: Scalar) -> tuple[Scalar, Scalar, Scalar]:
    """(large, s, t) with arcsin|x| = s + t where |x| ≤ ½, else π/2 − 2(s + t); nan outside of [−1, 1]."""
    a = magnitude(x)
    large = a > 0.5
    z = select(large, (1.0 - a) * 0.5, a * a)
    s = select(large, square_root(z), a)
    return large, s, s * z * horner(z, _ASIN[x.format.bits])


def arcsin(x: Scalar) -> Scalar:
    large, s, t = _arc(x)
    high, low = (2 * part for part in _QUARTER_PI[x.format.bits])
    first, error = ordered_sum(high, s * -2.0)
    return copysign(select(large, first + (error + fma(t, -2.0, low)), s + t), x)


def arccos(x: Scalar) -> Scalar:
    """π/2 − arcsin x; 2(s + t) near 1 and π − 2(s + t) near −1."""
    large, s, t = _arc(x)
    negative = x < 0.0
    high, low = _QUARTER_PI[x.format.bits]
    # The result is turn − factor·(s + t), with the sign of x on the small side.
    factor = select(large, select(negative, x.constant(-2.0), 2.0), select(negative, x.constant(1.0), -1.0))
    turn = select(large, select(negative, x.constant(4.0), 0.0), 2.0)
    first, error = ordered_sum(turn * high, factor * s)
    return first + (error + fma(factor, t, turn * low))


def _arctan_small(t: Pair) -> Scalar:
    """arctan(t) − t.high for |t| ≤ tan(π/8)."""
    square = t.high * t.high
    return fma(t.high * square, horner(square, _ATAN[t.high.format.bits]), t.low)


def arctan(x: Scalar) -> Scalar:
    """arctan a = π/4 + arctan((a − 1)/(a + 1)) = π/2 − arctan(1/a)."""
    a = at_most(magnitude(x), x.format.greatest / 2**10)
    middle, large = a > _TAN_EIGHTH, a > 1 / _TAN_EIGHTH
    below, above = sum_of(a, -1.0), sum_of(a, 1.0)
    top = select(large, -1.0, select(middle, below.high, a))
    top_low = select(large, 0.0, select(middle, below.low, 0.0))
    bottom = select(large, a, select(middle, above.high, 1.0))
    bottom_low = select(large, 0.0, select(middle, above.low, 0.0))
    t = quotient(Pair(top, top_low), Pair(bottom, bottom_low))
    high, low = _QUARTER_PI[x.format.bits]
    turn = select(large, x.constant(2.0), select(middle, x.constant(1.0), 0.0))
    first, error = ordered_sum(turn * high, t.high)
    return copysign(first + (error + fma(turn, low, _arctan_small(t))), x)


def arctan2(y: Scalar, x: Scalar) -> Scalar:
    """The angle of (x, y): the smaller coordinate over the larger is a tangent up to 1."""
    form = x.format
    a, b = magnitude(y), magnitude(x)
    infinite = a.equals(math.inf) | b.equals(math.inf)
    a = select(infinite, select(a.equals(math.inf), a.constant(1.0), 0.0), a)
    b = select(infinite, select(b.equals(math.inf), b.constant(1.0), 0.0), b)
    steep = a > b
    large, small = select(steep, a, b), select(steep, b, a)
    # Sums and reciprocals of the larger one have to stay within the format.
    reach = 2.0 ** (form.bias - 24)
    scale = select(large > reach, x.constant(2.0**-40), select(large < 1 / reach, x.constant(2.0 ** (2 * form.fraction)), 1.0))
    large, small = large * scale, small * scale
    middle = small > large * _TAN_EIGHTH
    below, above = ordered_sum(-large, small), ordered_sum(large, small)
    top = Pair(select(middle, below.high, small), select(middle, below.low, 0.0))
    bottom = Pair(select(middle, above.high, select(large.equals(0.0), 1.0, large)), select(middle, above.low, 0.0))
    t = quotient(top, bottom)
    rest = _arctan_small(t)
    # The angle from the nearest axis is added to or subtracted from that axis.
    left = (x.as_word() >> (form.bits - 1)) > 0
    away = steep ^ left
    axis = select(steep, x.constant(2.0), select(left, x.constant(4.0), 0.0))
    sign = select(away, x.constant(-1.0), 1.0)
    turn = axis + select(middle, sign, 0.0)
    high, low = _QUARTER_PI[form.bits]
    whole = product(turn, high)
    first, error = ordered_sum(whole.high, t.high * sign)
    value = first + (error + fma(turn, low, fma(rest, sign, whole.low)))
    return copysign(select(x.is_nan() | y.is_nan(), math.nan, value), y)
