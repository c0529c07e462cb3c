"""Derivatives and batches of `cond`: those of the branch that is taken, staged with both."""

import numpy as np
import pytest

import adjoint as ad

YES = lambda x, y: np.sin(x) * y
NO = lambda x, y: x**3 + np.exp(y) * y


def f(x, y):
    return ad.cond(x > 1.0, YES, NO, x, y)


def branch(x, y):
    return YES(x, y) if x > 1.0 else NO(x, y)


POINTS = [(0.5, 2.0), (1.5, -0.3)]
MODES = {
    "eager": lambda g, *args: g(*args),
    "graph": lambda g, *args: ad.graph(g)(*args)(*args),
    "compiled": lambda g, *args: ad.jit(g)(*args),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("argnums", [(0,), (1,), (0, 1)])
def test_gradients(mode, point, argnums):
    found = MODES[mode](ad.grad(f, argnums), *point)
    np.testing.assert_allclose(found, ad.grad(branch, argnums)(*point), rtol=1e-12)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("point", POINTS)
def test_tangents_and_second_order(mode, point):
    np.testing.assert_allclose(MODES[mode](ad.derivative(f), *point), ad.derivative(branch)(*point), rtol=1e-12)
    np.testing.assert_allclose(MODES[mode](ad.grad(ad.grad(f)), *point), ad.grad(ad.grad(branch))(*point), rtol=1e-12)


@pytest.mark.parametrize("g", [f, ad.grad(f), ad.grad(f, 1)])
def test_batches_whose_examples_take_both_branches(g):
    xs, ys = np.array([0.5, 1.5, 0.9, 2.0]), np.array([2.0, -0.3, 0.1, 1.0])
    np.testing.assert_allclose(ad.vmap(g)(xs, ys), [g(x, y) for x, y in zip(xs, ys, strict=True)], rtol=1e-12)
    np.testing.assert_allclose(ad.vmap(g, in_axes=(None, 0))(1.5, ys), [g(1.5, y) for y in ys], rtol=1e-12)


def test_branches_with_residuals_of_other_types():
    g = lambda x: ad.cond(np.sum(x) > 0, lambda x: np.sum(np.sin(np.outer(x, x))), lambda x: np.prod(np.cosh(x)), x)
    for x in (np.ones(3), -np.ones(3)):
        np.testing.assert_allclose(ad.jit(ad.grad(g))(x), ad.finite_difference(g, x, method="richardson"), rtol=1e-7)


def test_a_branch_that_ignores_its_operand():
    g = lambda x: ad.cond(x > 1.0, lambda x: 3.0, lambda x: x * x, x)
    assert [ad.jit(ad.grad(g))(x) for x in (2.0, 0.5)] == [0.0, 1.0]
