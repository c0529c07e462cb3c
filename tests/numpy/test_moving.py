"""Slices with traced bounds: one program per length, at any place."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import adjoint as ad
import adjoint.numpy as anp
from adjoint.core.errors import UnsupportedError

RNG = np.random.default_rng(7)
X = RNG.normal(size=(40, 3))


def programs(f):
    assert not f.eager
    return sum(map(len, f.specializations.values()))


SLICES = {
    "from i": lambda i: slice(i, i + 8),
    "by batches": lambda i: slice(8 * i, 8 * (i + 1)),
    "before i": lambda i: slice(i + 10 - 8, i + 10),
    "from the end": lambda i: slice(-1 - i - 8, -1 - i),
    "every second": lambda i: slice(i, i + 8, 2),
    "backwards": lambda i: slice(i + 8, i, -1),
    "backwards by three": lambda i: slice(i + 9, i, -3),
    "whole": lambda i: slice(i - i, None),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("made", SLICES.values(), ids=SLICES)
@pytest.mark.parametrize("kind", [int, np.int64, np.int32], ids=lambda k: k.__name__)
def test_one_program_for_all_places(made, kind):
    f = ad.jit(lambda w, i: X[made(i)] @ w)
    g = ad.jit(ad.grad(lambda x, i: np.sum(x[made(i)] ** 2)))
    w = RNG.normal(size=3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for i in range(5):
            np.testing.assert_allclose(f(w, kind(i)), X[made(i)] @ w, rtol=1e-13)
            expected = np.zeros_like(X)
            expected[made(i)] = 2 * X[made(i)]
            np.testing.assert_allclose(g(X, kind(i)), expected, rtol=1e-14)
    assert programs(f) == programs(g) == 1


@pytest.mark.filterwarnings("ignore:.*compiled again for the third time")
def test_the_last_batch_is_a_program_of_its_own():
    f = ad.jit(lambda i: np.sum(X[i : i + 6], axis=0))
    for i in range(-50, 50):
        np.testing.assert_allclose(f(i), np.sum(X[i : i + 6], axis=0), atol=1e-14)
    assert programs(f) == 7  # the lengths from 0 to 6


def test_a_prefix_is_a_program_per_length():
    f = ad.jit(lambda n: np.sum(X[:n]))
    for n in (3, 5, 3, 40, 41, 100, -37):
        np.testing.assert_allclose(f(n), np.sum(X[:n]))
    assert programs(f) == 3


@pytest.mark.filterwarnings("ignore:.* was compiled again for the third time")  # a slice of which one bound moves
@settings(max_examples=40, deadline=None)
@given(st.data())
def test_as_numpy_does(data):
    """Reads, writes and writes through views, with other entries beside the slice."""
    shape = tuple(data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=3)))
    axis = data.draw(st.integers(0, len(shape) - 1))
    bound = st.one_of(st.none(), st.integers(-7, 7))
    at = [data.draw(bound), data.draw(bound)]
    step = data.draw(st.sampled_from([None, 1, 2, 3, -1, -2]))
    moved = [data.draw(st.booleans()) and at[k] is not None for k in (0, 1)]
    others = [data.draw(st.sampled_from([slice(None), slice(0, None, 2), 0, -1, [0, 0]])) for _ in shape]
    form = data.draw(st.sampled_from(["plain", "ellipsis", "newaxis"]))
    shifts = data.draw(st.lists(st.integers(-3, 3), min_size=2, max_size=3))

    def index(i):
        bounds = [b if b is None or not m else b + i for b, m in zip(at, moved, strict=True)]
        entries = [slice(*bounds, step) if k == axis else other for k, other in enumerate(others)]
        if form == "ellipsis":
            return (..., *entries[axis:]) if axis else (entries[0], ...)
        return (None, *entries) if form == "newaxis" else tuple(entries)

    def read(x, i):
        return x[index(i)] * 2.0

    def write(x, i):
        y = anp.array(x)
        y[index(i)] = 7.0
        return y

    def through(x, i):
        y = anp.array(x)
        part = y[index(i)]
        part += 1.0
        return y, part

    x = RNG.normal(size=shape)
    for f in (read, write, through):
        compiled = ad.jit(f)
        for i in (0, *shifts):
            expected = f(x, i)
            for a, b in zip(
                np.atleast_1d(compiled(x, i)) if f is not through else compiled(x, i),
                np.atleast_1d(expected) if f is not through else expected,
                strict=True,
            ):
                np.testing.assert_array_equal(a, b)
        assert not compiled.eager


def test_derivatives_of_writes():
    def f(x, v, i):
        y = anp.array(x)
        y[i : i + 3] = v * y[i + 1 : i + 4]
        y[i : i + 2] *= 2.0
        return np.sum(y**3)

    x, v = RNG.normal(size=10), RNG.normal(size=3)
    compiled = ad.jit(ad.grad(f, argnums=(0, 1)))
    for i in (0, 3, 6):
        for a, b in zip(compiled(x, v, i), ad.grad(f, argnums=(0, 1))(x, v, i), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12)
    assert programs(compiled) == 1


def test_in_the_body_of_a_loop():
    def f(x):
        return ad.fori_loop(0, 10, lambda i, s: s + np.sum(x[i + 1 : i + 4] * x[2 * i : 2 * (i + 2) - 1]), 0.0)

    x = RNG.normal(size=30)
    expected = sum(np.sum(x[i + 1 : i + 4] * x[2 * i : 2 * (i + 2) - 1]) for i in range(10))
    np.testing.assert_allclose(f(x), expected)
    np.testing.assert_allclose(ad.jit(f)(x), expected)
    np.testing.assert_allclose(ad.jit(ad.grad(f))(x), ad.grad(f)(x))
    ad.check_grads(f, x, order=1)


def test_a_loop_that_leaves_the_axis_gives_what_numpy_gives():
    x = X[:10, 0]
    f = ad.jit(lambda x, first: ad.fori_loop(0, 3, lambda i, s: s + np.sum(x[i + first : i + first + 3]), 0.0))
    for first in (2, -1, 8):
        np.testing.assert_allclose(f(x, first), sum(np.sum(x[i + first : i + first + 3]) for i in range(3)))
    loop = ad.graph(lambda x: ad.fori_loop(0, 3, lambda i, s: s + np.sum(x[i - 1 : i + 2]), 0.0))
    with pytest.raises(IndexError, match="out of bounds"):
        loop(x)(x)


def test_a_loop_with_slices_of_many_lengths_is_refused():
    with pytest.raises(UnsupportedError, match="not known"):
        ad.graph(lambda x: ad.fori_loop(0, 3, lambda i, s: s + np.sum(x[i : 2 * i]), 0.0))(X[:, 0])


def test_batches():
    i = np.array([3, 0, 7])
    f = ad.vmap(lambda x, k: x[k : k + 4] ** 2, in_axes=(None, 0))
    for g in (f, ad.jit(f)):
        np.testing.assert_allclose(g(X[:, 0], i), [X[k : k + 4, 0] ** 2 for k in i])
    with pytest.raises(UnsupportedError, match="of 1 to 4 elements"):
        f(X[:8, 0], i)


def test_bounds_must_be_integers():
    with pytest.raises(TypeError, match="slice indices"):
        ad.jit(lambda x, i: x[i : i + 2])(X, 1.0)
    with pytest.raises(ValueError, match="step cannot be zero"):
        ad.jit(lambda x, i: x[i:5:0])(X, 1)
    with pytest.raises(IndexError, match="too many indices"):
        ad.jit(lambda x, i: x[:, :, i : i + 2])(X, 1)
