"""reduce of ufuncs that have no function of their own: np.logaddexp.reduce is the usual way to write logsumexp."""

import numpy as np
import pytest
from harness import check

import adjoint as ad


@pytest.mark.sampled(3)
@pytest.mark.parametrize("ufunc", [np.logaddexp, np.logaddexp2, np.hypot])
@pytest.mark.parametrize("shape", [(1,), (2,), (5,), (3, 4), (2, 3, 2)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_reduce(ufunc, shape, keepdims, rng):
    axes = [None, *range(-1, len(shape))]
    if len(shape) == 3:
        axes += [(0, 2), (-1, 1)]
    for axis in axes:
        check(lambda x, axis=axis: ufunc.reduce(x, axis=axis, keepdims=keepdims), rng.uniform(0.5, 2, shape), rtol2=5e-4)


def test_default_axis_is_the_first(rng):
    check(lambda x: np.logaddexp.reduce(x), rng.normal(size=(3, 2)))


def test_far_apart_and_minus_infinity():
    x = np.array([-np.inf, 1000.0, 1000.0, -1000.0])
    np.testing.assert_allclose(ad.grad(np.logaddexp.reduce)(x), [0, 0.5, 0.5, 0])
    assert ad.vjp(np.logaddexp.reduce, np.zeros(0))[0] == -np.inf


@pytest.mark.parametrize("ufunc", [np.logaddexp, np.logaddexp2, np.hypot], ids=lambda u: u.__name__)
def test_initial_and_where(ufunc):
    x = np.linspace(0.3, 1.9, 12).reshape(3, 4)
    some = np.array([True, False, True, True])
    check(lambda x: ufunc.reduce(x, initial=1.5), x)
    check(lambda x: ufunc.reduce(x, axis=1, initial=0.5, where=some), x)
    check(lambda x: ufunc.reduce(x, axis=(0, 1), where=some, keepdims=True), x)


@pytest.mark.parametrize("ufunc", [np.subtract, np.divide, np.arctan2], ids=lambda u: u.__name__)
def test_any_ufunc_reduces_from_the_left(ufunc):
    x = np.linspace(0.3, 1.9, 12).reshape(3, 4)
    check(lambda x: ufunc.reduce(x), x)
    check(lambda x: ufunc.reduce(x, axis=0, initial=2.0, keepdims=True), x)
    check(lambda x: ufunc.reduceat(x, [0, 2, 1]), x)


@pytest.mark.parametrize("ufunc", [np.logaddexp, np.subtract, np.power], ids=lambda u: u.__name__)
def test_accumulate_of_nothing(ufunc):
    check(lambda x: ufunc.accumulate(x), np.zeros((0, 2)))
