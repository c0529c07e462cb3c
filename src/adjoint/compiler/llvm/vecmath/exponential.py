"""The exponential and its relatives: x = n ln 2 + r with |r| ≤ ln 2 / 2, and eʳ = 1 + r + r²·q(r)."""

from __future__ import annotations

from typing import NamedTuple

from adjoint.compiler.llvm.vecmath import coefficients as table
from adjoint.compiler.llvm.vecmath.pair import Pair, ordered_sum, quotient
from adjoint.compiler.llvm.vecmath.scalar import (
    Format,
    Scalar,
    at_least,
    at_most,
    copysign,
    fma_of_whole,
    horner,
    magnitude,
    muladd,
    nearest,
    power_of_two,
    scaled,
    select,
)


class ExpConstants(NamedTuple):
    log2_e: tuple[float, float]
    ln2: tuple[float, float]
    exp: tuple[float, ...]
    sinh: tuple[float, ...]
    overflow: float  # eˣ is infinite from here on
    underflow: float  # eˣ is 0 up to here
    saturation: float  # tanh is 1 from here on


_CONSTANTS = {
    64: ExpConstants(table.LOG2_E_64, table.LN2_64, table.EXP_64, table.SINH_64, 710.0, -746.0, 20.0),
    32: ExpConstants(table.LOG2_E_32, table.LN2_32, table.EXP_32, table.SINH_32, 89.0, -104.0, 10.0),
}


def constants(form: Format) -> ExpConstants:
    return _CONSTANTS[form.bits]


class Reduced(NamedTuple):
    """x = n ln 2 + r + low, and rest = eʳ⁺ˡᵒʷ − 1 − r."""

    n: Scalar
    r: Scalar
    rest: Scalar


def reduce(x: Scalar, low: Scalar | None = None) -> Reduced:
    """For x between underflow and overflow; `low` is a further, small part of the argument."""
    known = constants(x.format)
    shifter = x.format.shifter
    n = muladd(x, known.log2_e[0], shifter) - shifter
    exact = fma_of_whole(n, -known.ln2[0], x)  # n ln 2 and x have the same last bit position, so this is exact
    rest = n * -known.ln2[1] if low is None else muladd(n, -known.ln2[1], low)
    r, tail = ordered_sum(exact, rest)
    return Reduced(n, r, muladd(r * r, horner(r, known.exp), tail))


def within_range(x: Scalar) -> Scalar:
    known = constants(x.format)
    return at_least(at_most(x, known.overflow), known.underflow)


def exp(x: Scalar) -> Scalar:
    n, p = exp_parts(within_range(x))
    return scaled(p, n)


def exp_parts(x: Scalar) -> tuple[Scalar, Scalar]:
    """(n, p) with eˣ = p·2ⁿ; the rounding of r costs a quarter of a unit in the last place, which is accepted."""
    known = constants(x.format)
    shifter = x.format.shifter
    n = muladd(x, known.log2_e[0], shifter) - shifter
    r = muladd(n, -known.ln2[1], fma_of_whole(n, -known.ln2[0], x))
    return n, muladd(r * r, horner(r, known.exp), r) + 1.0


def exp_pair(x: Scalar, low: Scalar | None = None) -> tuple[Pair, Scalar]:
    """(p, n) with e^(x + low) = p·2ⁿ, p to about 57 bits; x between underflow and overflow."""
    n, r, rest = reduce(x, low)
    high, error = ordered_sum(1.0, r)
    return ordered_sum(high, error + rest), n


def exp2(x: Scalar) -> Scalar:
    known = constants(x.format)
    form = x.format
    x = at_least(at_most(x, form.bias + 1.0), -(form.bias + form.fraction + 1.0))
    n = nearest(x)
    r = (x - n) * known.ln2[0]
    return scaled(muladd(r * r, horner(r, known.exp), r) + 1.0, n)


def half_expm1(x: Scalar) -> tuple[Pair, Reduced]:
    """(eˣ − 1)/2 as a pair, x ≤ overflow; the half keeps the power of two within the format."""
    parts = reduce(at_least(x, -40.0))
    power = power_of_two(parts.n - 1.0)
    high, low = ordered_sum(power - 0.5, power * parts.r)
    return Pair(high, muladd(power, parts.rest, low)), parts


def expm1(x: Scalar) -> Scalar:
    half, (n, r, rest) = half_expm1(at_most(x, constants(x.format).overflow))
    doubled = (half.high + half.low) * 2.0
    # Halves of the smallest numbers are not exact; near zero no power of two is added.
    return copysign(select(n.equals(0.0), r + rest, doubled), x)


def sinh(x: Scalar) -> Scalar:
    a = magnitude(x)
    square = a * a
    small = muladd(a * square, horner(square, constants(x.format).sinh), a)
    grown = half_exp(a)
    return copysign(select(a < 1.0, small, grown - 0.25 / grown), x)


def cosh(x: Scalar) -> Scalar:
    grown = half_exp(magnitude(x))
    return grown + 0.25 / grown


def half_exp(a: Scalar) -> Scalar:
    """eᵃ/2, finite somewhat longer than eᵃ is."""
    n, p = exp_parts(at_most(a, constants(a.format).overflow + 1.0))
    return scaled(p, n - 1.0)


def tanh(x: Scalar) -> Scalar:
    """(e²ˣ − 1)/(e²ˣ + 1), numerator and denominator as pairs."""
    a = at_most(magnitude(x), constants(x.format).saturation)
    high, low = ordered_sum(*half_expm1(a + a)[0])
    bottom, error = ordered_sum(select(high > 1.0, high, 1.0), select(high > 1.0, high.constant(1.0), high))
    ratio = quotient(Pair(high, low), Pair(bottom, error + low))
    return copysign(ratio.high + ratio.low, x)


def expit(x: Scalar) -> Scalar:
    """1/(1 + e⁻ˣ), from the side where the exponential is below 1; as pairs, since e/(1 + e) may be in the binade below e."""
    fraction, n = exp_pair(at_least(-magnitude(x), constants(x.format).underflow))
    decay, low = scaled(fraction.high, n), scaled(fraction.low, n)
    bottom, error = ordered_sum(1.0, decay)
    negative = x < 0.0
    top = Pair(select(negative, decay, 1.0), select(negative, low, 0.0))
    ratio = quotient(top, Pair(bottom, error + low))
    return ratio.high + ratio.low
