"""The cost of loops and guards in compiled functions: the parts of the first call, and a guard miss.

At the end, two loops that do not need each other, on one thread and on two.

python benchmarks/loops.py
"""

from __future__ import annotations

import os
import time

os.environ["ADJOINT_CACHE_DIR"] = ""  # nothing from disk

import numpy as np

import adjoint as ad
from adjoint.compiler import jit as compiled
from adjoint.compiler import native as llvm


def lorenz(steps):
    def f(s):
        x, y, z = s[0], s[1], s[2]
        for _ in range(steps):
            x, y, z = x + 0.001 * 10.0 * (y - x), y + 0.001 * (x * (28.0 - z) - y), z + 0.001 * (x * y - 2.5 * z)
        return x * x + y * y + z * z

    return f


class Clock:
    """Accumulates the time spent in a function, under a name."""

    def __init__(self):
        self.seconds = {}

    def around(self, owner, name, what):
        inner = getattr(owner, name)

        def timed(*args, **kwargs):
            began = time.perf_counter()
            try:
                return inner(*args, **kwargs)
            finally:
                self.seconds[what] = self.seconds.get(what, 0.0) + time.perf_counter() - began

        setattr(owner, name, timed)
        return lambda: setattr(owner, name, inner)


def first_call(f, x):
    """Seconds of the parts of a first call."""
    clock = Clock()
    undo = [
        clock.around(compiled.Jitted, "_stage", "trace"),
        clock.around(compiled, "dead_code", "dead code"),
        clock.around(compiled, "roll", "roll"),
        clock.around(compiled, "simplify", "simplify"),
        clock.around(compiled, "lower", "lower"),
        clock.around(llvm, "assembled", "LLVM"),
    ]
    began = time.perf_counter()
    ad.jit(f)(x)
    whole = time.perf_counter() - began
    for put_back in undo:
        put_back()
    return {**clock.seconds, "other": whole - sum(clock.seconds.values()), "all": whole}


def best(f, count=2000):
    times = []
    for _ in range(count):
        began = time.perf_counter()
        f()
        times.append(time.perf_counter() - began)
    return min(times)


def both_ways(iterations):
    """A recurrence forward and one backward, over the same rows."""

    def along(w, rows, reverse):
        def step(h, row):
            h = np.tanh(w * h + row)
            return h, h

        return ad.scan(step, np.zeros(rows.shape[1]), rows, reverse=reverse)[1]

    def f(w, v, rows):
        return np.sum(along(w, rows, False) * along(v, rows, True))

    return f, (np.full(8, 0.3), np.full(8, 0.4), np.random.default_rng(0).normal(size=(iterations, 8)))


def main():
    x = np.array([1.0, 1.0, 1.0])
    ad.jit(lambda x: x + 1.0)(x)
    for steps in (100, 10_000):
        for what, f in (("value", lorenz(steps)), ("gradient", ad.grad(lorenz(steps)))):
            parts = first_call(f, x)
            print(f"{steps} steps, {what}: " + ", ".join(f"{k} {1e3 * v:.1f} ms" for k, v in parts.items()))

    @ad.jit
    def f(x):
        return np.sum(np.sin(x)) if x[0] > 0 else np.sum(np.cos(x))

    up, down = np.ones(3), -np.ones(3)
    f(up), f(down)  # the last compiled specialization is tried first
    hit, miss = best(lambda: f(down)), best(lambda: f(up))
    print(f"a guard that holds: {1e9 * hit:.0f} ns a call; one that misses before another holds: {1e9 * miss:.0f} ns")

    for iterations in (500, 50_000):
        f, arguments = both_ways(iterations)
        g = ad.jit(ad.value_and_grad(f, (0, 1)))
        times = {}
        for count in (1, 2):
            ad.set_num_threads(count)
            g(*arguments)
            times[count] = best(lambda g=g, arguments=arguments: g(*arguments), 1_000_000 // iterations)
        one, two = (1e6 * times[count] for count in (1, 2))
        print(f"two loops of {iterations} iterations, value and gradient: {one:.0f} µs on one thread, {two:.0f} µs on two")


if __name__ == "__main__":
    main()
