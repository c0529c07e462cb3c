"""Positions of extrema and in sorted arrays: as in NumPy, nan and equal values included, without calling it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import adjoint as ad

VALUES = st.sampled_from([-np.inf, -1.0, -0.0, 0.0, 0.5, 2.0, np.inf, np.nan])


@given(st.lists(VALUES, min_size=1, max_size=40), st.lists(VALUES, min_size=1, max_size=9), st.sampled_from(["left", "right"]))
@settings(max_examples=40, deadline=None)
def test_places_in_a_sorted_array(table, values, side):
    a, v = np.sort(np.array(table)), np.array(values)
    found = ad.jit(lambda a, v: np.searchsorted(a, v, side))(a, v)
    wanted = np.searchsorted(a, v, side)
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("n", [1, 2, 3, 4, 7, 8, 9, 63, 64, 65, 1000])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_searches_call_nothing(n, dtype):
    a = np.sort(np.random.default_rng(n).normal(size=n)).astype(dtype)
    v = np.concatenate([a, a + 0.01, [-9, 9]]).astype(dtype)
    for side in ("left", "right"):
        search = ad.jit(lambda a, v, side=side: np.searchsorted(a, v, side))
        np.testing.assert_array_equal(search(a, v), np.searchsorted(a, v, side))
        assert "calls NumPy" not in search.report()
    np.testing.assert_array_equal(ad.jit(np.searchsorted)(a, v.reshape(2, -1)), np.searchsorted(a, v.reshape(2, -1)))
    assert ad.jit(np.searchsorted)(a, v[0]) == np.searchsorted(a, v[0])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("n", [1, 2, 7, 8, 9, 1000])
@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"])
def test_searches_of_whole_numbers_call_nothing(n, dtype):
    limits = np.iinfo(dtype)
    ends = np.array([limits.min, limits.min + 1, limits.max - 1, limits.max], dtype)
    drawn = np.random.default_rng(n).integers(limits.min, limits.max, n, dtype=dtype, endpoint=True)
    a, v = np.sort(drawn), np.concatenate([drawn, ends, np.array([0, 1], dtype)])
    for side in ("left", "right"):
        search = ad.jit(lambda a, v, side=side: np.searchsorted(a, v, side))
        np.testing.assert_array_equal(search(a, v), np.searchsorted(a, v, side))
        assert "calls NumPy" not in search.report()


def test_other_searches():
    for a, v in (
        (np.arange(5), np.array([1, 7])),
        (np.arange(5.0), np.array([1, 7])),
        (np.zeros(0), np.ones(2)),
        (np.ones(2), np.zeros(0)),
    ):
        found, wanted = ad.jit(np.searchsorted)(a, v), np.searchsorted(a, v)
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_array_equal(found, wanted)


@given(
    st.sampled_from([(1,), (7,), (3, 4), (2, 3, 5)]),
    st.sampled_from([np.argmax, np.argmin]),
    st.sampled_from([None, 0, -1, 1]),
    st.sampled_from([np.float64, np.float32, np.int64]),
    st.data(),
)
@settings(max_examples=60, deadline=None)
def test_places_of_extrema(shape, op, axis, dtype, data):
    if axis == 1 and len(shape) == 1:
        axis = 0
    numbers = data.draw(st.lists(VALUES, min_size=int(np.prod(shape)), max_size=int(np.prod(shape))))
    with np.errstate(invalid="ignore"):
        x = np.array(numbers).reshape(shape).astype(dtype)
    found, wanted = ad.jit(lambda x: op(x, axis=axis))(x), op(x, axis=axis)
    assert (np.asarray(found).dtype, np.shape(found)) == (wanted.dtype, np.shape(wanted))
    np.testing.assert_array_equal(found, wanted)


def test_extrema_call_nothing():
    x = np.random.default_rng(0).normal(size=(30, 40))
    for f in (lambda x: np.argmax(x, axis=0), lambda x: np.argmin(x), lambda x: x[np.argmax(x[:, 0])]):
        compiled = ad.jit(f)
        np.testing.assert_array_equal(compiled(x), f(x))
        assert "calls NumPy" not in compiled.report()


def test_interpolation_is_one_program():
    grid, heights = np.linspace(0, 1, 50), np.random.default_rng(0).normal(size=50)
    x = np.random.default_rng(1).uniform(-0.2, 1.2, 200)
    f = lambda h, x: np.sum(np.interp(x, grid, h) ** 2)
    compiled = ad.jit(ad.grad(f, (0, 1)))
    for got, wanted in zip(compiled(heights, x), ad.grad(f, (0, 1))(heights, x), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-11, atol=1e-12)
    assert "calls NumPy" not in compiled.report()
