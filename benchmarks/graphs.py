"""Graphs from a hundred to a hundred thousand operations: the time of each step, per operation.

    python benchmarks/graphs.py [--json FILE] [--quick]

Tracing, differentiating (the graph of the gradient), simplifying it, printing it and parsing it back must all take linear
time: the microseconds per operation stay level from the top of the table to the bottom. The program mixes chains, sharing
and constants, so that every kind of rule has something to do. Each figure is the best of a few runs; the garbage collector
is off while a step is timed, as in `timeit`.
"""

from __future__ import annotations

import argparse
import gc
import json
import platform
import time

import numpy as np

import adjoint as ad
from adjoint.api.graph import parse

STEPS = ("trace", "differentiate", "simplify", "simplify gradient", "print", "parse")
PER_ROUND = 5  # operations per iteration


def program(count):
    """A function of `count` operations."""

    def f(x):
        y = x
        for _ in range(count // PER_ROUND):
            y = np.sin(y * x) * 1.0 + 0.5 * x
        return y

    return f


def timed(step, rounds):
    """The result of a step and its best time."""
    best = float("inf")
    for _ in range(rounds):
        result = None  # free the last result before timing
        gc.collect()
        gc.disable()
        start = time.perf_counter()
        result = step()
        best = min(best, time.perf_counter() - start)
        gc.enable()
    return result, best


def measure(count, rounds):
    """Seconds of each step, and the number of equations it goes through."""
    f, x = program(count), 0.5
    staged, trace = timed(lambda: ad.graph(f)(x), rounds)
    gradient, differentiate = timed(lambda: ad.graph(ad.grad(f))(x), rounds)
    _, simplify = timed(staged.simplify, rounds)
    simpler, simplify_gradient = timed(gradient.simplify, rounds)
    text, show = timed(lambda: str(gradient), rounds)
    parsed, read = timed(lambda: parse(text), rounds)
    assert parsed == gradient
    assert np.allclose(simpler(x), ad.grad(f)(x))
    sizes = (len(staged), len(gradient), len(staged), len(gradient), len(gradient), len(gradient))
    return dict(zip(STEPS, zip((trace, differentiate, simplify, simplify_gradient, show, read), sizes, strict=True), strict=True))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", help="write the figures to a file")
    parser.add_argument("--quick", action="store_true", help="up to ten thousand operations")
    options = parser.parse_args()
    counts = [10**k for k in range(2, 5 if options.quick else 6)]
    print(f"Python {platform.python_version()}, NumPy {np.__version__}; µs per equation (seconds in all)\n")
    print(f"{'operations':>10}" + "".join(f"{step:>20}" for step in STEPS))
    figures = {}
    for count in counts:
        found = measure(count, rounds=5 if count <= 10**3 else 3 if count <= 10**4 else 1)
        cells = [f"{1e6 * seconds / size:.1f} ({seconds:.3f} s)" for seconds, size in found.values()]
        print(f"{count:>10}" + "".join(f"{cell:>20}" for cell in cells), flush=True)
        figures[count] = {step: {"seconds": seconds, "equations": size} for step, (seconds, size) in found.items()}
    if options.json:
        with open(options.json, "w") as file:
            json.dump(figures, file, indent=1)


if __name__ == "__main__":
    main()
