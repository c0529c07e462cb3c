"""Loops over stencils in time tiles: which are, on both sides of each limit, and the same bits as without."""

import numpy as np
import pytest

import adjoint as ad
from adjoint.compiler.lower import time_tiles
from adjoint.compiler.lower.step import TimeTiles
from adjoint.compiler.switches import Switch, without

RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    """Small grids have tiles too, of 16 rows."""
    monkeypatch.setattr(time_tiles, "LARGE", 1)
    monkeypatch.setattr(time_tiles, "_FAST", 0)
    monkeypatch.setattr(time_tiles, "_LONGEST", 16)


def tiles(f, *xs):
    return [step for step in ad.jit(f).lower(*xs).lowered.steps if isinstance(step, TimeTiles)]


def agree(f, *xs, tiled=1):
    """The same bits as without tiles."""
    assert len(tiles(f, *xs)) == tiled
    compiled = ad.jit(f)
    with without(Switch.TIME_TILES):
        wanted = ad.jit(lambda *xs: f(*xs))(*xs)
    for got in (compiled(*xs), compiled(*xs)):
        for a, b in zip(*(r if isinstance(r, tuple) else (r,) for r in (got, wanted)), strict=True):
            np.testing.assert_array_equal(a, b)


def padded(u):
    edges = [(1, 1)] + [(0, 0)] * (u.ndim - 1)
    return u + 0.1 * np.pad(u[2:] - 2 * u[1:-1] + u[:-2], edges)


def in_place(u):
    u = u * 1.0
    u[1:-1] += 0.1 * (u[2:] - 2 * u[1:-1] + u[:-2])
    return u


def fixed_ends(u):
    new = np.sin(u)
    new[0], new[-1] = 0.0, 1.0
    new[1:-1] = 0.5 * (u[2:] + u[:-2])
    return new


def upwind(u):
    """Reads two rows behind, none before."""
    new = u * 0.9
    new[2:] += 0.1 * u[:-2]
    return new


def repeated(step, count):
    return lambda u: ad.scan(lambda u, _: (step(u), None), u, None, length=count)[0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=str)
@pytest.mark.parametrize("shape", [(100,), (37, 11), (64, 5, 4), (33, 1)], ids=str)
@pytest.mark.parametrize("step", [padded, in_place, upwind])
def test_stencils_both_ways(step, shape, dtype):
    u, f = RNG.normal(size=shape).astype(dtype), repeated(step, 21)
    agree(f, u)
    gradient = ad.grad(lambda u: np.sum(f(u) ** 2))
    agree(gradient, u, tiled=2)
    np.testing.assert_allclose(ad.jit(gradient)(u), gradient(u), rtol=1e-3 if dtype is np.float32 else 1e-11, atol=1e-5)


@pytest.mark.parametrize("count", [7, 8, 9, 12, 16, 40, 41])
@pytest.mark.parametrize("rows", [31, 32, 33, 48, 100])
@pytest.mark.parametrize("longest", [16, 23, 40])
def test_lengths(monkeypatch, longest, rows, count):
    monkeypatch.setattr(time_tiles, "_LONGEST", longest)
    agree(repeated(padded, count), RNG.normal(size=(rows, 3)), tiled=int(count >= 8 and rows >= 2 * longest))


@pytest.mark.parametrize("step", [padded, in_place])
def test_loops_of_python(step):
    def f(u):
        for _ in range(20):
            u = step(u)
        return u

    agree(f, RNG.normal(size=80))


def test_two_states_and_a_coefficient_at_each_point():
    def wave(u, speed):
        def step(state, _):
            a, b = state
            return (2 * a - b + speed * np.pad(a[2:] - 2 * a[1:-1] + a[:-2], [(1, 1), (0, 0)]), a), None

        (a, b), _ = ad.scan(step, (u, u), None, length=19)
        return a, b

    u, speed = RNG.normal(size=(50, 7)), RNG.uniform(0.0, 0.2, size=(50, 7))
    agree(wave, u, speed)
    agree(ad.grad(lambda u: np.sum(wave(u, speed)[0] ** 2)), u)  # the cotangent times the speed is a kernel of its own
    agree(wave, u, np.array(0.1))
    agree(ad.grad(lambda u: np.sum(wave(u, 0.1)[0] ** 2)), u, tiled=2)


