"""Compiled derivatives against JAX, PyTorch, autograd and CasADi, in one run on one machine, two threads each
(ADJOINT_BENCHMARK_THREADS: another number).

    python benchmarks/compiled.py [--quick] [--only NAME] [--contenders adjoint,jax] [--json FILE] [--plot FILE]

Every contender runs each workload in a fresh process of its own, so that its first call is one, and thread pools do not meet.
The processes then take turns, one busy at a time, and the best time of each counts. All must compute the same numbers. A peer
that is not installed, that fails or that takes too long for its first call is left out, and the reason printed.

Besides the times: the first call (trace, differentiate, compile), after a trivial program was compiled; the same from the cache
on disk in a second process; the time of the derivatives over that of the function; where memory bounds the time, the speed
against that of copying as many bytes; where matrix products do, against those alone.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from contenders import CONTENDERS, THREADS, UnsuitedError, prepare
from workloads import WORKLOADS, Workload

SETTINGS = {
    **{f"{library}_NUM_THREADS": str(THREADS) for library in ("OMP", "OPENBLAS", "MKL", "NUMEXPR")},
    "NPROC": str(THREADS),  # XLA's pool
    "TF_CPP_MIN_LOG_LEVEL": "2",
    "JAX_PLATFORMS": "cpu",
}


def say(text):
    print(text, file=sys.stderr, flush=True)


def inputs_of(workload):
    return tuple(np.asarray(x) for x in workload.inputs(np.random.default_rng(0)))


# -- in the process of a contender ------------------------------------------------------------------------------


def work(name, contender, folder):
    """Answer requests, one per line: what to time, and for how many seconds. The first answer is about the first call."""
    lines = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # keep library output out of the answers
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:THREADS])
    workload = next(w for w in WORKLOADS if w.name == name)
    inputs = inputs_of(workload)
    try:
        prepared = prepare(contender, workload, inputs)
        began = time.perf_counter()
        result = prepared.run()
        first = time.perf_counter() - began
    except UnsuitedError as error:
        print(json.dumps({"skipped": str(error)}), file=lines)
        return
    except Exception as error:
        reason = str(error).strip().splitlines() or [""]
        print(json.dumps({"failed": f"{type(error).__name__}: {reason[0][:200]}"}), file=lines)
        raise
    np.savez(folder, *prepared.arrays(result))
    answer = {"first": first, "start": prepared.start}
    if prepared.steps:
        answer["steps"] = prepared.steps()
    print(json.dumps(answer), file=lines)
    products = workload.products
    runs = {"run": prepared.run, "function": prepared.function, "products": products and (lambda: products(*inputs))}
    for line in sys.stdin:
        request = json.loads(line)
        run = runs[request["what"]]
        print(json.dumps(best(run, request["seconds"]) if run else None), file=lines)


def best(run, seconds):
    """The best time of one call; short calls are timed in batches."""
    began = time.perf_counter()
    run()
    single = time.perf_counter() - began
    calls = max(1, min(10_000, int(2e-4 / max(single, 1e-8))))
    shortest = single
    while True:
        start = time.perf_counter()
        for _ in range(calls):
            run()
        end = time.perf_counter()
        shortest = min(shortest, (end - start) / calls)
        if end - began > seconds:
            return shortest


# -- the run ----------------------------------------------------------------------------------------------------


class Worker:
    """A contender's process."""

    def __init__(self, workload, contender, folder, cache):
        self.name = contender
        self.result = Path(folder) / f"{contender}.npz"
        own = {"ADJOINT_CACHE_DIR": cache, "TORCHINDUCTOR_CACHE_DIR": str(Path(folder) / "inductor")}
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--worker", contender, "--only", workload.name, "--result", str(self.result)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **SETTINGS, **own},
        )
        self.errors = []
        threading.Thread(target=lambda: self.errors.extend(self.process.stderr), daemon=True).start()

    def answer(self, limit):
        """The next answer; None if the process ended or took too long."""
        timer = threading.Timer(limit, self.process.kill)
        timer.start()
        line = self.process.stdout.readline()
        timer.cancel()
        return json.loads(line) if line else None

    def ask(self, what, seconds, limit=120):
        self.process.stdin.write(json.dumps({"what": what, "seconds": seconds}) + "\n")
        self.process.stdin.flush()
        return self.answer(limit)

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


def begun(workload, contender, folder, cache, limit):
    """A contender's process after its first call, and its answer; None and the reason if it failed."""
    worker = Worker(workload, contender, folder, cache)
    answer = worker.answer(limit)
    if answer is not None and "first" in answer:
        return worker, answer, None
    worker.close()
    code = worker.process.returncode
    if answer is None:
        return (
            None,
            None,
            f"no first call within {limit} s" if code == -9 else f"ended with {code}: {''.join(worker.errors[-3:])}",
        )
    return None, None, answer.get("skipped") or answer["failed"]


