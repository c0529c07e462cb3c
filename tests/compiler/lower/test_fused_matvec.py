"""Products of one matrix by vectors from both sides: kernels of one group, or calls of BLAS."""

import numpy as np
import pytest

import adjoint as ad
from adjoint.compiler.lower import fused_matvec
from adjoint.compiler.lower.step import Product, RowTiles

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(4000, 40)), RNG.normal(size=4000)
W = RNG.normal(size=40)


def loss(w, x, y):
    r = x @ w - y
    return np.sum(np.log(1 + r * r))


def steps_of(f, *args):
    compiled = ad.jit(f)
    for a, b in zip(ad.jit(f)(*args), f(*args), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)
    return compiled.lower(*args).lowered.steps


def has_products(steps):
    return any(isinstance(step, Product) for step in steps)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_gradient_of_a_function_of_a_product_reads_the_matrix_once(dtype):
    x = RNG.normal(size=(8000, 40)).astype(dtype)
    w, y = W.astype(dtype), RNG.normal(size=8000).astype(dtype)
    compiled = ad.jit(ad.value_and_grad(loss))
    value, slope = compiled(w, x, y)
    expected, expected_slope = ad.value_and_grad(loss)(w, x, y)
    tolerance = 1e-10 if dtype == np.float64 else 1e-4
    np.testing.assert_allclose(value, expected, rtol=tolerance)
    np.testing.assert_allclose(slope, expected_slope, rtol=tolerance, atol=tolerance * 100)
    assert slope.dtype == dtype
    steps = compiled.lower(w, x, y).lowered.steps
    assert not has_products(steps)
    group = next(step for step in steps if isinstance(step, RowTiles))
    assert sum(any(v.buffer.size == x.size for v in kernel.reads()) for kernel in group.kernels) == 2


@pytest.mark.parametrize(
    "f",
    [
        lambda w, x, y: (y @ x, x @ w),
        lambda w, x, y: (x.T @ y, w @ x.T),
        lambda w, x, y: (x.T @ (x @ w),),
        lambda w, x, y: (np.cos(x @ w) @ x, y @ x),
    ],
    ids=["from the left", "transposed", "one after the other", "two of one side"],
)
def test_all_ways_to_write_them(f):
    assert not has_products(steps_of(f, W, X, Y))


def test_one_side_alone_is_left_to_blas():
    assert has_products(steps_of(lambda w, x, y: (x @ w, x @ (w + 1)), W, X, Y))
    assert has_products(steps_of(lambda w, x, y: (y @ x,), W, X, Y))


def test_small_matrices_and_long_rows_are_left_to_blas():
    assert has_products(steps_of(lambda w, x, y: (x.T @ (x @ w),), W, X[:400], Y[:400]))
    long = RNG.normal(size=(30, 5000))
    assert has_products(steps_of(lambda w, x: (x.T @ (x @ w),), RNG.normal(size=5000), long))


def test_products_that_do_not_meet_are_left_to_blas():
    """What is between them needs all results of the first."""
    assert has_products(steps_of(lambda w, x, y: (np.sort(x @ w) @ x,), W, X, Y))
    assert has_products(steps_of(lambda w, x, y: ((x @ w / np.sum(np.exp(x @ w))) @ x,), W, X, Y))


def test_kernels_that_they_leave_behind_are_as_if_they_had_never_met():
    *_, kernel = steps_of(lambda w, x, y: (np.sort(x @ w) @ x, np.sin(x)), W, X, Y)
    assert [loop.length for loop in kernel.loops] == [X.size]


@pytest.mark.parametrize("columns", [2, 3, 7, 8, 9, 33])
def test_narrow_matrices(monkeypatch, columns):
    monkeypatch.setattr(fused_matvec, "LARGE", 1)
    x = RNG.normal(size=(5000, columns))
    steps_of(ad.value_and_grad(loss), RNG.normal(size=columns), x, RNG.normal(size=5000))


def test_parts_of_a_matrix():
    x = RNG.normal(size=(8000, 50))
    steps_of(lambda w, x, y: ((x[::2, 5:45] @ w - y) @ x[::2, 5:45],), W, x, Y)


def test_second_derivatives():
    v = RNG.normal(size=40)
    f = lambda w, v: (ad.jvp(lambda w: ad.grad(loss)(w, X, Y), (w,), (v,))[1],)
    assert not has_products(steps_of(f, W, v))
