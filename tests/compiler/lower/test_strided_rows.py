"""Rows of tiled loops that are read where they are: every layout of the rows, against a copy of them and against NumPy."""

import numpy as np
import pytest

import adjoint as ad
from adjoint.compiler.lower import fuse
from adjoint.compiler.lower.step import Kernel, PointTiles

RNG = np.random.default_rng(0)

#: By name: the shape of an array for so many steps and points, and its rows.
LAYOUTS = {
    "points, steps": (lambda steps, points: (points, steps), lambda z: z.T),
    "steps, 2, points": (lambda steps, points: (steps, 2, points), lambda z: z[:, 1]),
    "steps, points, 2": (lambda steps, points: (steps, points, 2), lambda z: z[:, :, 0]),
    "points, steps, 2": (lambda steps, points: (points, steps, 2), lambda z: z[:, :, 1].T),
    "2, points, steps": (lambda steps, points: (2, points, steps), lambda z: z[1].T),
    "every second step": (lambda steps, points: (2 * steps, points), lambda z: z[1::2]),
    "every second point": (lambda steps, points: (steps, 2 * points), lambda z: z[:, ::2]),
    "steps backward": (lambda steps, points: (steps, points), lambda z: z[::-1]),
    "points backward": (lambda steps, points: (steps, points), lambda z: z[:, ::-1]),
    "both backward": (lambda steps, points: (points, steps), lambda z: z[::-1, ::-1].T),
    "one for all points": (lambda steps, points: (steps, 1), lambda z: np.broadcast_to(z, (z.shape[0], 300))),
    "one for all steps": (lambda steps, points: (points,), lambda z: np.broadcast_to(z, (17, z.shape[0]))),
}


def paths(p, rows, reverse=False):
    """A price and its variance."""

    def step(state, dw):
        s, v = state
        v = v + p[0] * (p[1] - v) + p[2] * v * dw
        return (s * np.exp(0.1 * v * dw), v), None

    start = np.ones(rows.shape[1], rows.dtype)
    (s, _), _ = ad.scan(step, (start, 0.1 * start), rows, reverse=reverse)
    return np.mean(s)


def python_loop(p, rows):
    s = v = np.ones(rows.shape[1])
    for dw in rows:
        s, v = s * (1.0 + p[0] * dw * v), v + p[1] * (p[2] - v)
    return np.mean(s * s)


def lowered(f, *args):
    return ad.jit(f).lower(*args).lowered.steps


def is_copy(step, size):
    return isinstance(step, Kernel) and any(store.view.buffer.size >= size for store in step.stores)


def agree(monkeypatch, f, p, z, copies=0):
    """The same bits as with copies of the rows."""
    steps = lowered(f, p, z)
    assert any(isinstance(step, PointTiles) for step in steps)
    assert sum(is_copy(step, 17 * 300) for step in steps) == copies
    got = ad.jit(f)(p, z)
    with monkeypatch.context() as patch:
        patch.setattr(fuse, "read_strided_rows", lambda lowered: None)
        wanted = ad.jit(lambda p, z: f(p, z))(p, z)
    for a, b in zip(got, wanted, strict=True):
        np.testing.assert_array_equal(a, b)
    for a, b in zip(got, f(p, z), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10 if z.dtype == np.float64 else 1e-3)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_rows_of_any_layout(monkeypatch, layout, reverse):
    shape, rows = LAYOUTS[layout]
    p, z = np.array([0.3, 0.2, 0.1]), RNG.normal(size=shape(17, 300))
    agree(monkeypatch, lambda p, z: (paths(p, rows(z), reverse), np.sum(z)), p, z)
    agree(monkeypatch, ad.value_and_grad(lambda p, z: paths(p, rows(z), reverse)), p, z)


@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=str)
@pytest.mark.parametrize("points", [256, 300, 1031])
@pytest.mark.parametrize("layout", ["points, steps", "steps, 2, points", "both backward"])
def test_sizes_and_dtypes(monkeypatch, layout, points, dtype):
    shape, rows = LAYOUTS[layout]
    p, z = np.array([0.3, 0.2, 0.1], dtype), RNG.normal(size=shape(20, points)).astype(dtype)
    agree(monkeypatch, ad.value_and_grad(lambda p, z: paths(p, rows(z))), p, z)


