"""What users rely on, promise by promise: each test states one sentence of the semantics and holds us to it."""

import asyncio
import collections
import copy
import dataclasses
import functools
import math
import pickle
import threading
import warnings

import numpy as np
import pytest

import adjoint as ad
import adjoint.numpy as anp
from adjoint.core.tree import flatten

SMALL, BIG = 3, 5000  # the backward pass takes another way for large arrays


def equal(found, expected):
    np.testing.assert_array_equal(found, expected)


def close(found, expected, rtol=1e-12, atol=1e-12):
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=atol)


def quietly(f, *args):
    with np.errstate(all="ignore"):
        return f(*args)


def scalar_slopes(f, x):
    """f′(x) of a function that acts per element, by every route there is, each for a scalar, a small and a big array."""
    one = np.float64(1.0)
    yield "rev", ad.grad(f)(x)
    yield "fwd", ad.jvp(f, (x,), (one,))[1]
    yield "linearize", ad.linearize(f, x)[1](one)
    yield "vjp", ad.vjp(f, x)[1](one)[0]
    yield "derivative", ad.derivative(f)(x)
    yield "jacfwd", ad.jacfwd(f)(x)
    yield "jacrev", ad.jacrev(f)(x)
    yield "0-d array", ad.grad(f)(np.array(x))
    for n in (SMALL, BIG):
        xs = np.full(n, x)
        yield f"rev {n}", ad.grad(lambda x: np.sum(f(x)))(xs)
        yield f"fwd {n}", ad.jvp(f, (xs,), (np.ones(n),))[1]
        yield f"elementwise {n}", ad.elementwise_grad(f)(xs)
        yield f"vmap rev {n}", ad.vmap(ad.grad(f))(xs)
        yield f"vmap fwd {n}", ad.vmap(ad.derivative(f))(xs)
        yield f"rev vmap {n}", ad.grad(lambda x: np.sum(ad.vmap(f)(x)))(xs)


def scalar_curvatures(f, x):
    """f″(x) by every nesting."""
    total = lambda x: np.sum(f(x))
    one = np.float64(1.0)
    yield "rev rev", ad.grad(ad.grad(f))(x)
    yield "fwd rev", ad.jvp(ad.grad(f), (x,), (one,))[1]
    yield "rev fwd", ad.grad(ad.derivative(f))(x)
    yield "fwd fwd", ad.derivative(ad.derivative(f))(x)
    yield "hessian", ad.hessian(f)(x)
    yield "hvp", ad.hvp(f)(x, one)
    for n in (SMALL, BIG):
        xs = np.full(n, x)
        yield f"rev rev {n}", ad.grad(lambda x: np.sum(ad.grad(total)(x)))(xs)
        yield f"hvp {n}", ad.hvp(total)(xs, np.ones(n))
        yield f"vmap rev rev {n}", ad.vmap(ad.grad(ad.grad(f)))(xs)
        yield f"vmap fwd rev {n}", ad.vmap(ad.derivative(ad.grad(f)))(xs)


def check_slopes(f, x, slope, curvature=None):
    x = np.float64(x)  # Python's numbers raise where these give inf
    with np.errstate(all="ignore"):
        for route, found in scalar_slopes(f, x):
            np.testing.assert_allclose(found, np.full(np.shape(found), slope), rtol=1e-12, atol=0, err_msg=route)
        if curvature is not None:
            for route, found in scalar_curvatures(f, x):
                np.testing.assert_allclose(found, np.full(np.shape(found), curvature), rtol=1e-12, atol=0, err_msg=route)


# -- kinks --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "f, x, slope, curvature",
    [
        (abs, 0.0, 0.0, 0.0),
        (np.abs, 0.0, 0.0, 0.0),
        (np.fabs, -0.0, 0.0, 0.0),
        (lambda x: np.maximum(x, 0.0), 0.0, 0.5, 0.0),
        (lambda x: np.maximum(0.0, x), 0.0, 0.5, 0.0),
        (lambda x: np.minimum(x, 0.0), 0.0, 0.5, 0.0),
        (lambda x: np.maximum(x, x), 1.0, 1.0, 0.0),
        (lambda x: np.maximum(x, 2 * x), 0.0, 1.5, 0.0),
        (lambda x: np.fmax(x, 0.0), 0.0, 0.5, 0.0),
        (lambda x: np.fmin(x, 0.0), 0.0, 0.5, 0.0),
        (lambda x: x**0, 0.0, 0.0, 0.0),
        (lambda x: x**0.0, 0.0, 0.0, 0.0),
        (lambda x: x**0, 2.0, 0.0, 0.0),
        (lambda x: x**1, 0.0, 1.0, 0.0),
        (lambda x: x**2, 0.0, 0.0, 2.0),
        (lambda x: x**3, 0.0, 0.0, 0.0),
        (lambda x: x**3.0, -2.0, 12.0, -12.0),
        (lambda x: np.power(x, 2), -3.0, -6.0, 2.0),
        (lambda x: 0.0**x, 2.0, 0.0, 0.0),
        (lambda x: np.hypot(x, 0.0), 0.0, 0.0, None),
        (np.sign, 0.0, 0.0, 0.0),
        (np.floor, 1.0, 0.0, 0.0),
        (lambda x: x % 1.0, 0.25, 1.0, 0.0),
        (np.sinc, 0.0, 0.0, -(math.pi**2) / 3),
        (lambda x: np.clip(x, -1.0, 1.0), 2.0, 0.0, 0.0),
        (lambda x: np.where(x > 0, x, 0.0), 0.0, 0.0, 0.0),
    ],
)
def test_slope_at_a_kink(f, x, slope, curvature):
    check_slopes(f, x, slope, curvature)


@pytest.mark.parametrize("n", [SMALL, BIG])
def test_norm_of_zero_has_zero_gradient(n):
    for norm in (np.linalg.norm, lambda x: np.linalg.norm(x, axis=0), lambda x: np.linalg.norm(x, 2)):
        equal(ad.grad(norm)(np.zeros(n)), np.zeros(n))
        equal(ad.jvp(norm, (np.zeros(n),), (np.ones(n),))[1], 0.0)
    equal(ad.vmap(ad.grad(np.linalg.norm))(np.zeros((2, 3))), np.zeros((2, 3)))


@pytest.mark.parametrize("f", [np.max, np.min, np.amax, lambda x: np.max(x, axis=0), lambda x: x.min(), np.maximum.reduce])
@pytest.mark.parametrize("n", [4, BIG])
def test_ties_of_extrema_share_equally(f, n):
    close(ad.grad(f)(np.ones(n)), np.full(n, 1 / n))
    close(ad.jvp(f, (np.ones(n),), (np.arange(n) * 1.0,))[1], (n - 1) / 2)
    x = np.ones(n)
    x[0] = 1.0 + (1 if f(np.array([1.0, 2.0])) == 2.0 else -1)
    equal(ad.grad(f)(x), np.eye(n, 1)[:, 0])


def test_ties_of_sort_share_equally():
    w = np.array([1.0, 2.0, 4.0])
    close(ad.grad(lambda x: np.sum(w * np.sort(x)))(np.array([1.0, 1.0, 0.0])), [3.0, 3.0, 1.0])
    close(ad.jvp(lambda x: np.sort(x), (np.array([1.0, 1.0]),), (np.array([0.0, 1.0]),))[1], [0.5, 0.5])


