"""Sums over the points of a loop are taken after it, if its points are then independent."""

import numpy as np
import pytest

import adjoint as ad
from adjoint.api.graph import infer_types
from adjoint.compiler.lower.step import PointTiles, Scan
from adjoint.ir.check import check
from adjoint.rewrite.loops import sum_points_last
from adjoint.rewrite.loops.point_sums import LEAST_ITERATIONS, LEAST_POINTS
from adjoint.rewrite.simplify import simplify

RNG = np.random.default_rng(0)


def staged(f, *args):
    return simplify(ad.graph(f)(*args))[0]


def moved(f, *args):
    """Whether the sums of a function's loops are moved; the results stay the same."""
    before = staged(f, *args)
    after = sum_points_last(before)
    if after is before:
        return False
    check(after, infer_types)
    values = [np.asarray(a) for a in args]
    for got, want in zip(after.run_flat(values), before.run_flat(values), strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=1e-4 if want.dtype == np.float32 else 1e-11, atol=1e-300)
    return True


def total(points, start, length=6, how=lambda x: np.sum(x)):
    """A sum that each iteration adds to, over independent points."""

    def step(carry, row):
        x, total = carry
        return (np.cos(x) + row, total + how(x)), None

    return ad.scan(step, (points, start), np.linspace(0.0, 1.0, length).astype(points.dtype))[0]


@pytest.mark.parametrize("length", [LEAST_ITERATIONS - 1, LEAST_ITERATIONS])
@pytest.mark.parametrize("count", [LEAST_POINTS - 1, LEAST_POINTS])
def test_from_some_points_and_iterations_on(count, length):
    x = RNG.normal(size=count)
    assert moved(lambda x: total(x, x[0], length), x) == (count == LEAST_POINTS and length == LEAST_ITERATIONS)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "how",
    [
        lambda x: np.sum(x),
        lambda x: np.sum(x) - np.sum(x * x),
        lambda x: -(np.sum(x) + np.sum(np.sin(x)) + np.sum(x * x)),
        lambda x: np.sum(x.reshape(-1, 1)),
    ],
)
def test_linear_functions_of_sums(how, dtype):
    assert moved(lambda x: total(x, x[3], how=how), RNG.normal(size=300).astype(dtype))


@pytest.mark.parametrize(
    "how",
    [
        lambda x: np.sum(x) * np.sum(x),  # not linear
        lambda x: np.max(x),
        lambda x: np.sum(x[:-1] * x[1:]),  # of neighbours
        lambda x: np.sum(np.cumsum(x)),
        lambda x: np.sum(x * np.mean(x)),
        lambda x: x[0],
        lambda x: np.sum(x.reshape(-1, 2)),  # other points
    ],
)
def test_other_functions_stay(how):
    assert not moved(lambda x: total(x, x[3], how=how), RNG.normal(size=300))


def test_loops_whose_points_depend_on_each_other_stay():
    def f(x):
        def step(carry, _):
            x, total = carry
            return (0.5 * (x + np.roll(x, 1)), total + np.sum(x)), None

        return ad.scan(step, (x, 0.0 * x[0]), None, length=9)[0]

    assert not moved(f, RNG.normal(size=300))


def test_a_sum_that_an_iteration_reads_stays():
    def f(x):
        return ad.scan(lambda c, _: ((np.cos(c[0]) + c[1], c[1] + np.sum(c[0])), None), (x, 0.0 * x[0]), None, length=9)[0]

    def h(x):
        return ad.scan(lambda c, _: ((np.cos(c[0]), np.sum(c[0]) - c[1]), None), (x, 0.0 * x[0]), None, length=9)[0]

    def g(x):
        return ad.scan(lambda c, _: ((np.cos(c[0]), c[1] + np.sum(c[0])), c[1]), (x, 0.0 * x[0]), None, length=9)

    x = RNG.normal(size=300)
    assert not moved(f, x)
    assert not moved(g, x)
    assert not moved(h, x)


def test_rows_of_points_and_sums_of_columns():
    def f(x):
        def step(carry, _):
            x, columns, all_of_it = carry
            y = np.stack([x[:, 1], np.sin(x[:, 0]), x[:, 2] + x[:, 0]], axis=1)
            return (y, columns + np.sum(x, axis=0), all_of_it - np.sum(y)), None

        return ad.scan(step, (x, 1.0 + x[0], x[0, 0]), None, length=7)[0]

    assert moved(f, RNG.normal(size=(300, 3)))


