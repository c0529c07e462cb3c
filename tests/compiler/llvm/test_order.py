"""Long rows in order, by merging or by the digits of their keys."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import adjoint as ad
from adjoint.compiler.llvm.order import LONGEST_MERGED

SIZES = [LONGEST_MERGED - 1, LONGEST_MERGED, LONGEST_MERGED + 1, LONGEST_MERGED + 2, 3 * LONGEST_MERGED, 20_000]
SIGNED, UNSIGNED, FLOATS = (
    ["int8", "int16", "int32", "int64"],
    ["uint8", "uint16", "uint32", "uint64"],
    ["float16", "float32", "float64"],
)


def drawn(rng, n, dtype, kind):
    """Numbers of a dtype: over its whole range, a few small ones of both signs, equal ones, ordered ones."""
    dtype = np.dtype(dtype)
    if kind == "whole range":
        x = rng.integers(0, 256, n * dtype.itemsize, dtype=np.uint8)
        x = (x & 1).astype(bool)[:n] if dtype.kind == "b" else x.view(dtype)
    elif kind == "same":
        x = np.full(n, 1, dtype)
    else:
        x = rng.integers(0 if dtype.kind in "ub" else -3, 4, n).astype(dtype)
    x = np.sort(x)[::-1] if kind == "reversed" else x
    if dtype.kind == "f" and kind != "same":
        x = x.copy()
        x[rng.integers(0, n, 20)] = np.array([0.0, -0.0, np.nan, np.inf, -np.inf] * 4, dtype)
    return x


def same(found, expected):
    np.testing.assert_array_equal(found, expected)  # which takes nan for nan


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    n=st.sampled_from(SIZES),
    dtype=st.sampled_from([*SIGNED, *UNSIGNED, *FLOATS, "bool"]),
    kind=st.sampled_from(["whole range", "few", "same", "reversed"]),
    stride=st.sampled_from([1, 2, -1]),
    seed=st.integers(0, 1000),
)
def test_long_rows(n, dtype, kind, stride, seed):
    """Keys of any sign and width; equal ones keep their order."""
    x = drawn(np.random.default_rng(seed), n, dtype, kind)
    x = np.repeat(x, 2)[::2] if stride == 2 else x[::stride]
    compiled = ad.jit(lambda x: (np.argsort(x, kind="stable"), np.sort(x)))
    found, ordered = compiled(x)
    expected = np.argsort(x, kind="stable")
    same(found, expected)
    if dtype != "float16":  # its elements are taken by NumPy, whose own sort of them is wrong on some processors
        same(ordered, x[expected])
        assert ordered.dtype == x.dtype
        assert "calls NumPy" not in compiled.report()


@pytest.mark.parametrize("n", [LONGEST_MERGED, LONGEST_MERGED + 1])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("order", ["C", "F"])
def test_several_rows_share_their_memory(n, axis, order):
    """One row after the other: the second finds what the first has left."""
    shape = (n, 3) if axis == 0 else (3, n)
    x = np.asarray(np.random.default_rng(n).integers(-500, 500, shape) * 0.25, order=order)
    f = lambda x: (np.argsort(x, axis=axis, kind="stable"), np.sort(x, axis=axis))
    compiled = ad.jit(f)
    for y in (x, -x, x[::-1].copy()):
        for found, expected in zip(compiled(y), f(y), strict=True):
            same(found, expected)


@pytest.mark.parametrize("n", [LONGEST_MERGED, LONGEST_MERGED + 1])
def test_gradients_of_long_rows(n):
    """Ties share; in a loop, too."""
    rng = np.random.default_rng(3)
    x, w = rng.integers(-40, 40, n) * 0.5, rng.normal(size=n)
    f = lambda x: np.sum(w * np.sort(x)) + np.sum(x[np.argsort(x, kind="stable")] * w**2)
    np.testing.assert_allclose(ad.jit(ad.grad(f))(x), ad.grad(f)(x), rtol=1e-11, atol=1e-12)
    loop = lambda x: np.sum(ad.fori_loop(0, 5, lambda i, c: 0.9 * np.sort(c)[::-1] + 0.1 * w, x) * w)
    y = rng.normal(size=n)
    np.testing.assert_allclose(ad.jit(loop)(y), loop(y), rtol=1e-12)
    np.testing.assert_allclose(ad.jit(ad.grad(loop))(y), ad.grad(loop)(y), rtol=1e-10, atol=1e-12)


def test_ranks_of_several_keys():
    n = LONGEST_MERGED + 5
    rng = np.random.default_rng(4)
    keys = rng.integers(0, 5, (3, n)).astype(float)
    same(ad.jit(np.lexsort)(keys), np.lexsort(keys))
    whole = rng.integers(-30, 30, n)
    for found, expected in zip(
        ad.jit(lambda k: np.unique(k, return_inverse=True))(whole), np.unique(whole, return_inverse=True), strict=True
    ):
        same(found, expected)
