"""float32 and complex64 in give what NumPy gives: values, tangents and cotangents of its dtype."""

import warnings

import numpy as np
import pytest

import adjoint as ad

X = np.linspace(0.3, 1.9, 12, dtype=np.float32).reshape(3, 4)
W = np.array([True, False, True, True])

CASES = {
    "max": lambda x: np.max(x, axis=0),
    "min": lambda x: np.min(x),
    "nanmax": lambda x: np.nanmax(x, axis=1),
    "max of nothing": lambda x: np.max(x[:0], axis=0, initial=1.0),
    "nanmax of nothing": lambda x: np.nanmax(x[:0], axis=0, initial=1.0),
    "var": lambda x: np.var(x, axis=0, ddof=1),
    "var of complex": lambda x: np.var(x + 1j * x),
    "std": lambda x: np.std(x, keepdims=True),
    "nanvar": lambda x: np.nanvar(x, axis=1),
    "nanstd": lambda x: np.nanstd(x),
    "mean where": lambda x: np.mean(x, axis=1, where=W),
    "std where": lambda x: np.std(x, axis=1, where=W),
    "quantile by jumps": lambda x: np.quantile(x, [0.3, 0.6], method="lower"),
    "quantile": lambda x: np.quantile(x, [0.3, 0.6]),
    "cov": lambda x: np.cov(x),
    "corrcoef": lambda x: np.corrcoef(x),
    "ediff1d": lambda x: np.ediff1d(x, to_begin=-1.0),
    "gradient": lambda x: np.gradient(x[0], np.array([0.0, 1.0, 3.0, 4.0])),
    "select": lambda x: np.select([x > 1, x > 0.5], [x, 2.0], 7.0),
    "vander": lambda x: np.vander(x[0]),
    "geomspace": lambda x: np.geomspace(x[0], x[1], 4),
    "einsum": lambda x: np.einsum("ij->i", x, dtype="f8"),
    "float_power": lambda x: np.float_power(2, x) + np.float_power(x, 2),
    "copysign": lambda x: np.copysign(x, np.array([1, -1, 1, 1])),
    "copysign of whole numbers": lambda x: np.copysign(np.array([1, 2, 3, 4]), x) + 0 * x,
    "ldexp": lambda x: np.ldexp(x, 3),
    "heaviside": lambda x: np.heaviside(x - 1, 0.5) * x,
    "i0": np.i0,
}


@pytest.mark.parametrize("name", CASES)
def test_dtype(name):
    f = CASES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        plain = f(X)
        y, tangent = ad.jvp(f, (X,), (np.ones_like(X),))
        z, pull = ad.vjp(f, X)
        (g,) = pull(np.ones_like(plain))
    for value in (y, z, tangent):
        assert value.dtype == plain.dtype
        assert value.shape == plain.shape
    np.testing.assert_allclose(y, plain, rtol=1e-5)
    assert g.dtype == X.dtype
