"""Programs as people write them, for `realistic.py`: each is one function of a namespace and arrays.

The namespace `np` is NumPy's or a peer's. It has three more functions, since peers have no loops or writes of Python's:

    np.loop(step, carry, xs)     for x in xs: carry, y = step(carry, x); the last carry and all ys.   JAX: lax.scan
    np.put(a, at, v)             a[at] = v; return a                                                  JAX: a.at[at].set(v)
    np.add_at(a, at, v)          numpy.add.at(a, at, v); return a                                     JAX: a.at[at].add(v)
"""

from __future__ import annotations

import numpy

PROGRAMS = {}


def program(*shapes, positive=False):
    """Register a program, with the shapes of its arguments. The gradient is taken by the first."""

    def register(f):
        PROGRAMS[f.__name__] = f, shapes, positive
        return f

    return register


def arguments(name):
    """The arguments of a program, the same in every run."""
    _, shapes, positive = PROGRAMS[name]
    rng = numpy.random.default_rng(0)
    return [rng.random(shape) + 0.1 if positive else rng.normal(size=shape) for shape in shapes]


def runge_kutta(slope, state, h):
    """A step of the classical method; the state is a tuple."""
    moved = lambda k, by: tuple(v + by * w for v, w in zip(state, k, strict=True))
    a = slope(*state)
    b = slope(*moved(a, 0.5 * h))
    c = slope(*moved(b, 0.5 * h))
    d = slope(*moved(c, h))
    return tuple(v + h / 6 * (p + 2 * q + 2 * r + w) for v, p, q, r, w in zip(state, a, b, c, d, strict=True))


# -- differential equations -------------------------------------------------------------------------------------


@program((3, 10_000))
def lorenz(np, s):
    """100 Runge-Kutta steps of many trajectories."""
    slope = lambda x, y, z: (10.0 * (y - x), x * (28.0 - z) - y, x * y - 2.5 * z)
    (x, y, z), _ = np.loop(lambda state, _: (runge_kutta(slope, state, 0.01), None), (s[0], s[1], s[2]), np.arange(100))
    return np.sum(x**2 + y**2 + z**2)


@program((3,), (4000, 3), positive=True)
def fitted_trajectories(np, p, s):
    """100 Euler steps of many trajectories in rows, by the parameters that they share."""

    def step(s, _):
        x, y, z = s[:, :1], s[:, 1:2], s[:, 2:]
        slope = np.concatenate([10 * p[0] * (y - x), x * (28 * p[1] - z) - y, x * y - 2.5 * p[2] * z], axis=1)
        return s + 0.01 * slope, None

    return np.sum(np.loop(step, s, np.arange(100))[0] ** 2)


@program((2,))
def pendulum(np, s):
    """1,000 steps of a damped pendulum: one number at a time."""
    slope = lambda angle, speed: (speed, -9.81 * np.sin(angle) - 0.1 * speed)
    (angle, speed), _ = np.loop(lambda state, _: (runge_kutta(slope, state, 0.01), None), (s[0], s[1]), np.arange(1000))
    return angle**2 + speed**2


@program((4,), (200, 2), positive=True)
def lotka_volterra(np, p, seen):
    """The squared distance of a trajectory from observations."""

    def step(state, row):
        x, y = runge_kutta(lambda x, y: (p[0] * x - p[1] * x * y, p[2] * x * y - p[3] * y), state, 0.05)
        return (x, y), (x - row[0]) ** 2 + (y - row[1]) ** 2

    return np.sum(np.loop(step, (seen[0, 0], seen[0, 1]), seen)[1])


