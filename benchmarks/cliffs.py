"""Programs on which compiled code used to fall off a cliff: reads at traced indices, writes in place, unusual calls.

    python benchmarks/cliffs.py [names…]

For each: the first call, a call of the compiled function and of its gradient, and of the function in NumPy, in microseconds.
The last table is what a call costs.
"""

from __future__ import annotations

import os
import sys
import time
import warnings

os.environ["ADJOINT_CACHE_DIR"] = ""  # nothing from disk

import numpy as np
from python_loops import cholesky

import adjoint as ad
import adjoint.numpy as anp

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(1000, 8)), RNG.normal(size=1000)
FROZEN = X.copy()
FROZEN.flags.writeable = False
GRID, VALUES = np.sort(RNG.random(100)), RNG.normal(size=101)


def minibatch(w, index):
    return np.mean((X[index] @ w - Y[index]) ** 2)


def minibatch_of_constants(w, index):
    return np.mean((FROZEN[index] @ w) ** 2)


def one_hot(x, labels):
    return np.sum(np.eye(10)[labels] * x)


def table_by_searchsorted(x):
    return np.sum(VALUES[np.searchsorted(GRID, x)] * x)


def minibatch_slice(w, i):
    return np.mean((X[i : i + 32] @ w - Y[i : i + 32]) ** 2)


def recurrence(x):
    b = anp.zeros(len(x))
    b[0] = x[0]
    for i in range(1, len(x)):
        b[i] = np.sin(b[i - 1]) + x[i]
    return np.sum(b * b)


def recurrence_by_fori_loop(x):
    def body(i, b):
        b[i] = np.sin(b[i - 1]) + x[i]
        return b

    b = anp.zeros(len(x))
    b[0] = x[0]
    return np.sum(ad.fori_loop(1, len(x), body, b) ** 2)


def gauss_seidel(f):
    u = anp.zeros(f.shape)
    for _ in range(10):
        for i in range(1, f.shape[0] - 1):
            for j in range(1, f.shape[1] - 1):
                u[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] + f[i, j])
    return np.sum(u * u)


def soft_dtw(d):
    n, m = d.shape
    r = anp.full((n + 1, m + 1), 1e10)
    r[0, 0] = 0.0
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            a, b, c = r[i - 1, j], r[i, j - 1], r[i - 1, j - 1]
            least = np.minimum(np.minimum(a, b), c)
            r[i, j] = d[i - 1, j - 1] + least - np.log(np.exp(least - a) + np.exp(least - b) + np.exp(least - c))
    return r[n, m]


def unique_in_a_loop(x):
    total = 0.0
    for i in range(20):
        total = total + np.sum(np.unique(x * (1 + 0.01 * i)))
        x = np.sin(x) + 0.01 * x
    return total


def clipped_by_masks(x):
    y = x.copy()
    y[y < 0] = 0.0
    y[y > 1] = 1.0
    return np.sum(y**2)


def drawdown(x):
    wealth = np.cumsum(x)
    return np.max(np.maximum.accumulate(wealth) - wealth)


def small_systems(a):
    return np.sum(np.linalg.solve(a, np.ones((len(a), a.shape[1], 1))))


