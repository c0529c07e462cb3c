"""Incomplete gamma and beta functions, their inverses, and the distribution functions that are made of them.

    gammainc(a, x)      a power series for x < a + 1, a continued fraction beyond
    betainc(a, b, x)    a continued fraction on the side of the mean where it converges
    the inverses        Newton's method within a bracket, in log x or log(x / (1 − x))

To about 1e-13 for parameters up to some hundreds; the number of iterations grows with the root of the parameters.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from ...core.op import Op
from ...ops import distribution as d
from ...ops import special
from ...ops.broadcast import where
from ...ops.distribution import betainc, betaincc, betainccinv, betaincinv, gammainc, gammaincc, gammainccinv, gammaincinv
from ...ops.elementwise import expit
from ...ops.gamma import betaln, gammaln
from ...ops.special import ndtri
from .gamma import stirling
from .numerics import EPS, LEAST, Expansion, fraction, horner, of_reals, repeated, scipy_special

_NAN, _INF = math.nan, math.inf


# -- the incomplete gamma function ------------------------------------------------------------------------------


def _log_rest_of(e: Any, sum_: Any) -> Any:
    """log(1 + e) − e, without cancellation for small e: with z = e / (2 + e) it is −e z + 2 (z³/3 + z⁵/5 + …).

    `sum_` is 1 + e, which e does not have near −1.
    """
    near = np.abs(e) < 0.4
    small = where(near, e, 0.0)
    z = small / (2.0 + small)
    series = z * z * z * horner(z * z, [2.0 / (2 * k + 3) for k in range(13)]) - small * z
    return where(near, series, np.log(where(near, 1.0, sum_)) - e)


def _gamma_factor(a: Any, x: Any) -> Any:
    """x^a e^(−x) / Γ(a + 1), for large a by the distance of x from a."""
    large = np.maximum(a, 12.0)
    exponent = large * _log_rest_of((x - large) / large, x / large)
    far = np.exp(exponent - stirling(large)) / np.sqrt(2 * math.pi * large)
    small = np.minimum(a, 12.0)
    return where(a > 12.0, far, np.exp(small * np.log(x) - x - gammaln(small + 1.0)))


@functools.cache
def _temme() -> tuple[tuple[float, ...], ...]:
    """The coefficients c(k, η) of Temme's expansion, as polynomials of η; from μ − log(1 + μ) = η²/2."""
    count = _POWERS + 2 * _ORDERS + 2
    mu = [Fraction(0), Fraction(1)]  # μ μ' = η (1 + μ)
    for n in range(2, count + 1):
        known = sum((mu[i] * mu[n + 1 - i] * (n + 1 - i) for i in range(2, n)), Fraction(0))
        mu.append((mu[n - 1] - known) / (n + 1))
    over = [Fraction(1)]  # η / μ
    for n in range(1, count):
        over.append(-sum((mu[i + 1] * over[n - i] for i in range(1, n + 1)), Fraction(0)))
    c, found = over[1:], []
    for _ in range(_ORDERS):
        found.append(tuple(float(x) for x in c[:_POWERS]))
        slope = [k * x for k, x in enumerate(c)][1:]
        c = [x - slope[0] * y for x, y in zip(slope, over, strict=False)][1:]
    return tuple(found)


_ORDERS, _POWERS = 6, 18
_UNIFORM = 500.0  # from this shape on


def _uniform(a: Any, x: Any) -> tuple[Any, Any]:
    """P and Q for a large a and x near a, where the series and the fraction are slow: Temme's uniform expansion."""
    mu = (x - a) / a
    half = -_log_rest_of(mu, x / a)
    eta = np.copysign(np.sqrt(2.0 * half), mu)
    total: Any = 0.0
    for coefficients in reversed(_temme()):
        total = total / a + horner(eta, coefficients)
    rest = np.exp(-a * half) / np.sqrt(2 * math.pi * a) * total
    z = eta * np.sqrt(0.5 * a)
    return 0.5 * special.erfc(-z) - rest, 0.5 * special.erfc(z) + rest


