"""Functions of NumPy's arrays as functions of another namespace's: what they call is replaced, the rest is not."""

import types

import numpy as np
import pytest

from adjoint.device.counterpart import Missing, Namespace, counterpart


class Recorded:
    """A namespace that notes which of its functions are called."""

    __name__ = "recorded"

    def __init__(self):
        self.called = []

    def __getattr__(self, name):
        real = getattr(np, name)
        if not callable(real) or isinstance(real, type):
            return real

        def call(*args, **kwargs):
            self.called.append(name)
            return real(*args, **kwargs)

        return call


def impl(x):
    return np.sin(x) + helper(x)


def helper(x):
    return np.sum(x) * SCALE


SCALE = 2.0
impl.__module__ = helper.__module__ = "adjoint.ops.elementwise"


def test_a_ufunc_is_that_of_the_namespace():
    xp = Recorded()
    assert counterpart(np.sin, xp)(0.5) == np.sin(0.5)
    assert xp.called == ["sin"]


def test_our_functions_are_copied_with_their_callees():
    xp = Recorded()
    copied = counterpart(impl, xp)
    assert isinstance(copied, types.FunctionType)
    assert copied(np.ones(2)).tolist() == impl(np.ones(2)).tolist()


def test_a_function_that_is_missing():
    empty = types.SimpleNamespace(__name__="empty")
    with pytest.raises((Missing, AttributeError)):
        counterpart(np.sin, empty)(1.0)
    assert issubclass(Missing, AttributeError)
    assert Namespace is not None
