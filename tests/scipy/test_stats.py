"""scipy.stats: values as SciPy gives them, derivatives by argument, location, scale and shapes, inside and outside."""

import mpmath
import numpy as np
import pytest
import scipy.stats
from harness import check

import adjoint as ad
from adjoint.core.errors import UnsupportedError
from adjoint.scipy import stats

TAILS = ("cdf", "sf", "logcdf", "logsf")
WHOLE = np.array([-2.3, -0.4, 0.7, 1.9])
HALF = np.array([0.3, 0.9, 1.7, 3.2])
UNIT = np.array([0.15, 0.4, 0.62, 0.9])

CONTINUOUS = {
    "norm": ((), WHOLE), "t": ((3.5,), WHOLE), "laplace": ((), WHOLE), "logistic": ((), WHOLE), "cauchy": ((), WHOLE),
    "gumbel_r": ((), WHOLE), "gamma": ((2.3,), HALF), "chi2": ((3.2,), HALF), "expon": ((), HALF), "lognorm": ((0.8,), HALF),
    "weibull_min": ((1.7,), HALF), "halfnorm": ((), HALF), "rayleigh": ((), HALF), "invgamma": ((2.4,), HALF),
    "pareto": ((2.2,), 1 + HALF), "f": ((3.0, 5.5), HALF), "uniform": ((), UNIT), "beta": ((2.2, 1.6), UNIT),
}  # fmt: skip
COUNTS = {"poisson": (2.3,), "binom": (5, 0.3), "bernoulli": (0.3,), "nbinom": (2.5, 0.4), "geom": (0.35,)}


def traced_value(f, x):
    return ad.vjp(f, x)[0]


@pytest.mark.parametrize("name", CONTINUOUS)
@pytest.mark.parametrize("method", ["pdf", "logpdf", *TAILS])
@pytest.mark.parametrize("loc, scale", [(0, 1), (0.5, 2.0)])
def test_values_agree_with_scipy_inside_and_outside_the_support(name, method, loc, scale):
    shapes, _ = CONTINUOUS[name]
    x = np.array([-40.0, -3.0, -1.0, 0.0, 0.3, 0.5, 1.0, 2.5, 7.0, 40.0, np.nan])
    ours, theirs = getattr(getattr(stats, name), method), getattr(getattr(scipy.stats, name), method)
    expected = theirs(x, *shapes, loc, scale)
    np.testing.assert_allclose(traced_value(lambda x: ours(x, *shapes, loc, scale), x), expected, rtol=1e-9, atol=1e-14)
    np.testing.assert_allclose(ours(x, *shapes, loc, scale), expected, rtol=1e-9)
    by_name = dict(zip(getattr(scipy.stats, name).shapes.split(", ") if shapes else [], shapes, strict=True))
    result = traced_value(lambda x: ours(x=x, **by_name, scale=scale, loc=loc), x)
    np.testing.assert_allclose(result, expected, rtol=1e-9, atol=1e-14)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", CONTINUOUS)
@pytest.mark.parametrize("method", ["pdf", "logpdf", *TAILS])
def test_derivatives(name, method):
    shapes, x = CONTINUOUS[name]
    f = getattr(getattr(stats, name), method)
    loc, scale = np.array(0.1), np.array(1.2)
    x = 0.1 + 1.2 * x
    check(lambda x, loc, scale, *shapes: f(x, *shapes, loc, scale), x, loc, scale, *map(np.array, shapes), rtol=1e-5)


@pytest.mark.parametrize("name", [n for n, (_, x) in CONTINUOUS.items() if x is not WHOLE])
@pytest.mark.parametrize("method", ["pdf", "logpdf", *TAILS])
def test_nothing_flows_from_outside_the_support(name, method):
    shapes, inside = CONTINUOUS[name]
    f = getattr(getattr(stats, name), method)
    x = np.array([-5.0, -0.5, inside[1]])
    loc = scale = np.ones(3)
    every = [np.full(3, s) for s in shapes]
    run = lambda x, loc, scale, *shapes: f(x, *shapes, loc - 1, scale)
    value, pull = ad.vjp(run, x, loc, scale, *every)
    np.testing.assert_array_equal(value[:2], f(x, *shapes)[:2])
    for g in pull(np.ones(3)):
        np.testing.assert_array_equal(g[:2], 0)
        assert np.isfinite(g[2])


