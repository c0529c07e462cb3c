"""The probabilities of a binomial distribution, without cancellation.

    log(n! / (x! (n - x)!) p^x (1 - p)^(n - x))

is a small difference of numbers as large as n log n: summed term by term, its error is 1e-4 for n = 1e12. So Stirling's formula
is put in for the factorials, and the large terms cancel on paper (C. Loader, Fast and accurate computation of binomial
probabilities, 2000). What remains are the errors of Stirling's formula and two deviances, which measure how far x is from its
mean n p.
"""

from __future__ import annotations

import math

from ..core.types import Value
from ..ops.broadcast import where
from ..ops.elementwise import absolute, greater, less, log, logical_and
from ..ops.gamma import gammaln
from ..ops.special import xlog1py, xlogy

_LOG_ROOT_2PI = 0.5 * math.log(2 * math.pi)
_LARGE = 15.0  # from here on, five terms of Stirling's series are exact to double precision
_NEAR = 0.1  # relative distance from the mean, up to which the deviance is summed as a series
_TERMS = 9  # of that series: 0.1**18 is below the precision


def log_binomial(x: Value, n: Value, p: Value) -> Value:
    """The logarithm of the probability of x successes in n trials, for 0 <= x <= n; x and n may be fractions."""
    inside = logical_and(logical_and(greater(x, 0), less(x, n)), logical_and(greater(p, 0), less(p, 1)))
    at_end = xlogy(x, p) + xlog1py(n - x, -p)
    x, n, p = where(inside, x, 1.0), where(inside, n, 2.0), where(inside, p, 0.5)
    rest, mean = n - x, n * p
    factorials = _stirling_error(n) - _stirling_error(x) - _stirling_error(rest)
    deviances = _deviance(x, mean, x - mean) + _deviance(rest, n * (1 - p), mean - x)
    return where(inside, factorials - deviances + 0.5 * log(n / (x * rest)) - _LOG_ROOT_2PI, at_end)


def _stirling_error(z: Value) -> Value:
    """log(z!) - log(sqrt(2 pi z) (z / e)^z)."""
    is_large = greater(z, _LARGE)
    small, large = where(is_large, 1.0, z), where(is_large, z, _LARGE)
    direct = gammaln(small + 1) - (small + 0.5) * log(small) + small - _LOG_ROOT_2PI
    r = 1 / (large * large)
    series = (1 / 12 - (1 / 360 - (1 / 1260 - (1 / 1680 - r / 1188) * r) * r) * r) / large
    return where(is_large, series, direct)


def _deviance(x: Value, mean: Value, difference: Value) -> Value:
    """x log(x / mean) + mean - x, where difference is x - mean."""
    is_near = less(absolute(difference), _NEAR * (x + mean))
    v = where(is_near, difference / (x + mean), 0.0)
    power, series = 2 * x * v, difference * v
    for j in range(1, _TERMS):
        power = power * v * v
        series = series + power / (2 * j + 1)
    return where(is_near, series, x * log(x / mean) - difference)
