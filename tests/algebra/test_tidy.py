"""Shorter sums: of the same value, and never longer."""

import math

import pytest

from adjoint.algebra.convert import evaluate
from adjoint.algebra.parse import parse
from adjoint.algebra.terms import post_order, symbol
from adjoint.algebra.tidy import common_denominator, common_factor, multiply_out, pythagoras, tidy

NAMES = {name: symbol(name) for name in "xyz"}
VALUES = {"x": 0.7, "y": 1.3, "z": 2.1}


@pytest.mark.parametrize(
    "text, shorter",
    [
        ("sin(x)**2 + cos(x)**2", "1"),
        ("3*y*sin(x)**2 + 3*y*cos(x)**2", "3*y"),
        ("exp(x)*y + exp(x)*z", "exp(x)*(y + z)"),
        ("(x + 1)*(x - 1) - x**2", "-1"),
        ("x + y", "x + y"),
    ],
)
def test_forms(text, shorter):
    assert tidy(parse(text, NAMES)) == parse(shorter, NAMES)


@pytest.mark.parametrize(
    "text",
    [
        "sin(x)**2*y + cos(x)**2*y + z",
        "1/(x + y) + x/(x + y)**2",
        "exp(x)*y - 2*exp(x)*z + exp(x)",
        "x*(y + z) - x*y",
        "(x + y)**2 - x**2 - 2*x*y",
        "tanh(x)*(1 - tanh(x)**2)*2 + y",
    ],
)
@pytest.mark.parametrize("change", [tidy, pythagoras, common_factor, common_denominator, multiply_out])
def test_the_value_stays(text, change):
    term = parse(text, NAMES)
    assert math.isclose(evaluate(change(term), VALUES), evaluate(term, VALUES), rel_tol=1e-12)
    assert len(post_order(tidy(term))) <= len(post_order(term))
