import numpy as np
import pytest
from harness import check, draw

import adjoint as ad

RNG = np.random.default_rng(3)
GRID = np.array([0.0, 0.4, 1.1, 1.9, 3.0])


def test_all_arguments():
    x = np.array([-1.0, 0.1, 0.7, 1.5, 2.9, 3.5])
    fp = draw(RNG, (5,))
    check(np.interp, x, GRID, fp)
    check(lambda x, xp, fp: np.interp(x, xp, fp, left=-1.0, right=x[0]), x, GRID, fp)
    check(lambda x, xp, fp: np.interp(x, xp, fp), np.array(1.3), GRID, fp)
    check(lambda x, xp, fp: np.interp(x.reshape(2, 3), xp, fp), x, GRID, fp)
    check(lambda x, xp, fp: np.interp(x, xp, fp), x, GRID, fp + 1j * fp[::-1])


def test_period():
    x = np.array([-1.0, 0.2, 0.7, 1.5, 2.9, 7.7])
    xp = np.array([1.3, 0.1, 2.6, 5.4])
    check(lambda x, xp, fp: np.interp(x, xp, fp, period=3.3), x, xp, draw(RNG, (4,)))
    check(lambda x, xp, fp, t: np.interp(x, xp, fp, period=t), x, xp, draw(RNG, (4,)), 3.3)


def test_knots_have_the_mean_slope():
    xp, fp = np.array([0.0, 1.0, 3.0]), np.array([0.0, 2.0, 4.0])
    slope = ad.elementwise_grad(lambda x: np.interp(x, xp, fp))
    np.testing.assert_allclose(slope(np.array([-1.0, 0.0, 0.5, 1.0, 2.0, 3.0, 4.0])), [0, 1, 2, 1.5, 1, 0.5, 0])


def test_nasty_points():
    xp, fp = np.array([0.0, 1.0, 1.0, 2.0]), np.array([0.0, 1.0, 5.0, 6.0])
    x = np.array([-np.inf, 0.5, np.nan, 1.5, np.inf])
    y, pull = ad.vjp(lambda x, xp, fp: np.interp(x, xp, fp), x, xp, fp)
    np.testing.assert_array_equal(y, np.interp(x, xp, fp))
    assert all(np.isfinite(g).all() for g in pull(np.array([1.0, 1.0, 0.0, 1.0, 1.0])))
    for f in (np.array([2.0]), np.array([2.0, 3.0])):
        grid = np.arange(float(len(f)))
        np.testing.assert_array_equal(ad.vjp(lambda x, grid=grid, f=f: np.interp(x, grid, f), x)[0], np.interp(x, grid, f))
    with pytest.raises(ValueError, match="same length"):
        ad.vjp(lambda x: np.interp(x, xp, fp[:2]), x)