W, M = RNG.normal(size=8), RNG.normal(size=(12, 12))
PROGRAMS = {
    "minibatch X[index]": (minibatch, (W, RNG.integers(0, 1000, 32))),
    "the same, read-only X": (minibatch_of_constants, (W, RNG.integers(0, 1000, 32))),
    "np.eye(10)[labels]": (one_hot, (RNG.normal(size=(32, 10)), RNG.integers(0, 10, 32))),
    "table[searchsorted]": (table_by_searchsorted, (RNG.random(32),)),
    "minibatch X[i : i + 32]": (minibatch_slice, (W, 96)),
    "b[i] = g(b[i - 1]), n = 4000": (recurrence, (RNG.normal(size=4000),)),
    "the same by fori_loop": (recurrence_by_fori_loop, (RNG.normal(size=4000),)),
    "Gauss-Seidel 12 x 12 x 10": (gauss_seidel, (RNG.normal(size=(12, 12)),)),
    "soft-DTW 40 x 40": (soft_dtw, (RNG.normal(size=(40, 40)) ** 2,)),
    "Cholesky by hand, n = 12": (cholesky, (M @ M.T + 12 * np.eye(12),)),
    "np.unique in a loop, n = 100": (unique_in_a_loop, (RNG.normal(size=100),)),
    "y[y < 0] = 0, n = 1000": (clipped_by_masks, (RNG.normal(size=1000),)),
    "maximum.accumulate, n = 1e5": (drawdown, (RNG.normal(size=10**5),)),
    "three quantiles, n = 1e5": (lambda x: np.sum(np.quantile(x, [0.1, 0.5, 0.9])), (RNG.normal(size=10**5),)),
    "singular values 30 x 30": (lambda a: np.sum(np.linalg.svd(a, compute_uv=False)), (RNG.normal(size=(30, 30)),)),
    "1000 systems 5 x 5": (small_systems, (RNG.normal(size=(1000, 5, 5)) + 4 * np.eye(5),)),
    "np.correlate of 1000, full": (lambda x: np.sum(np.correlate(x, x, "full") ** 2), (RNG.normal(size=1000),)),
}


def best(call, seconds=0.3):
    """The shortest time of a call, in microseconds."""
    began, shortest = time.perf_counter(), np.inf
    call()
    while shortest == np.inf or time.perf_counter() - began < seconds:
        start = time.perf_counter()
        count = 0
        while not count or (count < 100 and time.perf_counter() - start < 1e-3):
            call()
            count += 1
        shortest = min(shortest, (time.perf_counter() - start) / count)
    return shortest * 1e6


def programs(chosen):
    print(
        f"{'µs':30}{'first call, s':>15}{'of gradient, s':>16}{'compiled':>11}{'gradient':>11}{'NumPy':>12}{'NumPy / ours':>14}"
    )
    for name, (f, args) in PROGRAMS.items():
        if chosen and not any(part in name for part in chosen):
            continue
        times = []
        for compiled in (ad.jit(f), ad.jit(ad.grad(f))):
            began = time.perf_counter()
            compiled(*args)
            times.append(time.perf_counter() - began)
            times.append(best(lambda compiled=compiled: compiled(*args)))
        plain = best(lambda: f(*args))
        first, value, second, gradient = times
        print(f"{name:30}{first:15.2f}{second:16.2f}{value:11.2f}{gradient:11.2f}{plain:12.1f}{plain / value:14.1f}", flush=True)


def calls():
    f = ad.jit(lambda x, w: np.sum(x * w))
    x, w = np.ones((3, 4)), np.ones((3, 4))
    strided = np.ones((4, 3)).T
    early = ad.jit(lambda x: 2 * np.sum(x))
    arrays = [np.ones(n) for n in range(1, 60)]
    for array in (*arrays, *arrays):
        early(array)
    gradient = ad.grad(ad.jit(lambda x: np.sum(np.sin(x) * x)))
    batched = ad.vmap(ad.jit(lambda x: np.sum(np.sin(x) * x)))
    print("\nµs of a call")
    for name, call in {
        "as before": lambda: f(x, w),
        "with a keyword": lambda: f(x, w=w),
        "of a strided array": lambda: f(strided, w),
        "of an early signature": lambda: early(arrays[0]),
        "of grad(jit(f))": lambda: gradient(x),
        "of vmap(jit(f))": lambda: batched(x),
    }.items():
        call()
        print(f"  {name:24}{best(call):8.2f}")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    ad.jit(lambda x: x + 1.0)(1.0)  # loads LLVM
    programs(sys.argv[1:])
    if not sys.argv[1:]:
        calls()
