"""Expressions from text: what is accepted, and the message and column of each mistake."""

import pytest

from adjoint.algebra.parse import ExpressionError, parse
from adjoint.algebra.terms import symbol
from adjoint.core.errors import ArgumentError

NAMES = {name: symbol(name) for name in "xy"}


@pytest.mark.parametrize(
    "text, same",
    [
        ("np.sin(x)", "sin(x)"),
        ("asin(x)", "arcsin(x)"),
        ("ln(x)", "log(x)"),
        ("max(x, y, 1)", "maximum(maximum(x, y), 1)"),
        ("x if x < y else y", "where(x < y, x, y)"),
        ("0 < x < 1", "0 < x and x < 1"),
        ("t = x + y; t*t", "(x + y)**2"),
        ("t*t\n  where t = x + y", "(x + y)**2"),
        ("+x", "x"),
        ("math.pi", "pi"),
    ],
)
def test_other_spellings(text, same):
    assert parse(text, NAMES) == parse(same, NAMES)


@pytest.mark.parametrize(
    "text, reason, column",
    [
        ("x + z", "'z' is not one of the names given", 5),
        ("sni(x)", "'sni' is not a known function", 1),
        ("sin(x, y)", "sin takes 1 argument, got 2", 1),
        ("x ^ y", "the operator BitXor is not known", 1),
        ("x is y", "only ==, !=", 1),
        ("sin(x=1)", "plain arguments", 1),
        ("sin(*x)", "plain arguments", 1),
        ("[x]", "list is not allowed", 1),
        ("x.real", "attribute is not allowed", 1),
        ("'x'", "constant is not allowed", 1),
        ("import os; x", "only assignments", 1),
        ("t = x", "the last line must be an expression", 1),
    ],
)
def test_mistakes(text, reason, column):
    with pytest.raises(ExpressionError, match=f"{reason}.*column {column}"):
        parse(text, NAMES)


def test_texts_that_are_not_expressions():
    with pytest.raises(ArgumentError, match="empty"):
        parse("", NAMES)
    with pytest.raises(ExpressionError):
        parse("x +", NAMES)
    with pytest.raises(ArgumentError, match="nested too deeply"):
        parse("-" * 100_000 + "x", NAMES)


def test_long_sums_need_no_recursion():
    assert parse("+".join(["x"] * 300), NAMES) == parse("300*x", NAMES)