def differing(workload, ours, theirs):
    """The difference of two contenders' results, relative to the largest number of each array."""
    a, b = np.load(ours), np.load(theirs)
    if len(a.files) != len(b.files):
        return math.inf
    worst = 0.0
    for name in a.files:
        if a[name].shape != b[name].shape:
            return math.inf
        apart = np.max(np.abs(a[name] - b[name]), initial=0.0) / max(np.max(np.abs(b[name]), initial=0.0), 1e-300)
        worst = max(worst, float(apart) if np.isfinite(apart) else math.inf)
    return worst


def measure(workload: Workload, names, rounds, seconds, limit):
    row = {"workload": workload.name, "seconds": {}, "first": {}, "start": {}, "left_out": {}, "apart": {}}
    with tempfile.TemporaryDirectory() as folder:
        cache = str(Path(folder) / "cache")
        workers = []
        for name in names:
            worker, answer, reason = begun(workload, name, folder, cache, limit)
            if worker is None:
                row["left_out"][name] = reason
                say(f"    {name}: {reason}")
                continue
            workers.append(worker)
            row["first"][name], row["start"][name] = answer["first"], answer["start"]
            if "steps" in answer:
                row["steps"] = answer["steps"]
        times = {w.name: [] for w in workers}
        extra = {"function": [], "products": []}
        for turn in range(rounds):
            fastest = min((min(t) for t in times.values() if t), default=0.0)
            for worker in workers:
                taken = times[worker.name]
                if turn > 1 and taken and min(taken) > 20 * fastest and worker.name != "adjoint":
                    continue  # far behind: no need for more rounds
                found = worker.ask("run", seconds)
                if found is not None:
                    taken.append(found)
                if worker.name == "adjoint" and found is not None:
                    for what, list_ in extra.items():
                        other = worker.ask(what, seconds)
                        if other is not None:
                            list_.append(other)
        row["seconds"] = {name: min(t) for name, t in times.items() if t}
        row.update({what: min(t) for what, t in extra.items() if t})
        by_name = {w.name: w for w in workers}
        for worker in workers:
            worker.close()
        if "adjoint" in by_name:
            for worker in workers:
                if worker.name != "adjoint":
                    apart = row["apart"][worker.name] = differing(workload, by_name["adjoint"].result, worker.result)
                    if apart > workload.tolerance:
                        say(f"    DISAGREES: adjoint and {worker.name} are {apart:.1e} apart")
            again, answer, reason = begun(workload, "adjoint", folder, cache, limit)
            if again is None:
                row["left_out"]["adjoint from disk"] = reason
            else:
                row["first from disk"] = answer["first"]
                again.close()
    summarise(workload, row)
    return row


def summarise(workload, row):
    peers = {k: t for k, t in row["seconds"].items() if k != "adjoint"}
    if peers:
        row["best peer"] = min(peers, key=peers.get)
    ours = row["seconds"].get("adjoint")
    if ours is None:
        return
    if peers:
        row["ratio"] = ours / peers[row["best peer"]]
    if "function" in row:
        row["over function"] = ours / row["function"]
    if "products" in row:
        row["over products"] = ours / row["products"]
    if workload.traffic:
        row["of copy speed"] = copying(workload.traffic) / ours


