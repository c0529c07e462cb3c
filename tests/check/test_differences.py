"""Finite differences: the order of each formula's error, steps that are exact, and refused functions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import adjoint as ad
from adjoint.check.differences import METHODS, finite_difference, good_step
from adjoint.core.errors import ArgumentError, DtypeError, ShapeError

#: The relative error of each method, in double precision.
BOUNDS = {"one-sided": 1e-6, "two-sided": 1e-9, "complex-step": 1e-14, "richardson": 1e-11}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("f, slope", [(np.sin, np.cos), (np.exp, np.exp), (lambda x: x**3, lambda x: 3 * x**2)])
@pytest.mark.parametrize("x", [0.3, 2.0, -1.1])
def test_errors_are_those_of_the_formula(method, f, slope, x):
    assert finite_difference(f, x, method=method) == pytest.approx(slope(x), rel=BOUNDS[method])


@pytest.mark.parametrize("method", METHODS)
def test_jacobians_have_the_structure_of_results_and_arguments(method):
    f = lambda a, b: {"y": a * b, "s": np.sum(a)}
    a, b = np.arange(1.0, 4.0), 2.0
    found = finite_difference(f, a, b, method=method, argnums=(0, 1))
    expected = ad.jacobian(f, argnums=(0, 1))(a, b)
    for key in ("y", "s"):
        for ours, theirs in zip(found[key], expected[key], strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-6)


@given(st.floats(-1e300, 1e300), st.sampled_from([1 / 2, 1 / 3, 1 / 6]))
def test_a_step_is_exact(x, power):
    h = good_step(np.float64(x), power, np.dtype(float))
    assert h > 0
    assert (x + h) - x == h


def test_arguments_are_not_written_to():
    def f(x):
        x *= 2
        return np.sum(x)

    x = np.ones(3)
    np.testing.assert_allclose(finite_difference(f, x), 2 * np.ones(3), atol=1e-6)
    np.testing.assert_array_equal(x, np.ones(3))


@pytest.mark.parametrize(
    "f, error, message",
    [
        (lambda x: int(x), DtypeError, "needs a float result"),
        (lambda x: np.ones(2 if x > 1.0 else 3), ShapeError, "different shapes"),
        (lambda x: None, ad.AdjointError, "returned None"),
    ],
)
def test_results_without_a_difference(f, error, message):
    with pytest.raises(error, match=message):
        finite_difference(f, 1.0)


def test_a_traced_argument_is_refused():
    with pytest.raises(ArgumentError, match="cannot be differentiated"):
        ad.grad(lambda x: finite_difference(np.sin, x))(1.0)
    with pytest.raises(ad.AdjointError):
        finite_difference(np.sin, 1.0, method="backward")
