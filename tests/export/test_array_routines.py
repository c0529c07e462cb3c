"""Routines along one axis, compiled by LLVM: every axis and layout, nans, ties, thresholds, and indices out of bounds."""

import numpy as np
import pytest
from export.in_process import results

import adjoint as ad
from adjoint.compiler.lower.kernel import Buffer, View
from adjoint.core.errors import UnsupportedError
from adjoint.core.op import OPS
from adjoint.export.array_routines import RULES, _back, _flat, _less, last
from adjoint.export.lowering import lower

RNG = np.random.default_rng(0)
X = RNG.normal(size=(3, 4, 5))
TIES = RNG.integers(0, 4, size=(3, 17)).astype(float)


def same(found, expected, exact=False):
    expected = expected if isinstance(expected, (tuple, list)) else [expected]
    for a, b in zip(found, expected, strict=True):
        assert a.shape == np.shape(b)
        if exact:
            np.testing.assert_array_equal(a, b)
        else:
            np.testing.assert_allclose(a, b, rtol=1e-13 if a.dtype == float else 1e-5, atol=1e-14)


def compare(f, *args, exact=False):
    same(results(f, *args), f(*args), exact)


def routines(f, *args):
    """The names of the routines that a function is lowered to."""
    return [step.routine for step in lower(ad.graph(f)(*args), "export.c").steps if hasattr(step, "routine")]


# -- views -------------------------------------------------------------------------------------------------------------


def test_an_axis_is_moved_to_the_end_and_back():
    view = View.whole(Buffer(0, np.dtype(float), 60, "local"), (3, 4, 5))
    for axis, shape in enumerate([(4, 5, 3), (3, 5, 4), (3, 4, 5)]):
        moved = last(view, axis)
        assert moved.shape == shape
        assert moved.strides[-1] == view.strides[axis]
        assert _back(moved, axis) == view
    assert _flat(view).shape == (60,)


def test_nan_is_the_last():
    assert _less("a", "b", np.dtype(int)) == "a < b"
    assert "a == a && b != b" in _less("a", "b", np.dtype(float))


# -- cumulative results ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("axis", [0, 1])
def test_cumulative_results_along_every_axis(axis):
    compare(lambda x: (np.cumsum(x, axis), np.cumprod(x, axis), np.maximum.accumulate(x, axis)), X)
    compare(lambda x: (np.cumsum(x.T, axis), np.minimum.accumulate(x.T * 2, axis)), X)  # of a view


def test_running_extremes_keep_nans():
    x = np.array([1.0, 3.0, np.nan, 5.0, 2.0])
    compare(lambda x: (np.maximum.accumulate(x), np.minimum.accumulate(x)), x, exact=True)


def test_running_extremes_of_integers():
    x = np.array([3, -1, 7, 7, 2])
    compare(lambda x: (np.maximum.accumulate(x), np.minimum.accumulate(x)), x, exact=True)
    assert routines(lambda x: np.maximum.accumulate(x), x) == ["running_max"]


def test_sums_of_integers_wrap_around():
    """C's do not: they are written in other ops."""
    x = np.array([2**62, 2**62, 1])
    assert "cumsum" not in routines(np.cumsum, x)
    compare(np.cumsum, x, exact=True)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("length", [1, 2, 9])
def test_recurrences(length, dtype):
    a, b = (RNG.normal(size=(2, length)).astype(dtype) for _ in range(2))
    f = lambda a, b: OPS["recurrence"](a, b, axis=1)
    compare(f, a, b)
    expected = b[:, 0]
    for i in range(1, length):
        expected = a[:, i] * expected + b[:, i]
    np.testing.assert_allclose(results(f, a, b)[0][:, -1], expected, rtol=1e-5)


@pytest.mark.parametrize("mode", ["full", "valid", "same"])
@pytest.mark.parametrize("n, m", [(1, 1), (5, 3), (3, 5)])
def test_convolutions(n, m, mode):
    compare(lambda a, b: np.convolve(a, b, mode), RNG.normal(size=n), RNG.normal(size=m))


def test_products():
    compare(lambda x: (np.prod(x, axis=1), np.prod(x)), X)


