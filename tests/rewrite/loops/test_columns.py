"""Loops over many points carry the columns of short rows."""

import numpy as np
import pytest

import adjoint as ad
from adjoint.api.graph import infer_types
from adjoint.compiler.lower.step import PointTiles, Scan
from adjoint.ir.check import check
from adjoint.rewrite.loops import split_columns
from adjoint.rewrite.loops.columns import MOST_COLUMNS, MOST_EQUATIONS
from adjoint.rewrite.loops.point_sums import LEAST_ITERATIONS, LEAST_POINTS
from adjoint.rewrite.simplify import simplify

RNG = np.random.default_rng(0)


def is_split(f, *args):
    """Whether a loop carries columns instead of rows; the results stay the same, bit by bit."""
    before = simplify(ad.graph(f)(*args))[0]
    after = split_columns(before)
    if after is before:
        return False
    check(after, infer_types)
    carried = [e.types[: e.params["carries"]] for e in after.equations if e.op.name == "scan"]
    assert any(all(t.ndim < 2 for t in types) for types in carried)
    values = [np.asarray(a) for a in args]
    for got, want in zip(after.run_flat(values), before.run_flat(values), strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)
    return True


def loop(step, s, length=6):
    return ad.scan(lambda s, _: (step(s), None), s, None, length=length)[0]


def turned(s):
    return s + 0.1 * np.stack([s[:, 1], -s[:, 0]] + [s[:, j] * s[:, 0] for j in range(2, s.shape[1])], axis=1)


@pytest.mark.parametrize("length", [LEAST_ITERATIONS - 1, LEAST_ITERATIONS])
@pytest.mark.parametrize("points", [LEAST_POINTS - 1, LEAST_POINTS])
@pytest.mark.parametrize("columns", [2, MOST_COLUMNS, MOST_COLUMNS + 1])
def test_many_points_short_rows(points, columns, length):
    found = is_split(lambda s: loop(turned, s, length), RNG.normal(size=(points, columns)))
    assert found == (points == LEAST_POINTS and columns <= MOST_COLUMNS and length == LEAST_ITERATIONS)


W = RNG.normal(size=3)
STEPS = {
    "stack": turned,
    "slices": lambda s: np.concatenate([s[:, 1:] + 0.0, s[:, :1] * 0.5], axis=1),
    "concatenated columns": lambda s: np.concatenate([s[:, 2:], np.cos(s[:, :2])], axis=1),
    "a vector for all points": lambda s: s * W + np.array([[0.1, 0.2, 0.3]]) * s[:, :1],
    "a number for each point": lambda s: s + s[:, 0][:, None] * 0.1,
    "norm": lambda s: s / np.sqrt(1.0 + np.sum(s**2, axis=1, keepdims=True)) + s[:, 1:2],
    "sum": lambda s: np.stack([np.sum(s, axis=1), s[:, 1], s[:, 0]], axis=1),
    "branches": lambda s: np.where(s > 0.0, s, np.where(s[:, :1] > 0.5, -s, 0.25)),
    "any": lambda s: np.where(np.any(s > 1.0, axis=1, keepdims=True), 0.5 * s, s + s[:, 1:2]),
    "constants": lambda s: s[:, :1] + np.linspace(0.0, 1.0, s.size).reshape(s.shape),
    "rounded": lambda s: s + np.floor(s[:, 2:3]),
    "a new axis and back": lambda s: s + np.stack([s[:, 1][:, None][:, 0], s[:, 0], s[:, :1].reshape(-1)], axis=1),
    "broadcast": lambda s: np.broadcast_to(s[:, 1:2], s.shape) * 0.5 + np.broadcast_to(W, s.shape),
}


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_steps(name, dtype):
    step = lambda s: STEPS[name](s).astype(dtype)
    x = RNG.normal(size=(300, 3)).astype(dtype)
    assert is_split(lambda s: loop(step, s), x)
    np.testing.assert_allclose(ad.jit(lambda s: loop(step, s))(x), loop(step, x), rtol=1e-5 if dtype == np.float32 else 1e-12)


@pytest.mark.parametrize("name", [name for name in STEPS if name != "rounded"])
@pytest.mark.parametrize("of", [ad.grad, lambda f: lambda x: ad.jvp(f, (x,), (np.cos(x),))[1]])
def test_derivatives(name, of):
    f = lambda s: np.sum(np.sin(loop(STEPS[name], s))[:, ::2])
    x = RNG.normal(size=(260, 3))
    is_split(of(f), x)
    np.testing.assert_allclose(ad.jit(of(f))(x), of(f)(x), rtol=1e-10, atol=1e-12)


