"""Gradients on a GPU against JAX, PyTorch and torch.compile, in one run on one GPU.

    python benchmarks/gpu.py [--contenders adjoint,jax] [--only WORDS] [--seconds 1] [--precision tf32] [--json FILE]
    python benchmarks/gpu.py --simulate      # small sizes in the simulator, against the CPU: needs no GPU

Each contender runs in a process of its own, one after the other, with nothing in its caches on disk. Inputs are on the GPU; a
time is the median of calls, each waited for. The first call compiles; each contender has compiled x + 1 before. Where memory
bounds the time, the share of the GPU's copy bandwidth is given: the bytes that must be read or written once, over the time,
against a copy of 2^27 doubles.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
import types
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
from contenders import Namespace, flat
from workloads import (
    black_scholes,
    gaussian_process,
    heat,
    lennard_jones,
    logistic,
    mixture,
    perceptron,
    reprojection,
    rosenbrock,
    tiny,
)

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Workload:
    name: str
    function: Callable[..., Any]
    inputs: Callable[[numpy.random.Generator, bool], tuple[Any, ...]]  # small if the flag is set
    differentiated: int = 1
    kind: str = "gradient"
    bytes: int = 0  # minimum memory traffic, at full size
    to_reach: float = math.nan  # milliseconds
    loops: bool = False
    tolerance: float = 1e-9


def sum_of_sines(np, x):
    return np.sum(np.sin(x))


def chain_of_sines(np, x):
    y = x
    for _ in range(100):
        y = np.sin(y)
    return np.sum(y)


def lorenz(np, start):
    """200 Runge-Kutta steps for many trajectories; the sum of squares of the last states."""
    sigma, rho, beta, h = 10.0, 28.0, 8 / 3, 0.01

    def slope(s):
        x, y, z = s
        return sigma * (y - x), x * (rho - z) - y, x * y - beta * z

    def moved(s, k, by):
        return tuple(a + by * b for a, b in zip(s, k, strict=True))

    def step(s, _):
        k1 = slope(s)
        k2 = slope(moved(s, k1, 0.5 * h))
        k3 = slope(moved(s, k2, 0.5 * h))
        k4 = slope(moved(s, k3, h))
        return tuple(a + h / 6 * (p + 2 * q + 2 * r + t) for a, p, q, r, t in zip(s, k1, k2, k3, k4, strict=True)), None

    x, y, z = np.loop(step, (start[0], start[1], start[2]), None, 200)[0]
    return np.sum(x * x + y * y + z * z)


def heat_100(np, u, diffusivity):
    return heat(np, u, diffusivity, steps=100)


def attention(np, q, k, v):
    scores = np.matmul(q, np.swapaxes(k, -1, -2)) * (1 / math.sqrt(q.shape[-1]))
    shifted = np.exp(scores - np.logsumexp_kept(scores))
    out = np.matmul(shifted, v)
    return np.sum(out * out)


def normal(*shape, dtype=float):
    return lambda rng: rng.standard_normal(shape).astype(dtype)


def sized(full, small):
    return lambda rng, is_small: tuple(make(rng) for make in (small if is_small else full))


def layers(*sizes):
    found = []
    for m, n in itertools.pairwise(sizes):
        found += [lambda rng, m=m, n=n: (rng.standard_normal((m, n)) / math.sqrt(m)).astype("f"), normal(n, dtype="f")]
    return found


def one_hot(n):
    return lambda rng: numpy.eye(10, dtype="f")[rng.integers(0, 10, n)]


def options(n):
    bounds = ((80, 120), (80, 120), (0.2, 2), (0.01, 0.05), (0.1, 0.5))
    return [lambda rng, b=b: rng.uniform(*b, n) for b in bounds]


def gaussians(n, d, k):
    return [normal(k), normal(k, d), lambda rng: 0.3 * rng.standard_normal((k, d * (d + 1) // 2)), normal(n, d)]


def particles(n):
    side = math.ceil(n ** (1 / 3))

    def make(rng):
        axis = numpy.arange(float(side))
        grid = numpy.stack(numpy.meshgrid(axis, axis, axis), axis=-1).reshape(-1, 3)[:n]
        return 1.2 * grid + 0.1 * rng.uniform(-1, 1, grid.shape)

    return [make]


def process(n):
    return [
        lambda rng: numpy.array([0.1, 0.2, 0.3, 0.4]),
        lambda rng: numpy.array(0.5),
        lambda rng: numpy.array(-3.0),
        lambda rng: rng.uniform(-2, 2, (n, 4)),
        normal(n),
    ]


def sightings(n):
    centre = numpy.array([0.5, -0.4, 0.3, 0, 0, -5, 500, 320, 240, 0.01, 0.001])
    return [lambda rng: rng.standard_normal((n, 11)) * 0.1 + centre, normal(n, 3)]


N = 1 << 26
WORKLOADS = [
    Workload("sum of sines, 2^26", sum_of_sines, sized([normal(N)], [normal(5001)]), bytes=16 * N, to_reach=0.32),
    Workload("Rosenbrock, 2^26", rosenbrock, sized([normal(N)], [normal(5001)]), bytes=16 * N, to_reach=0.36),
    Workload("Black-Scholes, 5 x 10^7", black_scholes, sized(options(10**7), options(999)), 5, bytes=80 * 10**7, to_reach=0.42),
    Workload(
        "logistic regression, 10^6 x 100",
        logistic,
        sized(
            [normal(100), normal(10**6, 100), lambda rng: rng.choice([-1.0, 1.0], 10**6)],
            [normal(100), normal(3000, 100), lambda rng: rng.choice([-1.0, 1.0], 3000)],
        ),
        bytes=808 * 10**6,
        to_reach=0.35,
    ),
    Workload("chain of 100 sines, 10^6", chain_of_sines, sized([normal(10**6)], [normal(1001)]), to_reach=1.5),
    Workload(
        "Gaussian mixture, n=50000 d=20 K=25", mixture, sized(gaussians(50_000, 20, 25), gaussians(300, 5, 4)), 3, to_reach=1.2
    ),
    Workload("Lennard-Jones, 6000 particles", lennard_jones, sized(particles(6000), particles(60)), to_reach=0.4),
    Workload(
        "perceptron 784-2048-2048-10, 8192, float32",
        perceptron,
        sized(
            [*layers(784, 2048, 2048, 10), normal(8192, 784, dtype="f"), one_hot(8192)],
            [*layers(30, 40, 40, 10), normal(64, 30, dtype="f"), one_hot(64)],
        ),
        6,
        to_reach=5.2,
        tolerance=2e-3,
    ),
    Workload("Lorenz, 200 steps, 10^5 trajectories", lorenz, sized([normal(3, 10**5)], [normal(3, 77)]), to_reach=2, loops=True),
    Workload(
        "heat equation, 2048^2, 100 steps",
        heat_100,
        sized(
            [lambda rng: rng.uniform(size=(2048, 2048)), lambda rng: rng.uniform(0.1, 0.2, (2048, 2048))],
            [lambda rng: rng.uniform(size=(30, 40)), lambda rng: rng.uniform(0.1, 0.2, (30, 40))],
        ),
        to_reach=6,
        loops=True,
    ),
    Workload(
        "heat equation, and by the diffusivity",
        heat_100,
        sized(
            [lambda rng: rng.uniform(size=(2048, 2048)), lambda rng: rng.uniform(0.1, 0.2, (2048, 2048))],
            [lambda rng: rng.uniform(size=(30, 40)), lambda rng: rng.uniform(0.1, 0.2, (30, 40))],
        ),
        2,
        loops=True,
    ),
    Workload("Gaussian process, n=3000", gaussian_process, sized(process(3000), process(150)), 3, to_reach=7, tolerance=1e-6),
    Workload(
        "bundle adjustment, 500000 Jacobians",
        reprojection,
        sized(sightings(500_000), sightings(301)),
        2,
        kind="jacobians",
        bytes=8 * 500_000 * (14 + 28),
        to_reach=0.5,
    ),
    Workload(
        "attention 16 x 16 x 512 x 64, float32",
        attention,
        sized([normal(16, 16, 512, 64, dtype="f")] * 3, [normal(2, 3, 40, 8, dtype="f")] * 3),
        3,
        to_reach=1.4,
        tolerance=2e-3,
    ),
    Workload("call, 3 elements", tiny, sized([normal(3)], [normal(3)]), to_reach=0.015),
]


def inputs_of(workload, small):
    return workload.inputs(numpy.random.default_rng(0), small)


def chosen(workload):
    return 0 if workload.differentiated == 1 else tuple(range(workload.differentiated))


# -- contenders: each gives a function that computes the derivatives, one that waits, and one that fetches --------------------


def derivatives_of(ad, f, workload):
    return ad.grad(f, chosen(workload)) if workload.kind == "gradient" else ad.vmap(ad.jacrev(f, chosen(workload)))


def our_derivatives(workload):
    import scipy.special

    import adjoint as ad
    import adjoint.scipy.linalg
    import adjoint.scipy.special

    np = types.ModuleType("names")  # as a user's module: the guards of its names are short
    np.__dict__.update(
        vars(numpy),
        erf=scipy.special.erf,
        logsumexp=adjoint.scipy.special.logsumexp,
        logsumexp_kept=lambda x: adjoint.scipy.special.logsumexp(x, axis=-1, keepdims=True),
        solve_triangular=lambda a, b: adjoint.scipy.linalg.solve_triangular(a, b, lower=True),
        constant=lambda build, n: build(n),  # part of the program; a cache outside would make the function impure
        loop=ad.scan,
    )
    return derivatives_of(ad, lambda *args: workload.function(np, *args), workload)


def with_adjoint(workload, inputs, precision):
    import adjoint as ad
    from adjoint.device.gpu import cupy

    xp = cupy()
    held = [xp.asarray(x) for x in inputs]
    ad.jit(lambda x: x + 1.0)(xp.zeros(3))
    xp.cuda.Device().synchronize()
    compiled = ad.jit(our_derivatives(workload), precision=precision)
    wait = xp.cuda.Device().synchronize
    return lambda: compiled(*held), lambda _: wait(), lambda ys: [xp.asnumpy(y) for y in flat(ys)]


def with_jax(workload, inputs, precision):
    import jax

    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_default_matmul_precision", "highest" if precision == "highest" else "tensorfloat32")
    import jax.numpy as jnp
    import jax.scipy.linalg
    import jax.scipy.special

    np = Namespace(
        jnp,
        jnp.asarray,
        erf=jax.scipy.special.erf,
        logsumexp=jax.scipy.special.logsumexp,
        logsumexp_kept=lambda x: jax.scipy.special.logsumexp(x, axis=-1, keepdims=True),
        solve_triangular=lambda a, b: jax.scipy.linalg.solve_triangular(a, b, lower=True),
        loop=jax.lax.scan,
    )
    held = [jnp.asarray(x) for x in inputs]
    jax.block_until_ready([held, jax.jit(lambda x: x + 1.0)(jnp.zeros(3))])
    compiled = jax.jit(derivatives_of(jax, lambda *args: workload.function(np, *args), workload))
    return lambda: compiled(*held), jax.block_until_ready, lambda ys: [numpy.asarray(y) for y in flat(ys)]


def with_torch(workload, inputs, precision, compiling=False):
    import torch
    from contenders import torch_namespace

    if compiling and workload.loops:
        raise NotImplementedError("it would unroll the loop")
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    np = torch_namespace(torch)
    np._array = lambda x: torch.as_tensor(x, device="cuda")
    np.logsumexp_kept = lambda x: torch.logsumexp(x, dim=-1, keepdim=True)
    held = [torch.tensor(x, device="cuda") for x in inputs]
    leaves = [x.requires_grad_() for x in held[: workload.differentiated]]
    function = lambda *args: workload.function(np, *args)
    if compiling:
        function(*held)  # the constants
    g = torch.compile(function) if compiling else function
    if workload.kind == "gradient":
        run = lambda: torch.autograd.grad(g(*held), leaves)
    elif compiling:
        g = torch.compile(torch.func.vmap(torch.func.jacrev(function, tuple(range(workload.differentiated)))))
        still = [x.detach() for x in held]
        run = lambda: g(*still)
    else:

        def run():
            residuals = g(*held)
            rows = [torch.autograd.grad(residuals[:, i].sum(), leaves, retain_graph=i == 0) for i in range(2)]
            return [torch.stack(pair, 1) for pair in zip(*rows, strict=True)]

    return run, lambda _: torch.cuda.synchronize(), lambda ys: [y.detach().cpu().numpy() for y in flat(ys)]


CONTENDERS = {
    "adjoint": with_adjoint,
    "jax": with_jax,
    "torch": with_torch,
    "torch.compile": lambda *args: with_torch(*args, compiling=True),
}


def measure(contender, workload, seconds, precision):
    """Milliseconds: the first call, the median and the least of the others; and sums to compare the results."""
    run, wait, fetch = CONTENDERS[contender](workload, inputs_of(workload, False), precision)
    began = time.perf_counter()
    result = run()
    wait(result)
    first = time.perf_counter() - began
    values = [[float(numpy.sum(y, dtype=float)), float(numpy.linalg.norm(y.ravel().astype(float)))] for y in fetch(result)]
    del result
    times = []
    end = time.perf_counter() + seconds
    while len(times) < 5 or (time.perf_counter() < end and len(times) < 2000):
        began = time.perf_counter()
        wait(run())
        times.append(time.perf_counter() - began)
    return {"first": first * 1e3, "median": statistics.median(times) * 1e3, "least": min(times) * 1e3, "values": values}


def work(contender, names, seconds, precision):
    """In the process of a contender: a line of JSON for each workload."""
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # keep library output out of the answers
    for workload in WORKLOADS:
        if workload.name in names:
            try:
                answer = measure(contender, workload, seconds, precision)
            except Exception as error:
                answer = {"error": f"{type(error).__name__}: {error}"[:1500]}
            out.write(json.dumps({"contender": contender, "workload": workload.name, **answer}) + "\n")


def copy_bandwidth():
    """Bytes a second, read and written."""
    from adjoint.device.gpu import cupy

    cp = cupy()
    x = cp.random.standard_normal(1 << 27)
    y = cp.empty_like(x)
    times = []
    for _ in range(30):
        begin, end = cp.cuda.Event(), cp.cuda.Event()
        begin.record()
        cp.copyto(y, x)
        end.record()
        end.synchronize()
        times.append(cp.cuda.get_elapsed_time(begin, end))
    return 2 * x.nbytes / (statistics.median(times) * 1e-3)


def same(a, b, tolerance):
    return len(a) == len(b) and all(
        abs(p - q) <= tolerance * max(abs(s), abs(n), 1e-300) for (s, n), (t, m) in zip(a, b, strict=True) for p, q in ((n, m),)
    )


def table(found, bandwidth):
    contenders = list(dict.fromkeys(c for row in found.values() for c in row))
    print(f"{'milliseconds':44}" + "".join(f"{c:>15}" for c in contenders) + f"{'to reach':>10}{'of copy':>9}   first calls (s)")
    for workload in WORKLOADS:
        row = found.get(workload.name)
        if row is None:
            continue
        cells = "".join(f"{row[c]['median']:15.3f}" if "median" in row.get(c, {}) else f"{'-':>15}" for c in contenders)
        own = row.get("adjoint", {}).get("median")
        share = f"{workload.bytes / bandwidth / own * 1e3:9.0%}" if bandwidth and own and workload.bytes else f"{'':9}"
        firsts = "".join(f"{row[c]['first'] / 1e3:7.2f}" if "first" in row.get(c, {}) else f"{'-':>7}" for c in contenders)
        print(f"{workload.name:44}{cells}{workload.to_reach:10.3f}{share}   {firsts}")
        values = {c: row[c]["values"] for c in contenders if "values" in row.get(c, {})}
        for c, v in values.items():
            if not same(v, next(iter(values.values())), workload.tolerance):
                print(f"    {c} computes something else: {v[:3]} against {next(iter(values.values()))[:3]}")
        for c in contenders:
            if "error" in row.get(c, {}):
                print(f"    {c}: {row[c]['error'].splitlines()[0][:300]}")


def simulate(names):
    """All workloads, small, in the simulator: equal to the CPU up to rounding."""
    import adjoint as ad
    from adjoint.compiler.cuda.program import compiled
    from adjoint.compiler.cuda.simulator import Simulator
    from adjoint.core.tree import flatten

    for workload in WORKLOADS:
        if workload.name not in names:
            continue
        inputs = inputs_of(workload, True)
        derivatives = our_derivatives(workload)
        path = ad.jit(derivatives).lower(*inputs)
        program = compiled(path.graph, Simulator(), weak=path.weak, guarded=bool(path.guards))
        leaves = [*inputs, *path.outside()[0]]
        found = program(*[program.device.adopt(x, t) for x, t in zip(leaves, path.graph.input_types, strict=True)])
        wanted = flatten(ad.jit(derivatives)(*inputs))[0]
        worst = max(
            float(numpy.max(numpy.abs(a - b)) / max(numpy.max(numpy.abs(b)), 1e-300)) for a, b in zip(found, wanted, strict=True)
        )
        kinds = [type(step).__name__ for step in program.lowered.steps]
        counts = ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds))
        print(f"{workload.name:44} {worst:9.1e}   {counts}")
        assert worst < workload.tolerance * 10, workload.name


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--contenders", default="adjoint,jax,torch,torch.compile")
    parser.add_argument("--only", default="", help="workloads whose names hold one of these words, separated by commas")
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--precision", default="highest", choices=["highest", "tf32"])
    parser.add_argument("--json", default="")
    parser.add_argument("--simulate", action="store_true")
    parser.add_argument("--work", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    words = [word for word in options.only.split(",") if word]
    names = [w.name for w in WORKLOADS if not words or any(word in w.name for word in words)]
    if options.simulate:
        return simulate(names)
    if options.work:
        return work(options.work, names, options.seconds, options.precision)
    found: dict[str, dict[str, Any]] = {}
    environment = {**os.environ, "XLA_PYTHON_CLIENT_PREALLOCATE": "false", "TF_CPP_MIN_LOG_LEVEL": "2"}
    for contender in options.contenders.split(","):
        command = [sys.executable, __file__, *sys.argv[1:], "--work", contender]
        with tempfile.TemporaryDirectory() as cache:
            own = {
                name: os.path.join(cache, name) for name in ("ADJOINT_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")
            }
            child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**environment, **own})
            assert child.stdout is not None
            for line in child.stdout:
                if line.startswith("{"):
                    answer = json.loads(line)
                    found.setdefault(answer["workload"], {})[contender] = answer
                    what = answer.get("error") or f"{answer['median']:.4f} ms, the first call {answer['first'] / 1e3:.2f} s"
                    print(f"{contender}: {answer['workload']}: {what}", file=sys.stderr, flush=True)
            child.wait()
        if options.json:
            Path(options.json).write_text(json.dumps(found, indent=1))
    table(found, copy_bandwidth())
    return None


if __name__ == "__main__":
    sys.exit(main())
