import warnings

import numpy as np
import pytest
from harness import check, draw

import adjoint as ad

X = draw(np.random.default_rng(3), (3, 4))
N = X.copy()
N[0, 1] = N[2, 3] = N[2, 0] = np.nan
HOLE = np.isnan(N)


def holed(f):
    """f of an array with nan at fixed places, as a function of the other elements."""
    return lambda x: f(np.where(HOLE, np.nan, x))


FUNCTIONS = [
    np.nansum, np.nanprod, np.nanmean, np.nanvar, np.nanstd, np.nanmax, np.nanmin, np.nanmedian, np.nancumsum, np.nancumprod,
]  # fmt: skip


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_reductions(f):
    check(holed(f), X)
    check(holed(lambda x: f(x, axis=0)), X)
    check(holed(lambda x: f(x, 1)), X)
    if "cum" not in f.__name__:
        check(holed(lambda x: f(x, axis=1, keepdims=True)), X)
    assert not ad.grad(lambda x: np.sum(f(x)))(N)[HOLE].any()
    assert np.isfinite(ad.grad(lambda x: np.sum(f(x)))(N)).all()


def test_options():
    check(holed(lambda x: np.nanvar(x, axis=0, ddof=1)[1:3]), X)
    check(holed(lambda x: np.nanstd(x, correction=1)), X)
    check(holed(lambda x: np.nansum(x, initial=2.0, where=X > 0)), X)
    check(holed(lambda x: np.nanmean(x, where=X > -1)), X)
    check(holed(lambda x: np.nanmax(x, axis=0, initial=0.1)), X)
    check(lambda z: [np.nansum(z), np.nanmean(z), np.nanvar(z)], draw(np.random.default_rng(0), (3,), dtype=complex))


@pytest.mark.parametrize("method", ["linear", "hazen", "lower", "midpoint", "inverted_cdf", "weibull"])
def test_quantiles(method):
    check(holed(lambda x: np.nanquantile(x, [0.2, 0.5, 0.9], axis=1, method=method)), X, order=1)
    check(holed(lambda x: np.nanpercentile(x, 35, axis=0, method=method)), X, order=1)
    check(holed(lambda x: np.nanpercentile(x, 35, method=method, keepdims=True)), X, order=1)


def test_weighted_quantiles():
    w = np.arange(1.0, 13).reshape(3, 4)
    f = lambda x: np.nanquantile(x, [0.0, 0.3, 1.0], axis=1, weights=w, method="inverted_cdf")
    np.testing.assert_array_equal(ad.vjp(f, N)[0], f(N))


def test_constants():
    f = lambda x: [np.nanargmax(x), np.nanargmin(x, axis=0), np.nanargmax(x, 1, keepdims=True)]
    for a, b in zip(ad.vjp(lambda x: (x, f(x)), N, has_aux=True)[2], f(N), strict=True):
        np.testing.assert_array_equal(a, b)
    with pytest.raises(ValueError, match="All-NaN"):
        ad.vjp(np.nanargmax, np.full(2, np.nan))


def test_all_nan():
    rows = np.array([[np.nan, np.nan], [1.0, 2.0]])
    for f in (np.nanmax, np.nanmean, np.nanmedian, np.nanvar):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            np.testing.assert_array_equal(f(rows, axis=1), ad.vjp(lambda x, f=f: f(x, axis=1), rows)[0])
        with pytest.warns(RuntimeWarning):
            ad.vjp(lambda x, f=f: f(x, axis=1), rows)


def test_nan_to_num():
    x = np.array([np.nan, 1.0, np.inf, -np.inf])
    for options in ({}, {"nan": 2.0, "posinf": 3.0, "neginf": 4.0}):
        f = lambda x, options=options: np.nan_to_num(x, **options)
        y, pull = ad.vjp(f, x)
        np.testing.assert_array_equal(y, f(x))
        np.testing.assert_array_equal(pull(np.ones(4))[0], [0, 1, 0, 0])
    check(np.nan_to_num, X)
    check(np.nan_to_num, draw(np.random.default_rng(0), (3,), dtype=complex))


def test_ufunc_reductions():
    check(holed(lambda x: [np.fmax.reduce(x), np.fmin.reduce(x, axis=1)]), X)