@program((100, 4), (12,))
def quadrotor(np, thrusts, start):
    """The cost of a flight: position, speed, angles and rates under 100 controls."""

    def step(state, u):
        lift, torque = 9.81 + 0.1 * np.sum(u), 0.1 * u[:3]
        roll, pitch, yaw = state[6], state[7], state[8]
        up = np.stack(
            [
                np.cos(roll) * np.sin(pitch) * np.cos(yaw) + np.sin(roll) * np.sin(yaw),
                np.cos(roll) * np.sin(pitch) * np.sin(yaw) - np.sin(roll) * np.cos(yaw),
                np.cos(roll) * np.cos(pitch),
            ]
        )
        speed = state[3:6] + 0.02 * (lift * up - np.array([0.0, 0.0, 9.81]))
        rates = state[9:] + 0.02 * torque
        moved = np.concatenate([state[:3] + 0.02 * speed, speed, state[6:9] + 0.02 * rates, rates])
        return moved, np.sum(moved[:3] ** 2) + 0.1 * np.sum(u**2)

    return np.sum(np.loop(step, 0.1 * start, thrusts)[1])


@program((2, 16), (16, 2), (64, 2))
def neural_ode(np, w, v, x):
    """50 Euler steps of a small network, for a batch."""
    x, _ = np.loop(lambda x, _: (x + 0.05 * np.tanh(x @ w) @ v, None), x, np.arange(50))
    return np.sum(x**2)


@program((400,))
def wave(np, u):
    def step(state, _):
        before, now = state
        inside = now[2:] - 2 * now[1:-1] + now[:-2]
        return (now, np.concatenate([now[:1], 2 * now[1:-1] - before[1:-1] + 0.25 * inside, now[-1:]])), None

    return np.sum(np.loop(step, (u, u), np.arange(200))[0][1] ** 2)


@program((64, 64))
def heat_by_rolling(np, u):
    def step(u, _):
        around = np.roll(u, 1, 0) + np.roll(u, -1, 0) + np.roll(u, 1, 1) + np.roll(u, -1, 1)
        return u + 0.1 * (around - 4.0 * u), None

    return np.sum(np.loop(step, u, np.arange(50))[0] ** 2)


@program((48, 48))
def shallow_water(np, h):
    """Height and two speeds on a torus."""
    slope = lambda a, axis: 0.5 * (np.roll(a, -1, axis) - np.roll(a, 1, axis))

    def step(state, _):
        h, u, v = state
        u, v = u - 0.01 * slope(h, 0), v - 0.01 * slope(h, 1)
        return (h - 0.01 * (slope((1 + h) * u, 0) + slope((1 + h) * v, 1)), u, v), None

    (h, u, v), _ = np.loop(step, (0.1 * h, 0 * h, 0 * h), np.arange(50))
    return np.sum(h**2 + u**2 + v**2)


@program((256,))
def spectral(np, u):
    """Burgers' equation by Fourier transforms."""
    k = 1j * np.arange(129)

    def step(u, _):
        return u - 0.0001 * u * np.fft.irfft(k * np.fft.rfft(u), 256), None

    return np.sum(np.loop(step, u, np.arange(50))[0] ** 2)


@program((12, 12))
def gauss_seidel(np, f):
    """10 sweeps, in place."""
    u = 0.0 * f
    for _ in range(10):
        for i in range(1, 11):
            for j in range(1, 11):
                u = np.put(u, (i, j), 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - f[i, j]))
    return np.sum(u**2)


# -- particles and mechanisms -----------------------------------------------------------------------------------


@program((60, 3), (60, 3))
def n_body(np, x, v):
    """20 leapfrog steps."""

    def step(state, _):
        x, v = state
        apart = x[:, None, :] - x[None, :, :]
        force = np.sum(apart / (np.sum(apart**2, axis=-1, keepdims=True) + 0.1) ** 1.5, axis=1)
        v = v - 0.001 * force
        return (x + 0.001 * v, v), None

    return np.sum(np.loop(step, (x, v), np.arange(20))[0][1] ** 2)


@program((1000, 7))
def kinematics(np, angles):
    """The distance of a hand from a place, for many positions of seven joints."""
    x, y, heading = 0.0 * angles[:, 0], 0.0 * angles[:, 0], 0.0 * angles[:, 0]
    for joint in range(7):
        heading = heading + angles[:, joint]
        x, y = x + np.cos(heading) / (joint + 1), y + np.sin(heading) / (joint + 1)
    return np.sum((x - 1.0) ** 2 + (y - 0.5) ** 2)


