"""The gamma function and its relatives in terms of other ops.

    gammaln(x)   = S(z), z = x - 2, for 1.5 <= x <= 2.5; shifted there by Γ(x + 1) = x Γ(x); Stirling's series for large x

To about 1e-14 of the size of the result, or of its larger terms near a zero.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from ...api.control import while_loop
from ...core.op import Op
from ...ops import gamma
from ...ops.broadcast import where
from .numerics import Expansion, horner, of_reals, scipy_special

_EULER = 0.5772156649015329
_NAN, _INF = math.nan, math.inf


@functools.cache
def _zetas() -> tuple[float, ...]:
    """Coefficients of log Γ(2 + z): 1 - γ, then (ζ(k) - 1) (-1)^k / k."""
    return (0.0, 1 - _EULER, *(float(scipy_special("zetac")(k)) * (-1) ** k / k for k in range(2, 28)))


_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
_SHIFTS, _LARGE = 10, 12.0


def _shifted(x: Any) -> tuple[Any, Any, Any]:
    """For 0.5 <= x <= 12: y in [1.5, 2.5], p and q with Γ(x) = Γ(y) p / q."""
    y, p = x, x * 0 + 1.0
    small = x < 1.5
    q = where(small, x, 1.0)
    y = where(small, x + 1.0, x)
    for _ in range(_SHIFTS):
        large = y > 2.5
        y = where(large, y - 1.0, y)
        p = where(large, p * y, p)
    return y, p, q


def stirling(x: Any) -> Any:
    """log Γ(x) - (x - ½) log x + x - ½ log 2π."""
    return horner(1.0 / (x * x), _STIRLING) / x


def _large_gammaln(x: Any) -> Any:
    huge = where(x > 1e290, 1e290, x)
    return where(
        x > 1e290, x * (np.log(x) - 1.0), (huge - 0.5) * np.log(huge) - huge + 0.5 * math.log(2 * math.pi) + stirling(huge)
    )


def _positive_gammaln(x: Any) -> Any:
    """For x >= 0.5."""
    inside = np.minimum(x, _LARGE)
    y, p, q = _shifted(inside)
    z = y - 2.0
    near_one = horner(x - 1.0, _zetas()) - np.log1p(np.minimum(x - 1.0, 1.0))
    middle = where(x < 1.5, near_one, horner(z, _zetas()) + np.log(p / q))
    return where(x <= _LARGE, middle, _large_gammaln(np.maximum(x, _LARGE)))


def _sin_pi(x: Any) -> Any:
    """sin πx, exactly 0 at integers."""
    r = x - 2.0 * np.rint(0.5 * x)
    r = where(r > 0.5, 1.0 - r, where(r < -0.5, -1.0 - r, r))
    return np.sin(math.pi * r)


def _is_pole(x: Any) -> Any:
    return np.logical_and(x <= 0.0, x == np.floor(x))


def _gammaln(x: Any) -> Any:
    low = x < 0.5
    safe = where(low, 1.0 - x, x)
    value = _positive_gammaln(safe)
    reflected = math.log(math.pi) - np.log(np.abs(_sin_pi(x))) - value
    return where(_is_pole(x), where(x == -_INF, -_INF, _INF), where(low, reflected, value))


def _positive_gamma(x: Any) -> Any:
    """For x >= 0.5."""
    y, p, q = _shifted(np.minimum(x, _LARGE))
    large = np.maximum(x, _LARGE)
    root = np.power(np.minimum(large, 200.0), 0.5 * np.minimum(large, 200.0) - 0.25)  # in two steps, which do not overflow early
    far = math.sqrt(2 * math.pi) * np.exp(stirling(large)) * root * np.exp(-large) * root
    return where(x <= _LARGE, np.exp(horner(y - 2.0, _zetas())) * (p / q), where(x > 171.7, _INF, far))


def _gamma(x: Any) -> Any:
    low = x < 0.5
    value = _positive_gamma(where(low, 1.0 - x, x))
    reflected = math.pi / (_sin_pi(x) * value)
    pole = where(x == 0.0, 1.0 / x, _NAN)
    return where(_is_pole(x), where(x == -_INF, _NAN, pole), where(low, reflected, value))


def _rgamma(x: Any) -> Any:
    low = x < 0.5
    value = _positive_gamma(where(low, 1.0 - x, x))
    return where(_is_pole(x), 0.0, where(low, _sin_pi(x) * value / math.pi, 1.0 / value))


def _gammasgn(x: Any, *out: Any) -> Any:
    odd = np.floor(x) - 2.0 * np.floor(0.5 * np.floor(x))
    sign = where(x > 0.0, 1.0, where(odd == 1.0, -1.0, 1.0))
    pole = where(x == 0.0, np.copysign(where(x == 0.0, 1.0, 1.0), x), _NAN)
    return where(np.isnan(x), x, where(_is_pole(x), pole, sign))


_PSI = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)


def _positive_psi(x: Any) -> Any:
    total: Any = 0.0
    for _ in range(10):
        small = x < 10.0
        total = total + where(small, 1.0 / x, 0.0)
        x = where(small, x + 1.0, x)
    s = 1.0 / (x * x)
    return np.log(x) - 0.5 / x - s * horner(s, _PSI) - total


def _psi(x: Any) -> Any:
    low = x < 0.0
    value = _positive_psi(where(low, 1.0 - x, where(x == 0.0, 1.0, x)))
    r = x - np.rint(x)
    reflected = value - math.pi / np.tan(math.pi * r)
    pole = where(x == 0.0, -1.0 / x, _NAN)
    return where(_is_pole(x), where(x == -_INF, _NAN, pole), where(low, reflected, value))


_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798, -174611 / 330)
_TERMS = 12


def _zeta(s: Any, q: Any) -> Any:
    """Hurwitz's function, for s > 1: Euler and Maclaurin's formula. For q < 0 only a whole s has a value."""
    whole = np.logical_and(s == np.floor(s), q != np.floor(q))
    good = np.logical_and(s > 1.0, np.logical_or(q > 0.0, np.logical_and(whole, q >= -_MOST_BELOW)))
    s1, q1 = where(good, s, 2.0), where(good, q, 1.0)

    def upwards(carry: Any) -> Any:
        q, total = carry
        below = q < 0.0
        return where(below, q + 1.0, q), total + where(below, np.power(where(below, q, 1.0), -s1), 0.0)

    zero = where(good, 0.0, 0.0)
    q1, total = while_loop(lambda c: np.sum(np.minimum(c[0], 0.0)) < 0.0, upwards, (q1 + zero, zero))
    for k in range(_TERMS):
        total = total + np.power(q1 + float(k), -s1)
    a = q1 + float(_TERMS)
    end = np.power(a, -s1)
    total = total + np.power(a, 1.0 - s1) / (s1 - 1.0) + 0.5 * end
    s1 = np.minimum(s1, 1e3)  # beyond, the tail is 0
    factor = s1 / a
    for j, b in enumerate(_BERNOULLI):
        total = total + end * factor * (b / math.factorial(2 * j + 2))
        factor = factor * ((s1 + (2 * j + 1)) / a) * ((s1 + (2 * j + 2)) / a)
    total = where(np.logical_and(q == _INF, q1 == _INF), 0.0, total)
    total = where(np.isfinite(s), total, where(q1 > 1.0, 0.0, where(q1 == 1.0, 1.0, _INF)))
    return where(good, total, where(s == 1.0, _INF, where(np.logical_and(np.logical_not(s <= 1.0), _is_pole(q)), _INF, _NAN)))


_MOST_BELOW = 1e6  # the number of terms for q < 0 is −q


def _at_poles(a: Any, b: Any) -> tuple[Any, Any, Any, Any, Any]:
    """Whether a is 0, −1, … or b is, what to take instead of both where there is a value all the same, and where its sign is −.

    B(a, b) = (−1)ᵇ B(1 − a − b, b) for such an a and b = 1, …, −a; elsewhere it is infinite, even if b is nan,
    and for a below −2³¹.
    """
    first = _is_pole(a)
    pole, other = where(first, a, b), where(first, b, a)
    at_pole = np.logical_or(first, _is_pole(b))
    whole = np.logical_and(at_pole, np.logical_and(other == np.floor(other), np.abs(other) < _INF))
    known = np.logical_and(np.logical_and(whole, pole >= -(2.0**31)), np.logical_and(other >= 1, other <= -pole))
    odd = np.logical_and(np.logical_and(whole, pole >= -(2.0**31)), np.floor(0.5 * other) != 0.5 * other)
    return np.logical_and(at_pole, np.logical_not(known)), where(known, 1.0 - pole - other, a), where(known, other, b), known, odd


def _large_betaln(a: Any, b: Any) -> Any:
    """log |B(a, b)| for b ≥ |a| and b, a + b ≥ 12: the large terms of Stirling's series cancel in closed form."""
    total = a + b
    ratio = np.log1p(a / b)
    rest = stirling(b) - stirling(total)
    small = gamma.gammaln(np.minimum(a, _LARGE)) - ((b - 0.5) * ratio + np.minimum(a, _LARGE) * (np.log(total) - 1.0)) + rest
    large = np.maximum(a, _LARGE)
    least = np.minimum(a / b, 1.0)
    both = (large - 0.5) * (np.log(least) - ratio) - b * ratio - 0.5 * np.log(b)
    return where(a < _LARGE, small, both + 0.5 * math.log(2 * math.pi) + stirling(large) + rest)


