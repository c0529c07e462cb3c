"""Composites against the same NumPy calls written by hand, and growth with size of indexing and assembling.

    python benchmarks/surface.py [--quick]

"By hand" is the value and the reverse sweep in plain NumPy, one call for each step.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from eager import best_of

import adjoint as ad
import adjoint.numpy as anp

# -- composites: value and gradient -----------------------------------------------------------------------------


def variance(x):
    return np.sum(np.var(x, axis=1))


def variance_by_hand(x):
    n = x.shape[1]
    d = x - np.sum(x, axis=1, keepdims=True) / n
    value = np.sum(np.sum(d * d, axis=1) / n)
    gd = np.broadcast_to(1.0 / n, x.shape) * (2 * d)
    gm = -np.sum(gd, axis=1, keepdims=True)
    gd += np.broadcast_to(gm / n, x.shape)
    return value, gd


def deviation(x):
    return np.sum(np.std(x, axis=1))


def deviation_by_hand(x):
    n = x.shape[1]
    d = x - np.sum(x, axis=1, keepdims=True) / n
    s = np.sqrt(np.sum(d * d, axis=1) / n)
    gd = np.broadcast_to((0.5 / s / n)[:, None], x.shape) * (2 * d)
    gm = -np.sum(gd, axis=1, keepdims=True)
    gd += np.broadcast_to(gm / n, x.shape)
    return np.sum(s), gd


def norms(x):
    return np.sum(np.linalg.norm(x, axis=1))


def norms_by_hand(x):
    n = np.sqrt(np.sum(x * x, axis=1))
    return np.sum(n), (1 / n)[:, None] * x


def differences(x):
    return np.sum(np.diff(x, axis=1) ** 2)


def differences_by_hand(x):
    d = np.diff(x, axis=1)
    g = np.broadcast_to(1.0, d.shape) * (2 * d)
    out = np.zeros_like(x)
    out[:, 1:] += g
    out[:, :-1] -= g
    return np.sum(d * d), out


def running_sum(x):
    return np.sum(np.cumsum(x, axis=1) ** 2)


def running_sum_by_hand(x):
    c = np.cumsum(x, axis=1)
    g = np.broadcast_to(1.0, c.shape) * (2 * c)
    return np.sum(c * c), np.cumsum(g[:, ::-1], axis=1)[:, ::-1].copy()


def centred(x):
    return np.sum(np.tanh(x - np.mean(x, axis=0)))


def centred_by_hand(x):
    t = np.tanh(x - np.sum(x, axis=0) / len(x))
    g = np.broadcast_to(1.0, t.shape) * (1 - t * t)
    g -= np.broadcast_to(np.sum(g, axis=0) / len(x), x.shape)
    return np.sum(t), g


def products(x):
    return np.sum(np.tensordot(x, x, axes=(0, 0)) ** 2)


def products_by_hand(x):
    y = x.T @ x
    g = np.broadcast_to(1.0, y.shape) * (2 * y)
    return np.sum(y * y), x @ g.T + x @ g


def sorted_values(x):
    return np.sum(np.sort(x, axis=1) * WEIGHTS)


def sorted_by_hand(x):
    order = np.argsort(x, axis=1)
    value = np.sum(np.take_along_axis(x, order, axis=1) * WEIGHTS)
    out = np.empty_like(x)
    np.put_along_axis(out, order, np.broadcast_to(1.0, x.shape) * WEIGHTS, axis=1)
    return value, out


def gathered(x):
    return np.sum(x[INDEX] ** 2)


def gathered_by_hand(x):
    y = x[INDEX]
    out = np.zeros_like(x)
    np.add.at(out, INDEX, np.broadcast_to(1.0, y.shape) * (2 * y))
    return np.sum(y * y), out


def masked(x):
    return np.sum(x[x > 0] ** 2)


def masked_by_hand(x):
    where = np.nonzero(x > 0)
    y = x[where]
    out = np.zeros_like(x)
    np.add.at(out, where, np.broadcast_to(1.0, y.shape) * (2 * y))
    return np.sum(y * y), out


ROWS, COLUMNS = 300, 1000
WEIGHTS = np.linspace(0, 1, COLUMNS)
INDEX = np.random.default_rng(1).integers(0, ROWS, 600)
PAIRS = {
    "var": (variance, variance_by_hand),
    "std": (deviation, deviation_by_hand),
    "norm": (norms, norms_by_hand),
    "diff": (differences, differences_by_hand),
    "cumsum": (running_sum, running_sum_by_hand),
    "mean": (centred, centred_by_hand),
    "tensordot": (products, products_by_hand),
    "sort": (sorted_values, sorted_by_hand),
    "gather": (gathered, gathered_by_hand),
    "mask": (masked, masked_by_hand),
}


def composites(rounds):
    x = np.random.default_rng(0).standard_normal((ROWS, COLUMNS))
    for name, (f, by_hand) in PAIRS.items():
        ours = ad.value_and_grad(f)
        np.testing.assert_allclose(ours(x)[1], by_hand(x)[1], rtol=1e-8, atol=1e-10)
        times = best_of({"adjoint": lambda: ours(x), "by hand": lambda: by_hand(x)}, rounds, 2)
        print(
            f"  {name:10} "
            + "   ".join(f"{k} {t * 1e3:8.3f} ms" for k, t in times.items())
            + f"   {times['adjoint'] / times['by hand']:.2f}×"
        )


# -- growth -----------------------------------------------------------------------------------------------------


def read_each(x):
    total = 0.0
    for i in range(len(x)):
        total = total + x[i] * x[i]
    return total


def array_of_scalars(x):
    return np.sum(anp.array([x[i] * 2.0 for i in range(len(x))]) ** 2)


def write_each(x):
    a = anp.zeros(len(x))
    for i in range(len(x)):
        a[i] = x[i] * 2.0
    return np.sum(a * a)


def growth():
    for f in (read_each, array_of_scalars, write_each):
        shown = []
        for n in (1000, 4000, 16000):
            x = np.arange(float(n))
            start = time.perf_counter()
            ad.grad(f)(x)
            shown.append(f"n={n}: {(time.perf_counter() - start) / n * 1e6:6.1f} µs")
        print(f"  {f.__name__:17} per element  " + "   ".join(shown))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    rounds = 5 if parser.parse_args().quick else 30
    print(f"composites on {ROWS}×{COLUMNS}: value and gradient")
    composites(rounds)
    print("whole gradient, per element")
    growth()


if __name__ == "__main__":
    main()
