"""Programs of `programs.py` as loops over elements, as users of Numba write them: functions, on one thread."""

from __future__ import annotations

import numpy as np


def lorenz(s):
    total = 0.0
    h = 0.01
    for k in range(s.shape[1]):
        x, y, z = s[0, k], s[1, k], s[2, k]
        for _ in range(100):
            ax, ay, az = 10.0 * (y - x), x * (28.0 - z) - y, x * y - 2.5 * z
            u, v, w = x + 0.5 * h * ax, y + 0.5 * h * ay, z + 0.5 * h * az
            bx, by, bz = 10.0 * (v - u), u * (28.0 - w) - v, u * v - 2.5 * w
            u, v, w = x + 0.5 * h * bx, y + 0.5 * h * by, z + 0.5 * h * bz
            cx, cy, cz = 10.0 * (v - u), u * (28.0 - w) - v, u * v - 2.5 * w
            u, v, w = x + h * cx, y + h * cy, z + h * cz
            dx, dy, dz = 10.0 * (v - u), u * (28.0 - w) - v, u * v - 2.5 * w
            x += h / 6 * (ax + 2 * bx + 2 * cx + dx)
            y += h / 6 * (ay + 2 * by + 2 * cy + dy)
            z += h / 6 * (az + 2 * bz + 2 * cz + dz)
        total += x**2 + y**2 + z**2
    return total


def pendulum(s):
    x, v = s[0], s[1]
    h = 0.01
    for _ in range(1000):
        ax, av = v, -9.81 * np.sin(x) - 0.1 * v
        bx, bv = v + 0.5 * h * av, -9.81 * np.sin(x + 0.5 * h * ax) - 0.1 * (v + 0.5 * h * av)
        cx, cv = v + 0.5 * h * bv, -9.81 * np.sin(x + 0.5 * h * bx) - 0.1 * (v + 0.5 * h * bv)
        dx, dv = v + h * cv, -9.81 * np.sin(x + h * cx) - 0.1 * (v + h * cv)
        x, v = x + h / 6 * (ax + 2 * bx + 2 * cx + dx), v + h / 6 * (av + 2 * bv + 2 * cv + dv)
    return x**2 + v**2


def lotka_volterra(p, seen):
    x, y = seen[0, 0], seen[0, 1]
    h, total = 0.05, 0.0
    for t in range(seen.shape[0]):
        ax, ay = p[0] * x - p[1] * x * y, p[2] * x * y - p[3] * y
        u, v = x + 0.5 * h * ax, y + 0.5 * h * ay
        bx, by = p[0] * u - p[1] * u * v, p[2] * u * v - p[3] * v
        u, v = x + 0.5 * h * bx, y + 0.5 * h * by
        cx, cy = p[0] * u - p[1] * u * v, p[2] * u * v - p[3] * v
        u, v = x + h * cx, y + h * cy
        dx, dy = p[0] * u - p[1] * u * v, p[2] * u * v - p[3] * v
        x, y = x + h / 6 * (ax + 2 * bx + 2 * cx + dx), y + h / 6 * (ay + 2 * by + 2 * cy + dy)
        total += (x - seen[t, 0]) ** 2 + (y - seen[t, 1]) ** 2
    return total


def wave(u):
    before, now, after = u.copy(), u.copy(), u.copy()
    for _ in range(200):
        for i in range(1, u.size - 1):
            after[i] = 2 * now[i] - before[i] + 0.25 * (now[i + 1] - 2 * now[i] + now[i - 1])
        after[0], after[-1] = now[0], now[-1]
        before, now, after = now, after, before
    return np.sum(now**2)


def heat_by_rolling(u):
    now, after = u.copy(), u.copy()
    n, m = u.shape
    for _ in range(50):
        for i in range(n):
            up, down = (i - 1) % n, (i + 1) % n
            for j in range(m):
                around = now[up, j] + now[down, j] + now[i, (j - 1) % m] + now[i, (j + 1) % m]
                after[i, j] = now[i, j] + 0.1 * (around - 4.0 * now[i, j])
        now, after = after, now
    return np.sum(now**2)


def gauss_seidel(f):
    u = 0.0 * f
    for _ in range(10):
        for i in range(1, 11):
            for j in range(1, 11):
                u[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - f[i, j])
    return np.sum(u**2)


def n_body(x, v):
    x, v = x.copy(), v.copy()
    n = x.shape[0]
    for _ in range(20):
        for i in range(n):
            fx, fy, fz = 0.0, 0.0, 0.0
            for j in range(n):
                dx, dy, dz = x[i, 0] - x[j, 0], x[i, 1] - x[j, 1], x[i, 2] - x[j, 2]
                cube = (dx * dx + dy * dy + dz * dz + 0.1) ** 1.5
                fx, fy, fz = fx + dx / cube, fy + dy / cube, fz + dz / cube
            v[i, 0] -= 0.001 * fx
            v[i, 1] -= 0.001 * fy
            v[i, 2] -= 0.001 * fz
        x += 0.001 * v
    return np.sum(v**2)


def ray_marching(centre, pixels):
    total = 0.0
    for k in range(pixels.shape[0]):
        x, y, t = 0.3 * pixels[k, 0], 0.3 * pixels[k, 1], 0.0
        length = np.sqrt(x**2 + y**2 + 1.0)
        for _ in range(32):
            px, py, pz = x / length * t, y / length * t, t / length
            sphere = np.sqrt((px - centre[0]) ** 2 + (py - centre[1]) ** 2 + (pz - centre[2] - 4.0) ** 2) - 1.0
            t += min(sphere, py + 2.0)
        total += t**2
    return total / pixels.shape[0]


