"""Reads and sums at computed places."""

import numpy as np
import pytest

import adjoint as ad

RNG = np.random.default_rng(0)
X, AT = RNG.normal(size=(10, 3)), RNG.integers(-10, 10, 25)


def test_a_read_joins_what_is_done_with_it():
    f = lambda x, i: np.sum(np.sin(x[i]) ** 2)
    (kernel,) = ad.jit(f).lower(X, AT).lowered.steps
    assert [line.kind for line in kernel.code].count("gather") == 1
    assert not kernel.stores
    np.testing.assert_allclose(ad.jit(f)(X, AT), f(X, AT), rtol=1e-13)


def test_the_transpose_adds_to_zeros():
    f = ad.grad(lambda x, i: np.sum(x[i] ** 3))
    lowered = ad.jit(f).lower(X, AT).lowered
    assert sum(len(s.scatters) for s in lowered.steps) == 1
    assert all(s.chunks == 1 for s in lowered.steps if s.scatters)  # two pieces might add to one element
    np.testing.assert_allclose(ad.jit(f)(X, AT), f(X, AT), rtol=1e-13)


def test_an_index_out_of_bounds_is_told_in_the_end():
    compiled = ad.jit(lambda x, i: x[i])
    (outside,) = compiled.lower(X, AT).lowered.out_of_bounds
    assert outside.shape == ()
    with pytest.raises(IndexError):
        compiled(X, np.array([0, 10]))
