"""Short rows are ordered by comparing all pairs, long ones by merging: argsort, sort, order statistics and what ties share, as
NumPy has them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import adjoint as ad
import adjoint.numpy as anp
from adjoint.compiler.lower import order
from adjoint.compiler.lower.order import _LONGEST_FOR_SOME, _MOST_WRITES, BLOCK, LONGEST

FLOATS, WHOLE = ["float64", "float32"], ["int64", "int32", "int16", "uint8", "uint64", "bool"]


def rows(seed, shape, dtype):
    """Rows with many ties; floats with nan, infinities and zeros of both signs."""
    rng = np.random.default_rng(seed)
    if dtype in FLOATS:
        odd = [np.nan, np.inf, -np.inf, 0.0, -0.0]
        return np.where(rng.random(shape) < 0.3, rng.choice(odd, shape), np.round(2 * rng.normal(size=shape))).astype(dtype)
    return rng.integers(0, 6, shape).astype(dtype)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    shape=st.one_of(
        st.sampled_from([(1,), (2,), (3, 5), (5, 1), (2, 3, 4), (LONGEST,), (2, LONGEST), (LONGEST + 1, 2), (3, 2, LONGEST + 1)]),
        st.tuples(st.integers(1, _LONGEST_FOR_SOME)),
    ),
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


@settings(max_examples=20, deadline=None, derandomize=True)
@given(
    n=st.one_of(st.integers(LONGEST + 1, 20 * BLOCK), st.sampled_from([1000, 1024, 1025, 4097, 20_000])),
    kind=st.sampled_from(["few", "many", "ordered", "reversed", "same"]),
    dtype=st.sampled_from(FLOATS + WHOLE),
    stride=st.sampled_from([1, 3, -1]),
    seed=st.integers(0, 1000),
)
def test_rows_are_merged(n, kind, dtype, stride, seed):
    """Runs of all lengths, in any order at the start; views too."""
    x = np.random.default_rng(seed).normal(size=n) * 100 if kind == "many" else rows(seed, n, "float64")
    x = np.nan_to_num(x, posinf=9.0, neginf=-9.0) if dtype in WHOLE else x
    x = np.abs(x).astype(dtype) if dtype in WHOLE else x.astype(dtype)
    if kind in ("ordered", "reversed", "same"):
        x = np.zeros_like(x) if kind == "same" else np.sort(x)[:: 1 if kind == "ordered" else -1]
    wide = np.repeat(x, 3)
    given = {1: x, 3: wide[::3], -1: x[::-1]}[stride]
    compiled = ad.jit(lambda x: (np.argsort(x, kind="stable"), np.sort(x)))
    found, ordered = compiled(given)
    np.testing.assert_array_equal(found, np.argsort(given, kind="stable"))
    np.testing.assert_array_equal(ordered, np.sort(given))
    assert "calls NumPy" not in compiled.report()


@pytest.mark.parametrize("dtype", [np.uint64, np.int64])
def test_the_largest_numbers_are_ordered(dtype):
    """Keys are compared as signed numbers; rows are padded with the greatest."""
    limits = np.iinfo(dtype)
    odd = np.array([limits.max, limits.min, limits.max - 1, limits.min + 1, 0, 1], dtype)
    x = np.resize(odd, 101)
    np.testing.assert_array_equal(ad.jit(lambda x: np.argsort(x, kind="stable"))(x), np.argsort(x, kind="stable"))


@pytest.mark.parametrize("n", [_LONGEST_FOR_SOME, _LONGEST_FOR_SOME + 1, 5000])
def test_numpy_finds_some_elements_of_long_rows(n):
    x = np.random.default_rng(0).normal(size=n)
    f = lambda x: (np.median(x), np.partition(x, n // 3)[n // 3], np.quantile(x, 0.2))
    compiled = ad.jit(f)
    np.testing.assert_allclose(compiled(x), f(x), rtol=1e-15)
    assert ("calls NumPy" in compiled.report()) == (n > _LONGEST_FOR_SOME)


@settings(max_examples=15, deadline=None, derandomize=True)
@given(
    n=st.one_of(st.integers(LONGEST - 1, LONGEST + 2), st.integers(LONGEST + 1, 300)),
    values=st.sampled_from([1, 3, 40, 10**6]),
    axis=st.integers(0, 1),
    dtype=st.sampled_from(FLOATS),
    seed=st.integers(0, 1000),
)
def test_ties_of_long_rows_share(n, values, axis, dtype, seed):
    """The cotangents of equal elements, which are neighbours (sort) or not (partition)."""
    rng = np.random.default_rng(seed)
    shape = (n, 2) if axis == 0 else (2, n)
    x, w = rng.integers(0, values, shape).astype(dtype), rng.normal(size=shape).astype(dtype)

    def f(x):
        low = np.take(np.partition(x, n // 2, axis=axis), np.arange(n // 2 + 1), axis=axis)  # in any order
        return np.sum(w * np.sort(x, axis=axis)) + np.sum(low**2)

    compiled = ad.jit(ad.grad(f))
    np.testing.assert_allclose(
        compiled(x), ad.grad(f)(x), rtol=1e-12 if dtype == "float64" else 1e-4, atol=1e-5 if dtype == "float32" else 0
    )
    assert "calls NumPy" not in compiled.report()


@pytest.mark.parametrize("n", [LONGEST + 1, 150])
def test_long_rows_in_a_loop(n):
    x = np.random.default_rng(0).normal(size=n)

    def f(x):
        return np.sum(ad.fori_loop(0, 20, lambda i, c: 0.9 * c + 0.1 * np.sort(c) + 0.01 * c[np.argsort(c)] ** 2, x) ** 2)

    compiled = ad.jit(ad.grad(f))
    np.testing.assert_allclose(compiled(x), ad.grad(f)(x), rtol=1e-11)
    assert "calls NumPy" not in compiled.report()


@pytest.mark.parametrize("n", [_MOST_WRITES, _MOST_WRITES + 1, 4 * _MOST_WRITES])
def test_the_last_of_many_writes_counts(n):
    rng = np.random.default_rng(n)
    at, v = rng.integers(0, n // 2, (2, n // 2)), rng.normal(size=(2, n // 2))

    def f(x, v):
        x = anp.array(x)
        x[at] = v
        return np.sum(x**2)

    x = rng.normal(size=n)
    for argument in (0, 1):
        np.testing.assert_allclose(ad.jit(ad.grad(f, argument))(x, v), ad.grad(f, argument)(x, v), rtol=1e-14)


@pytest.mark.parametrize("longest", [0, 10**6])
def test_both_ways_agree(monkeypatch, longest):
    """By counting and by merging, on either side of the threshold."""
    monkeypatch.setattr(order, "LONGEST", longest)
    x = rows(5, (3, 40), "float64")
    f = lambda x: (np.argsort(x, axis=1, kind="stable"), np.sort(x, axis=0), np.lexsort(x), np.median(x, axis=1))
    for got, wanted in zip(ad.jit(f)(x), f(x), strict=True):
        np.testing.assert_array_equal(got, wanted)
    ties = np.round(np.random.default_rng(0).normal(size=(3, 40)))
    w = np.arange(120.0).reshape(3, 40)
    shared = ad.grad(lambda x: np.sum(w * np.sort(x, axis=1)) + np.sum(np.partition(x, 7, axis=1)[:, :8] ** 2))
    np.testing.assert_allclose(ad.jit(shared)(ties), shared(ties), rtol=1e-13)


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0)])
def test_without_elements(shape):
    x = np.zeros(shape)
    np.testing.assert_array_equal(ad.jit(lambda x: np.sort(x))(x), x)
