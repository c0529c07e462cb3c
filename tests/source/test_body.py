"""Python numbers in the bodies of loops: their classes, their dtypes beside arrays, and the conditions of 64-bit arithmetic."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.core.bind import class_of
from adjoint.core.types import Type, dtype_of
from adjoint.rewrite.simplify import dead_code
from adjoint.source.body import CARRIED, COUNTED, SMALL, WIDE, SourceBody
from adjoint.source.variables import NotStagedError

INPUTS = {"n": int, "m": int, "k": int, "x": float, "z": complex}


def staged(run: Callable[..., Any], bound: float = CARRIED) -> tuple[SourceBody, Any]:
    """A body of the Python numbers `INPUTS` and an array a, and what it computes; k is a counter."""
    with SourceBody("scan") as body:
        given = {name: body.number(name, cls, COUNTED if name == "k" else bound) for name, cls in INPUTS.items()}
        given["a"] = body.input("a", Type((3,), np.dtype(np.float32)))
        return body, run(**{name: given[name] for name in run.__code__.co_varnames[: run.__code__.co_argcount]})


def holds(run: Callable[..., Any], *values: int | float, cls: type = int) -> bool:
    """Whether the conditions of a body with these inputs hold."""
    with SourceBody("scan") as body:
        inputs = [body.number(f"n{i}", cls, CARRIED) for i in range(len(values))]
        run(*inputs)
        graph = dead_code(body.graph("body", [body.sound()]))  # the conditions alone
    with np.errstate(all="ignore"):
        (sound,) = graph.run_flat([np.asarray(v, TYPES[cls])[()] for v in values])
    return bool(sound)


TYPES = {int: np.int64, float: np.float64}


# -- classes and dtypes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "run, expected",
    [
        (lambda n, m: n + m, int),
        (lambda n: n + 0.5, float),
        (lambda n, x: n * x, float),
        (lambda n, m: n / m, float),
        (lambda n: n // 2, int),
        (lambda n: n % 3, int),
        (lambda x: x // 2, float),
        (lambda x, z: x - z, complex),
        (lambda n: -n, int),
        (lambda x: abs(x), float),
        (lambda x: 2 * x + 1, float),
    ],
)
def test_operators_between_python_numbers_give_python_numbers(run, expected):
    assert class_of(staged(run)[1]) is expected


def test_both_results_of_divmod():
    _, (quotient, remainder) = staged(lambda n: divmod(n, 7))
    assert class_of(quotient) is class_of(remainder) is int


@pytest.mark.parametrize("compare", [operator.lt, operator.ge, operator.eq])
def test_a_comparison_is_no_python_number(compare):
    body, y = staged(lambda n, m: compare(n, m))
    assert body.python_class(y) is None
    assert dtype_of(y) is np.dtype(bool)


@pytest.mark.parametrize(
    "run, expected",
    [
        (lambda a, x: a * x, np.float32),
        (lambda a, n: a * n, np.float32),
        (lambda a, z: a * z, np.complex64),
        (lambda a, n, x: a * (n * x), np.float32),
        (lambda a, x: np.sin(x) * a, np.float64),  # a NumPy function gives NumPy's numbers
        (lambda a, x: np.maximum(a, x), np.float32),
    ],
)
def test_beside_arrays_python_numbers_have_no_dtype(run, expected):
    body, y = staged(run)
    assert dtype_of(y) == expected
    assert body.python_class(y) is None


def test_captured_numbers_keep_their_class():
    with SourceBody("scan") as outer:
        n, a = outer.number("n", int, CARRIED), outer.input("a", Type((), np.dtype(np.float32)))
        with SourceBody("scan") as inner:
            inside = inner.lift(n)
            assert inner.python_class(inside) is int
            assert inner.python_class(inner.lift(a)) is None
            assert dtype_of(inside * a) == np.float32
            assert inner.lift(n).aux[0] == inside.aux[0]  # captured once
            assert inner.lift(3.0) == 3.0
        assert len(inner.captured) == 2


def test_captured_values_have_the_names_of_their_variables():
    with SourceBody("scan") as outer:
        n = outer.number("n", int, CARRIED)
        with SourceBody("scan") as inner:
            inner.lift(n)
            inner.variables[id(inner.captured[0].underlying), id(inner.captured[0].aux)] = "rate"
            assert inner.captured_name(0) == "rate"
            inner.variables.clear()
            assert inner.captured_name(0) != "rate"


# -- conditions --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "run, count",
    [
        (lambda k: k + 1, 0),  # a counter does not get that far
        (lambda k: 3 * k - 7, 0),
        (lambda n: n + 1, 0),
        (lambda n: n - 5, 0),
        (lambda n, m: n + m, 1),  # 2**61 + 2**61
        (lambda n: n * 2, 1),
        (lambda n: n * 0, 0),
        (lambda k: k * k, 1),
        (lambda n, m: n * m, 1),
        (lambda n: n // 2, 0),
        (lambda n: n % 10, 0),
        (lambda n: (n % 10) * (n % 10), 0),
        (lambda n, m: (n % 10) * m, 1),
        (lambda n: -n, 0),
        (lambda x: x * x, 0),
        (lambda x: x + 1, 0),
        (lambda x: x / 2, 0),
        (lambda x, n: n / x, 1),
        (lambda k: k < 5, 0),
        (lambda n, x: n < x, 1),  # an integer above 2**53 is rounded
        (lambda n, x: n % 8 < x, 0),
    ],
)
def test_conditions_are_collected_only_where_they_can_fail(run, count):
    assert len(staged(run)[0].conditions) == count


@pytest.mark.parametrize(
    "run, good, bad",
    [
        (lambda n, m: n * m, (2**31, 2**30), (2**31, 2**31)),
        (lambda n, m: n + m, (2**61, 2**60), (2**61, 2**61)),
        (lambda n, m: n**m, (2, 61), (2, 62)),
        (lambda n, m: n**m, (7, 0), (7, -1)),  # Python's result is a float
        (lambda n, m: n // m, (7, -2), (7, 0)),
        (lambda n, m: n % m, (7, 2), (7, 0)),
        (lambda n, m: n / m, (1, 3), (1, 0)),
        (lambda n, m: n / m, (2**52, 3), (2**54, 3)),
        (lambda n, m: n << m, (1, 61), (1, 62)),
        (lambda n, m: n << m, (1, 0), (1, -1)),
    ],
)
def test_conditions_of_integers_on_both_sides(run, good, bad):
    assert holds(run, *good)
    assert not holds(run, *bad)


def test_the_condition_of_a_division_of_floats():
    assert holds(lambda x, y: x / y, 1.0, -0.5, cls=float)
    assert not holds(lambda x, y: x / y, 1.0, 0.0, cls=float)
    assert not holds(lambda x, y: (x / y) + (y / x), 0.0, 1.0, cls=float)  # all conditions have to hold


def test_a_body_without_conditions_is_sound():
    assert staged(lambda n: n)[0].sound()


@pytest.mark.parametrize("run", [lambda n: n // 0, lambda n: n % 0, lambda x: x / 0])
def test_a_division_by_the_number_zero_is_refused(run):
    with np.errstate(all="ignore"), pytest.raises(NotStagedError, match="is not that of Python"):
        staged(run)


@pytest.mark.parametrize("run", [lambda n: n // 2, lambda n: n % -3, lambda n: divmod(n, 5)])
def test_a_division_by_another_number_needs_no_condition(run):
    assert not staged(run)[0].conditions


# -- bounds ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "run, bound",
    [
        (lambda k: k + 1, COUNTED + 1),
        (lambda k: k - 3, COUNTED + 3),
        (lambda k: k * 4, COUNTED * 4),
        (lambda k: k * 0, 0.0),
        (lambda k: -k, COUNTED),
        (lambda k: k % 8, 8.0),
        (lambda k: k // 8, COUNTED + 1),
        (lambda k: k << 1, WIDE),  # of which nothing is known
        (lambda n, m: n * m, WIDE),  # by its condition
    ],
)
def test_bounds_of_integers(run, bound):
    body, y = staged(run)
    assert body.size(y) == bound


def test_a_whole_number_computed_from_a_counter():
    body, y = staged(lambda a: a)
    assert body.whole(5) == 5
    body.whole(y)
    assert body.python_class(y) is int
    assert body.size(y) == COUNTED


@pytest.mark.parametrize("more, count", [(0, 0), (SMALL, 0), (SMALL + 2**12, 1)])
def test_an_integer_that_an_iteration_adds_to_is_checked_if_it_adds_much(more, count):
    with SourceBody("scan") as body:
        body.carry(body.number("n", int, CARRIED) + int(more))
    assert len(body.conditions) == count


def test_only_integers_of_the_body_are_carried():
    body, y = staged(lambda x: x * 1e300)
    body.carry(y)
    body.carry(10**30)
    assert not body.conditions


# -- Python's arithmetic -----------------------------------------------------------------------------------------------


def test_integers_beyond_64_bits():
    def f(n):
        p = 1
        for i in range(1, n + 1):
            p *= i
        return p

    value = ad.jit(f, source=True)
    for n in (5, 20, 21, 25, 3):
        assert int(value(n)) == math.factorial(n)
    assert len(next(iter(value.specializations.values()))) == 1


def test_division_by_zero():
    def f(x, n):
        s = 0.0
        for i in range(n):
            s += 1.0 / (x - i)
        return s

    value = ad.jit(f, source=True)
    assert value(0.5, 10) == f(0.5, 10)
    with pytest.raises(ZeroDivisionError):
        value(3.0, 10)
    assert value(3.0, 3) == f(3.0, 3)


def test_powers_of_integers():
    def f(n):
        s = 0
        for i in range(n):
            s += 2**i + (-1) ** i
        return s / n

    value = ad.jit(f, source=True)
    assert [value(n) for n in (10, 70, 12)] == [f(n) for n in (10, 70, 12)]
