"""The backward pass: which products it uses, what it adds up in place, and when nodes are freed."""

import gc
import weakref

import numpy as np
import pytest

import adjoint as ad


def test_nodes_are_freed_as_the_backward_pass_goes():
    big = np.ones(10_000)
    watched = []

    def f(x):
        y = x
        for _ in range(20):
            y = np.sin(y)
            watched.append(weakref.ref(y.aux))
        return np.sum(note(y))

    seen = []

    @ad.custom_vjp
    def note(y):
        return y

    @ad.custom_vjp
    def probe(x):
        return x

    def look(_, g):
        seen.append(sum(ref() is not None for ref in watched))
        return (g,)

    note.defvjp(lambda y: (y, None), look)
    probe.defvjp(lambda y: (y, None), look)
    ad.grad(lambda x: f(probe(x)))(big)
    assert seen[0] == 20
    assert seen[1] <= 1


def test_everything_is_freed_after_the_gradient():
    refs = []

    def f(x):
        y = np.sin(x)
        refs.append(weakref.ref(y.aux))
        return np.sum(y)

    for x in (np.ones(3), np.ones(10_000)):
        ad.grad(f)(x)
    gc.collect()
    assert all(ref() is None for ref in refs)


def test_deep_second_order():
    def chain(x):
        y = x
        for _ in range(20_000):
            y = y * 1.00001
        return y * y

    factor = 1.00001**20_000
    assert ad.grad(ad.grad(chain))(1.0) == pytest.approx(2 * factor**2)
    assert ad.jvp(ad.grad(chain), (1.0,), (1.0,))[1] == pytest.approx(2 * factor**2)


def test_quick_and_careful_passes_agree():
    """A large array takes the careful way, a small one the quick way."""

    def f(x):
        y = np.tanh(x) * np.sqrt(x + 2) / (1 + x * x)
        return np.sum(np.where(x > 0, y, np.exp(-y)) + np.maximum(y, 0.1))

    x = np.linspace(-1, 1, 5000)
    whole = ad.grad(f)(x)
    pieces = np.concatenate([ad.grad(f)(part) for part in np.split(x, 5)])
    np.testing.assert_allclose(whole, pieces, rtol=1e-14)


@pytest.mark.parametrize("n", [3, 5000])
def test_shared_cotangents_are_not_added_to_in_place(n):
    """A sum hands one array to both of its arguments; what arrives later at one must not reach the other."""

    def f(x, w):
        s = x * 2.0
        t = s + w  # both get the same array
        u = t + s
        v = u - u * 0.5
        return np.sum(v * v) + np.sum(s * w) + np.sum(w + x)

    x, w = np.linspace(-1, 1, n), np.linspace(0, 1, n)
    gx, gw = ad.grad(f, (0, 1))(x, w)
    # v = (4x + w)/2, so v² = (4x + w)²/4
    np.testing.assert_allclose(gx, 2 * (4 * x + w) + 2 * w + 1)
    np.testing.assert_allclose(gw, (4 * x + w) / 2 + 2 * x + 1)
