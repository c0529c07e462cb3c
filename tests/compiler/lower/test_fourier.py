"""Fourier transforms in compiled programs: without a call of Python, as NumPy has them, for any length, axis and dtype."""

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import adjoint as ad
from adjoint.compiler.lower import pocketfft
from adjoint.compiler.lower.fuse import Lowering

RNG = np.random.default_rng(0)


def draw(dtype, *shape):
    x = RNG.normal(size=shape)
    return (x + 1j * RNG.normal(size=shape) if np.dtype(dtype).kind == "c" else x).astype(dtype)


def close(a, b):
    assert (a.dtype, a.shape) == (b.dtype, b.shape)
    eps = np.finfo(b.dtype).eps
    np.testing.assert_allclose(a, b, rtol=0, atol=64 * eps * max(1.0, np.max(np.abs(b), initial=0)))


def native(f, *args):
    compiled = ad.jit(f)
    result = compiled(*args)
    assert "calls NumPy" not in compiled.report()
    return result


def check(f, *args):
    close(native(f, *args), f(*args))
    weights = draw(np.complex128, *np.shape(f(*args)))
    loss = lambda *args: np.sum(np.abs(f(*args) - weights) ** 2)
    close(native(ad.grad(loss), *args), ad.grad(loss)(*args))


C, R = np.complex128, np.float64


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    st.sampled_from(["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]),
    st.sampled_from([1, 2, 3, 4, 5, 7, 8, 12, 16, 31, 36]),
    st.sampled_from([(), (3,), (2, 3)]),
    st.sampled_from(["backward", "ortho", "forward"]),
    st.booleans(),
    st.data(),
)
def test_along_an_axis(name, n, rest, norm, single, data):
    axis = data.draw(st.integers(0, len(rest)))
    dtypes = (np.complex64, np.float32) if single else (C, R)
    dtype = dtypes[1] if name in ("rfft", "ihfft") else data.draw(st.sampled_from(dtypes))
    x = draw(dtype, *rest[:axis], n, *rest[axis:])
    function = getattr(np.fft, name)
    if name in ("irfft", "hfft") and n == 1:
        function = lambda x, **how: getattr(np.fft, name)(x, 1, **how)
    f = lambda x: function(x, axis=axis, norm=norm)
    compiled = ad.jit(f)
    close(compiled(x), f(x))
    assert "calls NumPy" not in compiled.report()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft"])
@pytest.mark.parametrize("shape", [(16,), (15,), (6, 5), (101,)])
def test_derivatives(name, shape):
    check(getattr(np.fft, name), draw(R if name == "rfft" else C, *shape))


@pytest.mark.parametrize(
    "f",
    [
        lambda z: np.fft.fft2(z),
        lambda z: np.fft.ifftn(z, axes=(0, 2), norm="ortho"),
        lambda z: np.fft.rfftn(z.real),
        lambda z: np.fft.irfft2(z),
        lambda z: np.fft.fft(z, 9),
        lambda z: np.fft.fft(z, 3, axis=0),
        lambda z: np.fft.fftshift(np.fft.fft(z[::2, ::-1].T)),
        lambda z: np.fft.ifft(np.fft.fft(z) * np.fft.fft(z.real)),
    ],
)
def test_several_axes_paddings_and_views(f):
    check(f, draw(C, 4, 3, 6))


@pytest.mark.parametrize("kind", ["scan", "loop"])
def test_in_loops(kind):
    k = 1j * np.arange(17)

    def f(u):
        step = lambda u: u - 0.01 * u * np.fft.irfft(k * np.fft.rfft(u), 32)
        if kind == "scan":
            return ad.scan(lambda u, _: (step(u), None), u, np.arange(20))[0]
        for _ in range(20):
            u = step(u)
        return u

    check(f, 0.1 * draw(R, 32))


@pytest.mark.parametrize("n", [64, 100, 127, 1024])
def test_accuracy(n):
    """Within some units in the last place of the greatest, times the logarithm of the length."""
    x = draw(C, n)
    got = native(np.fft.fft, x)
    with mpmath.workdps(40):
        root = [mpmath.expjpi(mpmath.mpf(-2 * k) / n) for k in range(n)]
        terms = [mpmath.mpc(z) for z in x]
        for k in (0, 1, n // 3, n - 1):
            exact = mpmath.fsum(terms[j] * root[j * k % n] for j in range(n))
            assert abs(exact - mpmath.mpc(got[k])) < 2 * np.finfo(float).eps * np.log2(n) * np.linalg.norm(x)


def test_the_functions_are_found():
    for routine, chars in (("fft", "DF"), ("ifft", "DF"), ("irfft", "DF"), ("rfft_n_even", "df"), ("rfft_n_odd", "df")):
        assert all(pocketfft.loop(routine, char) is not None for char in chars)
    assert pocketfft.loop("fft", "d") is None
    assert pocketfft.loop("no_such_function", "D") is None


def test_without_them_a_transform_is_a_call(monkeypatch):
    monkeypatch.setattr(Lowering, "has_transforms", False)
    x = draw(C, 14)
    compiled = ad.jit(lambda x: 3 * np.fft.fft(x))
    close(compiled(x), 3 * np.fft.fft(x))
    assert "calls NumPy for fft" in compiled.report()


def test_empty_arrays():
    close(ad.jit(lambda x: np.fft.fft(x, axis=1))(np.zeros((0, 4), C)), np.fft.fft(np.zeros((0, 4), C), axis=1))
    with pytest.raises(ValueError, match="FFT data points"):
        ad.jit(np.fft.fft)(np.zeros((3, 0), C))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", ["float16", "float32", "complex64", "longdouble", "clongdouble"])
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft", "fft2", "rfftn", "irfftn"])
def test_other_precisions(name, dtype):
    """Those without native code are calls of NumPy."""
    f, x = getattr(np.fft, name), draw(dtype, 2, 4)
    if name in ("rfft", "ihfft", "rfftn") and x.dtype.kind == "c":
        pytest.skip("a transform of real numbers")
    close(ad.jit(f)(x), f(x))
    g = ad.grad(lambda x: np.sum(np.abs(f(x)) ** 2, dtype=float))
    found, wanted = ad.jit(g)(x), g(x)
    assert found.dtype == wanted.dtype == x.dtype
    np.testing.assert_allclose(found, wanted, rtol=0, atol=64 * np.finfo(x.dtype).eps * np.max(np.abs(wanted)))
