import numpy as np
import pytest
from harness import check, draw

import adjoint as ad

X = draw(np.random.default_rng(3), (3, 4))
V = draw(np.random.default_rng(4), (5,))
T = draw(np.random.default_rng(5), (2, 3, 4))
W = np.abs(draw(np.random.default_rng(6), (4,))) + 0.1

METHODS = [
    "inverted_cdf", "averaged_inverted_cdf", "closest_observation", "interpolated_inverted_cdf", "hazen", "weibull", "linear",
    "median_unbiased", "normal_unbiased", "lower", "higher", "midpoint", "nearest",
]  # fmt: skip


def test_average():
    check(lambda x: [np.average(x), np.average(x, 0), np.average(x, axis=(0, 1), keepdims=True)], X)
    check(lambda x, w: [np.average(x, 1, w), np.average(x, axis=-1, weights=w, returned=True)], X, W)
    check(lambda x, w: np.average(x, weights=w), X, X + 3)
    check(lambda x, w: np.average(x, axis=(2, 0), weights=w, keepdims=True), T, np.abs(T[:, 0, :].T) + 0.1)
    for a, b in zip(ad.vjp(lambda x: np.average(x, returned=True), X)[0], np.average(X, returned=True), strict=True):
        np.testing.assert_allclose(a, b)
    with pytest.raises(TypeError, match="Axis must be specified"):
        ad.vjp(lambda w: np.average(X, weights=w), W)


def test_cov():
    check(lambda x: [np.cov(x), np.cov(x, bias=True), np.cov(x, rowvar=False), np.cov(x, ddof=2), np.cov(x[0])], X)
    check(lambda x, y: [np.cov(x, y), np.cov(x[0], y[0])], X, X[:2] ** 2)
    check(lambda x, a: np.cov(x, aweights=a, fweights=[1, 2, 0, 3]), X, W)
    check(lambda x: np.cov(x), draw(np.random.default_rng(0), (2, 4), dtype=complex))
    check(lambda x: [np.corrcoef(x), np.corrcoef(x, rowvar=False), np.corrcoef(x[0], x[1])], X)
    check(lambda x: np.corrcoef(x), draw(np.random.default_rng(0), (2, 4), dtype=complex))


@pytest.mark.parametrize(
    "f",
    [
        np.median,
        lambda x: np.median(x, axis=0),
        lambda x: np.median(x, 1, keepdims=True),
        lambda x: np.median(x, axis=(0, 1), keepdims=True),
        lambda x: np.median(x, axis=-1),
        lambda x: np.quantile(x, 0.3),
        lambda x: np.quantile(x, 0, axis=0),
        lambda x: np.quantile(x, [0.1, 0.5, 0.77, 1.0], axis=1),
        lambda x: np.quantile(x, [0.1, 0.77], axis=(0, 1), keepdims=True),
        lambda x: np.percentile(x, 30, axis=1),
        lambda x: np.percentile(x, [10, 20, 99], keepdims=True),
    ],
)  # fmt: skip
def test_order(f):
    check(f, X)


def test_order_of_other_ranks():
    check(lambda v: [np.median(v), np.median(v[:1]), np.quantile(v, 0.2), np.quantile(v[:1], 0.7)], V)
    check(lambda t: [np.median(t, axis=(0, 2)), np.quantile(t, [0.2, 0.3], axis=(2, 0)), np.quantile(t, 0.1, axis=1)], T)


@pytest.mark.parametrize("method", METHODS)
def test_methods(method):
    q = np.array([0.0, 0.17, 0.25, 0.5, 0.6, 0.99, 1.0])
    check(lambda x: [np.quantile(x, q, axis=1, method=method), np.percentile(x, 61, method=method)], X, order=1)
    for n in (1, 2, 4, 5, 8):
        x = draw(np.random.default_rng(n), (n,))
        grid = np.linspace(0, 1, 25)
        np.testing.assert_allclose(
            ad.vjp(lambda x, grid=grid: np.quantile(x, grid, method=method), x)[0], np.quantile(x, grid, method=method)
        )
    if method in METHODS[3:9]:
        check(lambda x, q: np.quantile(x, q, method=method), V, np.array([0.33, 0.42, 0.61]))


def test_traced_q():
    check(lambda x, q: [np.quantile(x, q), np.percentile(x, 100 * q, axis=0)], X, 0.37)
    batch = ad.vmap(lambda q: np.quantile(V, q))(np.array([0.1, 0.9]))
    np.testing.assert_allclose(batch, np.quantile(V, [0.1, 0.9]))
    with pytest.raises(ValueError, match="not a valid method"):
        ad.vjp(lambda x: np.quantile(x, 0.5, method="mode"), V)
    with pytest.raises(ValueError, match="range"):
        ad.vjp(lambda x: np.quantile(x, 1.5), V)


def test_weights():
    q = [0.0, 0.2, 0.5, 0.9, 1.0]
    f = lambda x, w: np.quantile(x, q, axis=1, weights=w, method="inverted_cdf")
    np.testing.assert_array_equal(ad.vjp(f, X, W)[0], f(X, W))
    np.testing.assert_array_equal(ad.vjp(f, X, np.array([0.0, 0, 1, 1]))[0], f(X, np.array([0.0, 0, 1, 1])))
    check(lambda x: np.quantile(x, 0.4, axis=1, weights=W, method="inverted_cdf"), X, order=1)
    check(lambda x: np.percentile(x, 40, weights=np.ones((3, 4)), method="inverted_cdf"), X, order=1)