# -- order -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 3, 8, 9, 31])
def test_sorting_lines_of_every_length(count):
    x = RNG.integers(0, max(2, count // 2), size=count).astype(float)
    compare(lambda x: (np.sort(x), np.argsort(x, kind="stable")), x, exact=True)


def test_sorting_is_stable_and_has_nans_at_the_end():
    x = np.array([2.0, np.nan, 0.0, 2.0, -np.inf, np.nan, 0.0, -0.0, np.inf])
    (order,) = results(lambda x: np.argsort(x, kind="stable"), x)
    np.testing.assert_array_equal(order, np.argsort(x, kind="stable"))


@pytest.mark.parametrize("axis, dtype", [(0, np.float32), (1, np.int64), (0, np.int32)])
def test_sorting_along_an_axis(axis, dtype):
    f = lambda x: (np.argsort(x, axis=axis, kind="stable"), np.argsort(x.T, axis=axis, kind="stable"))
    compare(f, TIES.astype(dtype), exact=True)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_the_first_of_equal_extremes(axis):
    compare(lambda x: (np.argmax(x, axis=axis), np.argmin(x, axis=axis)), TIES, exact=True)


@pytest.mark.parametrize("x", [[1.0, np.nan, 3.0, np.nan], [np.nan, 1.0], [-np.inf, -np.inf], [2.0]])
def test_the_place_of_a_nan_is_that_of_the_extreme(x):
    compare(lambda x: (np.argmax(x), np.argmin(x)), np.array(x), exact=True)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("table", [[1.0], [1.0, 2.0, 2.0, 2.0, 5.0], [0.0, 1.0, np.nan, np.nan]])
def test_searches_on_both_sides_of_every_element(table, side):
    table = np.array(table)
    values = np.array([-np.inf, 0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 6.0, np.inf, np.nan])
    compare(lambda a, v: np.searchsorted(a, v, side=side), table, values, exact=True)


def test_searches_in_numbers_of_another_dtype():
    compare(lambda a, v: np.searchsorted(a, v), np.float32([0.1, 0.2]), np.array([[0.1, 0.2], [0.15, 0.3]]), exact=True)


# -- writes at indices -------------------------------------------------------------------------------------------------


def put(x, v, *at):
    return OPS["put_at"](x, v, *at, axis=0)


@pytest.mark.parametrize("dtype", [np.float64, np.int64, bool])
def test_the_last_write_counts(dtype):
    at = np.array([0, 2, -1, 0, 2])
    x, v = np.zeros(4, dtype), np.array([1, 1, 1, 0, 1]).astype(dtype)
    expected = x.copy()
    expected[at] = v
    same(results(put, x, v, at), expected, exact=True)


def test_writes_of_rows_and_at_pairs_of_indices():
    x, rows = np.zeros((3, 4)), RNG.normal(size=(2, 4))
    expected = x.copy()
    expected[[2, 0]] = rows
    same(results(put, x, rows, np.array([2, 0])), expected, exact=True)
    expected = x.copy()
    expected[[0, -1, 0], [1, -4, 1]] = [1.0, 2.0, 3.0]
    same(results(put, x, np.array([1.0, 2.0, 3.0]), np.array([0, -1, 0]), np.array([1, -4, 1])), expected, exact=True)


@pytest.mark.parametrize("place, fits", [(2, True), (3, False), (-3, True), (-4, False)])
def test_an_index_out_of_bounds_fails(place, fits):
    arguments = np.zeros(3), np.ones(1), np.array([place])
    last_write = lambda at: OPS["last_write"](at, extent=(3,))
    if fits:
        results(put, *arguments)
        results(last_write, arguments[2])
    else:
        for f, given in ((put, arguments), (last_write, arguments[2:])):
            with pytest.raises(ArithmeticError):
                results(f, *given)


def test_which_write_is_the_last():
    at = np.array([0, 1, 0, -2, 1, 2])
    (found,) = results(lambda at: OPS["last_write"](at, extent=(3,)), at)
    np.testing.assert_array_equal(found, [False, False, True, False, True, True])


def test_exchanges_as_a_permutation():
    pivots = np.array([[2, 2, 2], [0, 1, 2], [1, 2, 2]])
    compare(lambda p: OPS["permutation"](p), pivots, exact=True)


# -- what a rule does not take -----------------------------------------------------------------------------------------


def test_empty_arrays_and_other_dtypes_are_left_to_others():
    for x in (np.zeros((0, 3)), np.zeros((3, 0))):
        assert not set(routines(lambda x: np.cumsum(x, axis=1), x)) & {op.name for op in RULES}
    with pytest.raises(UnsupportedError, match="no code for 'argsort'"):
        lower(ad.graph(np.argsort)(np.array([True, False])), "export.c")
