"""Loops and branches in machine code: carries in two buffers, for any number of iterations."""

import numpy as np
import pytest

import adjoint as ad

XS = np.linspace(-1.0, 1.0, 24).reshape(8, 3)


@pytest.mark.parametrize("length", [0, 1, 2, 3, 8])
@pytest.mark.parametrize("reverse", [False, True])
def test_carries_end_in_the_result_for_even_and_odd_numbers_of_iterations(length, reverse):
    def f(c, xs):
        return ad.scan(lambda c, x: ((c[0] * 0.5 + x, c[1] + np.sum(x)), c[0] * x), c, xs, reverse=reverse)

    args = (np.ones(3), 0.0), XS[:length]
    found, expected = ad.jit(f)(*args), f(*args)
    for a, b in zip((*found[0], found[1]), (*expected[0], expected[1]), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-14)
        assert np.shape(a) == np.shape(b)


@pytest.mark.parametrize("limit", [0.0, 1.5, 10.0, 1e9])
def test_loops_of_unknown_length(limit):
    f = lambda x: ad.while_loop(lambda s: np.sum(s[0]) < limit, lambda s: (s[0] * 2 + 1, s[1] + 1), (x, 0))
    found, expected = ad.jit(f)(np.zeros(2)), f(np.zeros(2))
    np.testing.assert_array_equal(found[0], expected[0])
    assert found[1] == expected[1]


def test_carries_that_swap():
    f = lambda a, b: ad.fori_loop(0, 5, lambda i, c: (c[1], c[0] + i), (a, b))
    for x, y in zip(ad.jit(f)(np.ones(2), np.zeros(2)), f(np.ones(2), np.zeros(2)), strict=True):
        np.testing.assert_array_equal(x, y)


def test_a_branch_in_a_loop_in_a_branch():
    def f(x):
        inner = lambda i, c: ad.cond(c > 1.0, lambda c: c * 0.5, lambda c: c + x, c)
        return ad.cond(x > 0, lambda x: ad.fori_loop(0, 7, inner, x), lambda x: -x, x)

    compiled = ad.jit(f)
    for x in (0.3, -2.0, 5.0):
        assert compiled(x) == pytest.approx(f(x), rel=1e-15)
