"""Loops in tiles of points: which loops are tiled, which are not, and bitwise equal results."""

import random
import signal
import threading
import time

import numpy as np
import pytest

import adjoint as ad
from adjoint.compiler.lower import point_tiles
from adjoint.compiler.lower.step import PointTiles, Scan

RNG = np.random.default_rng(0)


def tiles(f, *args):
    return [step for step in ad.jit(f).lower(*args).lowered.steps if isinstance(step, PointTiles)]


def agree(monkeypatch, f, *args, grouped=True):
    """A program gives the same bits with its loops in tiles and without."""
    assert bool(tiles(f, *args)) == grouped
    got = ad.jit(f)(*args)
    with monkeypatch.context() as patch:
        patch.setattr(point_tiles, "LEAST_POINTS", 1 << 60)
        want = ad.jit(lambda *args: f(*args))(*args)
    got, want = (r if isinstance(r, tuple) else (r,) for r in (got, want))
    for a, b in zip(got, want, strict=True):
        np.testing.assert_array_equal(a, b)


def wave(carry, row):
    a, b = carry
    return (a + 0.1 * np.sin(b), b - 0.1 * a * row), (a, a * b)


def run(x, length, reverse=False):
    rows = np.linspace(0.5, 1.0, length).astype(x.dtype)
    (a, b), (c, d) = ad.scan(wave, (x, x * 0.5), rows, reverse=reverse)
    return a, b, c, d


@pytest.mark.sampled(3)
@pytest.mark.parametrize("points", [255, 256, 257, 1000, 4099])
@pytest.mark.parametrize("length", [1, 2, 33])
@pytest.mark.parametrize("reverse", [False, True])
def test_a_loop_that_stacks(monkeypatch, points, length, reverse):
    x = RNG.normal(size=points)
    agree(monkeypatch, lambda x: run(x, length, reverse), x, grouped=points >= 256)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shape", [(300,), (300, 3), (40, 7, 5)])
def test_gradients_run_both_loops_in_one_tile(monkeypatch, dtype, shape):
    x = RNG.normal(size=shape).astype(dtype)

    def loss(x):
        a, b, _, _ = run(x, 20)
        return np.sum(a * b)

    (step,) = tiles(ad.grad(loss), x)
    assert sum(isinstance(member, Scan) for member in step.members) == 2
    stacked = [view.buffer for member in step.members if isinstance(member, Scan) for view in member.stacks]
    assert stacked
    assert all(buffer in step.offsets for buffer in stacked)
    agree(monkeypatch, ad.grad(loss), x)
    agree(monkeypatch, ad.value_and_grad(loss), x)


def test_a_loss_in_pieces_between_the_loops():
    x = np.ones(120_000)
    (step,) = tiles(ad.value_and_grad(lambda x: np.sum(np.sin(run(x, 2)[0]))), x)
    assert sum(isinstance(member, Scan) for member in step.members) == 2
    value, gradient = ad.jit(ad.value_and_grad(lambda x: np.sum(np.sin(run(x, 2)[0]))))(x)
    want, slope = ad.value_and_grad(lambda x: np.sum(np.sin(run(x, 2)[0])))(x)
    np.testing.assert_allclose(value, want, rtol=1e-12)
    np.testing.assert_allclose(gradient, slope, rtol=1e-12)


def test_stacks_beyond_the_cache_are_stored_whole(monkeypatch):
    x = RNG.normal(size=300)
    monkeypatch.setattr(point_tiles, "_MOST_MEMORY", 1000)
    agree(monkeypatch, ad.grad(lambda x: np.sum(run(x, 20)[0])), x)


def test_a_counter_and_values_for_each_point(monkeypatch):
    def f(x, w):
        def step(i, carry):
            return carry * np.cos(w * i) + 0.1

        return ad.fori_loop(0, 12, step, x)

    x, w = RNG.normal(size=(2, 500))
    agree(monkeypatch, f, x, w)
    agree(monkeypatch, lambda x, w: ad.grad(lambda x: np.sum(f(x, w)))(x), x, w)


