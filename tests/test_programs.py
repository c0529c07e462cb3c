"""Programs as people write them, differentiated as they stand: both modes, two orders, against finite differences.

`np` is plain NumPy. `anp` is `adjoint.numpy`, used where a program fills arrays that it makes itself.
"""

import dataclasses
import functools
import typing

import numpy as np
import pytest

import adjoint as ad
import adjoint.numpy as anp

PROGRAMS = []


def program(*args, order=2):
    """Enter a function with the arguments at which it is checked."""

    def enter(f):
        PROGRAMS.append(pytest.param(f, args, order, id=f.__name__))
        return f

    return enter


rng = np.random.default_rng(7)
normal = rng.normal


# -- numerical analysis -----------------------------------------------------------------------------------------


@program(0.3, 1.7)
def simpson_integral(a, b):
    n = 20
    h = (b - a) / n
    total = np.exp(-a * a) + np.exp(-b * b)
    for i in range(1, n):
        x = a + i * h
        total += (4 if i % 2 else 2) * np.exp(-x * x)
    return total * h / 3


@program(2.0, 0.5)
def trapezoid_on_a_grid(scale, shift):
    x = np.linspace(0.0, 1.0, 50)
    y = np.sin(scale * x) ** 2 + shift
    return np.sum((y[1:] + y[:-1]) / 2 * np.diff(x))


@program(np.array([1.0, 0.0]), np.array([0.5, 2.0]))
def runge_kutta_pendulum(state, parameters):
    damping, stiffness = parameters

    def rhs(s):
        angle, speed = s
        return np.stack([speed, -damping * speed - stiffness * np.sin(angle)])

    dt = 0.1
    for _ in range(10):
        k1 = rhs(state)
        k2 = rhs(state + dt / 2 * k1)
        k3 = rhs(state + dt / 2 * k2)
        k4 = rhs(state + dt * k3)
        state = state + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return state


@program(np.sin(np.linspace(0, 3, 12)), 0.2)
def heat_equation(initial, alpha):
    u = initial.copy()
    for _ in range(8):
        u[1:-1] += alpha * (u[2:] - 2 * u[1:-1] + u[:-2])
        u[0] = 0.0
        u[-1] = u[-2]
    return u


@program(normal(size=(5, 5)), 0.3)
def jacobi_sweeps(boundary, omega):
    grid = anp.zeros((5, 5))
    grid[0, :], grid[-1, :], grid[:, 0], grid[:, -1] = boundary[0], boundary[-1], boundary[:, 0], boundary[:, -1]
    for _ in range(4):
        new = grid.copy()
        new[1:-1, 1:-1] = (1 - omega) * grid[1:-1, 1:-1] + omega / 4 * (
            grid[:-2, 1:-1] + grid[2:, 1:-1] + grid[1:-1, :-2] + grid[1:-1, 2:]
        )
        grid = new
    return np.sum(grid**2)


@program(7.0)
def newton_square_root(a):
    x = a
    while abs(x * x - a) > 1e-12:
        x = x - (x * x - a) / (2 * x)
    return x - (x * x - a) / (2 * x)


@program(2.0, 3.0)
def bisection_then_polish(a, b):
    lo, hi = 0.0, 10.0
    for _ in range(30):
        mid = (lo + hi) / 2
        if mid**3 + a * mid - b > 0:
            hi = mid
        else:
            lo = mid
    x = (lo + hi) / 2
    for _ in range(3):
        x = x - (x**3 + a * x - b) / (3 * x * x + a)
    return x


@program(normal(size=4) + 3.0, np.array([0.2, 1.3, 2.9]))
def natural_cubic_spline(knot_values, where):
    n = len(knot_values)
    # second derivatives at the knots, by the Thomas algorithm on a unit grid
    lower, diagonal = anp.ones(n), 4 * anp.ones(n)
    right = anp.zeros(n)
    right[1:-1] = 6 * (knot_values[2:] - 2 * knot_values[1:-1] + knot_values[:-2])
    for i in range(2, n - 1):
        w = lower[i] / diagonal[i - 1]
        diagonal[i] -= w
        right[i] -= w * right[i - 1]
    m = anp.zeros(n)
    for i in range(n - 2, 0, -1):
        m[i] = (right[i] - m[i + 1]) / diagonal[i]
    i = np.clip(np.floor(where).astype(int), 0, n - 2)
    t = where - i
    a, b = knot_values[i], knot_values[i + 1]
    return a * (1 - t) + b * t + ((1 - t) ** 3 - (1 - t)) * m[i] / 6 + (t**3 - t) * m[i + 1] / 6