def test_a_sum_that_is_added_to_several_totals_stays():
    x = RNG.normal(size=300)
    assert not moved(lambda x: total(x, x[:2]), x)
    f = lambda x: total(x, x[:2])[1]
    np.testing.assert_allclose(ad.jit(f)(x), f(x), rtol=1e-12)
    g = lambda p: ad.vmap(lambda p: total(x, p)[1])(p)
    np.testing.assert_allclose(ad.jit(g)(x[:3]), g(x[:3]), rtol=1e-12)


def test_whether_any_point_did():
    def f(x):
        def step(carry, _):
            x, found = carry
            return (np.cos(x), np.logical_or(found, np.any(x > 0.999))), None

        return ad.scan(step, (x, x[0] > 9.0), None, length=7)[0]

    for shift in (0.0, 5.0):
        assert moved(f, RNG.normal(size=300) * 0.1 + shift)
    assert f(np.zeros(300))[1]


# -- gradients by parameters that all points share ----------------------------------------------------------------


def paths(p, dw):
    """Paths with a volatility of their own."""
    x, v = np.zeros(dw.shape[1], dw.dtype), p[1] + np.zeros(dw.shape[1], dw.dtype)
    for row in dw:
        root = np.sqrt(np.maximum(v, 1e-8))
        x = x - 0.5 * v + root * row
        v = v + p[0] * (p[1] - v) + p[2] * root * row
    return np.mean(np.maximum(np.exp(x) - 1.0, 0.0))


def trajectories(p, s):
    for _ in range(30):
        x, y, z = s[:, 0], s[:, 1], s[:, 2]
        s = s + 0.01 * np.stack([p[0] * (y - x), x * (p[1] - z) - y, x * y - p[2] * z], axis=-1)
    return np.sum(s[:, 0] ** 2 + s[:, 1])


def batched(p, s):
    def one(s):
        def step(c, _):
            x, y = c
            return (x + 0.1 * p[0] * y, y - 0.1 * (p[1] * x + p[2] * y)), None

        return ad.scan(step, (s[0], s[1]), None, length=15)[0][0]

    return np.sum(ad.vmap(one)(s))


P = np.array([1.2, 0.3, 0.2])
CASES = {"paths": (paths, (30, 300)), "trajectories": (trajectories, (300, 3)), "batched": (batched, (300, 2))}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_both_loops_run_in_tiles(name, dtype):
    f, shape = CASES[name]
    p, x = P.astype(dtype), 0.1 * RNG.normal(size=shape).astype(dtype)
    compiled = ad.jit(ad.grad(f))
    (step,) = [s for s in compiled.lower(p, x).lowered.steps if isinstance(s, (PointTiles, Scan))]
    assert isinstance(step, PointTiles)
    assert sum(isinstance(member, Scan) for member in step.members) == 2
    close = {"rtol": 2e-3, "atol": 1e-5} if dtype == np.float32 else {"rtol": 1e-11, "atol": 1e-13}
    np.testing.assert_allclose(compiled(p, x), ad.grad(f)(p, x), **close)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(
    "of",
    [
        ad.value_and_grad,
        lambda f: ad.grad(f, argnums=(0, 1)),
        lambda f: lambda p, x: ad.jvp(lambda p: f(p, x), (p,), (np.cos(p),)),
        lambda f: lambda p, x: ad.vmap(ad.grad(f), in_axes=(0, None))(np.stack([p, 1.1 * p]), x),
        lambda f: ad.grad(lambda p, x: np.sum(ad.grad(f)(p, x) ** 2)),
    ],
)
def test_other_derivatives(name, of):
    f, shape = CASES[name]
    args = P, 0.1 * RNG.normal(size=shape)
    got, want = ad.jit(of(f))(*args), of(f)(*args)
    for a, b in zip(got, want, strict=True) if isinstance(want, tuple) else [(got, want)]:
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)


def test_points_that_are_not_finite():
    x = RNG.normal(size=300)
    for odd in (np.nan, np.inf):
        x[7] = odd
        assert np.isnan(ad.jit(lambda x: total(x, x[0])[1])(x))
