"""Eager mode against autograd and PyTorch, in one run on one machine.

    python benchmarks/eager.py [--json FILE] [--quick]

Every figure is the best of many runs, with the contenders taking turns, and what counts is the ratio. A peer that is
not installed is left out. Sections: small arrays (time per operation, forward and back), large arrays (against the
same NumPy calls written by hand), overhead of adjoint.numpy outside transforms, peak memory, import time, long chains.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
import tracemalloc
from importlib.util import find_spec

import numpy as np

import adjoint as ad
import adjoint.numpy as anp

OPERATIONS = 200


def best_of(contenders, rounds, calls):
    """The best time of one call for each contender; interleaved, so that noise affects all equally."""
    best = dict.fromkeys(contenders, float("inf"))
    for run in contenders.values():
        run()
    for _ in range(rounds):
        for name, run in contenders.items():
            start = time.perf_counter()
            for _ in range(calls):
                run()
            best[name] = min(best[name], (time.perf_counter() - start) / calls)
    return best


# -- small arrays: 200 operations each --------------------------------------------------------------------------


def trigonometric(np, x):
    """sin and mul, alternating."""
    y = x
    for _ in range(OPERATIONS // 2):
        y = np.sin(y) * x
    return y


def polynomial(np, x):
    """Horner's scheme: mul and add of constants."""
    y = x
    for i in range(OPERATIONS // 2):
        y = y * x + (0.5 - 0.001 * i)
    return y


def mixed(np, x):
    """A bit of everything elementwise."""
    y = x
    for _ in range(OPERATIONS // 8):
        a = np.exp(-y)
        b = np.tanh(a + x)
        c = np.sqrt(b * b + 1.0)
        y = c / (a + 2.0)
    return y


PROGRAMS = {"sin, mul": trigonometric, "mul, add": polynomial, "mixed": mixed}


def small(rounds):
    rows = []
    for name, program in PROGRAMS.items():
        for size in (1, 10, 100):
            x = np.linspace(0.1, 0.9, size)
            ours = ad.value_and_grad(lambda x: np.sum(program(np, x)))
            contenders = {"adjoint": lambda: ours(x)}
            if find_spec("autograd"):
                import autograd
                import autograd.numpy as agnp

                theirs = autograd.value_and_grad(lambda x: agnp.sum(program(agnp, x)))
                contenders["autograd"] = lambda: theirs(x)
                np.testing.assert_allclose(ours(x)[1], theirs(x)[1], rtol=1e-12)
            if find_spec("torch"):
                import torch

                start = torch.tensor(x)

                def with_torch():
                    leaf = start.clone().requires_grad_()
                    y = program(torch, leaf).sum()
                    y.backward()
                    return leaf.grad

                contenders["torch"] = with_torch
                np.testing.assert_allclose(ours(x)[1], with_torch().numpy(), rtol=1e-10)
            times = best_of(contenders, rounds, 5)
            row = {"program": name, "size": size, "us": {k: t / OPERATIONS * 1e6 for k, t in times.items()}}
            row["ratio"] = {k: times["adjoint"] / t for k, t in times.items() if k != "adjoint"}
            rows.append(row)
            shown = "  ".join(f"{k} {v:6.2f} µs" for k, v in row["us"].items())
            ratios = "  ".join(f"{v:.2f}× {k}" for k, v in row["ratio"].items())
            print(f"  {name:9} n={size:<4} {shown}   {ratios}")
    return rows


# -- large arrays against NumPy by hand -------------------------------------------------------------------------


def large(rounds):
    def function(x, w):
        return np.sum(np.tanh(x * w) * np.exp(-x * x) + np.sin(w))

    def by_hand(x, w):
        a = x * w
        t = np.tanh(a)
        n = -x
        e = np.exp(n * x)
        value = np.sum(t * e + np.sin(w))
        # the reverse sweep, one NumPy call for each step of the chain rule
        g = np.broadcast_to(1.0, x.shape)
        ga = (g * e) * (1 - t * t)
        gm = (g * t) * e
        gx = gm * n
        gx -= gm * x
        gx += ga * w
        gw = g * np.cos(w)
        gw += ga * x
        return value, (gx, gw)

    def matrices(a, b):
        return np.sum(np.tanh(a @ b))

    def matrices_by_hand(a, b):
        t = np.tanh(a @ b)
        g = np.broadcast_to(1.0, t.shape) * (1 - t * t)
        return np.sum(t), (g @ b.T, a.T @ g)

    def products(x, w):
        return np.sum(x * w * x * w + x)

    def products_by_hand(x, w):
        a = x * w
        b = a * x
        value = np.sum(b * w + x)
        g = np.broadcast_to(1.0, x.shape)
        gb = g * w
        gw = g * b
        gx = gb * a
        gx += g
        ga = gb * x
        gx += ga * w
        gw += ga * x
        return value, (gx, gw)

    rows = []
    rng = np.random.default_rng(0)
    cases = [("elementwise", function, by_hand, n) for n in (10**4, 10**5, 10**6)]
    cases += [("products", products, products_by_hand, n) for n in (10**4, 10**5, 10**6)]
    cases += [("matrices", matrices, matrices_by_hand, n) for n in (10**4, 10**5, 10**6)]
    for name, f, hand, n in cases:
        shape = (int(n**0.5), int(n**0.5)) if name == "matrices" else n
        x, w = rng.uniform(-1, 1, shape), rng.uniform(-1, 1, shape)
        ours = ad.value_and_grad(f, (0, 1))
        for a, b in zip(ours(x, w)[1], hand(x, w)[1], strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)
        calls = max(1, 10**5 // n)
        times = best_of({"adjoint": lambda: ours(x, w), "by hand": lambda: hand(x, w)}, rounds, calls)
        ratio = times["adjoint"] / times["by hand"]
        rows.append({"program": name, "size": n, "seconds": times, "ratio": ratio})
        shown = "   ".join(f"{k} {t * 1e3:9.3f} ms" for k, t in times.items())
        print(f"  {name:12} n=10^{len(str(n)) - 1}  {shown}   {ratio:.2f}×")
    return rows


# -- the rest ---------------------------------------------------------------------------------------------------


def outside(rounds):
    """The overhead of `adjoint.numpy` over NumPy outside any transform."""
    x = np.linspace(0.1, 0.9, 10)
    pairs = {
        "sin": (lambda f: f(x), "sin"),
        "add": (lambda f: f(x, x), "add"),
        "sum": (lambda f: f(x), "sum"),
        "reshape": (lambda f: f(x, (2, 5)), "reshape"),
        "concatenate": (lambda f: f([x, x]), "concatenate"),
        "where": (lambda f: f(x > 0.5, x, 0.0), "where"),
        "zeros": (lambda f: f(10), "zeros"),
        "array": (lambda f: f([1.0, 2.0]), "array"),
        "dot": (lambda f: f(x, x), "dot"),
    }
    rows = []
    for name, (call, attribute) in pairs.items():
        ours, theirs = getattr(anp, attribute), getattr(np, attribute)
        times = best_of({"adjoint": lambda: call(ours), "numpy": lambda: call(theirs)}, rounds, 3000)
        added = (times["adjoint"] - times["numpy"]) * 1e6
        rows.append({"function": name, "added_us": added})
        print(f"  np.{name:12} numpy {times['numpy'] * 1e6:6.3f} µs   added {added:+.3f} µs")
    return rows


def memory():
    """Peak memory of a chain of 1000 operations on 10^6 doubles, in arrays."""
    x = np.linspace(0.1, 0.9, 10**6)

    def chain(x):
        y = x
        for _ in range(1000):
            y = np.sin(y)
        return np.sum(y)

    tracemalloc.start()
    ad.grad(chain)(x)
    peak = tracemalloc.get_traced_memory()[1] / x.nbytes
    tracemalloc.stop()
    print(
        f"  chain of 1000 on 10^6 doubles: peak {peak:.2f} arrays; 999 saved values besides the input, so {peak - 999:.2f} more"
    )
    return {"peak_arrays": peak, "saved_arrays": 999, "extra_arrays": peak - 999}


def imports():
    """Seconds that `import adjoint` adds to `import numpy`, best of several processes."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}  # installed packages have bytecode

    def output(script):
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment)
        return done.stdout.strip()

    clock = "import time, numpy; t = time.perf_counter(); import adjoint; print(time.perf_counter() - t)"
    added = min(float(output(clock)) for _ in range(7))
    loaded = output("import sys, adjoint; print([m for m in ('scipy', 'llvmlite') if m in sys.modules])")
    print(f"  import adjoint adds {added * 1e3:.0f} ms to import numpy; heavy modules loaded: {loaded}")
    return {"seconds": added, "loaded": loaded}


def million():
    def chain(x):
        y = x
        for _ in range(10**6):
            y = y * 1.000001
        return y

    start = time.perf_counter()
    slope = ad.grad(chain)(1.0)
    seconds = time.perf_counter() - start
    print(f"  a chain of 10^6 scalar operations: {seconds:.2f} s, slope {slope:.6f} (e = 2.718280)")
    return {"seconds": seconds}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", help="write the figures to this file")
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    options = parser.parse_args()
    rounds = 5 if options.quick else 30
    print(f"{platform.processor() or platform.machine()}, Python {platform.python_version()}, NumPy {np.__version__}")
    figures = {}
    sections = (
        ("small arrays: time per operation, forward and back", lambda: small(rounds)),
        ("large arrays: value and gradient", lambda: large(max(5, rounds // 2))),
        ("adjoint.numpy outside any transform", lambda: outside(rounds)),
        ("memory", memory),
        ("import", imports),
        ("long chain", million),
    )
    for title, section in sections:
        print(title)
        figures[title] = section()
    if options.json:
        with open(options.json, "w") as file:
            json.dump(figures, file, indent=2)


if __name__ == "__main__":
    main()
