"""Norms and condition numbers, in every order, along every axis, and at their kinks."""

import math
import warnings

import numpy as np
import pytest
from harness import check, draw

import adjoint as ad

DTYPES = [float, complex]
VECTOR = [None, 2, 1, np.inf, -np.inf, 3, 2.5, 1.5, 0.5, -1, -2]
MATRIX = [None, "fro", "f", "nuc", 1, -1, 2, -2, np.inf, -np.inf]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("ord", VECTOR)
def test_vectors(ord, dtype, rng):
    check(lambda x: np.linalg.norm(x, ord), draw(rng, (4,), 0.3, 2, dtype))
    x = draw(rng, (3, 2), 0.3, 2, dtype)
    check(lambda x: np.linalg.norm(x, ord, 0), x, order=1)
    check(lambda x: np.linalg.norm(x, ord=ord, axis=-1, keepdims=True), x, order=1)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("ord", MATRIX)
def test_matrices(ord, dtype, rng):
    check(lambda x: np.linalg.norm(x, ord), draw(rng, (3, 2), dtype=dtype))
    x = draw(rng, (2, 3, 2), dtype=dtype)
    check(lambda x: np.linalg.norm(x, ord, (0, 1)), x, order=1)
    check(lambda x: np.linalg.norm(x, ord=ord, axis=(2, -2), keepdims=True), x, order=1)
    if ord is not None:
        check(lambda x: np.linalg.matrix_norm(x, ord=ord, keepdims=True), x, order=1)


@pytest.mark.parametrize("dtype", DTYPES)
def test_all_elements(dtype, rng):
    x = draw(rng, (2, 3, 2), dtype=dtype)
    check(np.linalg.norm, x)
    check(lambda x: np.linalg.norm(x, keepdims=True), x)
    check(lambda x: np.linalg.vector_norm(x, ord=3), x)
    check(lambda x: np.linalg.vector_norm(x, axis=(0, 2), ord=1), x)
    check(lambda x: np.linalg.vector_norm(x, axis=(-1, 0), keepdims=True), x)
    check(np.linalg.matrix_norm, x)


@pytest.mark.parametrize("ord", [None, 2, 1, np.inf, -np.inf, 3, 1.5, 0.5, -1])
def test_slope_at_zero(ord):
    with np.errstate(divide="ignore"):  # NumPy's norm of a negative order warns at 0
        g = ad.grad(lambda x: np.linalg.norm(x, ord))(np.zeros(3))
    np.testing.assert_array_equal(g, np.zeros(3))


@pytest.mark.parametrize("ord", MATRIX)
def test_slope_at_the_zero_matrix(ord):
    np.testing.assert_array_equal(ad.grad(lambda x: np.linalg.norm(x, ord))(np.zeros((2, 3))), np.zeros((2, 3)))


@pytest.mark.parametrize("p", [0.5, 1, 1.5, 2, 3, np.inf])
def test_one_element_that_vanishes(p):
    g = ad.grad(lambda x: np.linalg.norm(x, p))(np.array([0.0, -2.0]))
    np.testing.assert_allclose(g, [0, -1])


def test_ties_share():
    np.testing.assert_allclose(ad.grad(lambda x: np.linalg.norm(x, np.inf))(np.array([2.0, -2.0, 1.0])), [0.5, -0.5, 0])
    np.testing.assert_allclose(ad.grad(lambda x: np.linalg.norm(x, 2))(np.eye(2)), np.eye(2) / 2, atol=1e-15)


def test_nuclear_norm_without_full_rank():
    a = np.outer([3.0, 4.0], [1.0, 0.0])
    np.testing.assert_allclose(ad.grad(lambda a: np.linalg.norm(a, "nuc"))(a), a / 5, atol=1e-14)


def test_counting_norm():
    x = np.array([0.0, 2.0, -1.0])
    y, t = ad.jvp(lambda x: np.linalg.norm(x, 0) * x, (x,), (np.ones(3),))
    np.testing.assert_allclose(y, 2 * x)
    np.testing.assert_allclose(t, [2, 2, 2])
    np.testing.assert_array_equal(ad.vmap(lambda x: np.linalg.norm(x, 0))(np.eye(2)), [1, 1])


