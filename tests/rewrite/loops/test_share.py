"""Loops that compute the same compute it once."""

import numpy as np
import pytest

import adjoint as ad
from adjoint.api.graph import infer_types
from adjoint.ir.check import check
from adjoint.rewrite.loops import share_iterations
from adjoint.rewrite.simplify import dead_code, simplify

X, W, XS = np.linspace(-1.0, 1.0, 4), np.linspace(0.5, 1.5, 4), np.random.default_rng(0).normal(size=(12, 4))


def last(x, w, xs):
    return ad.scan(lambda c, r: (np.sin(c) * w + 0.1 * r, None), x, xs)[0]


def total(x, w, xs):
    return np.sum(last(x, w, xs) ** 2)


def both_gradients(x, w, xs):
    return ad.grad(total, 0)(x, w, xs), ad.grad(total, 1)(x, w, xs)


def gradient_and_value(x, w, xs):
    return ad.grad(total)(x, w, xs), total(x, w, xs), last(x, w, xs)


def second(x, w, xs):
    return ad.grad(lambda t: np.sum(ad.grad(total)(t, w, xs) * x))(x)


def forward_and_back(x, w, xs):
    """The same rows from both ends: another carry, the same sines."""
    there = ad.scan(lambda c, r: (0.5 * c + np.sin(r) * w, c), x, xs)
    back = ad.scan(lambda c, r: (0.4 * c + np.sin(r) * x, c), x, xs, reverse=True)
    return there, back


def almost_alike(x, w, xs):
    """The same start and the same rows, but the second carry of one is another's: no carry is shared that depends on it."""
    one = ad.scan(lambda c, r: ((np.sin(c[1]) + r, np.cos(c[0])), c[0]), (x, w), xs)
    two = ad.scan(lambda c, r: ((np.sin(c[1]) + r, np.cos(c[0]) + 1.0), c[0]), (x, w), xs)
    return one, two


def other_lengths(x, w, xs):
    return last(x, w, xs), last(x, w, xs[:5]), last(x, w, xs[::-1]), ad.scan(lambda c, r: (np.sin(c) * w, c), x, xs[:6])


def rows_of_a_constant(x, w, xs):
    one = ad.scan(lambda c, r: (c * np.exp(w) + r, np.exp(w)), x, xs)
    return one, ad.scan(lambda c, r: (c + np.exp(w) * np.tanh(r), c), w, one[1])


PROGRAMS = [both_gradients, gradient_and_value, second, forward_and_back, almost_alike, other_lengths, rows_of_a_constant]


def count(graph, name):
    found = 0
    for e in graph.equations:
        found += e.op.name == name
        found += sum(count(part, name) for part in e.params.values() if hasattr(part, "equations"))
    return found


@pytest.mark.parametrize("f", PROGRAMS)
def test_the_values_stay_the_same(f):
    graph = simplify(ad.graph(f)(X, W, XS))[0]
    shared = share_iterations(graph)
    check(shared, infer_types)
    for a, b in zip(shared.run_flat([X, W, XS]), graph.run_flat([X, W, XS]), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize(
    ("f", "name", "before", "after"),
    [
        (both_gradients, "scan", 4, 3),
        (both_gradients, "cos", 2, 1),
        (gradient_and_value, "scan", 3, 2),
        (forward_and_back, "sin", 2, 1),
        (almost_alike, "scan", 2, 2),
    ],
)
def test_invariants_are_computed_once(f, name, before, after):
    graph = dead_code(simplify(ad.graph(f)(X, W, XS))[0])
    assert count(graph, name) == before
    assert count(share_iterations(graph), name) == after


def test_compiled_programs_share_their_loops():
    compiled = ad.jit(both_gradients)
    for a, b in zip(compiled(X, W, XS), both_gradients(X, W, XS), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
    assert count(compiled.lower(X, W, XS).graph, "scan") == 3


def test_a_graph_without_anything_in_common_stays_as_it_is():
    graph = simplify(ad.graph(ad.value_and_grad(total))(X, W, XS))[0]
    assert share_iterations(graph) is graph