@program(normal(size=(3, 3)) + 4 * np.eye(3), normal(size=3))
def gaussian_elimination(a, b):
    a, b = a.copy(), b.copy()
    n = len(b)
    for k in range(n):
        for i in range(k + 1, n):
            factor = a[i, k] / a[k, k]
            a[i, k:] -= factor * a[k, k:]
            b[i] -= factor * b[k]
    x = anp.zeros(n)
    for i in reversed(range(n)):
        x[i] = (b[i] - a[i, i + 1 :] @ x[i + 1 :]) / a[i, i]
    return x


@program(normal(size=(4, 3)))
def gram_schmidt(vectors):
    basis = []
    for v in vectors.T:
        for q in basis:
            v = v - (q @ v) * q
        basis.append(v / np.sqrt(v @ v))
    return np.stack(basis, axis=1)


# -- statistics and finance -------------------------------------------------------------------------------------


@program(np.array([0.9, 0.3]), normal(size=8))
def kalman_filter(parameters, observations):
    decay, noise = parameters
    mean, variance, loglik = 0.0, 1.0, 0.0
    for y in observations:
        mean, variance = decay * mean, decay**2 * variance + noise**2
        innovation, total = y - mean, variance + 0.5
        gain = variance / total
        loglik -= 0.5 * (np.log(2 * np.pi * total) + innovation**2 / total)
        mean, variance = mean + gain * innovation, (1 - gain) * variance
    return loglik


@program(np.array([0.1, 0.2, 0.7]), normal(size=12))
def garch_likelihood(theta, returns):
    omega, alpha, beta = theta
    variance = np.var(returns)
    total = 0.0
    for r in returns:
        total += np.log(variance) + r**2 / variance
        variance = omega + alpha * r**2 + beta * variance
    return 0.5 * total


@program(normal(size=3), normal(size=(4, 3)))
def hidden_markov_forward(start, emissions):
    transition = np.array([[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.3, 0.3, 0.4]])
    alpha = start + emissions[0]
    for e in emissions[1:]:
        moved = alpha[:, None] + np.log(transition)
        top = np.max(moved, axis=0)
        alpha = top + np.log(np.sum(np.exp(moved - top), axis=0)) + e
    return np.logaddexp.reduce(alpha)


@program(normal(size=(5, 3)), normal(size=(3, 3)))
def viterbi_score(emissions, transition):
    score = emissions[0]
    for e in emissions[1:]:
        score = np.max(score[:, None] + transition, axis=0) + e
    return np.max(score)


@program(np.array([0.3, -0.5]), np.array(0.7))
def mcmc_log_density(theta, log_scale):
    data = np.array([1.2, -0.3, 0.8, 2.2])
    location, slope = theta
    scale = np.exp(log_scale)
    prior = -0.5 * np.sum(theta**2) - 0.5 * log_scale**2
    predicted = location + slope * np.arange(4)
    t = (data - predicted) / scale
    return prior + np.sum(-2.5 * np.log1p(t**2 / 4)) - len(data) * log_scale


def hmc_energy(q):
    return 0.5 * q @ q + 0.1 * np.sum(q**4)


@program(normal(size=3), normal(size=3))
def leapfrog(q, p):
    force = ad.grad(hmc_energy)
    for _ in range(3):
        p = p - 0.05 * force(q)
        q = q + 0.1 * p
        p = p - 0.05 * force(q)
    return hmc_energy(q) + 0.5 * p @ p


def erf(x):
    """Abramowitz and Stegun 7.1.26."""
    sign = np.where(x >= 0, 1.0, -1.0)
    x = np.abs(x)
    t = 1 / (1 + 0.3275911 * x)
    poly = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    return sign * (1 - poly * np.exp(-x * x))