def test_empty():
    np.testing.assert_array_equal(ad.grad(np.linalg.norm)(np.zeros(0)), np.zeros(0))
    np.testing.assert_array_equal(ad.grad(lambda x: np.linalg.norm(x, 1))(np.zeros(0)), np.zeros(0))


def test_float32():
    x = np.array([3, 4], np.float32)
    for ord in (None, 1, 3, np.inf, 0.5):
        assert ad.grad(lambda x, ord=ord: np.linalg.norm(x, ord))(x).dtype == np.float32


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("p", [None, 1, -1, 2, -2, np.inf, -np.inf, "fro", "nuc"])
def test_condition(p, dtype, rng):
    a = draw(rng, (2, 3, 3), -1, 1, dtype) + 3 * np.eye(3)
    check(lambda a: np.linalg.cond(a, p), a, order=1)
    check(lambda a: np.linalg.cond(a, p), a[0])
    if p is None:
        check(np.linalg.cond, a[:, :, :2])


def test_condition_of_singular_matrices():
    a = np.stack([np.zeros((2, 2)), np.eye(2)])
    for p in (None, 1, "fro"):
        with np.errstate(all="ignore"):
            expected = np.linalg.cond(a, p)
        with pytest.warns(RuntimeWarning, match="no derivative"):
            y, pull = ad.vjp(lambda a, p=p: np.linalg.cond(a, p), a)
        np.testing.assert_array_equal(y, expected)
        g = pull(np.array([0.0, 1.0]))[0]
        assert np.all(np.isfinite(g))


SINGULAR = {
    "zeros": np.zeros((2, 2)),
    "dependent columns": np.array([[1.0, 2.0], [2.0, 4.0]]),
    "to working precision": np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]),
    "complex": np.array([[1.0, 1j], [1j, -1.0]]),
    "single precision": np.array([[1.0, 2.0], [2.0, 4.0]], np.float32),
}


@pytest.mark.filterwarnings("ignore:the condition number")
@pytest.mark.parametrize("p", [None, 1, 2, -2, np.inf, "fro"])
@pytest.mark.parametrize("name", SINGULAR)
def test_condition_of_singular_matrices_has_no_derivative(name, p):
    a = SINGULAR[name]
    f = lambda a: np.linalg.cond(a, p)
    with np.errstate(all="ignore"):
        expected = f(a)
    value, slope = ad.value_and_grad(f)(a)
    np.testing.assert_allclose(value, expected)
    assert value.dtype == expected.dtype
    for g in (slope, ad.jit(ad.grad(f))(a), ad.jvp(f, (a,), (np.ones_like(a),))[1], ad.graph(ad.grad(f))(a)(a)):
        assert np.all(np.isnan(g))


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.linalg.norm(x, "fro"),
        lambda x: np.linalg.norm(x[None], 3),
        lambda x: np.linalg.norm(x[None, None], 1),
        lambda x: np.linalg.norm(x[None], axis=(1, 1)),
    ],
)
def test_errors_are_those_of_numpy(f):
    x = np.ones(3)
    with pytest.raises(ValueError) as plain:
        f(x)
    with pytest.raises(ValueError) as traced:
        ad.vjp(f, x)
    assert str(plain.value) == str(traced.value)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("odd", [np.nan, np.inf, 2.0])
@pytest.mark.parametrize("shape", [(2, 2), (3, 2)])
def test_condition_numbers_of_any_matrices(shape, odd, compiled):
    """Of matrices that are not finite, alone and in a stack, and of those that are not square, which some orders refuse."""
    x = np.arange(math.prod(shape)).reshape(shape) ** 3 + 1.0 + np.eye(*shape) * np.arange(1, 4).reshape(3, 1, 1)
    x[1, 0, 1] = odd
    for p in (None, 2, -2, "nuc", 1, -1, np.inf, "fro"):
        f = lambda x: np.linalg.cond(x, p)  # noqa: B023 - called at once
        for a in (x, x[1]):
            run = (lambda: ad.jit(f)(a)) if compiled else (lambda: ad.vjp(f, a)[0])  # noqa: B023 - called at once
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    expected = f(a)
                except np.linalg.LinAlgError:
                    with pytest.raises(np.linalg.LinAlgError):
                        run()
                    continue
                np.testing.assert_allclose(run(), expected)
