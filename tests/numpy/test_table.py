"""The tables from NumPy's functions to ours, and what counts as an array."""

import collections

import numpy as np
import pytest

import adjoint as ad
from adjoint.core.errors import UnsupportedError
from adjoint.numpy.table import FUNCTIONS, find_ufunc, holds_traced, is_array_like, is_scipy, lift, load_all, without_class


def test_a_missing_function_loads_the_late_modules():
    assert FUNCTIONS.get(np.pad) is not None
    assert FUNCTIONS.get(len) is None
    with pytest.raises(KeyError):
        FUNCTIONS[len]


def test_ours_have_the_names_of_numpys():
    load_all()
    for original, ours in FUNCTIONS.items():
        assert callable(ours), original


def test_ufuncs():
    from scipy import special

    assert find_ufunc(np.sin) is not None
    assert is_scipy(special.erf)
    assert not is_scipy(np.sin)
    assert find_ufunc(np.frompyfunc(lambda x: x, 1, 1)) is None


class WithArray:
    def __array__(self, dtype=None, copy=None):
        return np.ones(2)


@pytest.mark.parametrize(
    "x, expected", [(memoryview(b"ab"), True), (WithArray(), True), ("text", False), (None, False), ({}, False)]
)
def test_array_likes(x, expected):
    assert is_array_like(x) is expected


def test_traced_values_are_found_in_nested_lists():
    seen = []

    def f(x):
        seen.extend([holds_traced(x), holds_traced([1.0, [x]]), holds_traced((1.0, [2.0])), np.shape(lift([x, [x][0]]))])
        return x

    ad.grad(f)(1.0)
    assert seen == [True, True, False, (2,)]


def test_subclasses():
    class Named(np.ndarray):
        pass

    assert type(without_class(np.ones(2).view(Named))) is np.ndarray
    with pytest.raises((UnsupportedError, TypeError)):
        ad.grad(lambda x: np.sum(np.ma.masked_array(x * np.ones(2), [True, False])))(1.0)


def test_a_deque_is_an_array():
    assert ad.grad(lambda x: np.sum(np.stack(list(collections.deque([x, 2 * x])))))(1.0) == 3.0
