"""Logarithms: x = m·2ᵏ with √½ ≤ m < √2, f = m − 1, s = f/(2 + f), and

log(1 + f) = 2 atanh(s) = f − f²/2 + s·(f²/2 + s²·L(s²)),

where the leading terms are exact and the last is small (Tang, ACM TOMS 16, 1990, explains why this form is accurate).
"""

from __future__ import annotations

import math
import struct
from typing import NamedTuple

from adjoint.compiler.llvm.vecmath import coefficients as table
from adjoint.compiler.llvm.vecmath.pair import Pair, ordered_sum, pair_product, pair_root, product, quotient, sum_of
from adjoint.compiler.llvm.vecmath.scalar import (
    Format,
    Scalar,
    at_most,
    copysign,
    fma,
    fma_of_whole,
    horner,
    magnitude,
    muladd,
    power_of_two,
    select,
    square_root,
)

_LOG = {64: table.LOG_64, 32: table.LOG_32}
_LN2 = {64: table.LN2_64, 32: table.LN2_32}
_LOG2_E = {64: table.LOG2_E_64, 32: table.LOG2_E_32}
_LOG10_E = {64: table.LOG10_E_64, 32: table.LOG10_E_32}
_LOG10_2 = {64: table.LOG10_2_SHORT_64, 32: table.LOG10_2_SHORT_32}


def word_of(number: float, form: Format) -> int:
    """The bits of a number in a format."""
    kinds = ("<d", "<Q") if form.bits == 64 else ("<f", "<I")
    return int(struct.unpack(kinds[1], struct.pack(kinds[0], number))[0])


class MantissaExponent(NamedTuple):
    """x = m·2ᵏ."""

    k: Scalar
    m: Scalar


def split(x: Scalar, least: float = math.sqrt(0.5)) -> MantissaExponent:
    """The fraction m, from `least` to twice that, and the exponent k of a positive finite x."""
    form = x.format
    tiny = x < form.least_normal
    lifting = form.fraction + 2
    word = select(tiny, x * 2.0**lifting, x).as_word()
    base = word_of(least, form)
    moved = word + (word_of(1.0, form) - base)
    # The exponent as the low bits of a number whose unit in the last place is 1: a conversion that every target has.
    unit = 2.0**form.fraction
    biased = ((moved >> form.fraction) | word_of(unit, form)).as_real(form)
    k = biased - select(tiny, x.constant(unit + form.bias + lifting), unit + form.bias)
    m = ((moved & ((1 << form.fraction) - 1)) + base).as_real(form)
    return MantissaExponent(k, m)


def tail(f: Scalar, half_square: Scalar) -> Scalar:
    """log(1 + f) − f + f²/2."""
    s = f / (f + 2.0)
    z = s * s
    return s * muladd(z, horner(z, _LOG[f.format.bits]), half_square)


def special(x: Scalar, value: Scalar) -> Scalar:
    """−inf at 0, inf at inf, nan below 0 and at nan."""
    value = select(x < math.inf, value, x)
    value = select(x < 0.0, math.nan, value)
    return select(x.equals(0.0), -math.inf, value)


def log(x: Scalar) -> Scalar:
    k, m = split(x)
    f = m - 1.0
    half_square = f * (f * 0.5)
    high, low = _LN2[x.format.bits]
    return special(x, fma_of_whole(k, high, f - (half_square - muladd(k, low, tail(f, half_square)))))


def log_fraction(f: Scalar) -> Pair:
    """log(1 + f) to about 58 bits."""
    square = product(f, f * 0.5)
    high, error = ordered_sum(f, -square.high)
    return Pair(high, (error - square.low) + tail(f, square.high))


def log2(x: Scalar) -> Scalar:
    k, m = split(x)
    fraction = pair_product(log_fraction(m - 1.0), _constant(x, _LOG2_E))
    high, error = ordered_sum(k, fraction.high)
    return special(x, high + (error + fraction.low))


def log10(x: Scalar) -> Scalar:
    k, m = split(x)
    exact, rest = _LOG10_2[x.format.bits]
    fraction = pair_product(log_fraction(m - 1.0), _constant(x, _LOG10_E))
    high, error = ordered_sum(k * exact, fraction.high)
    return special(x, high + (error + fma(k, rest, fraction.low)))


def _constant(x: Scalar, values: dict[int, tuple[float, float]]) -> Pair:
    high, low = values[x.format.bits]
    return Pair(x.constant(high), x.constant(low))


def log1p_pair(x: Scalar, low: Scalar | None = None, doublings: Scalar | None = None) -> Pair:
    """log((1 + x + low)·2^doublings) for finite 1 + x > 0."""
    one, rest = sum_of(x, 1.0)
    if low is not None:
        rest = rest + low
    k, m = split(one)
    exact = m - 1.0
    # The rounding error of the sum with 1, scaled like m; negligible for the largest numbers.
    f, f_low = ordered_sum(exact, rest * power_of_two(-at_most(k, x.format.bias - 24.0)))
    high, fraction_low = log_fraction(f)
    if doublings is not None:
        k = k + doublings
    ln2_high, ln2_low = product(k, _LN2[x.format.bits][0])
    total, error = ordered_sum(ln2_high, high)
    below = (error + ln2_low) + fma(k, _LN2[x.format.bits][1], fraction_low + f_low)
    return Pair(total, below)


def log1p(x: Scalar) -> Scalar:
    value = log1p_pair(x)
    result = select(x < math.inf, value.high + value.low, x)
    result = select(x < -1.0, math.nan, result)
    return copysign(select(x.equals(-1.0), -math.inf, result), x)


# -- inverse hyperbolic functions -------------------------------------------------------------------------------

_BEYOND = 2.0**60  # 1 is negligible next to numbers of this size, and their squares are finite


def arcsinh(x: Scalar) -> Scalar:
    """log1p(a + a²/(1 + √(1 + a²))) for a = |x|; log(2a) for large a."""
    a = magnitude(x)
    large = a > _BEYOND
    capped = at_most(a, _BEYOND)
    square = capped * capped
    u, low = ordered_sum(capped, square / (square_root(square + 1.0) + 1.0))
    value = log1p_pair(select(large, a, u), select(large, 0.0, low), select(large, a.constant(1.0), 0.0))
    return copysign(select(a < math.inf, value.high + value.low, a), x)


def arccosh(x: Scalar) -> Scalar:
    """log1p(t + √(2t + t²)) for t = x − 1; log(2x) for large x."""
    large = x > _BEYOND
    t, t_low = sum_of(at_most(x, _BEYOND), -1.0)
    square = product(t, t)
    inside = sum_of(t + t, square.high)
    root = pair_root(Pair(inside.high, inside.low + (square.low + (t_low + t_low))))
    u, error = sum_of(t, root.high)
    value = log1p_pair(select(large, x, u), select(large, 0.0, error + (root.low + t_low)), select(large, x.constant(1.0), 0.0))
    result = select(x < math.inf, value.high + value.low, x)
    return select(x < 1.0, math.nan, result)


def arctanh(x: Scalar) -> Scalar:
    """log1p(2a/(1 − a))/2 for a = |x|."""
    a = magnitude(x)
    bottom = ordered_sum(1.0, -at_most(a, 2.0))
    u, low = quotient(Pair(a + a, a.constant(0.0)), bottom)
    value = log1p_pair(u, low)
    result = select(a.equals(1.0), math.inf, (value.high + value.low) * 0.5)
    return copysign(select(a > 1.0, math.nan, result), x)
