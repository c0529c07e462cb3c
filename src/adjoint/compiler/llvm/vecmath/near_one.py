"""log(eᵃ + eᵇ) where eᵃ + eᵇ is close to 1, and the logarithm close to 0.

With a the larger, t = −a and d = b − a, it is log1p((eᵈ − (eᵗ − 1))/eᵗ), so that all cancellation is in one subtraction. Of all
doubles a and b, those closest to the curve of the zeros are expected to give 2⁻¹¹⁰ of a. A pair of doubles has too few digits for
that; so the exponentials are binary fractions of 192 bits. Both come from P(x) = (eˣ − 1)/x:

eᵗ − 1 = t·P(t), and eᵈ = 2ⁿ·(1 + r·P(r)) with d = n ln 2 + r.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from adjoint.compiler.llvm.vecmath import coefficients as table
from adjoint.compiler.llvm.vecmath import fixed
from adjoint.compiler.llvm.vecmath.pair import Pair, ordered_sum, pair_product, quotient
from adjoint.compiler.llvm.vecmath.scalar import DOUBLE, Scalar, at_least, floor, horner, scaled, select

_LN2 = sum((1 << 256) // (k << k) for k in range(1, 256)) >> (256 - fixed.BITS)
_QUARTER_P = [(1, 4 * math.factorial(k + 1)) for k in range(39)]  # a quarter, so that sums and products stay below 1
_LOG1P = [(-1.0) ** (k + 1) / (k + 2) for k in range(7)]  # (log(1 + q) − q)/q²


class Terms(NamedTuple):
    """eᵈ − (eᵗ − 1) and eᵗ − 1 in units of 2^unit."""

    difference: Scalar
    grown: Scalar
    unit: Scalar


def terms(most: Scalar, least: Scalar, base_two: bool) -> Terms:
    ln2 = Scalar(most.code, str(_LN2), fixed.WIDE)
    a, b = fixed.number(-most), fixed.number(-least)
    if base_two:
        a, b = (fixed.Number(fixed.product(x.fraction, ln2), x.exponent) for x in (a, b))
    t = (a.fraction >> fixed.widened(_at_most(1 - a.exponent, fixed.BITS - 1))) << 1  # the exponent is 1 at most
    # r = t − |b| − n ln 2, of which only what is after the point counts. −n is one that makes it positive, and below 0.7.
    count = floor((most - least) * (1.0 if base_two else table.LOG2_E_64[0]) + 1.001)
    steps = count.to("fptoui", "i64")
    r = t - (b.fraction << fixed.widened(b.exponent)) + fixed.widened(steps) * ln2
    of_t, of_r = fixed.polynomials([t, r], _QUARTER_P)
    grown = fixed.product(a.fraction, of_t) >> 1
    shift = _at_most(a.exponent + steps + 1, fixed.BITS - 1)
    ratio = (fixed.product(r, of_r) + (1 << (fixed.BITS - 2))) >> fixed.widened(shift)
    return Terms(ratio - grown, grown, a.exponent.to("sitofp", DOUBLE) + 3.0)


def log_of_sum(most: Scalar, least: Scalar, base_two: bool) -> Scalar:
    """For least ≤ most < 0 and a result that is below a hundredth, and below |most|, in size; to base 2, of 2ᵃ + 2ᵇ."""
    difference, grown, unit = terms(most, least, base_two)
    small, power = fixed.leading(fixed.size(difference))
    # A result that may be subnormal is rounded last. Where it is so small, no power of it counts.
    power = power + unit
    kept = at_least(power, -900.0)
    negative = fixed.negative(difference)
    top = Pair(*(select(negative, -part, part) for part in (scaled(part, kept) for part in small)))
    rest, rest_power = fixed.leading(grown)
    high, low = (scaled(part, rest_power + unit) for part in rest)
    bottom, error = ordered_sum(1.0, high)
    q = quotient(top, Pair(bottom, error + low))
    value = Pair(q.high, q.high * q.high * horner(q.high, _LOG1P) + q.low)
    if base_two:
        value = pair_product(value, Pair(*(most.constant(part) for part in table.LOG2_E_64)))
    return scaled(value.high + value.low, power - kept)


def _at_most(word: Scalar, bound: int) -> Scalar:
    return select(word > bound, bound, word)
