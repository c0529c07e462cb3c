"""Remainders by π/2.

Up to a limit, n = round(x·2/π) and r = x − n·π/2 with π/2 as a sum of three numbers: the first product cancels exactly, the
second is kept with its error (Cody and Waite 1980, with fused multiply-add). Beyond the limit, the binary digits of 2/π that
matter are taken from a table and multiplied by the fraction of x in integers (Payne and Hanek, SIGNUM Newsletter 18, 1983).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from adjoint.compiler.llvm.instruction import literal
from adjoint.compiler.llvm.vecmath import coefficients as table
from adjoint.compiler.llvm.vecmath.pair import product, sum_of
from adjoint.compiler.llvm.vecmath.rare import ATTRIBUTES
from adjoint.compiler.llvm.vecmath.scalar import Scalar, fma, muladd


class Angle(NamedTuple):
    """x = n·π/2 + r + low, where n counts modulo 4."""

    n: Scalar
    r: Scalar
    low: Scalar


class ReductionConstants(NamedTuple):
    two_over_pi: float
    half_pi: tuple[float, float, float]
    limit: float  # n is accurate to 0.005 up to here, and n·π/2 to all digits of the closest multiple


_CONSTANTS = {
    64: ReductionConstants(table.TWO_OVER_PI_64, table.HALF_PI_64, 2.0**45),
    32: ReductionConstants(table.TWO_OVER_PI_32, table.HALF_PI_32, 2.0**16),
}


def limit(a: Scalar) -> float:
    """The largest argument of `reduce`."""
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
    """For a double a ≥ 1, however large; infinity gives some angle."""
    a.code.needs("@adjoint.two_over_pi", _DIGITS)
    a.code.needs("@adjoint.huge", _HUGE)
    a.code.declared.add(_FMA)
    both = a.code.let(f"call {{ double, double }} @adjoint.huge(double {a.name})")
    n, r = (a.let(f"extractvalue {{ double, double }} {both}, {i}") for i in (0, 1))
    return Angle(n, r, a.constant(0.0))


def _bits(number: float) -> str:
    return literal(number, np.dtype(float))


_WORDS = table.TWO_OVER_PI_DIGITS.split()
_DIGITS = f"@adjoint.two_over_pi = internal constant [{len(_WORDS)} x i64] [{', '.join(f'i64 u0x{word}' for word in _WORDS)}]"
_FMA = "declare double @llvm.fma.f64(double, double, double)"
_PLACES = 64 * (len(_WORDS) - 2)  # digits of 2/π after the point; two words of zeros precede it

# a = fraction·2^(exponent − 1075). Of the product with 2/π only what is below 4 counts, and of the digits of 2/π only 192: those
# whose products reach the upper 128 bits, and 64 more; products wrap around at 4. The words are read as on all machines that
# LLVM compiles for here, the lowest first.
_HUGE = f"""\
define internal {{ double, double }} @adjoint.huge(double %a) {ATTRIBUTES} {{
  %bits = bitcast double %a to i64
  %exponent = lshr i64 %bits, 52
  %low52 = and i64 %bits, {2**52 - 1}
  %fraction = or i64 %low52, {2**52}
  %first = sub i64 {_PLACES + 1075 - 190}, %exponent
  %index = lshr i64 %first, 6
  %shift = and i64 %first, 63
  %place = getelementptr i64, ptr @adjoint.two_over_pi, i64 %index
  %words = load <4 x i64>, ptr %place, align 8
  %window = bitcast <4 x i64> %words to i256
  %shift256 = zext i64 %shift to i256
  %shifted = lshr i256 %window, %shift256
  %digits = trunc i256 %shifted to i192
  %wide = zext i64 %fraction to i192
  %product = mul i192 %digits, %wide
  %upper = lshr i192 %product, 64
  %turns = trunc i192 %upper to i128
  %ahead = add i128 %turns, {2**125}
  %n = lshr i128 %ahead, 126
  %whole = shl i128 %n, 126
  %rest = sub i128 %turns, %whole
  %negative = icmp slt i128 %rest, 0
  %opposite = sub i128 0, %rest
  %size = select i1 %negative, i128 %opposite, i128 %rest
  %size.high = lshr i128 %size, 74
  %word.high = trunc i128 %size.high to i64
  %size.low = lshr i128 %size, 10
  %word.low = trunc i128 %size.low to i64
  %real.high = uitofp i64 %word.high to double
  %real.low = uitofp i64 %word.low to double
  %high = fmul double %real.high, {_bits(2.0**-52)}
  %low = fmul double %real.low, {_bits(2.0**-116)}
  %product.high = fmul double %high, {_bits(table.HALF_PI_64[0])}
  %minus = fneg double %product.high
  %error = call double @llvm.fma.f64(double %high, double {_bits(table.HALF_PI_64[0])}, double %minus)
  %error.low = call double @llvm.fma.f64(double %low, double {_bits(table.HALF_PI_64[0])}, double %error)
  %error.all = call double @llvm.fma.f64(double %high, double {_bits(table.HALF_PI_64[1])}, double %error.low)
  %radians = fadd double %product.high, %error.all
  %other = fneg double %radians
  %r = select i1 %negative, double %other, double %radians
  %n.word = trunc i128 %n to i64
  %n.real = uitofp i64 %n.word to double
  %one = insertvalue {{ double, double }} poison, double %n.real, 0
  %both = insertvalue {{ double, double }} %one, double %r, 1
  ret {{ double, double }} %both
}}"""
