"""Loops and branches: programs inside steps."""

import numpy as np

import adjoint as ad
from adjoint.compiler.lower.step import Branch, Scan, While


def test_the_body_of_a_scan_is_fused():
    f = lambda x: ad.scan(lambda c, row: (np.sin(c) * row + c, c * c), np.zeros(50) + x[0], x)
    x = np.random.default_rng(0).normal(size=(10, 50))
    scan = ad.jit(f).lower(x).lowered.steps[-1]
    assert isinstance(scan, Scan)
    assert scan.length == 10
    (kernel,) = scan.body.steps
    assert len(kernel.stores) == 2  # the carry and the row of results, each in its place
    assert scan.body.arena == 0
    for got, want in zip(ad.jit(f)(x), f(x), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-13)


def test_memory_for_a_body_is_taken_once():
    def step(c, _):
        return (c @ c.T) / 40, None

    f = lambda c: ad.scan(step, c, None, 5)[0]
    c = np.random.default_rng(0).normal(size=(40, 40))
    (scan,) = ad.jit(f).lower(c).lowered.steps
    (scratch,) = scan.scratch
    assert scratch.buffer.nbytes == scan.body.arena == c.nbytes
    np.testing.assert_allclose(ad.jit(f)(c), f(c), rtol=1e-11)


def test_while_and_cond_are_steps():
    f = lambda x: ad.while_loop(lambda y: y < 100, lambda y: 2 * y, x)
    (step,) = [s for s in ad.jit(f).lower(3.0).lowered.steps if isinstance(s, While)]
    assert len(step.test.steps) == len(step.body.steps) == 1
    g = lambda x: ad.cond(x > 0, np.sin, np.cos, x)
    assert any(isinstance(s, Branch) for s in ad.jit(g).lower(3.0).lowered.steps)


def test_a_checkpoint_among_other_equations():
    f = lambda x: np.sum(ad.checkpoint(lambda y: np.sin(y) * y)(x) ** 2)
    (kernel,) = ad.jit(f).lower(np.ones(5)).lowered.steps
    assert not kernel.stores
