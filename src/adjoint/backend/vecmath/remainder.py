"""Remainders by π/2.

Up to a limit, n = round(x·2/π) and r = x − n·π/2 with π/2 as a sum of three numbers: the first product cancels exactly, the
second is kept with its error (Cody and Waite 1980, with fused multiply-add). Beyond the limit, the binary digits of 2/π that
matter are taken from a table and multiplied by the fraction of x in integers (Payne and Hanek, SIGNUM Newsletter 18, 1983).
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

from llvmlite import ir

from adjoint.backend.vecmath import coefficients as table
from adjoint.backend.vecmath.pair import product, sum_of
from adjoint.backend.vecmath.rare import outlined
from adjoint.backend.vecmath.scalar import DOUBLE, INT32, INT64, Scalar, fma, muladd, select


class Angle(NamedTuple):
    """x = n·π/2 + r + low, where n counts modulo 4."""

    n: Scalar
    r: Scalar
    low: Scalar


class Constants(NamedTuple):
    two_over_pi: float
    half_pi: tuple[float, float, float]
    limit: float  # n is right to 0.005 up to here, and n·π/2 to all digits of the closest multiple


_CONSTANTS = {
    64: Constants(table.TWO_OVER_PI_64, table.HALF_PI_64, 2.0**45),
    32: Constants(table.TWO_OVER_PI_32, table.HALF_PI_32, 2.0**16),
}


def limit(a: Scalar) -> float:
    """How far `reduce` reaches."""
    return _CONSTANTS[a.format.bits].limit


def reduce(a: Scalar) -> Angle:
    """For 0 ≤ a ≤ limit."""
    known = _CONSTANTS[a.format.bits]
    shifter = a.format.shifter
    n = muladd(a, known.two_over_pi, shifter) - shifter
    first = fma(n, -known.half_pi[0], a)
    second = product(n, -known.half_pi[1])
    r, error = sum_of(first, second.high)
    return Angle(n, r, error + fma(n, -known.half_pi[2], second.low))


def reduce_any(a: Scalar) -> Angle:
    """For a double a ≥ 2⁻⁸, however large; infinity gives some angle."""
    module = a.builder.module
    name = "adjoint.two_over_pi"
    digits = module.globals.get(name)
    if digits is None:
        numbers = [int(word, 16) for word in table.TWO_OVER_PI_DIGITS.split()]
        words = ir.ArrayType(INT32, len(numbers))
        digits = ir.GlobalVariable(module, words, name)
        digits.linkage, digits.global_constant = "internal", True
        digits.initializer = ir.Constant(words, numbers)
    found = []
    for part in (_quadrant, _remainder):
        full = f"adjoint.huge.{part.__name__[1:]}"
        function = module.globals.get(full) or outlined(module, full, functools.partial(part, digits), DOUBLE)
        found.append(a.like(a.builder.call(function, [a.value])))
    return Angle(found[0], found[1], a.constant(0.0))


class _Turns(NamedTuple):
    """x·2/π modulo 4 as a binary fraction of 128 bits, two of them before the point."""

    top: Scalar
    bottom: Scalar


def _turns(digits: Any, x: Scalar) -> _Turns:
    """The product of the fraction of x by the 192 digits of 2/π from the one that counts 2 on."""
    builder = x.builder
    word = x.as_word()
    fraction = (word & ((1 << 52) - 1)) | (1 << 52)
    # x = fraction·2^(exponent − 1075); the first digit that counts has weight 2^−(exponent − 1076), after 64 zeros.
    offset = (word >> 52) - (1075 + 2 - 64)
    shift = offset & 31
    index = offset >> 5

    def loaded(i: int) -> Scalar:
        place = builder.gep(digits, [ir.Constant(INT64, 0), (index + i).value], inbounds=True)
        return x.like(builder.zext(builder.load(place), INT64))

    raw = [loaded(i) for i in range(7)]
    mask = 0xFFFFFFFF
    window = [((((raw[i] << 32) | raw[i + 1]) << shift) >> 32) for i in range(6)][::-1]  # the lowest word first
    lower, upper = fraction & mask, fraction >> 32
    words: list[Scalar] = []
    carry = fraction.constant(0)
    for j in range(6):
        total = carry + ((lower * window[j]) & mask)
        if j >= 1:
            total = total + ((lower * window[j - 1]) >> 32) + ((upper * window[j - 1]) & mask)
        if j >= 2:
            total = total + ((upper * window[j - 2]) >> 32)
        words.append(total & mask)
        carry = total >> 32
    return _Turns((words[5] << 32) | words[4], (words[3] << 32) | words[2])


def _quadrant(digits: Any, x: Scalar) -> Scalar:
    """The nearest whole number of quarter turns."""
    top = _turns(digits, x).top
    nearest = (top + (1 << 61)) >> 62
    return x.like(x.builder.uitofp(nearest.value, DOUBLE))


def _remainder(digits: Any, x: Scalar) -> Scalar:
    """What is left, in radians."""
    top, bottom = _turns(digits, x)
    top = (top + (1 << 61) & ((1 << 62) - 1)) - (1 << 61)  # from −1/2 to 1/2, as two's complement
    negative = x.like(x.builder.icmp_signed("<", top.value, ir.Constant(INT64, 0)))
    flip = x.like(x.builder.sext(negative.value, INT64))
    top, bottom = top ^ flip, bottom ^ flip
    high = x.like(x.builder.uitofp((top >> 10).value, DOUBLE)) * 2.0**-52
    low = x.like(x.builder.uitofp((((top & 1023) << 54) | (bottom >> 10)).value, DOUBLE)) * 2.0**-116
    first, second, _ = table.HALF_PI_64
    whole = product(high, first)
    radians = whole.high + fma(high, second, fma(low, first, whole.low))
    return select(negative, -radians, radians)
