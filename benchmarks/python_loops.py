"""Loops as people write them in Python: triangular nests, slices that grow and shrink, zip and reversed, branches on the counter.

    python benchmarks/python_loops.py [names…] [--sizes 20,60,200,1000] [--most 60]

For each program and size: processor time of the first call of the compiled gradient, a call of the compiled function and of the
gradient, a call of the function in NumPy, and how many equations are left after rolling. A program whose loops have more than
300,000 iterations at a size is left out there; --most is how many seconds a first call may take.
"""

from __future__ import annotations

import argparse
import os
import signal
import time
import warnings
from collections.abc import Callable
from typing import Any

os.environ.setdefault("ADJOINT_CACHE_DIR", "")  # nothing from disk

import numpy as np

import adjoint as ad
import adjoint.numpy as anp

PROGRAMS: dict[str, tuple[Callable[..., Any], Callable[[int], tuple[Any, ...]], int]] = {}


def program(arguments: Callable[[int], tuple[Any, ...]], order: int = 1) -> Callable[[Any], Any]:
    """Adds a function to the table, with its arguments for a size n; its iterations are of order n to the power `order`."""

    def add(f: Any) -> Any:
        PROGRAMS[f.__name__] = f, arguments, order
        return f

    return add


def vector(n: int) -> tuple[Any, ...]:
    return (np.random.default_rng(n).uniform(0.2, 1.0, n),)


def two_vectors(n: int) -> tuple[Any, ...]:
    return tuple(np.random.default_rng(n).uniform(0.2, 1.0, (2, n)))


def square(n: int) -> tuple[Any, ...]:
    return (np.random.default_rng(n).uniform(0.0, 1.0, (n, n)) + n * np.eye(n),)


def definite(n: int) -> tuple[Any, ...]:
    a = np.random.default_rng(n).uniform(-1.0, 1.0, (n, n))
    return (a @ a.T + n * np.eye(n),)


def system(n: int) -> tuple[Any, ...]:
    return *square(n), *vector(n)


def scalars(n: int) -> tuple[Any, ...]:
    return 1.03, n


# -- triangular nests -----------------------------------------------------------------------------------------------


@program(vector, 2)
def triangle(x):
    s = 0.0
    for i in range(len(x)):
        for j in range(i):
            s = s + np.sin(x[i] * x[j])
    return s


@program(vector, 2)
def pair_distances(x):
    s = 0.0
    for i in range(len(x)):
        for j in range(i + 1, len(x)):
            d = x[i] - x[j]
            s = s + 1.0 / (d * d + 0.1)
    return s


@program(definite, 3)
def cholesky(a):
    n = len(a)
    l = anp.zeros((n, n))  # noqa: E741
    for j in range(n):
        s = a[j, j]
        for k in range(j):
            s = s - l[j, k] ** 2
        l[j, j] = np.sqrt(s)
        for i in range(j + 1, n):
            s = a[i, j]
            for k in range(j):
                s = s - l[i, k] * l[j, k]
            l[i, j] = s / l[j, j]
    return np.sum(l * l * np.arange(1, n + 1))


@program(definite, 2)
def cholesky_by_rows(a):
    n = len(a)
    l = anp.zeros((n, n))  # noqa: E741
    for i in range(n):
        for j in range(i + 1):
            s = a[i, j] - l[i, :j] @ l[j, :j]
            l[i, j] = np.sqrt(s) if i == j else s / l[j, j]
    return np.sum(l)


@program(system, 2)
def forward_substitution(a, b):
    x = anp.zeros(len(b))
    for i in range(len(b)):
        s = b[i]
        for j in range(i):
            s = s - a[i, j] * x[j]
        x[i] = s / a[i, i]
    return np.sum(x * x)


@program(system, 1)
def substitution_by_dots(a, b):
    x = anp.zeros(len(b))
    for i in range(len(b)):
        x[i] = (b[i] - a[i, :i] @ x[:i]) / a[i, i]
    return np.sum(x * x)


