"""numba of adopted modules: its decorators give the function, with or without arguments."""

import numpy as np
import pytest

import adjoint as ad

MODULE = """
import numpy as np
import numba
from numba import njit, vectorize, guvectorize, float64

@njit
def plain(x):
    return np.sin(x) * x

@numba.jit("float64(float64)", nopython=True, cache=True)
def declared(x):
    total = 0.0
    for i in numba.prange(3):
        total += plain(x) * i
    return total

@vectorize([float64(float64, float64)])
def product(a, b):
    return a * b if a > 0 else b

@guvectorize(["void(float64[:], float64[:])"], "(n)->(n)")
def running(x, out):
    total = 0.0
    for i in range(len(x)):
        total += x[i]
        out[i] = total

@njit
def filled(n):
    xs = numba.typed.List()
    for i in range(n):
        xs.append(float(i))
    return xs
"""


@pytest.fixture
def module(write):
    write("with_numba.py", MODULE)
    return ad.adopt("with_numba")


def test_decorators_give_the_function(module):
    assert module.plain(2.0) == np.sin(2.0) * 2.0
    assert ad.grad(module.declared)(2.0) == pytest.approx(3 * (np.cos(2.0) * 2.0 + np.sin(2.0)))
    assert module.plain.py_func(1.0) == module.plain(1.0)


def test_vectorised_functions_broadcast(module):
    a, b = np.array([1.0, -1.0, 2.0]), np.array([[3.0], [4.0]])
    np.testing.assert_array_equal(module.product(a, b), np.where(a > 0, a * b, b * np.ones(3)))
    np.testing.assert_array_equal(ad.grad(lambda a: np.sum(module.product(a, 3.0)))(a), [3.0, 0.0, 3.0])


def test_functions_of_rows(module):
    x = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(module.running(x), np.cumsum(x, axis=1))
    np.testing.assert_array_equal(ad.grad(lambda x: np.sum(module.running(x)))(x), [[3.0, 2.0, 1.0]] * 2)


def test_containers(module):
    assert list(module.filled(3)) == [0.0, 1.0, 2.0]


SCALARS = """
from numba import guvectorize, float64, void

@guvectorize(["void(float64[:], float64[:], float64[:])"], "(),(n)->()")
def by_text(limit, x, out):
    out[0] = 0.0
    for v in x:
        out[0] += v * limit[0]

@guvectorize([(float64[:], float64[:], float64[:])], "(),(n)->()")
def by_types(limit, x, out):
    out[0] = limit[0] * x[0]

@guvectorize([void(float64, float64[:, :], float64[:])], "(),(n,m)->()")
def by_signature(limit, x, out):
    out[0] = limit * x[0, 1]
"""


def test_arguments_of_no_axes_that_are_declared_as_arrays(write):
    write("with_scalars.py", SCALARS)
    m = ad.adopt("with_scalars")
    x = np.array([[1.0, 2.0], [3.0, 4.0]])
    np.testing.assert_array_equal(m.by_text(2.0, x), [6.0, 14.0])
    np.testing.assert_array_equal(m.by_types(np.array([2.0, 3.0]), x), [2.0, 9.0])
    assert m.by_signature(2.0, x) == 4.0
    assert ad.grad(lambda limit: m.by_text(limit, x[0]))(2.0) == 3.0
