"""Ops without a generated kernel: on the GPU through CuPy where it gives NumPy's results, else on the host."""

import numpy as np
import pytest
from gpu.test_jit import OnGPU, check
from on_device import same_bits

import adjoint as ad

RNG = np.random.default_rng(0)
X, Z = RNG.normal(size=(6, 8)), RNG.normal(size=(6, 8)) + 1j * RNG.normal(size=(6, 8))
I = RNG.integers(-9, 9, (6, 8))


@pytest.fixture
def gpu():
    return OnGPU()


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
    "shifts": (lambda i: (i << 3, i >> 1, 1 << abs(i), i >> abs(i)), I),
    "along an index": (lambda x: np.take_along_axis(x, np.argsort(x, axis=0), axis=0), X),
    "gradient along an index": (ad.grad(lambda x: np.sum(np.take_along_axis(x, np.argsort(x, axis=0)[:3] // 2, axis=0) ** 2)), X),
    "sort": (lambda x: (np.sort(x, axis=0), np.sort(x)), X),
    "cumulative sums": (lambda x: (np.cumsum(x, axis=0), np.cumsum(x, axis=1), np.cumsum(x)), X),
    "cumulative sums of singles": (lambda x: np.cumsum(x, axis=1), X.astype(np.float32)),
    "gradient through cumulative sums": (ad.grad(lambda x: np.sum(np.cumsum(x, axis=1) ** 2)), X),
    "cumulative products": (lambda x: (np.cumprod(x, axis=0), np.cumprod(x, axis=1)), X),
    "gradient through cumulative products": (ad.grad(lambda x: np.sum(np.cumprod(x, axis=0) * X + np.cumprod(x, axis=1))), X),
    "gradient through cumulative products with zeros": (ad.grad(lambda x: np.sum(np.cumprod(x, axis=1) * X)), np.round(X)),
    "cumulative products of many rows": (ad.grad(lambda x: np.sum(np.cumprod(np.tile(x * 0 + 1.01, (1, 700)), axis=1))), X),
    "gradient of sort": (ad.grad(lambda x: np.sum(np.sort(x) * X)), X),
    "gradient of sort with equal elements": (ad.grad(lambda x: np.sum(np.sort(x, axis=0) * X + np.sort(x) * X)), np.round(X)),
    "gradient of sort of singles": (ad.grad(lambda x: np.sum(np.sort(x, axis=0) * X.astype("f4"))), np.round(X).astype("f4")),
    "second derivatives of sort": (ad.grad(lambda x: np.sum(ad.grad(lambda x: np.sum(np.sort(x) ** 3))(x) ** 2)), np.round(X)),
    "running extrema": (lambda x: (np.maximum.accumulate(x, axis=0), np.minimum.accumulate(x, axis=1)), X),
    "gradient of running extrema": (ad.grad(lambda x: np.sum(np.maximum.accumulate(x, axis=1) ** 2 * X)), np.round(X)),
    "median": (lambda x: (np.median(x, axis=0), np.quantile(x, 0.3, axis=1), np.percentile(x, 70)), X),
    "gradient of median": (ad.grad(lambda x: np.sum(np.median(x, axis=0) ** 2) + np.quantile(x, 0.3)), np.round(X)),
    "gradient of det": (ad.grad(lambda x: np.linalg.det(x[:, :6])), X),
    "gradient of stacked dets": (ad.grad(lambda x: np.sum(np.linalg.det(x.reshape(3, 4, 4)) ** 2)), X),
    "gradient of det at singular matrices": (
        ad.grad(lambda x: np.sum(np.linalg.det(x.reshape(3, 4, 4)))),
        np.ones((6, 8)) + (X > 1),
    ),
    "second derivatives of det": (
        ad.grad(lambda x: np.sum(ad.grad(lambda x: np.linalg.det(x[:, :6]))(x) ** 2)),
        X,
    ),
    "gradient of eigh": (ad.grad(lambda x: np.sum(np.linalg.eigh(x @ x.T)[0] ** 3)), X),
    "gradient of eigh, with vectors": (ad.grad(lambda x: np.sum(np.abs(np.linalg.eigh(x @ x.T)[1][:, -1]) * X[:, 0])), X),
    "gradient of stacked eigh": (ad.grad(lambda x: np.sum(np.linalg.eigh(x.reshape(3, 4, 4))[0] ** 3)), X),
    "gradient of svd": (ad.grad(lambda x: np.sum(np.linalg.svd(x, full_matrices=False)[1] ** 3)), X),
    "integer division": (lambda i: (i // 4, i % 4, i // (i - i[0]), i % (i - i[0])), I),
}


@pytest.mark.parametrize("name", THERE)
def test_on_the_gpu(gpu, name):
    f, x = THERE[name]
    compiled = check(gpu, f, x, rtol=1e-5 if x.dtype == np.float32 else 1e-11)
    assert "on the host" not in compiled.report()


def test_with_no_number(gpu):
    x = X.copy()
    x[2, 3] = x[4, 1] = np.nan
    check(gpu, lambda x: (np.argsort(x, axis=0), np.argmax(x, axis=1), np.argmin(x)), x)


HERE = {
    "long cumulative products": (lambda x: np.cumprod(np.tile(x * 0 + 1, 100)), X, "cumprod"),
    "partition": (lambda x: np.partition(x, 3)[:, 3], X, "argpartition"),
    "a function of SciPy": (lambda x: ad.scipy.special.gammaln(x * x + 1), X, "gammaln"),
}


@pytest.mark.parametrize("name", HERE)
def test_on_the_host(gpu, name):
    """CuPy has another order, or other last digits; a product in parts may overflow."""
    f, x, what = HERE[name]
    assert f"calls NumPy for {what} on the host, " in check(gpu, f, x).report()


EDGES = np.array([0.0, -0.0, 1.0, -1.0, 0.1, -0.3, 7.5, 1e300, -1e-300, 5e-324, np.inf, -np.inf, np.nan, 3.0, 1e16, 0.7])


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_quotients_rounded_down(gpu, dtype):
    """Equal to NumPy's to the last bit, with signs of zeros; also by a number, inside or as an argument."""
    with np.errstate(all="ignore"):
        a = np.concatenate([EDGES, RNG.normal(size=40), np.round(RNG.normal(size=40) * 1000) / 10]).astype(dtype)
    f = ad.jit(lambda a, b, c: (a // b, a % b, a // 0.1, a % 0.1, 2.5 // b, -2.5 % b, a // c, c % a))
    args = a[:, None].copy(), a, 0.3
    with np.errstate(all="ignore"):
        wanted = [a[:, None] // a, a[:, None] % a, a // 0.1, a % 0.1, 2.5 // a, -2.5 % a, a // 0.3, 0.3 % a]
    x, y = gpu.put(args[:2])
    for found, right in zip(map(gpu.get, f(x, y, 0.3)), wanted, strict=True):
        right = np.asarray(right, dtype)
        same_bits(np.asarray(found).reshape(right.shape), right)
    assert "on the host" not in f.report()


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(
    "shape", [(1,), (31,), (33,), (64,), (65,), (1024,), (2081,), (40_000,), (3, 2081, 2), (5000, 100), (70, 5000)]
)
def test_long_cumulative_sums(gpu, shape, dtype):
    """In parts, in a fixed order; near to the exact ones, and the same on every run."""
    x = np.random.default_rng(0).normal(size=shape).astype(dtype)
    for axis in range(len(shape)):
        f = ad.jit(lambda x, axis=axis: np.cumsum(x, axis=axis))
        put = gpu.put(x)
        found = gpu.get(f(put))
        exact = np.cumsum(x.astype(np.longdouble), axis=axis)
        bound = np.finfo(dtype).eps * np.maximum.accumulate(np.cumsum(np.abs(x.astype(np.longdouble)), axis=axis), axis=axis)
        assert np.all(np.abs(found - exact) <= 200 * bound)
        for _ in range(3):
            same_bits(gpu.get(f(put)), found)
        assert "on the host" not in f.report()


def test_cumulative_sums_with_infinities(gpu):
    x = np.ones(5000)
    x[[1000, 3000, 4500]] = np.inf, -np.inf, np.nan
    found = gpu.get(ad.jit(np.cumsum)(gpu.put(x)))
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(found, np.cumsum(x))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("shape", [(1,), (65,), (5000,), (3, 2081, 2), (5000, 100)])
def test_long_running_extrema(gpu, shape, dtype):
    """In parts; equal to NumPy's, with nan, infinities and zeros of both signs."""
    x = np.random.default_rng(0).normal(size=shape).astype(dtype)
    x.flat[:: max(7, x.size // 5)] = np.inf
    for special in (None, np.nan):
        x.flat[x.size // 2] = special if special is not None else -0.0
        for axis in range(len(shape)):
            f = ad.jit(lambda x, axis=axis: (np.maximum.accumulate(x, axis=axis), np.minimum.accumulate(x, axis=axis)))
            for found, right in zip(f(gpu.put(x)), (np.maximum, np.minimum), strict=True):
                np.testing.assert_array_equal(gpu.get(found), right.accumulate(x, axis=axis))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_means_over_equal_elements(gpu, dtype):
    """Groups of all lengths, infinities and nan; the same bits as on the host and on every run."""
    rng = np.random.default_rng(0)
    x = np.sort(rng.integers(0, 60, size=(7, 300, 3)), axis=1).astype(dtype)
    x[0], x[1, -5:], x[2, -3:] = 4.0, np.inf, np.nan
    weights = rng.normal(size=x.shape).astype(dtype)
    f = ad.grad(lambda x: np.sum(np.sort(x, axis=1) * weights))
    found = gpu.get(ad.jit(f)(gpu.put(x)))
    same_bits(found, np.asarray(ad.jit(f)(x)))
    same_bits(found, gpu.get(ad.jit(f)(gpu.put(x))))


def test_repeated_eigenvalues(gpu):
    """Clusters of equal ones, found on the GPU."""
    w = np.diag([1.0, 1.0, 1.0, 2.0, 3.0, 3.0])
    f = ad.grad(lambda a: np.sum(np.linalg.eigh(a)[0] ** 3))
    assert "on the host" not in check(gpu, f, w, rtol=1e-11).report()


def test_an_index_out_of_bounds_along_an_axis(gpu):
    f = ad.jit(lambda x, i: np.take_along_axis(x, i, axis=0))
    x, i = gpu.put((X, np.zeros((1, 8), int)))
    np.testing.assert_array_equal(gpu.get(f(x, i)), X[:1])
    with pytest.raises(IndexError, match="out of bounds"):
        f(*gpu.put((X, np.full((1, 8), 6))))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("shape", [(1, 1), (3, 31), (70, 33), (33, 64), (5000, 100), (31, 1000)])
def test_sequential_along_rows(gpu, shape, dtype):
    """Rows of every length: products and running extrema are NumPy's to the last bit, and the gradients are near the CPU's."""
    x = np.random.default_rng(0).uniform(0.9, 1.1, shape).astype(dtype)
    for f in (lambda x: np.cumprod(x, axis=1), lambda x: np.maximum.accumulate(x, axis=1)):
        same_bits(gpu.get(ad.jit(f)(gpu.put(x))), f(x))
        g = ad.grad(lambda x, f=f: np.sum(np.sin(f(x))))
        np.testing.assert_allclose(gpu.get(ad.jit(g)(gpu.put(x))), g(x), rtol=1e-3 if dtype == "float32" else 1e-11)
