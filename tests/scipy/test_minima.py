"""Minima and fits, by what their functions and data depend on."""

import numpy as np
import pytest
import scipy.optimize

import adjoint as ad
import adjoint.numpy as anp
from adjoint.core.errors import UnsupportedError
from adjoint.scipy import optimize

X = np.linspace(0, 2, 12)
Y = 2 * np.exp(-1.3 * X) + 0.05 * np.cos(9 * X)
START = np.array([0.5, 0.1])


def quartic(x, k):
    return np.sum(x**4) / 4 + np.sum((x - k) ** 2) / 2  # x³ + x = k


def quartic_root(k):
    return scipy.optimize.brentq(lambda x: x**3 + x - k, -9, 9, xtol=1e-15)


MINIMA = {
    "by itself": lambda k: optimize.minimize(lambda x: quartic(x, k), START),
    "BFGS": lambda k: optimize.minimize(quartic, START, args=(k,), method="BFGS"),
    "Nelder-Mead": lambda k: optimize.minimize(quartic, START, (k,), "Nelder-Mead", options={"maxiter": 9999}),
    "Powell": lambda k: optimize.minimize(quartic, START, (k,), "Powell"),
    "a gradient": lambda k: optimize.minimize(quartic, START, (k,), jac=lambda x, k: x**3 + x - k),
    "both": lambda k: optimize.minimize(lambda x: (quartic(x, k), x**3 + x - k), START, jac=True),
    "a hessian": lambda k: optimize.minimize(
        lambda x: quartic(x, k), START, method="Newton-CG", jac=lambda x: x**3 + x - k, hess=lambda x: np.diag(3 * x**2 + 1)
    ),
    "wide bounds": lambda k: optimize.minimize(lambda x: quartic(x, k), START, bounds=[(-9, 9), (None, 9.0)]),
}


@pytest.mark.parametrize("name", MINIMA)
def test_minima(name):
    for k in (2.0, 2.1):
        x = quartic_root(k)
        slope = 1 / (3 * x**2 + 1)
        np.testing.assert_allclose(ad.grad(lambda k: MINIMA[name](k).x[1])(k), slope, rtol=1e-6)
        np.testing.assert_allclose(ad.grad(lambda k: MINIMA[name](k).fun)(k), 2 * (k - x), rtol=1e-6)
    x = quartic_root(2.0)
    bend = -6 * x / (3 * x**2 + 1) ** 3
    np.testing.assert_allclose(ad.grad(ad.grad(lambda k: MINIMA[name](k).x[1]))(2.0), bend, rtol=1e-5)


def test_compiled_minima_serve_all_numbers():
    slope = ad.jit(ad.grad(lambda k: optimize.minimize(lambda x: quartic(x, k), START).x[0]))
    for k in (2.0, 2.5, -1.0):
        np.testing.assert_allclose(slope(k), 1 / (3 * quartic_root(k) ** 2 + 1), rtol=1e-6)
    assert len(slope.specializations) == 1


def test_plain_numbers_go_to_scipy():
    found = optimize.minimize(quartic, START, (2.0,))
    wanted = scipy.optimize.minimize(quartic, START, (2.0,))
    np.testing.assert_array_equal(found.x, wanted.x)
    assert found.message == wanted.message
    fit, wanted = optimize.curve_fit(decay, X, Y), scipy.optimize.curve_fit(decay, X, Y)
    np.testing.assert_array_equal(fit[0], wanted[0])
    np.testing.assert_array_equal(fit[1], wanted[1])


def test_bounds():
    """The first variable lies on its bound; the second follows from it."""

    def found(k, high):
        f = lambda x: (x[0] - 3 * k) ** 2 + (x[1] - k) ** 2 + x[0] * x[1]
        return optimize.minimize(f, START, bounds=[(0.0, high), (None, 9.0)]).x

    # x₀ = high, and 2 (x₁ − k) + x₀ = 0
    np.testing.assert_allclose(found(2.0, 1.0), [1.0, 1.5], rtol=1e-6)
    slopes = ad.jacobian(lambda p: found(p[0], p[1]))(np.array([2.0, 1.0]))
    np.testing.assert_allclose(slopes, [[0.0, 1.0], [1.0, -0.5]], atol=1e-6)
    everything = ad.grad(lambda k: optimize.minimize(lambda x: k * np.sum(x), START, bounds=[(0.5, 1), (0.1, 1)]).fun)(2.0)
    np.testing.assert_allclose(everything, 0.6)


