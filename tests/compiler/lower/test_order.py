"""Short rows are ordered by comparing all pairs: argsort, sort, order statistics and what ties share, as NumPy has them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import adjoint as ad
from adjoint.compiler.lower.order import LONGEST

FLOATS, WHOLE = ["float64", "float32"], ["int64", "int32", "int16", "uint8", "uint64", "bool"]


def rows(seed, shape, dtype):
    """Rows with many ties; floats with nan, infinities and zeros of both signs."""
    rng = np.random.default_rng(seed)
    if dtype in FLOATS:
        odd = [np.nan, np.inf, -np.inf, 0.0, -0.0]
        return np.where(rng.random(shape) < 0.3, rng.choice(odd, shape), np.round(2 * rng.normal(size=shape))).astype(dtype)
    return rng.integers(0, 6, shape).astype(dtype)


@settings(max_examples=10, deadline=None, derandomize=True)
@given(
    shape=st.sampled_from([(1,), (2,), (17,), (3, 5), (5, 1), (2, 3, 4), (LONGEST,), (2, LONGEST)]),
    axis=st.integers(0, 2),
    dtype=st.sampled_from(FLOATS + WHOLE),
    seed=st.integers(0, 1000),
)
def test_order(shape, axis, dtype, seed):
    axis %= len(shape)
    x, k = rows(seed, shape, dtype), (shape[axis] - 1) // 2

    def f(x):
        return (
            np.argsort(x, axis=axis, kind="stable"),
            np.sort(x, axis=axis),
            np.take(np.partition(x, k, axis=axis), k, axis=axis),
            np.take_along_axis(x, np.argpartition(x, k, axis=axis), axis).take(k, axis=axis),
        )

    compiled = ad.jit(f)
    for got, wanted in zip(compiled(x), f(x), strict=True):
        assert got.dtype == wanted.dtype
        np.testing.assert_array_equal(got, wanted)
    assert "calls NumPy" not in compiled.report()


@pytest.mark.parametrize("n", [2, 9, 16])
def test_order_statistics(n):
    x = np.random.default_rng(n).normal(size=(3, n))

    def f(x):
        return np.median(x, axis=1), np.quantile(x, [0.0, 0.3, 1.0], axis=1), np.percentile(x, 70), np.nanmedian(x, axis=0)

    compiled = ad.jit(f)
    for got, wanted in zip(compiled(x), f(x), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-15)
    assert "calls NumPy" not in compiled.report()


def test_several_keys():
    x = np.random.default_rng(0).integers(0, 3, (3, 4, 9)).astype(float)
    compiled = ad.jit(lambda x: (np.lexsort(x), np.lexsort(x, axis=0), np.lexsort(x[:, 0])))
    for got, wanted in zip(compiled(x), (np.lexsort(x), np.lexsort(x, axis=0), np.lexsort(x[:, 0])), strict=True):
        np.testing.assert_array_equal(got, wanted)
    assert "calls NumPy" not in compiled.report()


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("shape", "axis"), [((6,), 0), ((4, 3), 0), ((4, 3), 1)])
@pytest.mark.parametrize("ties", [False, True])
def test_gradients(shape, axis, ties):
    """Those of the tape, which shares cotangents among ties."""
    rng = np.random.default_rng(3)
    x = rng.integers(0, 3, shape).astype(float) if ties else rng.normal(size=shape)
    w = rng.normal(size=shape)
    n = shape[axis]

    def f(x):
        ordered = np.sum(w * np.sort(x, axis=axis)) + np.sum(w * np.partition(x, n - 1, axis=axis) ** 2)
        return ordered + np.sum(np.median(x, axis=axis) ** 2) + np.sum(np.maximum.accumulate(x, axis=axis) * w)

    compiled = ad.jit(ad.grad(f))
    np.testing.assert_allclose(compiled(x), ad.grad(f)(x), rtol=1e-13)
    assert "calls NumPy" not in compiled.report()


def test_in_a_loop():
    x = np.random.default_rng(0).normal(size=16)

    def f(x):
        return ad.fori_loop(0, 50, lambda i, c: 0.9 * c + 0.1 * np.sort(c) + 0.01 * np.argsort(c), x)

    compiled = ad.jit(f)
    np.testing.assert_allclose(compiled(x), f(x), rtol=1e-13)
    assert "calls NumPy" not in compiled.report()


def test_numpy_sorts_long_rows():
    compiled = ad.jit(lambda x: (np.sort(x), np.median(x)))
    x = np.random.default_rng(0).normal(size=LONGEST + 1)
    ordered, middle = compiled(x)
    np.testing.assert_array_equal(ordered, np.sort(x))
    assert middle == np.median(x)
    assert "calls NumPy" in compiled.report()


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0)])
def test_without_elements(shape):
    x = np.zeros(shape)
    np.testing.assert_array_equal(ad.jit(lambda x: np.sort(x))(x), x)