def _betaln(a: Any, b: Any) -> Any:
    infinite, a, b, _, _ = _at_poles(a, b)
    least, most = np.minimum(a, b), np.maximum(a, b)
    value = gamma.gammaln(a) + gamma.gammaln(b) - gamma.gammaln(a + b)
    large = np.logical_and(np.logical_and(most >= _LARGE, most < _INF), np.logical_and(least > -most, a + b >= _LARGE))
    value = where(large, _large_betaln(where(large, least, _LARGE), where(large, most, _LARGE)), value)
    far = np.logical_and(np.abs(least) < _INF, most == _INF)
    return where(infinite, _INF, where(far, where(least > 0, -_INF, _INF), value))


def _beta(a: Any, b: Any) -> Any:
    infinite, a1, b1, known, odd = _at_poles(a, b)
    product = gamma.gamma(a1) * (gamma.gamma(b1) * gamma.rgamma(a1 + b1))
    signs = gamma.gammasgn(a1) * gamma.gammasgn(b1) * gamma.gammasgn(a1 + b1)
    exact = np.logical_and(np.isfinite(product), np.maximum(np.abs(a1), np.abs(b1)) < 100.0)
    value = where(exact, product, signs * np.exp(gamma.betaln(a1, b1)))
    value = where(infinite, _INF, value)
    negative = np.logical_and(odd, np.logical_or(known, np.logical_and(_is_pole(a), _is_pole(b))))
    return where(negative, -value, value)


