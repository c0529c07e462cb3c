"""scipy.signal on traced values: SciPy's values, and derivatives by signals and coefficients."""

import numpy as np
import pytest
import scipy.signal

import adjoint as ad
from adjoint.core.errors import UnsupportedError
from adjoint.scipy import signal

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal(40), RNG.standard_normal(9)
IMAGE, KERNEL = RNG.standard_normal((7, 6)), RNG.standard_normal((3, 4))
WEIGHTS = np.cos(np.arange(400))
B, A = scipy.signal.butter(3, 0.3)
SOS = scipy.signal.butter(4, 0.3, output="sos")
SMOOTH = np.array([0.6, 0.3, 0.1])  # no zero on the unit circle
ZI = np.array([0.1, 0.2, 0.3])
FREE = np.array([1, 1, 1, 0, 1, 1])  # the coefficients of sections that may differ from 1


def total(y):
    flat = y.reshape(-1)
    return (flat * WEIGHTS[: flat.shape[0]]).sum()


def both(results):
    return total(results[0]) + total(results[1])


CASES = {
    "lfilter": (lambda s, v: s.lfilter(B, A, v), X),
    "lfilter by b": (lambda s, v: s.lfilter(v, A, X), B),
    "lfilter by a": (lambda s, v: s.lfilter(B, v, X), A),
    "lfilter, not recursive": (lambda s, v: s.lfilter(B, [2.0], v), X),
    "lfilter along an axis": (lambda s, v: s.lfilter(B, A, v, axis=0), IMAGE),
    "lfilter of few samples": (lambda s, v: s.lfilter(B, A, v, zi=ZI)[1], X[:2]),
    "lfilter by its state": (lambda s, v: both(s.lfilter(B, A, X, zi=v)), ZI),
    "lfilter to its state": (lambda s, v: both(s.lfilter(B, A, v, zi=ZI)), X),
    "lfilter_zi": (lambda s, v: s.lfilter_zi(B, v), A),
    "lfiltic": (lambda s, v: s.lfiltic(B, v, [1.0, 2.0, 3.0]), A),
    "filtfilt": (lambda s, v: s.filtfilt(B, A, v), X),
    "filtfilt by a": (lambda s, v: s.filtfilt(B, v, X), A),
    "filtfilt by Gustafsson": (lambda s, v: s.filtfilt(B, A, v, method="gust"), X),
    "sosfilt": (lambda s, v: s.sosfilt(SOS, v), X),
    "sosfilt by its sections": (lambda s, v: s.sosfilt(1 - FREE + v * FREE, X), SOS * FREE),
    "sosfiltfilt": (lambda s, v: s.sosfiltfilt(SOS, v), X),
    "convolve": (lambda s, v: s.convolve(v, Y, "same"), X),
    "convolve, the second longer": (lambda s, v: s.convolve(Y, v, "valid"), X),
    "convolve images": (lambda s, v: s.convolve(v, KERNEL, "same"), IMAGE),
    "convolve by the kernel": (lambda s, v: s.convolve(IMAGE, v, "valid"), KERNEL),
    "convolve by Fourier": (lambda s, v: s.convolve(IMAGE, v, "full", "fft"), KERNEL),
    "correlate": (lambda s, v: s.correlate(v, Y, "valid"), X),
    "correlate, the second longer": (lambda s, v: s.correlate(Y, v, "valid"), X),
    "correlate to the same length": (lambda s, v: s.correlate(v, Y[:4], "same"), X),
    "correlate images": (lambda s, v: s.correlate(v, KERNEL), IMAGE),
    "fftconvolve": (lambda s, v: s.fftconvolve(v, Y), X),
    "oaconvolve": (lambda s, v: s.oaconvolve(v, Y), X),
    **{
        f"convolve2d, {mode}, {boundary}": (
            lambda s, v, mode=mode, boundary=boundary: s.convolve2d(v, KERNEL, mode, boundary, 0.5),
            IMAGE,
        )
        for mode in ("full", "same", "valid")
        for boundary in ("fill", "wrap", "symm")
    },
    "correlate2d": (lambda s, v: s.correlate2d(IMAGE, v, "same", "wrap"), KERNEL),
    "savgol_filter": (lambda s, v: s.savgol_filter(v, 7, 3), X),
    "savgol_filter, a derivative": (lambda s, v: s.savgol_filter(v, 7, 3, mode="nearest", deriv=1), X),
    "detrend": (lambda s, v: s.detrend(v), X),
    "hilbert": (lambda s, v: abs(s.hilbert(v)), X),
    "welch": (lambda s, v: s.welch(v, nperseg=16)[1], X),
    "periodogram": (lambda s, v: s.periodogram(v)[1], X),
    "csd": (lambda s, v: abs(s.csd(v, X[::-1], nperseg=16)[1]), X),
    "coherence": (lambda s, v: s.coherence(v, X[::-1], nperseg=16)[1], X),
    "stft": (lambda s, v: abs(s.stft(v, nperseg=16)[2]), X),
    "spectrogram": (lambda s, v: s.spectrogram(v, nperseg=16)[2], X),
    "resample": (lambda s, v: s.resample(v, 25), X),
    "decimate": (lambda s, v: s.decimate(v, 2), X),
    "resample_poly": (lambda s, v: s.resample_poly(v, 3, 2), X),
    "upfirdn": (lambda s, v: s.upfirdn([1.0, 2.0], v, 2, 3), X),
    "upfirdn by the filter": (lambda s, v: s.upfirdn(v, IMAGE, 3, 2, axis=0), Y[:4]),
    "medfilt": (lambda s, v: s.medfilt(v, 5), X),
    "wiener": (lambda s, v: s.wiener(v, 5), X),
    "deconvolve": (lambda s, v: s.deconvolve(v, Y[:4])[0], X),
    "lombscargle": (lambda s, v: s.lombscargle(np.arange(40.0), v, np.array([0.5, 1.0])), X),
    "czt": (lambda s, v: abs(s.czt(v, 12)), X),
    "butter": (lambda s, v: both(s.butter(3, v)), np.array(0.3)),
    "butter, sections": (lambda s, v: s.butter(3, v, output="sos"), np.array(0.3)),
    "butter, a band": (lambda s, v: s.butter(2, v, "band")[0], np.array([0.2, 0.4])),
    "cheby1": (lambda s, v: s.cheby1(3, v, 0.3)[1], np.array(1.0)),
    "iirnotch": (lambda s, v: s.iirnotch(v, 30.0)[0], np.array(0.3)),
    "freqz": (lambda s, v: abs(s.freqz(v, A, 20)[1]), SMOOTH),
    "group_delay": (lambda s, v: s.group_delay((v, A), 10)[1], SMOOTH),
    "bilinear": (lambda s, v: s.bilinear(v, [1.0, 2, 3])[0], np.array([1.0, 2.0])),
    "tf2ss": (lambda s, v: s.tf2ss([1.0, 2.0], v)[0], np.array([1.0, 2.0, 3.0])),
    "cont2discrete": (
        lambda s, v: s.cont2discrete((v, np.ones((2, 1)), np.ones((1, 2)), np.zeros((1, 1))), 0.1)[0],
        np.array([[-1.0, 0.2], [0.1, -2.0]]),
    ),
    "chirp": (lambda s, v: s.chirp(np.arange(10.0), v, 5.0, 2.0), np.array(0.3)),
    "gausspulse": (lambda s, v: s.gausspulse(np.linspace(-1e-3, 1e-3, 9), v), np.array(1000.0)),
}


