"""The transforms against mathematics done elsewhere: closed forms, and mpmath's numerical derivatives to 30 digits."""

import itertools
import math

import mpmath
import numpy as np
import pytest

import adjoint as ad


def every_gradient(f, *xs):
    """The gradient of a scalar function of scalars, by every route there is."""
    n = len(xs)
    every = tuple(range(n))
    units = [tuple(1.0 if i == j else 0.0 for j in every) for i in every]
    value, pull = ad.vjp(f, *xs)
    linear_value, push = ad.linearize(f, *xs)
    packed = np.array(xs)
    unpacked = lambda v: f(*[v[i] for i in every])
    yield "grad", ad.grad(f, every)(*xs)
    yield "value_and_grad", ad.value_and_grad(f, every)(*xs)[1]
    yield "vjp", pull(np.float64(1.0))
    yield "jvp", [ad.jvp(f, xs, unit)[1] for unit in units]
    yield "linearize", [push(*unit) for unit in units]
    yield "jacfwd", ad.jacfwd(f, every)(*xs)
    yield "jacrev", ad.jacrev(f, every)(*xs)
    yield "jacobian", ad.jacobian(f, every)(*xs)
    yield "derivative", [ad.derivative(f, i)(*xs) for i in every]
    yield "array grad", ad.grad(unpacked)(packed)
    yield "array jacfwd", ad.jacfwd(unpacked)(packed)
    yield "vmap of grad", [g[1] for g in ad.vmap(ad.grad(f, every))(*[np.array([0.5, x]) for x in xs])]
    for method in ("one-sided", "two-sided", "complex-step", "richardson"):
        yield method, ad.finite_difference(f, *xs, argnums=every, method=method)
    assert value == linear_value == f(*xs)


def test_worked_example():
    f = lambda x, y: x**2 * y + y + 2
    assert f(3.0, 4.0) == ad.vjp(f, 3.0, 4.0)[0] == ad.jvp(f, (3.0, 4.0), (1.0, 0.0))[0] == 42
    for name, found in every_gradient(f, 3.0, 4.0):
        rough = {"one-sided": 1e-7, "two-sided": 1e-9, "richardson": 1e-11}.get(name, 0)
        np.testing.assert_allclose(found, (24, 10), rtol=rough, atol=0, err_msg=name)
    np.testing.assert_array_equal(ad.hessian(f, (0, 1))(3.0, 4.0), [[8, 6], [6, 0]])


def test_the_survey_example():
    f = lambda a, b: np.log(a) + a * b - np.sin(b)
    value = f(2.0, 5.0)
    assert round(float(value), 3) == 11.652
    for name, found in every_gradient(f, 2.0, 5.0):
        np.testing.assert_allclose(found, (5.5, 2 - math.cos(5.0)), rtol=1e-7, err_msg=name)
        assert round(float(found[1]), 3) == 1.716


ONE = {
    "sin of exp": (lambda np, x: np.sin(np.exp(x)), 0.7),
    "tower": (lambda np, x: x ** (x**x), 1.3),
    "logistic": (lambda np, x: 1 / (1 + np.exp(-3 * x)), -0.4),
    "gaussian": (lambda np, x: np.exp(-x * x / 2) / np.sqrt(6.0), 1.1),
    "nested roots": (lambda np, x: np.sqrt(x + np.sqrt(x + np.sqrt(x))), 2.0),
    "rational": (lambda np, x: (x**3 - 2 * x + 1) / (x**2 + 1), 0.9),
    "tan of log": (lambda np, x: np.tan(np.log(x)), 2.5),
    "tanh, cosh": (lambda np, x: np.tanh(x) * np.cosh(2 * x) - np.sinh(x), 0.3),
    "log of log": (lambda np, x: np.log(1 + np.log(x) ** 2), 3.0),
}


@pytest.mark.parametrize("name", ONE)
def test_first_to_fourth_derivative(name):
    f, x = ONE[name]
    ours = lambda x: f(np, x)
    modes = {
        "grad": ad.grad,
        "derivative": ad.derivative,
        "jacfwd": ad.jacfwd,
    }
    with mpmath.workdps(40):
        expected = [float(mpmath.diff(lambda t: f(mpmath, t), x, n)) for n in range(1, 5)]
    for label, transform in modes.items():
        g = ours
        for n in range(4):
            g = transform(g)
            np.testing.assert_allclose(g(x), expected[n], rtol=1e-11, err_msg=f"{label} of order {n + 1}")
    mixed = ad.derivative(ad.grad(ad.derivative(ad.grad(ours))))
    np.testing.assert_allclose(mixed(x), expected[3], rtol=1e-11)


