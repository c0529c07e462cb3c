"""Cumulative sums, products and recurrences: NumPy's bits, in every layout, without a call of NumPy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import adjoint as ad
from adjoint.compiler.lower.step import Cumulative


@given(
    st.lists(st.sampled_from([1, 2, 3, 7, 8, 9, 17]), min_size=1, max_size=3),
    st.integers(0, 2),
    st.sampled_from([np.cumsum, np.cumprod]),
    st.sampled_from([np.float64, np.float32, np.int64]),
    st.sampled_from(["C", "F", "flipped", "strided"]),
    st.integers(0, 1000),
)
@settings(max_examples=60, deadline=None)
def test_values_are_numpys_bits(shape, axis, op, dtype, layout, seed):
    axis %= len(shape)
    x = (np.random.default_rng(seed).normal(size=shape) * 3).astype(dtype)
    if layout == "strided":
        x = np.repeat(x, 2, axis=axis)[(slice(None),) * axis + (slice(None, None, 2),)]
    x = {"F": np.asfortranarray(x), "flipped": np.flip(x, axis)}.get(layout, x)
    f = lambda x: op(np.flip(x, axis), axis=axis) + x
    got, wanted = ad.jit(f)(x), f(x)
    assert got.dtype == wanted.dtype
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("op", [np.cumsum, np.cumprod])
@pytest.mark.parametrize(("shape", "axis"), [((1,), 0), ((50,), 0), ((7, 30), 1), ((8, 30), 1), ((17, 5), 0), ((3, 4, 9), 1)])
def test_derivatives_call_nothing(op, shape, axis):
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=shape), rng.normal(size=shape)
    f = lambda x: np.sum(op(x, axis=axis) * w)
    for compiled, plain in ((ad.jit(ad.grad(f)), ad.grad(f)), (ad.jit(lambda x: ad.jvp(f, (x,), (w,))[1]),) * 2):
        np.testing.assert_allclose(compiled(x), plain(x), rtol=1e-12, atol=1e-12)
        assert "calls NumPy" not in compiled.report()
    np.testing.assert_allclose(ad.jit(ad.hvp(f))(x, w), ad.hvp(f)(x, w), rtol=1e-10, atol=1e-12)


def test_special_values():
    x = np.array([-0.0, 0.0, np.inf, 1.0, -np.inf, np.nan, 2.0])
    with np.errstate(invalid="ignore"):
        for op in (np.cumsum, np.cumprod):
            for part in (x[:2], x[:4], x):
                got, wanted = ad.jit(op)(part), op(part)
                np.testing.assert_array_equal(got, wanted)
                np.testing.assert_array_equal(np.signbit(got), np.signbit(wanted))


def test_arrays_without_elements_and_other_dtypes():
    for x in (np.zeros((0, 3)), np.zeros((3, 0)), np.array([True, True]), np.arange(3, dtype=np.int32), np.arange(3) * 1j):
        got, wanted = ad.jit(np.cumsum)(x), np.cumsum(x)
        assert got.dtype == wanted.dtype
        np.testing.assert_array_equal(got, wanted)


def test_in_a_loop_and_in_a_batch():
    x = np.random.default_rng(0).normal(size=(4, 6))

    def f(x):
        for _ in range(100):
            x = np.cumsum(x, axis=1) * 0.3
        return np.sum(x)

    compiled = ad.jit(ad.grad(f))
    np.testing.assert_allclose(compiled(x), ad.grad(f)(x), rtol=1e-11)
    assert "calls NumPy" not in compiled.report()
    np.testing.assert_allclose(ad.jit(ad.vmap(np.cumsum))(x), np.cumsum(x, axis=1), rtol=1e-13)
    steps = ad.jit(ad.vmap(np.cumsum)).lower(x).lowered.steps
    assert any(isinstance(step, Cumulative) for step in steps)