@program(100.0, np.array([90.0, 105.0]), 0.5, 0.02, 0.3)
def black_scholes(spot, strike, expiry, rate, volatility):
    cdf = lambda z: 0.5 * (1 + erf(z / np.sqrt(2)))
    d1 = (np.log(spot / strike) + (rate + volatility**2 / 2) * expiry) / (volatility * np.sqrt(expiry))
    d2 = d1 - volatility * np.sqrt(expiry)
    return spot * cdf(d1) - strike * np.exp(-rate * expiry) * cdf(d2)


@program(100.0, 0.3, order=1)
def american_put_on_a_tree(spot, volatility):
    n, rate, dt = 12, 0.05, 1 / 12
    up = np.exp(volatility * np.sqrt(dt))
    p = (np.exp(rate * dt) - 1 / up) / (up - 1 / up)
    prices = spot * up ** (2 * np.arange(n + 1) - n)
    value = np.maximum(103.0 - prices, 0.0)
    for step in range(n - 1, -1, -1):
        value = np.exp(-rate * dt) * (p * value[1:] + (1 - p) * value[:-1])
        prices = spot * up ** (2 * np.arange(step + 1) - step)
        value = np.maximum(value, 103.0 - prices)
    return value[0]


@program(0.02 * normal(size=10))
def cumulative_returns_and_drawdown(returns):
    wealth = np.cumprod(1 + returns)
    worst = 0.0
    peak = wealth[0]
    for w in wealth:
        if w > peak:
            peak = w
        worst = min(worst, w / peak - 1)
    return wealth[-1] - 1, worst, np.mean(returns) / np.std(returns)


@program(0.1 + rng.uniform(size=4))
def maximum_entropy(weights):
    p = weights / weights.sum()
    return -np.sum(p * np.log(p)), np.einsum("i,j->ij", p, p)


# -- machine learning -------------------------------------------------------------------------------------------

WEIGHTS = {"hidden": {"w": normal(size=(3, 4)), "b": normal(size=4)}, "out": {"w": normal(size=(4, 2)), "b": normal(size=2)}}


@program(WEIGHTS, normal(size=(5, 3)))
def neural_network_with_a_dict(parameters, x):
    h = np.tanh(x @ parameters["hidden"]["w"] + parameters["hidden"]["b"])
    logits = h @ parameters["out"]["w"] + parameters["out"]["b"]
    logits = logits - logits.max(axis=1, keepdims=True)
    logp = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    return -logp[np.arange(5), [0, 1, 1, 0, 1]].mean()


@dataclasses.dataclass
class Model:
    weights: np.ndarray
    bias: float

    def predict(self, x):
        return 1 / (1 + np.exp(-(x @ self.weights + self.bias)))


@program(Model(normal(size=3), 0.2), normal(size=(6, 3)))
def logistic_regression_with_a_dataclass(model, x):
    y = np.array([0, 1, 1, 0, 1, 0])
    p = model.predict(x)
    return -np.mean(y * np.log(p) + (1 - y) * np.log(1 - p)) + 0.01 * np.sum(model.weights**2)


@program(normal(size=(4, 3)), normal(size=(3, 5)), normal(size=(5, 3)) / 2)
def softmax_regression(x, w1, w2):
    z = np.maximum(x @ w1, 0.1 * (x @ w1)) @ w2
    e = np.exp(z - np.max(z, axis=-1, keepdims=True))
    p = e / e.sum(-1, keepdims=True)
    onehot = np.eye(3)[[0, 2, 1, 1]]
    return -(onehot * np.log(p)).sum() / len(x)


@program(normal(size=(3, 4)), normal(size=(4, 4)), normal(size=(4, 4)), normal(size=(4, 4)))
def attention_block(x, wq, wk, wv):
    heads, d = 2, 2
    split = lambda m: (x @ m).reshape(3, heads, d).transpose(1, 0, 2)
    q, k, v = split(wq), split(wk), split(wv)
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(d)
    scores = np.where(np.tril(np.ones((3, 3), bool)), scores, -1e9)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    attended = (e / e.sum(axis=-1, keepdims=True)) @ v
    y = x + attended.transpose(1, 0, 2).reshape(3, 4)
    return (y - y.mean(-1, keepdims=True)) / np.sqrt(y.var(-1, keepdims=True) + 1e-5)


