"""Loops and branches of programs in the simulator, as on the CPU: every count of iterations, both branches, both directions."""

import numpy as np
import pytest
import test_compiled_programs as programs
from on_device import both_orders, on_cpu

import adjoint as ad
from adjoint.compiler.cuda import layout

X = np.linspace(-1.0, 1.0, 6).reshape(2, 3)


def check(f, *args):
    found, _ = both_orders(f, args)
    for a, b in zip(found, on_cpu(f, args), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("length", [0, 1, 2, 5])
@pytest.mark.parametrize("step", [lambda c, x: (np.sin(c) + x, c * x), lambda c, x: (c @ c.T @ c + x, np.sum(c))])
def test_scans(step, length, reverse):
    """Bodies that become one launch, and bodies of several steps; each iteration writes to the other of two buffers."""
    xs = np.cos(np.arange(length * 6.0)).reshape(length, 2, 3)
    check(lambda c, xs: ad.scan(step, c, xs, reverse=reverse), X, xs)
    if length:
        check(ad.grad(lambda c, xs: np.sum(ad.scan(step, c, xs, reverse=reverse)[0])), X, xs)


@pytest.mark.parametrize("limit", [-1.0, 1.0, 3.0, 40.0])
def test_while_loops(limit):
    check(lambda x, limit: ad.while_loop(lambda c: np.sum(c) < limit, lambda c: c * 1.5 + 0.1, x), X + 1.1, limit)


@pytest.mark.parametrize("checkpoint", [None, 2, "sqrt"])
@pytest.mark.parametrize("limit", [-1.0, 8.0, 12.0, 200.0])
def test_gradients_of_while_loops(limit, checkpoint):
    loop = lambda x, w, limit: ad.while_loop(lambda c: np.sum(c) < limit, lambda c: c * w + np.sin(w), x, checkpoint=checkpoint)
    check(ad.grad(lambda x, w, limit: np.sum(loop(x, w, limit) ** 2), (0, 1)), X + 1.1, 1.2, limit)


@pytest.mark.parametrize("at", [-1.0, 1.0])
def test_branches(at):
    f = lambda x, p: ad.cond(p > 0, lambda x: np.sin(x) @ x.T, lambda x: np.cos(x) @ x.T, x)
    check(f, X, at)
    check(ad.grad(lambda x, p: np.sum(f(x, p))), X, at)


def test_a_failure_inside_a_body():
    """An index out of bounds in one iteration is an error after the run; in the others it is none."""
    f = lambda i, x: ad.scan(lambda c, k: (c + x[k], None), 0.0, i)[0]
    check(f, np.array([0, 2, 1]), np.arange(3.0))
    with pytest.raises(IndexError):
        both_orders(f, (np.array([0, 3, 1]), np.arange(3.0)))


@pytest.mark.parametrize("n", [layout.SEVERAL, layout.SEVERAL + 1, layout.SEVERAL + 2])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rows_of_a_loop_at_any_address(n, dtype):
    """Rows of an odd length begin where no vector may."""
    xs = np.random.default_rng(0).normal(size=(3, n)).astype(dtype)
    f = lambda xs: ad.scan(lambda s, x: (s + x[:5], np.sqrt(np.abs(x)) + 1), xs[0, :5], xs)
    found, made = both_orders(f, (xs,))
    programs.agree(list(found), on_cpu(f, (xs,)), "rows", loose=10.0)
    vectors = [line for line in made.module.for_gpu().splitlines() if "load <" in line or "store <" in line]
    assert bool(vectors) == (n * np.dtype(dtype).itemsize % 16 == 0)
    assert all(line.endswith("align 16") for line in vectors)