def _gamma_series(a: Any, x: Any) -> Any:
    """Σ xⁿ / ((a + 1) … (a + n))."""

    def step(k: Any, total: Any, term: Any) -> Any:
        term = term * (x / (a + k))
        return total + term, term

    return repeated(step, (a * 0.0 + x * 0.0 + 1.0, 1.0), lambda total, term: np.abs(term) > EPS / 4 * np.abs(total))[0]


def _gamma_both(a: Any, x: Any) -> tuple[Any, Any]:
    """P and Q, each from itself where it is the smaller one; a and x are positive and finite where they matter."""
    inside = np.logical_and(np.logical_and(a > 0, a < _INF), np.logical_and(x > 0, x < _INF))
    uniform = np.logical_and(inside, np.logical_and(a > _UNIFORM, np.abs(x - a) < 0.3 * a))
    usual = np.logical_and(inside, np.logical_not(uniform))
    a1, x1 = where(usual, a, 1.0), where(usual, x, 1.0)
    low = x1 < a1 + 1.0
    factor = _gamma_factor(a1, x1)
    series = factor * _gamma_series(a1, where(low, x1, 1.0))
    x2 = where(low, a1 + 2.0, x1)
    rest = factor * a1 / fraction(lambda k: (k * (a1 - k), x2 - a1 + (2.0 * k + 1.0)), x2 - a1 + 1.0)
    small = np.logical_and(x1 <= 1.1, a1 <= where(x1 < 0.5, 0.4 / _size_of_log(x1), 1.1 * x1))
    upper = where(small, _small_gammaincc(where(small, a1, 0.5), where(small, x1, 1.0)), where(low, 1.0 - series, rest))
    lower = where(low, series, 1.0 - rest)
    p, q = _uniform(where(uniform, a, _UNIFORM), where(uniform, x, _UNIFORM))
    return where(uniform, p, lower), where(uniform, q, upper)


def _gamma_edges(a: Any, x: Any, value: Any, at_zero: float) -> Any:
    """The values on the border; `at_zero` is that for x = 0, the other for infinity."""
    value = where(x == 0, at_zero, where(x == _INF, 1.0 - at_zero, value))
    value = where(a == 0, where(x > 0, 1.0 - at_zero, _NAN), where(a == _INF, where(x == _INF, _NAN, at_zero), value))
    bad = np.logical_or(np.logical_or(a < 0, x < 0), np.isnan(a + x))
    return where(bad, _NAN, value)


def _gammainc(a: Any, x: Any) -> Any:
    return _gamma_edges(a, x, _gamma_both(a, x)[0], 0.0)


def _gammaincc(a: Any, x: Any) -> Any:
    return _gamma_edges(a, x, _gamma_both(a, x)[1], 1.0)


def _size_of_log(x: Any) -> Any:
    return -np.log(np.minimum(np.maximum(x, LEAST), 0.5))


def _small_gammaincc(a: Any, x: Any) -> Any:
    """Q = 1 − xᵃ/Γ(1 + a) − a xᵃ/Γ(1 + a) Σ (−x)ⁿ / (n! (a + n)) for a small x and an a that is not much larger."""

    def step(k: Any, total: Any, power: Any) -> Any:
        power = power * (-x / k)
        return total + power / (a + k), power

    start = a * 0.0 + x * 0.0
    total = repeated(step, (start, start + 1.0), lambda total, power: np.abs(power) > EPS / 8 * np.abs(total))[0]
    logarithm = a * np.log(x) - _gammaln_of_one_and(a)
    return -np.expm1(logarithm) - a * np.exp(logarithm) * total


def _gammaln_of_one_and(a: Any) -> Any:
    """log Γ(1 + a), for small a by its Taylor series −γ a + Σ ζ(k) (−a)ᵏ / k."""
    near = np.minimum(a, 0.2)
    series: Any = 0.0
    for k in range(24, 1, -1):
        series = (series + float(scipy_special("zeta")(k)) / k) * -near
    return where(a < 0.2, near * (-np.euler_gamma - series), gammaln(np.maximum(a, 0.2) + 1.0))


# -- the incomplete beta function -------------------------------------------------------------------------------