class Cell(typing.NamedTuple):
    w: np.ndarray
    u: np.ndarray


@program(Cell(normal(size=(3, 2)) / 2, normal(size=(3, 3)) / 2), normal(size=(6, 2)))
def recurrent_network(cell, inputs):
    h = np.zeros(3)
    outputs = []
    for x in inputs:
        h = np.tanh(cell.w @ x + cell.u @ h)
        outputs.append(h)
    return np.array(0.0) + np.sum(np.stack(outputs) ** 2)


@program(normal(size=(4, 2)), normal(size=(3, 2)))
def matrix_factorisation(users, items):
    ratings = np.array([[5, np.nan, 1], [4, 2, np.nan], [np.nan, 1, 5], [1, np.nan, 4]])
    known = ~np.isnan(ratings)
    predicted = users @ items.T
    residual = np.where(known, predicted - np.where(known, ratings, 0.0), 0.0)
    return np.sum(residual**2) + 0.1 * (np.sum(users**2) + np.sum(items**2))


@program(normal(size=(6, 2)), normal(size=(3, 2)), 0.8)
def soft_k_means(points, centres, temperature):
    for _ in range(2):
        distance = np.sum((points[:, None, :] - centres[None, :, :]) ** 2, axis=-1)
        weights = np.exp(-distance / temperature)
        weights /= weights.sum(axis=1, keepdims=True)
        centres = weights.T @ points / weights.sum(axis=0)[:, None]
    return centres


@program(normal(size=(4, 2)), 0.7, 0.3)
def gaussian_process_likelihood(x, length, noise):
    y = np.array([0.3, -0.2, 0.5, 1.0])
    square = ((x[:, None] - x[None]) ** 2).sum(-1)
    k = np.exp(-0.5 * square / length**2) + noise**2 * np.eye(4)
    chol = np.linalg.cholesky(k)
    alpha = np.linalg.solve(k, y)
    return -0.5 * y @ alpha - np.sum(np.log(np.diag(chol))) - 2 * np.log(2 * np.pi)


# -- physics, signals, images, graphs ---------------------------------------------------------------------------


@program(normal(size=(4, 3)), rng.uniform(1, 2, 4))
def n_body_energy(positions, masses):
    energy = 0.0
    for i in range(len(positions)):
        for j in range(i):
            d = positions[i] - positions[j]
            energy -= masses[i] * masses[j] / np.sqrt(d @ d + 0.01)
    return energy


@program(normal(size=(4, 4)), 0.7)
def ising_energy_and_free_energy(spins, coupling):
    s = np.tanh(spins)
    neighbours = np.roll(s, 1, axis=0) + np.roll(s, 1, axis=1)
    energy = -coupling * np.sum(s * neighbours)
    entropy = -np.sum((1 + s) / 2 * np.log((1 + s) / 2) + (1 - s) / 2 * np.log((1 - s) / 2))
    return energy - entropy


@program(np.array([0.1, 0.2, -0.3]), np.array([0.5, -0.2, 6.0]), normal(size=(4, 3)), 500.0)
def pinhole_camera(rotation, translation, points, focal):
    angle = np.sqrt(np.sum(rotation**2) + 1e-12)
    x, y, z = rotation / angle
    k = anp.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    r = np.eye(3) + np.sin(angle) * k + (1 - np.cos(angle)) * k @ k
    camera = points @ r.T + translation
    projected = camera[:, :2] / camera[:, 2:]
    radius = np.sum(projected**2, axis=1, keepdims=True)
    return focal * projected * (1 + 0.1 * radius)


@program(normal(size=(5, 6)), np.array([1.3, 2.6, 0.1]), np.array([0.4, 3.7, 4.9]))
def bilinear_interpolation(image, rows, columns):
    r0, c0 = np.floor(rows).astype(int), np.floor(columns).astype(int)
    fr, fc = rows - r0, columns - c0
    return (
        image[r0, c0] * (1 - fr) * (1 - fc)
        + image[r0 + 1, c0] * fr * (1 - fc)
        + image[r0, c0 + 1] * (1 - fr) * fc
        + image[r0 + 1, c0 + 1] * fr * fc
    )


