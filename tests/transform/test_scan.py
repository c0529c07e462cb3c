"""Derivatives and batches of `scan`: those of the loop written out, for every choice of what is differentiated."""

import itertools

import numpy as np
import pytest

import adjoint as ad

XS = np.array([[0.3, -0.7], [1.1, 0.4], [0.2, 0.9]])
W, C = np.array([0.5, -0.2]), np.array([0.1, 0.8])


def scanned(w, c, xs, reverse=False):
    def step(c, x):
        c = np.tanh(c * w + x)
        return c, np.sum(c * x)

    return ad.scan(step, c, xs, reverse=reverse)


def written_out(w, c, xs, reverse=False):
    ys = []
    for x in reversed(list(xs)) if reverse else list(xs):
        c = np.tanh(c * w + x)
        ys.append(np.sum(c * x))
    return c, np.stack(ys[::-1] if reverse else ys)


def loss(run, reverse):
    def total(*args):
        c, ys = run(*args, reverse=reverse)
        return np.sum(c**2) + np.sum(np.cos(ys))

    return total


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("argnums", [n for k in (1, 2, 3) for n in itertools.combinations(range(3), k)])
def test_gradients(reverse, argnums):
    found = ad.grad(loss(scanned, reverse), argnums)(W, C, XS)
    expected = ad.grad(loss(written_out, reverse), argnums)(W, C, XS)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_tangents(place):
    args = (W, C, XS)
    f = lambda run: lambda x: run(*args[:place], x, *args[place + 1 :])
    found = ad.jvp(f(scanned), (args[place],), (np.ones_like(args[place]),))[1]
    expected = ad.jvp(f(written_out), (args[place],), (np.ones_like(args[place]),))[1]
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


@pytest.mark.parametrize("axes", [(0, None, None), (None, 0, None), (None, None, 0), (0, 0, 0)])
def test_batches(axes):
    stacked = [np.stack([a, a + 0.1]) if axis == 0 else a for a, axis in zip((W, C, XS), axes, strict=True)]
    found = ad.vmap(scanned, in_axes=axes)(*stacked)
    for i in range(2):
        one = written_out(*[a[i] if axis == 0 else a for a, axis in zip(stacked, axes, strict=True)])
        for a, b in zip(found, one, strict=True):
            np.testing.assert_allclose(a[i], b, rtol=1e-12)


def test_second_order():
    found = ad.hessian(lambda c: loss(scanned, False)(W, c, XS))(C)
    np.testing.assert_allclose(found, ad.hessian(lambda c: loss(written_out, False)(W, c, XS))(C), rtol=1e-10)


def test_no_iterations():
    c, ys = scanned(W, C, XS[:0])
    assert (c.tolist(), ys.shape) == (C.tolist(), (0,))
    np.testing.assert_array_equal(ad.grad(loss(scanned, False), 1)(W, C, XS[:0]), 2 * C)


@pytest.mark.parametrize("n", [16, 17])
@pytest.mark.parametrize("kind", ["for", "while"])
def test_masks_of_arrays_that_a_loop_reads_at_computed_places(n, kind):
    """Up to 16 elements any program has masks. Above, a loop that runs eagerly has; in a compiled one every zero wins."""

    def f(x):
        table = np.sqrt(x)
        step = lambda i, s: s + table[np.where(s > 1e9, 0, i)] ** 2
        if kind == "for":
            return ad.fori_loop(0, 3, step, 0.0)
        return ad.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, step(*c)), (0, 0.0))[1]

    x = np.ones(n)
    x[[1, n - 1]] = 0.0  # one is read, and its slope is 0 · ∞; the other is not read
    expected = np.zeros(n)
    expected[:3] = 1.0, np.nan, 1.0
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(ad.grad(f)(x), expected)
        if n <= 16:
            np.testing.assert_array_equal(ad.jit(ad.grad(f))(x), expected)
        else:
            np.testing.assert_array_equal(np.delete(ad.jit(ad.grad(f))(x), 1), np.delete(expected, 1))