def _beta_fraction(a: Any, b: Any, x: Any, y: Any, log_beta: Any) -> Any:
    """I(a, b) at x = 1 − y below the mean, which is positive."""

    def term(k: Any) -> tuple[Any, Any]:
        over = (
            where(k == 1, 1.0, a + k - 1.0)
            * (a + b + k - 1.0)
            * k
            * (b - k)
            * x
            * x
            / ((a + 2.0 * k - 1.0) * (a + 2.0 * k - 1.0))
        )
        under = k + k * (b - k) * x / (a + 2.0 * k - 1.0) + (a + k) * (a * y - b * x + 1.0 + k * (1.0 + y)) / (a + 2.0 * k + 1.0)
        return over, under

    first = (a * y - b * x + 1.0) / (a + 1.0)
    return _beta_factor(a, b, x, y, log_beta) / a / fraction(term, first)


def _beta_factor(a: Any, b: Any, x: Any, y: Any, log_beta: Any) -> Any:
    """xᵃ yᵇ / B(a, b), for large a and b by the distance of x from a / (a + b)."""
    usual = np.exp(a * _log_of(x, y) + b * _log_of(y, x) - log_beta)
    large = np.minimum(a, b) > 12.0
    a1, b1 = where(large, a, 12.0), where(large, b, 12.0)
    total = a1 + b1
    away = where(a1 > b1, total * y - b1, a1 - total * x)  # from the mean
    exponent = a1 * _log_rest_of(-away / a1, x * (total / a1)) + b1 * _log_rest_of(away / b1, y * (total / b1))
    rest = stirling(total) - stirling(a1) - stirling(b1)
    return where(large, np.sqrt(a1 / total * b1 / (2 * math.pi)) * np.exp(exponent + rest), usual)


def _log_of(x: Any, y: Any) -> Any:
    """log x = log(1 − y), from the smaller of the two."""
    return where(y < 0.5, np.log1p(-np.minimum(y, 0.5)), np.log(x))


def _beta_parts(a: Any, b: Any, x: Any, y: Any, log_beta: Any) -> tuple[Any, Any]:
    """Whether x is below the mean or small, and I(a, b) at x if it is, else I(b, a) at y = 1 − x."""
    low = x <= np.maximum(a / (a + b), 0.3 / (1.0 + b))
    return low, _beta_fraction(where(low, a, b), where(low, b, a), where(low, x, y), where(low, y, x), log_beta)


def _beta_inside(a: Any, b: Any, x: Any, y: Any, upper: Any, log_beta: Any) -> Any:
    """I(a, b) at x = 1 − y, or what is left to 1, of positive and finite numbers; with the logarithm of B(a, b)."""
    low, part = _beta_parts(a, b, x, y, log_beta)
    return where(low != upper, part, 1.0 - part)


def _beta_cdf(a: Any, b: Any, x: Any, y: Any, upper: bool) -> Any:
    """I(a, b) at x = 1 − y, or what is left to 1, and the limits: for a → 0 or b → ∞ all is at 0, for b → 0 or a → ∞ at 1."""
    at_zero, at_one = np.logical_or(a == 0, b == _INF), np.logical_or(b == 0, a == _INF)
    inside = np.logical_and(np.logical_and(a > 0, b > 0), np.logical_and(x > 0, y > 0))
    inside = np.logical_and(inside, np.logical_not(np.logical_or(at_zero, at_one)))
    a1, b1, x1, y1 = (where(inside, v, safe) for v, safe in ((a, 1.0), (b, 1.0), (x, 0.5), (y, 0.5)))
    value = _beta_inside(a1, b1, x1, y1, upper, betaln(a1, b1))
    none, every = (1.0, 0.0) if upper else (0.0, 1.0)
    value = where(at_zero, every, where(at_one, none, value))
    value = where(x == 0, none, where(y == 0, every, value))
    good = np.logical_and(np.logical_and(a >= 0, b >= 0), np.logical_and(x >= 0, y >= 0))
    return where(np.logical_and(good, np.logical_not(np.logical_and(at_zero, at_one))), value, _NAN)


# -- inverses ---------------------------------------------------------------------------------------------------