@program(system, 2)
def back_substitution(a, b):
    n = len(b)
    x = anp.zeros(n)
    for i in range(n - 1, -1, -1):
        s = b[i]
        for j in range(i + 1, n):
            s = s - a[i, j] * x[j]
        x[i] = s / a[i, i]
    return np.sum(x * x)


@program(square, 2)
def lu_by_rows(a):
    a = anp.array(a)
    n = len(a)
    for k in range(n):
        for i in range(k + 1, n):
            a[i, k] = a[i, k] / a[k, k]
            a[i, k + 1 :] = a[i, k + 1 :] - a[i, k] * a[k, k + 1 :]
    return np.sum(np.log(np.abs(np.diag(a))))


@program(square, 1)
def lu_by_outer_products(a):
    a = anp.array(a)
    n = len(a)
    for k in range(n - 1):
        a[k + 1 :, k] = a[k + 1 :, k] / a[k, k]
        a[k + 1 :, k + 1 :] = a[k + 1 :, k + 1 :] - np.outer(a[k + 1 :, k], a[k, k + 1 :])
    return np.sum(np.log(np.abs(np.diag(a))))


@program(square, 3)
def lu_by_elements(a):
    a = anp.array(a)
    n = len(a)
    for k in range(n):
        for i in range(k + 1, n):
            a[i, k] = a[i, k] / a[k, k]
            for j in range(k + 1, n):
                a[i, j] = a[i, j] - a[i, k] * a[k, j]
    return np.sum(np.log(np.abs(np.diag(a))))


@program(vector, 1)
def levinson(r):
    r = np.concatenate([np.array([4.0]), 0.3 * r])
    a = np.ones(1)
    e = r[0]
    for m in range(1, len(r)):
        k = -(a @ r[m:0:-1]) / e
        longer = np.concatenate([a, np.zeros(1)])
        a = longer + k * longer[::-1]
        e = e * (1.0 - k * k)
    return e + np.sum(a * a)


@program(vector, 2)
def durbin_in_place(r):
    n = len(r)
    a = anp.zeros(n + 1)
    e = 4.0
    for m in range(n):
        s = 0.3 * r[m]
        for j in range(m):
            s = s + a[j] * 0.3 * r[m - 1 - j]
        k = -s / e
        b = a.copy()
        for j in range(m):
            b[j] = a[j] + k * a[m - 1 - j]
        b[m] = k
        a = b
        e = e * (1.0 - k * k)
    return e + np.sum(a * a)


@program(vector, 3)
def matrix_chain(p):
    n = len(p) - 1
    cost = anp.zeros((n, n))
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            best = np.inf
            for k in range(i, j):
                best = np.minimum(best, cost[i, k] + cost[k + 1, j] + p[i] * p[k + 1] * p[j + 1])
            cost[i, j] = best
    return cost[0, n - 1]


@program(vector, 2)
def intervals(x):
    n = len(x)
    t = anp.zeros((n, n))
    for i in range(n):
        t[i, i] = x[i]
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            t[i, j] = 0.5 * (t[i + 1, j] + t[i, j - 1]) + x[i] * x[j]
    return t[0, n - 1]


# -- slices that shrink, grow and move ------------------------------------------------------------------------------


@program(scalars, 1)
def american_put(s0, n):
    up = np.exp(0.2 * np.sqrt(1.0 / n))
    p = (np.exp(0.05 / n) - 1 / up) / (up - 1 / up)
    spots = s0 * up ** np.arange(-n, n + 1, 2)
    v = np.maximum(1.0 - spots, 0.0)
    for k in range(1, n + 1):
        spots = s0 * up ** np.arange(-(n - k), n - k + 1, 2)
        v = np.maximum(np.exp(-0.05 / n) * (p * v[1:] + (1 - p) * v[:-1]), 1.0 - spots)
    return v[0]


@program(scalars, 1)
def american_put_by_slices(s0, n):
    up = np.exp(0.2 * np.sqrt(1.0 / n))
    p = (np.exp(0.05 / n) - 1 / up) / (up - 1 / up)
    s = s0 * up ** np.arange(-n, n + 1, 2)
    v = np.maximum(1.0 - s, 0.0)
    for k in range(n):
        s = s[: n - k] * up
        v = np.maximum(np.exp(-0.05 / n) * (p * v[1 : n - k + 1] + (1 - p) * v[: n - k]), 1.0 - s)
    return v[0]


