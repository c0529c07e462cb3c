"""Derivatives and batches of graphs, as graphs."""

import time
from dataclasses import replace

import numpy as np
import pytest

import adjoint as ad
from adjoint.ir.graph import Literal
from adjoint.ir.text import parse
from adjoint.transform import vjp, vmap
from adjoint.transform.vjp import pullback

F = parse("""graph f(x: float64[2], w: float64[]) {
  v2: float64[2] = mul x, w
  v3: float64[2] = sin v2
  v4: float64[] = sum v3 {axis=(0,), keepdims=False}
  return v3, v4
}""")
X, W = np.array([0.3, 0.8]), 0.7


def f(x, w):
    y = np.sin(x * w)
    return y, np.sum(y)


def lines(graph):
    from adjoint.ir.text import show

    return [line.split("  #")[0].strip() for line in show(graph).split("\n")]


def test_vjp_in_two_halves():
    halves = vjp(F, (True, True), (True, True))
    *ys, v2 = halves.forward.run_flat([X, W])
    assert halves.needed == (0, 1)
    gs = [np.array([0.5, -1.0]), 2.0]
    back = halves.backward.run_flat([X, W, v2, *gs])
    expected = ad.vjp(f, X, W)[1](tuple(gs))
    for a, b in zip(back, expected, strict=True):
        np.testing.assert_allclose(a, b)
    for a, b in zip(pullback(F, (True, True), (True, True)).run_flat([X, W, *gs]), expected, strict=True):
        np.testing.assert_allclose(a, b)
    np.testing.assert_allclose(ys[0], f(X, W)[0])


def test_only_residuals_of_the_backward_half_are_kept():
    halves = vjp(F, (False, True), (False, True))
    assert [t.shape for t in halves.residual_types()] == [(2,)]
    assert halves.needed == (0,)
    assert lines(halves.forward) == [
        "graph forward_f(x: float64[2], w: float64[]) {",
        "v2: float64[2] = mul x, w",
        "v3: float64[2] = sin v2",
        "v4: float64[] = sum v3 {axis=(0,), keepdims=False}",
        "return v3, v4, v2",
        "}",
    ]


def test_vmap():
    stack = np.stack([X, X + 1])
    y, s = vmap(F, 2, (True, False)).run_flat([stack, W])
    np.testing.assert_allclose(y, np.sin(stack * W))
    np.testing.assert_allclose(s, np.sin(stack * W).sum(axis=1))


def test_loop_invariants_are_not_stacked():
    """Residuals that depend only on what a loop closes over are computed again, rows and consts handed on."""

    def loss(w, xs):
        return ad.scan(lambda c, x: (c * np.exp(np.sin(w)) * x, None), 1.0, xs)[0]

    staged = ad.graph(ad.grad(loss))(0.3, np.ones(100)).simplify()
    forward, back = (e for e in staged.equations if e.op.name == "scan")
    stacked = [t for t in forward.types if t.shape == (100,)]
    assert len(stacked) == 1  # the carry, or its product with the row; not exp(sin(w))
    assert back.params["reverse"]


def test_results_that_nothing_reads_are_left_out():
    def f(x):
        c, _ = ad.scan(lambda c, v: (c * v, np.exp(c)), x, np.ones(5))
        a, _ = ad.cond(x > 0, lambda: (c, np.sin(c)), lambda: (x, np.cos(x)))
        return a

    simple = ad.graph(f)(2.0).simplify()
    assert [len(e.outputs) for e in simple.equations] == [1, 1, 1]
    assert [e.op.name for e in simple.equations] == ["scan", "greater", "cond"]
    assert [e.op.name for e in simple.equations[0].params["body"].equations] == ["mul"]
    assert not simple.equations[2].params["true"].equations
    simple.check()
    assert simple(2.0) == 2.0


def test_simplification_reaches_into_bodies():
    counts = {}
    staged = ad.graph(lambda x: ad.fori_loop(0, 3, lambda i, c: np.exp(np.log(c)) * 1.0 + x, x))(2.0)
    simple = staged.simplify(counts=counts)
    (loop,) = simple.equations
    assert len(loop.params["body"]) < len(staged.equations[0].params["body"])
    assert counts
    assert simple(2.0) == staged(2.0)


def test_a_loop_on_constants_is_not_run_to_fold_it():
    staged = ad.graph(lambda c: ad.while_loop(lambda c: c > 0, lambda c: c + 1.0, c))(1.0)
    endless = replace(staged, equations=(replace(staged.equations[0], inputs=(Literal(np.array(1.0)),)),))
    assert len(endless.simplify()) == 1


def test_levels_and_workers():
    def f(x):
        return ad.fori_loop(0, 3, lambda i, c: np.sin(c), x) + ad.fori_loop(0, 3, lambda i, c: np.cos(c), x)

    staged = ad.graph(f)(np.ones(3))
    assert [len(level) for level in staged.levels()] == [2, 1]
    np.testing.assert_array_equal(staged.run(X[[0, 1, 0]], workers=2), staged(X[[0, 1, 0]]))
    assert "scan" in str(staged.profile(np.ones(3)))


def test_equal_loops_are_one():
    f = lambda x: ad.fori_loop(0, 3, lambda i, c: np.sin(c) * i, x)
    assert [e.op.name for e in ad.graph(lambda x: f(x) + f(x))(1.0).simplify().equations].count("scan") == 1


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_derivatives_of_loops_do_not_swell(depth):
    """Each order multiplies the body by a constant, whatever the number of iterations."""

    def f(x):
        return ad.fori_loop(0, 50, lambda i, c: np.sin(c * x), x)

    for _ in range(depth):
        f = ad.grad(f)
    start = time.perf_counter()
    staged = ad.graph(f)(0.5).simplify()
    assert str(staged).count("\n") < 60 * 6**depth
    assert time.perf_counter() - start < 60


def test_lines_are_those_of_the_user():
    staged = ad.graph(ad.grad(lambda x: ad.fori_loop(0, 3, lambda i, c: np.sin(c), x)))(0.5)
    bodies = [g for e in staged.equations for g in e.params.values() if hasattr(g, "equations")]
    assert bodies
    assert all("test_vjp.py" in e.line for g in bodies for e in g.equations)
