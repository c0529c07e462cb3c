"""Functions of numbers that no later iteration needs are computed after their loop."""

import numpy as np
import pytest

import adjoint as ad
from adjoint.api.graph import infer_types
from adjoint.ir.check import check
from adjoint.rewrite.loops import distribute
from adjoint.rewrite.loops.distribute import LEAST_ITERATIONS, WORTH
from adjoint.rewrite.simplify import simplify

RNG = np.random.default_rng(0)
N = 40


def garch(p, r):
    """A recurrence, and a function of each of its values."""

    def step(v, r):
        return p[0] + p[1] * r**2 + p[2] * v, np.log(v) + r**2 / v

    return np.sum(ad.scan(step, p[0], r)[1])


def summed(p, r):
    """The same, with the sum in the loop."""

    def step(state, r):
        v, total = state
        return (p[0] + p[1] * r**2 + p[2] * v, total + np.log(v) + 0.0 * r), None

    v, total = ad.scan(step, (p[0], p[1]), r)[0]
    return v + total


def added(p, r):
    """A sum of one term."""

    def step(state, r):
        v, total = state
        return (p[0] + p[1] * r**2 + p[2] * v, total + np.log(v + r**2)), v

    (v, total), values = ad.scan(step, (p[0], p[1]), r)
    return v + total * np.sum(values)


def read_again(p, r):
    """The sum is read in the loop: it stays."""

    def step(state, r):
        v, total = state
        return (p[0] + p[1] * r**2 + p[2] * v + 0.001 * total, total + np.log(v)), None

    v, total = ad.scan(step, (p[0], p[1]), r)[0]
    return v + total


def needed(p, r):
    """The function is part of the recurrence: it stays."""
    v, ys = ad.scan(lambda v, r: (np.log(2 + v * v) + r, v), p[0], r)
    return v + np.sum(ys)


def cheap(p, r):
    """A product costs less than a stored value."""
    v, ys = ad.scan(lambda v, r: (0.5 * v + r, v * v), p[0], r)
    return v + np.sum(ys)


def of_constants(p, r):
    """What does not change from iteration to iteration is no array."""
    v, ys = ad.scan(lambda v, r: (0.5 * v + r, np.exp(p[1])), p[0], r)
    return v + np.sum(ys)


def of_rows(p, r):
    """What follows from the rows is not stored by the loop."""
    v, ys = ad.scan(lambda v, r: (0.5 * v + np.exp(r), np.exp(r) * np.log(1 + r * r)), p[0], r)
    return v + np.sum(ys)


def twice(p, r):
    """One value, stacked twice, and also the carry itself."""

    def step(v, r):
        y = np.log(1 + v * v)
        return 0.5 * v + r, (y, y, v)

    v, (a, b, c) = ad.scan(step, p[0], r)
    return v + np.sum(a * b * c)


def backwards(p, r):
    v, ys = ad.scan(lambda v, r: (0.5 * v + r, np.exp(v * r)), p[0], r, reverse=True)
    return v + np.sum(ys * np.arange(len(r)))


def of_vectors(p, r):
    """Vectors are computed as vectors already."""
    v, ys = ad.scan(lambda v, r: (0.5 * v + r, np.exp(v)), p, r)
    return np.sum(v) + np.sum(ys)


ARGS = np.array([0.2, 0.3, 0.4]), RNG.normal(size=N)
MOVED = {garch: {"log", "div"}, added: {"log"}, of_rows: {"log"}, twice: {"log"}, backwards: {"exp"}}
KEPT = {read_again: {"log"}, needed: {"log"}, cheap: {"mul"}, of_constants: set(), of_vectors: {"exp"}}


def in_loops(graph):
    """The ops in the bodies of scans."""
    return {q.op.name for e in graph.equations if e.op.name == "scan" for q in e.params["body"].equations}


@pytest.mark.parametrize("f", [*MOVED, *KEPT, summed], ids=lambda f: f.__name__)
def test_the_results_are_the_same(f):
    for g in (f, ad.grad(f)):
        before = simplify(ad.graph(g)(*ARGS))[0]
        after = distribute(before)
        check(after, infer_types)
        np.testing.assert_allclose(after.run_flat(list(ARGS))[0], before.run_flat(list(ARGS))[0], rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(ad.jit(g)(*ARGS), g(*ARGS), rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("f", MOVED, ids=lambda f: f.__name__)
def test_functions_are_moved(f):
    before = simplify(ad.graph(f)(*ARGS))[0]
    assert MOVED[f] <= in_loops(before)
    assert not MOVED[f] & in_loops(distribute(before))


@pytest.mark.parametrize("f", KEPT, ids=lambda f: f.__name__)
def test_functions_stay(f):
    before = simplify(ad.graph(f)(*ARGS))[0]
    assert KEPT[f] <= in_loops(before)
    assert distribute(before) == before


@pytest.mark.parametrize("n", [LEAST_ITERATIONS - 1, LEAST_ITERATIONS])
def test_short_loops_stay(n):
    before = simplify(ad.graph(garch)(ARGS[0], ARGS[1][:n]))[0]
    assert ("log" in in_loops(distribute(before))) == (n < LEAST_ITERATIONS)


@pytest.mark.parametrize("count", [2, 3])
def test_what_is_moved_is_worth_what_is_stored(count):
    """Divisions cost 4 each: with `count` of them for one stored value, 8 or 12 against WORTH."""

    def f(p, r):
        def step(v, r):
            y = v
            for _ in range(count - 1):
                y = r / y
            return 0.5 * v + r, y

        return np.sum(ad.scan(step, p[0], r)[1])

    before = simplify(ad.graph(f)(*ARGS))[0]
    after = distribute(before)
    assert ("div" in in_loops(after)) == (4 * (count - 1) < WORTH)


def test_a_loop_of_many_equations_takes_linear_time():
    def f(x):
        def step(v, r):
            y = v
            for _ in range(2000):
                y = np.sin(y) + y * r
            return 0.5 * v + r, y

        return np.sum(ad.scan(step, 0.1, x)[1])

    graph = ad.graph(f)(np.linspace(0, 1, 20))
    assert len(distribute(graph)) > 4000