@program(scalars, 1)
def binomial_tree(s0, n):
    up = np.exp(0.2 * np.sqrt(1.0 / n))
    p = (np.exp(0.05 / n) - 1 / up) / (up - 1 / up)
    v = np.maximum(s0 * up ** np.arange(-n, n + 1, 2) - 1.0, 0.0)
    while len(v) > 1:
        v = np.exp(-0.05 / n) * (p * v[1:] + (1 - p) * v[:-1])
    return v[0]


@program(scalars, 1)
def pascal(x, n):
    row = np.ones(1) * x
    for _ in range(n):
        row = 0.5 * (np.concatenate([row, np.zeros(1)]) + np.concatenate([np.zeros(1), row]))
    return np.sum(row * row)


@program(two_vectors, 1)
def divided_differences(x, y):
    x = np.cumsum(x)
    c = anp.array(y)
    for k in range(1, len(x)):
        c[k:] = (c[k:] - c[k - 1 : -1]) / (x[k:] - x[: len(x) - k])
    return np.sum(c[:8])


@program(two_vectors, 2)
def neville(x, y):
    n = len(x)
    x = np.cumsum(x)
    p = [y[i] for i in range(n)]
    for k in range(1, n):
        for i in range(n - k):
            p[i] = ((0.7 - x[i + k]) * p[i] + (x[i] - 0.7) * p[i + 1]) / (x[i] - x[i + k])
    return p[0]


@program(lambda n: (0.7, min(n, 14)), 2)
def romberg(w, n):
    r = [0.5 * (np.sin(0.0) + np.sin(w))]
    for k in range(1, n):
        points = (np.arange(2 ** (k - 1)) + 0.5) / 2 ** (k - 1)
        new = [0.5 * r[0] + 0.5**k * np.sum(np.sin(w * points))]
        for j in range(1, k + 1):
            new.append(new[j - 1] + (new[j - 1] - r[j - 1]) / (4.0**j - 1.0))
        r = new
    return r[-1]


@program(square, 1)
def bands(a):
    n = len(a)
    s = 0.0
    for i in range(1, n - 1):
        s = s + np.sum(np.sin(a[i, i - 1 : i + 2])) * s / (1.0 + s * s) + a[i, i]
    return s


@program(square, 1)
def columns_from_the_diagonal(a):
    s = 0.0
    for i in range(len(a)):
        s = np.tanh(s + np.sum(a[i:, i]))
    return s


@program(square, 1)
def gram_schmidt(a):
    n = min(len(a), 60)
    q = anp.array(a[:, :n])
    for k in range(n):
        q[:, k] = q[:, k] / np.sqrt(np.sum(q[:, k] ** 2))
        for j in range(k + 1, n):
            q[:, j] = q[:, j] - (q[:, k] @ q[:, j]) * q[:, k]
    return np.sum(np.abs(q))


@program(vector, 1)
def moving_average(x):
    out = []
    for i in range(3, len(x) - 3):
        w = x[i - 3 : i + 4]
        out.append(np.sum(w * w) / np.sum(w))
    return np.sum(np.stack(out) ** 2)


@program(vector, 1)
def prefix_means(x):
    s = 0.0
    for i in range(1, len(x) + 1):
        s = s + np.log(np.sum(x[:i])) * x[i - 1]
    return s


# -- lists, zip, enumerate, reversed, steps -------------------------------------------------------------------------


@program(vector, 1)
def appended(x):
    states = [x[0]]
    for i in range(1, len(x)):
        states.append(np.sin(states[-1]) + x[i])
    total = 0.0
    for s in states:
        total = total + s * s
    return total


@program(two_vectors, 1)
def zipped(a, b):
    s = 0.0
    for u, v in zip(a, b, strict=True):
        s = np.tanh(s * u + v)
    return s


@program(vector, 1)
def enumerated(x):
    s = 0.0
    for i, v in enumerate(x):
        s = 0.9 * s + np.sin(v) * i
    return s


