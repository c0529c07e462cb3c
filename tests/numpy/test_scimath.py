"""np.emath and powers of Python numbers: complex where the real function ends."""

import numpy as np
import pytest

import adjoint as ad

FUNCTIONS = {
    **{name: getattr(np.emath, name) for name in ("sqrt", "log", "log2", "log10", "arccos", "arcsin", "arctanh")},
    "logn": lambda x: np.emath.logn(3.0, x),
    "logn of a base": lambda x: np.emath.logn(x, 3.0),
    "power": lambda x: np.emath.power(x, 1.5),
    "negative power": lambda x: np.emath.power(x, -2),
    "exponent": lambda x: np.emath.power(-2.0, x),
}
VALUES = (
    0.3,
    -0.3,
    2.0,
    -2.0,
    np.float64(-3.0),
    np.float32(-2),
    np.array([0.4, 0.2]),
    np.array([-0.5, 2.2]),
    np.array([[2.0, 0.1]]),
)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values(name):
    f = FUNCTIONS[name]
    compiled = ad.jit(f)
    for x in VALUES:
        expected = f(x)
        for found in (ad.vjp(f, x)[0], ad.jvp(f, (x,), (x,))[0], compiled(x), compiled(x)):
            assert np.asarray(found).dtype == expected.dtype
            np.testing.assert_allclose(found, expected, rtol=1e-6 if expected.dtype.char in "fF" else 1e-13, atol=1e-15)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives(name):
    def f(x):
        y = FUNCTIONS[name](x)
        return np.real(y) ** 2 + 3.0 * np.imag(y)

    compiled = ad.jit(ad.grad(f))
    for x in (0.3, -0.3, 1.5, -1.5):
        slope = (f(x + 1e-6) - f(x - 1e-6)) / 2e-6
        for found in (ad.grad(f)(x), ad.derivative(f)(x), compiled(x)):
            np.testing.assert_allclose(found, slope, rtol=1e-6, atol=1e-8)


def test_examples_of_a_batch_may_differ():
    with pytest.raises(ad.AdjointError, match="differs between examples"):
        ad.vmap(np.emath.sqrt)(np.array([1.0, -1.0]))


@pytest.mark.parametrize("base", [-2, -2.0, True])
def test_a_number_to_a_traced_power(base):
    with np.errstate(invalid="ignore"):
        for found in (ad.grad(lambda x: base**x)(0.5), ad.derivative(lambda x: base**x)(0.5)):
            assert np.isnan(found) == (base < 0)
    assert ad.jit(lambda x: base**x)(0.5) == base**0.5
