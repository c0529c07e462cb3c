"""reduce of ufuncs that have no function of their own: np.logaddexp.reduce is the usual way to write logsumexp."""

import warnings

import numpy as np
import pytest
from harness import check

import adjoint as ad


@pytest.mark.sampled(3)
@pytest.mark.parametrize("ufunc", [np.logaddexp, np.logaddexp2, np.hypot])
@pytest.mark.parametrize("shape", [(1,), (2,), (5,), (3, 4), (2, 3, 2)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_reduce(ufunc, shape, keepdims, rng):
    axes = [None, *range(-1, len(shape))]
    if len(shape) == 3:
        axes += [(0, 2), (-1, 1)]
    for axis in axes:
        check(lambda x, axis=axis: ufunc.reduce(x, axis=axis, keepdims=keepdims), rng.uniform(0.5, 2, shape), rtol2=5e-4)


def test_default_axis_is_the_first(rng):
    check(lambda x: np.logaddexp.reduce(x), rng.normal(size=(3, 2)))


def test_far_apart_and_minus_infinity():
    x = np.array([-np.inf, 1000.0, 1000.0, -1000.0])
    np.testing.assert_allclose(ad.grad(np.logaddexp.reduce)(x), [0, 0.5, 0.5, 0])
    assert ad.vjp(np.logaddexp.reduce, np.zeros(0))[0] == -np.inf


@pytest.mark.parametrize("ufunc", [np.logaddexp, np.logaddexp2, np.hypot], ids=lambda u: u.__name__)
def test_initial_and_where(ufunc):
    x = np.linspace(0.3, 1.9, 12).reshape(3, 4)
    some = np.array([True, False, True, True])
    check(lambda x: ufunc.reduce(x, initial=1.5), x)
    check(lambda x: ufunc.reduce(x, axis=1, initial=0.5, where=some), x)
    check(lambda x: ufunc.reduce(x, axis=(0, 1), where=some, keepdims=True), x)


@pytest.mark.parametrize("ufunc", [np.subtract, np.divide, np.arctan2], ids=lambda u: u.__name__)
def test_any_ufunc_reduces_from_the_left(ufunc):
    x = np.linspace(0.3, 1.9, 12).reshape(3, 4)
    check(lambda x: ufunc.reduce(x), x)
    check(lambda x: ufunc.reduce(x, axis=0, initial=2.0, keepdims=True), x)
    check(lambda x: ufunc.reduceat(x, [0, 2, 1]), x)


@pytest.mark.parametrize("ufunc", [np.logaddexp, np.subtract, np.power], ids=lambda u: u.__name__)
def test_accumulate_of_nothing(ufunc):
    check(lambda x: ufunc.accumulate(x), np.zeros((0, 2)))


UNSAFE = {"casting": "unsafe"}
#: Calls that compute in the dtype that is asked for.
COMPUTED_IN = {
    "add": lambda x, dtype: np.add(x, x, dtype=dtype, **UNSAFE),
    "add a number": lambda x, dtype: np.add(x, 1.5, dtype=dtype, **UNSAFE),
    "multiply": lambda x, dtype: np.multiply(x, 2.5, dtype=dtype, **UNSAFE),
    "negative": lambda x, dtype: np.negative(x, dtype=np.dtype(dtype) if dtype != "?" else np.int8, **UNSAFE),
    "square": lambda x, dtype: np.square(x, dtype=dtype if dtype != "?" else np.uint8, **UNSAFE),
    "maximum": lambda x, dtype: np.maximum(x, 1.9, dtype=dtype, **UNSAFE),
    "remainder": lambda x, dtype: np.remainder(x, 2, dtype=dtype if dtype != "?" else np.int8, **UNSAFE),
    "outer": lambda x, dtype: np.multiply.outer(x, x, dtype=dtype, **UNSAFE),
    "matmul": lambda x, dtype: np.matmul(x, x, dtype=dtype, **UNSAFE),
    "vecdot": lambda x, dtype: np.vecdot(x, x, dtype=dtype if dtype != "?" else np.int8, **UNSAFE),
    "einsum": lambda x, dtype: np.einsum("ij,jk", x, x, dtype=dtype, **UNSAFE),
    "clip": lambda x, dtype: np.clip(x, 1, 3, dtype=dtype, **UNSAFE),
    "reduce": lambda x, dtype: np.add.reduce(x, dtype=dtype),
    "accumulate": lambda x, dtype: np.add.accumulate(x, dtype=dtype),
    "sum": lambda x, dtype: np.sum(x, dtype=dtype),
    "mean": lambda x, dtype: np.mean(x, dtype=dtype if dtype != "?" else int),
    "concatenate": lambda x, dtype: np.concatenate([x, x], dtype=dtype, **UNSAFE),
}


@pytest.mark.parametrize("call", COMPUTED_IN)
@pytest.mark.parametrize("dtype", ["?", "u1", "i4", "i8"])
@pytest.mark.parametrize("given", ["f8", "f4", "c16"])
def test_integers_have_no_derivative(call, dtype, given):
    """In no mode, though the result changes where the operands are converted."""
    x = np.array([[3.7, 1.2], [2.6, 0.4]], given)
    f = lambda x: COMPUTED_IN[call](x, dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # imaginary parts are left out
        try:
            expected = f(x)
        except TypeError:  # no order of complex numbers
            pytest.skip("not in NumPy")
        value = ad.vjp(f, x)[0]
        assert np.asarray(value).dtype == np.asarray(expected).dtype
        np.testing.assert_array_equal(value, expected)
        loss = lambda x: np.sum(np.sin(f(x) * 1.0)).real + np.sum(x.real**2)
        slope = 2 * x.real
        np.testing.assert_allclose(ad.grad(loss)(x), slope, rtol=1e-6)
        np.testing.assert_allclose(ad.jvp(loss, (x,), (np.ones_like(x),))[1], np.sum(slope), rtol=1e-6)
        np.testing.assert_allclose(ad.vmap(ad.grad(loss))(np.stack([x, x])), np.stack([slope, slope]), rtol=1e-6)
        np.testing.assert_allclose(ad.jit(ad.grad(loss))(x), slope, rtol=1e-6)
        if given != "c16":
            np.testing.assert_allclose(ad.hvp(loss)(x, np.ones_like(x)), 2.0, rtol=1e-6)


@pytest.mark.parametrize("dtype", ["u1", "i8"])
def test_piecewise_of_integers_has_no_derivative(dtype):
    """Its result has the dtype of its argument. An array of integers is traced in compiled functions only."""
    n = np.arange(4).astype(dtype)
    f = lambda w, n: np.sum(np.piecewise(n, [n > 1], [lambda t: t * w, 0])) * 1.0 + w
    assert ad.jit(f)(2.5, n) == f(2.5, n) == 14.5
    for g in (ad.jit(ad.grad(f)), ad.grad(ad.jit(f)), ad.jit(lambda w, n: ad.jvp(lambda w: f(w, n), (w,), (1.0,))[1])):
        assert g(2.5, n) == 1.0