def test_minima_of_a_number():
    for f in (
        lambda k: optimize.minimize_scalar(lambda x: quartic(x, k)),
        lambda k: optimize.minimize_scalar(quartic, bounds=(0, 2), args=(k,), method="bounded"),
    ):
        np.testing.assert_allclose(ad.grad(lambda k, f=f: f(k).x)(2.0), 1 / (3 * quartic_root(2.0) ** 2 + 1), rtol=1e-6)
    with pytest.raises(UnsupportedError, match="widen"):
        ad.grad(lambda k: optimize.minimize_scalar(lambda x: k * x, bounds=(0, 1), method="bounded").x)(2.0)


# -- least squares --------------------------------------------------------------------------------------------------------


def decay(x, a, b):
    return a * np.exp(-b * x)


def line(x, a, b):
    return a + b * x


def test_linear_fits_are_linear_in_the_data():
    A = np.stack([np.ones(12), X], axis=1)
    inverse = np.linalg.pinv(A)
    for f in (
        lambda y: optimize.curve_fit(line, X, y)[0],
        lambda y: optimize.least_squares(lambda p: A @ p - y, [0.0, 0.0]).x,
        lambda y: optimize.leastsq(lambda p: A @ p - y, [0.0, 0.0])[0],
        lambda y: optimize.leastsq(lambda p, y: A @ p - y, [0.0, 0.0], (y,))[0],
    ):
        np.testing.assert_allclose(ad.jacobian(f)(Y), inverse, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(ad.jit(ad.jacobian(lambda y: optimize.curve_fit(line, X, y)[0]))(Y), inverse, rtol=1e-6, atol=1e-9)


TIGHT = {"xtol": 1e-14, "ftol": 1e-14}
FITS = {
    "the data": (lambda o, v: o.curve_fit(decay, X, v, **TIGHT)[0][1], Y),
    "the places": (lambda o, v: o.curve_fit(decay, v, Y, (1.0, 1.0), **TIGHT)[0][0], X),
    "errors": (lambda o, v: o.curve_fit(decay, X, Y, sigma=v, **TIGHT)[0][0], 0.1 + X),
    "a covariance of errors": (
        lambda o, v: o.curve_fit(decay, X, Y, sigma=v * np.outer(X, X) + np.eye(12), **TIGHT)[0][1],
        np.array(0.7),
    ),
    "the covariance": (lambda o, v: o.curve_fit(decay, X, v, **TIGHT)[1][0, 1], Y),
    "the absolute covariance": (lambda o, v: o.curve_fit(decay, X, Y, sigma=v, absolute_sigma=True, **TIGHT)[1][0, 0], 0.1 + X),
    "bounds": (lambda o, v: o.curve_fit(decay, X, v, bounds=([0, 0], [1.5, 9]), gtol=1e-15, **TIGHT)[0][1], Y),
    "the residuals": (lambda o, v: o.least_squares(lambda p: decay(X, *p) - v, [1.0, 1.0], gtol=1e-15, **TIGHT).cost, Y),
}


def differences(f, x, h=2e-4):
    """Central differences with a wide step: a fit is found to a few digits less than its residuals have."""
    steps = h * np.eye(x.size).reshape(-1, *x.shape)
    return np.array([(f(x + d) - f(x - d)) / (2 * h) for d in steps]).reshape(x.shape)


@pytest.mark.parametrize("name", FITS)
def test_fits(name):
    f, at = FITS[name]
    slope = ad.grad(lambda v: f(optimize, v))(at)
    wanted = differences(lambda v: f(scipy.optimize, v), at)
    np.testing.assert_allclose(slope, wanted, rtol=2e-3, atol=2e-4 * np.max(np.abs(wanted)))


def test_a_function_of_traced_values():
    power = lambda q: optimize.curve_fit(lambda x, a, b: a * anp.exp(-b * x**q), X, Y, **TIGHT)[0][1]
    wanted = ad.finite_difference(
        lambda q: scipy.optimize.curve_fit(lambda x, a, b: a * np.exp(-b * x**q), X, Y, **TIGHT)[0][1], 1.1
    )
    np.testing.assert_allclose(ad.grad(power)(1.1), wanted, rtol=1e-3)


def test_refusals():
    above = {"type": "ineq", "fun": lambda x: x[0] - 1}
    with pytest.raises(UnsupportedError, match="constraints"):
        ad.grad(lambda k: optimize.minimize(lambda x: quartic(x, k), START, constraints=[above]).fun)(2.0)
    with pytest.raises(UnsupportedError, match="loss"):
        ad.grad(lambda k: optimize.least_squares(lambda p: p * k - Y[:2], [1.0, 1.0], loss="huber").cost)(2.0)