def _root(f: Callable[[Any], tuple[Any, Any]], low: Any, high: Any, like: Any) -> Any:
    """u with f(u) = 0 for an increasing f, which gives its slope too: Newton's method, with bisection outside of the bracket."""

    def step(k: Any, u: Any, low: Any, high: Any, change: Any) -> Any:
        value, slope = f(u)
        low, high = where(value < 0, u, low), where(value > 0, u, high)
        new = u - value / where(slope > 0, slope, 1.0)
        good = np.logical_and(np.logical_and(new > low, new < high), slope > 0)
        new = where(value == 0, u, where(good, new, 0.5 * (low + high)))
        return new, low, high, new - u

    zero = like * 0.0
    start = (zero + 0.5 * (low + high), zero + low, zero + high, zero)
    return repeated(step, start, lambda u, low, high, change: np.abs(change) > 4 * EPS * np.maximum(np.abs(u), 1.0))[0]


def _log_difference(value: Any, wanted: Any) -> Any:
    """log(value / wanted); of a value that has underflowed, less than any other."""
    return where(value > 0, np.log(where(value > 0, value, 1.0)), -800.0) - np.log(wanted)


def _gamma_inverse(a: Any, p: Any, upper: bool) -> Any:
    inside = np.logical_and(np.logical_and(p > 0, p < 1), np.logical_and(a > 0, a < _INF))
    a1, p1 = where(inside, a, 1.0), where(inside, p, 0.5)
    other = p1 > 0.5  # the smaller of both probabilities has the digits
    wanted, of_upper = where(other, 1.0 - p1, p1), other != upper
    sign = where(of_upper, -1.0, 1.0)

    def off(u: Any) -> tuple[Any, Any]:
        x = np.exp(u)
        both = _gamma_both(a1, x)
        value = where(of_upper, both[1], both[0])
        # The logarithm of a small probability is nearly linear in log x.
        return sign * _log_difference(value, wanted), a1 * _gamma_factor(a1, x) / where(value > 0, value, 1.0)

    u = _root(off, -744.0, 709.0, a1 + p1)
    x = where(u < -743.0, 0.0, np.exp(u))
    ends = where(p == 0, _INF if upper else 0.0, where(p == 1, 0.0 if upper else _INF, _NAN))
    return where(inside, x, where(a >= 0, ends, _NAN))


def _beta_inverse(a: Any, b: Any, p: Any, upper: bool) -> tuple[Any, Any]:
    """x with I(a, b) = p at x, and 1 − x; like SciPy's, at least the least normal number where there is no closed form."""
    shapes = np.logical_and(a > 0, b > 0)
    inside = np.logical_and(np.logical_and(shapes, np.maximum(a, b) < _INF), np.logical_and(p > 0, p < 1))
    a1, b1, p1 = where(inside, a, 1.0), where(inside, b, 1.0), where(inside, p, 0.5)
    other = p1 > 0.5
    wanted, of_upper = where(other, 1.0 - p1, p1), other != upper
    log_beta, sign = betaln(a1, b1), where(of_upper, -1.0, 1.0)

    def off(u: Any) -> tuple[Any, Any]:
        x, y = expit(u), expit(-u)
        value = _beta_inside(a1, b1, x, y, of_upper, log_beta)
        return sign * _log_difference(value, wanted), _beta_factor(a1, b1, x, y, log_beta) / where(value > 0, value, 1.0)

    u = _root(off, -740.0, 740.0, a1 + b1 + p1)
    one = where(np.logical_and(b == 1, a == _INF), 1.0, where(np.logical_and(a == 1, b == _INF), 0.0, _NAN))  # for 0 < p < 1
    inner = where(np.logical_and(p > 0, p < 1), one, _NAN)
    at_zero = where(shapes, where(p == 0, 1.0 if upper else 0.0, where(p == 1, 0.0 if upper else 1.0, inner)), _NAN)
    least = float(np.finfo(float).tiny)
    x, y = np.maximum(expit(u), where(b == 1, 0.0, least)), np.maximum(expit(-u), where(a == 1, 0.0, least))
    x, y = where(u <= -740.0, where(b == 1, 0.0, x), x), where(u >= 740.0, where(a == 1, 0.0, y), y)
    return where(inside, x, at_zero), where(inside, y, 1.0 - at_zero)


# -- distributions ----------------------------------------------------------------------------------------------


