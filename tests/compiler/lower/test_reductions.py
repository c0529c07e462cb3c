"""Sums and extrema: part of the kernel that computes what they combine."""

import numpy as np
import pytest

import adjoint as ad

RNG = np.random.default_rng(0)
X = RNG.normal(size=(4, 5, 12))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("axis", [None, 0, 1, 2, (0, 2), (1, 2)])
@pytest.mark.parametrize("how", [np.sum, np.max, np.min])
def test_one_pass_and_nothing_stored(how, axis):
    compiled = ad.jit(lambda x: how(np.sin(x), axis=axis))
    (kernel,) = compiled.lower(X).lowered.steps
    assert not kernel.stores
    assert [r.how for r in kernel.reductions] == [how.__name__]
    np.testing.assert_allclose(compiled(X), how(np.sin(X), axis=axis), rtol=1e-13)


def test_reductions_over_the_same_points_share_a_pass():
    f = lambda x: (np.sum(x, axis=0), np.max(x), np.sum(x * x, axis=(1, 2)))
    (kernel,) = ad.jit(f).lower(X).lowered.steps
    assert [r.how for r in kernel.reductions] == ["sum", "max", "sum"]
    for got, want in zip(ad.jit(f)(X), f(X), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-13)


def test_ties_of_an_extremum_share():
    x = np.array([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0], [np.nan, 1.0, np.nan]])
    compiled = ad.jit(ad.grad(lambda x: np.sum(np.max(x, axis=1))))
    np.testing.assert_allclose(compiled(x), [[0, 0.5, 0.5], [1 / 3, 1 / 3, 1 / 3], [np.nan] * 3], rtol=1e-15)


@pytest.mark.parametrize("dtype", [bool, np.int64, np.float32, np.float64])
@pytest.mark.parametrize("name", ["all", "any", "sum", "max", "min"])
def test_a_reduction_over_no_axis(name, dtype):
    x = (X * 3).astype(dtype)
    f = lambda x: (getattr(np, name)(x, axis=()), np.prod(getattr(np, name)(x, axis=()) * 0.5, axis=0))
    for found, expected in zip(ad.jit(f)(x), f(x), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-6)
        assert found.dtype == expected.dtype