def test_both_axes_and_neighbours_across():
    def step(u):
        inside = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] + u[2:, 2:] - 5 * u[1:-1, 1:-1]
        return u + 0.1 * np.pad(inside, 1)

    u = RNG.normal(size=(60, 20))
    agree(repeated(step, 20), u)
    agree(ad.grad(lambda u: np.sum(repeated(step, 20)(u) ** 2)), u, tiled=2)


@pytest.mark.parametrize("halo, tiled", [(1, 1), (4, 1), (5, 0)])
def test_the_reach_of_a_stencil(monkeypatch, halo, tiled):
    monkeypatch.setattr(time_tiles, "_LONGEST", 64)

    agree(repeated(lambda u: 0.5 * u + 0.4 * np.pad(u[halo:], (0, halo)), 20), RNG.normal(size=400), tiled=tiled)


def test_small_states_have_no_tiles(monkeypatch):
    for name, rows, tiled in (("LARGE", 99, 0), ("LARGE", 100, 1)):
        monkeypatch.setattr(time_tiles, name, 800)
        agree(repeated(padded, 20), RNG.normal(size=rows), tiled=tiled)
    monkeypatch.setattr(time_tiles, "_FAST", 1 << 15)
    monkeypatch.setattr(time_tiles, "LARGE_OF_SHORT_ROWS", 80_000)
    for rows, tiled in ((9_999, 0), (10_000, 1)):
        agree(repeated(padded, 20), RNG.normal(size=rows), tiled=tiled)


@pytest.mark.parametrize(
    "f",
    [
        repeated(lambda u: u + 0.1 * np.roll(u, 1), 20),
        repeated(lambda u: u[::-1] * 0.5, 20),
        repeated(lambda u: padded(u) / (1.0 + np.sum(u * u)), 20),
        repeated(lambda u: np.sort(padded(u)), 20),
        lambda u: ad.scan(lambda u, row: (padded(u) + row, None), u, np.ones(20))[0],
        lambda u: ad.scan(lambda u, _: (padded(u), u[3]), u, None, length=20)[1],
    ],
    ids=["periodic", "reversed", "sum", "sort", "rows", "stacks"],
)
def test_other_loops_have_no_tiles(f):
    u = RNG.normal(size=200)
    agree(f, u, tiled=0)
    np.testing.assert_allclose(ad.jit(f)(u), f(u), rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_any_number_of_threads(threads):
    before, u = ad.get_num_threads(), RNG.normal(size=(500, 40))
    try:
        ad.set_num_threads(threads)
        agree(repeated(fixed_ends, 30), u, tiled=len(tiles(repeated(fixed_ends, 30), u)))
        agree(repeated(padded, 30), u)
    finally:
        ad.set_num_threads(before)


def test_the_argument_stays_and_results_do_not_share_memory():
    f, u = ad.jit(repeated(padded, 20)), RNG.normal(size=100)
    kept = u.copy()
    first = f(u)
    second = f(u + 1.0)
    np.testing.assert_array_equal(u, kept)
    np.testing.assert_array_equal(first, f(u))
    assert not np.shares_memory(first, second)


def test_inside_another_loop_and_a_branch():
    def f(u):
        def outer(u, scale):
            return repeated(padded, 10)(u * scale), None

        u = ad.scan(outer, u, np.array([0.9, 1.1, 1.0]))[0]
        return ad.cond(np.sum(u) > 0.0, repeated(padded, 9), lambda u: u * 2.0, u)

    u = RNG.normal(size=90)
    with_tiles = ad.jit(f)(u)
    with without(Switch.TIME_TILES):
        np.testing.assert_array_equal(with_tiles, ad.jit(lambda u: f(u))(u))
