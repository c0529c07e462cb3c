"""What each optimisation of the compiler gains: the time without it over the time with it.

    python benchmarks/ablation.py [--only row_tiles,pieces] [--workloads "softmax|LSTM"] [--seconds 0.3] [--json FILE]
                                    [--processor sapphirerapids]

Every workload is compiled twice in one process, with all optimisations and without one. The two programs run alternately on one
thread, and the least processor time of each counts: other processes on the machine change it little. Switches about threads are
measured apart, by the clock, with two threads of ours and of BLAS: they need an idle machine. Switches that leave the text of a
program as it is are not timed on it. For a few, which are there to compile sooner, the processor time of the first call is
measured too. With --processor, LLVM tunes the code for another processor, whose instructions this one must have.

Workloads are those of `compiled.py`, and small programs for switches that none of those needs, so that a gain is not overlooked.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time

import numpy
import numpy as np
from compiled import SETTINGS, inputs_of, say
from contenders import THREADS, prepare
from workloads import WORKLOADS, Workload

ROUNDS = 5
TIMED_ALWAYS = {"kept_blocks", "native_entry", "foreign_arrays"}  # change no text
THREADED = {"pieces", "parallel_groups", "one_blas_thread"}  # measured by the clock, on two threads
COMPILING = {"functions_apart", "inline_kernels"}  # the time to compile is measured as well
FIRST_CALL = {"quick_code", "program_cache", "compiled_apart"}  # the first call in a process
COMPILED_AGAIN = ("dispatch, 3 elements", "Gaussian mixture, n=1000 d=20 K=25", "LSTM, 100 steps, scan", "softmax, 4000 x 100")


def softmax(np, x):
    e = np.exp(x - np.max(x, axis=1, keepdims=True))
    return np.sum((e / np.sum(e, axis=1, keepdims=True)) ** 2)


def two_loops(np, x):
    """A forward and a backward recurrence over the same data."""
    decay = lambda s, row: (s * 0.9 + np.tanh(s * row[0]), s * 0.5)
    grow = lambda s, row: (s * 0.8 - np.sin(s * row[0]), s * 0.5)
    a, _ = np.loop(decay, x[0], (x,), len(x))
    b, _ = np.loop(grow, x[0] + 1.0, (x[::-1],), len(x))
    return np.sum(a * b)


def distances(np, x):
    difference = x[:, None, :] - x[None, :, :]
    return np.sum(np.exp(-np.sum(difference * difference, axis=2)))


def stencil(np, u):
    for _ in range(20):
        u = u + 0.1 * np.pad(u[2:] - 2.0 * u[1:-1] + u[:-2], 1)
    return np.sum(u * u)


def heat(np, u):
    """Many steps on a large grid."""
    edges = [(1, 1)] * u.ndim
    inside, axes = (slice(1, -1),) * u.ndim, range(u.ndim)
    moved = lambda axis, by: tuple(slice(1 + by, by - 1 or None) if k == axis else slice(1, -1) for k in axes)
    for _ in range(40):
        u = u + 0.1 * np.pad(sum(u[moved(k, 1)] - 2.0 * u[inside] + u[moved(k, -1)] for k in axes), edges)
    return np.sum(u * u)


def boundary_values(np, u):
    for _ in range(10):
        u = u * 1.01
        u[0] = 0.0
        u[-1] = 1.0
        u = np.sin(u)
    return np.sum(u * u)


def written(np, x):
    y = np.sin(x)
    y[3:-2] = np.cos(x[3:-2]) * y[:-5]
    return np.sum(y * y)


def solved(np, a, b):
    x = np.linalg.solve(a, b)
    return np.sum(x * x) + np.linalg.slogdet(a)[1]


def small_systems(np, a, b):
    return np.sum(np.linalg.solve(a, b) ** 2)


def triangular(np, a, b):
    l = np.linalg.cholesky(a)  # noqa: E741
    return np.sum(np.solve_triangular(l, b) ** 2) + np.sum((l @ b) ** 2)


def triangular_system(np, a, b):
    return np.sum(np.solve_triangular(a, b) ** 2)


def log_determinant(np, a):
    return np.sum(np.log(np.linalg.cholesky(a).diagonal()))


def logistic(np, w, x):
    return np.sum(np.log1p(np.exp(x @ w)))


def contraction(np, a, b):
    return np.sum(np.einsum("ijk,kl->ijl", a, b) ** 2)


def small_products(np, a, b):
    return np.sum(np.tanh(a @ b))


def eigenvalues(np, a):
    return np.sum(np.linalg.eigh(a)[0] ** 3)


def rotations(np, x):
    """Rows of four numbers."""
    return np.sum(np.sin(x) * x / np.sqrt(np.sum(x * x, axis=1, keepdims=True)))


def repulsion(np, x):
    """Masks that are constant matrices."""
    gaps = x[:, None] - x[None, :]
    return np.sum(np.exp(-gaps * gaps) * np.constant(numpy.eye, len(x)) + np.constant(numpy.tri, len(x)) * gaps)


def table_in_a_loop(np, x):
    """A loop that writes to one element of a table in each iteration."""
    table = np.sin(x)
    for i in range(1, len(x)):
        table[i] = np.sin(table[i - 1]) * 0.9 + table[i]
    return np.sum(table * table)


def layers(np, w, x):
    """Products of medium size, one after another."""
    for _ in range(20):
        x = np.tanh(x @ w)
    return np.sum(x)


def sorted_sum(np, x):
    """Calls NumPy."""
    return np.sum(np.sort(x) * np.sin(x))


def pairs(np, x):
    """A large matrix between two kernels."""
    return np.sum(np.tanh(x @ x.T))


def smooth(np, x):
    return np.sum(np.tanh(x))


def updated(np, x):
    return np.cos(x) + 0.5 * x


def definite(rng, n):
    a = rng.normal(size=(n, n))
    return a @ a.T / n + np.eye(n)


def one_number(np, x):
    """Each iteration waits for the logarithm of the one before."""
    step = lambda s, row: (np.log(np.exp(0.9 * s) + np.exp(row[0])), s)
    return np.loop(step, x[0], (x,), len(x))[0]


SMALL = [
    Workload("softmax, 4000 x 100", softmax, lambda rng: (rng.normal(size=(4000, 100)),), 1),
    Workload("softmax, 100 x 10", softmax, lambda rng: (rng.normal(size=(100, 10)),), 1),
    Workload("two loops, 2000 steps", two_loops, lambda rng: (rng.normal(size=(2000, 8)),), 1, loops=True),
    Workload("distances, 500 x 3", distances, lambda rng: (rng.normal(size=(500, 3)),), 1),
    Workload("stencil, 20 x 5000", stencil, lambda rng: (rng.normal(size=5000),), 1),
    Workload("heat, 40 x 10^6", heat, lambda rng: (rng.normal(size=1_000_000),), 1),
    Workload("heat, 40 x 2048 x 2048", heat, lambda rng: (rng.normal(size=(2048, 2048)),), 1),
    Workload("write, 100000", written, lambda rng: (rng.normal(size=100_000),), 1),
    Workload("boundary values, 10 x 1000", boundary_values, lambda rng: (rng.normal(size=1000),), 1),
    Workload("logistic regression, 100000 x 50", logistic, lambda rng: (rng.normal(size=50), rng.normal(size=(100_000, 50))), 1),
    Workload("solve and slogdet, 100", solved, lambda rng: (definite(rng, 100), rng.normal(size=100)), 2),
    Workload(
        "solve, 1000 of 4 x 4",
        small_systems,
        lambda rng: (definite(rng, 4) + np.zeros((1000, 1, 1)), rng.normal(size=(1000, 4, 1))),
        2,
    ),
    Workload("Cholesky systems, 400 x 200", triangular, lambda rng: (definite(rng, 400), rng.normal(size=(400, 200))), 2),
    Workload("Cholesky systems, 12 x 3", triangular, lambda rng: (definite(rng, 12), rng.normal(size=(12, 3))), 2),
    Workload("log-determinant, 100", log_determinant, lambda rng: (definite(rng, 100),), 1),
    Workload(
        "triangular system, 400 x 10",
        triangular_system,
        lambda rng: (np.linalg.cholesky(definite(rng, 400)), rng.normal(size=(400, 10))),
        2,
    ),
    Workload("einsum, 50 x 60 x 40", contraction, lambda rng: (rng.normal(size=(50, 60, 40)), rng.normal(size=(40, 30))), 2),
    Workload("products of 4 x 4", small_products, lambda rng: (rng.normal(size=(4, 4)), rng.normal(size=(4, 4))), 2),
    Workload("products of 500 x 64 x 16", small_products, lambda rng: (rng.normal(size=(500, 64)), rng.normal(size=(64, 16))), 2),
    Workload("eigenvalues, 100", eigenvalues, lambda rng: (definite(rng, 100),), 1),
    Workload("rows of four, 20000", rotations, lambda rng: (rng.normal(size=(20_000, 4)),), 1),
    Workload("update, 100000, donated", updated, lambda rng: (rng.normal(size=100_000),), 0, kind="donated"),
    Workload("masks, 1500 x 1500", repulsion, lambda rng: (rng.normal(size=1500),), 1),
    Workload("table of 1000, a loop", table_in_a_loop, lambda rng: (rng.normal(size=1000),), 0, kind="value"),
    Workload("log of exp, 1000 steps", one_number, lambda rng: (rng.normal(size=1000),), 1, loops=True),
    Workload("20 products of 64 x 64", layers, lambda rng: (rng.normal(size=(64, 64)), rng.normal(size=(64, 64))), 2),
    Workload("pairs, 1500 x 8", pairs, lambda rng: (rng.normal(size=(1500, 8)),), 1),
    Workload("tanh, 100000", smooth, lambda rng: (rng.normal(size=100_000),), 1),
    Workload("sort, 10", sorted_sum, lambda rng: (rng.normal(size=10),), 1),
]
ALL = {w.name: w for w in (*SMALL, *WORKLOADS)}


def best(run, seconds, clock):
    """The least time of one call by this clock; short calls are timed in batches."""
    began = clock()
    run()
    single = clock() - began
    calls = max(1, min(10_000, int(2e-4 / max(single, 1e-8))))
    shortest = single
    while clock() - began < seconds:
        start = clock()
        for _ in range(calls):
            run()
        shortest = min(shortest, (clock() - start) / calls)
    return shortest


def measured(name, switches, seconds, threads):
    """In a process of its own: for each switch that changes the program, best times with and without."""
    import adjoint as ad
    from adjoint.compiler.switches import Switch, without

    clock = time.process_time if threads == 1 else time.perf_counter
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:THREADS])
    workload = ALL[name]
    inputs = inputs_of(workload)

    def ready(*off):
        with without(*off):
            prepared = prepare("adjoint", workload, inputs)
            ad.set_num_threads(threads)
            prepared.run()
            return prepared

    def compiling(*off):
        """Processor seconds of the first call, nothing cached."""
        began = time.process_time()
        with without(*off):
            prepare("adjoint", workload, inputs).run()
        return time.process_time() - began

    with without(Switch.PROGRAM_CACHE):
        full = ready()
        for switch in map(Switch, switches):
            if switch.value in FIRST_CALL:
                continue
            lacking = ready(switch)
            if lacking.text() == full.text() and switch.value not in TIMED_ALWAYS:
                continue
            times = [[], []]
            for _ in range(ROUNDS):
                for i, prepared in enumerate((full, lacking)):
                    times[i].append(best(prepared.run, seconds / ROUNDS, clock))
            report(switch.value, *times)
            if switch.value in COMPILING:
                os.environ["ADJOINT_CACHE_DIR"], before = "", os.environ["ADJOINT_CACHE_DIR"]
                report(f"{switch.value}, compiling", *zip(*[(compiling(), compiling(switch)) for _ in range(3)], strict=True))
                os.environ["ADJOINT_CACHE_DIR"] = before


def report(switch, on, off):
    print(json.dumps({"switch": switch, "on": min(on), "off": min(off)}), flush=True)


def first_call(name, switch, repeats=3):
    """The first call in a fresh process with an empty cache, or for `program_cache` with a full one: with and without."""
    found = {}
    for off in ("", switch):
        with tempfile.TemporaryDirectory() as folder:
            settings = {"ADJOINT_CACHE_DIR": folder, "ADJOINT_WITHOUT": off}
            if switch == "program_cache":
                run_one(name, settings)
            times = []
            for _ in range(repeats):
                times.append(run_one(name, settings))
                if switch != "program_cache":
                    for file in os.scandir(folder):
                        os.unlink(file)
            found[off] = min(times)
    return {"switch": f"{switch}, first call", "on": found[""], "off": found[switch]}


def tune_for(processor):
    """LLVM tunes its code for this processor, with the instructions of the one that runs it."""
    from adjoint.compiler.llvm import emit

    made, _, features = emit.target()
    emit.target = lambda: (made, processor, features)


def from_worker(name, switches, given, threads, cache):
    """What a process on this many threads measures of these switches."""
    command = [sys.executable, __file__, "--worker", name, "--only", ",".join(switches)]
    command += ["--seconds", str(given.seconds), "--threads", str(threads), "--processor", given.processor]
    settings = environment({"ADJOINT_CACHE_DIR": cache}, threads)
    run = subprocess.run(command, env=settings, stdout=subprocess.PIPE, text=True, check=False)
    if run.returncode:
        say(f"{name}: failed")
    return [json.loads(line) for line in run.stdout.splitlines()]


def run_one(name, settings):
    command = [sys.executable, __file__, "--first", name]
    return float(subprocess.run(command, env=environment(settings), capture_output=True, text=True, check=True).stdout)


def environment(more, threads=1):
    return {**os.environ, **dict.fromkeys(SETTINGS, str(threads)), **more}


def first(name):
    for module in ("adjoint.compiler.native", "adjoint.scipy.linalg", "adjoint.scipy.special"):  # loading is not measured
        importlib.import_module(module)
    workload = ALL[name]
    inputs = inputs_of(workload)
    began = time.perf_counter()
    prepare("adjoint", workload, inputs).run()
    print(time.perf_counter() - began)


def table(rows):
    """A row for each switch: its greatest gains, and the least."""
    by_switch = {}
    for row in rows:
        by_switch.setdefault(row["switch"], []).append((row["off"] / row["on"], row["workload"]))
    print("| optimisation | time without / with, where it gains most | least | workloads that it changes |\n|---|---|---|---|")
    for switch, found in sorted(by_switch.items()):
        found.sort(reverse=True)
        most = "; ".join(f"{ratio:.2f} {where}" for ratio, where in found[:3])
        print(f"| `{switch}` | {most} | {found[-1][0]:.2f} | {len(found)} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="")
    parser.add_argument("--workloads", default="")
    parser.add_argument("--seconds", type=float, default=0.3)
    parser.add_argument("--json")
    parser.add_argument("--processor", default="")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--threads", type=int, default=1, help=argparse.SUPPRESS)
    parser.add_argument("--first", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.first:
        first(given.first)
        return
    from adjoint.compiler.switches import Switch

    switches = given.only.split(",") if given.only else [switch.value for switch in Switch]
    if given.worker:
        if given.processor:
            tune_for(given.processor)
        measured(given.worker, switches, given.seconds, given.threads)
        return
    rows, cache = [], tempfile.mkdtemp()
    for name in ALL:
        if not re.search(given.workloads, name):
            continue
        found = []
        for threads, group in ((1, set(switches) - THREADED), (THREADS, THREADED & set(switches))):
            found += from_worker(name, sorted(group), given, threads, cache) if group else []
        found += [first_call(name, s) for s in switches if s in FIRST_CALL and name in COMPILED_AGAIN]
        for row in found:
            rows.append({**row, "workload": name})
            say(f"{name:40} {row['switch']:26} {row['off'] / row['on']:.2f} of {row['on'] * 1e6:.1f} µs")
        if given.json:
            with open(given.json, "w") as file:
                json.dump(rows, file)
    table(rows)


if __name__ == "__main__":
    main()