def test_repeated_eigenvalues_have_finite_gradients():
    a = np.diag([2.0, 2.0, 1.0])
    for f in (
        lambda a: np.linalg.eigh(a)[0].sum(),
        lambda a: np.sum(np.linalg.eigh(a)[1] ** 2),
        lambda a: np.linalg.svd(a)[1].sum(),
    ):
        assert np.isfinite(ad.grad(f)(a)).all()


# -- singular points, and zeros that win over them ----------------------------------------------------------------


@pytest.mark.parametrize(
    "f, x, slope",
    [
        (np.sqrt, 0.0, np.inf),
        (np.log, 0.0, np.inf),
        (np.cbrt, 0.0, np.inf),
        (lambda x: x**0.5, 0.0, np.inf),
        (lambda x: 1 / x, 0.0, -np.inf),
        (np.arcsin, 1.0, np.inf),
        (np.arctanh, 1.0, np.inf),
        (np.log, -1.0, -1.0),  # the value is nan; the partial 1/x is not
        (np.sqrt, -1.0, np.nan),
    ],
)
def test_infinite_slopes_are_not_hidden(f, x, slope):
    check_slopes(f, x, slope)


MASKED = {
    "sqrt": (lambda x: np.where(x < 1, x, np.sqrt(x)), 0.0, 1.0, 0.0),
    "xlogx at 0": (lambda x: np.where(x > 0, x * np.log(x), 0.0), 0.0, 0.0, 0.0),
    "xlogx at -1": (lambda x: np.where(x > 0, x * np.log(x), 0.0), -1.0, 0.0, 0.0),
    "sqrt at -1": (lambda x: np.where(x > 0, np.sqrt(x), 2 * x), -1.0, 2.0, 0.0),
    "log": (lambda x: np.where(x > 0, np.log(x), x * x), 0.0, 0.0, 2.0),
    "log in log": (lambda x: np.where(x > 0, np.log(np.log(x)), x), 0.0, 1.0, 0.0),
    "div": (lambda x: np.where(x != 0, np.sin(x) / x, 1.0), 0.0, 0.0, 0.0),
    "div by square": (lambda x: np.where(x != 0, 1 / (x * x), x), 0.0, 1.0, 0.0),
    "reciprocal": (lambda x: np.where(x > 0, np.reciprocal(x), 3 * x), 0.0, 3.0, 0.0),
    "power": (lambda x: np.where(x > 0, x**0.5, x), 0.0, 1.0, 0.0),
    "negative power": (lambda x: np.where(x > 0, x**-1.5, x), 0.0, 1.0, 0.0),
    "nan power": (lambda x: np.where(x > 0, x**0.5, x), -1.0, 1.0, 0.0),
    "power as exponent": (lambda x: np.where(x < 0, np.float64(-1.0) ** x, x), 1.0, 1.0, 0.0),
    "exp": (lambda x: np.where(x < 1e5, x, np.exp(x)), 1e4, 1.0, 0.0),
    "exp of exp": (lambda x: np.where(x < 1e5, x, np.exp(np.exp(x))), 1e4, 1.0, 0.0),
    "exp minus exp": (lambda x: np.where(x < 1e5, x, np.exp(x) - np.exp(x)), 1e4, 1.0, 0.0),
    "sinh times exp": (lambda x: np.where(x < 1e5, x, np.sinh(x) * np.exp(-x)), 1e4, 1.0, 0.0),
    "arcsin": (lambda x: np.where(x < 1, np.arcsin(x), x), 1.0, 1.0, 0.0),
    "arctanh outside": (lambda x: np.where(x < 1, np.arctanh(x), x), 2.0, 1.0, 0.0),
    "cbrt": (lambda x: np.where(x > 0, np.cbrt(x), x), 0.0, 1.0, 0.0),
    "maximum": (lambda x: np.maximum(x + 1, np.sqrt(x)), 0.0, 1.0, 0.0),
    "minimum": (lambda x: np.minimum(x - 1, np.sqrt(x)), 0.0, 1.0, 0.0),
    "times zero": (lambda x: 0.0 * np.sqrt(x) + x, 0.0, 1.0, 0.0),
    "logaddexp": (lambda x: np.where(x > 0, np.logaddexp(np.log(x), 0.0), x), 0.0, 1.0, 0.0),
    "hypot": (lambda x: np.where(x > 0, np.hypot(np.sqrt(x), x), x), 0.0, 1.0, 0.0),
    "arctan2": (lambda x: np.where(x > 0, np.arctan2(np.sqrt(x), x), x), 0.0, 1.0, 0.0),
    "maximum inside": (lambda x: x + np.sqrt(np.maximum(x, 0.0)), -1.0, 1.0, 0.0),
    "max inside": (lambda x: x + np.log(np.max(np.stack([x, np.zeros_like(x)]), axis=0)), -1.0, 1.0, 0.0),
    "clip inside": (lambda x: x + np.sqrt(np.clip(x, 0.0, 1.0)), -1.0, 1.0, 0.0),
    "max": (lambda x: np.max(np.stack([np.sqrt(x), x + 1]), axis=0), 0.0, 1.0, 0.0),
    "indexed": (lambda x: np.stack([np.sqrt(x), x])[1], 0.0, 1.0, 0.0),
    "indexed by arrays": (lambda x: np.sum(np.stack([np.log(x), 2 * x, x])[np.array([1, 2])], axis=0), 0.0, 3.0, 0.0),
    "sliced": (lambda x: np.concatenate([np.stack([np.sqrt(x)]), np.stack([x])])[1:][0], 0.0, 1.0, 0.0),
    "multiplied by a mask": (lambda x: x + np.sqrt(x) * (x > 0), 0.0, 1.0, 0.0),
}  # fmt: skip


@pytest.mark.parametrize("name", MASKED)
def test_exact_zero_wins_over_infinite_partial(name):
    f, x, slope, curvature = MASKED[name]
    check_slopes(f, x, slope, curvature)


@pytest.mark.parametrize("n", [6, BIG])
def test_exact_zero_wins_where_only_some_elements_are_masked(n):
    x = np.arange(n) % 3 - 1.0
    f = lambda x: np.sum(np.where(x > 0, np.sqrt(x) * np.log(x), x**2))
    expected = np.where(x > 0, 1.0, 2 * x)
    with np.errstate(all="ignore"):
        close(ad.grad(f)(x), expected)
        close(ad.grad(lambda x: np.sum(ad.grad(f)(x)))(x), np.where(x > 0, 0.0, 2.0), atol=1e-12)
        close(ad.hvp(f)(x, np.ones(n)), np.where(x > 0, 0.0, 2.0), atol=1e-12)
        close(ad.jvp(f, (x,), (np.ones(n),))[1], expected.sum())


HALF_INFINITE = np.array([[1.0, np.inf], [2.0, 3.0]])


def finite_rows(product):
    """The sum of what is finite in a product: an infinite row gets an exactly zero cotangent."""
    return lambda x: np.sum(np.where(np.isfinite(product(x)), product(x), 0.0))


