"""Loops and branches in machine code: both modes, nested, of any length, agree with the eager functions."""

import numpy as np
import pytest

import adjoint as ad
from adjoint.lower.kernel import Foreign


def same(f, *args, native=True, rtol=1e-11):
    """Compiled and eager agree; nothing calls back into NumPy unless said."""
    compiled = ad.jit(f)
    for _ in range(2):
        got, want = compiled(*args), f(*args)
        for a, b in zip(
            np.atleast_1d(got) if not isinstance(got, tuple) else got,
            want if isinstance(want, tuple) else np.atleast_1d(want),
            strict=True,
        ):
            np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-13)
    assert not compiled.eager
    if native:
        assert not compiled.lower(*args).lowered.calls_python
    return compiled


X = np.linspace(0.1, 1.2, 6).reshape(2, 3)


def decay(x, length=7, reverse=False):
    carry, ys = ad.scan(
        lambda c, row: (np.sin(c) * row[0] + c, c @ row), x[0], np.outer(np.arange(1.0, length + 1), x[1]), reverse=reverse
    )
    return np.sum(carry) + np.sum(ys**2)


@pytest.mark.parametrize("length", [1, 2, 7, 8])
@pytest.mark.parametrize("reverse", [False, True])
def test_scan_in_both_modes(length, reverse):
    f = lambda x: decay(x, length, reverse)
    same(f, X)
    same(ad.grad(f), X)
    same(lambda x: ad.jvp(f, (x,), (np.cos(x),)), X)
    same(ad.hessian(f), X, rtol=1e-9)


def test_loops_without_turns():
    same(lambda x: ad.scan(lambda c, v: (c * v, c), x, np.zeros((0,)))[0], 2.0)
    same(ad.grad(lambda x: ad.scan(lambda c, v: (c * v, c), x, np.zeros((0,)))[0]), 2.0)
    same(lambda x: ad.while_loop(lambda c: c > 1e9, lambda c: c * 2, x), 2.0)
    same(lambda x: ad.fori_loop(3, 3, lambda i, c: c * 2, x), 2.0)


def test_loops_in_loops():
    def f(x):
        def outer(c, row):
            inner = ad.fori_loop(0, 3, lambda i, v: v * row + i * c[0], c)
            return inner * 0.5, np.sum(inner)

        carry, ys = ad.scan(outer, x[0], x)
        return np.sum(carry) + np.sum(ys)

    same(f, X)
    same(ad.grad(f), X)
    same(ad.grad(lambda x: np.sum(ad.grad(f)(x) ** 2)), X)


def test_while_and_its_trip_count():
    def newton(a):
        return ad.while_loop(lambda c: abs(c[0] ** 2 - a) > 1e-12, lambda c: (0.5 * (c[0] + a / c[0]), c[1] + 1), (a, 0))

    root = ad.jit(newton)
    for a in (2.0, 3.0, 100.0):
        value, turns = root(a)
        assert value == pytest.approx(a**0.5)
        assert turns == newton(a)[1]
    assert len(root.paths) == 1  # one program, whatever the number of turns
    assert len(next(iter(root.paths.values()))) == 1
    same(ad.grad(lambda a: newton(a)[0]), 2.0)


@pytest.mark.parametrize("checkpoint", [None, 1, 2, 3, 100, "sqrt"])
def test_the_backward_pass_of_while(checkpoint):
    """Any number of turns, none included, cut into segments of any length."""

    def f(x, turns):
        def turn(carry):
            v, i, seen = carry
            return np.sin(v) * x + 0.1 * i, i + 1, np.logical_or(seen, v[0] > 1)

        v, _, _ = ad.while_loop(lambda c: c[1] < turns, turn, (x, 0, False), checkpoint=checkpoint)
        return np.sum(v * v)

    compiled = ad.jit(ad.value_and_grad(f))
    for turns in (0, 1, 2, 3, 4, 5, 10, 17):
        for got, want in zip(compiled(X[1], turns), ad.value_and_grad(f)(X[1], turns), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-12)
    path = compiled.lower(X[1], 3)
    assert not path.lowered.calls_python
    assert "unwind" in str(path.lowered)
    assert [len(paths) for paths in compiled.paths.values()] == [1]


def test_while_in_while_backward():
    def f(a):
        def inner(x):
            return ad.while_loop(lambda c: c > 1.0, lambda c: c * 0.7 * np.cos(a), x)

        def turn(c):
            return inner(c[0]) + a * 1.3, c[1] + 1

        return ad.while_loop(lambda c: c[1] < 4, turn, (a, 0))[0]

    same(ad.value_and_grad(f), 0.8)
    same(ad.value_and_grad(f), np.float32(0.8), rtol=1e-5)
    same(ad.grad(ad.grad(f)), 0.8, native=False, rtol=1e-9)


