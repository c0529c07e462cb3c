"""The logarithm of a sum of exponentials: max + log1p(e^(min − max)).

If both arguments are negative, the two terms may cancel. The second is a pair of about 60 bits; where most of these are lost,
`near_one.py` recomputes the result. For a result in single precision a double suffices for the second term.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

from adjoint.compiler.llvm.vecmath import coefficients as table
from adjoint.compiler.llvm.vecmath import near_one
from adjoint.compiler.llvm.vecmath.pair import Pair, ordered_sum, pair_product, product, sum_of
from adjoint.compiler.llvm.vecmath.rare import rarely
from adjoint.compiler.llvm.vecmath.scalar import (
    Scalar,
    at_least,
    fma,
    fma_of_whole,
    horner,
    magnitude,
    muladd,
    nearest,
    power_of_two,
    scaled,
    select,
)

# The ratio of the result to the larger argument below which `near_one` is used. The terms are accurate to 2⁻⁵⁹ or, for single
# precision, 2⁻⁵¹ of it.
_NEAR, _NEAR_SINGLE = 2.0**-7, 2.0**-26

# Subnormal numbers are slow: none may occur in the computation of a normal result.
_NEGLIGIBLE = 2.0**-60  # log(1 + u) is u up to here
_SHORT = 2.0**-890  # the exponential has no second part below


def logaddexp(a: Scalar, b: Scalar) -> Scalar:
    return _log_of_sum(a, b, base_two=False)


def logaddexp2(a: Scalar, b: Scalar) -> Scalar:
    return _log_of_sum(a, b, base_two=True)


def logaddexp_to_single(a: Scalar, b: Scalar) -> Scalar:
    """For widened float32 arguments, to single precision."""
    return _log_of_sum_to_single(a, b, base_two=False)


def logaddexp2_to_single(a: Scalar, b: Scalar) -> Scalar:
    return _log_of_sum_to_single(a, b, base_two=True)


def _log_of_sum(a: Scalar, b: Scalar, base_two: bool) -> Scalar:
    most, least = _ordered(a, b)
    gap = sum_of(least, -most)
    underflow = -1076.0 if base_two else -746.0
    bounded = gap.high > underflow
    gap = Pair(select(bounded, gap.high, underflow), select(bounded, gap.low, 0.0))
    ratio = _exp(_binary(gap) if base_two else _natural(gap), bounded)
    plain = ratio.high < _NEGLIGIBLE
    value = _log1p(Pair(at_least(ratio.high, _NEGLIGIBLE), ratio.low))
    value = Pair(*(select(plain, tiny, usual) for tiny, usual in zip(ratio, value, strict=True)))
    if base_two:
        value = pair_product(value, Pair(*(a.constant(part) for part in table.LOG2_E_64)))
        equal = gap.high.equals(0.0)
        value = Pair(select(equal, 1.0, value.high), select(equal, 0.0, value.low))
    high, error = sum_of(most, value.high)
    share = select(most > -_SHORT, 1.0, most.constant(_NEAR))
    return _completed(b, most, least, high + (error + value.low), share, base_two)


def _log_of_sum_to_single(a: Scalar, b: Scalar, base_two: bool) -> Scalar:
    """max + log(1 + e^(min − max)) for widened float32 arguments, to single precision; or the same to base two."""
    most, least = _ordered(a, b)
    gap = ordered_sum(least, -most)  # where they cancel; elsewhere the second part is negligible
    bounded = gap.high > _UNDERFLOW_SINGLE
    gap = Pair(select(bounded, gap.high, _UNDERFLOW_SINGLE), select(bounded, gap.low, 0.0))
    if base_two:
        n = nearest(gap.high)
        r = ((gap.high - n) + gap.low) * table.LN2_64[0]
    else:
        n = _powers_of_two(gap.high)
        r = muladd(n, -table.LN2_64[1], fma_of_whole(n, -table.LN2_64[0], gap.high)) + gap.low
    u = (muladd(r * r, horner(r, table.EXP_64), r) + 1.0) * power_of_two(n)
    part = _nearest_part(u)
    s = (u - part.c) / muladd(u, 0.5, part.middle)
    square = s * s
    value = part.log.high + fma(s * square, horner(square, table.LOG_THIRDS_64), s)
    if base_two:
        value = select(gap.high.equals(0.0), 1.0, value * table.LOG2_E_64[0])
    return _completed(b, most, least, most + value, most.constant(_NEAR_SINGLE), base_two)


_UNDERFLOW_SINGLE = -160.0  # both eˣ and 2ˣ are 0 in single precision


def _ordered(a: Scalar, b: Scalar) -> tuple[Scalar, Scalar]:
    """The larger and the smaller; if a is nan, it comes first."""
    return select(a < b, b, a), select(a < b, a, b)


def _completed(b: Scalar, most: Scalar, least: Scalar, value: Scalar, share: Scalar, base_two: bool) -> Scalar:
    """The value, with infinities and nan; recomputed where it is below that fraction of a negative larger argument."""
    value = select(magnitude(most) < math.inf, value, most)
    value = select(b.is_nan(), b, value)
    near = magnitude(value) < -most * share
    if base_two:
        near = near & (least < most)  # 2⁻¹ + 2⁻¹ = 1, the only case of a zero, and others like it are exact
    slow = functools.partial(near_one.log_of_sum, base_two=base_two)
    return rarely(near, value, "log_of_sum_two" if base_two else "log_of_sum", slow, most, least)


def _powers_of_two(x: Scalar) -> Scalar:
    """x/ln 2, rounded to an integer."""
    shifter = x.format.shifter
    return muladd(x, table.LOG2_E_64[0], shifter) - shifter


def _natural(x: Pair) -> tuple[Scalar, Pair]:
    """(n, h) with x = n ln 2 + 4h."""
    n = _powers_of_two(x.high)
    high, low = table.LN2_64
    return n, ordered_sum(fma_of_whole(n, -high, x.high) * 0.25, muladd(n, -low, x.low) * 0.25)


def _binary(x: Pair) -> tuple[Scalar, Pair]:
    """(n, h) with x ln 2 = n ln 2 + 4h."""
    n = nearest(x.high)
    quarter = Pair(*(x.high.constant(part) for part in table.LN2_QUARTER_64))
    return n, ordered_sum(*pair_product(Pair(x.high - n, x.low), quarter))


def _exp(parts: tuple[Scalar, Pair], bounded: Scalar) -> Pair:
    """2ⁿ·e⁴ʰ, or 0 if it is not bounded; a single number where it is very small.

    The square of the square of eʰ = 1 + h + h²/2·(1 + h·q(h)): the smaller h, the less is the last term, and its error.
    """
    n, (h, h_low) = parts
    square = product(h, h * 0.5)
    rest = fma(h * square.high, horner(h, table.EXP_QUARTER_64), fma(h, h_low, square.low) + h_low)
    one, one_error = ordered_sum(1.0, h)
    total, total_error = ordered_sum(one, square.high)
    high, low = ordered_sum(total, (one_error + total_error) + rest)
    for _ in range(2):
        whole = product(high, high)
        high, low = whole.high, fma(high + high, low, whole.low)
    return Pair(scaled(select(bounded, high, 0.0), n), scaled(select(n < math.log2(_SHORT) - 2.0, 0.0, low), n))


class NearestLog(NamedTuple):
    """The nearest of a few c to a number u between 0 and 1, with 1 + c/2 and log(1 + c)."""

    c: Scalar
    middle: Scalar
    log: Pair


_MIDDLE = 53 / 128  # close to √2 − 1, shortened so that differences and halves are exact


def _nearest_part(u: Scalar) -> NearestLog:
    """Of 0, √2 − 1 and 1 the one that makes s smallest: log(1 + u) = log(1 + c) + 2 atanh(s/2), s = (u − c)/(1 + c/2 + u/2)."""
    lower, upper = u < 2**0.25 - 1, u > 2**0.75 - 1

    def chosen(first: float, second: float, third: float) -> Scalar:
        return select(upper, third, select(lower, first, u.constant(second)))

    log = Pair(*(chosen(0.0, middle, last) for middle, last in zip(table.LOG_MIDDLE_64, table.LN2_64, strict=True)))
    return NearestLog(chosen(0.0, _MIDDLE, 1.0), chosen(1.0, 1 + _MIDDLE / 2, 1.5), log)


def _log1p(u: Pair) -> Pair:
    """log(1 + u), 0 < u ≤ 1."""
    part = _nearest_part(u.high)
    top, top_error = ordered_sum(-part.c, u.high)
    bottom, bottom_error = ordered_sum(part.middle, u.high * 0.5)
    top_low, bottom_low = top_error + u.low, fma(u.low, 0.5, bottom_error)
    inverse = 1.0 / bottom
    s = top * inverse
    s_low = (fma(-s, bottom, top) + fma(-s, bottom_low, top_low)) * inverse
    square = s * s
    growth = square * horner(square, table.LOG_THIRDS_64)
    total, error = ordered_sum(part.log.high, s)
    return Pair(total, error + (part.log.low + fma(fma(s_low, 3.0, s), growth, s_low)))
