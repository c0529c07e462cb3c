"""Numbers of a table at the places that a loop knows are read in the loop."""

import numpy as np
import pytest

import adjoint as ad
from adjoint.api.graph import infer_types
from adjoint.ir.check import check
from adjoint.rewrite.loops import read_at_places

I, J = (k.ravel() for k in np.mgrid[1:6, 2:6])
OTHER = np.random.default_rng(1).permutation(20) % 6


def scans(graph):
    return [e for e in graph.equations if e.op.name == "scan"]


def gathers(graph):
    return sum(e.op.name == "gather" for e in graph.equations)


def looped(read):
    """A loop that changes one table at places, and takes numbers that `read` gives of another one before it."""

    def f(x, table):
        def step(u, row):
            i, j, d = row
            y = np.sin(u[i, j] * 0.5 + d)
            here = (np.arange(7) == i)[:, None] & (np.arange(7) == j)
            return np.where(here, y, u), y

        u, ys = ad.scan(step, x, (I, J, read(table)))
        return np.sum(u * u) + np.sum(ys)

    return f


def tables(dtype=float):
    rng = np.random.default_rng(0)
    return rng.normal(size=(7, 7)).astype(dtype), rng.normal(size=(7, 7)).astype(dtype)


READS = {
    "at the place": (lambda t: t[I, J], 0),
    "beside the place": (lambda t: t[I - 1, J + 1], 0),
    "places from the end": (lambda t: t[I - 7, J], 0),
    "some places from the end": (lambda t: t[np.where(I > 3, I - 7, I), J], 0),
    "both by one row": (lambda t: t[I, I], 0),
    "from numbers that were read": (lambda t: t[I[::2], J[::2]][np.arange(20) // 2], 2),
    "again, at the place": (lambda t: t[I[::-1], J[::-1]][np.arange(20)[::-1]], 0),
    "elsewhere": (lambda t: t[OTHER, J], 1),
    "multiples": (lambda t: t[I, np.minimum(2 * J, 6)], 1),
    "rows of a vector": (lambda t: t[0][J], 0),
    "an expression": (lambda t: np.cos(t)[I, J], 0),
    "a function of it": (lambda t: np.cos(t[I, J]), 1),
}


@pytest.mark.parametrize("name", READS)
@pytest.mark.parametrize("dtype", [float, np.float32])
def test_tables_are_read_at_the_places_of_a_loop(name, dtype):
    """`left` gathers stay in front of the loop: of places that it does not know."""
    read, left = READS[name]
    args = tables(dtype)
    graph = ad.graph(looped(read))(*args)
    inside = read_at_places(graph)
    check(inside, infer_types)
    assert gathers(inside) == left
    (before,), (after,) = scans(graph), scans(inside)
    assert gathers(after.params["body"]) - gathers(before.params["body"]) == (left == 0)
    assert len(after.inputs) == len(before.inputs)
    np.testing.assert_array_equal(inside.run_flat(args)[0], graph.run_flat(args)[0])


@pytest.mark.parametrize("name", READS)
@pytest.mark.parametrize("dtype", [float, np.float32, complex])
def test_compiled_results_are_those_of_numpy(name, dtype):
    f = looped(READS[name][0])
    args = tables(dtype)
    rtol = 1e-4 if dtype is np.float32 else 1e-11
    np.testing.assert_allclose(ad.jit(f)(*args), f(*args), rtol=rtol)
    if dtype is not complex:
        expected, found = (run(ad.grad(f, (0, 1)))(*args) for run in (lambda g: g, ad.jit))
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol)


def sweeps(shift):
    """In place, by loops of Python: `b` is read at the place where `u` is written, or beside it."""

    def f(b, n=6):
        u = 0.1 * b
        for _ in range(3):
            for i in range(1, n):
                for j in range(1, n):
                    u[i, j] = 0.5 * u[i - 1, j] + 0.25 * u[i, j - 1] + b[i, j + shift]
        return np.sum(u**3)

    return f


@pytest.mark.parametrize("shift", [-1, 0, 1])
@pytest.mark.parametrize("aliased", [False, True])
def test_loops_of_python_gather_nothing_before(shift, aliased):
    """With `aliased`, the table is also what the changed one begins as."""
    b = np.random.default_rng(2).normal(size=(7, 7))
    f = sweeps(shift)
    if aliased:

        def f(b):
            c = np.sin(b)
            u = c.copy()
            for _ in range(3):
                for i in range(1, 6):
                    for j in range(1, 6):
                        u[i, j] = 0.5 * u[i - 1, j] + c[i, j + shift]
            return np.sum(u**3)

    compiled, slope = ad.jit(f), ad.jit(ad.grad(f))
    for scale in (1.0, 0.5):
        np.testing.assert_allclose(compiled(scale * b), f((scale * b).copy()), rtol=1e-12)
        np.testing.assert_allclose(slope(scale * b), ad.grad(f)(scale * b), rtol=1e-10, atol=1e-12)
    (specializations,) = compiled.specializations.values()
    assert gathers(specializations[0].graph) == 0


def test_rows_that_something_else_reads_stay():
    def f(x, table):
        d = table[I, J]

        def step(s, row):
            i, j, k = row
            return s + x[i, j] * k, s

        return ad.scan(step, 0.0, (I, J, d))[0] + np.sum(d * d)

    graph = ad.graph(f)(*tables())
    assert gathers(read_at_places(graph)) == gathers(graph) == 1


def test_a_row_of_two_loops_is_read_in_both():
    def f(x, table):
        d = table[I, J]
        step = lambda s, row: (s + x[row[0], row[1]] * row[2], s)
        other = lambda s, row: (s - x[row[0], row[1]] * row[2] ** 2, s)
        return ad.scan(step, 0.0, (I, J, d))[0] * ad.scan(other, 1.0, (I, J, d))[0]

    args = tables()
    graph = ad.graph(f)(*args)
    inside = read_at_places(graph)
    check(inside, infer_types)
    assert gathers(inside) == 0
    np.testing.assert_array_equal(inside.run_flat(args)[0], graph.run_flat(args)[0])


def test_a_loop_inside_a_loop_reads_its_tables():
    def f(x, table):
        d = lambda s: np.cos(table * s)[I, J]
        inner = lambda s: ad.scan(lambda t, row: (t + x[row[0], row[1]] * row[2], None), s, (I, J, d(s)))[0]
        return ad.scan(lambda s, _: (inner(0.1 * s), s), 0.3, np.arange(4))[0]

    args = tables()
    graph = ad.graph(f)(*args)
    inside = read_at_places(graph)
    check(inside, infer_types)
    (outer,) = scans(inside)
    assert gathers(outer.params["body"]) == 0
    np.testing.assert_array_equal(inside.run_flat(args)[0], graph.run_flat(args)[0])
    np.testing.assert_allclose(ad.jit(ad.grad(f))(*args), ad.grad(f)(*args), rtol=1e-10, atol=1e-13)


def test_loops_whose_places_are_not_constant_stay():
    def f(x, table, i, j):
        return ad.scan(lambda s, row: (s + x[row[0], row[1]] * row[2], s), 0.0, (i, j, table[i, j]))[0]

    graph = ad.graph(f)(*tables(), I, J)
    assert gathers(read_at_places(graph)) == gathers(graph)


def test_graphs_without_loops_stay():
    graph = ad.graph(np.sin)(1.0)
    assert read_at_places(graph) is graph
