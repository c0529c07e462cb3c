"""Zeros of masks win over infinite partials; zeros of arithmetic give nan. No derivative is a wrong finite number."""

import math
import os
import random

import numpy as np
import pytest

import adjoint as ad

mp = pytest.importorskip("mpmath")

SHARED = {
    "1/": lambda x: 1 / x,
    "-": lambda x: -x,
    "square": lambda x: x**2,
    "1 + ": lambda x: 1 + x,
    "-1 + ": lambda x: x - 1,
    "half ": lambda x: 0.5 * x,
    "power 1.5 ": lambda x: x**1.5,
    "power -0.5 ": lambda x: x**-0.5,
}
NAMES = ("exp", "log", "sqrt", "log1p", "expm1", "cosh", "cos", "arctan")
NUMPY = {name: getattr(np, name) for name in NAMES} | SHARED
EXACT = {name: getattr(mp, name.replace("arc", "a")) for name in NAMES} | SHARED
BINARY = {"+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "/": lambda a, b: a / b}
# Where squares of squares neither overflow nor underflow, but exponentials do.
POINTS = [0.0, 1.0, -1.0, 1e-30, 1e30, -1e30, 1000.0, -1000.0, 800.0, 1e-20, 1e20, 30.0, -40.0, 50.0, 1e8, 1e-8, 0.7, -0.7]


def draw(rng, depth, count):
    """A random expression. Its occurrences of x are numbered."""
    kind = rng.random()
    if depth == 0:
        count.append(None)
        return ("x", len(count) - 1)
    if kind < 0.7:
        return (rng.choice(list(NUMPY)), draw(rng, depth - 1, count))
    if kind < 0.92:
        return (rng.choice(list(BINARY)), draw(rng, depth - 1, count), draw(rng, rng.randint(0, depth - 1), count))
    return ("where", rng.choice([0.0, 1.0, -1.0, 50.0]), draw(rng, depth - 1, count), draw(rng, rng.randint(0, depth - 1), count))


def evaluate(tree, xs, at):
    """In NumPy, with one value for each occurrence of x."""
    head, *rest = tree
    if head == "x":
        return xs[rest[0]]
    if head == "where":
        limit, yes, no = rest
        return np.where(at > limit, evaluate(yes, xs, at), evaluate(no, xs, at))
    parts = [evaluate(part, xs, at) for part in rest]
    return NUMPY[head](parts[0]) if len(parts) == 1 else BINARY[head](parts[0], parts[1])


def exactly(tree, x, at):
    """To many digits, with the branches taken at a point."""
    head, *rest = tree
    if head == "x":
        return x
    if head == "where":
        return exactly(rest[1] if at > rest[0] else rest[2], x, at)
    parts = [exactly(part, x, at) for part in rest]
    return EXACT[head](parts[0]) if len(parts) == 1 else BINARY[head](parts[0], parts[1])


def is_lost(tree, count, x):
    """Whether a value on the way is lost to rounding or underflow, cos(exp(50)), x·x/x at 1e-300, or to an overflow at which the
    slope is finite, sqrt(x·x) at 1e300: there is no infinity for a zero to meet.
    """
    if tree[0] != "x" and any(is_lost(part, count, x) for part in tree[1:] if isinstance(part, tuple)):
        return True
    found = float(evaluate(tree, [x] * count, x))
    with mp.workdps(900):
        try:
            exact = exactly(tree, mp.mpf(float(x)), float(x))
        except ZeroDivisionError:
            return False
        if not math.isfinite(found):
            return tree[0] in (*BINARY, "square", "power 1.5 ", "half ") and mp.isfinite(exact)
        return isinstance(exact, mp.mpc) or abs(exact - mp.mpf(found)) > 1e-6 * abs(exact)


def truth(tree, x):
    """The derivative to many digits; None where there is none, or x is at the edge of a domain."""
    f = lambda v: exactly(tree, v, x)
    with mp.workdps(900):
        h = mp.mpf(10) ** -400 if x == 0 else mp.mpf(10) ** -30 * min(abs(mp.mpf(x)), 1)
        try:
            left, middle, right = (f(mp.mpf(x) + k * h) for k in (-1, 0, 1))
            if any(isinstance(y, mp.mpc) or not mp.isfinite(y) for y in (left, middle, right)):
                return None
            slopes = (middle - left) / h, (right - middle) / h
        except (ZeroDivisionError, ValueError, OverflowError, TypeError):
            return None
        return None if abs(slopes[0] - slopes[1]) > 1e-6 * (abs(slopes[0]) + abs(slopes[1])) else +slopes[0]


def is_wrong(found, expected, size):
    """Whether it is a finite number that rounding does not explain: the terms of a sum, of a size, may cancel."""
    return math.isfinite(found) and abs(mp.mpf(found) - expected) > 1e-3 * abs(expected) + 1e-6 * mp.mpf(size) + 1e-11


def check_random_programs(seed, programs, compiled):
    rng = random.Random(seed)
    checked = 0
    for _ in range(programs):
        count = []
        tree = draw(rng, rng.randint(1, 4), count)
        x = np.float64(rng.choice(POINTS))
        f = lambda x, tree=tree, count=count: evaluate(tree, [x] * len(count), x)
        derivative = ad.grad(f)
        found = {"reverse": derivative(x), "forward": ad.jvp(f, (x,), (1.0,))[1]}
        if compiled:
            found |= {"compiled": ad.jit(derivative)(x), "compiled forward": ad.jit(ad.derivative(f))(x)}
        if not any(map(math.isfinite, found.values())):
            continue
        expected = truth(tree, float(x))
        if expected is None or is_lost(tree, len(count), x):
            continue
        apart = lambda *xs, tree=tree, x=x: evaluate(tree, xs, x)
        each = ad.grad(apart, argnums=tuple(range(len(count))))(*[x] * len(count))
        size = float(np.sum(np.abs(each)))
        if not math.isfinite(size):
            size = 0.0
        checked += 1
        for name, y in found.items():
            assert not is_wrong(float(y), expected, size), (name, tree, x, y, expected)
    return checked


@pytest.fixture(autouse=True)
def quiet():
    with np.errstate(all="ignore"):
        yield


def test_random_programs_at_extreme_points_are_right_or_nan():
    programs = max(1500, int(os.environ.get("ADJOINT_PROGRAMS", 0)))
    assert check_random_programs(0, programs, compiled=False) > 0.5 * programs


def test_compiled_random_programs_at_extreme_points_are_right_or_nan():
    programs = max(40, int(os.environ.get("ADJOINT_PROGRAMS", 0)) // 20)
    assert check_random_programs(1, programs, compiled=True) > 0.4 * programs


ARITHMETIC = {
    "overflow": (lambda x: np.log(1 + np.exp(x)), 1000.0),
    "overflow in a chosen branch": (lambda x: np.where(x > 0, np.log(1 + np.exp(x)), 0.0), 1000.0),
    "underflow": (lambda x: np.exp(-1 / x**2), 0.0),
    "square of a root": (lambda x: np.sqrt(x) ** 2, 0.0),
    "root of a square": (lambda x: np.sqrt(x**2), 0.0),
    "product of roots": (lambda x: np.sqrt(x) * np.sqrt(x), 0.0),
    "cosine of a root": (lambda x: np.cos(np.sqrt(x)), 0.0),
    "saturation": (lambda x: np.tanh(np.exp(x)), 1000.0),
}


@pytest.mark.parametrize("name", ARITHMETIC)
def test_a_zero_of_arithmetic_does_not_win(name):
    f, x = ARITHMETIC[name]
    assert np.isnan(ad.grad(f)(x))
    assert np.isnan(ad.jvp(f, (x,), (1.0,))[1])
    assert np.isnan(ad.grad(ad.grad(f))(x))
    assert np.isnan(ad.jit(ad.grad(f))(x))
    many = np.full((3, 2), x)
    assert np.isnan(ad.grad(lambda x: np.sum(f(x)))(many)).all()
    assert np.isnan(np.diagonal(ad.jacobian(f)(many[:, 0]))).all()
    assert np.isnan(ad.vmap(ad.grad(f))(many[:, 0])).all()
    large = np.full(1_200_000, 3.0)  # of which the tape keeps no more than it must
    large[7] = x
    found = ad.grad(lambda x: np.sum(f(x)))(large)
    assert np.isnan(found[7])
    assert np.isfinite(np.delete(found, 7)).all()


@pytest.mark.parametrize("name", ["overflow", "square of a root", "product of roots", "cosine of a root", "saturation"])
def test_a_partial_that_is_zero_does_not_end_an_infinite_tangent_in_a_graph(name):
    f, x = ARITHMETIC[name]
    forward = lambda x: ad.jvp(f, (x,), (1.0,))[1]
    assert np.isnan(ad.jit(forward)(x))
    assert np.isnan(ad.graph(forward)(0.5).run(x))


FACTORS = {
    "constant factor": lambda x: np.sum(np.sqrt(x * np.array([0.0, 1.0]))),
    "zeroth power": lambda x: np.sum(np.log(np.abs(x ** np.array([0.0, 1.0]) - np.array([1.0, 0.0])))),
}


@pytest.mark.parametrize("name", FACTORS)
def test_a_constant_zero_ends_an_infinite_cotangent_in_a_graph_too(name):
    x = np.array([2.0, 4.0])
    derivative = ad.grad(FACTORS[name])
    expected = [0.0, 0.25]
    np.testing.assert_array_equal(derivative(x), expected)
    np.testing.assert_array_equal(ad.graph(derivative)(x).run(x), expected)
    np.testing.assert_array_equal(ad.jit(derivative)(x), expected)


MASKS = {
    "not chosen": lambda x: np.sum(np.where(x > 0, np.log(1 + np.exp(1 / x)), x)),
    "multiplied by zero": lambda x: np.sum((x > 0) * np.sqrt(x) ** 3 + x),
    "not picked": lambda x: np.sum((np.sqrt(x) ** 2)[x > 0]) + np.sum(x[x <= 0]),
    "not the largest": lambda x: np.sum(np.maximum(np.cos(np.sqrt(x)) - 9, x)),
    "a row of a product": lambda x: np.sum(np.where(x[:, None] > 0, np.sqrt(x)[:, None] @ np.ones((1, 2)), x[:, None] / 2)),
    "nested": lambda x: np.sum(np.where(x > 0, np.where(x > 1, np.sqrt(x) * np.log(x), x), x)),
}


@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("n", [5, 400_000])
def test_a_zero_of_a_mask_wins(name, n):
    f = MASKS[name]
    x = np.where(np.arange(n) % 5 == 2, 0.0, 0.5 + np.arange(n) % 7)
    g = ad.grad(f)(x)
    assert (g[x == 0] == 1).all()
    assert np.isfinite(g).all()
    if n < 100:
        np.testing.assert_allclose(ad.jacfwd(f)(x), g)
        hessian = ad.hessian(f)(x)
        assert np.isfinite(hessian).all()
        assert (np.diagonal(hessian)[x == 0] == 0).all()
        if name != "not picked":  # whose shape depends on the numbers
            np.testing.assert_allclose(ad.vmap(ad.grad(f))(np.stack([x, x]))[1], g)
