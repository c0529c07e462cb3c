import numpy as np
import pytest
from harness import check, draw

import adjoint as ad

A = np.array([0.1, 0.9, 2.2, 1.4, 3.0, 0.0, -5.0])
W = draw(np.random.default_rng(0), (7,))


def test_bincount():
    i = np.array([0, 3, 3, 1, 0, 6, 1])
    check(lambda w: [np.bincount(i, w), np.bincount(i, weights=w, minlength=9)], W)
    assert ad.vjp(lambda w: np.bincount(i, w), W.astype(np.float32))[0].dtype == np.float64
    with pytest.raises(ValueError, match="length"):
        ad.vjp(lambda w: np.bincount(i, w), W[:2])


@pytest.mark.parametrize(
    "options", [{}, {"bins": 3}, {"bins": [0.0, 1.0, 3.0]}, {"bins": 4, "range": (0, 2)}, {"bins": "sqrt"}], ids=str
)
def test_histogram(options):
    for density in (False, True):
        f = lambda a, density=density: np.histogram(a, density=density, **options)
        for found, plain in zip(ad.vjp(f, A)[0], f(A), strict=True):
            np.testing.assert_allclose(found, plain)
    np.testing.assert_allclose(ad.vjp(lambda a: np.histogram_bin_edges(a, **options), A)[0], np.histogram_bin_edges(A, **options))


def test_weights_and_edges():
    check(lambda w: np.histogram(A, bins=3, weights=w), W, vmap=False)
    check(lambda e: np.histogram(A, bins=e, density=True), np.array([-0.1, 0.95, 3.1]), vmap=False)
    check(lambda a: np.histogram_bin_edges(a, 4), A, vmap=False)
    check(lambda a: np.histogram(a, 4, density=True), A + 0.013 * np.arange(7), vmap=False)


def test_bincount_is_compiled_once_for_all_indices_that_fit():
    f = ad.jit(lambda i, w: np.bincount(i, w, minlength=6) * 2.0)
    counts = ad.jit(lambda i: np.bincount(i, minlength=6))
    rng = np.random.default_rng(0)
    for low, high in ((0, 6), (2, 5), (1, 2)):
        i, w = rng.integers(low, high, 9), rng.normal(size=9)
        np.testing.assert_allclose(f(i, w), 2.0 * np.bincount(i, w, minlength=6))
        found = counts(i)
        np.testing.assert_array_equal(found, np.bincount(i, minlength=6))
        assert found.dtype == np.intp
    for g in (f, counts):
        assert sum(map(len, g.specializations.values())) == 1
    i[4] = 8  # a longer result is another program
    np.testing.assert_allclose(f(i, w), 2.0 * np.bincount(i, w, minlength=6))
    i[4] = -1
    with pytest.raises(ValueError, match="negative"):
        f(i, w)


def test_bincount_without_elements_and_with_wrong_ones():
    f = ad.jit(lambda i, w: np.bincount(i, w, minlength=3))
    np.testing.assert_array_equal(f(np.zeros(0, int), np.zeros(0)), np.zeros(3))
    for i, message in ((np.zeros((2, 2), int), "too deep"), (np.array(1), "too small depth")):
        with pytest.raises(ValueError, match=message):
            f(i, np.zeros(i.shape))
    with pytest.raises(ValueError, match="minlength"):
        ad.vjp(lambda w: np.bincount(np.array([0]), w, minlength=-1), np.zeros(1))
