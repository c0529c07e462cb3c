"""Terms: numbers in lowest terms, and the order in which terms are visited."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjoint.algebra.canonical import add, call, multiply
from adjoint.algebra.terms import PI, fold, is_decimal, is_integer, number, number_power, post_order, symbol

X, Y = symbol("x"), symbol("y")


@given(st.fractions(-100, 100, max_denominator=50), st.fractions(-100, 100, max_denominator=50))
def test_small_fractions_stay_exact(a, b):
    """Long decimals are written as such, and become floats."""
    for exact in (a + b, a * b):
        found = fold(exact)
        is_long_decimal = is_decimal(exact) and len(repr(float(exact)).strip("-0").replace(".", "")) > 7
        assert found == exact if isinstance(found, Fraction) else is_long_decimal and found == float(exact)


def test_large_fractions_become_floats():
    assert isinstance(fold(Fraction(1, 3) ** 200), float)
    assert math.isinf(fold(math.inf))


def test_a_float_that_is_a_constant_is_that_constant():
    assert number(math.pi) is PI
    assert number(0.5) == number(Fraction(1, 2))


@given(st.fractions(max_denominator=1000))
def test_decimals(value):
    rest = value.denominator
    for prime in (2, 5):
        while rest % prime == 0:
            rest //= prime
    assert is_decimal(value) == (rest == 1)


@pytest.mark.parametrize(
    "base, exponent, expected",
    [
        (Fraction(2), Fraction(10), 1024),
        (Fraction(4), Fraction(1, 2), 2),
        (Fraction(2), Fraction(1, 2), None),  # no short number
        (Fraction(-1), Fraction(1, 2), None),  # not real
        (Fraction(2), Fraction(-2), Fraction(1, 4)),
    ],
)
def test_powers_of_numbers(base, exponent, expected):
    assert number_power(base, exponent) == expected


def test_parts_come_before_wholes_and_once():
    term = add(multiply(X, call("sin", Y)), call("sin", Y), number(2))
    order = post_order(term)
    assert order[-1] is term
    assert len(set(order)) == len(order)
    for i, part in enumerate(order):
        assert all(child in order[:i] for child in part.children())


def test_kinds():
    assert is_integer(number(3))
    assert not is_integer(number(0.5))
    assert call("sin", X).is_call("cos", "sin")
    assert not X.is_number
