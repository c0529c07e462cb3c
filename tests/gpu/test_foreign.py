"""Ops without a kernel of ours: on the card by CuPy, where it computes as NumPy does; else on the host, which `report()` says."""

import numpy as np
import pytest
from gpu.test_jit import OnCard, check

import adjoint as ad

RNG = np.random.default_rng(0)
X, Z = RNG.normal(size=(6, 8)), RNG.normal(size=(6, 8)) + 1j * RNG.normal(size=(6, 8))
I = RNG.integers(-9, 9, (6, 8))


@pytest.fixture
def gpu():
    return OnCard()


THERE = {
    "fft": (np.fft.fft, X),
    "fft of complex numbers": (lambda z: np.fft.ifft(z, axis=0, norm="ortho"), Z),
    "fft of two axes": (lambda z: (np.fft.fft2(z), np.fft.ifftn(z)), Z),
    "rfft": (lambda x: np.fft.rfft(x, axis=0), X),
    "irfft": (lambda z: np.fft.irfft(z, 9), Z),
    "gradient through fft": (ad.grad(lambda x: np.sum(np.abs(np.fft.rfft(x * x)) ** 2)), X),
    "argsort": (lambda x: np.argsort(x, axis=0), X),
    "argmax and argmin": (lambda x: (np.argmax(x, axis=1), np.argmin(x)), X),
    "searchsorted": (lambda x: np.searchsorted(np.array([-1.0, 0.0, 0.5]), x, "right"), X),
    "convolve": (lambda x: (np.convolve(x[0], x[1][:3], "same"), np.convolve(x[2], x[3])), X),
    "roll": (lambda x: np.roll(x, (1, -2), (0, 1)), X),
    "cumulative sums of integers": (lambda i: np.cumsum(i, axis=1), I),
    "bits": (lambda i: (i & 3, i ^ 5, i | 1, ~i), I),
    "complex arithmetic": (lambda z: (z * z + np.exp(z), np.conj(z) / (2 + z), np.abs(z), z.real * z.imag), Z),
    "complex products": (lambda z: z @ z.T, Z),
    "integer division": (lambda i: (i // 4, i % 4, i // (i - i[0]), i % (i - i[0])), I),
}


@pytest.mark.parametrize("name", THERE)
def test_on_the_card(gpu, name):
    f, x = THERE[name]
    compiled = check(gpu, f, x, rtol=1e-11)
    assert "on the host" not in compiled.report()


def test_with_no_number(gpu):
    x = X.copy()
    x[2, 3] = x[4, 1] = np.nan
    check(gpu, lambda x: (np.argsort(x, axis=0), np.argmax(x, axis=1), np.argmin(x)), x)


HERE = {
    "cumulative sums": (lambda x: np.cumsum(x, axis=0), X, "cumsum"),
    "remainders of floats": (lambda x: x % 0.1, X, "remainder"),
    "along an index": (lambda x: np.take_along_axis(x, np.argsort(x, axis=0), axis=0), X, "take_along"),
    "a function of SciPy": (lambda x: ad.scipy.special.gammaln(x * x + 1), X, "gammaln"),
}


@pytest.mark.parametrize("name", HERE)
def test_on_the_host(gpu, name):
    """CuPy adds in an order that changes, wraps indices around, or has other last digits."""
    f, x, what = HERE[name]
    assert f"calls NumPy for {what} on the host, " in check(gpu, f, x).report()


def test_an_index_out_of_bounds_along_an_axis(gpu):
    f = ad.jit(lambda x, i: np.take_along_axis(x, i, axis=0))
    x, i = gpu.put((X, np.zeros((1, 8), int)))
    np.testing.assert_array_equal(gpu.get(f(x, i)), X[:1])
    with pytest.raises(IndexError, match="out of bounds"):
        f(*gpu.put((X, np.full((1, 8), 6))))