@pytest.mark.parametrize("name", CONTINUOUS)
@pytest.mark.parametrize("method", ["ppf", "isf"])
def test_quantiles(name, method):
    shapes, _ = CONTINUOUS[name]
    ours, theirs = getattr(getattr(stats, name), method), getattr(getattr(scipy.stats, name), method)
    q = np.array([0.1, 0.35, 0.5, 0.8])
    np.testing.assert_allclose(
        traced_value(lambda q: ours(q, *shapes, 0.5, 2.0), q), theirs(q, *shapes, 0.5, 2.0), rtol=1e-9, atol=1e-12
    )
    check(lambda q, loc, scale: ours(q, *shapes, loc, scale), q + 0.01, np.array(0.5), np.array(2.0), rtol=2e-5, rtol2=2e-3)


@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.parametrize("method", ["pmf", "logpmf", *TAILS])
def test_counts(name, method):
    shapes = COUNTS[name]
    ours, theirs = getattr(getattr(stats, name), method), getattr(getattr(scipy.stats, name), method)
    k = np.array([-3.0, -1, 0, 1, 2, 3, 5, 6, 9, 2.5, np.nan])
    parameters = [np.array(s) for s in shapes]
    last = len(shapes) - 1

    def by_probability(p):
        return ours(k, *parameters[:last], p)

    np.testing.assert_allclose(traced_value(by_probability, parameters[last]), theirs(k, *shapes), rtol=1e-9, atol=1e-14)
    shifted = traced_value(lambda p: ours(k + 2, *parameters[:last], p, loc=2), parameters[last])
    np.testing.assert_allclose(shifted, theirs(k, *shapes), rtol=1e-9, atol=1e-14)
    finite = k[np.isfinite(theirs(k, *shapes))]
    check(lambda p: ours(finite, *parameters[:last], p), parameters[last])
    with pytest.raises(UnsupportedError):
        ad.grad(lambda k: ours(k, *parameters))(2.0)
    np.testing.assert_allclose(ad.vmap(lambda k: ours(k, *shapes))(k), theirs(k, *shapes), rtol=1e-9, atol=1e-14)


def test_size_of_nbinom_is_a_real_number():
    check(lambda n, p: stats.nbinom.logpmf(np.arange(5), n, p), np.array(2.5), np.array(0.4))


def test_wrong_parameters_give_nan():
    assert np.isnan(ad.vjp(lambda s: stats.norm.pdf(0.3, 0.0, s), -1.0)[0])
    assert np.isnan(ad.vjp(lambda a: stats.gamma.pdf(0.3, a), -1.0)[0])
    np.testing.assert_array_equal(
        ad.vjp(lambda s: stats.norm.cdf(0.0, 0.0, s), np.array([-1.0, 0.0, 1.0]))[0], [np.nan, np.nan, 0.5]
    )


def test_frozen_distributions():
    data = np.array([0.3, 1.2, -0.7])
    frozen = ad.grad(lambda mu: stats.norm(mu, 2.0).logpdf(data).sum())(0.5)
    np.testing.assert_allclose(frozen, np.sum((data - 0.5) / 4))
    assert stats.norm(0.0, 2.0).mean() == 0.0
    with pytest.raises(UnsupportedError):
        ad.grad(lambda mu: stats.norm(mu, 2.0).rvs())(0.5)


def test_other_functions_are_scipys():
    assert stats.skewnorm is scipy.stats.skewnorm
    assert stats.norm.interval(0.95) == scipy.stats.norm.interval(0.95)


def test_single_precision_is_computed_in_double_as_scipy_does():
    x = np.float32(0.3)
    value, pull = ad.vjp(lambda x: stats.norm.logpdf(x), x)
    assert value.dtype == scipy.stats.norm.logpdf(x).dtype
    assert pull(value)[0].dtype == np.float32


def test_far_tails():
    slope = ad.grad(stats.norm.logcdf)(-40.0)
    np.testing.assert_allclose(slope, 40.024968827, rtol=1e-9)
    assert ad.grad(lambda x: stats.t.logpdf(x, np.inf))(1.5) == -1.5


EXTREMES = np.array(
    [-np.inf, -1e308, -1e200, -1e30, -200.0, -1e-40, 0.0, 1e-40, 1e-9, 1e-3, 1.0, 200.0, 1e30, 1e200, 1e308, np.inf]
)