def _gamma_quantile(a: Any, b: Any, p: Any) -> Any:
    largest = np.maximum(a, b)
    known = np.logical_or(np.logical_and(largest > 0, largest < _INF), a < 0)
    return where(known, gammaincinv(b, p) / a, _NAN)


def _gamma_rate(p: Any, b: Any, x: Any) -> Any:
    value = where(x == 0, _NAN, gammaincinv(b, p) / x)
    none = np.logical_and(p == 0, b == 0)
    return where(np.logical_and(none, x == _INF), _NAN, where(np.logical_and(none, np.isnan(x)), 0.0, value))


def _fisher(dfn: Any, dfd: Any, x: Any, upper: bool) -> Any:
    bad = np.logical_or(np.logical_or(dfn <= 0, dfd <= 0), np.logical_or(x < 0, np.isnan(x)))
    safe = where(bad, 1.0, x)
    total = where(safe == _INF, 1.0, dfd + dfn * where(safe == _INF, 1.0, safe))
    ratio, rest = where(safe == _INF, 1.0, dfn * safe / total), where(safe == _INF, 0.0, dfd / total)
    far = np.logical_and(np.logical_and(dfn == _INF, dfd == _INF), x == _INF)
    return where(far, 0.0 if upper else 1.0, where(bad, _NAN, _beta_cdf(0.5 * dfn, 0.5 * dfd, ratio, rest, upper)))


def _fisher_quantile(dfn: Any, dfd: Any, p: Any) -> Any:
    x, y = _beta_inverse(0.5 * dfn, 0.5 * dfd, p, upper=False)
    return where(np.maximum(dfn, dfd) < _INF, dfd * x / (dfn * y), _NAN)


_NORMAL = 1e17  # degrees of freedom from which Student's distribution is the normal one


def _student(df: Any, t: Any) -> Any:
    normal = df > _NORMAL
    finite, square = where(normal, 1.0, df), t * t
    far = np.isinf(square)
    total = finite + where(far, 1.0, square)
    ratio, rest = where(far, 0.0, finite / total), where(far, 1.0, square / total)
    tail = 0.5 * _beta_cdf(0.5 * finite, 0.5 + 0.0 * finite, ratio, rest, upper=False)
    value = where(normal, special.ndtr(t), where(t > 0, 1.0 - tail, tail))
    value = where(np.logical_or(df <= 0, np.isnan(df + t)), _NAN, value)
    return where(np.logical_and(normal, t == -_INF), 0.0, value)


def _student_quantile(df: Any, p: Any) -> Any:
    normal = df > _NORMAL
    finite, tail = where(normal, 1.0, df), np.minimum(p, 1.0 - p)
    half = 0.5 + 0.0 * finite
    x, y = _beta_inverse(0.5 * finite, half, 2.0 * tail, upper=False)  # of df / (df + t²)
    middle, rest = _beta_inverse(half, 0.5 * finite, 1.0 - 2.0 * tail, upper=False)  # of what is left to 1
    size = np.sqrt(finite * where(tail > 0.25, middle / rest, y / x))
    value = where(p < 0.5, -size, size)
    value = where(normal, ndtri(p), where(p == 1, _INF, value))
    value = where(p == 0, float(scipy_special("stdtrit")(1.0, 0.0)), value)  # which has had both signs
    return where(np.logical_and(np.logical_and(p >= 0, p <= 1), df > 0), value, _NAN)


def _ndtri_exp(y: Any) -> Any:
    """x with log Φ(x) = y: Newton's method on the logarithm, from an asymptotic start."""
    low = np.minimum(y, -1.0)
    far = low < -1e20  # all but the square has no digits
    low, root = where(far, -1e20, low), math.sqrt(2.0) * np.sqrt(-low)
    x = -np.sqrt(np.maximum(-2.0 * low - np.log(2 * math.pi * np.maximum(-2.0 * low, 1.0)), 0.01))
    for _ in range(8):
        x = x - (special.log_ndtr(x) - low) * special.erfcx(-x * math.sqrt(0.5)) * math.sqrt(0.5 * math.pi)
    inner = where(y < -1.0, -1.0, y)
    near = -ndtri(-np.expm1(inner))
    return where(y > 0, _NAN, where(y == -_INF, -_INF, where(far, -root, where(y < -1.0, x, near))))


