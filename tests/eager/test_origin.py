"""Zeros of masks win over infinite partials; zeros of arithmetic give nan. No derivative is a wrong finite number."""

import math
import os
import random
from collections import Counter

import numpy as np
import pytest

import adjoint as ad

mp = pytest.importorskip("mpmath")

NAMES = ("exp", "log", "sqrt", "log1p", "expm1", "cosh", "cos", "arctan")
NUMPY = {name: getattr(np, name) for name in NAMES} | {
    "1/": lambda x: 1 / x,
    "-": lambda x: -x,
    "square": lambda x: x**2,
    "1 + ": lambda x: 1 + x,
    "-1 + ": lambda x: x - 1,
    "half ": lambda x: 0.5 * x,
    "power 1.5 ": lambda x: x**1.5,
    "power -0.5 ": lambda x: x**-0.5,
}
BINARY = {"+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "/": lambda a, b: a / b}
POINTS = [0.0, 1.0, -1.0, 1e-30, 1e30, -1e30, 1000.0, -1000.0, 800.0, 1e-20, 1e20, 30.0, -40.0, 50.0, 1e8, 1e-8, 0.7, -0.7]
POINTS += [1e300, -1e300, 1e-300, 1e200, -1e160, 1e-200, 5e-324, -1e-310, 1.7e308, 1e103, 1e-103, 1.4e154, -1.2e-154]


class UnknownError(Exception):
    """There is no derivative, the point is at the edge of a domain, or it is not known to mpmath."""


def slopes(name, x):
    """The value of a unary function, and its first two derivatives, in mpmath."""
    if name in ("exp", "expm1", "cosh", "cos") and mp.mag(x) > 2000:
        raise UnknownError
    if (
        (x <= 0 and name in ("log", "sqrt", "power 1.5 ", "power -0.5 "))
        or (x <= -1 and name == "log1p")
        or (x == 0 and name == "1/")
    ):
        raise UnknownError
    match name:
        case "exp":
            return (mp.exp(x),) * 3
        case "log":
            return mp.log(x), 1 / x, -1 / x**2
        case "sqrt":
            return mp.sqrt(x), 1 / (2 * mp.sqrt(x)), -1 / (4 * x * mp.sqrt(x))
        case "log1p":
            return mp.log(1 + x), 1 / (1 + x), -1 / (1 + x) ** 2
        case "expm1":
            return mp.expm1(x), mp.exp(x), mp.exp(x)
        case "cosh":
            return mp.cosh(x), mp.sinh(x), mp.cosh(x)
        case "cos":
            return mp.cos(x), -mp.sin(x), -mp.cos(x)
        case "arctan":
            return mp.atan(x), 1 / (1 + x**2), -2 * x / (1 + x**2) ** 2
        case "1/":
            return 1 / x, -1 / x**2, 2 / x**3
        case "-":
            return -x, mp.mpf(-1), mp.mpf(0)
        case "square":
            return x**2, 2 * x, mp.mpf(2)
        case "1 + ":
            return 1 + x, mp.mpf(1), mp.mpf(0)
        case "-1 + ":
            return x - 1, mp.mpf(1), mp.mpf(0)
        case "half ":
            return x / 2, mp.mpf(0.5), mp.mpf(0)
        case "power 1.5 ":
            return x * mp.sqrt(x), 1.5 * mp.sqrt(x), 0.75 / mp.sqrt(x)
        case _:
            return 1 / mp.sqrt(x), -0.5 / (x * mp.sqrt(x)), 0.75 / (x**2 * mp.sqrt(x))


def combined(name, a, b):
    """Value, first and second derivative of a function of two that have them."""
    if name == "-":
        return tuple(p - q for p, q in zip(a, b, strict=True))
    if name == "+":
        return tuple(p + q for p, q in zip(a, b, strict=True))
    if name == "/":
        r, s, t = slopes("1/", b[0])
        b = r, s * b[1], s * b[2] + t * b[1] ** 2
    return a[0] * b[0], a[0] * b[1] + a[1] * b[0], a[0] * b[2] + 2 * a[1] * b[1] + a[2] * b[0]


#: What is promised of every number on the way: its error, relative and absolute, is at most that of rounding and underflow.
ROUNDING, UNDERFLOW = 1e-13, 1e-307


class Exact:
    """The value and two derivatives of a program, in mpmath; those of one step may be changed by what is promised of it."""

    def __init__(self, tree, x, changed=None):
        self.x, self.changed, self.steps = x, changed, []
        self.result = self.at(tree)

    def at(self, tree):
        head, *rest = tree
        if head == "x":
            return self.step((mp.mpf(self.x), mp.mpf(1), mp.mpf(0)), (0, 1, 1), rounding=(0, 1, 1))
        if head == "where":
            return self.at(rest[1] if self.x > rest[0] else rest[2])
        parts = [self.at(part) for part in rest]
        if len(parts) == 1:
            (a,) = parts
            f, s, t = slopes(head, a[0])
            y = f, s * a[1], s * a[2] + t * a[1] ** 2
        else:
            y = combined(head, *parts)
        # A partial underflows, or a number that it is computed from, and is multiplied by derivatives of the arguments.
        size, u, v = (sum(abs(a[k]) for a in parts) for k in (0, 1, 2))
        return self.step(y, (1, 1 + u, (1 + u + v + u**2) * (1 + size)))

    def step(self, y, sizes, rounding=(1, 1, 1)):
        number = len(self.steps)
        self.steps.append(y)
        if self.changed is not None and self.changed[0] == number:
            k = self.changed[1]
            y = (*y[:k], y[k] + rounding[k] * ROUNDING * abs(y[k]) + UNDERFLOW * sizes[k], *y[k + 1 :])
        return y


def promised(tree, x, order):
    """The error of a derivative, to first order, if every number on the way has that which is promised of it."""
    exact = Exact(tree, x)
    total = mp.mpf(0)
    for number, y in enumerate(exact.steps):
        total += UNDERFLOW * (abs(y[1]) if order == 1 else abs(y[1]) + abs(y[2]) + y[1] ** 2)  # of a cotangent
        for k in range(order + 1):
            total += abs(Exact(tree, x, (number, k)).result[order] - exact.result[order])
    return total


def verdict(found, tree, x, order):
    """Whether a derivative is right, as near as promised, wrong, or unknown."""
    if not math.isfinite(found):
        return "not finite"
    for digits in (60, 1000):  # the more for what looks wrong
        with mp.workdps(digits):
            try:
                expected = Exact(tree, x).result[order]
                error = abs(mp.mpf(found) - expected)
                if error <= 1e-9 * abs(expected):
                    return "right"
                if error <= 100 * promised(tree, x, order):
                    return "as near as promised"
            except UnknownError:
                return "unknown"
    return "wrong"


def draw(rng, depth):
    """A random expression."""
    kind = rng.random()
    if depth == 0:
        return ("x",)
    if kind < 0.7:
        return (rng.choice(list(NUMPY)), draw(rng, depth - 1))
    if kind < 0.92:
        return (rng.choice(list(BINARY)), draw(rng, depth - 1), draw(rng, rng.randint(0, depth - 1)))
    return ("where", rng.choice([0.0, 1.0, -1.0, 50.0]), draw(rng, depth - 1), draw(rng, rng.randint(0, depth - 1)))


def draw_point(rng):
    return rng.choice(POINTS) if rng.random() < 0.6 else rng.choice([1, -1]) * 10.0 ** rng.uniform(-320, 308)


def evaluate(tree, x):
    head, *rest = tree
    if head == "x":
        return x
    if head == "where":
        return np.where(x > rest[0], evaluate(rest[1], x), evaluate(rest[2], x))
    parts = [evaluate(part, x) for part in rest]
    return NUMPY[head](parts[0]) if len(parts) == 1 else BINARY[head](parts[0], parts[1])


FORMS = {
    "reverse": (1, lambda f, x: ad.grad(f)(x)),
    "forward": (1, lambda f, x: ad.jvp(f, (x,), (1.0,))[1]),
    "reverse over reverse": (2, lambda f, x: ad.grad(ad.grad(f))(x)),
    "forward over reverse": (2, lambda f, x: ad.hvp(f)(x, 1.0)),
    "array": (1, lambda f, x: ad.elementwise_grad(f)(np.array([0.3, x]))[1]),
    "batched": (1, lambda f, x: ad.vmap(ad.grad(f))(np.array([0.3, x]))[1]),
}
COMPILED = {
    "compiled reverse": (1, lambda f, x: ad.jit(ad.grad(f))(x)),
    "compiled forward": (1, lambda f, x: ad.jit(ad.derivative(f))(x)),
    "compiled reverse over reverse": (2, lambda f, x: ad.jit(ad.grad(ad.grad(f)))(x)),
    "compiled pullback": (1, lambda f, x: ad.jit(lambda x, g: ad.vjp(f, x)[1](g)[0])(x, 1.0)),
}


def check_random_programs(seed, programs, forms):
    """The number of derivatives with each verdict."""
    rng = random.Random(seed)
    counts, wrong = Counter(), []
    for _ in range(programs):
        tree, x = draw(rng, rng.randint(1, 4)), draw_point(rng)
        x = rng.choice([float, np.float64])(x)
        f = lambda x, tree=tree: evaluate(tree, x)
        try:
            f(x)
        except (ZeroDivisionError, OverflowError):  # of Python's numbers
            x = np.float64(x)
        for name, (order, run) in forms.items():
            found = float(run(f, x))
            said = verdict(found, tree, float(x), order)
            counts[said] += 1
            if said == "wrong":
                wrong.append((name, tree, x, found))
    assert not wrong, (len(wrong), counts, wrong[:10])
    return counts


@pytest.fixture(autouse=True)
def quiet():
    with np.errstate(all="ignore"):
        yield


PROGRAMS = int(os.environ.get("ADJOINT_PROGRAMS", 0))
SEED = int(os.environ.get("ADJOINT_SEED", 0))


def test_random_programs_at_extreme_points_are_right_or_nan():
    counts = check_random_programs(SEED, max(400, PROGRAMS), FORMS)
    assert counts["right"] > 0.3 * counts.total()
    assert counts["as near as promised"] < 0.2 * counts.total()


def test_compiled_random_programs_at_extreme_points_are_right_or_nan():
    counts = check_random_programs(SEED + 1, max(20, PROGRAMS // 20), COMPILED)
    assert counts["right"] > 0.2 * counts.total()


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
    x = np.float64(x)
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


COMPLEX_STEPS = {
    "imag": np.imag,
    "real": np.real,
    "conj": np.conj,
    "abs": np.abs,
    "fft": np.fft.fft,
    "irfft": np.fft.irfft,
    "a part of a product": lambda z: np.outer(z, z).imag,
    "reversed": lambda z: z.imag[::-1],
}


@pytest.mark.parametrize("factor", [1 + 2j, 2j, 1.5])
@pytest.mark.parametrize("name", COMPLEX_STEPS)
@pytest.mark.parametrize("dtype", [float, complex])
def test_a_cotangent_passes_between_real_and_complex_numbers(name, factor, dtype):
    """Compiled as eager, and as the central difference."""

    def f(x):
        y = np.sin(COMPLEX_STEPS[name](x * factor))
        return np.sum(np.real(y) * 1.3) + np.sum(np.imag(y * (2 - 1j)))

    x, v = np.array([0.3, -0.7, 1.1, 0.2]).astype(dtype), np.array([0.5, -1.0, 0.25, 0.75])
    gradient = ad.grad(f)(x)
    np.testing.assert_allclose(ad.jit(ad.grad(f))(x), gradient, rtol=1e-12)
    np.testing.assert_allclose(np.real(gradient @ v), (f(x + 1e-6 * v) - f(x - 1e-6 * v)) / 2e-6, rtol=1e-6, atol=1e-8)