def _binom(n: Any, k: Any) -> Any:
    """1 / ((n + 1) B(1 + n − k, 1 + k)); a product for a whole k that is small, or near a whole n; a limit for large k."""
    whole = np.logical_and(k == np.floor(k), np.logical_or(np.abs(n) > 1e-8, n == 0))
    mirrored = np.logical_and(np.logical_and(n == np.floor(n), n > 0), np.logical_and(k > 0.5 * n, n < _INF))
    fewer = where(mirrored, n - k, k)
    product: Any = 1.0
    for i in range(1, _PRODUCT):
        product = product * where(i <= fewer, (n - fewer + i) / i, 1.0)
    product = where(fewer > 0, product, 1.0)
    whole = np.logical_and(whole, np.logical_and(fewer >= 0, fewer < _PRODUCT))
    value = 1.0 / (n + 1.0) / gamma.beta(1.0 + n - k, 1.0 + k)
    wide = np.logical_and(n >= 1e10 * k, k > 0)
    value = where(wide, np.exp(-gamma.betaln(1.0 + n - k, 1.0 + k) - np.log(np.maximum(n, 0.0) + 1.0)), value)
    value = where(np.logical_and(np.abs(k) > 1e8 * np.abs(n), np.logical_not(wide)), _binom_far(n, k), value)
    value = where(whole, product, value)
    value = where(np.logical_and(k == -_INF, n == n), 0.0, value)
    return where(np.logical_and(n < 0, n == np.floor(n)), _NAN, value)