@program(normal(size=9), np.array([0.25, 0.5, 0.25]))
def moving_average(signal, kernel):
    smooth = np.convolve(signal, kernel, mode="valid")
    return np.sum(np.diff(smooth) ** 2)


@program(normal(size=16), 0.3)
def fft_low_pass(signal, cutoff):
    spectrum = np.fft.rfft(signal)
    frequency = np.fft.rfftfreq(16)
    gain = 1 / (1 + (frequency / cutoff) ** 4)
    filtered = np.fft.irfft(spectrum * gain, n=16)
    return filtered, np.abs(spectrum) ** 2


@program(0.1 + rng.uniform(size=(5, 5)), 0.85)
def page_rank(links, damping):
    transition = links / links.sum(axis=0)
    rank = np.ones(5) / 5
    for _ in range(60):
        rank = damping * transition @ rank + (1 - damping) / 5
    return rank


@program(0.3 + 0.2j, 0.1 - 0.05j)
def julia_orbit(z, c):
    steps = 0
    while abs(z) < 2 and steps < 6:
        z = z**2 + c
        steps += 1
    return np.log(np.abs(z)), z


@program(np.array([0.5, 1.5, -0.7]))
def quantum_rotation(angles):
    state = np.array([1.0 + 0j, 0.0])
    for a in angles:
        rotation = anp.array([[np.cos(a), -1j * np.sin(a)], [-1j * np.sin(a), np.cos(a)]])
        state = np.exp(1j * a * np.array([0.5, -0.5])) * (rotation @ state)
    return np.abs(state) ** 2


# -- Python -----------------------------------------------------------------------------------------------------


@program(1.1, 0.7)
def fibonacci_like(a, b):
    def term(n):
        if n == 0:
            return a
        if n == 1:
            return b
        return np.sin(term(n - 1)) + 0.5 * term(n - 2) * a

    return term(7)


@program(np.array([0.5, -2.0, 3.0]))
def early_return(x):
    if np.sum(x) < 0:
        return x**2
    for v in x:
        if v > 2:
            return v * np.exp(-x)
    return np.sin(x)


@program(np.array([3.0, 1.0, 2.0]), [2.0, (0.5, np.array([1.0, 2.0, 3.0]))])
def python_to_the_full(x, nested):
    first, (second, third) = nested
    table = {f"k{i}": v * first for i, v in enumerate(x)}
    largest = max(table.values())
    ordered = sorted(table.values())
    joined = sum(v**2 for v in table.values()) / functools.reduce(lambda a, b: a * b, ordered)
    try:
        assert largest > 0
        scale = abs(second) if isinstance(second, float) or True else None
    finally:
        third = third - ordered[0]
    return {"joined": joined, "largest": largest * scale, "third": tuple(third)}


@program(2.0, 0.5)
def lennard_jones_with_a_cutoff(distance, well):
    if distance > 3.0:
        return 0.0 * distance
    inverse = (1.0 / distance) ** 6
    shift = (1.0 / 3.0) ** 12 - (1.0 / 3.0) ** 6
    return 4 * well * (inverse * inverse - inverse - shift)


@program(normal(size=6))
def insertion_sort_and_median(x):
    values = list(x)
    for i in range(1, len(values)):
        j = i
        while j > 0 and values[j - 1] > values[j]:
            values[j - 1], values[j] = values[j], values[j - 1]
            j -= 1
    return (values[2] + values[3]) / 2 + np.sum(np.sort(x)[:2] ** 2) + np.median(x) ** 2


@program(normal(size=(3, 4)))
def standardise_in_place(data):
    data = data.copy()
    data -= data.mean(axis=0)
    data /= data.std(axis=0)
    data[data < 0] *= 0.1
    view = data[:, 1]
    view[:] = view**2
    return data


@pytest.mark.parametrize("f, args, order", PROGRAMS)
def test_program(f, args, order):
    ad.check_grads(f, *args, order=order)
