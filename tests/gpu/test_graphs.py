"""Loops, branches and library calls as CUDA graphs: recorded once, right for other numbers, bitwise as launched one by one."""

import numpy as np
import pytest
from on_device import on_cpu, program, same_bits

import adjoint as ad
from adjoint.core.types import Type

RNG = np.random.default_rng(0)
X, W, V = RNG.normal(size=300), RNG.normal(size=(40, 40)) / 6, RNG.normal(size=40)


def powers(v, w):
    """A product in each iteration."""
    return ad.scan(lambda c, _: (np.tanh(w @ c) + 0.1, np.sum(c)), v, None, 12)


def stacked(a):
    return ad.scan(lambda c, _: (np.sin(c @ np.swapaxes(c, 1, 2)) / 3, None), a, None, 6)[0]


def factors(a):
    """A decomposition and systems in each iteration."""
    step = lambda c, _: (a + 0.1 * np.linalg.solve(np.linalg.cholesky(c @ c.T + 40 * np.eye(40)), c), None)
    return ad.scan(step, a, None, 5)[0]


def inverses(a):
    return ad.scan(lambda c, _: (np.linalg.inv(c + 8 * np.eye(5)) + a, np.linalg.slogdet(c)[1]), a, None, 4)


def until(x):
    return ad.while_loop(lambda c: np.sum(c * c) < 1e5, lambda c: c * 1.5 + np.mean(c), x)


def until_by_product(v, w):
    return ad.while_loop(
        lambda c: np.logical_and(np.sum(c[0]) < 500, c[1] < 30), lambda c: (np.abs(w @ c[0]) + c[0], c[1] + 1), (v, 0)
    )


def chosen(x):
    return ad.cond(np.sum(x) > 0, lambda x: np.sin(x) + np.sum(x), lambda x: x * x, x)


def nested(x):
    """Branches in a loop, in a branch."""
    inner = lambda c: ad.cond(np.max(c) > 9, lambda c: c * 0.5 + 1, lambda c: c * 3 + np.mean(c) + 1, c)
    loop = lambda x: ad.while_loop(lambda c: c[1] < 7, lambda c: (inner(c[0]), c[1] + 1), (x, 0))[0]
    return ad.cond(np.sum(x) > 0, loop, lambda x: loop(x * x) - 1, x)


def in_a_scan(x):
    step = lambda c, _: (ad.cond(np.sum(c) > 3, lambda c: c * 0.5, lambda c: c + np.max(c) + 0.5, c), np.sum(c))
    return ad.scan(step, x, None, 9)


PROGRAMS = {
    "products": (powers, [(V, W), (V * 2, W), (V - 1, -W)]),
    "gradient of products": (ad.grad(lambda v, w: np.sum(powers(v, w)[0]), (0, 1)), [(V, W), (V * 2, W)]),
    "stacks of products": (stacked, [(RNG.normal(size=(4, 6, 6)),) for _ in range(3)]),
    "systems": (factors, [(W,), (W * 2,), (W.T + 1,)]),
    "inverses": (inverses, [(RNG.normal(size=(5, 5)),) for _ in range(3)]),
    "while": (until, [(X,), (X * 0.01,), (X * 1e3,)]),
    "while with products": (until_by_product, [(np.abs(V), W), (np.abs(V) * 9, W), (V * 0 + 1e3, W)]),
    "cond": (chosen, [(np.abs(X),), (-np.abs(X),), (X,)]),
    "gradient of cond": (ad.grad(lambda x: np.sum(chosen(x) ** 2)), [(np.abs(X),), (-np.abs(X),)]),
    "nested": (nested, [(np.abs(X),), (-np.abs(X),), (X * 9,)]),
    "cond in a scan": (in_a_scan, [(X,), (X * 9,), (-np.abs(X),)]),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_replayed_programs(gpu, name):
    f, inputs = PROGRAMS[name]
    made, _ = program(f, inputs[0], gpu)
    held = [gpu.adopt(x.copy(), _type(x)) for x in inputs[0]]
    if made.replays is None:
        assert not gpu.has_conditions
    launched, made.replays = made.replays, None
    wanted = [[gpu.host(y) for y in made(*(gpu.adopt(x, _type(x)) for x in args))] for args in inputs]
    made.replays = launched
    for _ in range(3):
        for args, expected in zip(inputs, wanted, strict=True):
            for there, x in zip(held, args, strict=True):
                there[...] = gpu.xp.asarray(x)
            found = [gpu.host(y) for y in made(*held)]
            for a, b, c in zip(found, expected, on_cpu(f, args), strict=True):
                same_bits(a, b)
                np.testing.assert_allclose(a, c, rtol=1e-9, atol=1e-9 * (1 + np.max(np.abs(c))))
    if made.replays is not None:
        assert not made.replays.refused
        assert any(made.replays.known.values()), "no graph was made"


def _type(x):
    from adjoint.core.types import Type

    return Type.of(x)


def test_failures_inside_are_seen(gpu):
    """In loops and branches, launched and replayed."""
    read = lambda x, i: ad.scan(lambda c, k: (c + np.mean(c * x) + x[k], None), 0.0, i)[0]
    made, (x, i) = program(read, (np.ones(5), np.arange(12) % 5), gpu)
    wrong = i + 1
    for _ in range(4):
        made(x, i)
        with pytest.raises(IndexError, match="out of bounds"):
            made(x, wrong)
    branch = lambda a, k: ad.cond(np.sum(k) > 0, lambda a, k: np.linalg.cholesky(a), lambda a, k: a * k, a, k)
    made, (a, k) = program(branch, (np.eye(3), np.array(1.0)), gpu)
    for _ in range(4):
        made(a, k)
        made(-a, gpu.adopt(-1.0, Type.of(1.0)))
        with pytest.raises(np.linalg.LinAlgError, match="definite"):
            made(-a, k)


def test_flags_of_a_replayed_program(gpu):
    """Which stand in the arena, whose places are known without running a step."""

    def f(x, i):
        y = ad.scan(lambda c, _: (c - np.mean(c) + x, None), x, None, 12)[0]
        return y[i]

    made, (x, i) = program(f, (X, np.array([3, 5])), gpu)
    for _ in range(4):
        np.testing.assert_allclose(gpu.host(made(x, i)[0]), f(X, np.array([3, 5])), rtol=1e-12)
        with pytest.raises(IndexError):
            made(x, i + 300)
