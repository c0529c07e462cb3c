"""The error function and its complement."""

from __future__ import annotations

from adjoint.compiler.llvm.vecmath import coefficients as table
from adjoint.compiler.llvm.vecmath.exponential import exp, exp_pair
from adjoint.compiler.llvm.vecmath.pair import ordered_sum, pair_product, product, quotient
from adjoint.compiler.llvm.vecmath.scalar import Scalar, at_least, at_most, copysign, horner, magnitude, muladd, scaled, select

_CENTRE = 3.75  # of the variable t of the table


def _small(a: Scalar) -> Scalar:
    """erf(a) − a for |a| ≤ 1."""
    return a * horner(a * a, table.ERF_64)


def _growth(a: Scalar) -> Scalar:
    """(1 + 2a)·exp(a²)·erfc(a) − 5/4."""
    return horner((a - _CENTRE) / (a + _CENTRE), table.ERFCX_64)


def erf(x: Scalar) -> Scalar:
    a = at_most(magnitude(x), 6.5)
    bounded = at_least(a, 1.0)
    rest = exp(-(bounded * bounded)) * (_growth(bounded) + 1.25) / muladd(bounded, 2.0, 1.0)
    return copysign(select(a > 1.0, 1.0 - rest, a + _small(a)), x)


def erfc(x: Scalar) -> Scalar:
    """Near zero 1 − erf x; else exp(−a²)·p/(1 + 2a) for a = |x|, all three as pairs."""
    a = magnitude(x)
    bounded = at_least(at_most(a, 28.0), 0.5)
    square = product(bounded, bounded)
    fraction, n = exp_pair(at_least(-square.high, -746.0), -square.low)
    top = pair_product(fraction, ordered_sum(1.25, _growth(bounded)))
    ratio = quotient(top, ordered_sum(bounded + bounded, bounded.constant(1.0)))
    far = scaled(ratio.high + ratio.low, n)
    high, low = ordered_sum(1.0, -x)
    near = high + (low - _small(x))
    return select(a < 0.5, near, select(x < 0.0, 2.0 - far, far))