@pytest.mark.parametrize("name", CONTINUOUS)
@pytest.mark.parametrize("method", ["pdf", "logpdf", *TAILS])
@pytest.mark.filterwarnings("ignore")
def test_extremes(name, method):
    shapes, _ = CONTINUOUS[name]
    expected = getattr(getattr(scipy.stats, name), method)(EXTREMES, *shapes)
    found = traced_value(lambda x: getattr(getattr(stats, name), method)(x, *shapes), EXTREMES)
    finite = np.isfinite(expected) | ~np.isfinite(EXTREMES)  # SciPy may overflow on its way to a finite number
    np.testing.assert_allclose(found[finite], expected[finite], rtol=1e-9)
    assert not np.any(np.isnan(found[~finite]))


@pytest.mark.parametrize("name", CONTINUOUS)
@pytest.mark.parametrize("method", ["ppf", "isf"])
@pytest.mark.filterwarnings("ignore")
def test_extreme_quantiles(name, method):
    shapes, _ = CONTINUOUS[name]
    q = np.array([-0.1, 0.0, 1e-77, 1e-20, 1e-9, 0.2, 0.5, 1 - 1e-9, 1.0, 1.1, np.nan])
    expected = getattr(getattr(scipy.stats, name), method)(q, *shapes, loc=0.5, scale=2.0)
    ours = lambda q, *shapes: getattr(getattr(stats, name), method)(q, *shapes, loc=0.5, scale=2.0)
    np.testing.assert_allclose(traced_value(lambda q: ours(q, *shapes), q), expected, rtol=1e-9)
    for i in range(len(shapes)):  # at the ends of the support, on which the shapes have no influence
        assert [ad.grad(ours, 1 + i)(end, *shapes) for end in (0.0, 1.0)] == [0.0, 0.0]


@pytest.mark.parametrize("name", [name for name, (_, x) in CONTINUOUS.items() if x is WHOLE])
@pytest.mark.parametrize("x", [0.0, -3.0, 3.0, 1.0])
def test_slopes_of_distribution_functions_are_densities(name, x):
    shapes, _ = CONTINUOUS[name]
    family, theirs = getattr(stats, name), getattr(scipy.stats, name)
    density = theirs.pdf(x, *shapes)
    for method, sign in (("cdf", 1), ("sf", -1)):
        np.testing.assert_allclose(ad.grad(getattr(family, method))(x, *shapes), sign * density, rtol=1e-9)
        whole = getattr(theirs, method)(x, *shapes)
        np.testing.assert_allclose(ad.grad(getattr(family, f"log{method}"))(x, *shapes), sign * density / whole, rtol=1e-9)


@pytest.mark.parametrize("df", [3.0, 900.0, 1.1e3, 1e8, 1e16, 1e100])
def test_slope_by_many_degrees_of_freedom(df):
    """Digammas that agree in all their digits."""
    slope = ad.grad(stats.t.logpdf, 1)(1.3, df)
    with mpmath.workdps(250):
        n, x = mpmath.mpf(df), mpmath.mpf(1.3)
        expected = (mpmath.psi(0, (n + 1) / 2) - mpmath.psi(0, n / 2) - 1 / n - mpmath.log1p(x * x / n)) / 2
        expected = float(expected + (n + 1) / 2 * x * x / (n * n + n * x * x))
    np.testing.assert_allclose(slope, expected, rtol=1e-6, atol=1e-15 / df)


def test_complex_numbers_are_refused():
    for f in (stats.norm.logcdf, stats.gamma.pdf, stats.poisson.pmf):
        with pytest.raises(UnsupportedError, match="real numbers"):
            ad.vjp(lambda x, f=f: f(x, 2.0), np.array([1.0 + 1e-10j]))


# -- several dimensions -------------------------------------------------------------------------------------------

COV = np.array([[2.0, 0.3, 0.1], [0.3, 1.5, -0.2], [0.1, -0.2, 1.0]])
MEAN = np.array([0.1, -0.2, 0.4])