@program(vector, 1)
def reversed_list(x):
    s = 0.0
    for v in reversed(list(x)):
        s = v + 0.5 * s * np.cos(s)
    return s


@program(vector, 1)
def down_and_up(x):
    n = len(x)
    c = anp.zeros(n)
    d = anp.zeros(n)
    c[0], d[0] = 0.3, x[0]
    for i in range(1, n):
        m = 2.0 - 0.3 * c[i - 1]
        c[i] = 0.3 / m
        d[i] = (x[i] - 0.3 * d[i - 1]) / m
    for i in range(n - 2, -1, -1):
        d[i] = d[i] - c[i] * d[i + 1]
    return np.sum(d * d)


@program(vector, 1)
def every_third(x):
    s = 1.0
    for i in range(0, len(x) - 2, 3):
        s = s * np.cos(x[i]) + x[i + 1] * x[i + 2]
    return s


@program(square, 3)
def three_deep(a):
    n = len(a)
    s = 0.0
    for i in range(n):
        for j in range(n):
            for k in range(3):
                s = 0.99 * s + a[i, j] * a[j, (i + k) % n]
    return s


@program(lambda n: (np.random.default_rng(n).uniform(0.0, 1.0, (n, 6)), np.ones((3, 3)) * 0.1), 1)
def blocks_in_a_program(x, w):
    h = np.zeros(3)
    energy = 0.0
    for row in x:
        h = np.tanh(w @ h + row[:3])
        for _ in range(4):
            h = h + 0.01 * np.sin(h) * row[3:]
        energy = energy + h @ h
    return np.log(energy) + np.sum(h)


# -- constants, alternation and branches ----------------------------------------------------------------------------


@program(lambda n: (1.3,), 1)
def impedance_ladder(w, n=None):
    inductors, capacitors = LADDER
    z = 50.0 + 0j
    for l, c in zip(inductors, capacitors, strict=True):  # noqa: E741
        z = 1.0 / (1.0 / (z + 1j * w * l) + 1j * w * c)
    return np.abs(z)


@program(lambda n: (1.3,), 1)
def constants_of_a_list(w):
    s = 0.0
    for c in COEFFICIENTS:
        s = s * w + c
    return np.sin(s)


@program(lambda n: (np.zeros(n), np.random.default_rng(n).uniform(size=n)), 2)
def red_black(u, f):
    u = anp.array(u)
    for _ in range(4):
        for colour in (0, 1):
            for i in range(1, len(u) - 1):
                if i % 2 == colour:
                    u[i] = 0.5 * (u[i - 1] + u[i + 1] + f[i])
    return np.sum(u * u)


@program(vector, 1)
def alternating(x):
    s = 0.0
    for i in range(len(x)):
        if i % 2:
            s = s + np.sin(x[i])
        else:
            s = s * np.cos(x[i])
    return s


@program(vector, 1)
def first_and_last(x):
    s = 0.0
    n = len(x)
    for i in range(n):
        if i == 0:
            s = s + 0.5 * x[i]
        elif i == n - 1:
            s = s + 0.5 * np.exp(x[i])
        else:
            s = s + np.sin(x[i]) * s
    return s


@program(vector, 1)
def simpson(x):
    s = 0.0
    n = len(x)
    for i in range(n):
        if i == 0 or i == n - 1:
            w = 1.0
        elif i % 2:
            w = 4.0
        else:
            w = 2.0
        s = s + w * np.exp(-x[i] * x[i])
    return s / 3.0


@program(vector, 1)
def every_tenth(x):
    s, kept = 0.0, 0.0
    for i in range(len(x)):
        s = np.sin(s + x[i])
        if i % 10 == 0:
            kept = kept + s * s
    return kept + s


@program(vector, 1)
def several_carries(x):
    position, velocity, work, peak = 0.0, 1.0, 0.0, 0.0
    for i in range(len(x)):
        force = x[i] - position
        work = work + force * velocity
        velocity = velocity + 0.1 * force
        position = position + 0.1 * velocity
        peak = np.maximum(peak, position)
    return position * velocity + work + peak


