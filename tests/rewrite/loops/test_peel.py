"""First iterations that start from constants join the loop."""

import numpy as np
import pytest

import adjoint as ad
from adjoint.rewrite.loops import roll

P = np.linspace(0.1, 0.9, 12)


def loops_of(f, *args, saving=6):
    found = roll(ad.graph(f)(*args), saving=saving)
    for a, b in zip(found.graph.run_flat(args), ad.graph(f)(*args).run_flat(args), strict=True):
        np.testing.assert_array_equal(a, b)
    return found.loops


@pytest.mark.parametrize("start", [1.0, 0.5, -2.0])
def test_an_iteration_that_starts_from_a_number(start):
    def f(p):
        v = start
        for i in range(12):
            v = np.sin(p[i] * v)
        return v

    (loop,) = loops_of(f, P)
    assert loop.iterations >= 11


def test_a_sum_that_starts_from_zero():
    def f(p):
        total, x = 0.0, p[0]
        for i in range(12):
            x = np.cos(x * p[i])
            total = total + x * 2.0
        return total

    (loop,) = loops_of(f, P)
    assert loop.iterations >= 11


def test_several_constants():
    def f(p):
        a, b = 1.0, 2.0
        for i in range(12):
            a, b = np.tanh(a * p[i] + b), b * 0.5 + a
        return a + b

    assert loops_of(f, P)


def test_false_first_iterations_stay():
    def f(p):
        v = np.exp(p[0])
        for i in range(1, 12):
            v = np.sin(p[i] * v)
        return v

    (loop,) = loops_of(f, P)
    assert loop.iterations == 11