@pytest.mark.parametrize(
    "product, gradient",
    [
        (lambda x: HALF_INFINITE @ x, [2.0, 3.0]),
        (lambda x: x @ HALF_INFINITE.T, [2.0, 3.0]),
        (lambda x: np.einsum("ij,j->i", HALF_INFINITE, x), [2.0, 3.0]),
        (lambda x: np.einsum("ij,j,k->ik", HALF_INFINITE, x, x), [14.0, 17.0]),
        (lambda x: np.cross([[np.inf, 1.0, 1.0], [1.0, 2.0, 3.0]], np.array([1.0, 0.0, 0.0]) * x[0]), [3.0 - 2.0, 0.0]),
    ],
)
def test_exact_zero_wins_in_products_of_arrays(product, gradient):
    x = np.array([1.0, 2.0])
    with np.errstate(all="ignore"):
        f = finite_rows(product)
        np.testing.assert_array_equal(ad.grad(f)(x), gradient)
        np.testing.assert_array_equal(ad.vmap(ad.grad(f))(np.stack([x, x])), [gradient, gradient])


@pytest.mark.parametrize("hessian", [ad.hessian, lambda f: ad.jacrev(ad.grad(f)), lambda f: ad.jacfwd(ad.jacfwd(f))])
def test_exact_zero_wins_in_products_of_arrays_at_second_order(hessian):
    f = finite_rows(lambda x: np.einsum("ij,j,k->ik", HALF_INFINITE, x, x))  # (2x₀ + 3x₁)(x₀ + x₁)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(hessian(f)(np.array([1.0, 2.0])), [[4.0, 5.0], [5.0, 6.0]])


def test_a_zero_tangent_wins_in_a_matrix_product():
    x = np.array([1.0, 2.0])
    with np.errstate(all="ignore"):
        _, tangent = ad.jvp(lambda x: HALF_INFINITE @ x, (x,), (np.array([1.0, 0.0]),))
        np.testing.assert_array_equal(tangent, [1.0, 2.0])
        np.testing.assert_array_equal(ad.grad(lambda x: np.sum(HALF_INFINITE @ x))(x), [3.0, np.inf])


def test_a_zero_tangent_wins_over_an_infinite_partial():
    f = lambda x: np.sum(np.sqrt(x))
    with np.errstate(all="ignore"):
        assert ad.jvp(f, (np.array([0.0, 4.0]),), (np.array([0.0, 1.0]),))[1] == 0.25
        assert ad.jvp(lambda x, y: x * y, (np.inf, 2.0), (0.0, 0.0))[1] == 0.0


def test_masking_of_float32_and_of_matrices():
    x = np.zeros((2, 3), np.float32)
    with np.errstate(all="ignore"):
        g = ad.grad(lambda x: np.sum(np.where(x < 1, x, np.sqrt(x))))(x)
        equal(g, np.ones((2, 3)))
        assert g.dtype == np.float32
        equal(
            ad.grad(lambda x: np.sum(np.where(x < 1, x, np.sqrt(x)).T @ np.ones((2, 2))))(np.zeros((2, 3))), np.full((2, 3), 2.0)
        )


@pytest.mark.parametrize("n", [SMALL, BIG])
def test_nan_and_inf_flow_through(n):
    x = np.ones(n)
    x[1] = np.nan
    g = ad.grad(lambda x: np.sum(x * x))(x)
    assert np.isnan(g[1])
    assert np.isfinite(np.delete(g, 1)).all()
    assert np.isnan(ad.grad(lambda x: np.sum(np.maximum(x, 0.0)))(x)[1])
    x[1] = np.inf
    assert ad.grad(lambda x: np.sum(x * x))(x)[1] == np.inf
    assert np.isnan(ad.jvp(lambda x: x * np.nan, (1.0,), (1.0,))[1])
    assert np.isnan(ad.grad(lambda x: x * np.nan)(1.0))


def test_derivatives_raise_no_warnings_of_their_own():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ad.grad(np.sqrt)(0.0) == np.inf
        assert ad.derivative(np.sqrt)(0.0) == np.inf
        with pytest.warns(RuntimeWarning, match="divide"):  # the user's own warning is the user's
            ad.grad(np.log)(0.0)


# -- dtypes -------------------------------------------------------------------------------------------------------

FLOATS = [np.float16, np.float32, np.float64, np.longdouble]


@pytest.mark.parametrize("dtype", FLOATS)
def test_dtype_in_is_dtype_out(dtype):
    x = np.array([0.5, 1.5, 2.0], dtype)
    program = lambda x: 2.0 * np.sin(x) ** 2 + x / 3 - np.where(x > 1, x, 0.0) + np.maximum(x, 1.0) * np.exp(-x) + abs(x) ** 1.5
    total = lambda x: np.sum(program(x)) * 0.5
    v = np.ones(3, dtype)
    results = {
        "plain": program(x),
        "grad": ad.grad(total)(x),
        "value_and_grad": ad.value_and_grad(total)(x),
        "jvp": ad.jvp(program, (x,), (v,)),
        "vjp": ad.vjp(program, x)[1](v),
        "linearize": (ad.linearize(program, x)[0], ad.linearize(program, x)[1](v)),
        "jacfwd": ad.jacfwd(program)(x),
        "jacrev": ad.jacrev(program)(x),
        "jacobian": ad.jacobian(program)(x),
        "hessian": ad.hessian(total)(x),
        "hvp": ad.hvp(total)(x, v),
        "elementwise_grad": ad.elementwise_grad(program)(x),
        "derivative": ad.derivative(program)(x[0]),
        "vmap": ad.vmap(program)(x),
        "vmap grad": ad.vmap(ad.grad(program))(x),
        "grad grad": ad.grad(lambda x: np.sum(ad.grad(total)(x)))(x),
        "third": ad.derivative(ad.derivative(ad.grad(program)))(x[0]),
    }
    for name, result in results.items():
        for leaf in flatten(result)[0]:
            assert leaf.dtype == dtype, name


def test_mixed_dtypes_follow_each_argument():
    a, b = np.ones(3, np.float32), np.ones(3, np.float64)
    f = lambda a, b: np.sum(a * b)
    ga, gb = ad.grad(f, (0, 1))(a, b)
    assert (ga.dtype, gb.dtype) == (np.float32, np.float64)
    value, t = ad.jvp(f, (a, b), (a, b))
    assert (value.dtype, t.dtype) == (np.float64, np.float64)
    ja, jb = ad.jacrev(lambda a, b: a * b, (0, 1))(a, b)
    assert (ja.dtype, jb.dtype) == (np.float32, np.float64)
    assert ad.grad(lambda a: np.sum(a.astype(np.float64)))(a).dtype == np.float32


def test_python_floats_are_weak():
    a = np.ones(3, np.float32)
    f = lambda a, s: np.sum(a * s + 0.1)
    value, (ga, gs) = ad.value_and_grad(f, (0, 1))(a, 2.0)
    assert (value.dtype, ga.dtype, gs.dtype) == (np.float32, np.float32, np.float64)
    assert gs == 3.0
    out, t = ad.jvp(lambda a, s: a * s, (a, 2.0), (a, 1.0))
    assert (out.dtype, t.dtype) == (np.float32, np.float32)
    assert ad.vmap(lambda a: a * 2.0)(a).dtype == np.float32
    assert ad.vmap(lambda a, s: a * s, in_axes=(0, None))(a, 2.0).dtype == np.float32
    with np.errstate(all="ignore"):
        assert ad.grad(lambda a: np.sum(a / 0.0))(a).dtype == np.float32