def scalar(name, of):
    f, _ = CASES[name]
    return lambda v: y if np.ndim(y := f(of, v)) == 0 else total(y)


@pytest.mark.parametrize("name", CASES)
def test_signals(name):
    at = CASES[name][1]
    value, slope = ad.value_and_grad(scalar(name, signal))(at)
    wanted = scalar(name, scipy.signal)(at)
    assert scalar(name, signal)(at) == wanted  # plain numbers go to SciPy
    np.testing.assert_allclose(value, wanted, rtol=1e-9, atol=1e-10)
    near = ad.finite_difference(scalar(name, scipy.signal), at)
    scale = np.max(np.abs(near))
    np.testing.assert_allclose(slope, near, rtol=1e-5, atol=2e-6 * scale)
    np.testing.assert_allclose(ad.jit(ad.grad(scalar(name, signal)))(at), slope, rtol=1e-7, atol=1e-9 * scale)
    _, along = ad.jvp(scalar(name, signal), (at,), (np.cos(at),))
    np.testing.assert_allclose(along, np.sum(slope * np.cos(at)), rtol=1e-7, atol=1e-9 * scale)


@pytest.mark.parametrize("name", ["lfilter by a", "lfilter by b", "filtfilt by a", "welch", "butter", "convolve by the kernel"])
def test_second_order(name):
    at = CASES[name][1]
    slope = ad.grad(scalar(name, signal))
    _, found = ad.jvp(slope, (at,), (np.cos(at),))
    h = 1e-6
    np.testing.assert_allclose(found, (slope(at + h * np.cos(at)) - slope(at - h * np.cos(at))) / (2 * h), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("by", ["x", "b", "a", "all"])
def test_filters_of_a_batch(by):
    rng = np.random.default_rng(1)
    batch = {"b": B + 0.01 * rng.standard_normal((5, 4)), "a": A + 0.01 * rng.standard_normal((5, 4))}
    batch["x"] = rng.standard_normal((5, 40))
    one = {"b": B, "a": A, "x": X}
    mapped = [k for k in ("b", "a", "x") if by in (k, "all")]
    args = [batch[k] if k in mapped else one[k] for k in ("b", "a", "x")]
    axes = tuple(0 if k in mapped else None for k in ("b", "a", "x"))
    f = lambda b, a, x: ad.grad(lambda a: total(signal.lfilter(b, a, x)) ** 2)(a)
    wanted = [f(*[v[i] if axis == 0 else v for v, axis in zip(args, axes, strict=True)]) for i in range(5)]
    np.testing.assert_allclose(ad.vmap(f, axes)(*args), wanted, rtol=1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128])
def test_dtypes_of_filters(dtype):
    x = X.astype(dtype)
    found, _ = ad.jvp(lambda x: signal.lfilter(B.astype(dtype), A.astype(dtype), x), (x,), (x,))
    wanted = scipy.signal.lfilter(B.astype(dtype), A.astype(dtype), x)
    assert found.dtype == wanted.dtype
    np.testing.assert_allclose(found, wanted, rtol=1e-4 if dtype is np.float32 else 1e-12, atol=1e-6)


def test_refusals():
    with pytest.raises(UnsupportedError, match="upfirdn"):
        ad.grad(lambda x: signal.upfirdn([1.0], x, mode="reflect").sum())(X)
    for args in ((np.ones((2, 2)), A), (B, np.ones(0))):
        with pytest.raises(ValueError, match="non-empty 1d array"):
            ad.grad(lambda x, args=args: signal.lfilter(*args, x).sum())(X)
    with pytest.raises(ValueError, match="valid"):
        ad.grad(lambda x: signal.convolve(x, np.ones((9, 2)), "valid").sum())(IMAGE)
