"""numpy.fft: every transform in every form, against differences and by its transpose."""

import numpy as np
import pytest
from harness import check, draw

import adjoint as ad
import adjoint.numpy as anp

NORMS = [None, "backward", "ortho", "forward"]


def sample(rng, shape, dtype):
    return draw(rng, shape, dtype=dtype)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name, dtype", [(n, d) for n in ("fft", "ifft", "irfft", "hfft") for d in (float, complex)])
def test_one_axis(name, dtype, norm, rng):
    f = getattr(np.fft, name)
    check(lambda x: f(x, norm=norm), sample(rng, (4,), dtype))
    for n in (3, 4, 7):
        check(lambda x, n=n: f(x, n, norm=norm), sample(rng, (4,), dtype), order=1)
    check(lambda x: f(x, n=5, axis=0, norm=norm), sample(rng, (3, 2), dtype), order=1)
    check(lambda x: f(x, None, -2), sample(rng, (2, 3, 2), dtype), order=1)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", ["rfft", "ihfft"])
def test_real_input(name, norm, rng):
    f = getattr(np.fft, name)
    for n in (None, 1, 2, 3, 6, 7):
        check(lambda x, n=n: f(x, n, norm=norm), sample(rng, (5,), float))
    check(lambda x: f(x, axis=0, norm=norm), sample(rng, (4, 2), float))


@pytest.mark.parametrize("dtype", [float, complex])
@pytest.mark.parametrize("name", ["fftn", "ifftn", "fft2", "ifft2", "irfftn", "irfft2"])
def test_several_axes(name, dtype, rng):
    f = getattr(np.fft, name)
    x = sample(rng, (3, 2, 4), dtype)
    check(f, x)
    check(lambda x: f(x, axes=(0, 2), norm="ortho"), x, order=1)
    check(lambda x: f(x, (2, 5), (2, 0)), x, order=1)
    check(lambda x: f(x, s=(-1, 3), axes=(0, 1), norm="forward"), x, order=1)


@pytest.mark.parametrize("name", ["rfftn", "rfft2"])
def test_several_axes_of_real_input(name, rng):
    f = getattr(np.fft, name)
    x = sample(rng, (3, 2, 4), float)
    check(f, x)
    check(lambda x: f(x, axes=(0, 1), norm="ortho"), x)
    check(lambda x: f(x, (2, 5), (2, 0), "forward"), x)


def test_repeated_axis(rng):
    check(lambda x: np.fft.fftn(x, axes=(0, 0)), sample(rng, (3, 2), complex))
    check(lambda x: np.fft.ifftn(x, s=(2, 4), axes=(1, 1)), sample(rng, (2, 3), complex))


@pytest.mark.parametrize("axes", [None, 0, -1, (0, 1)])
@pytest.mark.parametrize("name", ["fftshift", "ifftshift"])
def test_shifts(name, axes, rng):
    check(lambda x: getattr(np.fft, name)(x, axes), sample(rng, (3, 4), float))
    check(lambda x: getattr(np.fft, name)(x, axes=axes), sample(rng, (5, 2), complex))


@pytest.mark.parametrize("n", [4, 5])
def test_round_trips(n, rng):
    x = sample(rng, (n,), float)
    for there, back in (("rfft", "irfft"), ("ihfft", "hfft")):
        jac = ad.jacobian(lambda x, t=there, b=back: getattr(np.fft, b)(getattr(np.fft, t)(x), n))(x)
        np.testing.assert_allclose(jac, np.eye(n), atol=1e-14)


def test_gradient_of_power_spectrum():
    x = np.array([1.0, -2.0, 0.5])
    g = ad.grad(lambda x: np.sum(np.abs(np.fft.fft(x)) ** 2))(x)
    np.testing.assert_allclose(g, 2 * 3 * x)  # Parseval


def test_float32():
    x = np.linspace(-1, 1, 6, dtype=np.float32)
    for f in (np.fft.fft, np.fft.rfft, lambda x: np.fft.irfft(x, 7), lambda x: np.fft.fft2(x.reshape(2, 3))):
        g = ad.grad(lambda x, f=f: np.sum(np.abs(f(x))))(x)
        assert g.dtype == np.float32
        assert ad.vjp(f, x)[0].dtype == f(x).dtype


def test_frequencies():
    np.testing.assert_array_equal(anp.fft.fftfreq(5, 0.1), np.fft.fftfreq(5, 0.1))
    np.testing.assert_allclose(ad.grad(lambda d: np.fft.fftfreq(4, d)[1])(0.5), -1 / (4 * 0.5**2))


def test_drop_in(rng):
    x = sample(rng, (2, 3), float)
    np.testing.assert_array_equal(anp.fft.fft(x), np.fft.fft(x))
    g = ad.grad(lambda t: np.real(anp.fft.fft([t, 2 * t])[0]))(1.0)
    assert g == 3.0
    assert set(np.fft.__all__) <= set(dir(anp.fft))


@pytest.mark.parametrize(
    "f, shape",
    [
        (lambda x: np.fft.fft(x, 0), (3,)),
        (lambda x: np.fft.fft(x, norm="no"), (3,)),
        (lambda x: np.fft.fft2(x, (1,)), (2, 2)),
        (np.fft.irfft, (1,)),
    ],
)
def test_errors_are_those_of_numpy(f, shape):
    x = np.ones(shape)
    with pytest.raises(ValueError) as plain:
        f(x)
    with pytest.raises(ValueError) as traced:
        ad.vjp(f, x)
    assert str(plain.value).split(";")[0] == str(traced.value).split(";")[0]


def test_complex_input_to_a_real_transform():
    with pytest.raises(TypeError):
        ad.vjp(np.fft.rfft, np.ones(3, complex))
