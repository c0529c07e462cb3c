"""Gradients on a GPU against JAX, PyTorch and torch.compile, in one run on one GPU.

    python benchmarks/gpu.py [--contenders adjoint,jax] [--only WORDS] [--more] [--seconds 1] [--precision tf32] [--json FILE]
    python benchmarks/gpu.py --simulate      # small sizes in the simulator, against the CPU: needs no GPU

Each contender runs in a process of its own, one after the other, with nothing in its caches on disk. Inputs are on the GPU; a
time is the median of calls, each waited for. The first call compiles; each contender has compiled x + 1 before. Where memory
bounds the time, the share of the GPU's copy bandwidth is given: the bytes that must be read or written once, over the time,
against a copy of 2^27 doubles.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import types
from pathlib import Path
from typing import Any

import numpy
from contenders import Namespace, flat
from gpu_workloads import MORE, WORKLOADS, chosen, inputs_of

HERE = Path(__file__).parent


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
    for workload in (*WORKLOADS, *MORE):
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
    for workload in (*WORKLOADS, *MORE):
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
    from adjoint.core.tree import flatten

    sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
    from simulator import Simulator

    for workload in (*WORKLOADS, *MORE):
        if workload.name not in names:
            continue
        inputs = inputs_of(workload, True)
        derivatives = our_derivatives(workload)
        path = ad.jit(derivatives).lower(*inputs)
        program = compiled(path.graph, Simulator(), weak=path.weak, guarded=bool(path.guards), unread=path.unread)
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
    parser.add_argument("--more", action="store_true", help="workloads of other kinds as well")
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--precision", default="highest", choices=["highest", "tf32"])
    parser.add_argument("--json", default="")
    parser.add_argument("--simulate", action="store_true")
    parser.add_argument("--work", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    words = [word for word in options.only.split(",") if word]
    asked = (*WORKLOADS, *MORE) if options.more or words else WORKLOADS
    names = [w.name for w in asked if not words or any(word in w.name for word in words)]
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
                name: os.path.join(cache, name)
                for name in ("ADJOINT_CACHE_DIR", "CUPY_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")
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
