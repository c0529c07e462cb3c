"""Programs as people write them: the time of NumPy, of our compiled function and gradient, and of JAX where it is installed.

Each program is one function of a NumPy namespace and arrays, with plain Python loops. JAX runs the same text.

python benchmarks/realistic.py [name …]
"""

from __future__ import annotations

import os
import sys
import time

os.environ["ADJOINT_CACHE_DIR"] = ""  # nothing from disk

import numpy

import adjoint as ad

PROGRAMS = {}
REPEATS = 20


def program(*shapes, positive=False):
    """Register a program, with the shapes of its arguments."""

    def register(f):
        PROGRAMS[f.__name__] = f, shapes, positive
        return f

    return register


@program((3, 10_000))
def lorenz(np, s):
    """100 Runge–Kutta steps of many trajectories."""

    def slope(x, y, z):
        return 10.0 * (y - x), x * (28.0 - z) - y, x * y - 2.5 * z

    state, h = (s[0], s[1], s[2]), 0.01
    for _ in range(100):
        a = slope(*state)
        b = slope(*(v + 0.5 * h * k for v, k in zip(state, a, strict=True)))
        c = slope(*(v + 0.5 * h * k for v, k in zip(state, b, strict=True)))
        d = slope(*(v + h * k for v, k in zip(state, c, strict=True)))
        state = tuple(v + h / 6 * (p + 2 * q + 2 * r + w) for v, p, q, r, w in zip(state, a, b, c, d, strict=True))
    return np.sum(state[0] ** 2 + state[1] ** 2 + state[2] ** 2)


@program((64, 10_000), (64, 10_000), (10_000,))
def heston(np, dw, dv, v):
    """The mean payoff of a call, with stochastic volatility v."""
    price, v = 0.0 * v, 0.04 + 0.0 * v
    for i in range(64):
        root = np.sqrt(np.maximum(v, 1e-12) / 64)
        price = price - 0.5 * v / 64 + root * dw[i]
        v = v + 2.0 * (0.04 - v) / 64 + 0.3 * root * (0.6 * dw[i] + 0.8 * dv[i])
    return np.mean(np.maximum(np.exp(price) - 1.0, 0.0))


@program((8, 8), (8, 4), (8,), positive=True)
def hidden_markov(np, transition, emission, start):
    """The likelihood of 100 observations, by the forward pass."""
    seen = [(7 * t * t + t // 3) % 4 for t in range(100)]
    alpha, total = start * emission[:, seen[0]], 0.0
    for t in range(1, 100):
        scale = np.sum(alpha)
        total = total + np.log(scale)
        alpha = (alpha / scale) @ transition * emission[:, seen[t]]
    return total + np.log(np.sum(alpha))


@program((10_000,))
def sines(np, x):
    for _ in range(100):
        x = np.sin(x)
    return np.sum(x)


@program((400,))
def wave(np, u):
    before, now = u, u
    for _ in range(200):
        inside = now[2:] - 2 * now[1:-1] + now[:-2]
        before, now = now, np.concatenate([now[:1], 2 * now[1:-1] - before[1:-1] + 0.25 * inside, now[-1:]])
    return np.sum(now**2)


@program((60, 3), (60, 3))
def n_body(np, x, v):
    """20 leapfrog steps."""
    for _ in range(20):
        apart = x[:, None, :] - x[None, :, :]
        force = np.sum(apart / (np.sum(apart**2, axis=-1, keepdims=True) + 0.1) ** 1.5, axis=1)
        v = v - 0.001 * force
        x = x + 0.001 * v
    return np.sum(v**2)


@program((50, 50), (50,), (50,), positive=True)
def sinkhorn(np, cost, a, b):
    kernel = np.exp(-cost / 0.5)
    u = 1.0 + 0.0 * a
    for _ in range(50):
        v = b / (kernel.T @ u)
        u = a / (kernel @ v)
    return np.sum(u[:, None] * kernel * v[None, :] * cost)


@program((4, 4), (100, 4))
def kalman(np, a, seen):
    """The log-likelihood of observations of a state that moves by a."""
    mean, spread, total = 0.0 * seen[0], 1.0 * np.eye(4), 0.0
    for t in range(100):
        move = 0.3 * a
        mean, spread = move @ mean, move @ spread @ move.T + 0.1 * np.eye(4)
        total_spread = spread + 0.5 * np.eye(4)
        off = seen[t] - mean
        gain = np.linalg.solve(total_spread, spread).T
        total = total - 0.5 * off @ np.linalg.solve(total_spread, off)
        mean, spread = mean + gain @ off, spread - gain @ spread
    return total


def arguments(name):
    """The arguments of a program, the same in every run."""
    _, shapes, positive = PROGRAMS[name]
    rng = numpy.random.default_rng(0)
    return [rng.random(shape) + 0.1 if positive else rng.normal(size=shape) for shape in shapes]


def measured(f, *args):
    """Seconds of the first call, and of the best later one."""
    began = time.perf_counter()
    f(*args)
    first, best = time.perf_counter() - began, float("inf")
    for _ in range(REPEATS):
        began = time.perf_counter()
        f(*args)
        best = min(best, time.perf_counter() - began)
    return first, best


def peers(f):
    """Named functions to measure: NumPy, ours, and JAX if it is installed."""
    found = {"numpy": lambda *args: f(numpy, *args)}
    found["function"] = ad.jit(lambda *args: f(numpy, *args))
    found["gradient"] = ad.jit(ad.grad(lambda *args: f(numpy, *args)))
    try:
        import jax
    except ImportError:
        return found
    jax.config.update("jax_enable_x64", True)
    compiled = jax.jit(lambda *args: f(jax.numpy, *args))
    gradient = jax.jit(jax.grad(lambda *args: f(jax.numpy, *args)))
    found["jax function"] = lambda *args: jax.block_until_ready(compiled(*args))
    found["jax gradient"] = lambda *args: jax.block_until_ready(gradient(*args))
    return found


def main(names):
    for name in names or PROGRAMS:
        f, args = PROGRAMS[name][0], arguments(name)
        for who, run in peers(f).items():
            first, best = measured(run, *args)
            print(f"{name:15} {who:13} {best * 1e3:9.3f} ms   first {first:6.2f} s", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
