"""NumPy's two protocols on traced values: what is answered, what is refused, and with which message."""

import copy

import numpy as np
import pytest

import adjoint as ad
from adjoint.core.errors import ReadOnlyError

X = np.arange(1.0, 7.0).reshape(2, 3)
METHODS = {
    "sum": lambda x: x.sum(axis=0), "reshape": lambda x: x.reshape(3, 2), "T": lambda x: x.T, "mean": lambda x: x.mean(),
    "transpose": lambda x: x.transpose(1, 0), "ravel": lambda x: x.ravel(), "astype": lambda x: x.astype(np.float32),
    "cumsum": lambda x: x.cumsum(axis=1), "max": lambda x: x.max(axis=1), "dot": lambda x: x.dot(np.ones(3)),
    "clip": lambda x: x.clip(2.0, 5.0), "repeat": lambda x: x.repeat(2, axis=0), "take": lambda x: x.take([0, 2], axis=1),
    "squeeze": lambda x: x[None].squeeze(0), "swapaxes": lambda x: x.swapaxes(0, 1), "diagonal": lambda x: x.diagonal(),
    "round": lambda x: x.round(1), "conj": lambda x: x.conj(), "flatten": lambda x: x.flatten("F"), "copy": lambda x: x.copy(),
    "compress": lambda x: x.compress([True, False], axis=0), "prod": lambda x: x.prod(axis=0), "std": lambda x: x.std(),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:the result of <lambda> is a constant")
@pytest.mark.parametrize("name", METHODS)
def test_methods_are_those_of_arrays(name):
    found, expected = ad.vjp(METHODS[name], X)[0], METHODS[name](X)
    np.testing.assert_allclose(found, expected, rtol=1e-14)
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)


def test_attributes():
    seen = []
    ad.grad(lambda x: (seen.extend([x.shape, x.ndim, x.size, x.dtype, len(x), x.itemsize, x.nbytes]), np.sum(x))[1])(X)
    assert seen == [(2, 3), 2, 6, np.dtype(float), 2, 8, 48]


def test_iteration_and_membership():
    assert ad.grad(lambda x: sum(row[0] * i for i, row in enumerate(x)))(X)[1, 0] == 1.0
    seen = []
    ad.grad(lambda x: (seen.extend([3.0 in x, 9.0 in x]), np.sum(x))[1])(X)
    assert seen == [True, False]
    with pytest.raises(TypeError):
        ad.grad(lambda x: sum(v for v in x))(1.0)


@pytest.mark.parametrize("f", [lambda x: np.save("nowhere", x), lambda x: np.busday_count(x, x), lambda x: np.unpackbits(x)])
def test_a_function_without_a_derivative_is_refused_by_name(f):
    with pytest.raises(ad.AdjointError, match=r"test_protocols.py"):
        ad.grad(f)(np.ones(8))


def test_an_attribute_that_traced_values_cannot_have():
    with pytest.raises(AttributeError, match=r"data|ctypes"):
        ad.grad(lambda x: x.ctypes.data)(1.0)


def test_copies_are_values():
    assert ad.grad(lambda x: copy.deepcopy(x) * copy.copy(x))(3.0) == 6.0


def test_ufuncs_with_options():
    f = lambda x: np.sum(np.multiply(x, 2.0, where=np.array([True, False, True]), out=np.zeros(3)))
    with pytest.raises(ReadOnlyError):
        ad.grad(f)(np.ones(3))  # a plain array cannot hold traced values
    g = lambda x: np.sum(np.add.reduce(x, axis=0) * np.multiply.outer(x[0], x[1]))
    np.testing.assert_allclose(ad.grad(g)(X), ad.finite_difference(g, X, method="richardson"), rtol=1e-7)