def test_unsigned_and_boolean_exponents():
    assert ad.grad(lambda x: np.sum(x ** np.arange(3, dtype=np.uint8)))(20.0) == 41.0
    assert ad.grad(lambda x: np.sum(x ** np.array([True, False])))(20.0) == 1.0


# -- complex ------------------------------------------------------------------------------------------------------

Z = 0.6 - 0.8j


@pytest.mark.parametrize(
    "f, expected",
    [
        (lambda z: np.abs(z), np.conj(Z)),
        (lambda z: np.abs(z) ** 2, 2 * np.conj(Z)),
        (lambda z: np.real(z), 1.0),
        (lambda z: z.real, 1.0),
        (lambda z: np.imag(z), -1j),
        (lambda z: np.imag(np.conj(z)), 1j),
        (lambda z: np.real(z * np.conj(z)), 2 * np.conj(Z)),
        (lambda z: np.real(z**2), 2 * Z),
        (lambda z: np.real(np.exp(z)), np.exp(Z)),
        (lambda z: np.imag(np.exp(z)), -1j * np.exp(Z)),
        (lambda z: np.real((2 + 1j) * z), 2 + 1j),
        (lambda z: np.angle(z), -1j / Z),
        (lambda z: np.real(1 / z), -1 / Z**2),
        (lambda z: np.real(np.sqrt(z)), 0.5 / np.sqrt(Z)),
    ],
)
def test_gradient_of_a_real_function_of_a_complex_number(f, expected):
    for z in (Z, np.complex128(Z)):
        g = ad.grad(f)(z)
        close(g, expected)
        assert g.dtype == np.complex128
    h = 1e-6
    re, im = (f(Z + h) - f(Z - h)) / (2 * h), (f(Z + 1j * h) - f(Z - 1j * h)) / (2 * h)
    close(ad.grad(f)(np.array([Z]).sum()), re - 1j * im, 1e-8)
    # and forward mode agrees: df = Re(g·dz)
    v = np.complex128(0.3 + 0.4j)
    close(ad.jvp(f, (np.complex128(Z),), (v,))[1], np.real(expected * v))
    assert ad.grad(lambda z: f(z[0]))(np.array([Z], np.complex64)).dtype == np.complex64


def test_modulus_has_zero_slope_at_zero():
    assert ad.grad(np.abs)(0j) == 0
    assert ad.jvp(np.abs, (0j,), (1 + 1j,))[1] == 0


@pytest.mark.parametrize(
    "f, df", [(np.sin, np.cos), (lambda z: z**3, lambda z: 3 * z**2), (np.exp, np.exp), (lambda z: 1 / z, lambda z: -1 / z**2)]
)
def test_holomorphic(f, df):
    close(ad.grad(f, holomorphic=True)(Z), df(Z))
    close(ad.value_and_grad(f, holomorphic=True)(Z)[1], df(Z))
    close(ad.jacfwd(f, holomorphic=True)(np.array([Z, 1j])), np.diag(df(np.array([Z, 1j]))))
    close(ad.jacrev(f, holomorphic=True)(np.array([Z, 1j])), np.diag(df(np.array([Z, 1j]))))
    close(ad.grad(ad.grad(f, holomorphic=True), holomorphic=True)(Z), ad.jvp(df, (np.complex128(Z),), (np.complex128(1),))[1])


def test_mixed_real_and_complex():
    f = lambda r, z: np.real(np.sum(r * z**2))
    r, z = np.array([1.0, 2.0]), np.array([Z, 2j])
    gr, gz = ad.grad(f, (0, 1))(r, z)
    close(gr, np.real(z**2))
    close(gz, 2 * r * z)
    assert gr.dtype == float
    close(ad.grad(lambda x: np.abs(np.exp(1j * x) + 1))(0.5), -np.sin(0.25))


def test_jacobian_of_a_complex_result_of_a_real_argument():
    f = lambda x: x * (1 + 2j)
    expected = np.eye(2) * (1 + 2j)
    equal(ad.jacfwd(f)(np.ones(2)), expected)
    equal(ad.jacobian(f)(np.ones(2)), expected)
    with pytest.raises(TypeError, match="jacfwd"):
        ad.jacrev(f)(np.ones(2))
    with pytest.raises(TypeError, match="real"):
        ad.elementwise_grad(f)(np.ones(2))


# -- shapes and memory layouts ------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (2, 0, 4)])
def test_zero_size_arrays(shape):
    x = np.zeros(shape)
    f = lambda x: np.sum(np.exp(x) * x)
    equal(ad.grad(f)(x), np.zeros(shape))
    assert ad.jvp(f, (x,), (x,))[1] == 0.0
    assert ad.jacfwd(np.sin)(x).shape == shape * 2
    assert ad.jacrev(np.sin)(x).shape == shape * 2
    assert ad.jacobian(np.sin)(x).shape == shape * 2
    assert ad.hessian(f)(x).shape == shape * 2
    assert ad.elementwise_grad(np.sin)(x).shape == shape
    assert ad.vmap(np.sin)(x).shape == shape
    if shape[0] == 0:
        assert ad.vmap(ad.grad(lambda x: np.sum(x**2)))(x).shape == shape


def test_zero_d_arrays():
    x = np.array(3.0)
    for f in (lambda x: x, lambda x: x * x / x, np.sum, lambda x: x.reshape(1)[0], lambda x: x[()], lambda x: x[None][0]):
        g = ad.grad(f)(x)
        assert g == 1.0
        assert np.shape(g) == ()
        assert ad.jvp(f, (x,), (np.array(1.0),))[1] == 1.0
        assert ad.jacfwd(f)(x) == ad.jacrev(f)(x) == 1.0
    assert ad.grad(lambda x: 0.0)(x) == 0.0


LAYOUTS = {
    "C": lambda a: a,
    "Fortran": np.asfortranarray,
    "reversed": lambda a: np.array(a[::-1])[::-1],
    "strided": lambda a: np.repeat(a, 2, axis=1)[:, ::2],
    "transposed": lambda a: np.array(a.T).T,
    "read-only": lambda a: np.broadcast_to(a, a.shape),
    "byte-swapped base": lambda a: np.frombuffer(a.tobytes()).reshape(a.shape),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(3, 4), (70, 80)])
def test_memory_layout_does_not_matter(layout, shape):
    rng = np.random.default_rng(1)
    a = rng.normal(size=shape)
    x = LAYOUTS[layout](a)
    equal(x, a)
    f = lambda x: (
        np.sum(np.sin(x @ x.T) * np.cumsum(x, axis=0)[0, 0])
        + np.sum(x[1:, ::-2] ** 2)
        + np.sum(x.reshape(-1)[:5] * x.T.ravel()[:5])
    )
    close(ad.grad(f)(x), ad.grad(f)(a), 1e-9, 1e-9)
    v = LAYOUTS[layout](rng.normal(size=shape))
    close(ad.jvp(f, (x,), (v,))[1], np.sum(ad.grad(f)(a) * v), 1e-9)
    close(ad.vmap(np.sum)(x), a.sum(1))
    close(ad.vmap(np.sum, in_axes=1)(x), a.sum(0))
    close(ad.elementwise_grad(np.tanh)(x), 1 - np.tanh(a) ** 2)


