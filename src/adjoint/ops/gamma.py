"""The gamma function and its relatives. Zeros that meet a pole of another factor are handled separately."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core.errors import UnsupportedError
from ..core.types import Value, dtype_of
from .broadcast import real, where
from .declare import constant, elementwise
from .elementwise import cos, equal, exp, floor, greater, less, less_equal, log1p, logical_and, sin
from .lazy import SPECIAL, Lazy, special

_hurwitz = Lazy("scipy.special", "zeta")


def _zeta(s: Any, q: Any) -> Any:
    if dtype_of(q).kind == "c":
        raise UnsupportedError("the derivative of digamma at a complex number is not available; SciPy has no complex trigamma")
    return _hurwitz(s, q)


# ζ(s, q) = Σ (q + n)⁻ˢ. The polygamma functions are ψ⁽ⁿ⁾(x) = (−1)ⁿ⁺¹ n! ζ(n + 1, x).
zeta = elementwise(
    "zeta", _zeta, lambda y, x, q: (None, -x * zeta(x + 1, q)), domain=((1.5, 3), (0.5, 2)), doc="scipy.special.zeta(s, q)"
)

psi = special("psi", lambda y, x: (zeta(2.0, x),), domain=(0.5, 3))
gamma = special("gamma", lambda y, x: (y * psi(x),), domain=(0.5, 3), latex=r"\Gamma")
gammaln = special("gammaln", lambda y, x: (psi(x),), domain=(0.5, 3))
loggamma = special("loggamma", lambda y, z: (psi(z),), domain=(0.5, 3))
rgamma = special("rgamma", lambda y, x: (_rgamma_slope(y, x),), domain=(0.5, 3))
gammasgn = constant("gammasgn", Lazy("scipy.special", "gammasgn"))
SPECIAL["gammasgn"] = gammasgn  # type: ignore[assignment]


def _rgamma_slope(y: Value, x: Value) -> Value:
    """(1/Γ)' = −ψ/Γ; on the left, where both have poles, from 1/Γ(x) = sin(πx) Γ(1−x) / π."""
    left = less(real(x), 0.5)
    z = where(left, 1 - x, 1.0)
    reflected = gamma(z) * (cos(math.pi * x) - sin(math.pi * x) * psi(z) / math.pi)
    return where(left, reflected, -y * psi(where(left, 1.0, x)))


def _psi_drop(a: Value, b: Value) -> Value:
    """ψ(a) − ψ(a + b). For large a, where the two agree in most digits, from ψ(z) ≈ log z − 1/2z − 1/12z²."""
    c = a + b
    large = logical_and(greater(a, 1e3), greater(c, 1e3))
    u, v = where(large, a, 1.0), where(large, c, 1.0)
    by_series = -log1p(where(large, b, 0.0) / u) - 0.5 * b / u / v - b / u / v * (1 / u + 1 / v) / 12
    return where(large, by_series, psi(a) - psi(c))


beta = special("beta", lambda y, a, b: (y * _psi_drop(a, b), y * _psi_drop(b, a)), domain=(0.5, 3))
betaln = special("betaln", lambda y, a, b: (_psi_drop(a, b), _psi_drop(b, a)), domain=(0.5, 3))

# Γ(n+1) / (Γ(k+1) Γ(n−k+1)), and Γ(a+m) / Γ(a). At a zero the product rule is taken with 1/Γ, which is smooth.
binom = special(
    "binom",
    lambda y, n, k: (
        where(
            equal(y, 0),
            y * psi(n + 1) + gamma(n + 1) * rgamma(k + 1) * _rgamma_slope(rgamma(n - k + 1), n - k + 1),
            y * (psi(n + 1) - psi(n - k + 1)),
        ),
        where(
            equal(y, 0),
            gamma(n + 1)
            * (
                _rgamma_slope(rgamma(k + 1), k + 1) * rgamma(n - k + 1)
                - rgamma(k + 1) * _rgamma_slope(rgamma(n - k + 1), n - k + 1)
            ),
            y * (psi(n - k + 1) - psi(k + 1)),
        ),
    ),
    domain=((3, 5), (0.5, 2)),
)
poch = special(
    "poch",
    lambda y, a, m: (
        where(equal(y, 0), y * psi(a + m) + gamma(a + m) * _rgamma_slope(rgamma(a), a), y * _psi_difference(a + m, a)),
        y * psi(a + m),
    ),
    domain=(0.5, 3),
)


def _psi_difference(b: Value, a: Value) -> Value:
    """ψ(b) − ψ(a). Where both are poles, as in a polynomial, the reflected functions differ by the same."""
    poles = logical_and(_is_pole(a), _is_pole(b))
    return where(poles, psi(where(poles, 1 - b, 1.0)) - psi(where(poles, 1 - a, 1.0)), psi(b) - psi(a))


def _is_pole(x: Value) -> Value:
    return logical_and(less_equal(x, 0), equal(x, floor(x)))


def polygamma(n: Value, x: Value) -> Value:
    """ψ⁽ⁿ⁾(x), for integer n."""
    if isinstance(n, int | np.integer):
        n = int(n)
        return psi(x) if n == 0 else (-1) ** (n + 1) * math.gamma(n + 1) * zeta(n + 1.0, x)
    sign = where(equal(n % 2, 0), -1.0, 1.0)
    return where(equal(n, 0), psi(x), sign * exp(gammaln(n + 1.0)) * zeta(where(equal(n, 0), 2.0, n + 1.0), x))