def test_a_failure_on_the_way_back():
    """An index that is out of bounds only when the states come again, or a callback inside, in a loop of its own."""

    def f(x, k):
        def turn(c):
            return c[0] * x[c[1] + k] + np.sum(np.sort(c[0] * x)), c[1] + 1

        return ad.while_loop(lambda c: c[1] < 2, turn, (x[0], 0))[0]

    same(ad.grad(f), X[1], 0, native=False)
    with pytest.raises(IndexError):
        ad.jit(ad.grad(f))(X[1], 7)


def test_a_long_while_is_cut_into_segments():
    """A million turns, both modes, in the memory of two thousand states."""

    def f(x, turns):
        turn = lambda c: (np.sin(c[0]) + 1e-3 * x, c[1] + 1)
        return ad.while_loop(lambda c: c[1] < turns, turn, (x, 0), checkpoint="sqrt")[0]

    back, forward = ad.jit(ad.grad(f)), ad.jit(lambda x, turns: ad.jvp(lambda x: f(x, turns), (x,), (1.0,))[1])
    for turns in (5, 1_000_000):
        assert back(0.3, turns) == pytest.approx(forward(0.3, turns), rel=1e-9)
    assert not back.lower(0.3, 5).lowered.calls_python


def test_an_index_that_is_computed():
    f = lambda x, k: x[k + 1] * 2
    same(f, X[0], 1)
    same(ad.grad(f), X[0], 1)
    same(lambda x, k: x[k - 1, k], X, 1)


def test_branches():
    def f(x):
        return ad.cond(np.sum(x) > 1, lambda x: np.sin(x) * 2, lambda x: np.exp(x[::-1]), x)

    compiled = same(f, X[0])
    np.testing.assert_allclose(compiled(X[0] * 100), f(X[0] * 100))
    same(ad.grad(lambda x: np.sum(f(x) ** 2)), X[0])
    assert len(next(iter(compiled.paths.values()))) == 1


def test_vmap_over_loops():
    f = lambda x: ad.fori_loop(0, 4, lambda i, c: np.sin(c) + i, x)
    same(ad.vmap(f), X)
    same(ad.vmap(lambda x: ad.while_loop(lambda c: c < 2.0, lambda c: c * 1.5, x)), X[0])
    same(ad.vmap(lambda x: ad.cond(x > 0.5, np.sin, np.cos, x)), X[0])


def test_a_callback_and_an_index_inside_a_loop():
    def f(x, i):
        return ad.scan(lambda c, k: (np.sort(c) + x[k], np.sum(c)), x, i)

    x, i = np.array([3.0, 1.0, 2.0]), np.array([0, 2, 1])
    same(f, x, i, native=False)
    with pytest.raises(IndexError):
        ad.jit(f)(x, np.array([0, 5, 1]))

    def fails(x):
        return ad.scan(lambda c, v: (np.linalg.inv(c) * v, None), x, np.array([1.0, 0.0]))[0]

    with pytest.raises(np.linalg.LinAlgError):
        ad.jit(lambda x: ad.scan(lambda c, v: (np.linalg.inv(c * v), None), x, np.array([1.0, 0.0]))[0])(np.eye(2))
    assert np.all(ad.jit(fails)(np.eye(2)) == 0)


def test_large_carries_and_pieces_inside_a_loop():
    x = np.linspace(0, 1, 60_000).reshape(200, 300)
    f = lambda x: ad.fori_loop(0, 5, lambda i, c: np.exp(-c) * np.sum(c, axis=0) / 200, x)
    compiled = same(f, x)
    assert compiled.lower(x).lowered.steps[-1].body.steps


def test_checkpoint_and_long_loops():
    f = lambda x: ad.scan(lambda c, _: (np.sin(c) + 1e-3 * c, None), x, None, length=10_000, checkpoint="sqrt")[0]
    same(ad.value_and_grad(f), 0.3, native=False, rtol=1e-9)
    g = lambda x: np.sum(ad.checkpoint(lambda x: np.sin(np.exp(x)))(x))
    same(ad.grad(g), X)


def test_lowered_loops_print():
    path = ad.jit(decay).lower(X)
    assert "scan of 7 turns" in str(path.lowered)
    assert not any(isinstance(s, Foreign) for s in path.lowered.steps)
    branch = ad.jit(lambda x: ad.cond(x > 0, np.sin, np.cos, x)).lower(1.0)
    assert "branch on" in str(branch.lowered)
    loop = ad.jit(lambda x: ad.while_loop(lambda c: c < 9, lambda c: c * 2, x)).lower(1.0)
    assert "while, from" in str(loop.lowered)
