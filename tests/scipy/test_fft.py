"""Fourier transforms under SciPy's names."""

import numpy as np
import pytest
import scipy.fft

import adjoint as ad
from adjoint.core.errors import UnsupportedError
from adjoint.scipy import fft

X = np.random.default_rng(0).normal(size=(4, 6))


@pytest.mark.parametrize("name", fft._NAMES)
@pytest.mark.parametrize("options", [{}, {"norm": "ortho"}, {"workers": 1, "overwrite_x": False}])
def test_as_scipy(name, options):
    ours, theirs = getattr(fft, name), getattr(scipy.fft, name)
    np.testing.assert_array_equal(ours(X, **options), theirs(X, **options))
    value, slope = ad.jvp(lambda x: ours(x, **options), (X,), (2 * X,))
    np.testing.assert_allclose(value, theirs(X, **options), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(slope, 2 * theirs(X, **options), rtol=1e-12, atol=1e-12)


REAL = ["dct", "idct", "dst", "idst"]
OPTIONS = [
    {},
    {"axis": 0},
    {"n": 3},
    {"n": 9, "axis": 0, "norm": "ortho"},
    {"norm": "ortho", "orthogonalize": False},
    {"norm": "forward", "orthogonalize": True},
    {"norm": "backward", "orthogonalize": True, "workers": 1},
]
OPTIONS_OF_SEVERAL = [
    {},
    {"axes": 0},
    {"axes": (1, 0), "norm": "ortho"},
    {"s": 3},
    {"s": (5, -1), "axes": (-2, 1), "norm": "forward"},
    {"s": (2, 2), "norm": "ortho", "orthogonalize": False},
    {"axes": (), "orthogonalize": True},
]


def check_linear(ours, theirs, x):
    """Value and both modes of a linear function, eager, compiled and batched: exactly SciPy's values."""
    expected, step = theirs(x), np.random.default_rng(1).normal(size=x.shape).astype(x.dtype)
    np.testing.assert_array_equal(ours(x), expected)
    value, tangent = ad.jvp(ours, (x,), (step,))
    np.testing.assert_array_equal(value, expected)
    rounding = 1e-5 if x.dtype == np.float32 else 1e-12
    close = {"rtol": rounding, "atol": rounding * max(1.0, np.max(np.abs(expected), initial=0.0))}
    np.testing.assert_allclose(tangent, theirs(step), **close)
    assert value.dtype == tangent.dtype == expected.dtype
    w = np.random.default_rng(2).normal(size=expected.shape).astype(expected.dtype)
    slope = ad.grad(lambda x: np.sum(ours(x) * w))(x)
    np.testing.assert_allclose(np.sum(slope * step), np.sum(w * theirs(step)), rtol=100 * rounding, atol=100 * rounding)
    assert slope.dtype == x.dtype
    np.testing.assert_allclose(ad.jit(ad.grad(lambda x: np.sum(ours(x) * w)))(x), slope, **close)
    np.testing.assert_allclose(ad.vmap(ours)(np.stack([x, step])), [expected, theirs(step)], **close)


@pytest.mark.parametrize("type", [1, 2, 3, 4])
@pytest.mark.parametrize("name", REAL)
def test_cosine_and_sine_transforms(name, type):
    ours, theirs = getattr(fft, name), getattr(scipy.fft, name)
    for options in OPTIONS:
        check_linear(lambda x, o=options: ours(x, type, **o), lambda x, o=options: theirs(x, type, **o), X)
    ours, theirs = getattr(fft, f"{name}n"), getattr(scipy.fft, f"{name}n")
    for options in OPTIONS_OF_SEVERAL:
        check_linear(lambda x, o=options: ours(x, type, **o), lambda x, o=options: theirs(x, type, **o), X)


@pytest.mark.parametrize("name", REAL)
@pytest.mark.parametrize(
    "x",
    [
        X.astype(np.float32),
        np.asfortranarray(X),
        X[::2, ::-1],
        X[:, :2],
        X.reshape(2, 3, 4),
        X[0],
        X[:0],
    ],
    ids=["float32", "Fortran", "strided", "short", "three axes", "one axis", "empty"],
)
def test_arrays_of_all_kinds(name, x):
    for type in (1, 2, 3, 4):
        check_linear(lambda x, t=type: getattr(fft, name)(x, t), lambda x, t=type: getattr(scipy.fft, name)(x, t), x)


@pytest.mark.parametrize("name", REAL)
def test_one_element(name):
    for type in (2, 3, 4):
        check_linear(lambda x, t=type: getattr(fft, name)(x, t), lambda x, t=type: getattr(scipy.fft, name)(x, t), X[:, :1])


@pytest.mark.parametrize("name", REAL)
@pytest.mark.parametrize("options", [{}, {"norm": "ortho"}, {"orthogonalize": True}, {"norm": "ortho", "orthogonalize": False}])
def test_complex_arrays(name, options):
    z, theirs = X + 1j * X[::-1], getattr(scipy.fft, name)
    f = lambda z: getattr(fft, name)(z, 3, **options)
    value, tangent = ad.jvp(f, (z,), (1j * z,))
    np.testing.assert_allclose(value, theirs(z, 3, **options), rtol=1e-14, atol=1e-14)
    np.testing.assert_allclose(tangent, 1j * theirs(z, 3, **options), rtol=1e-14, atol=1e-14)
    slope = ad.grad(lambda z: np.sum(np.abs(f(z)) ** 2))(z)
    np.testing.assert_allclose(np.real(np.sum(slope * z)), 2 * np.sum(np.abs(value) ** 2), rtol=1e-12)


def test_whole_numbers_of_a_batch():
    whole = np.arange(12).reshape(3, 4)
    np.testing.assert_array_equal(ad.vmap(fft.dct)(whole), scipy.fft.dct(whole))
    np.testing.assert_array_equal(ad.jit(fft.dct)(whole), scipy.fft.dct(whole))


def test_second_order():
    for name in REAL:
        ad.check_grads(lambda x, name=name: getattr(fft, name)(x, 2, norm="ortho") ** 3, X)


@pytest.mark.parametrize(
    "call",
    [
        lambda fft, x: fft.dct(x, 5),
        lambda fft, x: fft.dct(x, norm="orthogonal"),
        lambda fft, x: fft.dst(x, n=0),
        lambda fft, x: fft.dctn(x, axes=(0, 0)),
        lambda fft, x: fft.dctn(x, s=(1, 2, 3)),
        lambda fft, x: fft.dctn(x, s=(1, 2), axes=0),
        lambda fft, x: fft.dct(x[:, :0]),
    ],
)
def test_what_scipy_refuses(call):
    with pytest.raises(ValueError):
        call(scipy.fft, X)
    with pytest.raises(ValueError):
        ad.grad(lambda x: np.sum(call(fft, x)))(X)


@pytest.mark.parametrize("name", [*fft._NAMES, *REAL, *(f"{name}n" for name in REAL)])
def test_functions_of_scipy_in_plain_functions(name):
    theirs, scope = getattr(scipy.fft, name), {"scipy": scipy, "np": np, "__name__": __name__}
    exec(f"def by_attribute(x):\n    return np.sum(np.abs(scipy.fft.{name}(x)) ** 2)", scope)
    for f in (lambda x: np.sum(np.abs(theirs(x)) ** 2), scope["by_attribute"]):
        slope = ad.grad(f)(X)
        np.testing.assert_allclose(ad.jit(ad.grad(f))(X), slope, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(np.sum(slope * X), 2 * f(X), rtol=1e-12)


def test_other_functions():
    with pytest.raises(UnsupportedError, match=r"scipy\.fft\.fht"):
        ad.grad(lambda x: np.sum(fft.fht(x, 0.1, 0.0)))(X)
    assert fft.next_fast_len is scipy.fft.next_fast_len