def _binom_far(n: Any, k: Any) -> Any:
    """The limit for |k| much larger than |n|."""
    size, floor = np.abs(k), np.floor(k)
    leading = gamma.gamma(1.0 + n) / size
    leading = (leading + gamma.gamma(1.0 + n) * n / (2.0 * k * k)) / (math.pi * np.power(size, n))
    known = np.abs(floor) < 2.0**31
    odd = np.floor(0.5 * floor) != 0.5 * floor
    above = np.sin((where(known, k - floor, k) - n) * math.pi) * where(np.logical_and(known, odd), -1.0, 1.0)
    return where(k > 0, leading * above, where(k == floor, 0.0, -leading * np.sin(k * math.pi)))


_PRODUCT = 20


def _poch(a: Any, m: Any) -> Any:
    """Γ(a + m) / Γ(a): the factors by which |m| becomes less than 1, then Stirling's series for a large a, or Γ itself."""

    def upper(r: Any, m: Any) -> Any:
        return np.logical_and(np.logical_and(m >= 1.0, a + m != 1.0), np.logical_and(r != 0.0, np.abs(r) < _INF))

    def lower(r: Any, m: Any) -> Any:
        return np.logical_and(np.logical_and(m <= -1.0, a + m != 0.0), np.logical_and(r != 0.0, np.abs(r) < _INF))

    def step(carry: Any) -> Any:
        r, m, k = carry
        down, up = upper(r, m), lower(r, m)
        next_ = where(down, m - 1.0, where(up, m + 1.0, m))
        return where(down, r * (a + next_), where(up, r / where(up, a + m, 1.0), r)), next_, k + 1.0

    zero = where(a == m, 0.0, 0.0)
    going = lambda c: np.logical_and(c[2] < 1e4, np.any(np.logical_or(upper(c[0], c[1]), lower(c[0], c[1]))))
    r, m1, _ = while_loop(going, step, (zero + 1.0, m + zero, np.float64(0.0)))
    large = np.logical_and(a > 1e4, np.abs(m1) <= 1.0)
    a2 = where(large, a, 1e4)
    series = 1.0 + m1 * (m1 - 1.0) / (2.0 * a2) + m1 * (m1 - 1.0) * (m1 - 2.0) * (3.0 * m1 - 1.0) / (24.0 * a2 * a2)
    series = series + m1 * m1 * (m1 - 1.0) * (m1 - 1.0) * (m1 - 2.0) * (m1 - 3.0) / (48.0 * a2 * a2 * a2)
    signs = gamma.gammasgn(a) * gamma.gammasgn(a + m1)
    usual = signs * np.exp(gamma.gammaln(a + m1) - gamma.gammaln(a))
    usual = where(np.maximum(np.abs(a), np.abs(a + m1)) < 100.0, gamma.gamma(a + m1) * gamma.rgamma(a), usual)
    value = where(large, np.power(a2, m1) * series, usual)
    poles = [np.logical_and(_is_pole(x), np.abs(x) < 1e13) for x in (a, a + m1)]
    value = where(np.logical_and(poles[0], np.logical_not(poles[1])), 0.0, r * value)
    value = where(np.logical_and(np.logical_and(poles[1], np.logical_not(poles[0])), a + m1 != m1), _INF, value)
    return where(m1 == 0, r, value)


_REAL: dict[Op, Expansion] = {
    gamma.binom: _binom,
    gamma.poch: _poch,
    gamma.gamma: _gamma,
    gamma.gammaln: _gammaln,
    gamma.rgamma: _rgamma,
    gamma.gammasgn: _gammasgn,
    gamma.psi: _psi,
    gamma.zeta: _zeta,
    gamma.beta: _beta,
    gamma.betaln: _betaln,
    gamma.loggamma: lambda x: where(x < 0.0, _NAN, gamma.gammaln(x)),
}
EXPANSIONS = {op: of_reals(f) for op, f in _REAL.items()}
