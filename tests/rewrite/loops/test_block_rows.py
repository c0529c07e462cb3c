"""The rows that the body of a region of blocks reads: constants, elements and other values, in the order of the iterations."""

import numpy as np
import pytest

import adjoint as ad
import adjoint.numpy as anp
from adjoint.rewrite.loops import roll
from adjoint.rewrite.loops.block_rows import integers_first

N = 24


@pytest.mark.parametrize(
    "spec, axes",
    [((1,), (0, 1)), ((slice(None), 2), (1, 0)), ((3, slice(None), 1), (0, 2, 1)), ((slice(None),), (0, 1))],
)
def test_the_axes_of_integers_come_first(spec, axes):
    ndim = max(2, len(spec))
    assert integers_first(spec, ndim) == axes


def constants(x, a):
    """Numbers that differ from run to run."""
    s = x[0]
    for i in range(N):
        for j in range(i):
            s = s + x[j] * float(i * j)
        s = np.sin(s)
    return s


def columns(x, a):
    """Elements of a matrix, and its columns."""
    s = x[0] * a[:, 0]
    for i in range(N):
        for j in range(i):
            s = s + a[:, j] * (a[i, j] * x[j])
        s = np.sin(s)
    return np.sum(s)


def values(x, a):
    """Values that are no elements of one array."""
    each = [np.cos(x[i]) if i % 3 else np.exp(x[i]) for i in range(N)]
    y = anp.zeros(N)
    for i in range(N):
        s = each[i]
        for j in range(i):
            s = s - y[j] * each[j]
        y[i] = np.sin(s)
    return np.sum(y)


@pytest.mark.parametrize("f", [constants, columns, values], ids=lambda f: f.__name__)
def test_rows_are_in_the_order_of_the_iterations(f):
    rng = np.random.default_rng(0)
    args = rng.normal(size=N), rng.normal(size=(N, N))
    graph = ad.graph(f)(*args)
    found = roll(graph)
    assert len(found.graph) < len(graph) / 2
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(found.graph.run_flat(args), graph.run_flat(args))
