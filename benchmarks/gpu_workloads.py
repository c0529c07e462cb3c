"""Workloads of `gpu.py`: those of the table in docs/gpu.md, and more, of other kinds, at sizes that keep a GPU busy.

A function takes a namespace `np` of the library, with `loop` for its scan, and the arrays; the first ones are differentiated.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy
from workloads import (
    black_scholes,
    gaussian_process,
    heat,
    lennard_jones,
    logistic,
    mixture,
    perceptron,
    reprojection,
    rosenbrock,
    tiny,
)


@dataclass(frozen=True)
class Workload:
    name: str
    function: Callable[..., Any]
    inputs: Callable[[numpy.random.Generator, bool], tuple[Any, ...]]  # small if the flag is set
    differentiated: int = 1
    kind: str = "gradient"
    bytes: int = 0  # minimum memory traffic, at full size
    to_reach: float = math.nan  # milliseconds
    loops: bool = False
    tolerance: float = 1e-9


def sum_of_sines(np, x):
    return np.sum(np.sin(x))


def chain_of_sines(np, x):
    y = x
    for _ in range(100):
        y = np.sin(y)
    return np.sum(y)


def lorenz(np, start):
    """200 Runge-Kutta steps for many trajectories; the sum of squares of the last states."""
    sigma, rho, beta, h = 10.0, 28.0, 8 / 3, 0.01

    def slope(s):
        x, y, z = s
        return sigma * (y - x), x * (rho - z) - y, x * y - beta * z

    def moved(s, k, by):
        return tuple(a + by * b for a, b in zip(s, k, strict=True))

    def step(s, _):
        k1 = slope(s)
        k2 = slope(moved(s, k1, 0.5 * h))
        k3 = slope(moved(s, k2, 0.5 * h))
        k4 = slope(moved(s, k3, h))
        return tuple(a + h / 6 * (p + 2 * q + 2 * r + t) for a, p, q, r, t in zip(s, k1, k2, k3, k4, strict=True)), None

    x, y, z = np.loop(step, (start[0], start[1], start[2]), None, 200)[0]
    return np.sum(x * x + y * y + z * z)


def heat_100(np, u, diffusivity):
    return heat(np, u, diffusivity, steps=100)


def attention(np, q, k, v):
    scores = np.matmul(q, np.swapaxes(k, -1, -2)) * (1 / math.sqrt(q.shape[-1]))
    shifted = np.exp(scores - np.logsumexp_kept(scores))
    out = np.matmul(shifted, v)
    return np.sum(out * out)


def normal(*shape, dtype=float):
    return lambda rng: rng.standard_normal(shape).astype(dtype)


def sized(full, small):
    return lambda rng, is_small: tuple(make(rng) for make in (small if is_small else full))


def layers(*sizes):
    found = []
    for m, n in itertools.pairwise(sizes):
        found += [lambda rng, m=m, n=n: (rng.standard_normal((m, n)) / math.sqrt(m)).astype("f"), normal(n, dtype="f")]
    return found


def one_hot(n):
    return lambda rng: numpy.eye(10, dtype="f")[rng.integers(0, 10, n)]


def options(n):
    bounds = ((80, 120), (80, 120), (0.2, 2), (0.01, 0.05), (0.1, 0.5))
    return [lambda rng, b=b: rng.uniform(*b, n) for b in bounds]


def gaussians(n, d, k):
    return [normal(k), normal(k, d), lambda rng: 0.3 * rng.standard_normal((k, d * (d + 1) // 2)), normal(n, d)]


def particles(n):
    side = math.ceil(n ** (1 / 3))

    def make(rng):
        axis = numpy.arange(float(side))
        grid = numpy.stack(numpy.meshgrid(axis, axis, axis), axis=-1).reshape(-1, 3)[:n]
        return 1.2 * grid + 0.1 * rng.uniform(-1, 1, grid.shape)

    return [make]


def process(n):
    return [
        lambda rng: numpy.array([0.1, 0.2, 0.3, 0.4]),
        lambda rng: numpy.array(0.5),
        lambda rng: numpy.array(-3.0),
        lambda rng: rng.uniform(-2, 2, (n, 4)),
        normal(n),
    ]


def sightings(n):
    centre = numpy.array([0.5, -0.4, 0.3, 0, 0, -5, 500, 320, 240, 0.01, 0.001])
    return [lambda rng: rng.standard_normal((n, 11)) * 0.1 + centre, normal(n, 3)]


N = 1 << 26
WORKLOADS = [
    Workload("sum of sines, 2^26", sum_of_sines, sized([normal(N)], [normal(5001)]), bytes=16 * N, to_reach=0.32),
    Workload("Rosenbrock, 2^26", rosenbrock, sized([normal(N)], [normal(5001)]), bytes=16 * N, to_reach=0.36),
    Workload("Black-Scholes, 5 x 10^7", black_scholes, sized(options(10**7), options(999)), 5, bytes=80 * 10**7, to_reach=0.42),
    Workload(
        "logistic regression, 10^6 x 100",
        logistic,
        sized(
            [normal(100), normal(10**6, 100), lambda rng: rng.choice([-1.0, 1.0], 10**6)],
            [normal(100), normal(3000, 100), lambda rng: rng.choice([-1.0, 1.0], 3000)],
        ),
        bytes=808 * 10**6,
        to_reach=0.35,
    ),
    Workload("chain of 100 sines, 10^6", chain_of_sines, sized([normal(10**6)], [normal(1001)]), to_reach=1.5),
    Workload(
        "Gaussian mixture, n=50000 d=20 K=25", mixture, sized(gaussians(50_000, 20, 25), gaussians(300, 5, 4)), 3, to_reach=1.2
    ),
    Workload("Lennard-Jones, 6000 particles", lennard_jones, sized(particles(6000), particles(60)), to_reach=0.4),
    Workload(
        "perceptron 784-2048-2048-10, 8192, float32",
        perceptron,
        sized(
            [*layers(784, 2048, 2048, 10), normal(8192, 784, dtype="f"), one_hot(8192)],
            [*layers(30, 40, 40, 10), normal(64, 30, dtype="f"), one_hot(64)],
        ),
        6,
        to_reach=5.2,
        tolerance=2e-3,
    ),
    Workload("Lorenz, 200 steps, 10^5 trajectories", lorenz, sized([normal(3, 10**5)], [normal(3, 77)]), to_reach=2, loops=True),
    Workload(
        "heat equation, 2048^2, 100 steps",
        heat_100,
        sized(
            [lambda rng: rng.uniform(size=(2048, 2048)), lambda rng: rng.uniform(0.1, 0.2, (2048, 2048))],
            [lambda rng: rng.uniform(size=(30, 40)), lambda rng: rng.uniform(0.1, 0.2, (30, 40))],
        ),
        to_reach=6,
        loops=True,
    ),
    Workload(
        "heat equation, and by the diffusivity",
        heat_100,
        sized(
            [lambda rng: rng.uniform(size=(2048, 2048)), lambda rng: rng.uniform(0.1, 0.2, (2048, 2048))],
            [lambda rng: rng.uniform(size=(30, 40)), lambda rng: rng.uniform(0.1, 0.2, (30, 40))],
        ),
        2,
        loops=True,
    ),
    Workload("Gaussian process, n=3000", gaussian_process, sized(process(3000), process(150)), 3, to_reach=7, tolerance=1e-6),
    Workload(
        "bundle adjustment, 500000 Jacobians",
        reprojection,
        sized(sightings(500_000), sightings(301)),
        2,
        kind="jacobians",
        bytes=8 * 500_000 * (14 + 28),
        to_reach=0.5,
    ),
    Workload(
        "attention 16 x 16 x 512 x 64, float32",
        attention,
        sized([normal(16, 16, 512, 64, dtype="f")] * 3, [normal(2, 3, 40, 8, dtype="f")] * 3),
        3,
        to_reach=1.4,
        tolerance=2e-3,
    ),
    Workload("call, 3 elements", tiny, sized([normal(3)], [normal(3)]), to_reach=0.015),
]


# -- further workloads --------------------------------------------------------------------------------------------------------


def softmax_regression(np, w, x, y):
    scores = x @ w
    return -np.sum((scores - np.logsumexp_kept(scores)) * y)


def normalised_layers(np, x, first, second, scale):
    h = x @ first
    h = (h - np.mean(h, axis=-1, keepdims=True)) / np.sqrt(np.var(h, axis=-1, keepdims=True) + 1e-5) * scale
    h = 0.5 * h * (1 + np.tanh(0.7978845608 * (h + 0.044715 * h**3)))
    return np.mean((h @ second) ** 2)


def convolution(np, kernel, images):
    rows, columns = images.shape[1] - 2, images.shape[2] - 2
    y = 0
    for i in range(3):
        for j in range(3):
            y = y + kernel[i, j] * images[:, i : rows + i, j : columns + j]
    return np.sum(np.tanh(y))


def heston(np, parameters, draws):
    """100 Euler steps of log price and variance."""
    kappa, theta, xi, rho = (parameters[i] for i in range(4))
    dt = 1 / 100

    def step(state, e):
        s, v = state
        positive = np.maximum(v, 0.0)
        move = np.sqrt(positive * dt)
        s = s - 0.5 * positive * dt + move * e[0]
        v = v + kappa * (theta - positive) * dt + xi * move * (rho * e[0] + np.sqrt(1 - rho * rho) * e[1])
        return (s, v), None

    paths = draws.shape[2]
    (s, _), _ = np.loop(step, (np.zeros(paths), np.ones(paths) * theta), draws, 100)
    return np.mean(np.maximum(np.exp(s) - 1.0, 0.0))


def asian_option(np, sigma, draws):
    prices = np.exp(np.cumsum(sigma * 0.06 * draws - 0.5 * sigma**2 * 0.0036, axis=1))
    return np.mean(np.maximum(np.mean(prices, axis=1) - 1.0, 0))


def growth(np, rates):
    products = np.cumprod(1 + 0.01 * rates, axis=1)
    return np.sum(products[:, -1] ** 2) + np.sum(products)


def lstm(np, of_inputs, of_state, bias, xs):
    size = of_state.shape[0]

    def step(state, x):
        h, c = state
        gates = x @ of_inputs + h @ of_state + bias
        i, f, o = (0.5 * (np.tanh(0.5 * gates[:, k * size : (k + 1) * size]) + 1) for k in (0, 1, 3))
        c = f * c + i * np.tanh(gates[:, 2 * size : 3 * size])
        return (o * np.tanh(c), c), None

    zeros = xs[0] @ of_inputs[:, :size] * 0
    (h, _), _ = np.loop(step, (zeros, zeros), xs, xs.shape[0])
    return np.sum(h * h)


def neural_ode(np, first, second, start):
    slope = lambda y: np.tanh(y @ first) @ second

    def step(y, _):
        k1 = slope(y)
        k2 = slope(y + 0.05 * k1)
        k3 = slope(y + 0.05 * k2)
        k4 = slope(y + 0.1 * k3)
        return y + 0.1 / 6 * (k1 + 2 * k2 + 2 * k3 + k4), None

    y, _ = np.loop(step, start, None, 50)
    return np.sum(y * y)


def hidden_markov(np, transitions, emissions):
    def step(a, b):
        return np.logsumexp(a[:, :, None] + transitions, axis=1) + b, None

    a, _ = np.loop(step, emissions[0], emissions[1:], emissions.shape[0] - 1)
    return np.sum(np.logsumexp(a, axis=1))


def sinkhorn(np, costs):
    k = np.exp(-costs)

    def step(u, _):
        return 1.0 / (k @ (1.0 / (u @ k))), None

    u, _ = np.loop(step, costs[:, 0] * 0 + 1.0, None, 50)
    return np.sum(np.log(u))


def batched_cholesky(np, a):
    n = a.shape[-1]
    factors = np.linalg.cholesky(np.matmul(a, np.swapaxes(a, 1, 2)) + n * np.eye(n))
    return np.sum(np.log(np.diagonal(factors, axis1=1, axis2=2)))


def batched_products(np, a, b):
    return np.sum(np.tanh(np.matmul(np.matmul(a, b), a)))


def batched_solve(np, a, b):
    return np.sum(np.linalg.solve(a + 8 * np.eye(a.shape[-1]), b) ** 2)


def batched_determinants(np, a):
    return np.sum(np.log(np.abs(np.linalg.det(a + 4 * np.eye(a.shape[-1])))))


def batched_eigenvalues(np, a):
    return np.sum(np.linalg.eigvalsh(a + np.swapaxes(a, 1, 2)) ** 4)


def bilinear_forms(np, a, b):
    return np.sum(np.einsum("bij,bjk,bik->b", a, b, a) ** 2)


def embedding(np, table, places):
    return np.sum(np.tanh(table[places]) ** 2)


def power_spectrum(np, x):
    f = np.fft.rfft(x)
    return np.sum(np.abs(np.fft.irfft(f * f, n=x.shape[0])) ** 2)


def wave(np, u):
    def step(state, _):
        a, b = state
        around = np.roll(a, 1, 0) + np.roll(a, -1, 0) + np.roll(a, 1, 1) + np.roll(a, -1, 1)
        return (2 * a - b + 0.2 * (around - 4 * a), a), None

    (a, _), _ = np.loop(step, (u, u), None, 100)
    return np.sum(a * a)


def trimmed_mean(np, x):
    cut = x.shape[0] // 1000
    return np.mean(np.sort(x)[cut:-cut] ** 2)


def medians(np, x):
    return np.sum(np.median(x, axis=1) ** 2)


def robust_regression(np, rows, columns, x):
    error = x - rows[:, None] - columns
    size = np.abs(error)
    return np.sum(np.where(size < 1, 0.5 * error * error, size - 0.5))


def radial_kernel(np, x, width):
    distances = np.sum((x[:, None, :] - x[None, :, :]) ** 2, axis=-1)
    return np.sum(np.exp(-distances / width))


def polynomial(np, coefficients, x):
    y = 0 * x
    for i in range(coefficients.shape[0]):
        y = y * x + coefficients[i]
    return np.sum(y)


def complex_iteration(np, real, imaginary):
    c = real + 1j * imaginary
    z = 0 * c
    for _ in range(20):
        z = z * z * 0.3 + c
    return np.sum(np.real(z) ** 2 + np.imag(z) ** 2)


def transformer_block(np, wq, wk, wv, wo, first, second, x):
    batch, length, width = x.shape
    heads = 4

    def split(y):
        return np.transpose(np.reshape(y, (batch, length, heads, width // heads)), (0, 2, 1, 3))

    def normalised(y):
        y = y - np.mean(y, axis=-1, keepdims=True)
        return y / np.sqrt(np.mean(y * y, axis=-1, keepdims=True) + 1e-5)

    y = normalised(x)
    q, k, v = (split(y @ w) for w in (wq, wk, wv))
    scores = np.matmul(q, np.swapaxes(k, -1, -2)) * (1 / math.sqrt(width // heads))
    weights = np.exp(scores - np.logsumexp_kept(scores))
    x = x + np.reshape(np.transpose(np.matmul(weights, v), (0, 2, 1, 3)), (batch, length, width)) @ wo
    x = x + np.maximum(normalised(x) @ first, 0) @ second
    return np.mean(x * x)


def motion(n):
    return numpy.eye(n) + 0.1 * numpy.eye(n, k=2)


def seen(n):
    return numpy.eye(2, n)


def kalman(np, noise, measured):
    """Filters of four states and two measurements, side by side."""
    f, h = np.constant(motion, 4), np.constant(seen, 4)

    def step(carry, z):
        x, p, total = carry
        x, p = x @ f.T, np.matmul(np.matmul(f, p), f.T) + noise * np.eye(4)
        error = z - x @ h.T
        gain = np.matmul(np.matmul(p, h.T), np.linalg.inv(np.matmul(np.matmul(h, p), h.T) + np.eye(2)))
        x = x + np.matmul(gain, error[:, :, None])[:, :, 0]
        return (x, p - np.matmul(np.matmul(gain, h), p), total + np.sum(error * error)), None

    first = measured[0]
    start = np.concatenate([first, first * 0], axis=1), np.zeros((first.shape[0], 4, 4)) + np.eye(4), np.sum(first) * 0
    return np.loop(step, start, measured, measured.shape[0])[0][2]


def rows_and_columns(np, x):
    by_column, by_row = np.tanh(np.sum(x, axis=0)), np.tanh(np.max(x, axis=1))
    return np.sum(by_column) + np.sum(by_row) + np.sum(np.std(x, axis=0))


def interpolation(np, y, x):
    return np.sum(np.interp(x, np.arange(y.shape[0]) / y.shape[0], y) ** 2)


def soft_plus(np, x):
    return np.sum(np.logaddexp(x, numpy.float32(0)) * np.tanh(x))


def uniform(low, high, *shape):
    return lambda rng: rng.uniform(low, high, shape)


def number(x):
    return lambda rng: numpy.array(x)


def weights(m, n):
    return lambda rng: (rng.standard_normal((m, n)) / math.sqrt(m)).astype("f")


def more(name, function, make, full, small, differentiated=1, **options):
    """A workload whose inputs follow from its sizes."""
    return Workload(name, function, sized(make(*full), make(*small)), differentiated, **{"tolerance": 1e-7, **options})


def stacks(count):
    """Of `count` stacks of square matrices."""
    return lambda n, m: [normal(n, m, m)] * count


SINGLE = {"tolerance": 2e-3}
MORE = [
    more(
        "softmax regression, 200000 x 64",
        softmax_regression,
        lambda n, d: [normal(d, 10), normal(n, d), lambda rng: numpy.eye(10)[rng.integers(0, 10, n)]],
        (200_000, 64),
        (300, 7),
    ),
    more(
        "normalised layers, 8192 x 1024, float32",
        normalised_layers,
        lambda n, d: [normal(n, d, dtype="f"), weights(d, 2 * d), weights(2 * d, d), normal(2 * d, dtype="f")],
        (8192, 512),
        (50, 9),
        4,
        **SINGLE,
    ),
    more("convolution 3 x 3, 64 x 512 x 512", convolution, lambda k, n: [normal(3, 3), normal(k, n, n)], (64, 512), (3, 20), 2),
    more(
        "Heston, 100 steps, 10^5 paths",
        heston,
        lambda n: [lambda rng: numpy.array([1.5, 0.04, 0.3, -0.7]), normal(100, 2, n)],
        (10**5,),
        (50,),
        loops=True,
    ),
    more("Asian option, 10^5 x 252", asian_option, lambda n, m: [number(0.2), normal(n, m)], (10**5, 252), (70, 40)),
    more("cumulative products, 10^5 x 100", growth, lambda n, m: [normal(n, m)], (10**5, 100), (70, 40)),
    more(
        "LSTM, 100 x 256 x 256, float32",
        lstm,
        lambda t, b, d, h: [weights(d, 4 * h), weights(h, 4 * h), normal(4 * h, dtype="f"), normal(t, b, d, dtype="f")],
        (100, 256, 64, 256),
        (5, 4, 3, 6),
        3,
        loops=True,
        **SINGLE,
    ),
    more(
        "neural ODE, 4096 x 16",
        neural_ode,
        lambda n, d, h: [uniform(-0.5, 0.5, d, h), uniform(-0.3, 0.3, h, d), normal(n, d)],
        (4096, 16, 64),
        (30, 3, 5),
        2,
        loops=True,
    ),
    more(
        "hidden Markov, 200 x 256 x 32",
        hidden_markov,
        lambda t, n, k: [normal(k, k), normal(t, n, k)],
        (200, 256, 32),
        (6, 20, 5),
        2,
        loops=True,
    ),
    more("Sinkhorn, 1000 x 1000, 50 iterations", sinkhorn, lambda n: [uniform(0.5, 1.5, n, n)], (1000,), (20,), loops=True),
    more("Cholesky, 10000 of 16 x 16", batched_cholesky, stacks(1), (10_000, 16), (9, 5)),
    more("products, 50000 of 8 x 8", batched_products, stacks(2), (50_000, 8), (300, 8), 2),
    more("linear systems, 20000 of 8", batched_solve, lambda n, m: [normal(n, m, m), normal(n, m, 1)], (20_000, 8), (9, 5), 2),
    more("determinants, 10^5 of 4 x 4", batched_determinants, stacks(1), (10**5, 4), (9, 4)),
    more("eigenvalues, 1000 of 16 x 16", batched_eigenvalues, stacks(1), (1000, 16), (9, 5), tolerance=1e-6),
    more("bilinear forms, 20000 of 8 x 8", bilinear_forms, stacks(2), (20_000, 8), (300, 8), 2),
    more(
        "embedding, 500000 of 10^5 x 64",
        embedding,
        lambda n, d, m: [normal(n, d), lambda rng: rng.integers(0, n, m)],
        (10**5, 64, 500_000),
        (20, 3, 100),
    ),
    more("Fourier transform, 2^21", power_spectrum, lambda n: [uniform(-1e-3, 1e-3, n)], (1 << 21,), (64,)),
    more("wave by rolling, 1024^2, 100 steps", wave, lambda n: [normal(n, n)], (1024,), (12,), loops=True),
    more("trimmed mean, 10^6", trimmed_mean, lambda n: [normal(n)], (10**6,), (3000,)),
    more("medians, 20000 x 101", medians, lambda n, m: [normal(n, m)], (20_000, 101), (30, 11)),
    more(
        "robust regression, 4096 x 8192",
        robust_regression,
        lambda n, m: [normal(n), normal(m), normal(n, m)],
        (4096, 8192),
        (50, 30),
        2,
    ),
    more("radial kernel, 4000 x 16", radial_kernel, lambda n, d: [normal(n, d), number(20.0)], (4000, 16), (200, 16), 2),
    more("polynomial of degree 29, 10^7", polynomial, lambda k, n: [normal(k), uniform(-1, 1, n)], (30, 10**7), (30, 3000), 2),
    more("complex iteration, 10^6", complex_iteration, lambda n: [uniform(-0.5, 0.5, n)] * 2, (10**6,), (300,), 2),
    more(
        "transformer block, 8 x 512 x 512, float32",
        transformer_block,
        lambda b, t, d: [weights(d, d)] * 4 + [weights(d, 4 * d), weights(4 * d, d), normal(b, t, d, dtype="f")],
        (8, 512, 512),
        (2, 7, 8),
        7,
        **SINGLE,
    ),
    more("Kalman, 100 steps, 1000 filters", kalman, lambda t, n: [number(0.1), normal(t, n, 2)], (100, 1000), (5, 9), loops=True),
    more("rows and columns, 4096 x 4096", rows_and_columns, lambda n: [normal(n, n)], (4096,), (50,)),
    more("interpolation, 10^6 in 1000", interpolation, lambda k, n: [normal(k), uniform(0, 1, n)], (1000, 10**6), (10, 300)),
    more("soft plus, 2^24, float32", soft_plus, lambda n: [normal(n, dtype="f")], (1 << 24,), (3000,), tolerance=1e-4),
]


def inputs_of(workload, small):
    return workload.inputs(numpy.random.default_rng(0), small)


def chosen(workload):
    return 0 if workload.differentiated == 1 else tuple(range(workload.differentiated))
