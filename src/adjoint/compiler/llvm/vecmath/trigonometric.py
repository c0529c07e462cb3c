"""sin, cos and tan: the angle modulo π/2, then polynomials on |r| ≤ π/4, and the quadrant by selection."""

from __future__ import annotations

import math
from collections.abc import Callable

from adjoint.compiler.llvm.vecmath import coefficients as table
from adjoint.compiler.llvm.vecmath.pair import Pair, ordered_sum, quotient
from adjoint.compiler.llvm.vecmath.rare import rarely
from adjoint.compiler.llvm.vecmath.remainder import Angle, limit, reduce, reduce_any
from adjoint.compiler.llvm.vecmath.scalar import FLOAT64, Scalar, fma, horner, magnitude, select

_SIN = {64: table.SIN_64, 32: table.SIN_32}
_COS = {64: table.COS_64, 32: table.COS_32}


def sine(angle: Angle) -> Pair:
    """sin(r + low) = r + r³·S(r²) + low·cos r."""
    _, r, low = angle
    square = r * r
    return Pair(r, fma(square * r, horner(square, _SIN[r.format.bits]), fma(square * -0.5, low, low)))


def cosine(angle: Angle) -> Pair:
    """cos(r + low) = 1 − r²/2 + r⁴·C(r²) − low·sin r."""
    _, r, low = angle
    square = r * r
    high, error = ordered_sum(1.0, square * -0.5)
    exact = fma(r, r, -square) * -0.5  # the rounding error of the square
    return Pair(high, (error + exact) + fma(square * square, horner(square, _COS[r.format.bits]), -(low * r)))


def _bit(angle: Angle, quarter_turns: float, place: int) -> Scalar:
    """A bit of the number of quarter turns, after as many have been added."""
    return (angle.n + (angle.n.format.shifter + quarter_turns)).as_word() & place


def _turned(x: Scalar, angle: Angle, quarter_turns: float, own_sign: bool) -> Scalar:
    """sin(|x| + quarter_turns·π/2), with the sign of x if asked for."""
    (s, s_low), (c, c_low) = sine(angle), cosine(angle)
    value = select(_bit(angle, quarter_turns, 1).equals(0), s + s_low, c + c_low)
    return _signed(x, value, _bit(angle, quarter_turns, 2) << (x.format.bits - 2), own_sign)


def _signed(x: Scalar, value: Scalar, sign: Scalar, own_sign: bool) -> Scalar:
    """`value` with the sign flipped, and flipped again if x is negative."""
    if own_sign:
        sign = sign ^ (x.as_word() & (1 << (x.format.bits - 1)))
    return (value.as_word() ^ sign).as_real(x.format)


def _quotient(x: Scalar, angle: Angle) -> Scalar:
    """tan x = sin/cos as pairs; in odd quadrants −cos/sin."""
    odd = _bit(angle, 0.0, 1)
    even = odd.equals(0)
    s, c = sine(angle), cosine(angle)
    top = Pair(*(select(even, a, b) for a, b in zip(s, c, strict=True)))
    bottom = Pair(*(select(even, b, a) for a, b in zip(s, c, strict=True)))
    ratio = quotient(ordered_sum(*top), ordered_sum(*bottom))
    return _signed(x, ratio.high + ratio.low, odd << (x.format.bits - 1), True)


def _function(name: str, of_angle: Callable[[Scalar, Angle], Scalar]) -> Callable[[Scalar], Scalar]:
    """The function of a number from the one of its angle: fast up to the limit, exact for every number beyond it."""

    def slow(x: Scalar) -> Scalar:
        wide = x if x.format is FLOAT64 else x.widened()
        value = of_angle(wide, reduce_any(magnitude(wide)))
        value = select(magnitude(wide) < math.inf, value, math.nan)
        return value if x.format is FLOAT64 else value.narrowed()

    def function(x: Scalar) -> Scalar:
        a = magnitude(x)
        return rarely(a > limit(a), of_angle(x, reduce(a)), name, slow, x)

    return function


sin = _function("sin", lambda x, angle: _turned(x, angle, 0.0, own_sign=True))
cos = _function("cos", lambda x, angle: _turned(x, angle, 1.0, own_sign=False))
tan = _function("tan", _quotient)
