"""Binomial probabilities of few and of 1e15 trials, near the mean and far from it, against many digits."""

import mpmath
import numpy as np
import pytest

import adjoint as ad
from adjoint.scipy import stats
from adjoint.scipy.binomial import _LARGE, _NEAR, log_binomial

#: Trials, and the probability of each.
TRIALS = [(3.0, 0.4), (14.0, 0.5), (40.0, 0.03), (1e3, 0.97), (1e6, 0.5), (1e9, 1e-3), (1e12, 0.5), (1541096362225563.0, 1e-18)]


def exact(x, n, p):
    with mpmath.workdps(60):
        x, n, p = mpmath.mpf(x), mpmath.mpf(n), mpmath.mpf(p)
        choose = mpmath.loggamma(n + 1) - mpmath.loggamma(x + 1) - mpmath.loggamma(n - x + 1)
        return float(choose + x * mpmath.log(p) + (n - x) * mpmath.log1p(-p))


def successes(n, p):
    """Both ends, the mean and its neighbours, the thresholds of the formula on both sides, and fractions."""
    mean, spread = n * p, np.sqrt(n * p * (1 - p))
    near = mean * (1 + _NEAR) / (1 - _NEAR)  # where x - mean = 0.1 (x + mean)
    found = [0.0, 1.0, n, n - 1, mean, mean + spread, mean - 3 * spread, near * 0.999, near * 1.001, _LARGE, _LARGE + 1]
    return np.array([x for x in [*map(np.floor, found), 0.37 * n] if 0 <= x <= n])


@pytest.mark.parametrize(("n", "p"), TRIALS)
def test_log_probabilities(n, p):
    x = successes(n, p)
    expected = np.array([exact(v, n, p) for v in x])
    for f in (log_binomial, ad.jit(log_binomial)):
        np.testing.assert_allclose(f(x, n, p), expected, rtol=1e-11, atol=1e-12)
    slope = ad.jit(lambda p: ad.jvp(lambda p: log_binomial(x, n, p), (p,), (1.0,))[1])(p)
    np.testing.assert_allclose(slope, x / p - (n - x) / (1 - p), rtol=1e-9, atol=1e-9 * n)


@pytest.mark.parametrize("p", [0.0, 1.0])
def test_certain_outcomes(p):
    expected = np.where(np.arange(4) == 3 * p, 0.0, -np.inf)
    np.testing.assert_array_equal(ad.vjp(lambda p: stats.binom.logpmf(np.arange(4), 3, p), p)[0], expected)
    assert ad.vjp(lambda p: stats.binom.pmf(0, 0, p), p)[0] == 1.0


@pytest.mark.parametrize("n", [2.5, 1e4, 1e12])
def test_waiting_times(n):
    """The failures before the n-th success are the last of n + k trials; n is a real number, with a derivative."""
    k, p = np.floor(np.array([0.0, 1.0, n])), 0.4
    expected = [exact(n, n + v, p) + float(mpmath.log(mpmath.mpf(n) / (n + v))) for v in k]
    for found in (ad.vjp(lambda p: stats.nbinom.logpmf(k, n, p), p)[0], ad.jit(stats.nbinom.logpmf)(k, n, p)):
        np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-12)
    by_size = ad.jvp(lambda n: stats.nbinom.logpmf(k, n, p), (n,), (1.0,))[1]
    exact_slope = [float(mpmath.digamma(mpmath.mpf(n) + v) - mpmath.digamma(n) + mpmath.log(p)) for v in k]
    np.testing.assert_allclose(by_size, exact_slope, rtol=1e-9, atol=1e-10)