SHAPES = [
    ((), (3,)),
    ((3,), ()),
    ((1,), (3,)),
    ((3, 1), (4,)),
    ((2, 1, 3), (4, 1)),
    ((1, 1), (2, 3)),
    ((0,), (1,)),
    ((2, 3), (2, 3)),
    ((80, 1), (1, 70)),
]


@pytest.mark.parametrize("a, b", SHAPES)
@pytest.mark.parametrize(
    "op",
    [np.add, np.subtract, np.multiply, np.divide, np.maximum, np.power, np.arctan2, np.hypot, lambda a, b: np.where(True, a, b)],
)
def test_broadcasting(op, a, b):
    rng = np.random.default_rng(2)
    x, y = rng.uniform(0.5, 2, a), rng.uniform(0.5, 2, b)
    u = rng.normal(size=np.broadcast_shapes(a, b))
    gx, gy = ad.grad(lambda x, y: np.sum(op(x, y) * u), (0, 1))(x, y)
    assert (np.shape(gx), np.shape(gy)) == (a, b)
    vx, vy = rng.normal(size=a), rng.normal(size=b)
    t = ad.jvp(op, (x, y), (vx, vy))[1]
    assert np.shape(t) == u.shape
    close(np.sum(t * u), np.sum(gx * vx) + np.sum(gy * vy), 1e-9, 1e-9)


# -- nesting ------------------------------------------------------------------------------------------------------


def test_no_perturbation_confusion():
    # Siskind and Pearlmutter: d/dx (x · d/dy (x + y)) is 1, not 2.
    assert ad.derivative(lambda x: x * ad.derivative(lambda y: x + y)(1.0))(1.0) == 1.0
    assert ad.grad(lambda x: x * ad.grad(lambda y: x + y)(1.0))(1.0) == 1.0
    assert ad.grad(lambda x: x * ad.derivative(lambda y: x + y)(1.0))(1.0) == 1.0
    assert ad.derivative(lambda x: x * ad.grad(lambda y: x + y)(1.0))(1.0) == 1.0
    assert ad.grad(lambda x: x * ad.grad(lambda y: x * y)(2.0))(3.0) == 6.0
    assert ad.derivative(lambda x: ad.derivative(lambda y: x * y * y)(x))(3.0) == 12.0
    # Manzyuk and others: a derivative that escapes through a closure.
    s = lambda u: lambda f: lambda x: f(x + u)
    d = lambda f: lambda x: ad.derivative(f)(x)
    hat = lambda x: ad.derivative(lambda u: s(u)(np.exp)(x))(0.0)
    close(hat(1.0), np.e)
    close(d(hat)(1.0), np.e)
    shifted_twice = lambda x: ad.derivative(lambda u: s(u)(lambda z: ad.derivative(lambda w: s(w)(np.exp)(z))(0.0))(x))(0.0)
    close(shifted_twice(1.0), np.e)
    # an inner transform of a constant of its own
    assert ad.grad(lambda x: ad.grad(lambda y: x * 1.0)(2.0) + x)(1.0) == 1.0


TRANSFORMS = {
    "rev": ad.grad,
    "fwd": ad.derivative,
    "jacfwd": ad.jacfwd,
    "jacrev": ad.jacrev,
    "vjp": lambda f: lambda x: ad.vjp(f, x)[1](np.ones(())[()])[0],
    "linearize": lambda f: lambda x: ad.linearize(f, x)[1](np.ones(())[()]),
    "vmap rev": lambda f: lambda x: ad.vmap(ad.grad(f))(np.stack([x, x]))[1],
    "rev vmap": lambda f: lambda x: ad.grad(lambda x: np.sum(ad.vmap(f)(np.stack([x, 2.0]))[0]))(x),
    "fwd vmap": lambda f: lambda x: ad.derivative(lambda x: ad.vmap(f)(np.stack([x, 2.0]))[0])(x),
}
POLY = (
    lambda x: x**5 * np.exp(x),
    [lambda x: x**5 + 5 * x**4, lambda x: x**5 + 10 * x**4 + 20 * x**3, lambda x: x**5 + 15 * x**4 + 60 * x**3 + 60 * x**2],
)


@pytest.mark.parametrize("outer", TRANSFORMS)
@pytest.mark.parametrize("inner", TRANSFORMS)
def test_every_nesting_of_two(outer, inner):
    f, exact = POLY
    close(TRANSFORMS[outer](TRANSFORMS[inner](f))(0.7), exact[1](0.7) * np.exp(0.7), 1e-12)


THIRD = [
    (a, b, c)
    for a in ("rev", "fwd", "jacrev", "vmap rev", "rev vmap")
    for b in ("rev", "fwd", "linearize", "vmap rev")
    for c in ("rev", "fwd", "fwd vmap", "jacfwd")
]


@pytest.mark.parametrize("a, b, c", THIRD)
def test_nestings_of_three(a, b, c):
    f, exact = POLY
    close(TRANSFORMS[a](TRANSFORMS[b](TRANSFORMS[c](f)))(0.7), exact[2](0.7) * np.exp(0.7), 1e-11)


def test_closures_over_outer_traced_values():
    f = lambda x: ad.grad(lambda y: np.sum(x * y**2))(x).sum()  # 2x² per element
    close(ad.grad(f)(np.array([1.0, 2.0])), [4.0, 8.0])
    g = lambda w: np.sum(ad.vmap(lambda x: np.tanh(x * w))(np.arange(3.0)))
    close(ad.grad(g)(0.5), np.sum(np.arange(3) * (1 - np.tanh(0.5 * np.arange(3)) ** 2)))
    h = lambda x: ad.jvp(lambda y: y * x, (x,), (x,))[1]  # x²
    assert ad.grad(h)(3.0) == 6.0


def test_writes_to_an_outer_value_do_not_reach_an_inner_recording():
    def by_closure(a):
        def inner(x):
            y = x * a
            a[0] = 100.0
            return y.sum()

        return ad.grad(inner)(np.ones(3)).sum()

    def by_argument(a):
        _, pull = ad.vjp(lambda x: x * x, a)
        a[0] = 100.0
        return pull(np.ones(3))[0].sum() / 2

    def by_view(a):
        part = a[:]
        _, push = ad.linearize(lambda x: x * x, part)
        a[0] = 100.0
        return push(np.ones(3)).sum() / 2

    for f in (by_closure, by_argument, by_view):
        value, gradient = ad.value_and_grad(f)(np.array([1.0, 2.0, 3.0]))
        assert value == 6.0
        equal(gradient, np.ones(3))


# -- control flow -------------------------------------------------------------------------------------------------


