"""Convolutions and windows are kernels: a factor with few elements as terms, a longer one as a sum over windows."""

import numpy as np
import pytest

import adjoint as ad

LENGTHS = [(5, 3), (3, 5), (1, 4), (4, 1), (7, 7), (40, 16), (40, 17), (17, 40)]


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "uint8"])
def test_all_modes(dtype):
    rng = np.random.default_rng(0)
    pairs = [[rng.integers(0, 9, n).astype(dtype) for n in lengths] for lengths in LENGTHS]

    def f(pairs):
        return [[np.convolve(a, v, mode) for mode in ("full", "same", "valid")] + [np.correlate(a, v, "full")] for a, v in pairs]

    compiled = ad.jit(f)
    for got, wanted in zip(compiled(pairs), f(pairs), strict=True):
        for one, other in zip(got, wanted, strict=True):
            assert one.dtype == other.dtype
            np.testing.assert_array_equal(one, other)  # of whole numbers: any order of the sums is exact
    assert "calls NumPy" not in compiled.report()


@pytest.mark.parametrize("n", [3, 20])
def test_infinities_do_not_meet_the_zeros_around(n):
    a, v = np.arange(30.0), np.ones(n)
    a[0], v[-1] = np.inf, np.nan
    np.testing.assert_array_equal(ad.jit(lambda a, v: np.convolve(a, v))(a, v), np.convolve(a, v))


@pytest.mark.parametrize("m", [3, 20])
def test_derivatives(m):
    rng = np.random.default_rng(1)
    a, v = rng.normal(size=(2, 25)), rng.normal(size=m)

    def f(a, v):
        return sum(np.sum(np.convolve(row, v, mode) ** 2) for row in a for mode in ("full", "same", "valid"))

    compiled = ad.jit(ad.grad(f, (0, 1)))
    for got, wanted in zip(compiled(a, v), ad.grad(f, (0, 1))(a, v), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-12)
    assert "calls NumPy" not in compiled.report()


def test_batches():
    rng = np.random.default_rng(2)
    a, v = rng.normal(size=(4, 9)), rng.normal(size=(4, 3))
    for axes in ((0, 0), (0, None), (None, 0)):
        args = [x if axis == 0 else x[0] for x, axis in zip((a, v), axes, strict=True)]
        f = ad.vmap(np.convolve, in_axes=axes)
        np.testing.assert_allclose(ad.jit(f)(*args), f(*args), rtol=1e-14)


@pytest.mark.parametrize(("shape", "width", "axes"), [((9,), 3, 0), ((6, 7), (2, 3), (0, 1)), ((30,), 20, 0), ((3, 8), 4, 1)])
def test_windows(shape, width, axes):
    x = np.random.default_rng(3).normal(size=shape)

    def f(x):
        windows = np.lib.stride_tricks.sliding_window_view(x, width, axes)
        return np.sum(np.std(windows, axis=-1) ** 2 * windows[..., 0])

    compiled = ad.jit(ad.value_and_grad(f))
    (value, gradient), (wanted, slope) = compiled(x), ad.value_and_grad(f)(x)
    np.testing.assert_allclose(value, wanted, rtol=1e-13)
    np.testing.assert_allclose(gradient, slope, rtol=1e-12)
    assert "calls NumPy" not in compiled.report()


def test_windows_of_an_array_that_is_written_to_afterwards():
    def f(x):
        y = x * 2.0
        windows = np.lib.stride_tricks.sliding_window_view(y, 3)
        before = windows.sum(axis=1)
        return before, y + 1.0, windows + 0.0

    x = np.arange(6.0)
    for got, wanted in zip(ad.jit(f)(x), f(x), strict=True):
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("dtype", ["f4", "f8", "i8"])
@pytest.mark.parametrize(
    ("lengths", "calls"),
    [((255, 255), False), ((256, 256), True), ((1023, 256), True), ((1024, 256), False), ((900, 700), True)],
)
def test_two_long_factors(lengths, calls, dtype):
    rng = np.random.default_rng(4)
    a, v = (rng.integers(-9, 9, n).astype(dtype) for n in lengths)
    compiled = ad.jit(lambda a, v: np.convolve(a, v))
    np.testing.assert_array_equal(compiled(a, v), np.convolve(a, v))
    assert ("calls NumPy" in compiled.report()) == (calls and dtype != "i8")
    if dtype == "f8":
        f = lambda a, v: np.sum(np.convolve(a, v) ** 2)
        np.testing.assert_allclose(ad.jit(ad.grad(f))(a, v), ad.grad(f)(a, v), rtol=1e-12)
        rows = np.stack([a, -a])
        np.testing.assert_array_equal(ad.jit(ad.vmap(lambda a: np.convolve(a, v)))(rows)[1], -np.convolve(a, v))