def test_vmap_and_python_loops(monkeypatch):
    def one(s):
        x, y, z = s[0], s[1], s[2]
        for _ in range(30):
            x, y, z = x + 0.01 * (y - x), y + 0.01 * (x * (28.0 - z) - y), z + 0.01 * (x * y - 2.5 * z)
        return x * y + z

    agree(monkeypatch, ad.vmap(ad.grad(one)), RNG.normal(size=(700, 3)))


def test_a_state_of_short_rows(monkeypatch):
    def f(s):
        def step(s, _):
            x, y, z = s[:, 0], s[:, 1], s[:, 2]
            return s + 0.01 * np.stack([10 * (y - x), x * (28 - z) - y, x * y - 2.5 * z], axis=1), None

        return np.sum(ad.scan(step, s, None, length=9)[0] ** 2)

    agree(monkeypatch, ad.value_and_grad(f), RNG.normal(size=(600, 3)))


@pytest.mark.parametrize(
    "step",
    [
        lambda c, _: (c + 0.1 * np.roll(c, 1), None),
        lambda c, _: (c[::-1] * 0.5, None),
        lambda c, _: (c - np.sum(c) / 600, None),
        lambda c, _: (c + 0.1 * np.concatenate([c[1:], c[:1]]), None),
        lambda c, _: (np.sort(c) * 0.9, None),
    ],
    ids=["roll", "reversed", "sum", "neighbour", "sort"],
)
def test_points_that_need_each_other_are_not_in_tiles(monkeypatch, step):
    agree(monkeypatch, lambda x: ad.scan(step, x, None, length=7)[0], RNG.normal(size=600), grouped=False)


def body(seed):
    """A random body of a loop: two carries, an array for each point, a number for all, a row."""
    rng = random.Random(seed)
    names, text = ["a", "b", "p", "q", "r"], []
    for i in range(rng.randrange(2, 12)):
        x, y = rng.choice(names), rng.choice(names)
        form = rng.choice(["sin({x}) + {y}", "{x} * {y}", "({x} - {y}) * 0.3", "where({x} > {y}, {x}, 0.5)", "tanh({x})"])
        text.append(f"    v{i} = {form.format(x=x, y=y)}")
        names.append(f"v{i}")
    a, b, c, d = (f"tanh({rng.choice(names)})" for _ in range(4))
    scope = {"sin": np.sin, "tanh": np.tanh, "where": np.where}
    exec("\n".join(["def step(a, b, p, q, r):", *text, f"    return ({a} + a * 0.5, {b} + b * q), ({c} + a, {d} * b)"]), scope)
    return scope["step"]


@pytest.mark.parametrize("seed", range(12))
def test_random_bodies(monkeypatch, seed):
    step, rng = body(seed), np.random.default_rng(seed)
    points, length = int(rng.integers(256, 1200)), int(rng.integers(1, 30))
    rows = rng.normal(size=(length, points)) if seed % 2 else rng.normal(size=length)

    def f(a, p, q):
        (a, b), (c, d) = ad.scan(lambda s, r: step(*s, p, q, r), (a, a * 0.5), rows)
        return np.sum(a * b) + np.sum(c * d)

    a, p = rng.normal(size=(2, points))
    agree(monkeypatch, lambda a, p: f(a, p, 0.3), a, p)
    agree(monkeypatch, ad.value_and_grad(lambda a, p: f(a, p, 0.3)), a, p)


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="signals of this system go to no thread")
def test_a_long_loop_is_interrupted():
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs inherit that it is ignored
    try:
        interrupt_a_long_loop()
    finally:
        signal.signal(signal.SIGINT, handler)


def interrupt_a_long_loop():
    f = ad.jit(lambda x: ad.scan(lambda c, _: (np.sin(c) * 1.1, None), x, None, length=2_000_000)[0])
    x = np.ones(40_000)
    assert any(isinstance(step, PointTiles) for step in f.lower(x).lowered.steps)  # compiled, and not run
    main = threading.main_thread().ident
    threading.Timer(0.5, lambda: signal.pthread_kill(main, signal.SIGINT)).start()
    began = time.process_time()  # other processes do not count
    with pytest.raises(KeyboardInterrupt):  # a minute of work
        f(x)
    assert time.process_time() - began < 10