@pytest.mark.parametrize("shape", [(3,), (4, 3), (2, 4, 3)])
@pytest.mark.parametrize("method", ["pdf", "logpdf"])
def test_multivariate_normal(shape, method, rng):
    x = rng.standard_normal(shape)
    ours, theirs = getattr(stats.multivariate_normal, method), getattr(scipy.stats.multivariate_normal, method)
    np.testing.assert_allclose(traced_value(lambda x: ours(x, MEAN, COV), x), theirs(x, MEAN, COV), rtol=1e-10)
    np.testing.assert_allclose(traced_value(lambda m: ours(x, mean=m, cov=COV), MEAN), theirs(x, MEAN, COV), rtol=1e-10)
    check(lambda x, m, c: ours(x, m, c @ c.T), x, MEAN, np.linalg.cholesky(COV) + 0.1)


@pytest.mark.parametrize(
    "x, mean, cov",
    [(0.3, None, 2.0), (np.array([0.3, 1.0]), None, 2.0), (MEAN, MEAN + 1, 1.7), (MEAN, MEAN + 1, np.array([1.0, 2, 3]))],
)
def test_multivariate_normal_forms(x, mean, cov):
    expected = scipy.stats.multivariate_normal.logpdf(x, mean, cov)
    value = traced_value(lambda x: stats.multivariate_normal.logpdf(x, mean, cov), x)
    np.testing.assert_allclose(value, expected)
    assert np.shape(value) == np.shape(expected)
    check(lambda c: stats.multivariate_normal(mean, c).logpdf(x), np.asarray(cov, float))


def test_gradient_by_a_covariance_is_symmetric():
    g = ad.grad(lambda c: stats.multivariate_normal.logpdf(MEAN + 1, MEAN, c))(COV)
    inverse = np.linalg.inv(COV)
    d = inverse @ np.ones(3)
    np.testing.assert_allclose(g, 0.5 * (np.outer(d, d) - inverse), atol=1e-12)


@pytest.mark.parametrize("x", [np.array([0.2, 0.3, 0.5]), np.array([0.2, 0.3]), np.array([[0.2, 0.5], [0.3, 0.1], [0.5, 0.4]])])
@pytest.mark.parametrize("method", ["pdf", "logpdf"])
def test_dirichlet(x, method):
    alpha = np.array([1.5, 2.0, 0.7])
    ours, theirs = getattr(stats.dirichlet, method), getattr(scipy.stats.dirichlet, method)
    np.testing.assert_allclose(traced_value(lambda a: ours(x, a), alpha), theirs(x, alpha))
    check(lambda a: ours(x, a), alpha)
    check(lambda z: ours(np.exp(z) / np.sum(np.exp(z)), alpha), np.array([0.1, -0.3, 0.2]))
    with pytest.raises(ValueError, match="simplex"):
        ad.grad(lambda x: ours(x, alpha))(np.array([0.5, 0.5, 0.5]))


def test_multivariate_normal_of_a_singular_covariance():
    part = np.array([[1.0, 0.3], [0.3, 2.0]])
    wide = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, -1.0]])
    mean, inside = np.zeros(3), wide @ np.array([0.4, -0.2])
    logpdf = lambda c, m: stats.multivariate_normal.logpdf(inside, m, wide @ c @ wide.T, allow_singular=True)
    expected = scipy.stats.multivariate_normal.logpdf(inside, mean, wide @ part @ wide.T, allow_singular=True)
    np.testing.assert_allclose(ad.value_and_grad(logpdf)(part, mean)[0], expected)
    # On the plane the density is that of two dimensions, up to the area that the plane's own coordinates have.
    flat = lambda c: stats.multivariate_normal.logpdf(np.array([0.4, -0.2]), np.zeros(2), c)
    np.testing.assert_allclose(ad.grad(logpdf)(part, mean), ad.grad(flat)(part), rtol=1e-10)
    beside = ad.jvp(lambda x: stats.multivariate_normal.logpdf(x, mean, wide @ part @ wide.T, True), (np.ones(3),), (mean,))[0]
    assert beside == -np.inf


def test_multivariate_normal_entropy():
    cov = np.array([[1.0, 0.3], [0.3, 2.0]])
    value, slope = ad.value_and_grad(lambda c: stats.multivariate_normal.entropy(np.zeros(2), c))(cov)
    np.testing.assert_allclose(value, scipy.stats.multivariate_normal.entropy(np.zeros(2), cov))
    np.testing.assert_allclose(slope, 0.5 * np.linalg.inv(cov))
    assert stats.multivariate_normal(np.zeros(2), cov).entropy() == scipy.stats.multivariate_normal.entropy(np.zeros(2), cov)