def test_mixed_partials():
    f = lambda np, x, y: np.exp(x * y) * np.sin(x + y * y) / (1 + x * x)
    ours = lambda x, y: f(np, x, y)
    for orders in [(1, 1), (2, 1), (1, 2), (2, 2)]:
        g = ours
        for argument, times in enumerate(orders):
            for k in range(times):
                g = (ad.grad if k % 2 else ad.derivative)(g, argument)
        with mpmath.workdps(40):
            expected = float(mpmath.diff(lambda x, y: f(mpmath, x, y), (0.6, 0.8), orders))
        np.testing.assert_allclose(g(0.6, 0.8), expected, rtol=1e-11)


def rosenbrock(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def rosenbrock_hessian(x):
    n = len(x)
    h = np.zeros((n, n))
    for i in range(n - 1):
        h[i, i] += 1200 * x[i] ** 2 - 400 * x[i + 1] + 2
        h[i + 1, i + 1] += 200
        h[i, i + 1] -= 400 * x[i]
        h[i + 1, i] -= 400 * x[i]
    return h


def test_rosenbrock(rng):
    x = rng.uniform(-2, 2, 6)
    expected = rosenbrock_hessian(x)
    np.testing.assert_allclose(ad.hessian(rosenbrock)(x), expected, rtol=1e-12, atol=1e-10)
    for outer in (ad.jacfwd, ad.jacrev):
        for inner in (ad.jacfwd, ad.jacrev, ad.grad):
            np.testing.assert_allclose(outer(inner(rosenbrock))(x), expected, rtol=1e-12, atol=1e-10)
    v = rng.normal(size=6)
    np.testing.assert_allclose(ad.hvp(rosenbrock)(x, v), expected @ v, rtol=1e-12)
    np.testing.assert_allclose(ad.grad(rosenbrock)(np.ones(6)), np.zeros(6))


def test_polar_coordinates():
    to_cartesian = lambda p: np.stack([p[0] * np.cos(p[1]), p[0] * np.sin(p[1])])
    r, t = 2.0, 0.7
    expected = [[np.cos(t), -r * np.sin(t)], [np.sin(t), r * np.cos(t)]]
    p = np.array([r, t])
    for transform in (ad.jacobian, ad.jacfwd, ad.jacrev):
        np.testing.assert_allclose(transform(to_cartesian)(p), expected, rtol=1e-14)
    to_polar = lambda c: np.stack([np.hypot(c[0], c[1]), np.arctan2(c[1], c[0])])
    inverse = ad.jacobian(to_polar)(to_cartesian(p))
    np.testing.assert_allclose(inverse @ ad.jacobian(to_cartesian)(p), np.eye(2), atol=1e-14)
    np.testing.assert_allclose(ad.jacobian(lambda p: to_polar(to_cartesian(p)))(p), np.eye(2), atol=1e-14)


def test_forward_mode_from_two_reverse_passes(rng):
    w = rng.normal(size=(3, 4))
    f = lambda x: np.tanh(w @ x) * np.sum(x**2)
    x, v = rng.normal(size=4), rng.normal(size=4)

    def forward(v):
        _, pull = ad.vjp(f, x)
        _, pull_of_pull = ad.vjp(lambda u: pull(u)[0], np.zeros(3))
        return pull_of_pull(v)[0]

    np.testing.assert_allclose(forward(v), ad.jvp(f, (x,), (v,))[1], rtol=1e-13)
    np.testing.assert_allclose(ad.linearize(f, x)[1](v), ad.jvp(f, (x,), (v,))[1], rtol=1e-13)


def test_adjoint_identity(rng):
    f = lambda x, y: (np.sin(x) * y, np.outer(x, y) @ y)
    x, y = rng.normal(size=3), rng.normal(size=3)
    vs = rng.normal(size=3), rng.normal(size=3)
    us = rng.normal(size=3), rng.normal(size=3)
    pushed = ad.jvp(f, (x, y), vs)[1]
    pulled = ad.vjp(f, x, y)[1](us)
    np.testing.assert_allclose(
        sum(u @ p for u, p in zip(us, pushed, strict=True)), sum(v @ p for v, p in zip(vs, pulled, strict=True))
    )


def test_matrix_calculus(rng):
    a, b = rng.normal(size=(3, 3)), rng.normal(size=(3, 3))
    x = rng.normal(size=3)
    np.testing.assert_allclose(ad.grad(lambda x: x @ a @ x)(x), (a + a.T) @ x)
    np.testing.assert_allclose(ad.hessian(lambda x: x @ a @ x)(x), a + a.T)
    np.testing.assert_allclose(ad.grad(lambda m: np.trace(m @ b))(a), b.T)
    np.testing.assert_allclose(ad.grad(lambda m: np.sum((m @ x) ** 2))(a), 2 * np.outer(a @ x, x))
    np.testing.assert_allclose(ad.grad(lambda x: np.sqrt(np.sum(x * x)))(x), x / np.sqrt(x @ x))
    softmax = lambda x: np.exp(x) / np.sum(np.exp(x))
    s = softmax(x)
    np.testing.assert_allclose(ad.jacobian(softmax)(x), np.diag(s) - np.outer(s, s), atol=1e-15)


def test_no_confusion_of_perturbations():
    assert ad.derivative(lambda x: x * ad.derivative(lambda y: x + y)(1.0))(1.0) == 1.0
    assert ad.grad(lambda x: x * ad.grad(lambda y: x * y * y)(2.0))(3.0) == 24.0
    assert ad.grad(lambda x: ad.derivative(lambda y: x**2 * y**3)(x))(2.0) == 3 * 4 * 2.0**3


def test_holomorphic():
    z = 0.3 + 0.8j
    f = lambda z: np.exp(z) * np.sin(z**2)
    expected = np.exp(z) * (np.sin(z**2) + 2 * z * np.cos(z**2))
    np.testing.assert_allclose(ad.grad(f, holomorphic=True)(z), expected, rtol=1e-14)
    np.testing.assert_allclose(ad.jvp(f, (z,), (1.0 + 0j,))[1], expected, rtol=1e-14)
    g = lambda z: np.abs(f(z)) ** 2  # ∂g/∂re − i ∂g/∂im = 2 conj(f) f′
    np.testing.assert_allclose(ad.grad(g)(z), 2 * np.conj(f(z)) * expected, rtol=1e-13)


def toy_data(rng, n=60, d=3):
    x = rng.normal(size=(n, d))
    return x, (x @ np.array([1.5, -2.0, 0.5])[:d] + 0.3 * rng.normal(size=n) > 0).astype(float)


def logistic_loss(w, x, y):
    z = x @ w
    return np.mean(np.logaddexp(0.0, z) - y * z)


def test_logistic_regression_trains(rng):
    x, y = toy_data(rng)
    w = np.zeros(3)
    step = ad.value_and_grad(logistic_loss)
    losses = []
    for _ in range(200):
        loss, g = step(w, x, y)
        losses.append(loss)
        w = w - 0.5 * g
    assert losses[0] == pytest.approx(math.log(2))
    assert losses[-1] < 0.25
    assert all(b <= a for a, b in itertools.pairwise(losses))
    assert np.mean((x @ w > 0) == (y > 0)) > 0.9
    p = 1 / (1 + np.exp(-x @ w))
    np.testing.assert_allclose(ad.grad(logistic_loss)(w, x, y), x.T @ (p - y) / len(y), rtol=1e-12)
    np.testing.assert_allclose(ad.hessian(logistic_loss)(w, x, y), (x.T * (p * (1 - p))) @ x / len(y), rtol=1e-11)


def test_per_example_gradients(rng):
    x, y = toy_data(rng, 7)
    w = rng.normal(size=3)
    loss = lambda w, example: logistic_loss(w, *example)
    together = ad.vmap(ad.grad(loss), in_axes=(None, 0))(w, (x, y))
    one_by_one = [ad.grad(loss)(w, (x[i], y[i])) for i in range(7)]
    np.testing.assert_allclose(together, one_by_one, rtol=1e-14)
    np.testing.assert_allclose(together.mean(axis=0), ad.grad(logistic_loss)(w, x, y), rtol=1e-13)