@pytest.mark.parametrize("layout", ["points, steps", "steps, 2, points", "steps, points, 2"])
def test_loops_of_python(monkeypatch, layout):
    shape, rows = LAYOUTS[layout]
    p, z = np.array([0.3, 0.2, 0.1]), RNG.normal(size=shape(40, 300))
    agree(monkeypatch, ad.value_and_grad(lambda p, z: python_loop(p, rows(z))), p, z)


def test_rows_that_are_computed(monkeypatch):
    """A product, whose result is read as the rows; a multiple of the argument, which is a kernel and no copy."""
    p, z = np.array([0.3, 0.2, 0.1]), RNG.normal(size=(300, 17))
    mixed = RNG.normal(size=(17, 17)) / 17
    agree(monkeypatch, ad.value_and_grad(lambda p, z: paths(p, (z @ mixed).T)), p, z)
    agree(monkeypatch, ad.value_and_grad(lambda p, z: paths(p, (2.0 * z).T)), p, z, copies=1)


@pytest.mark.parametrize("order", [np.copy, lambda z: z, np.ravel], ids=["copy", "view", "ravel"])
@pytest.mark.parametrize("rows", [(17, 300), (300, 17), (10, 510), (34, 150), (5, 1020), (17, 15, 20), (300, 17, 1)], ids=str)
@pytest.mark.parametrize("shape", [(17, 300), (300, 17)], ids=str)
def test_rows_of_a_reshaped_copy(shape, rows, order):
    """The rows of the loop are others than those of the copy, though both have the same elements."""

    def f(p, z):
        seen = order(z.T).reshape(rows)
        last, values = ad.scan(lambda v, dw: (v + p[0] * (p[1] - v) + p[2] * v * dw, v * dw), np.ones(rows[1:]), seen)
        return np.sum(np.sin(values)) + np.sum(last)

    p, z = np.array([0.3, 0.2, 0.1]), RNG.normal(size=shape)
    np.testing.assert_allclose(ad.jit(f)(p, z), f(p, z), rtol=1e-12)
    gradient = ad.grad(f, (0, 1))
    for a, b in zip(ad.jit(gradient)(p, z), gradient(p, z), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


def test_the_gradient_by_the_rows_themselves():
    p, z = np.array([0.3, 0.2, 0.1]), RNG.normal(size=(300, 17))
    f = ad.grad(lambda p, z: paths(p, z.T), 1)
    np.testing.assert_allclose(ad.jit(f)(p, z), f(p, z), rtol=1e-10, atol=1e-14)


def test_a_copy_that_is_read_elsewhere_stays():
    def f(p, z):
        rows = np.copy(z.T)
        return paths(p, rows), rows

    p, z = np.array([0.3, 0.2, 0.1]), RNG.normal(size=(300, 17))
    value, rows = ad.jit(f)(p, z)
    np.testing.assert_allclose(value, f(p, z)[0], rtol=1e-12)
    np.testing.assert_array_equal(rows, z.T)


def test_a_source_that_is_written_to_before_the_loop():
    def f(p, z):
        z = z * 1.0
        rows = np.copy(z.T)
        z[:, 3] = 7.0
        z[2] += 1.0
        return paths(p, rows), np.sum(z)

    p, z = np.array([0.3, 0.2, 0.1]), RNG.normal(size=(300, 17))
    np.testing.assert_allclose(ad.jit(f)(p, z), f(p, z), rtol=1e-12)


def test_a_donated_argument_is_read_before_it_is_written():
    def f(z, p):
        return z * paths(p, z.T)

    p, z = np.array([0.3, 0.2, 0.1]), RNG.normal(size=(300, 17))
    wanted = f(z, p)
    np.testing.assert_allclose(ad.jit(f, donate_argnums=0)(z.copy(), p), wanted, rtol=1e-12)
