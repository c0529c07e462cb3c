"""A call of a custom function under each trace, with a rule for one mode: the other mode is its transpose."""

import numpy as np
import pytest

import adjoint as ad
from adjoint.api.custom_call import CustomCall, transpose
from adjoint.core.types import Type

X, Y = np.array([0.3, 0.8]), 1.5


def function(leaves):
    x, y = leaves
    return [np.sin(x) * y, np.sum(x)]


def push(primals, tangents):
    (x, y), (dx, dy) = primals, tangents
    return function(primals), [np.cos(x) * y * dx + np.sin(x) * dy, np.sum(dx)]


def forward(leaves):
    return function(leaves), leaves


def pull(residuals, cotangents):
    (x, y), (g, s) = residuals, cotangents
    return [np.cos(x) * y * g + s, np.sum(np.sin(x) * g)]


RULES = {"jvp": CustomCall("f", function, push, None, None), "vjp": CustomCall("f", function, None, forward, pull)}
PLAIN = lambda x, y: function([x, y])


@pytest.mark.parametrize("rule", RULES)
class TestEachTrace:
    def of(self, rule):
        return lambda x, y: RULES[rule]([x, y])

    def test_tape(self, rule):
        found, expected = ad.vjp(self.of(rule), X, Y), ad.vjp(PLAIN, X, Y)
        for a, b in zip(found[1]([np.ones(2), 2.0]), expected[1]([np.ones(2), 2.0]), strict=True):
            np.testing.assert_allclose(a, b)

    def test_dual(self, rule):
        tangents = (np.array([1.0, -0.5]), 2.0)
        for a, b in zip(ad.jvp(self.of(rule), (X, Y), tangents)[1], ad.jvp(PLAIN, (X, Y), tangents)[1], strict=True):
            np.testing.assert_allclose(a, b)

    def test_batch(self, rule):
        xs = np.stack([X, 2 * X, X - 1])
        for a, b in zip(ad.vmap(self.of(rule), in_axes=(0, None))(xs, Y), ad.vmap(PLAIN, in_axes=(0, None))(xs, Y), strict=True):
            np.testing.assert_allclose(a, b)

    def test_graph_is_one_equation(self, rule):
        graph = ad.graph(self.of(rule))(X, Y)
        assert len([e for e in graph.equations if e.op.name.startswith("custom.")]) == 1
        for a, b in zip(graph(X, Y), PLAIN(X, Y), strict=True):
            np.testing.assert_allclose(a, b)

    def test_second_order(self, rule):
        loss = lambda f: lambda x: np.sum(f(x, Y)[0] ** 2)
        np.testing.assert_allclose(ad.hessian(loss(self.of(rule)))(X), ad.hessian(loss(PLAIN))(X), rtol=1e-10)


def test_transposing_a_linear_function():
    a = np.arange(6.0).reshape(2, 3)
    types = [Type((3,), np.dtype(float)), Type((), np.dtype(float))]
    found = transpose(lambda xs: [a @ xs[0] + xs[1], None], types, [np.array([1.0, -1.0]), None])
    np.testing.assert_array_equal(found[0], a.T @ [1.0, -1.0])
    assert found[1] == 0.0