def test_control_flow(capsys):
    def f(x, n=3):
        assert x > 0, f"x must be positive, got {x:.2f}"
        print("x is", x)
        if x > 10:
            return x * 0.0
        total = x
        while total < 50:
            total = total * x
        for _ in range(n):
            total = total + x
        label = f"{total:.1f} {x} {x!r}"
        assert "8" in label
        return total

    def recursive(x, n):
        return x if n == 0 else x * recursive(x, n - 1)

    assert ad.grad(f)(8.0) == 2 * 8 + 3
    assert ad.derivative(f)(8.0) == 2 * 8 + 3
    assert ad.grad(f)(11.0) == 0.0
    assert "x is 8.0" in capsys.readouterr().out
    assert ad.grad(recursive)(2.0, 4) == 5 * 16.0
    with pytest.raises(AssertionError, match=r"positive, got -1\.00"):
        ad.grad(f)(-1.0)
    g = ad.grad(lambda x: np.sum(x[x > 1] ** 2) if (x > 1).any() else np.sum(x))
    equal(g(np.array([0.0, 2.0])), [0.0, 4.0])
    equal(g(np.array([0.0, 0.5])), [1.0, 1.0])
    assert ad.grad(lambda x: max(x, 2.0) + min(x, 2.0, 5.0) + sum([x, x]) + abs(x))(3.0) == 4.0
    assert ad.grad(lambda x: sorted([x, -x, 2 * x])[0])(3.0) == -1.0
    assert ad.grad(lambda x: x * [1.0, 3.0].index(x) * int(x) * round(2.6))(3.0) == 9.0


def test_nested_control_flow_sees_the_numbers():
    f = lambda x: x * x if x > 1 else x**3
    assert ad.grad(ad.grad(f))(3.0) == 2.0
    assert ad.grad(ad.derivative(f))(0.5) == 3.0
    assert f"{ad.grad(lambda x: x * len(f'{x:.3f}'))(1.5)}" == "5.0"


# -- results are the user's own -----------------------------------------------------------------------------------


def every_result(x):
    """Results of every transform, of functions that return or ignore their arguments."""
    v = np.ones_like(x)
    identity = lambda x: x
    twice = lambda x: (x, x)
    yield ad.grad(np.sum)(x)
    yield ad.grad(lambda x, y: np.sum(x + y), (0, 1))(x, x)
    yield ad.value_and_grad(lambda x: (np.sum(x), (x, x, x[:2], 2 * x)), has_aux=True)(x)
    yield ad.grad(lambda x: 0.0)(x)
    yield ad.jvp(identity, (x,), (v,)), v
    yield ad.jvp(twice, (x,), (v,)), v
    yield ad.jvp(lambda x, y: (x, y, x + y), (x, x), (v, v)), v
    yield ad.jvp(lambda x: (x[:2], x.T, x.reshape(-1)), (x,), (v,)), v
    yield ad.jvp(lambda x: (np.sum(x), x), (x,), (v,), has_aux=True), v
    out, pull = ad.vjp(identity, x)
    yield out, pull(v), pull(v), v
    out, pull = ad.vjp(twice, x)
    yield out, pull((v, v)), v
    out, pull, aux = ad.vjp(lambda x: (x, x), x, has_aux=True)
    yield out, aux, pull(v), v
    out, pull = ad.vjp(lambda a, b: a, x, x)
    yield out, pull(v), v
    out, push = ad.linearize(identity, x)
    yield out, push(v), push(v), v
    yield ad.vmap(identity)(x)
    yield ad.vmap(twice)(x)
    yield ad.vmap(lambda x: (x, x, 1.0), out_axes=(0, -1, 0))(x)
    yield ad.vmap(lambda x, y: (x, y), in_axes=(0, None))(x, x)
    yield ad.vmap(lambda x, y: y, in_axes=(0, None), out_axes=None)(x, x)
    yield ad.vmap(twice, chunk_size=2)(x)
    yield ad.jacfwd(twice)(x), ad.jacrev(twice)(x), ad.jacobian(identity)(x)
    yield ad.hessian(lambda x: np.sum(x) ** 2)(x)
    yield ad.elementwise_grad(identity)(x)
    yield ad.stop_gradient(2 * x)


def test_results_share_no_memory_and_can_be_written_to():
    x = np.arange(1.0, 4.0)
    kept = x.copy()
    for number, results in enumerate(every_result(x)):
        arrays = [r for r in flatten(results)[0] if isinstance(r, np.ndarray)]
        for i, a in enumerate(arrays):
            assert type(a) is np.ndarray
            assert a.flags.writeable or a.ndim == 0, number
            assert not np.shares_memory(a, x), number
            for b in arrays[:i]:
                assert not np.shares_memory(a, b), number
        for a in arrays:
            a[...] = -7.0
    equal(x, kept)


@pytest.mark.parametrize("n", [SMALL, BIG])
def test_inputs_are_never_modified(n):
    rng = np.random.default_rng(0)
    x, y, v = rng.normal(size=(3, n))

    def f(x, y):
        a = x * 1
        x[0] = 5.0
        x += y
        x[1:] *= 2
        y[::2] = x[::2]
        z = (a - a) + y
        z += x - x
        return np.sum(z * a) + np.sum(x * y) + np.sum(z[:2] * x[1:3])

    before = [a.copy() for a in (x, y, v)]
    g = ad.grad(f, (0, 1))(x, y)
    ad.jvp(f, (x, y), (v, v))
    ad.vjp(f, x, y)[1](np.float64(2.0))
    ad.linearize(f, x, y)[1](v, v)
    ad.vmap(lambda x, y: f(np.stack([x] * 4), np.stack([y] * 4)))(x, y)
    ad.hvp(lambda x: f(x, np.copy(x)))(x, v)
    for a, b in zip((x, y, v), before, strict=True):
        equal(a, b)
    _, t = ad.jvp(f, (x, y), (v, v))
    close(t, np.sum((g[0] + g[1]) * v), 1e-9)


@pytest.mark.parametrize("n", [SMALL, BIG])
def test_a_cotangent_is_not_changed_by_what_another_operand_adds_to_it(n):
    c = np.arange(n) * 1.0
    for f in (
        lambda x, y: np.sum(((x - x) + y) * c),
        lambda x, y: np.sum((x % x + y) * c),
        lambda x, y: np.sum(((x - x * 2 - x) + y) * c),
    ):
        equal(ad.grad(f, (0, 1))(np.ones(n), np.ones(n))[1], c)
    _, pull = ad.vjp(lambda x, y: (x - x) + y, np.ones(n), np.ones(n))
    pull(c)
    equal(c, np.arange(n) * 1.0)


def test_a_pullback_is_not_changed_by_later_writes():
    x = np.array([1.0, 2.0])
    out, pull, aux = ad.vjp(lambda x: (np.exp(x) * x, np.exp(x)), x, has_aux=True)
    expected = pull(np.ones(2))[0]
    for a in (x, out, aux, pull(np.ones(2))[0]):
        a[:] = 0.0
    equal(pull(np.ones(2))[0], expected)
    x = np.array([1.0, 2.0])
    out, push = ad.linearize(lambda x: x * np.exp(x), x)
    expected = push(np.ones(2))
    x[:] = out[:] = 0.0
    equal(push(np.ones(2)), expected)
    tree = {"a": np.ones(2)}
    out, pull = ad.vjp(lambda t: t["a"] ** 2, tree)
    tree["a"][:] = 5.0
    equal(pull(np.ones(2))[0]["a"], [2.0, 2.0])


