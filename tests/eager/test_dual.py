"""Forward mode: tangents by their linearity, at any nesting, and zeros of a mask."""

import numpy as np
import pytest

import adjoint as ad
from adjoint.core.errors import LeakError

RNG = np.random.default_rng(1)
X, U, V = RNG.normal(size=(3, 4))


def f(x):
    return np.tanh(x) * np.sum(x**2) + np.sort(x)[::-1]


def tangent(g, x, v):
    return ad.jvp(g, (x,), (v,))[1]


def test_tangents_are_linear():
    np.testing.assert_allclose(tangent(f, X, 2 * U - 3 * V), 2 * tangent(f, X, U) - 3 * tangent(f, X, V), rtol=1e-12)


def test_the_value_is_that_of_the_function_to_the_bit():
    np.testing.assert_array_equal(ad.jvp(f, (X,), (V,))[0], f(X))


def test_nested_tangents_commute():
    twice = tangent(lambda x: tangent(f, x, U), X, V)
    np.testing.assert_allclose(twice, tangent(lambda x: tangent(f, x, V), X, U), rtol=1e-10)


def test_inner_tangents_are_not_confused_with_outer_ones():
    assert tangent(lambda x: x * tangent(lambda y: x + y, 1.0, 1.0), 3.0, 1.0) == 1.0


def test_a_constant_has_no_tangent():
    value, zero = ad.jvp(lambda x: np.floor(x) + 2.0, (1.5,), (1.0,))
    assert (value, zero) == (3.0, 0.0)


@pytest.mark.parametrize(
    "g, x, expected",
    [
        (lambda x: np.where(x > 0, np.sqrt(x), 2 * x), 0.0, 2.0),
        (lambda x: np.where(x > 0, x * np.log(x), 0.0), 0.0, 0.0),
        (np.sqrt, 0.0, np.inf),
    ],
)
def test_a_mask_wins_over_an_infinite_partial(g, x, expected):
    with np.errstate(all="ignore"):
        assert tangent(g, x, 1.0) == expected


def test_a_value_does_not_outlive_its_pass():
    held = []
    ad.jvp(lambda x: (held.append(x), x)[1], (1.0,), (1.0,))
    with pytest.raises(LeakError):
        held[0] * 2.0
