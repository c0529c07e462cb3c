"""Derivatives and batches of `scan`: those of the loop written out, for every choice of what is differentiated."""

import itertools
import timeit

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


# -- masks of arrays that a loop reads and writes at computed places -----------------------------------------------
# Each program has zeros of arithmetic that meet an infinite slope, zeros of a mask that do, or both.


def python_loop(n, f, c):
    for i in range(n):
        c = f(i, c)
    return c


def for_loop(n, f, c):
    return ad.fori_loop(0, n, f, c)


def while_loop(n, f, c):
    return ad.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, f(*c)), (0, c))[1]


def inside(loop, x):
    n = len(x)
    return loop(n, lambda i, s: s + np.sqrt(x[3 * i % n]) ** 2, 0.0)


def before_and_unread(loop, x):
    n, u = len(x), np.sqrt(x)
    return loop(n // 3, lambda i, s: s + u[2 * i % n] ** 2, 0.0)


def written(loop, x):
    n = len(x)

    def step(i, a):
        a = a.copy()
        a[5 * i % n] = np.sqrt(a[3 * i % n]) ** 2 + a[i]
        return a

    return np.sum(loop(n, step, x * 1.0) ** 2)


def written_over(loop, x):
    def step(i, a):
        a = a.copy()
        a[i] = 1.0 + i
        return a

    return np.sum(loop(len(x) - 2, step, np.sqrt(x)) ** 2)


def several_at_once(loop, x):
    """The same element may be read twice."""
    n, u, k = len(x), np.sqrt(x), np.arange(3) ** 2 // 2
    return loop(n // 2, lambda i, s: s + np.sum(u[(2 * i + k) % n] ** 2), 0.0)


def rows(loop, x):
    n = len(x)

    def step(i, a):
        a = a.copy()
        a[i] = a[3 * i % n] ** 2 + a[i, 1]
        return a

    found = loop(n, step, np.sqrt(np.stack([x, x + 1.0], 1)))
    return np.sum(found[:, 0] * np.where(np.arange(n) > n // 2, 1.0, 0.0))


def chosen(loop, x):
    n = len(x)
    return loop(n, lambda i, s: s + np.where(x[3 * i % n] > 0, np.sqrt(x[3 * i % n]), 0.0), 0.0)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("n", [4, 16, 17, 300])
@pytest.mark.parametrize("f", [inside, before_and_unread, written, written_over, several_at_once, rows, chosen])
@pytest.mark.parametrize("loop", [for_loop, while_loop])
def test_masks_of_arrays_that_a_loop_reads_and_writes_at_computed_places(loop, f, n):
    """Those of the loop written out, however long the array is."""
    x = np.where(np.arange(n) % 2 == 0, 0.0, 1.0 + np.arange(n) / n)
    with np.errstate(all="ignore"):
        expected = ad.grad(lambda x: f(python_loop, x))(x)
        pull = ad.grad(lambda x: f(loop, x))
        for found in (pull(x), ad.jit(pull)(x)):
            np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("loop", [for_loop, while_loop])
def test_masks_under_vmap_and_in_second_derivatives(loop):
    n = 20
    x = np.where(np.arange(n) % 2 == 0, 0.0, 1.0 + np.arange(n) / n)
    f = lambda loop: lambda x: before_and_unread(loop, x) + written_over(loop, x) + chosen(loop, x)
    with np.errstate(all="ignore"):
        rows = np.stack([x, x[::-1]])
        expected = [ad.grad(f(python_loop))(row) for row in rows]
        np.testing.assert_allclose(ad.jit(ad.vmap(ad.grad(f(loop))))(rows), expected, rtol=1e-12)
        second = ad.jit(ad.grad(lambda x: np.sum(np.where(x > 0, ad.grad(f(loop))(x), 0.0))))(x)
        expected = ad.grad(lambda x: np.sum(np.where(x > 0, ad.grad(f(python_loop))(x), 0.0)))(x)
        np.testing.assert_allclose(second, np.where(np.isnan(second), np.nan, expected), rtol=1e-12)
        assert np.isfinite(second[1:-2:2]).all()


def iterations(body, n, count):
    """The time of a gradient of a loop over an array of n elements."""
    pull = ad.jit(ad.grad(lambda x: ad.fori_loop(0, count, body(n), (x * 1.0, 0.0))[1]))
    x = np.linspace(0.1, 1.0, n)
    pull(x)
    return min(timeit.repeat(lambda: pull(x), number=1, repeat=5))


def test_the_time_of_an_iteration_does_not_depend_on_the_length():
    """Of arrays of which an iteration reads and writes a few elements. The masks are written in place, as the cotangents are."""

    def body(n):
        def step(i, c):
            a, s = c
            v = np.sqrt(a[3 * i % n]) * a[7 * i % n]
            a = a.copy()
            a[5 * i % n] = 0.5 * v
            return a, s + v

        return step

    assert iterations(body, 50_000, 2000) < 10 * iterations(body, 50, 2000) + 0.02  # element by element it would take 0.2 s
