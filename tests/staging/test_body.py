"""Bodies of loops and branches: what they close over becomes an input of their graph."""

import numpy as np
import pytest

import adjoint as ad
from adjoint.core.errors import UnsupportedError
from adjoint.ir.text import show
from adjoint.staging.body import Body, NumbersNeededError


def bodies(graph):
    return [part for e in graph.equations for part in e.params.values() if hasattr(part, "equations")]


def test_values_that_are_closed_over_are_inputs_in_front():
    w = np.array([1.0, 2.0])
    graph = ad.graph(lambda a, c: ad.fori_loop(0, 3, lambda i, c: c * a + w, c))(np.ones(2), np.zeros(2))
    (body,) = bodies(graph)
    assert len(body.input_names) == 3  # a, the index, the carry
    assert "const c0" in show(body)  # an array of the outside is a constant of the body


def test_each_is_captured_once():
    graph = ad.graph(lambda a, c: ad.fori_loop(0, 3, lambda i, c: c * a + a, c))(1.5, 1.0)
    (body,) = bodies(graph)
    assert len(body.input_names) == 3


def test_bodies_in_bodies():
    def f(a, x):
        inner = lambda y: ad.fori_loop(0, 2, lambda i, c: c * a + y, x)
        return ad.fori_loop(0, 3, lambda i, c: inner(c) * 0.1, x)

    args = 0.5, 1.0
    assert ad.graph(f)(*args)(*args) == pytest.approx(f(*args))
    assert ad.jit(ad.grad(f))(*args) == pytest.approx(ad.grad(f)(*args))


def test_a_body_that_asks_for_a_number():
    f = lambda x: ad.fori_loop(0, 3, lambda i, c: c * 2 if c > 0 else -c, x)
    assert f(1.0) == 8.0  # a Python loop
    with pytest.raises(UnsupportedError, match=r"test_body\.py"):
        ad.graph(f)(1.0)
    assert issubclass(NumbersNeededError, UnsupportedError)


def test_a_body_ends_with_its_block():
    with Body("step") as body:
        pass
    assert body.ended