def hidden_markov(transition, emission, start):
    n = start.size
    alpha, after, total = start * emission[:, 0], np.empty(n), 0.0
    for t in range(1, 100):
        scale = np.sum(alpha)
        seen = (7 * t * t + t // 3) % 4
        for j in range(n):
            found = 0.0
            for i in range(n):
                found += alpha[i] / scale * transition[i, j]
            after[j] = found * emission[j, seen]
        alpha, after = after, alpha
        total += np.log(scale)
    return total + np.log(np.sum(alpha))


def viterbi(transition, scores):
    n = scores.shape[1]
    best, after = scores[0].copy(), np.empty(n)
    for t in range(1, scores.shape[0]):
        for j in range(n):
            top = -np.inf
            for i in range(n):
                top = max(top, best[i] + transition[i, j])
            after[j] = top + scores[t, j]
        best, after = after, best
    return np.max(best)


def arma(p, seen):
    p = 0.3 * np.tanh(p)
    y1, y2, e1, e2, total = 0.0, 0.0, 0.0, 0.0, 0.0
    for y in seen:
        e = y - p[0] * y1 - p[1] * y2 - p[2] * e1 - p[3] * e2
        y1, y2, e1, e2 = y, y1, e, e1
        total += e**2
    return total


def garch(p, returns):
    variance, total = 0.1 * p[0] + 0.5, 0.0
    for r in returns:
        total += np.log(variance) + r**2 / variance
        variance = 0.1 * p[0] + 0.1 * p[1] * r**2 + 0.8 * p[2] * variance
    return total


def mixture(weights, means, x):
    total, terms = 0.0, np.empty(weights.size)
    for i in range(x.shape[0]):
        for k in range(weights.size):
            apart = 0.0
            for j in range(x.shape[1]):
                apart += (x[i, j] - means[k, j]) ** 2
            terms[k] = weights[k] - 0.5 * apart
        top, inside = np.max(terms), 0.0
        for k in range(weights.size):
            inside += np.exp(terms[k] - top)
        total += np.log(inside) + top
    return total


def heston(dw, dv):
    total = 0.0
    price, v = np.zeros(dw.shape[1]), np.full(dw.shape[1], 0.04)
    for t in range(dw.shape[0]):
        for k in range(dw.shape[1]):
            root = np.sqrt(max(v[k], 1e-12) / 64)
            price[k] += -0.5 * v[k] / 64 + root * dw[t, k]
            v[k] += 2.0 * (0.04 - v[k]) / 64 + 0.3 * root * (0.6 * dw[t, k] + 0.8 * dv[t, k])
    for k in range(dw.shape[1]):
        total += max(np.exp(price[k]) - 1.0, 0.0)
    return total / dw.shape[1]


def black_scholes(p):
    total = 0.0
    for k in range(p.shape[1]):
        spot, strike, time, rate, sigma = p[0, k], p[1, k], p[2, k], 0.1 * p[3, k], p[4, k]
        root = sigma * np.sqrt(time)
        d = (np.log(spot / strike) + (rate + 0.5 * sigma**2) * time) / root
        low = strike * np.exp(-rate * time) / (1 + np.exp(-1.702 * (d - root)))
        total += spot / (1 + np.exp(-1.702 * d)) - low
    return total


def american_put(p):
    up = np.exp(0.1 * p[0])
    chance, discount = (np.exp(0.001) - 1 / up) / (up - 1 / up), np.exp(-0.001)
    values = np.empty(101)
    for i in range(101):
        values[i] = max(p[1] - up ** (2.0 * i - 100.0), 0.0)
    for n in range(100, 0, -1):
        for i in range(n):
            held = discount * (chance * values[i + 1] + (1 - chance) * values[i])
            values[i] = max(held, p[1] - up ** (2.0 * i - (n - 1.0)))
    return values[0]


def soft_dtw(a, b):
    n = a.size
    table = np.full((n + 1, n + 1), 1e6)
    table[0, 0] = 0.0
    for i in range(1, n + 1):
        for j in range(1, n + 1):
            x, y, z = table[i - 1, j], table[i, j - 1], table[i - 1, j - 1]
            low = min(min(x, y), z)
            soft = low - np.log(np.exp(low - x) + np.exp(low - y) + np.exp(low - z))
            table[i, j] = (a[i - 1] - b[j - 1]) ** 2 + soft
    return table[n, n]


def cholesky_by_hand(a):
    a = a @ a.T + 12 * np.eye(12)
    l = np.zeros((12, 12))  # noqa: E741
    for j in range(12):
        s = a[j, j]
        for k in range(j):
            s -= l[j, k] ** 2
        l[j, j] = np.sqrt(s)
        for i in range(j + 1, 12):
            s = a[i, j]
            for k in range(j):
                s -= l[i, k] * l[j, k]
            l[i, j] = s / l[j, j]
    return np.sum(l**3)


def recurrence(x):
    b = np.zeros(500)
    for i in range(1, 500):
        b[i] = np.sin(b[i - 1]) + x[i]
    return np.sum(b**2)


def newton(a):
    total = 0.0
    for start in a:
        x = start
        for _ in range(20):
            x -= (x**5 + x - start) / (5 * x**4 + 1)
        total += x**2
    return total


def sines(x):
    total = 0.0
    for start in x:
        s = start
        for _ in range(100):
            s = np.sin(s)
        total += s
    return total
