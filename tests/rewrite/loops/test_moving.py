"""Python loops over slices that move are rolled: reads and writes of a few elements, forward and backward."""

import numpy as np
import pytest

import adjoint as ad
import adjoint.numpy as anp
from adjoint.rewrite.loops.moving import with_arrays, with_slices

N = 80
X = np.random.default_rng(0).normal(size=N)


def autoregression(x):
    total = 0.0
    for t in range(3, N):
        total = total + (x[t] - x[t - 3 : t] @ np.array([0.2, 0.3, 0.4])) ** 2
    return total


def filtered(x):
    y = anp.zeros(N)
    for t in range(3, N):
        y[t] = x[t] + y[t - 3 : t] @ np.array([0.2, 0.3, 0.4])
    return np.sum(y * y)


def smeared(x):
    y = anp.zeros(N)
    for i in range(N - 4):
        y[i : i + 4] = y[i : i + 4] * 0.5 + np.sin(x[i])
    return np.sum(y * y)


def blocks(x):
    y = anp.zeros(N)
    for i in range(0, N, 2):
        y[i : i + 2] = np.sin(x[i : i + 2]) * (i + 1.0)
    return np.sum(y * y)


def backwards(x):
    y = anp.zeros(N)
    for i in range(N - 1, 3, -1):
        y[i - 4 : i] = y[i - 4 : i] + x[i : i - 4 : -1]
    return np.sum(y * y * y)


def every_other(x):
    y = anp.array(x)
    for i in range(N - 6):
        y[i : i + 6 : 2] = np.tanh(y[i : i + 6 : 2]) * 1.1
    return np.sum(y * x)


def columns(x):
    m = anp.array(np.outer(x[:5], x))
    for i in range(N - 3):
        m[:, i + 1 : i + 3] = m[:, i + 1 : i + 3] + 0.1 * m[:, i : i + 2]
    return np.sum(m * m)


PROGRAMS = [autoregression, filtered, smeared, blocks, backwards, every_other, columns]


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_rolled(f):
    compiled = ad.jit(ad.value_and_grad(f))
    (value, gradient), (wanted, slope) = compiled(X), ad.value_and_grad(f)(X)
    np.testing.assert_allclose(value, wanted, rtol=1e-12)
    np.testing.assert_allclose(gradient, slope, rtol=1e-10, atol=1e-12)
    report = compiled.report()
    assert "are a loop" in report
    assert "calls NumPy" not in report


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_slices_again(f):
    graph = ad.graph(f)(X)
    arrays, slices = with_arrays(graph, 8)
    assert slices
    again = with_slices(arrays, slices)
    assert {e.op.name for e in again.equations} == {e.op.name for e in graph.equations}
    np.testing.assert_array_equal(arrays(X), graph(X))
    np.testing.assert_array_equal(again(X), graph(X))


def test_stencils_and_long_slices_stay():
    def stencil(x):
        for _ in range(20):
            x = np.concatenate([x[:1], 0.5 * (x[2:] + x[:-2]), x[-1:]])
        return x

    def long(x):
        return sum(np.sum(x[i : i + 100]) for i in range(20))

    for f, x in ((stencil, X), (long, np.ones(200))):
        graph = ad.graph(f)(x)
        assert with_arrays(graph, 8) == (graph, {})