@program((500, 11), (500, 3))
def reprojection(np, cameras, points):
    """A point, rotated, moved and distorted, as a camera sees it."""
    angle = np.sqrt(np.sum(cameras[:, :3] ** 2, axis=1, keepdims=True) + 1e-12)
    axis = cameras[:, :3] / angle
    turned = (
        points * np.cos(angle)
        + np.cross(axis, points) * np.sin(angle)
        + axis * np.sum(axis * points, axis=1, keepdims=True) * (1 - np.cos(angle))
    )
    moved = turned + cameras[:, 3:6] + 5.0
    flat = moved[:, :2] / moved[:, 2:]
    square = np.sum(flat**2, axis=1, keepdims=True)
    seen = cameras[:, 6:7] * flat * (1 + cameras[:, 9:10] * square + cameras[:, 10:11] * square**2) + cameras[:, 7:9]
    return np.sum(seen**2)


@program((3,), (10_000, 2))
def ray_marching(np, centre, pixels):
    """32 steps of light rays towards a sphere on a floor."""
    x, y = 0.3 * pixels[:, 0], 0.3 * pixels[:, 1]
    length = np.sqrt(x**2 + y**2 + 1.0)

    def step(t, _):
        px, py, pz = x / length * t, y / length * t, t / length
        sphere = np.sqrt((px - centre[0]) ** 2 + (py - centre[1]) ** 2 + (pz - centre[2] - 4.0) ** 2) - 1.0
        return t + np.minimum(sphere, py + 2.0), None

    return np.mean(np.loop(step, 0.0 * x, np.arange(32))[0] ** 2)


@program((30,), (30,), positive=True)
def finite_elements(np, stiffness, load):
    """A bar of 30 elements: the matrix is assembled, fixed at one end, and solved."""
    left, right = np.arange(30), np.arange(1, 31)
    matrix = np.zeros((31, 31))
    matrix = np.add_at(matrix, (left, left), stiffness)
    matrix = np.add_at(matrix, (right, right), stiffness)
    matrix = np.add_at(matrix, (left, right), -stiffness)
    matrix = np.add_at(matrix, (right, left), -stiffness)
    return np.sum(np.linalg.solve(matrix[1:, 1:], load) ** 2)


# -- probability and time series --------------------------------------------------------------------------------


