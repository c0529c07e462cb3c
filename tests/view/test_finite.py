"""Which values are finite if the inputs are, and products that need no strong zero."""

import numpy as np
import pytest

import adjoint as ad
from adjoint.view.finite import finite, is_tame, ordinary_products


def results_are_finite(f, *args):
    graph = ad.graph(f)(*args)
    return [is_tame(o, finite(graph)) for o in graph.outputs]


@pytest.mark.parametrize(
    "f, expected",
    [
        (lambda x: np.sin(x) * x + 2.0, True),
        (lambda x: np.log(x), False),
        (lambda x: 1.0 / x, False),
        (lambda x: x * np.inf, False),
        (lambda x: np.tanh(np.log(x)), False),
        (lambda x: np.sum(np.stack([x, x])), True),
        (lambda x: ad.cond(x > 0, np.sin, np.cos, x), True),
        (lambda x: ad.cond(x > 0, np.sin, np.log, x), False),
        (lambda x: ad.fori_loop(0, 3, lambda i, c: np.sin(c) * x, x), True),
        (lambda x: ad.fori_loop(0, 3, lambda i, c: np.log(c) + x, x), False),
        (lambda x: ad.while_loop(lambda c: c < 9, lambda c: c * 2 + 1, x), True),
    ],
)
def test_results(f, expected):
    assert results_are_finite(f, 0.5) == [expected]


def test_a_carry_that_another_one_spoils():
    f = lambda x: ad.fori_loop(0, 3, lambda i, c: (c[0] + c[1], 1.0 / c[1]), (x, x))
    assert results_are_finite(f, 0.5) == [False, False]
    g = lambda x: ad.fori_loop(0, 3, lambda i, c: (np.sin(c[0]), 1.0 / c[1]), (x, x))
    assert results_are_finite(g, 0.5) == [True, False]


def test_unknown_inputs_are_not_assumed():
    graph = ad.graph(lambda x, y: x * y)(1.0, 2.0)
    assert graph.outputs[0] in finite(graph)
    assert graph.outputs[0] not in finite(graph, {0})


def test_products_without_a_strong_zero():
    for f, strong in ((lambda x: np.sum(np.sin(x) * x), False), (lambda x: np.sum(np.where(x > 0, np.sqrt(x), x)), True)):
        graph = ad.graph(ad.grad(f))(np.ones(3))
        plain = ordinary_products(graph, finite(graph))
        needed = [e for e in plain.equations if "strong" in e.op.name or e.op.name == "where"]
        assert bool(needed) == strong
        np.testing.assert_array_equal(plain.run_flat([np.ones(3)])[0], graph.run_flat([np.ones(3)])[0])
