"""xʸ = e^(y·log x), with the logarithm to about 66 bits, as y·log x may be 700 and its error counts absolutely."""

from __future__ import annotations

import math

from adjoint.compiler.llvm.vecmath import coefficients as table
from adjoint.compiler.llvm.vecmath.exponential import exp, exp_pair, within_range
from adjoint.compiler.llvm.vecmath.logarithm import split, tail
from adjoint.compiler.llvm.vecmath.pair import Pair, ordered_sum, pair_product, product, quotient
from adjoint.compiler.llvm.vecmath.scalar import Scalar, floor, fma, horner, magnitude, scaled, select


def log_pair(x: Scalar) -> Pair:
    """log x for positive finite x, by 2 atanh(s) = 2s(1 + z/3 + z²·T(z)), z = s², where all but z²·T are pairs."""
    k, m = split(x)
    s = quotient(Pair(m - 1.0, m.constant(0.0)), ordered_sum(1.0, m))
    s = ordered_sum(s.high, s.low)
    square = product(s.high, s.high)
    z = Pair(square.high, fma(s.high + s.high, s.low, square.low))
    high, low = ordered_sum(table.THIRD_64[0], z.high * horner(z.high, table.LOG_TAIL_64))
    growth = pair_product(s, pair_product(z, Pair(high, low + table.THIRD_64[1])))
    total, error = ordered_sum(s.high, growth.high)
    below = error + (s.low + growth.low)
    exact, rest = table.LN2_SHORT_64
    high, error = ordered_sum(k * exact, total + total)
    return ordered_sum(high, error + fma(k, rest, below + below))


def whole_power(x: Scalar, n: int) -> Scalar:
    """xⁿ for a fixed n, by squaring pairs: each product keeps its rounding error, which would grow with every factor."""
    base = Pair(x, x.constant(0.0)) if n > 0 else quotient(Pair(x.constant(1.0), x.constant(0.0)), Pair(x, x.constant(0.0)))
    result = None
    for digit in f"{abs(n):b}":
        if result is not None:
            result = pair_product(result, result)
        if digit == "1":
            result = base if result is None else pair_product(result, base)
    assert result is not None
    high, low = result
    size = magnitude(high)  # 0, inf and nan have no error, and a sum would lose the sign of a zero
    return select((size > 0.0) & (size < math.inf), high + low, high)


def power(x: Scalar, y: Scalar) -> Scalar:
    """C's pow, which is NumPy's power for floating-point numbers."""
    a = magnitude(x)
    log = log_pair(a)
    high, low = product(y, log.high)
    low = fma(y, log.low, low)
    bounded = within_range(high)
    fraction, n = exp_pair(bounded, select(bounded.equals(high), low, 0.0))
    return _special(x, y, scaled(fraction.high + fraction.low, n))


def power_to_single(x: Scalar, y: Scalar) -> Scalar:
    """The same for arguments that were float32: a plain logarithm in double precision suffices."""
    k, m = split(magnitude(x))
    f = m - 1.0
    half_square = f * (f * 0.5)
    log = fma(k, table.LN2_64[0], f - (half_square - tail(f, half_square)))
    return _special(x, y, exp(y * log))


def _special(x: Scalar, y: Scalar, value: Scalar) -> Scalar:
    """|x|ʸ completed: signs, zeros, infinities and nan."""
    a = magnitude(x)
    # At 0 and infinity of either argument the result is 0 or infinite, by whether |x| is above 1 and y above 0.
    boundless = (a.equals(0.0) | a.equals(math.inf)) | magnitude(y).equals(math.inf)
    upwards = (a > 1.0) ^ (y < 0.0)
    value = select(boundless, select(upwards, y.constant(math.inf), 0.0), value)
    value = select(a.equals(1.0), 1.0, value)
    whole = floor(y).equals(y)
    half = y * 0.5
    odd = whole & floor(half).equals(half).inverted()
    sign = select(odd, x.as_word() & (1 << 63), 0)
    signed = (value.as_word() | sign).as_real(x.format)
    value = select((x < 0.0) & (a < math.inf) & whole.inverted(), math.nan, signed)
    value = select(x.is_nan() | y.is_nan(), math.nan, value)
    return select(y.equals(0.0) | x.equals(1.0), 1.0, value)