@program(vector, 1)
def verlet_with_history(x):
    before, now = 0.0, 0.1
    path = []
    for force in x:
        before, now = now, 2.0 * now - before + 0.01 * (force - np.sin(now))
        path.append(now)
    return np.sum(np.array(path) ** 2) if isinstance(path[0], float) else np.sum(anp.stack(path) ** 2)


LADDER: tuple[list[float], list[float]] = ([], [])
COEFFICIENTS: list[float] = []


def set_constants(n: int) -> None:
    """The lists that some programs read from outside."""
    global LADDER, COEFFICIENTS
    rng = np.random.default_rng(n)
    LADDER = rng.uniform(0.1, 1.0, n).tolist(), rng.uniform(0.1, 1.0, n).tolist()
    COEFFICIENTS = rng.uniform(-0.5, 0.5, n).tolist()


# -- the table ------------------------------------------------------------------------------------------------------


def best(call: Callable[[], Any], seconds: float = 0.1) -> float:
    """The shortest time of a call, in microseconds."""
    began, shortest = time.perf_counter(), np.inf
    call()
    while time.perf_counter() - began < seconds:
        start = time.perf_counter()
        call()
        count = 1
        while count < 50 and time.perf_counter() - start < 1e-3:
            call()
            count += 1
        shortest = min(shortest, (time.perf_counter() - start) / count)
    return shortest * 1e6


class TooLong(BaseException):
    """The first call takes too long."""


def measured(f: Any, args: tuple[Any, ...], most: int) -> str:
    def stop(*_: Any) -> None:
        raise TooLong

    numbers = [i for i, a in enumerate(args) if isinstance(a, int)]
    gradient = ad.jit(ad.grad(f), static_argnums=numbers)
    compiled = ad.jit(f, static_argnums=numbers)
    signal.signal(signal.SIGALRM, stop)
    signal.alarm(most)
    try:
        began = time.process_time()
        found = gradient(*args)
        first = time.process_time() - began
        compiled(*args)
        signal.alarm(0)
    except TooLong:
        return f"{'> ' + str(most):>8}"
    finally:
        signal.alarm(0)
    eager = ad.grad(f)(*args)
    wrong = "" if np.allclose(found, eager, rtol=1e-11, atol=1e-12) else "  WRONG"
    report = gradient.report()
    sizes = [line for line in report.splitlines() if "passes" in line]
    loops = sum("are a loop" in line for line in report.splitlines())
    not_loops = sum("are not a loop" in line for line in report.splitlines())
    calls = sorted({line.split("calls NumPy for ")[1].split(" ")[0] for line in report.splitlines() if "calls NumPy" in line})
    value, slope = best(lambda: compiled(*args)), best(lambda: gradient(*args))
    plain = best(lambda: f(*args))
    equations = report.splitlines()[1].split(":")[1].split("equation")[0].strip() if not sizes else ""
    if sizes:
        equations = sizes[0].split("staged ")[1].split(",")[0] + " > " + sizes[0].split(" equations")[0].split(" ")[-1]
    return (
        f"{first:10.2f}{value:11.2f}{slope:11.2f}{plain:11.1f}{plain / slope:9.2f}  {equations:>16}  {loops}/{not_loops}"
        f" {' '.join(calls)}{wrong}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--sizes", default="20,60,200,1000")
    parser.add_argument("--most", type=int, default=60)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    ad.jit(lambda x: x + 1.0)(1.0)  # loads LLVM
    columns = f"{'first, s':>10}{'value µs':>11}{'grad µs':>11}{'NumPy µs':>11}{'NumPy/gr':>9}  {'equations':>16}"
    print(f"{'':27}{'n':>5}{columns}  loops/not")
    for name, (f, arguments, order) in PROGRAMS.items():
        if options.names and not any(part in name for part in options.names):
            continue
        for n in map(int, options.sizes.split(",")):
            if n**order > 300_000:
                continue
            set_constants(n)
            try:
                line = measured(f, arguments(n), options.most)
            except Exception as error:
                line = f"  {type(error).__name__}: {str(error)[:100]}"
            print(f"{name:27}{n:5}{line}", flush=True)
            if line.strip().startswith(">"):
                break


if __name__ == "__main__":
    main()
