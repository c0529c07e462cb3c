"""Singular points, and the strong zeros that win over them."""

import warnings

import numpy as np
import pytest
from promises import BIG, SMALL, check_slopes, close, equal

import adjoint as ad


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


COMPUTED = {
    "mask": lambda x: np.sum(np.sqrt((x > 0.2) * x)),
    "count": lambda x: np.sum(np.log(np.sum(x > 9) * x) + x),
    "truth": lambda x: np.sum(np.log((x > 9).any() * x) + x),
    "difference of masks": lambda x: np.sum(np.sqrt(np.abs(((x > 0) * 1 - (x > 0.2) * 2 + (x > 1)) * x))),
    "outside": lambda x: np.sum((x > 0) * np.sqrt(x)),
    "exponent": lambda x: np.sum(x ** (x > 0.2)),
    "cast": lambda x: np.sum(np.sqrt((x > 0.2).astype(float) * x)),
    "cast to single": lambda x: np.sum(np.sqrt((x > 0.2).astype(np.float32) * x)),
    "cast and outside": lambda x: np.sum((x > 0).astype(float) * np.log((x > 0.2).astype(float) * x)),
    "chosen constants": lambda x: np.sum(np.sqrt(np.where(x > 0.2, 1.0, 0.0) * x)),
    "complement": lambda x: np.sum(np.sqrt((1.0 - (x <= 0.2)) * x)),
    "scaled": lambda x: np.sum(np.sqrt(x * (x > 0.2) / 2) + np.sqrt((x > 0.2) / 2 * x)),
    "product of casts": lambda x: np.sum(np.sqrt((x > 0.2).astype(float) * (x < 3).astype(float) * x)),
    "view": lambda x: np.sum(np.sqrt((x > 0.2).astype(float)[::-1, None] * x[::-1, None])),
    "one-hot": lambda x: np.sum(np.sqrt(np.eye(4)[np.argmax(x)] * x)),
    "in a loop": lambda x: ad.fori_loop(0, 3, lambda i, c: c + np.sum(np.sqrt((x > 0.2).astype(float) * x)), 0.0),
    "read by a loop": lambda x: (
        lambda m: ad.scan(lambda c, v: (c + np.sum(np.sqrt(m * x * v)), None), 0.0, np.arange(1.0, 3.0))[0]
    )((x > 0.2).astype(float)),
}


@pytest.mark.parametrize("name", COMPUTED)
def test_zeros_of_computed_masks_win_in_programs_as_in_eager_mode(name):
    f, x = COMPUTED[name], np.array([0.0, 0.1, 0.3, 4.0])
    with np.errstate(all="ignore"):
        expected = ad.grad(f)(x)
        assert np.all(np.isfinite(expected))
        for slope in (ad.jit(ad.grad(f)), ad.grad(ad.jit(f)), ad.graph(ad.grad(f))(x), ad.jit(ad.jacfwd(f))):
            np.testing.assert_allclose(slope(x), expected, rtol=1e-12)
        curvature = ad.hvp(f)(x, np.ones(4))
        known = np.isfinite(curvature)  # of a loop that reads a mask, an eager one may be nan
        assert known[:2].all()
        np.testing.assert_allclose(ad.jit(ad.hvp(f))(x, np.ones(4))[known], curvature[known], rtol=1e-12)
        np.testing.assert_allclose(ad.jit(ad.vmap(ad.grad(f)))(np.stack([x, x])), [expected] * 2, rtol=1e-12)
