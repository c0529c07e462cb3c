"""Canonical form: expressions that are equal by the rules of arithmetic become the same term, of the same value."""

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from adjoint.algebra.canonical import add, call, divide, multiply, power, scale, subtract, where
from adjoint.algebra.convert import evaluate
from adjoint.algebra.terms import ONE, ZERO, number, symbol

X, Y, Z = map(symbol, "xyz")
VALUES = {"x": 0.7, "y": 1.3, "z": 2.1}

leaves = st.sampled_from([X, Y, Z, ONE, number(2), number(-3)])
terms = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(add, inner, inner),
        st.builds(multiply, inner, inner),
        st.builds(subtract, inner, inner),
        st.builds(lambda x: call("sin", x), inner),
    ),
    max_leaves=6,
)


@example(add(X, Y), subtract(X, Y), X)
@given(terms, terms, terms)
def test_sums_and_products_do_not_depend_on_the_order(a, b, c):
    assert add(a, add(b, c)) == add(add(c, a), b)
    assert multiply(a, b) == multiply(b, a)
    assert subtract(a, a) == ZERO


@given(terms, terms)
def test_values_are_those_of_arithmetic(a, b):
    x, y = evaluate(a, VALUES), evaluate(b, VALUES)
    assert math.isclose(evaluate(add(a, b), VALUES), x + y, rel_tol=1e-9, abs_tol=1e-9)
    assert math.isclose(evaluate(multiply(a, b), VALUES), x * y, rel_tol=1e-9, abs_tol=1e-9)
    if abs(y) > 1e-3:
        assert math.isclose(evaluate(divide(a, b), VALUES), x / y, rel_tol=1e-9, abs_tol=1e-9)


@pytest.mark.parametrize(
    "term, expected",
    [
        (multiply(X, X), power(X, number(2))),
        (multiply(power(X, number(2)), power(X, number(-2))), ONE),
        (multiply(call("exp", X), call("exp", scale(-2, X))), call("exp", scale(-1, X))),
        (call("sin", scale(-1, X)), scale(-1, call("sin", X))),
        (call("cos", scale(-1, X)), call("cos", X)),
        (call("log", ONE), ZERO),
        (call("maximum", X, X), X),
        (call("maximum", X, call("minimum", X, Y)), X),
        (add(where(call("less", X, Y), X, Y), where(call("less", X, Y), Y, X)), add(X, Y)),
        (multiply(X, where(call("less", X, Y), ONE, ZERO)), where(call("less", X, Y), X, ZERO)),
    ],
)
def test_rules(term, expected):
    assert term == expected
