"""The gamma function and its relatives in terms of other ops, for languages that do not have them.

Stirling's series holds from 12 on; smaller arguments are raised by Γ(x) = Γ(x + n)/(x (x + 1) … (x + n − 1)), negative ones are
reflected. Exact to about 10⁻¹⁴; near a zero of `gammaln` or `psi`, that much of 1.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core.op import Op
from ..core.types import Value, dtype_of
from ..ops import gamma
from ..ops.broadcast import where
from ..ops.elementwise import absolute, cos, equal, exp, floor, greater, isnan, less, log, logical_and, maximum, power, rint, sin

_FROM = 12  # where the series are exact
#: B₂ₖ/(2k(2k − 1)), of log Γ, and B₂ₖ/(2k), of ψ, for k = 1, 2, …
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
_DIGAMMA = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)


def _series(x: Value, coefficients: tuple[float, ...]) -> Value:
    """Σ cₖ x²ᵏ for k = 0, 1, …"""
    square, total = x * x, coefficients[-1]
    for c in reversed(coefficients[:-1]):
        total = total * square + c
    return total


def _raised(x: Value) -> tuple[Value, Value]:
    """(z, p) with z ≥ 12 and Γ(x) = Γ(z)/p, for a positive x."""
    product: Value = np.ones((), dtype_of(x))
    for _ in range(_FROM):
        low = less(x, _FROM)
        product = where(low, product * x, product)
        x = where(low, x + 1, x)
    return x, product


def _sine(x: Value) -> Value:
    """sin πx, from the distance to the nearest whole number."""
    whole = rint(x)
    odd = _is_odd(whole)
    value = sin(math.pi * (x - whole))
    return where(odd, -value, value)


def _is_odd(n: Value) -> Value:
    half = n * 0.5
    return greater(half - floor(half), 0.25)


def _is_pole(x: Value) -> Value:
    return logical_and(less(x, 0.5), equal(x, floor(x)))


def _gamma(x: Value) -> Value:
    """The power is split, since it alone would overflow."""
    negative = less(x, 0.5)
    z, product = _raised(where(negative, 1 - x, x))
    far = greater(z, 172.0)
    z = where(far, 172.0, z)
    root = power(z, 0.5 * z - 0.25)
    rest = exp(-z + _series(1 / z, _STIRLING) / z)
    value = where(far, math.inf, math.sqrt(2 * math.pi) * root * rest * root / product)
    pole = _is_pole(x)
    sine = where(pole, 1.0, _sine(x))
    reflected = math.pi / (sine * value)
    at_pole = where(equal(x, 0), 1 / where(equal(x, 0), x, 1.0), math.nan)
    return where(isnan(x), x, where(pole, at_pole, where(negative, reflected, value)))


def _gammaln(x: Value) -> Value:
    negative = less(x, 0.5)
    z, product = _raised(where(negative, 1 - x, x))
    infinite = equal(z, math.inf)
    z = where(infinite, 1.0, z)
    value = (z - 0.5) * log(z) - z + 0.5 * math.log(2 * math.pi) + _series(1 / z, _STIRLING) / z - log(product)
    value = where(infinite, math.inf, value)
    pole = _is_pole(x)
    reflected = math.log(math.pi) - log(absolute(where(pole, 1.0, _sine(x)))) - value
    return where(isnan(x), x, where(equal(x, -math.inf), x, where(pole, math.inf, where(negative, reflected, value))))


def _psi(x: Value) -> Value:
    negative = less(x, 0.5)
    z = where(negative, 1 - x, x)
    total: Value = np.zeros((), dtype_of(x))
    for _ in range(_FROM):
        low = less(z, _FROM)
        total = where(low, total - 1 / where(low, z, 1.0), total)
        z = where(low, z + 1, z)
    value = log(z) - 0.5 / z - _series(1 / z, _DIGAMMA) / (z * z) + total
    pole = _is_pole(x)
    sine = where(pole, 1.0, _sine(x))
    whole = rint(x)
    cosine = where(_is_odd(whole), -1.0, 1.0) * cos(math.pi * (x - whole))
    return where(
        pole,
        where(equal(x, 0), -1 / where(equal(x, 0), x, 1.0), math.nan),
        where(negative, value - math.pi * cosine / sine, value),
    )


def _gammasgn(x: Value, *out: Any) -> Value:
    """+1 for positive x; between the poles the sign alternates."""
    negative = less(x, 0)
    sign = where(logical_and(negative, _is_odd(floor(where(negative, x, 1.0)))), -1.0, 1.0)
    return where(isnan(x), x, where(logical_and(negative, equal(x, floor(x))), math.nan, sign))


def _beta(a: Value, b: Value) -> Value:
    """By logarithms where a factor is large."""
    large = greater(maximum(maximum(a, b), a + b), 100.0)
    near = gamma.gamma(where(large, 1.0, a)) * gamma.gamma(where(large, 1.0, b)) * gamma.rgamma(where(large, 2.0, a + b))
    sign = gamma.gammasgn(a) * gamma.gammasgn(b) * gamma.gammasgn(a + b)
    return where(large, sign * exp(gamma.betaln(a, b)), near)


def _rgamma(x: Value) -> Value:
    pole = _is_pole(x)
    return where(pole, 0.0, 1 / gamma.gamma(where(pole, 1.0, x)))


GAMMA_EXPANSIONS: dict[Op, Any] = {
    gamma.gamma: _gamma,
    gamma.gammaln: _gammaln,
    gamma.psi: _psi,
    gamma.rgamma: _rgamma,
    gamma.gammasgn: _gammasgn,
    gamma.betaln: lambda a, b: gamma.gammaln(a) + gamma.gammaln(b) - gamma.gammaln(a + b),
    gamma.beta: _beta,
}

__all__ = ["GAMMA_EXPANSIONS"]