def test_results_are_plain():
    f = lambda x: (np.sum(x) * 1.0, {"fresh": anp.zeros(2), "traced": x * 2, "text": "s", "none": None, "number": 3})
    for aux in (
        ad.grad(f, has_aux=True)(np.ones(2))[1],
        ad.jvp(f, (np.ones(2),), (np.ones(2),), has_aux=True)[2],
        ad.vjp(f, np.ones(2), has_aux=True)[2],
        ad.jacfwd(f, has_aux=True)(np.ones(2))[1],
        ad.jacrev(f, has_aux=True)(np.ones(2))[1],
    ):
        assert type(aux["fresh"]) is np.ndarray
        assert type(aux["traced"]) is np.ndarray
        assert (aux["text"], aux["none"], aux["number"]) == ("s", None, 3)
    for y in (
        ad.vjp(lambda x: anp.zeros(2), 1.0)[0],
        ad.jvp(lambda x: anp.zeros(2), (1.0,), (1.0,))[0],
        ad.vmap(lambda x: anp.zeros(2))(np.ones(2)),
    ):
        assert type(y) is np.ndarray


# -- functions and arguments --------------------------------------------------------------------------------------


def test_functions_that_ignore_or_return_their_argument():
    assert ad.grad(lambda x: 3.0)(1.0) == 0.0
    assert ad.grad(lambda x: x)(1.0) == 1.0
    equal(ad.jacfwd(lambda x: np.ones(2))(np.ones(3)), np.zeros((2, 3)))
    equal(ad.jacrev(lambda x: np.ones(2))(np.ones(3)), np.zeros((2, 3)))
    equal(ad.jacrev(lambda x: x)(np.ones(3)), np.eye(3))
    assert ad.jvp(lambda x: 3.0, (1.0,), (1.0,)) == (3.0, 0.0)
    assert ad.linearize(lambda x: 3.0, 1.0)[1](1.0) == 0.0
    assert ad.vjp(lambda x: 3.0, 1.0)[1](1.0) == (0.0,)
    equal(ad.hessian(lambda x: 3.0)(np.ones(2)), np.zeros((2, 2)))
    equal(ad.vmap(lambda x: 3.0)(np.ones(2)), [3.0, 3.0])


def test_repeated_arguments():
    x = np.array([1.0, 2.0])
    a, b = ad.grad(lambda a, b: np.sum(a * a * b), (0, 1))(x, x)
    equal(a, 2 * x * x)
    equal(b, x * x)
    g = ad.grad(lambda t: np.sum(t[0] * t[1] ** 2))([x, x])
    equal(g[0], x**2)
    equal(g[1], 2 * x**2)
    equal(ad.vmap(lambda a, b: a * b)(x, x), x * x)


Pair = collections.namedtuple("Pair", "left right")


@dataclasses.dataclass
class Layer:
    w: object
    b: object
    name: object = None


@dataclasses.dataclass(frozen=True)
class Frozen:
    w: object
    inner: object


def trees():
    a, b = np.array([1.0, 2.0]), 3.0
    yield {"a": a, "b": b}, lambda t: (t["a"], t["b"])
    yield {"b": b, "a": a}, lambda t: (t["a"], t["b"])
    yield [a, b], lambda t: (t[0], t[1])
    yield (a, b), lambda t: (t[0], t[1])
    yield Pair(a, b), lambda t: (t.left, t.right)
    yield Layer(a, b), lambda t: (t.w, t.b)
    yield Frozen(a, Layer({"x": [b, None]}, ())), lambda t: (t.w, t.inner.w["x"][0])
    yield {"l": [Pair(a, None), (), {}], 3: b, (1, 2): None}, lambda t: (t["l"][0].left, t[3])
    yield collections.OrderedDict(z=a, y=b), lambda t: (t["z"], t["y"])
    yield collections.defaultdict(list, z=a, y=b), lambda t: (t["z"], t["y"])


@pytest.mark.parametrize("case", range(10))
def test_containers(case):
    tree, parts = list(trees())[case]
    f = lambda t: np.sum(parts(t)[0] ** 2) * parts(t)[1]
    expected = (6 * np.array([1.0, 2.0]), 5.0)

    def same(found):
        assert type(found) is type(tree)
        for x, y in zip(parts(found), expected, strict=True):
            close(x, y)

    same(ad.grad(f)(tree))
    value, g = ad.value_and_grad(f)(tree)
    assert value == 15.0
    same(g)
    same(ad.vjp(f, tree)[1](1.0)[0])
    same(ad.jacrev(f)(tree))
    same(ad.jacfwd(f)(tree))
    same(ad.jacobian(f)(tree))
    _, t = ad.jvp(f, (tree,), (tree,))
    assert t == 45.0
    assert ad.linearize(f, tree)[1](tree) == 45.0
    out, t = ad.jvp(lambda t: t, (tree,), (tree,))
    assert type(out) is type(t) is type(tree)
    h = ad.hessian(f)(tree)
    close(parts(parts(h)[0])[0], 6 * np.eye(2))
    close(parts(parts(h)[1])[0], [2.0, 4.0])


def test_empty_containers_and_none():
    f = lambda x, extra: np.sum(x)
    g = ad.grad(f, (0, 1))(np.ones(2), {"nothing": (), "none": None})
    assert g[1] == {"nothing": (), "none": None}
    assert ad.grad(f, 1)(np.ones(2), []) == []
    assert ad.vmap(lambda x, t: (x, t))(np.ones(2), None)[1] is None


def test_has_aux_everywhere():
    f = lambda x: (np.sum(x**2), {"twice": 2 * x, "note": "hello"})
    x = np.array([1.0, 2.0])
    for gradient, aux in (
        ad.grad(f, has_aux=True)(x),
        (lambda r: (r[1], r[0][1]))(ad.value_and_grad(f, has_aux=True)(x)),
        ad.jacrev(f, has_aux=True)(x),
        ad.jacobian(f, has_aux=True)(x),
        (lambda r: (r[1](1.0)[0], r[2]))(ad.vjp(f, x, has_aux=True)),
    ):
        equal(gradient, 2 * x)
        equal(aux["twice"], 2 * x)
        assert aux["note"] == "hello"
    value, t, aux = ad.jvp(f, (x,), (x,), has_aux=True)
    assert (value, t, aux["note"]) == (5.0, 10.0, "hello")
    g, aux = ad.jacfwd(f, has_aux=True)(x)
    equal(g, 2 * x)
    equal(aux["twice"], 2 * x)
    h, aux = ad.hessian(f, has_aux=True)(x)
    equal(h, 2 * np.eye(2))
    equal(aux["twice"], 2 * x)
    # aux of an inner transform may carry the outer one's derivative
    inner = lambda x: ad.grad(lambda y: (np.sum(y), y * x), has_aux=True)(x)[1].sum()
    equal(ad.grad(inner)(x), 2 * x)


def test_argnums_forms():
    f = lambda x, y, *, k=1.0: k * x * y**2
    assert ad.grad(f)(2.0, 3.0) == 9.0
    assert ad.grad(f, 1)(2.0, 3.0) == 12.0
    assert ad.grad(f, -1)(2.0, 3.0) == 12.0
    assert ad.grad(f, argnum=1)(2.0, 3.0) == 12.0
    assert ad.grad(f, np.int64(1))(2.0, 3.0) == 12.0
    assert ad.grad(f, (0, -1))(2.0, 3.0) == (9.0, 12.0)
    assert ad.grad(f, [1, 0])(2.0, 3.0, k=2.0) == (24.0, 18.0)
    assert ad.grad(f, (1,))(2.0, 3.0) == (12.0,)
    for transform in (ad.value_and_grad, ad.jacfwd, ad.jacrev, ad.jacobian, ad.hessian, ad.elementwise_grad, ad.derivative):
        transform(f, 1)(2.0, 3.0)
        transform(f, argnum=1)(2.0, 3.0)
        transform(f, -1)(2.0, 3.0, k=3.0)
    assert ad.hessian(f, (0, 1))(2.0, 3.0) == ((0.0, 6.0), (6.0, 4.0))
    assert ad.jacfwd(f, (0, 1))(2.0, 3.0) == ad.jacrev(f, [0, 1])(2.0, 3.0) == (9.0, 12.0)
    assert ad.hvp(f, 1)(2.0, 3.0, 1.0) == 4.0
    assert ad.hvp(f, (0, 1))(2.0, 3.0, (1.0, 1.0)) == (6.0, 10.0)


