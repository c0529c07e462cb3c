"""Rows of indices that differ by a constant are one row."""

import numpy as np
import pytest

import adjoint as ad
from adjoint.api.graph import infer_types
from adjoint.ir.check import check
from adjoint.rewrite.loops import share_offsets

N = 40


def scan_of(graph):
    return next(e for e in graph.equations if e.op.name == "scan")


def looped(*rows):
    """A loop that reads x at constant places."""

    def f(x):
        def step(s, at):
            return np.sin(s + sum(x[i] for i in at)), s

        s, ys = ad.scan(step, 0.1 * x[0], rows)
        return np.sum(ys) + s

    return f


I = np.arange(5, 25)
ZIGZAG = np.tile([3, 7, 4, 9], 5)


@pytest.mark.parametrize(
    ("rows", "left"),
    [
        ((I, I - 1, I + 1), 1),
        ((I, I[::-1]), 2),
        ((ZIGZAG, ZIGZAG + 2, I), 2),
        ((I, np.where(I == 24, 0, I - 1)), 2),  # all but one
        ((I, 2 * I), 2),
        ((I,), 1),
    ],
)
def test_rows_that_differ_by_a_constant_are_one(rows, left):
    x = np.linspace(0.1, 1.0, 60)
    graph = ad.graph(looped(*rows))(x)
    shared = share_offsets(graph)
    check(shared, infer_types)
    scan = scan_of(shared)
    assert len(scan.inputs) - scan.params["consts"] - scan.params["carries"] == left
    np.testing.assert_array_equal(shared.run_flat([x])[0], graph.run_flat([x])[0])


def test_only_constants_are_compared():
    def f(x, i, j):
        return ad.scan(lambda s, at: (s + x[at[0]] * x[at[1]], s), 0.0 * x[0], (i, j))[0]

    args = np.linspace(0.1, 1.0, 60), I, I + 1
    graph = ad.graph(f)(*args)
    assert share_offsets(graph) == graph


def test_graphs_without_loops_stay():
    graph = ad.graph(np.sin)(1.0)
    assert share_offsets(graph) is graph


def test_neighbours_of_a_nest_read_two_rows():
    """Reads of the array that a nest starts from are reads of the array that it writes to."""

    def sweeps(f):
        u = 0.0 * f
        for _ in range(10):
            for i in range(1, 11):
                for j in range(1, 11):
                    u[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - f[i, j])
        return np.sum(u**2)

    x = np.random.default_rng(0).normal(size=(12, 12))
    compiled = ad.jit(sweeps)
    np.testing.assert_allclose(compiled(x), sweeps(x), rtol=1e-12)
    np.testing.assert_allclose(ad.jit(ad.grad(sweeps))(x), ad.grad(sweeps)(x), rtol=1e-10, atol=1e-12)