def test_ties_share():
    x = np.array([2.0, 1.0, 2.0, 2.0, 5.0])
    np.testing.assert_allclose(ad.grad(np.median)(x), [1 / 3, 0, 1 / 3, 1 / 3, 0])
    np.testing.assert_allclose(
        ad.grad(lambda x: np.quantile(x, [0.0, 0.5, 0.6, 1.0]) @ np.array([0, 1.0, 0, 0]))(x), [1 / 3, 0, 1 / 3, 1 / 3, 0]
    )
    np.testing.assert_allclose(ad.grad(np.median)(np.array([1.0, 1.0, 2.0, 2.0])), [0.25] * 4)


def test_nan_and_float32():
    x = np.array([[1.0, np.nan, 3.0], [1.0, 2.0, 3.0]])
    for f in (lambda x: np.median(x, axis=1), lambda x: np.quantile(x, [0.1, 0.2, 0.3], axis=1)):
        np.testing.assert_array_equal(ad.vjp(f, x)[0], f(x))
    x = np.float32([1, 2, 4])
    for f in (np.median, lambda x: np.quantile(x, 0.3), lambda x: np.quantile(x, [0.3]), lambda x: np.average(x)):
        value, pull = ad.vjp(f, x)
        assert value.dtype == f(x).dtype
        assert pull(np.ones_like(value))[0].dtype == np.float32
    with pytest.warns(RuntimeWarning):
        assert np.isnan(ad.vjp(np.median, np.zeros(0))[0])


def test_quantiles_in_a_matrix():
    q = np.array([[0.1, 0.5], [0.0, 0.9]])
    check(lambda x: np.quantile(x, q, axis=1), np.sin(np.arange(12.0)).reshape(3, 4))
    check(lambda x: np.nanquantile(x, q), np.sin(np.arange(12.0)).reshape(3, 4))


INFINITE = (
    [1.0, 2.0, np.inf],
    [np.inf, np.inf, 1.0],
    [-np.inf, 1.0, 2.0],
    [-np.inf, np.inf, 0.0],
    [np.inf],
    [1.0, np.nan, np.inf],
)
METHODS = (
    *("linear", "lower", "higher", "midpoint", "nearest", "median_unbiased", "inverted_cdf", "hazen", "weibull"),
    *("averaged_inverted_cdf", "closest_observation", "interpolated_inverted_cdf", "normal_unbiased"),
)


@pytest.mark.parametrize("method", METHODS)
def test_quantiles_of_infinite_samples(method):
    """The neighbours are those of NumPy, so that infinite ones give inf or nan where NumPy's do."""
    for x in map(np.array, INFINITE):
        for q in (0.0, 0.25, 0.5, 0.75, 1.0, np.array([0.0, 1.0]), np.array([0.5, 1.0, 0.25])):
            for f in (np.quantile, np.nanquantile):
                with np.errstate(all="ignore"):
                    expected = f(x, q, method=method)
                    found = [ad.jvp(lambda x, f=f, q=q: f(x, q, method=method), (x,), (np.ones_like(x),))[0]]
                    found += [ad.vmap(lambda x, f=f, q=q: f(x, q, method=method))(np.stack([x, x]))[1]]
                for y in found:
                    np.testing.assert_array_equal(y, expected)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("count", [1, 2, 5, 6, 9])
@pytest.mark.parametrize("n", [1, 2, 7, 600, 3000])
def test_few_quantiles_are_found_without_sorting_and_are_those_of_the_sorted(n, count):
    rng = np.random.default_rng(n + count)
    x, q, w = np.round(rng.normal(size=n), 2), rng.random(count).tolist(), rng.normal(size=count)
    f = lambda x: np.quantile(x, q) @ w
    by_sorting = ad.grad(lambda x: np.interp(np.array(q) * (n - 1), np.arange(n), np.sort(x)) @ w)(x)
    np.testing.assert_allclose(ad.grad(f)(x), by_sorting, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(ad.jit(f)(x), f(x), rtol=1e-12)
    np.testing.assert_allclose(ad.jit(ad.grad(f))(x), by_sorting, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("method", ["linear", "nearest", "midpoint", "inverted_cdf", "hazen"])
@pytest.mark.parametrize("f", [np.quantile, np.nanquantile, lambda x, q, **options: np.percentile(x, 100 * q, **options)])
def test_levels_outside_of_the_range_are_no_quantiles(f, method):
    """NumPy's error where the levels are known, else nan."""
    rows, good, bad = np.arange(24.0).reshape(2, 3, 4), np.array([0.2, 1.0]), np.array([0.2, 1.5])
    for axis in (None, 0):
        g = lambda x, q, axis=axis: f(x, q, axis=axis, method=method)
        each = np.stack([g(x, q) for x, q in zip(rows, good, strict=True)])
        np.testing.assert_allclose(ad.vmap(g)(rows, good), each)
        np.testing.assert_allclose(ad.jit(ad.vmap(g))(rows, good), each)
        for run in (ad.vmap(g), ad.vmap(ad.jacfwd(g)), ad.jit(g), ad.jacrev(g)):
            with pytest.raises(ValueError, match="range"):
                run(rows, bad)
        found = ad.jit(ad.vmap(g))(rows, bad)
        np.testing.assert_allclose(found[0], each[0])
        assert np.isnan(found[1]).all()