def _finite_ndtri(p: Any) -> Any:
    """The quantile of the normal distribution, where it is finite."""
    return where(np.logical_and(p > 0, p < 1), ndtri(p), _NAN)


def _binomial(k: Any, n: Any, p: Any, upper: bool) -> Any:
    """The probability of at most k successes in n trials, or of more."""
    k = np.floor(k)
    bad = np.logical_or(np.logical_or(p < 0, p > 1), np.logical_or(n < k, np.isnan(k + n + p)))
    inside = np.logical_and(k >= 0, k < n)
    k1, n1 = where(inside, k, 0.0), where(inside, n, 1.0)
    value = betainc(k1 + 1.0, n1 - k1, p) if upper else betainc(n1 - k1, k1 + 1.0, 1.0 - p)
    none, every = (1.0, 0.0) if upper else (_NAN, 1.0)
    return where(bad, _NAN, where(k < 0, none, where(k == n, every, value)))


_REAL: dict[Op, Expansion] = {
    gammainc: _gammainc,
    gammaincc: _gammaincc,
    gammaincinv: lambda a, p: _gamma_inverse(a, p, upper=False),
    gammainccinv: lambda a, p: _gamma_inverse(a, p, upper=True),
    betainc: lambda a, b, x: _beta_cdf(a, b, x, 1.0 - x, upper=False),
    betaincc: lambda a, b, x: _beta_cdf(a, b, x, 1.0 - x, upper=True),
    betaincinv: lambda a, b, p: _beta_inverse(a, b, p, upper=False)[0],
    betainccinv: lambda a, b, p: _beta_inverse(a, b, p, upper=True)[0],
    d.chdtr: lambda v, x: gammainc(0.5 * v, 0.5 * x),
    d.chdtrc: lambda v, x: gammaincc(0.5 * v, 0.5 * x),
    d.chdtri: lambda v, p: 2.0 * gammainccinv(0.5 * v, p),
    d.gdtr: lambda a, b, x: where(x < 0, _NAN, gammainc(b, a * x)),
    d.gdtrc: lambda a, b, x: where(x < 0, _NAN, gammaincc(b, a * x)),
    d.gdtrix: _gamma_quantile,
    d.gdtria: _gamma_rate,
    d.stdtr: _student,
    d.stdtrit: _student_quantile,
    d.fdtr: lambda dfn, dfd, x: _fisher(dfn, dfd, x, upper=False),
    d.fdtrc: lambda dfn, dfd, x: _fisher(dfn, dfd, x, upper=True),
    d.fdtri: _fisher_quantile,
    d.nrdtrimn: lambda p, std, x: where(std > 0, x - std * _finite_ndtri(p), _NAN),
    d.nrdtrisd: lambda mn, p, x: (x - mn) / _finite_ndtri(p),
    special.ndtri_exp: _ndtri_exp,
    d.bdtr: lambda k, n, p: _binomial(k, n, p, upper=False),
    d.bdtrc: lambda k, n, p: _binomial(k, n, p, upper=True),
    d.bdtri: lambda k, n, p: _beta_inverse(n - np.floor(k), np.floor(k) + 1.0, p, upper=False)[1],
    d.nbdtr: lambda k, n, p: where(np.logical_and(n > 0, k >= 0), betainc(n, k + 1.0, p), _NAN),
    d.nbdtrc: lambda k, n, p: where(np.logical_and(n > 0, k >= 0), betaincc(n, k + 1.0, p), _NAN),
    d.nbdtri: lambda k, n, p: where(k < 0, _NAN, where(np.logical_or(p == 0, p == 1), p, betaincinv(n, k + 1.0, p))),
    d.pdtr: lambda k, m: where(k < 0, _NAN, gammaincc(np.floor(k) + 1.0, m)),
    d.pdtrc: lambda k, m: where(k < 0, _NAN, gammainc(np.floor(k) + 1.0, m)),
    d.pdtri: lambda k, p: where(np.logical_and(p < 1, k >= 0), gammainccinv(k + 1.0, p), _NAN),
}
EXPANSIONS = {op: of_reals(f) for op, f in _REAL.items()}