REFUSED = {
    "product": lambda s: s @ np.ones((3, 3)) * 0.1 + s[:, :1],
    "neighbours": lambda s: s + np.roll(s, 1, axis=0)[:, :1],
    "order": lambda s: np.sort(s, axis=1) + s[:, :1],
    "no columns": lambda s: np.sin(s),
    "the largest": lambda s: s[:, :1] + np.max(s, axis=1, keepdims=True) + 0.0 * s,
    "points by a number": lambda s: s[:, :1] + 0.0 * s + s[0],
    "running sums": lambda s: np.cumsum(s, axis=1) * 0.1 + s[:, :1],
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_steps_stay(name):
    assert not is_split(lambda s: loop(REFUSED[name], s), RNG.normal(size=(300, 3)))


READ = {
    "rows of matrices": lambda s, m: m[:, 0],
    "columns of matrices": lambda s, m: m[:, :, 1],
    "columns of matrices, last axis first": lambda s, m: m[..., 2],
    "parts of columns": lambda s, m: m[:, :1, 0] + s,
    "elements": lambda s, m: m[:, 1, 2][:, None] + s,
    "rows with a new axis": lambda s, m: m[:, None, 0][:, 0],
    "products": lambda s, m: (m @ s[:, :, None])[:, :, 0],
    "columns in products": lambda s, m: (s[:, None, :2] @ m[:, :2])[:, 0],
    "a row for all points": lambda s, m: s + m[0, 1],
    "everything": lambda s, m: np.sum(m[()], axis=1),
}


@pytest.mark.parametrize("name", READ)
def test_rows_beside_matrices(name):
    """A matrix for each point, which is read and, in the backward pass, written by parts."""

    def f(s, m):
        def step(carry, _):
            s, m = carry
            return (s + 0.1 * np.tanh(READ[name](s, m)) + 0.1 * s[:, 1:2], 0.9 * m + 0.1 * s[:, :, None]), None

        s, m = ad.scan(step, (s, m), None, length=6)[0]
        return np.sum(np.sin(s)) + np.sum(m[:, 0] ** 2)

    args = RNG.normal(size=(260, 3)), RNG.normal(size=(260, 3, 3))
    np.testing.assert_allclose(ad.jit(f)(*args), f(*args), rtol=1e-12)
    for got, want in zip(ad.jit(ad.grad(f, (0, 1)))(*args), ad.grad(f, (0, 1))(*args), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12)


def test_long_bodies_stay():
    def long(s):
        for _ in range(MOST_EQUATIONS):
            s = np.cos(s)
        return turned(s)

    assert not is_split(lambda s: loop(long, s), RNG.normal(size=(300, 3)))


def test_rows_and_stacks_of_rows():
    def f(s, drive):
        return ad.scan(lambda s, d: (turned(s) + d * s[:, :1], (s, s[:, 1])), s, drive)

    assert is_split(f, RNG.normal(size=(300, 3)), RNG.normal(size=(6, 300, 3)))
    args = RNG.normal(size=(300, 3)), RNG.normal(size=(6, 300, 3))
    loss = lambda s, drive: sum(np.sum(np.cos(y)) for y in (f(s, drive)[0], *f(s, drive)[1]))
    for got, want in zip(ad.jit(ad.grad(loss, (0, 1)))(*args), ad.grad(loss, (0, 1))(*args), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-13)


def test_a_loop_that_is_refused_after_one_that_is_not():
    """What was noted for the refused loop is forgotten."""

    def f(s):
        s = 2.0 * loop(turned, s) + 1.0
        s = loop(lambda s: s[:, :1] + np.sort(s, axis=1), s)
        return loop(turned, s * 0.5)

    x = RNG.normal(size=(300, 3))
    np.testing.assert_allclose(ad.jit(f)(x), f(x), rtol=1e-12)
    np.testing.assert_allclose(ad.jit(ad.grad(lambda s: np.sum(f(s))))(x), ad.grad(lambda s: np.sum(f(s)))(x), rtol=1e-10)


def slope(s):
    x, y, z = s[..., 0], s[..., 1], s[..., 2]
    return np.stack([10 * (y - x), x * (28 - z) - y, x * y - 2.5 * z], axis=-1)


def end(s):
    for _ in range(25):
        a = slope(s)
        b = slope(s + 0.005 * a)
        s = s + 0.01 * b
    return s


@pytest.mark.parametrize(
    ("f", "groups"),
    [
        (ad.grad(lambda s: np.sum(end(s) ** 2)), 1),
        (ad.vmap(ad.grad(lambda s: np.sum(end(s) ** 2))), 1),
        (ad.grad(lambda s: np.mean(ad.vmap(end)(s) ** 2)), 1),
        (ad.value_and_grad(lambda s: np.sum(np.exp(-(end(s) ** 2)))), 1),
        (ad.grad(lambda s: np.sum(ad.grad(lambda s: np.sum(end(s) ** 2))(s) ** 2)), 2),  # four loops
    ],
)
def test_loops_run_in_tiles(f, groups):
    x = 0.1 * RNG.normal(size=(300, 3))
    compiled = ad.jit(f)
    steps = [step for step in compiled.lower(x).lowered.steps if isinstance(step, (PointTiles, Scan))]
    assert all(isinstance(step, PointTiles) for step in steps)
    assert len(steps) == groups
    got, want = compiled(x), f(x)
    for a, b in zip(got, want, strict=True) if isinstance(want, tuple) else [(got, want)]:
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)