def copying(traffic):
    """Seconds to read and write so many bytes, half each, with all threads."""
    source = np.ones(traffic // 16)
    target = np.empty_like(source)
    pieces = [slice(i * len(source) // THREADS, (i + 1) * len(source) // THREADS) for i in range(THREADS)]
    with ThreadPoolExecutor(THREADS) as pool:
        return best(lambda: list(pool.map(lambda piece: np.copyto(target[piece], source[piece]), pieces)), 0.3)


# -- what is shown ----------------------------------------------------------------------------------------------


def duration(seconds):
    if seconds is None:
        return "-"
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e9:.0f} ns"


def table(rows):
    head = ["workload", "adjoint", "best peer", "", "ratio", "first", "jax's", "disk", "∇f/f", "of copy", "/BLAS", "NumPy calls"]
    lines = [head]
    for row in rows:
        peer = row.get("best peer", "-")
        number = lambda key: f"{row[key]:.2f}" if key in row else "-"
        lines.append(
            [
                row["workload"],
                duration(row["seconds"].get("adjoint")),
                peer,
                duration(row["seconds"].get(peer)),
                number("ratio"),
                duration(row["first"].get("adjoint")),
                duration(row["first"].get("jax")),
                duration(row.get("first from disk")),
                number("over function"),
                number("of copy speed"),
                number("over products"),
                str(sum(row["steps"]["foreign"].values())) if "steps" in row else "-",
            ]
        )
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        print(
            "  ".join(
                cell.ljust(w) if i in (0, 2) else cell.rjust(w) for i, (cell, w) in enumerate(zip(line, widths, strict=True))
            )
        )


def verdicts(rows):
    """A summary, with the workloads where we are behind."""
    ratios = {row["workload"]: row["ratio"] for row in rows if "ratio" in row}
    if ratios:
        mean = math.exp(sum(map(math.log, ratios.values())) / len(ratios))
        print(f"geometric mean of our time over that of the best peer: {mean:.2f} ({1 / mean:.2f} times ahead)")
    checks = (
        ("slower than the best peer", lambda r: r.get("ratio", 0) > 1),
        ("first call over half of jax's", lambda r: r["first"].get("adjoint", 0) > 0.5 * r["first"].get("jax", math.inf)),
        ("first call from disk over 20 ms", lambda r: r.get("first from disk", 0) > 0.02),
        ("derivatives over 3 times the function", lambda r: r.get("over function", 0) > 3),
        ("below 1/1.3 of the speed of copying", lambda r: r.get("of copy speed", 1) < 1 / 1.3),
        ("over 1.1 times the matrix products", lambda r: r.get("over products", 1) > 1.1),
        ("not run", lambda r: "adjoint" in r["left_out"]),
    )
    for title, holds in checks:
        behind = [row["workload"] for row in rows if holds(row)]
        print(f"{title}: {'; '.join(behind) if behind else 'none'}")
    bounds = {w.name: w.tolerance for w in WORKLOADS}
    wrong = [f"{r['workload']} ({k}: {v:.1e})" for r in rows for k, v in r["apart"].items() if v > bounds[r["workload"]]]
    print(f"results that disagree: {'; '.join(wrong) if wrong else 'none'}")
    return not wrong


def plot(rows, path):
    """A picture of all times over ours, on a logarithmic axis."""
    shown = [row for row in rows if "adjoint" in row["seconds"]]
    colours = {"jax": "#c44e52", "torch": "#dd8452", "torch.compile": "#8172b3", "autograd": "#937860", "casadi": "#4c72b0"}
    left, right, height, low, high = 290, 900, 26, -1.0, 3.0

    def x(ratio):
        return left + (right - left) * (min(max(math.log10(ratio), low), high) - low) / (high - low)

    bottom = 50 + height * len(shown)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="940" height="{bottom + 40}" font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for power in range(int(low), int(high) + 1):
        at, label = x(10.0**power), f"{10.0**power:g}×"
        parts.append(f'<line x1="{at:.0f}" x2="{at:.0f}" y1="40" y2="{bottom}" stroke="#ddd"/>')
        parts.append(f'<text x="{at:.0f}" y="{bottom + 16}" text-anchor="middle">{label}</text>')
    parts.append(f'<line x1="{x(1):.0f}" x2="{x(1):.0f}" y1="40" y2="{bottom}" stroke="black" stroke-width="2"/>')
    parts.append(
        f'<text x="{left}" y="{bottom + 34}">time of a peer over that of adjoint (right of the line: adjoint is ahead)</text>'
    )
    for i, (name, colour) in enumerate(colours.items()):
        parts.append(f'<circle cx="{left + 110 * i}" cy="20" r="5" fill="{colour}"/>')
        parts.append(f'<text x="{left + 10 + 110 * i}" y="24">{name}</text>')
    for i, row in enumerate(shown):
        y = 50 + height * i + height / 2
        parts.append(f'<text x="{left - 12}" y="{y + 4:.0f}" text-anchor="end">{row["workload"]}</text>')
        for name, seconds in row["seconds"].items():
            if name in colours:
                parts.append(
                    f'<circle cx="{x(seconds / row["seconds"]["adjoint"]):.1f}" cy="{y:.0f}" r="5" fill="{colours[name]}"/>'
                )
    Path(path).write_text("\n".join([*parts, "</svg>\n"]))


def processor():
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", help="write the figures to this file")
    parser.add_argument("--plot", help="write a picture (SVG) to this file")
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--only", action="append", default=[], help="a workload, or part of its name; may be repeated")
    parser.add_argument("--contenders", help="some of: " + ",".join(CONTENDERS))
    parser.add_argument("--limit", type=float, default=180.0, help="seconds that a first call may take")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--result", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options.only[0], options.worker, options.result)
        return 0
    asked = options.contenders.split(",") if options.contenders else list(CONTENDERS)
    names = [name for name in asked if find_spec(CONTENDERS[name][0])]
    rounds, seconds = (3, 0.05) if options.quick else (15, 0.1)
    print(f"{processor()}, {THREADS} threads, Python {platform.python_version()}, NumPy {np.__version__}, {', '.join(names)}")
    rows = []
    for workload in WORKLOADS:
        if not options.only or any(part.lower() in workload.name.lower() for part in options.only):
            say(f"  {workload.name}")
            rows.append(measure(workload, names, rounds, seconds, options.limit))
            row = rows[-1]
            say(
                "    "
                + ", ".join(f"{k} {duration(t)}" for k, t in row["seconds"].items())
                + f"   ratio {row.get('ratio', math.nan):.2f}"
            )
            if options.json:
                Path(options.json).write_text(json.dumps(rows, indent=2))
    table(rows)
    agree = verdicts(rows)
    if options.plot:
        plot(rows, options.plot)
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main())
