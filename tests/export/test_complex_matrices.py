"""Systems and factors of complex matrices: equal to NumPy's for all sizes, stacks and dtypes; failures have their status."""

import numpy as np
import pytest
from export.in_process import exported, results
from hypothesis import given, settings
from hypothesis import strategies as st
from night import examples

import adjoint as ad
from adjoint.export.steps import ERRORS

SIZES = st.sampled_from([0, 1, 2, 3, 5, 9])
STACKS = st.sampled_from([(), (2,), (0,), (2, 1)])
DTYPES = st.sampled_from([np.complex128, np.complex64])


def drawn(rng, *shape):
    return rng.normal(size=(*shape, 2)) @ np.array([1.0, 1j])


def positive(a):
    return a @ np.conj(np.swapaxes(a, -1, -2)) + np.eye(a.shape[-1])


def near(found, wanted):
    slack = 1e-3 if wanted.dtype in (np.complex64, np.float32) else 1e-10
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
    np.testing.assert_allclose(found, wanted, slack, slack * np.max(np.abs(wanted), initial=1e-30))


@settings(max_examples=examples(30), deadline=None)
@given(SIZES, st.sampled_from([0, 1, 4]), STACKS, DTYPES, st.booleans(), st.booleans(), st.integers(0, 99))
def test_systems(n, columns, stack, dtype, real_matrix, real_columns, seed):
    rng = np.random.default_rng(seed)
    a, b = (drawn(rng, *stack, n, n) + 3 * np.eye(n)).astype(dtype), drawn(rng, n, columns).astype(dtype)
    a, b = a.real.copy() if real_matrix else a, b.real.copy() if real_columns else b
    near(results(np.linalg.solve, a, b)[0], np.linalg.solve(a, b))


@settings(max_examples=examples(30), deadline=None)
@given(SIZES, STACKS, DTYPES, st.sampled_from([np.linalg.inv, np.linalg.det, np.linalg.slogdet]), st.integers(0, 99))
def test_inverses_and_determinants(n, stack, dtype, f, seed):
    a = (drawn(np.random.default_rng(seed), *stack, n, n) + 3 * np.eye(n)).astype(dtype)
    wanted = f(a)
    for x, y in zip(results(f, a), wanted if isinstance(wanted, tuple) else [wanted], strict=True):
        near(x, np.asarray(y))


@settings(max_examples=examples(30), deadline=None)
@given(SIZES, STACKS, DTYPES, st.integers(0, 99))
def test_factors(n, stack, dtype, seed):
    """Of the lower triangle alone, without the imaginary part of the diagonal."""
    a = positive(drawn(np.random.default_rng(seed), *stack, n, n)).astype(dtype)
    (found,) = results(np.linalg.cholesky, a)
    near(found, np.linalg.cholesky(a))
    np.testing.assert_array_equal(found, np.tril(found))
    other = np.tril(a) + np.triu(np.full((n, n), 7 - 5j, dtype), 1) + 3j * np.eye(n, dtype=dtype)
    np.testing.assert_array_equal(results(np.linalg.cholesky, other)[0], found)


@pytest.mark.parametrize("dtype", [np.complex128, np.complex64])
@pytest.mark.parametrize(
    ("f", "wrong", "message"),
    [
        (np.linalg.inv, 0, "a matrix is singular"),
        (lambda a: np.linalg.solve(a, a[0]), 0, "a matrix is singular"),
        (np.linalg.cholesky, -1, "a matrix is not positive definite"),
    ],
)
def test_failures_have_a_status(f, wrong, message, dtype):
    good = positive(drawn(np.random.default_rng(0), 3, 3)).astype(dtype)
    called = exported(f, good)
    near(called(good)[0], np.asarray(f(good)))
    with pytest.raises(ArithmeticError) as failed:
        called(good * wrong)
    assert ERRORS[failed.value.args[0]] == message


@settings(max_examples=examples(12), deadline=None)
@given(st.integers(1, 5), st.integers(0, 99))
def test_gradients(n, seed):
    rng = np.random.default_rng(seed)
    a, b = drawn(rng, n, n) + 3 * np.eye(n), drawn(rng, n)

    def f(a, b):
        factor = np.linalg.cholesky(a @ np.conj(a.T) + np.eye(n))
        return np.sum(np.abs(np.linalg.solve(a, b)) ** 2) + np.abs(np.linalg.det(a)) + np.sum(np.abs(factor) ** 3)

    near(results(ad.grad(f), a, b)[0], np.asarray(ad.grad(f)(a, b)))
