"""The programs of `compiled.py`, each written once, over a namespace `np` that each contender maps to its library.

A workload is a function of `np` and arrays. `np` is NumPy, or has its names; besides, it has `erf`, `logsumexp`,
`solve_triangular`, `constant(build, n)`, an array that is built once, and `loop(step, carry, xs, length)`, the scan of the
library or a Python loop, and `repeat_while(goes_on, step, carry)`, its while loop or Python's.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy

Arrays = tuple[Any, ...]


@dataclass(frozen=True)
class Workload:
    name: str
    function: Callable[..., Any]
    inputs: Callable[[numpy.random.Generator], Arrays]
    differentiated: int  # the number of leading inputs
    kind: str = "gradient"  # with the value; or "hvp" (gradient and Hessian times the last input), "jacobians", "hessian"
    # or "donated" (the function itself, which may write over its first argument)
    tolerance: float = 1e-10
    traffic: int = 0  # bytes that must be read or written once, where memory bounds the time
    products: Callable[..., Any] | None = None  # the matrix products alone, in NumPy, where they bound it
    unrolled: bool = False  # a Python loop, where the contender can trace it
    loops: bool = False  # the program is a loop of many iterations
    forward: bool = False  # jax has no reverse mode for it: forward mode, the same work for one number
    casadi: bool = False  # small and scalar enough for CasADi's expressions


# -- calls and scalars ------------------------------------------------------------------------------------------


def tiny(np, x):
    return np.sum(np.sin(x) * x)


def chain(np, x):
    """200 operations on one number."""
    y = x
    for _ in range(25):
        a = np.exp(-y)
        b = np.tanh(a + x)
        c = np.sqrt(b * b + 1.0)
        y = c / (a + 2.0)
    return y


# -- elementwise over large arrays ------------------------------------------------------------------------------


def black_scholes(np, spot, strike, time, rate, volatility):
    """The sum of the prices of European calls."""
    width = volatility * np.sqrt(time)
    d1 = (np.log(spot / strike) + (rate + 0.5 * volatility * volatility) * time) / width
    d2 = d1 - width
    first = 0.5 * (1.0 + np.erf(d1 / math.sqrt(2.0)))
    second = 0.5 * (1.0 + np.erf(d2 / math.sqrt(2.0)))
    return np.sum(spot * first - strike * np.exp(-rate * time) * second)


def options(rng):
    n = 500_000
    spot, strike = rng.uniform(80, 120, n), rng.uniform(80, 120, n)
    return spot, strike, rng.uniform(0.2, 2, n), rng.uniform(0.01, 0.05, n), rng.uniform(0.1, 0.5, n)


def rosenbrock(np, x):
    a, b = x[:-1], x[1:]
    return np.sum(100.0 * (b - a * a) ** 2 + (1.0 - a) ** 2)


def log_sum_exp(np, x):
    return np.logsumexp(x, axis=0)


# -- statistics -------------------------------------------------------------------------------------------------


def logistic(np, w, x, y):
    """Mean negative log-likelihood, y in ±1, and a penalty."""
    margin = y * (x @ w)
    return np.mean(np.logaddexp(0.0 * margin, -margin)) + 0.5e-3 * np.sum(w * w)


def mixture(np, alphas, means, factors, x):
    """ADBench's objective: log-likelihood of a Gaussian mixture by inverse Cholesky factors, with a Wishart prior."""
    n, d = x.shape
    k = alphas.shape[0]
    logs, below = factors[:, :d], factors[:, d:]
    diagonal = np.exp(logs)
    padded = np.concatenate([below, 0.0 * below[:, :1]], axis=1)
    q = padded[:, np.constant(below_diagonal, d)] + diagonal[:, :, None] * np.constant(numpy.eye, d)
    centred = x[None, :, :] - means[:, None, :]
    scaled = np.matmul(centred, np.swapaxes(q, 1, 2))
    inner = alphas[:, None] + np.sum(logs, axis=1)[:, None] - 0.5 * np.sum(scaled * scaled, axis=2)
    likelihood = np.sum(np.logsumexp(inner, axis=0)) - n * np.logsumexp(alphas, axis=0)
    prior = 0.5 * (np.sum(diagonal * diagonal) + np.sum(below * below))  # gamma = 1, m = 0
    degrees = d + 1
    constant = -degrees * d * 0.5 * math.log(2.0) - 0.25 * d * (d - 1) * math.log(math.pi)
    constant -= sum(math.lgamma(0.5 * degrees - 0.5 * j) for j in range(d))
    return likelihood - 0.5 * n * d * math.log(2 * math.pi) + prior - k * constant


