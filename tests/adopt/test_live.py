"""Functions, classes and methods of the caller's own, adopted where they are."""

import functools
import math
import pickle
from math import sin

import numpy as np
import pytest
from numpy import array, exp

import adjoint as ad

FACTOR = 2.0


def helper(x):
    return math.exp(x) * FACTOR


def whole(x, shift=1.0, *, scale=1.0):
    """Writes into np.zeros, builds np.array, calls math and float."""
    y = np.zeros(3)
    y[0] = helper(x)
    y[1] = float(x) ** 2
    y[2] = sin(x) + exp(x)
    return (y.sum() + array([x, shift]).prod()) * scale


def slope_of_whole(x, shift=1.0):
    return FACTOR * math.exp(x) + 2 * x + math.cos(x) + math.exp(x) + shift


@ad.adopt
def decorated(x):
    return np.array([x, math.sin(x)]).sum()


@ad.adopt(exclude=["scipy"])
def with_options(x):
    return np.array([x, 1.0]).sum()


class Model:
    scale = 3.0

    def __init__(self, a):
        self.a = float(a)

    def run(self, x):
        return np.array([x, self.a * x]).sum() * self.scale

    @property
    def doubled(self):
        return np.array([self.a, self.a]).sum()

    @staticmethod
    def apart(x):
        return math.cos(x)

    @classmethod
    def made(cls, a):
        return cls(a)


class Derived(Model):
    def run(self, x):
        return super().run(x) + math.sin(x)


@pytest.mark.parametrize("transform", [lambda f: ad.grad(f), lambda f: ad.jit(ad.grad(f)), lambda f: ad.derivative(f)])
def test_a_function(transform):
    f = ad.adopt(whole)
    assert f(0.5) == whole(0.5)
    assert transform(f)(0.5) == pytest.approx(slope_of_whole(0.5), rel=1e-14)
    assert f.__name__ == "whole"
    assert f.__doc__ == whole.__doc__
    assert f(0.5, 2.0, scale=3.0) == whole(0.5, 2.0, scale=3.0)
    with pytest.raises(ad.AdjointError):
        ad.grad(whole)(0.5)


def test_the_options_of_transforms():
    assert ad.grad(whole, adopt=True)(0.5) == pytest.approx(slope_of_whole(0.5))
    assert ad.value_and_grad(whole, adopt=True)(0.5) == pytest.approx((whole(0.5), slope_of_whole(0.5)))
    assert ad.jit(whole, adopt=True)(0.5) == pytest.approx(whole(0.5), rel=1e-15)
    assert ad.jit(adopt=True)(whole)(0.5) == pytest.approx(whole(0.5), rel=1e-15)
    assert ad.jit(ad.grad(whole), adopt=True)(0.5) == pytest.approx(slope_of_whole(0.5))


def test_the_decorator():
    assert ad.grad(decorated)(0.3) == 1 + math.cos(0.3)
    assert ad.jit(ad.grad(decorated))(0.3) == 1 + math.cos(0.3)
    assert ad.grad(with_options)(0.3) == 1.0
    assert pickle.loads(pickle.dumps(decorated)) is decorated
    assert ad.adopt(decorated) is decorated


def test_globals_are_read_at_each_call(monkeypatch):
    f = ad.adopt(whole)
    g = ad.jit(ad.grad(f))
    assert g(0.5) == pytest.approx(slope_of_whole(0.5))
    monkeypatch.setitem(globals(), "FACTOR", 5.0)
    assert ad.grad(f)(0.5) == pytest.approx(slope_of_whole(0.5))
    assert g(0.5) == pytest.approx(slope_of_whole(0.5))
    monkeypatch.setitem(globals(), "helper", lambda x: 100 * x)
    assert g(0.5) == ad.grad(f)(0.5) == pytest.approx(100 + 1.0 + math.cos(0.5) + math.exp(0.5) + 1)


def test_a_global_is_written(monkeypatch):
    def count(x):
        global FACTOR
        FACTOR = FACTOR + 1
        return np.array([x]).sum()

    monkeypatch.setitem(globals(), "FACTOR", 2.0)
    assert ad.grad(ad.adopt(count))(1.0) == 1.0
    assert FACTOR == 3.0


@pytest.mark.parametrize("cls", [Model, Derived])
def test_a_class(cls):
    made = ad.adopt(cls)
    extra = math.cos(0.4) if cls is Derived else 0.0
    assert ad.grad(made(2.0).run)(0.4) == pytest.approx(9.0 + extra)
    assert ad.grad(lambda a: made(a).run(0.4))(2.0) == pytest.approx(1.2)
    assert ad.grad(lambda a: made.made(a).doubled)(2.0) == 2.0
    assert ad.grad(made.apart)(0.4) == -math.sin(0.4)
    assert ad.jit(ad.grad(lambda a: made(a).run(0.4)))(2.0) == pytest.approx(1.2)
    assert made is ad.adopt(cls)
    assert made.__qualname__ == cls.__qualname__
    assert issubclass(ad.adopt(Derived), ad.adopt(Model))


def test_a_method():
    assert ad.grad(ad.adopt(Model(2.0).run))(0.4) == 9.0
    assert ad.grad(functools.partial(ad.adopt(whole), shift=3.0))(0.5) == pytest.approx(slope_of_whole(0.5, 3.0))
    assert ad.grad(ad.adopt(functools.partial(whole, shift=3.0)))(0.5) == pytest.approx(slope_of_whole(0.5, 3.0))


def test_closures():
    import numpy as inner_np

    power = 2

    def inside(x):
        return inner_np.array([x**power]).sum()

    def outside(x):
        return inside(x) * 3

    f = ad.adopt(outside)
    assert ad.grad(f)(3.0) == 18.0

    def late(x):
        return np.array([later(x)]).sum()

    f = ad.adopt(late)
    later = lambda x: 5 * x
    assert ad.grad(f)(1.0) == 5.0

    @ad.adopt
    def factorial(n, x):
        return float(x) if n <= 1 else n * factorial(n - 1, x)

    assert ad.grad(factorial, 1)(4, 2.0) == 24.0


def test_lambdas_and_comprehensions():
    f = ad.adopt(lambda x: sum(math.sin(x * i) for i in range(3)) + np.array([float(x) for _ in range(2)]).sum())
    assert ad.grad(f)(0.5) == pytest.approx(math.cos(0.5) + 2 * math.cos(1.0) + 2)


def test_what_cannot_be_adopted():
    import __main__

    with pytest.raises(ad.AdjointError, match="cannot be loaded a second time"):
        ad.adopt(__main__)
    with pytest.raises(ad.AdjointError, match="not int"):
        ad.adopt(3)
    assert ad.adopt(math).sin is ad.adopt("math").sin
    assert ad.grad(ad.adopt(math.sin))(0.0) == 1.0
