"""Finite differences: the order of each formula's error, steps that are exact, and refused functions."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import adjoint as ad
from adjoint.check.differences import METHODS, finite_difference, good_step
from adjoint.core.errors import ArgumentError, DtypeError, ShapeError

#: The relative error of each method, in double precision.
BOUNDS = {"one-sided": 1e-6, "two-sided": 1e-9, "complex-step": 1e-14, "richardson": 1e-11}


TOLERANCE = {"one-sided": 1e-6, "two-sided": 1e-8, "complex-step": 1e-14, "richardson": 1e-10}


def example(x, y):
    return x**2 * y + y + 2


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


def test_textbook_formula_with_a_given_step():
    found = ad.finite_difference(example, 3.0, 4.0, argnums=(0, 1), method="one-sided", step=1e-5)
    assert found == (24.000039999805264, 10.000000000331966)
    h = 1e-3
    assert ad.finite_difference(math.exp, 1.0, step=h) == (math.exp(1 + h) - math.exp(1 - h)) / (2 * h)
    assert ad.finite_difference(np.exp, 1.0, method="complex-step", step=h) == np.imag(np.exp(1 + h * 1j)) / h


@pytest.mark.parametrize("method", METHODS)
def test_scalars_arrays_containers(method):
    close = lambda a, b: np.testing.assert_allclose(a, b, rtol=TOLERANCE[method], atol=TOLERANCE[method])
    close(ad.finite_difference(example, 3.0, 4.0, argnums=(0, 1), method=method), (24, 10))
    close(ad.finite_difference(example, 3.0, 4.0, argnums=-1, method=method), 10)
    x = np.array([[0.5, -1.0], [2.0, 3.0]])
    gradient = ad.finite_difference(lambda x: np.sum(np.sin(x) * x), x, method=method)
    close(gradient, np.sin(x) + x * np.cos(x))
    jacobian = ad.finite_difference(lambda x: np.sin(x)[:, None] * x[0, 0], x, method=method)
    assert jacobian.shape == (2, 1, 2, 2, 2)
    close(jacobian, ad.jacobian(lambda x: np.sin(x)[:, None] * x[0, 0])(x))
    parameters = {"w": np.array([1.0, 2.0]), "b": [0.5, None]}
    found = ad.finite_difference(lambda p, n: {"out": (p["w"] * p["b"][0], p["b"][0] ** n)}, parameters, 3, method=method)
    close(found["out"][0]["w"], [[0.5, 0], [0, 0.5]])
    close(found["out"][0]["b"][0], [1, 2])
    close(found["out"][1]["w"], [0, 0])
    close(found["out"][1]["b"][0], 0.75)
    assert found["out"][0]["b"][1] is None


@pytest.mark.parametrize("method", METHODS)
def test_dtypes(method):
    found = ad.finite_difference(lambda x: np.sin(x).sum(), np.array([0.5, 1.5], np.float32), method=method)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, np.cos([0.5, 1.5]), rtol=5e-3, atol=5e-3)
    assert type(ad.finite_difference(np.sin, 0.5, method=method)) is np.float64
    assert type(ad.finite_difference(np.sin, np.float32(0.5), method=method)) is np.float32
    assert ad.finite_difference(np.sum, np.zeros((0, 2)), method=method).shape == (0, 2)


def test_complex_arguments():
    np.testing.assert_allclose(ad.finite_difference(lambda z: np.abs(z) ** 2, 1 + 2j), 2 - 4j, rtol=1e-9)
    np.testing.assert_allclose(ad.finite_difference(lambda z: z**2, np.array([1 + 2j]), method="richardson"), [[2 + 4j]])
    with pytest.raises(DtypeError, match="not holomorphic"):
        ad.finite_difference(np.conj, 1 + 2j)
    with pytest.raises(ArgumentError, match="needs real arguments"):
        ad.finite_difference(np.exp, 1 + 2j, method="complex-step")


def test_the_step_is_representable(rng):
    for scale in 10.0 ** rng.integers(-12, 12, 300):
        for x in (rng.normal() * scale, np.float32(rng.normal() * scale)):
            for power in (1 / 2, 1 / 3, 1 / 10):
                h = type(x)(good_step(x, power, np.dtype(type(x))))
                assert (x + h) - x == h > 0


def test_steps_follow_the_size_of_the_point():
    for x in (1e-10, 1.0, 1e10):
        np.testing.assert_allclose(ad.finite_difference(lambda x: x**2 + x, x), 2 * x + 1, rtol=1e-9)


def test_richardson_passes_over_steps_outside_the_domain():
    for log in (np.log, math.log):
        for x in (1e-3, 0.02, 1.0, 1e5):
            np.testing.assert_allclose(ad.finite_difference(log, x, method="richardson"), 1 / x, rtol=1e-8)
    with pytest.raises(ValueError, match=r"math|positive"):
        ad.finite_difference(lambda x: math.log(-1.0 - x * x), 1.0, method="richardson")


def test_complex_step_tells_when_it_cannot_see_the_derivative():
    for f in (np.abs, lambda x: x.real * 2, lambda x: np.abs(x) + 0.0):
        with pytest.raises(ArgumentError, match="lost the imaginary part"):
            ad.finite_difference(f, 3.0, method="complex-step")
    with pytest.raises(ArgumentError, match="does not take complex numbers"):
        ad.finite_difference(math.sin, 3.0, method="complex-step")

    def writes(x):
        a = np.zeros(2)
        a[:] = x
        return a

    with pytest.raises(ArgumentError, match="does not take complex numbers"):
        ad.finite_difference(writes, np.ones(2), method="complex-step")
    # a result that does not depend on the argument is no loss
    assert ad.finite_difference(lambda x, y: [x, y], 1.0, 2.0, method="complex-step") == [1.0, 0.0]


def test_a_function_may_write_to_its_arguments():
    def f(x, scale):
        x *= scale
        scale += 1.0
        return x.sum()

    x, scale = np.ones(3), np.full(3, 2.0)
    np.testing.assert_allclose(ad.finite_difference(f, x, scale), [2, 2, 2])
    assert (x == 1).all()
    assert (scale == 2).all()


def test_mistakes():
    with pytest.raises(DtypeError, match=r"argument 0 is int; write 3\.0"):
        ad.finite_difference(example, 3, 4.0)
    with pytest.raises(ArgumentError, match="'one-sided', 'two-sided', 'complex-step', 'richardson'"):
        ad.finite_difference(example, 3.0, 4.0, method="forward")
    for step in (0, -1e-5, math.nan, math.inf, "small", True, 1j):
        with pytest.raises(ArgumentError, match="step is a positive number"):
            ad.finite_difference(np.sin, 1.0, step=step)
    with pytest.raises(ArgumentError, match="out of range"):
        ad.finite_difference(np.sin, 1.0, argnums=1)
    with pytest.raises(ArgumentError, match="needs the point"):
        ad.finite_difference(np.sin)
    with pytest.raises(ArgumentError, match="expects a function"):
        ad.finite_difference(3.0, 1.0)
    with pytest.raises(DtypeError, match="returned bool"):
        ad.finite_difference(lambda x: x > 1, 2.0)
    with pytest.raises(ArgumentError, match="is a return statement missing"):
        ad.finite_difference(lambda x: None, 2.0)
    with pytest.raises(ShapeError, match="different shapes"):
        ad.finite_difference(lambda x: np.ones(2) * x if x > 1 else np.ones(3) * x, 1.0)
    with pytest.raises(ArgumentError, match="differences cannot be differentiated"):
        ad.grad(lambda x: ad.finite_difference(np.sin, x))(1.0)
