"""Modules of Python's library as adopted code sees them."""

import statistics

import numpy as np
import pytest

import adjoint as ad

MODULE = """
import fractions
import functools
import importlib
import statistics
import sys
import with_library as itself

def mean(xs):
    return statistics.mean(xs)

def spread(xs):
    return statistics.pvariance(xs)

def half(x):
    return fractions.Fraction(1, 2) * x

@functools.singledispatch
def kind(x):
    return "other"

@kind.register(float)
def _(x):
    return "float"

class Model:
    @functools.singledispatchmethod
    def f(self, x):
        return x

    @f.register(float)
    def _(self, x):
        return x * 3.0

def is_itself():
    return sys.modules["with_library"] is itself and importlib.import_module("with_library") is itself
"""


@pytest.fixture
def module(write):
    write("with_library.py", MODULE)
    return ad.adopt("with_library")


def test_statistics_of_traced_values(module):
    xs = np.array([1.0, 2.0, 6.0])
    np.testing.assert_allclose(ad.grad(lambda xs: module.mean(list(xs)))(xs), np.full(3, 1 / 3))
    np.testing.assert_allclose(ad.grad(lambda xs: module.spread(list(xs)))(xs), 2 * (xs - 3.0) / 3)
    assert module.mean([1, 2, 6]) == statistics.mean([1, 2, 6])


def test_dispatch_goes_by_the_class_that_a_value_stands_for(module):
    assert module.kind(1.0) == "float"
    assert module.kind("x") == "other"
    assert ad.grad(module.Model().f)(2.0) == 3.0
    assert module.Model().f(2.0) == 6.0


def test_fractions(module):
    assert ad.grad(module.half)(3.0) == 0.5


def test_modules_go_by_their_original_names(module):
    assert module.is_itself()
