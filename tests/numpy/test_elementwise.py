"""The ufuncs that are written in other ops, and options of ufunc calls."""

import operator

import numpy as np
import pytest
from harness import check, draw

import adjoint as ad
import adjoint.numpy as anp

RNG = np.random.default_rng(0)
X = draw(RNG, (2, 3))
P = draw(RNG, (2, 3), 0.5, 2)
Z = draw(RNG, (3,), dtype=complex)

FUNCTIONS = [
    (lambda x: np.power(x, 2), X),
    (lambda x: np.power(x, 3), X),
    (lambda x: x**1, X),
    (lambda x: x**-2, P),
    (lambda x: x**0.5, P),
    (lambda x: 2.0**x, X),
    (lambda x: np.float_power(x, 2.5), P),
    (lambda x: np.float_power(x, [1.5, 2.0, -1.0]), P),
    (lambda x: np.absolute(x), X),
    (lambda x: np.fabs(x), X),
    (lambda x: np.abs(x), Z),
    (lambda x: np.sign(x), Z),
    (lambda x: np.copysign(x, -1.0), X),
    (lambda x: np.copysign(2.0 * x, x), X),
    (lambda x: np.heaviside(x - 10, 0.5) * x, X),
    (lambda x: np.ldexp(x, 3), X),
    (lambda x: np.ldexp(x, np.array([1, -2, 0])), X),
    (lambda x: np.divmod(x, 0.7)[1], X),
    (lambda x: np.modf(x)[0], X),
    (lambda x: np.conj(x) * x, Z),
    (lambda x: np.real(x) * np.imag(x), Z),
    (lambda x: x.real + x.imag**2, Z),
    (lambda x: np.angle(x), Z),
    (lambda x: np.exp(x) * np.sin(x) / (1 + x), Z),
    (lambda x: np.sin(x, dtype=np.float64), X),
    (lambda x: np.add(x, [1.0, 2.0, 3.0]), X),
    (lambda x: [1.0, 2.0, 3.0] * x, X),
    (lambda x: np.multiply.outer(x, x), X),
    (lambda x: np.add.reduce(x), X),
    (lambda x: np.add.reduce(x, axis=1, keepdims=True), X),
    (lambda x: np.multiply.reduce(x, axis=None), X),
    (lambda x: np.maximum.reduce(x, axis=1), X),
    (lambda x: np.add.accumulate(x, axis=1), X),
    (lambda x: np.multiply.accumulate(x), X),
    (lambda x: np.hypot.accumulate(x, axis=1), X),
    (lambda x: np.clip(x, -0.5, 0.5), X),
    (lambda x: np.clip(x, None, 0.5), X),
    (lambda x: np.clip(x, min=-1.0, max=1.0), X),
    (lambda x: x.clip(0.0, None), X),
    (lambda x: np.where(x > 0, x, x**2), X),
    (lambda x: np.where(X > 0, x, 1.0), X),
    (lambda x: np.maximum(x, 0.3) + np.minimum(x, 0.2) + np.fmax(x, 0.0) + np.fmin(x, 0.1), X),
    (lambda x: np.sinc(x), X),
    (lambda x: np.mod(x, 0.7) + x % 0.9, P),
    (lambda x: np.logaddexp(x, 2 * x) + np.logaddexp2(x, -x), X),
]


@pytest.mark.parametrize("f, x", FUNCTIONS)
def test_against_numpy_and_differences(f, x):
    check(f, x)


def test_out_and_where():
    def f(x):
        y = anp.zeros(3)
        np.sin(x, out=y)
        z = np.empty_like(x)
        z[...] = 1.0
        np.multiply(x, x, out=z, where=np.array([True, False, True]))
        return y, z, np.add(x, 1.0, out=anp.zeros(3))

    check(f, X[0])


def test_out_of_a_plain_array_is_refused():
    with pytest.raises(ad.AdjointError, match="out= is a plain NumPy array"):
        ad.grad(lambda x: np.sum(np.sin(x, out=np.zeros(3))))(np.ones(3))