def below_diagonal(d):
    """For each element of a matrix, the index of its entry: below the diagonal by columns; elsewhere, after the last."""
    where = numpy.full((d, d), d * (d - 1) // 2)
    rows, columns = numpy.triu_indices(d, 1)  # of the transpose: by columns of the matrix
    where[columns, rows] = numpy.arange(len(rows))
    return where


def gaussians(rng):
    n, d, k = 1000, 20, 25
    factors = 0.3 * rng.normal(size=(k, d * (d + 1) // 2))
    return rng.normal(size=k), rng.normal(size=(k, d)), factors, rng.normal(size=(n, d))


def k_means(np, centres, points):
    gaps = points[:, None, :] - centres[None, :, :]
    return np.sum(np.min(np.sum(gaps * gaps, axis=2), axis=1))


def gaussian_process(np, log_lengths, log_scale, log_noise, x, y):
    """Log marginal likelihood; squared-exponential kernel."""
    scaled = x * np.exp(-log_lengths)
    norms = np.sum(scaled * scaled, axis=1)
    squares = norms[:, None] + norms[None, :] - 2.0 * (scaled @ scaled.T)
    n = x.shape[0]
    covariance = np.exp(log_scale - 0.5 * squares) + (np.exp(log_noise) + 1e-6) * np.constant(numpy.eye, n)
    factor = np.linalg.cholesky(covariance)
    z = np.solve_triangular(factor, y)
    return -0.5 * np.sum(z * z) - np.sum(np.log(np.diagonal(factor))) - 0.5 * n * math.log(2 * math.pi)


def observations_of_a_process(rng):
    x = rng.uniform(-2, 2, (300, 4))
    y = numpy.sin(x).sum(axis=1) + 0.1 * rng.normal(size=300)
    return numpy.array([0.1, 0.2, 0.3, 0.4]), numpy.array(0.5), numpy.array(-3.0), x, y


# -- physics and vision -----------------------------------------------------------------------------------------


def lennard_jones(np, x):
    n = x.shape[0]
    gaps = x[:, None, :] - x[None, :, :]
    squares = np.sum(gaps * gaps, axis=2) + np.constant(numpy.eye, n)
    inverse = 1.0 / (squares * squares * squares)
    return 2.0 * np.sum((inverse * inverse - inverse) * np.constant(off_diagonal, n))


def off_diagonal(n):
    return 1.0 - numpy.eye(n)


def particles(rng):
    side = numpy.arange(8.0)
    grid = numpy.stack(numpy.meshgrid(side, side, side), axis=-1).reshape(-1, 3)[:400]
    return (1.2 * grid + 0.1 * rng.uniform(-1, 1, grid.shape),)


def reprojection(np, camera, point):
    """ADBench's residual of one observation, or of many along axes in front: 11 numbers a camera, 3 a point."""
    rotation, centre = camera[..., 0:3], camera[..., 3:6]
    focal, axis_x, axis_y = camera[..., 6], camera[..., 7], camera[..., 8]
    radial_1, radial_2 = camera[..., 9], camera[..., 10]
    x, y, z = (point[..., i] - centre[..., i] for i in range(3))
    a, b, c = (rotation[..., i] for i in range(3))
    square = a * a + b * b + c * c
    angle = np.sqrt(square)
    cosine, sine = np.cos(angle), np.sin(angle) / angle
    along = (1.0 - cosine) * (a * x + b * y + c * z) / square
    px = cosine * x + sine * (b * z - c * y) + along * a
    py = cosine * y + sine * (c * x - a * z) + along * b
    pz = cosine * z + sine * (a * y - b * x) + along * c
    u, v = px / pz, py / pz
    radius = u * u + v * v
    bend = focal * (1.0 + radial_1 * radius + radial_2 * radius * radius)
    return np.stack([axis_x + bend * u, axis_y + bend * v], -1)


def sightings(rng):
    n = 5000
    camera = rng.normal(size=(n, 11)) * 0.1 + numpy.array([0.5, -0.4, 0.3, 0, 0, -5, 500, 320, 240, 0.01, 0.001])
    return camera, rng.normal(size=(n, 3))


def lorenz(np, start, parameters):
    """500 Runge-Kutta steps; the size of the last state."""
    sigma, rho, beta = parameters[0], parameters[1], parameters[2]
    h = 0.01

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

    x, y, z = np.loop(step, (start[0], start[1], start[2]), None, 500)[0]
    return x * x + y * y + z * z


def newton(np, a):
    """The square root, iterated to a tolerance."""
    return np.repeat_while(lambda x: np.abs(x * x - a) > 1e-12 * a, lambda x: 0.5 * (x + a / x), a)


def heat(np, u, diffusivity, steps=200):
    """Explicit steps on a grid with cold edges; the distance of the last state from one."""

    def step(u, _):
        inside = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4.0 * u[1:-1, 1:-1]
        return u + diffusivity * np.pad(inside, 1), None

    last = np.loop(step, u, None, steps)[0]
    return np.sum((last - 1.0) ** 2)


# -- networks ---------------------------------------------------------------------------------------------------


def lstm(np, weights, bias, readout, xs, targets):
    """100 steps of a cell of 32 on one sequence; the squared error of its readout."""
    size = readout.shape[1]

    def step(state, row):
        h, c, loss = state
        x, target = row
        gates = weights @ np.concatenate([x, h]) + bias
        i, f, o = (0.5 * (1.0 + np.tanh(0.5 * gates[j * size : (j + 1) * size])) for j in range(3))
        c = f * c + i * np.tanh(gates[3 * size :])
        h = o * np.tanh(c)
        error = readout @ h - target
        return (h, c, loss + np.sum(error * error)), None

    zero = 0.0 * bias[:size]
    return np.loop(step, (zero, zero, 0.0 * bias[0]), (xs, targets), 100)[0][2]


def cell(rng):
    size, width = 32, 16
    weights = rng.normal(size=(4 * size, width + size)) / math.sqrt(width + size)
    return (
        weights,
        0.1 * rng.normal(size=4 * size),
        rng.normal(size=(4, size)) / 6,
        rng.normal(size=(100, width)),
        rng.normal(size=(100, 4)),
    )


def perceptron(np, w1, b1, w2, b2, w3, b3, x, labels):
    """Cross-entropy of a network 784-512-256-10; labels are rows of zeros and a one."""
    h = np.tanh(x @ w1 + b1)
    h = np.tanh(h @ w2 + b2)
    logits = h @ w3 + b3
    return np.mean(np.logsumexp(logits, axis=1) - np.sum(logits * labels, axis=1))


def digits(rng):
    sizes = (784, 512, 256, 10)
    layers = []
    for m, n in itertools.pairwise(sizes):
        layers += [rng.normal(size=(m, n)) / math.sqrt(m), 0.1 * rng.normal(size=n)]
    images, labels = rng.uniform(0, 1, (256, 784)), numpy.eye(10)[rng.integers(0, 10, 256)]
    return tuple(a.astype(numpy.float32) for a in (*layers, images, labels))


def perceptron_products(w1, b1, w2, b2, w3, b3, x, labels):
    h1 = x @ w1
    h2 = h1 @ w2
    h3 = h2 @ w3
    g2 = h3 @ w3.T
    g1 = g2 @ w2.T
    return x.T @ g1, h1.T @ g2, h2.T @ h3


# -- second order -----------------------------------------------------------------------------------------------


def coupled(np, x, a):
    """A function of 50 variables with a dense matrix of second derivatives."""
    y = a @ x
    return np.sum(np.log(1.0 + y * y)) + np.sum((x[1:] - x[:-1] * x[:-1]) ** 2)


WORKLOADS = [
    Workload("dispatch, 3 elements", tiny, lambda rng: (rng.normal(size=3),), 1, casadi=True),
    Workload("scalar chain, 200 operations", chain, lambda rng: (numpy.array(0.7),), 1, casadi=True),
    Workload("Black-Scholes, 5 x 500000", black_scholes, options, 5, traffic=10 * 8 * 500_000),
    Workload(
        "logistic regression, 10000 x 50",
        logistic,
        lambda rng: (rng.normal(size=50), rng.normal(size=(10_000, 50)), rng.choice([-1.0, 1.0], 10_000)),
        1,
        traffic=8 * 10_000 * 51,
    ),
    Workload("Gaussian mixture, n=1000 d=20 K=25", mixture, gaussians, 3),
    Workload("Rosenbrock gradient, 200000", rosenbrock, lambda rng: (rng.normal(size=200_000),), 1, traffic=2 * 8 * 200_000),
    Workload(
        "Rosenbrock hvp, 200000",
        rosenbrock,
        lambda rng: (rng.normal(size=200_000), rng.normal(size=200_000)),
        1,
        kind="hvp",
        traffic=4 * 8 * 200_000,
    ),
    Workload("Lennard-Jones, 400 particles", lennard_jones, particles, 1),
    Workload("perceptron 784-512-256-10, float32", perceptron, digits, 6, tolerance=1e-4, products=perceptron_products),
    Workload(
        "Lorenz, 500 steps, scan",
        lorenz,
        lambda rng: (numpy.array([1.0, 1.0, 1.0]), numpy.array([10.0, 28.0, 8 / 3])),
        2,
        loops=True,
    ),
    Workload(
        "Lorenz, 500 steps, Python loop",
        lorenz,
        lambda rng: (numpy.array([1.0, 1.0, 1.0]), numpy.array([10.0, 28.0, 8 / 3])),
        2,
        loops=True,
        unrolled=True,
    ),
    Workload("Newton, while to tolerance", newton, lambda rng: (numpy.array(2.0),), 1, loops=True, forward=True),
    Workload("LSTM, 100 steps, scan", lstm, cell, 3, loops=True),
    Workload("LSTM, 100 steps, Python loop", lstm, cell, 3, loops=True, unrolled=True),
    Workload("Gaussian process, n=300", gaussian_process, observations_of_a_process, 3),
    Workload("bundle adjustment, 5000 Jacobians", reprojection, sightings, 2, kind="jacobians"),
    Workload(
        "heat equation, 200 steps, scan",
        heat,
        lambda rng: (rng.uniform(size=(100, 100)), rng.uniform(0.1, 0.2, (100, 100))),
        2,
        loops=True,
    ),
    Workload(
        "heat equation, 200 steps, Python loop",
        heat,
        lambda rng: (rng.uniform(size=(100, 100)), rng.uniform(0.1, 0.2, (100, 100))),
        2,
        loops=True,
        unrolled=True,
    ),
    Workload(
        "Hessian, 50 variables",
        coupled,
        lambda rng: (rng.normal(size=50), rng.normal(size=(80, 50)) / 7),
        1,
        kind="hessian",
        casadi=True,
    ),
    Workload(
        "k-means, 10000 x 8, 16 centres",
        k_means,
        lambda rng: (rng.normal(size=(16, 8)), rng.normal(size=(10_000, 8))),
        1,
    ),
    Workload("log-sum-exp, 10^6", log_sum_exp, lambda rng: (rng.normal(size=10**6),), 1, traffic=2 * 8 * 10**6),
]
