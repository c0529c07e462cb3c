"""Ranges of whole numbers: they contain all results, and an index that may be out of bounds is still checked."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import adjoint as ad
from adjoint.compiler.lower import ranges
from adjoint.core.op import OPS
from adjoint.core.types import Type
from adjoint.ir.graph import Equation, Literal

WHOLE = np.dtype(np.int64)
BOUNDS = st.tuples(st.integers(-20, 20), st.integers(0, 30)).map(lambda r: (r[0], r[0] + r[1]))


@settings(max_examples=100, deadline=None, derandomize=True)
@given(name=st.sampled_from(["add", "sub", "mul", "minimum", "maximum"]), a=BOUNDS, b=BOUNDS, data=st.data())
def test_results_are_in_the_range(name, a, b, data):
    t = Type((), WHOLE)
    low, high = ranges.of_result(Equation(OPS[name], (0, 1), {}, (2,), (t,), ""), (t, t), (a, b))
    x, y = (data.draw(st.integers(*r)) for r in (a, b))
    assert low <= OPS[name].impl(np.int64(x), np.int64(y)) <= high


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64"])
def test_numbers_that_wrap_around_are_unknown(dtype):
    t, limits = Type((), np.dtype(dtype)), np.iinfo(dtype)
    equation = Equation(OPS["add"], (0, 1), {}, (2,), (t,), "")
    assert ranges.of_result(equation, (t, t), ((0, limits.max - 1), (1, 1))) == (1, limits.max)
    assert ranges.of_result(equation, (t, t), ((0, limits.max), (1, 1))) is None
    assert ranges.of_result(equation, (t, t), ((0, 1), None)) is None


def test_constants():
    assert ranges.of_literal(Literal(np.array([3, -2, 5]))) == (-2, 5)
    assert ranges.of_literal(Literal(True)) == (1, 1)
    assert ranges.of_literal(Literal(np.array([], int))) is None
    assert ranges.of_literal(Literal(2.0)) is None


@pytest.mark.parametrize("at", [[0, 4], [-5, 4], [-5, -1], [5], [-6], [0, 5], [-6, 2]])
def test_constant_indices(at):
    """From the front and from the back; those out of bounds raise, as in NumPy."""
    x, at = np.arange(5.0), np.array(at)
    f = lambda x: np.sum(x[at] ** 2)
    for transform in (lambda f: f, ad.grad):
        if at.max() < 5 and at.min() >= -5:
            np.testing.assert_array_equal(ad.jit(transform(f))(x), transform(f)(x))
        else:
            with pytest.raises(IndexError):
                ad.jit(transform(f))(x)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(
    rows=st.lists(st.integers(-8, 8), min_size=1, max_size=4),
    plus=st.integers(-3, 3),
    times=st.integers(-2, 2),
    most=st.one_of(st.none(), st.integers(0, 6)),
)
def test_rows_of_a_loop(rows, plus, times, most):
    """Indices that are computed from constants, read and written: as in NumPy, or an error."""
    rows = np.array(rows)

    def place(i):
        at = i * times + plus
        return at if most is None else np.minimum(at, most)

    def f(x):
        def step(b, i):
            b[place(i)] = b[place(i) - 1] + 2.0
            return b, b[place(i)]

        return ad.scan(step, x, rows)

    x = np.arange(6.0)
    try:
        expected = f(x)
    except IndexError:
        with pytest.raises(IndexError):
            ad.jit(f)(x)
        return
    for a, b in zip(ad.jit(f)(x), expected, strict=True):
        np.testing.assert_array_equal(a, b)


def test_an_argument_has_no_range():
    compiled = ad.jit(lambda x, i: x[i])
    x = np.arange(5.0)
    assert compiled(x, np.array([1, 2])).tolist() == [1.0, 2.0]
    with pytest.raises(IndexError):
        compiled(x, np.array([1, 5]))