class Model:
    scale = 2.0

    def __init__(self, k):
        self.k = k

    def loss(self, x):
        return self.k * x**2 * self.scale

    @ad.grad
    def ignored(self):
        return 0.0

    @staticmethod
    def fixed(x):
        return x**3

    @classmethod
    def made(cls, x):
        return cls.scale * x

    def __call__(self, x, y=1.0):
        return self.k * x * y

    slope = ad.grad(lambda self, x: self.k * x**2, 1)


def test_kinds_of_callables():
    m = Model(3.0)
    assert ad.grad(m.loss)(2.0) == 24.0
    assert ad.grad(m)(2.0, y=2.0) == 6.0
    assert ad.grad(Model.fixed)(2.0) == 12.0
    assert ad.grad(Model.made)(2.0) == 2.0
    assert m.slope(2.0) == 12.0
    assert ad.grad(functools.partial(lambda a, x: a * x**2, 5.0))(1.0) == 10.0
    assert ad.grad(functools.partial(lambda x, a: a * x**2, a=5.0))(1.0) == 10.0
    assert ad.grad(abs)(-2.0) == -1.0
    assert ad.grad(np.sin)(0.0) == 1.0
    assert ad.grad(math.prod)([2.0, 3.0]) == [3.0, 2.0]
    assert ad.grad(sum)([2.0, 3.0]) == [1.0, 1.0]
    assert ad.grad(max)(2.0, 3.0) == 0.0
    assert ad.grad(functools.lru_cache(lambda x: x * x))(2.0) == 4.0
    g = ad.grad(m.loss)
    assert g.__name__ == "loss"
    assert "grad of loss" in repr(g)


# -- threads, tasks, pickles --------------------------------------------------------------------------------------


def _work(k):
    x = np.linspace(0.1, 1, 5) + k
    a = ad.grad(lambda x: np.sum(np.sin(x) * x))(x)
    b = ad.jvp(lambda x: np.sin(x) * x, (x,), (np.ones(5),))[1]
    c = ad.vmap(ad.grad(lambda x: np.sin(x) * x))(x)
    d = ad.hessian(lambda x: np.sum(np.sin(x) * x))(x).sum(0)
    leaf = ad.array(x, requires_grad=True)
    with ad.no_grad():
        _ = leaf * 2
    (np.sin(leaf) * leaf).sum().backward()
    e = leaf.grad
    exact = np.cos(x) * x + np.sin(x)
    for found in (a, b, c, e):
        close(found, exact)
    close(d, 2 * np.cos(x) - np.sin(x) * x)


def test_many_threads_at_once():
    errors = []

    def run(k):
        try:
            for _ in range(15):
                _work(k)
        except BaseException as error:  # handed to the test
            errors.append(error)

    threads = [threading.Thread(target=run, args=(k,)) for k in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors, errors[0]


def test_threads_started_inside_a_transform():
    found = []

    def f(x):
        thread = threading.Thread(target=lambda: found.append(ad.grad(lambda y: y**3)(2.0)))
        thread.start()
        thread.join()
        return x**2

    assert ad.grad(f)(3.0) == 6.0
    assert found == [12.0]


def test_async_tasks():
    async def task(k):
        leaf = ad.array(float(k), requires_grad=True)
        with ad.no_grad():
            await asyncio.sleep(0)
            constant = leaf * 2
            assert constant == 2 * k
        y = leaf * leaf
        await asyncio.sleep(0)
        y.backward()
        assert leaf.grad == 2 * k
        _work(k)
        return k

    async def main():
        return await asyncio.gather(*(task(k) for k in range(6)))

    assert asyncio.run(main()) == list(range(6))


def cube_sum(x):
    return np.sum(x**3)


def cube(x):
    return x**3


PICKLED = [
    (ad.grad(cube_sum), np.ones(2)),
    (ad.value_and_grad(cube_sum, argnums=(0,)), np.ones(2)),
    (ad.vmap(ad.grad(cube)), np.ones(3)),
    (ad.hessian(cube_sum), np.ones(2)),
    (ad.jacobian(cube), np.ones(2)),
    (ad.jacfwd(ad.jacrev(cube)), np.ones(2)),
    (ad.elementwise_grad(cube), np.ones(2)),
    (ad.derivative(ad.derivative(cube)), 2.0),
    (ad.vmap(cube, in_axes=0, out_axes=0, chunk_size=2), np.ones(3)),
    (ad.grad(functools.partial(cube_sum)), np.ones(2)),
]


@pytest.mark.parametrize("g, x", PICKLED)
def test_transformed_functions_pickle_and_copy(g, x):
    expected = g(x)
    for again in (pickle.loads(pickle.dumps(g)), copy.copy(g), copy.deepcopy(g)):
        for a, b in zip(flatten(again(x))[0], flatten(expected)[0], strict=True):
            equal(a, b)


def test_traced_values_copy():
    f = lambda x: np.sum(copy.deepcopy(x) * copy.copy(x) + copy.deepcopy({"x": [x]})["x"][0])
    equal(ad.grad(f)(np.array([1.0, 2.0])), [3.0, 5.0])

    def writes_to_a_copy(x):
        y = copy.deepcopy(x)
        y[0] = 5.0
        return np.sum(x * y)

    equal(ad.grad(writes_to_a_copy)(np.array([1.0, 2.0])), [5.0, 4.0])


# -- depth --------------------------------------------------------------------------------------------------------


def test_a_long_chain_needs_no_recursion():
    def chain(x):
        for _ in range(20_000):
            x = x * 0.999999 + 1e-9
        return x

    close(ad.grad(chain)(1.0), 0.999999**20_000)
    close(ad.derivative(chain)(1.0), 0.999999**20_000)
    close(ad.grad(lambda x: np.sum(chain(x)))(np.ones(2)), np.full(2, 0.999999**20_000))


@pytest.mark.parametrize("n", [30, 3000])
def test_views_of_views_of_views(n):
    def f(x):
        v = x
        for _ in range(n):
            v = v[::-1]
        v[0] = 5.0
        v += x
        return np.sum(x * v)

    equal(ad.grad(f)(np.array([1.0, 2.0, 3.0])), [0.0, 16.0, 24.0])  # (2x)² but for the element that was overwritten


@pytest.mark.parametrize("power", [2, 1, 3, 0.5, -1])
def test_a_power_of_a_python_number_is_weak(power):
    x = np.array([1.5], np.float32)
    f = lambda x, c: np.sum(x * c**power)
    assert ad.vjp(f, x, 2.0)[0].dtype == np.float32
    assert ad.jvp(f, (x, 2.0), (x, 1.0))[0].dtype == np.float32
