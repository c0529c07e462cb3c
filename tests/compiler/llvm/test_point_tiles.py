"""Loops run tile by tile over their points: the results of the loop as it is, for points that do not fill a tile."""

import numpy as np
import pytest

import adjoint as ad


def f(x, w):
    def step(c, a):
        c = np.tanh(c * a + x)
        return c, np.sum(a)

    c, sums = ad.scan(step, x, w)
    return np.sum(c * c) + np.sum(sums), c


@pytest.mark.parametrize("points", [1, 4097, 20_000])
@pytest.mark.parametrize("length", [1, 5])
def test_tiles_give_the_loop(points, length):
    x, w = np.linspace(-1, 1, points), np.linspace(0.1, 0.9, length)
    found = ad.jit(f)(x, w)
    expected = f(x, w)
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-12)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-13)
