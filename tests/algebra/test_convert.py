"""Graphs of scalars as terms, and terms run on values."""

import numpy as np
import pytest

import adjoint as ad
from adjoint.algebra.convert import apply, evaluate, from_graph, numbers_of
from adjoint.algebra.terms import number, symbol
from adjoint.core.errors import UnsupportedError

X, Y = symbol("x"), symbol("y")


@pytest.mark.parametrize(
    "f",
    [
        lambda x, y: np.sin(x) * y + x**3,
        lambda x, y: np.where(x > y, x - y, y / x),
        lambda x, y: np.maximum(x, y) ** 0.5 + np.arctan2(x, y),
        lambda x, y: 3.0,
    ],
)
@pytest.mark.parametrize("point", [(0.5, 1.5), (2.0, 0.25)])
def test_a_graph_and_its_term_have_one_value(f, point):
    term = from_graph(ad.graph(f)(*point), [X, Y])
    np.testing.assert_allclose(evaluate(term, dict(zip("xy", point, strict=True))), f(*point), rtol=1e-12)


def test_arrays_have_no_term():
    graph = ad.graph(lambda x: np.sum(np.stack([x, x])))(1.0)
    with pytest.raises(UnsupportedError, match=r"test_convert\.py"):
        from_graph(graph, [X])


def test_terms_run_on_arrays_and_traced_values():
    term = apply("add", apply("sin", X), apply("mul", number(2), Y))
    x = np.linspace(0, 1, 5)
    np.testing.assert_allclose(evaluate(term, {"x": x, "y": 1.0}), np.sin(x) + 2)
    assert ad.grad(lambda x: evaluate(term, {"x": x, "y": 1.0}))(0.5) == np.cos(0.5)


def test_numbers_that_have_to_stay_exact():
    term = apply("add", apply("mul", number(3), X), apply("power", Y, number(0.5)))
    assert {0.5, 3.0} <= set(map(float, numbers_of(term)))
