"""Binary fractions of 192 bits: unsigned integers that count units of 2⁻¹⁹², for the few results that need so many digits.

LLVM expands products of wide integers into 64-bit ones. This is scalar code, for `rare.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from adjoint.compiler.llvm.vecmath.pair import Pair, ordered_sum
from adjoint.compiler.llvm.vecmath.scalar import DOUBLE, FLOAT64, Scalar, select

BITS = 192
WIDE = f"i{BITS}"
_WORD = 64


class Number(NamedTuple):
    """fraction·2^exponent, 1/2 ≤ fraction < 1."""

    fraction: Scalar
    exponent: Scalar  # a word


def number(x: Scalar) -> Number:
    """A positive finite double."""
    tiny = x < FLOAT64.least_normal
    word = select(tiny, x * 2.0**54, x).as_word()
    digits = (word & ((1 << 52) - 1)) | (1 << 52)
    return Number(widened(digits) << (BITS - 53), (word >> 52) - select(tiny, word.constant(1022 + 54), 1022))


def widened(word: Scalar) -> Scalar:
    return word.to("zext", WIDE)


def _width(fraction: Scalar) -> int:
    return int(fraction.kind[1:])


def cut(fraction: Scalar, bits: int) -> Scalar:
    """The leading bits of a fraction."""
    whole = _width(fraction)
    return fraction if whole == bits else (fraction >> (whole - bits)).to("trunc", f"i{bits}")


def product(a: Scalar, b: Scalar) -> Scalar:
    """a·b, truncated to the width of both."""
    width = _width(a)
    return cut(a.to("zext", f"i{2 * width}") * b.to("zext", f"i{2 * width}"), width)


def polynomials(points: Sequence[Scalar], coefficients: Sequence[tuple[int, int]]) -> list[Scalar]:
    """Σ pₖ·xᵏ at each of some points below 0.7, by Horner's rule; the coefficients are given as n/d, positive and decreasing.

    Terms below 2⁻⁶⁰ need one word less than the first, and terms below 2⁻¹²⁰ two.
    """
    groups: list[list[tuple[int, int]]] = [[], [], []]  # by the number of words dropped
    for k, (numerator, denominator) in enumerate(coefficients):
        groups[min(2, int((math.log2(denominator / numerator) - k * math.log2(0.7)) / 60))].append((numerator, denominator))
    # Small coefficients are multiplied by a power of two, so that they use all the bits.
    lifts = [max(0, int(math.log2(group[0][1] / group[0][0])) - 2) for group in groups]
    totals: list[Scalar] = []
    for words in (2, 1, 0):
        width = BITS - words * _WORD
        numbers = [(numerator << (width + lifts[words])) // denominator for numerator, denominator in reversed(groups[words])]
        if totals:
            totals = [_moved(total, width) >> (lifts[words + 1] - lifts[words]) for total in totals]
        else:
            totals = [Scalar(point.code, "0", f"i{width}") for point in points]
        totals = _horner([cut(point, width) for point in points], totals, numbers)
    return [total >> lifts[0] for total in totals]


def _moved(fraction: Scalar, bits: int) -> Scalar:
    """The fraction widened."""
    return fraction.to("zext", f"i{bits}") << (bits - _width(fraction))


def _horner(points: list[Scalar], totals: list[Scalar], numbers: list[int]) -> list[Scalar]:
    """total·x + number for number after number, in a loop."""
    code, kind = points[0].code, points[0].kind
    count = _width(points[0]) // _WORD
    # As words: targets differ in the padding of wide integers, and LLVM omits it for some.
    words = ", ".join(f"i64 {number >> (_WORD * k) & (1 << _WORD) - 1}" for number in numbers for k in range(count))
    table = f"@adjoint.coefficients.{kind}"
    code.needs(table, f"{table} = internal constant [{len(numbers) * count} x i64] [{words}]")
    loop = code.repeat([(kind, total.name) for total in totals])
    place = code.let(f"getelementptr inbounds [{count} x i64], ptr {table}, i64 {loop.index}")
    number = points[0].let(f"load {kind}, ptr {place}, align 8")
    following = [product(point, Scalar(code, total, kind)) + number for point, total in zip(points, loop.values, strict=True)]
    loop.close(str(len(numbers)), [total.name for total in following])
    return following


def leading(fraction: Scalar) -> tuple[Pair, Scalar]:
    """(p, n) with fraction = p·2ⁿ, 1/2 ≤ p ≤ 1 to 64 bits, for a fraction that is not 0."""
    code, kind = fraction.code, fraction.kind
    code.declared.add(f"declare {kind} @llvm.ctlz.{kind}({kind}, i1)")
    zeros = fraction.let(f"call {kind} @llvm.ctlz.{kind}({kind} {fraction.name}, i1 true)")
    word = cut(fraction << zeros, _WORD)
    high = (word >> 11) << 11  # the digits of a double
    pair = ordered_sum(_real(high) * 2.0**-64, _real(word - high) * 2.0**-64)
    return pair, -_real(zeros.to("trunc", f"i{_WORD}"))


def _real(word: Scalar) -> Scalar:
    return word.to("uitofp", DOUBLE)


def negative(fraction: Scalar) -> Scalar:
    """Whether a difference of fractions that are closer than 1/2 is below 0."""
    return fraction >= 1 << (BITS - 1)


def size(fraction: Scalar) -> Scalar:
    """The absolute value of such a difference."""
    return select(negative(fraction), fraction.constant(0) - fraction, fraction)
