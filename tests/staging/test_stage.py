"""Staging: the equations recorded, and their source lines."""

import numpy as np

import adjoint as ad


def test_backward_equations_remember_the_line_of_the_op():
    def f(x):
        y = np.sin(x)
        return np.sum(y**3)

    def looped(x):
        def step(c, _):
            return np.sin(c) * x, None

        return np.sum(ad.scan(step, x, None, 4)[0])

    first = f.__code__.co_firstlineno
    lines = [int(e.line.rpartition(":")[2]) - first for e in ad.graph(ad.grad(f))(np.ones(3)).equations]
    assert lines == [*sorted(lines[:-2]), 1, 1]  # forward, then back to the sine
    assert set(lines) == {1, 2}
    staged = ad.graph(ad.grad(looped))(np.ones(3))
    body = next(e for e in reversed(staged.equations) if e.op.name == "scan").params["body"]
    inside = looped.__code__.co_firstlineno + 2
    assert {e.line.rpartition(":")[2] for e in body.equations if e.op.name == "mul"} == {str(inside)}
    twice = ad.graph(ad.grad(lambda x: np.sum(ad.grad(f)(x))))(np.ones(3))
    assert {int(e.line.rpartition(":")[2]) - first for e in twice.equations if e.op.name == "cos"} == {1}