@program((8, 8), (8, 4), (8,), positive=True)
def hidden_markov(np, transition, emission, start):
    """The likelihood of 100 observations, by the forward pass."""
    seen = numpy.array([(7 * t * t + t // 3) % 4 for t in range(100)])

    def step(state, t):
        alpha, total = state
        scale = np.sum(alpha)
        return ((alpha / scale) @ transition * emission[:, t], total + np.log(scale)), None

    (alpha, total), _ = np.loop(step, (start * emission[:, seen[0]], 0.0), np.asarray(seen[1:]))
    return total + np.log(np.sum(alpha))


@program((16, 16), (100, 16))
def viterbi(np, transition, scores):
    """The score of the best path."""
    best, _ = np.loop(lambda best, row: (np.max(best[:, None] + transition, axis=0) + row, None), scores[0], scores[1:])
    return np.max(best)


@program((4, 4), (100, 4))
def kalman(np, a, seen):
    """The log-likelihood of observations of a state that moves by a."""
    move = 0.3 * a

    def step(state, row):
        mean, spread, total = state
        mean, spread = move @ mean, move @ spread @ move.T + 0.1 * np.eye(4)
        total_spread = spread + 0.5 * np.eye(4)
        off = row - mean
        gain = np.linalg.solve(total_spread, spread).T
        total = total - 0.5 * off @ np.linalg.solve(total_spread, off)
        return (mean + gain @ off, spread - gain @ spread, total), None

    return np.loop(step, (0.0 * seen[0], 1.0 * np.eye(4), 0.0), seen)[0][2]


@program((4,), (500,))
def arma(np, p, seen):
    """The squared innovations of an ARMA(2, 2) model, one number at a time."""
    p = 0.3 * np.tanh(p)

    def step(state, y):
        y1, y2, e1, e2 = state
        e = y - p[0] * y1 - p[1] * y2 - p[2] * e1 - p[3] * e2
        return (y, y1, e, e1), e**2

    zero = 0.0 * seen[0]
    return np.sum(np.loop(step, (zero, zero, zero, zero), seen)[1])


@program((3,), (1000,), positive=True)
def garch(np, p, returns):
    """The likelihood of a GARCH(1, 1) model."""

    def step(variance, r):
        following = 0.1 * p[0] + 0.1 * p[1] * r**2 + 0.8 * p[2] * variance
        return following, np.log(variance) + r**2 / variance

    return np.sum(np.loop(step, 0.1 * p[0] + 0.5, returns)[1])


@program((25,), (25, 4), (2000, 4))
def mixture(np, weights, means, x):
    apart = x[:, None, :] - means
    terms = weights - 0.5 * np.sum(apart**2, axis=-1)
    top = np.max(terms, axis=1, keepdims=True)
    return np.sum(np.log(np.sum(np.exp(terms - top), axis=1)) + top[:, 0])


@program((4,), (150, 4), (150,))
def gaussian_process(np, scales, x, y):
    z = x * np.exp(0.1 * scales)
    apart = np.sum(z**2, axis=1)[:, None] + np.sum(z**2, axis=1) - 2.0 * z @ z.T
    factor = np.linalg.cholesky(np.exp(-0.5 * apart) + 0.1 * np.eye(150))
    solved = np.linalg.solve(factor, y)
    return 0.5 * np.sum(solved**2) + np.sum(np.log(np.diagonal(factor)))


@program((40, 40))
def mean_field(np, couplings):
    """100 iterations of a fixed point."""
    m, _ = np.loop(lambda m, _: (np.tanh(0.1 * (couplings @ m) + 0.1), None), np.ones(40) * 0.5, np.arange(100))
    return np.sum(m**2)


# -- finance ----------------------------------------------------------------------------------------------------


@program((64, 10_000), (64, 10_000))
def heston(np, dw, dv):
    """The mean payoff of a call, with stochastic volatility."""

    def step(state, rows):
        (price, v), (a, b) = state, rows
        root = np.sqrt(np.maximum(v, 1e-12) / 64)
        return (price - 0.5 * v / 64 + root * a, v + 2.0 * (0.04 - v) / 64 + 0.3 * root * (0.6 * a + 0.8 * b)), None

    (price, _), _ = np.loop(step, (0.0 * dw[0], 0.04 + 0.0 * dw[0]), (dw, dv))
    return np.mean(np.maximum(np.exp(price) - 1.0, 0.0))


@program((3,), (64, 10_000), positive=True)
def calibration(np, p, dw):
    """The mean payoff of a call, by the parameters of its volatility."""

    def step(state, a):
        price, v = state
        root = np.sqrt(np.maximum(v, 1e-12) / 64)
        return (price - 0.5 * v / 64 + root * a, v + 2.0 * p[0] * (0.04 * p[1] - v) / 64 + 0.3 * p[2] * root * a), None

    (price, _), _ = np.loop(step, (0.0 * dw[0], 0.04 * p[1] + 0.0 * dw[0]), dw - 0.6)
    return np.mean(np.maximum(np.exp(price) - 1.0, 0.0))


@program((5, 100_000), positive=True)
def black_scholes(np, p):
    spot, strike, time, rate, sigma = p[0], p[1], p[2], 0.1 * p[3], p[4]
    root = sigma * np.sqrt(time)
    d = (np.log(spot / strike) + (rate + 0.5 * sigma**2) * time) / root
    cdf = lambda z: 1 / (1 + np.exp(-1.702 * z))
    return np.sum(spot * cdf(d) - strike * np.exp(-rate * time) * cdf(d - root))


@program((2000, 100))
def asian_option(np, draws):
    """The mean of paths, by cumulative sums."""
    paths = np.exp(np.cumsum(0.02 * draws - 0.0002, axis=1))
    return np.mean(np.maximum(np.mean(paths, axis=1) - 1.0, 0.0))


@program((500, 40), positive=True)
def discount_curve(np, rates):
    factors = np.cumprod(1.0 / (1.0 + 0.05 * rates), axis=1)
    return np.sum((0.5 * np.sum(factors, axis=1) + factors[:, -1] - 1.0) ** 2)


@program((2,), positive=True)
def american_put(np, p):
    """A binomial tree of 100 steps, whose levels shrink."""
    up = np.exp(0.1 * p[0])
    chance = (np.exp(0.001) - 1 / up) / (up - 1 / up)
    values = np.maximum(p[1] - up ** (2.0 * np.arange(101) - 100.0), 0.0)
    for n in range(100, 0, -1):
        values = np.exp(-0.001) * (chance * values[1:] + (1 - chance) * values[:-1])
        values = np.maximum(values, p[1] - up ** (2.0 * np.arange(n) - (n - 1.0)))
    return values[0]


# -- learning ---------------------------------------------------------------------------------------------------


@program((3, 3, 4, 8), (16, 20, 20, 4))
def convolution(np, w, images):
    """A layer of a convolutional network, with its maximum over squares."""
    y = sum(images[:, i : i + 18, j : j + 18] @ w[i, j] for i in range(3) for j in range(3))
    y = np.maximum(y, 0.0).reshape(16, 9, 2, 9, 2, 8)
    return np.sum(np.max(np.max(y, axis=4), axis=2) ** 2)


@program((32, 96), (4, 40, 32), (32, 64), (64, 32))
def transformer_block(np, w, x, up, down):
    q, k, v = (np.swapaxes((0.2 * (x @ w[:, i * 32 : i * 32 + 32])).reshape(4, 40, 4, 8), 1, 2) for i in range(3))
    scores = q @ np.swapaxes(k, -1, -2) / 8**0.5
    scores = np.exp(scores - np.max(scores, axis=-1, keepdims=True))
    heads = np.swapaxes(scores / np.sum(scores, axis=-1, keepdims=True) @ v, 1, 2).reshape(4, 40, 32)
    y = x + heads
    y = (y - np.mean(y, axis=-1, keepdims=True)) / np.sqrt(np.var(y, axis=-1, keepdims=True) + 1e-5)
    return np.sum((y + np.maximum(0.2 * y @ up, 0.0) @ (0.2 * down)) ** 2)


@program((48, 64), (16, 64), (50, 8, 16))
def lstm(np, w, u, xs):
    w, u = 0.1 * w, 0.1 * u
    expit = lambda z: 1 / (1 + np.exp(-z))

    def step(state, x):
        h, c = state
        z = np.concatenate([h, x, x], axis=1) @ w + x @ u
        c = expit(z[:, :16]) * c + expit(z[:, 16:32]) * np.tanh(z[:, 32:48])
        return (expit(z[:, 48:]) * np.tanh(c), c), None

    zero = np.zeros((8, 16))
    return np.sum(np.loop(step, (zero, zero), xs)[0][0] ** 2)


@program((20, 40), (40, 1), (500, 20))
def pinn(np, w, v, x):
    """The residual of a Laplace equation: the second derivatives of a network by its inputs, written out."""
    h = np.tanh(0.2 * (x @ w))
    slope = 1 - h**2
    laplacian = (-2 * h * slope) @ (v * 0.04 * np.sum(w**2, axis=0)[:, None])
    return np.mean((laplacian + h @ v) ** 2)


@program((20, 10), (1000, 20))
def minibatch(np, w, x):
    """A softmax regression on rows that are drawn."""
    rows = numpy.random.default_rng(1).integers(0, 1000, 64)
    scores = x[rows] @ w
    top = scores - np.max(scores, axis=1, keepdims=True)
    return np.mean(np.log(np.sum(np.exp(top), axis=1)) - top[np.arange(64), rows % 10])


@program((100, 8), (80, 8))
def factorisation(np, a, b):
    known = (numpy.arange(8000).reshape(100, 80) * 7919) % 3 == 0
    return np.sum(np.where(known, (a @ b.T - 1.0) ** 2, 0.0)) + 0.1 * np.sum(a**2)


# -- tables and numerics ----------------------------------------------------------------------------------------


@program((50, 50), (50,), (50,), positive=True)
def sinkhorn(np, cost, a, b):
    kernel = np.exp(-cost / 0.5)

    def step(u, _):
        return a / (kernel @ (b / (kernel.T @ u))), None

    u, _ = np.loop(step, 1.0 + 0.0 * a, np.arange(50))
    return np.sum(u[:, None] * kernel * (b / (kernel.T @ u))[None, :] * cost)


@program((30,), (30,))
def soft_dtw(np, a, b):
    """The soft distance of two series, over a table that is filled in place."""
    cost = (a[:, None] - b) ** 2
    table = np.zeros((31, 31)) + 1e6
    table = np.put(table, (0, 0), 0.0)
    for i in range(1, 31):
        for j in range(1, 31):
            x, y, z = table[i - 1, j], table[i, j - 1], table[i - 1, j - 1]
            low = np.minimum(np.minimum(x, y), z)
            soft = low - np.log(np.exp(low - x) + np.exp(low - y) + np.exp(low - z))
            table = np.put(table, (i, j), cost[i - 1, j - 1] + soft)
    return table[30, 30]


@program((12, 12))
def cholesky_by_hand(np, a):
    a = a @ a.T + 12 * np.eye(12)
    l = np.zeros((12, 12))  # noqa: E741
    for j in range(12):
        l = np.put(l, (j, j), np.sqrt(a[j, j] - np.sum(l[j, :j] ** 2)))  # noqa: E741
        for i in range(j + 1, 12):
            l = np.put(l, (i, j), (a[i, j] - np.sum(l[i, :j] * l[j, :j])) / l[j, j])  # noqa: E741
    return np.sum(l**3)


@program((500,))
def recurrence(np, x):
    """b[i] = g(b[i - 1]), in place."""
    b = np.zeros(500)
    for i in range(1, 500):
        b = np.put(b, i, np.sin(b[i - 1]) + x[i])
    return np.sum(b**2)


@program((64,), (2000,), positive=True)
def spline(np, heights, x):
    """Cubic interpolation at places that are searched for."""
    grid = numpy.linspace(0.0, 1.2, 64)
    i = np.clip(np.searchsorted(np.asarray(grid), x) - 1, 1, 61)
    t = (x - np.asarray(grid)[i]) / grid[1]
    a, b, c, d = heights[i - 1], heights[i], heights[i + 1], heights[i + 2]
    return np.sum(b + 0.5 * t * (c - a + t * (2 * a - 5 * b + 4 * c - d + t * (3 * (b - c) + d - a))))


@program((50,), (50,), (40,), positive=True)
def ladder(np, inductances, capacities, frequencies):
    """The impedance of 50 sections, for some frequencies."""

    def step(z, section):
        inductance, capacity = section
        parallel = 1j * frequencies * capacity + 1.0 / z
        return 1j * frequencies * inductance + 1.0 / parallel, None

    z, _ = np.loop(step, 1.0 + 0j * frequencies, (inductances, capacities))
    return np.sum(np.abs(z) ** 2)


@program((1000, 5, 5))
def determinants(np, a):
    return np.sum(np.linalg.slogdet(a + 4 * np.eye(5))[1])


@program((200,), positive=True)
def newton(np, a):
    """Roots of x**5 + x = a, by 20 steps each."""
    x, _ = np.loop(lambda x, _: (x - (x**5 + x - a) / (5 * x**4 + 1), None), a, np.arange(20))
    return np.sum(x**2)


@program((10_000,))
def sines(np, x):
    return np.sum(np.loop(lambda x, _: (np.sin(x), None), x, np.arange(100))[0])