def test_weak_python_numbers():
    w = np.ones(2, np.float32)
    f = lambda x: (2 * x + 1) * w
    assert ad.vjp(f, 1.5)[0].dtype == np.float32
    assert f(1.5).dtype == np.float32
    assert ad.jvp(f, (1.5,), (1.0,))[1].dtype == np.float32
    assert ad.grad(lambda x: np.sum(f(x)))(1.5) == 4.0


@pytest.mark.filterwarnings("ignore:numpy.fix is deprecated")
@pytest.mark.parametrize(
    "f",
    [
        np.floor, np.ceil, np.trunc, np.rint, np.round, np.sign, np.isnan, np.isfinite, np.isinf, np.signbit, np.fix,
        lambda x: x > 0, lambda x: x == x, lambda x: x // 0.3, lambda x: np.argmax(x), lambda x: x.astype(int),
        lambda x: np.round(x, 2), lambda x: np.logical_not(x > 0),
    ],
)  # fmt: skip
def test_piecewise_constant_functions_give_plain_values(f):
    seen = []

    def g(x):
        seen.append(f(x))
        return np.sum(x)

    ad.grad(g)(X)
    ad.jvp(g, (X,), (X,))
    for value in seen:
        assert isinstance(value, (np.ndarray, np.generic))
        np.testing.assert_array_equal(value, f(X))
    np.testing.assert_array_equal(ad.vmap(f)(X), np.stack([f(row) for row in X]))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 0.0, 0.5, 1.0, 2.0, 3.0, np.float32(2), np.int8(2), 2 + 0j])
@pytest.mark.parametrize("power", [operator.pow, np.power, np.float_power])
@pytest.mark.parametrize(
    "base",
    [np.arange(3), np.uint8([3, 200]), np.int8(7), np.float32([1, 2]), np.array([True, False]), np.array(True), np.bool(True), 3],
)
def test_powers_have_the_dtype_of_numpy(base, power, exponent):
    pairs = [(ad.jit(lambda a: power(a, exponent))(base), power(base, exponent))]
    if np.ndim(base):  # the square of an array of bools is int8, that of each of its elements int64
        pairs.append((ad.vmap(lambda a: power(a, exponent))(base), np.stack([power(a, exponent) for a in base])))
    for y, expected in pairs:
        np.testing.assert_allclose(y, expected, rtol=1e-6)
        assert np.asarray(y).dtype == np.asarray(expected).dtype


BASES = [
    -2,
    -2.0,
    np.float32(-2),
    np.array([-2, 3], np.int8),
    np.array([-2, 3], np.float32),
    np.array([-2.0, 3.0]),
    np.array([True]),
]


@pytest.mark.parametrize("power", [operator.pow, np.power, np.float_power])
@pytest.mark.parametrize("base", BASES, ids=lambda x: f"{type(x).__name__} {getattr(x, 'dtype', '')}")
def test_complex_powers_of_real_numbers(base, power):
    """A negative base has a complex logarithm, by which the derivative by the exponent is multiplied."""
    for b in (1 + 2j, np.complex64(1 + 2j), np.array([1 + 2j, 2.0])):
        expected = power(base, b)
        slope = expected * np.log(np.asarray(base, complex))
        t = np.ones_like(b) if isinstance(b, np.ndarray) else type(b)(1)
        rtol = 1e-5 if np.asarray(expected).dtype == np.complex64 else 1e-12
        push = lambda a, b: ad.jvp(lambda b: power(a, b), (b,), (t,))  # noqa: B023 - called at once
        for y, dy in (push(base, b), ad.jit(push)(base, b)):
            assert np.asarray(y).dtype == np.asarray(dy).dtype == np.asarray(expected).dtype
            np.testing.assert_allclose(y, expected, rtol=rtol)
            np.testing.assert_allclose(dy, slope, rtol=rtol, atol=rtol)
