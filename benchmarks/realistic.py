"""Programs as people write them (`programs.py`): our compiled gradient, NumPy's function, and gradients by JAX and PyTorch.

    python benchmarks/realistic.py [name …] [--contenders adjoint,jax] [--seconds 0.5] [--json FILE]

Ours is the text as it stands, with loops of Python and writes in place. JAX has its own loops and updates. NumPy computes the
function alone. Each contender runs in a process of its own; a time is the least of many calls, a first call has an empty cache.
JAX is that of the interpreter which ADJOINT_JAX_PYTHON names, if it is set.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy
from programs import PROGRAMS, arguments


class Space:
    """A library's functions, with a few more."""

    def __init__(self, library, **more):
        self._library = library
        self.__dict__.update(more)

    def __getattr__(self, name):
        return getattr(self._library, name)


def written(a, at, v):
    a[at] = v
    return a


def added(a, at, v):
    numpy.add.at(a, at, v)
    return a


def looped(stack):
    """A loop of Python's, whose results are stacked by a function of the library."""

    def loop(step, carry, xs):
        ys = []
        for row in zip(*xs, strict=True) if isinstance(xs, tuple) else xs:
            carry, y = step(carry, row)
            ys.append(y)
        return carry, None if ys[0] is None else stack(ys)

    return loop


def with_numpy(f, args):
    np = Space(numpy, loop=looped(numpy.stack), put=written, add_at=added)
    return lambda: f(np, *args)


def with_adjoint(f, args):
    import adjoint as ad
    import adjoint.numpy as anp

    def summed(a, at, v):
        anp.add.at(a, at, v)
        return a

    np = Space(anp, loop=looped(anp.stack), put=written, add_at=summed)
    gradient = ad.jit(ad.grad(lambda *args: f(np, *args)))
    return lambda: gradient(*args)


def with_jax(f, args):
    import jax

    jax.config.update("jax_enable_x64", True)
    np = Space(
        jax.numpy,
        loop=lambda step, carry, xs: jax.lax.scan(step, carry, xs),
        put=lambda a, at, v: a.at[at].set(v),
        add_at=lambda a, at, v: a.at[at].add(v),
    )
    gradient = jax.jit(jax.grad(lambda *args: f(np, *args)))
    held = [jax.numpy.asarray(x) for x in args]
    return lambda: jax.block_until_ready(gradient(*held))


def with_torch(f, args):
    import torch

    def written(a, at, v):
        a = a.clone()
        a[at] = v
        return a

    def along(name):
        own = getattr(torch, name)
        return lambda x, axis=None, keepdims=False: own(x) if axis is None else own(x, dim=axis, keepdim=keepdims)

    def greatest(x, axis=None, keepdims=False):
        return torch.amax(x, dim=() if axis is None else axis, keepdim=keepdims)

    both = lambda own: lambda a, b: own(*(torch.as_tensor(x, dtype=torch.float64) for x in (a, b)))
    np = Space(
        torch,
        loop=looped(torch.stack),
        put=written,
        add_at=lambda a, at, v: a.index_put(at, v, accumulate=True),
        zeros=lambda shape: torch.zeros(shape, dtype=torch.float64),
        ones=lambda shape: torch.ones(shape, dtype=torch.float64),
        eye=lambda n: torch.eye(n, dtype=torch.float64),
        array=lambda x: torch.tensor(x, dtype=torch.float64),
        asarray=torch.as_tensor,
        concatenate=lambda xs, axis=0: torch.cat(xs, dim=axis),
        sum=along("sum"),
        mean=along("mean"),
        max=greatest,
        var=lambda x, axis, keepdims: torch.var(x, dim=axis, keepdim=keepdims, correction=0),
        maximum=both(torch.maximum),
        minimum=both(torch.minimum),
        exp=lambda x: torch.exp(torch.as_tensor(x)),
        cross=lambda a, b: torch.linalg.cross(a, b),
        roll=lambda x, by, axis: torch.roll(x, by, dims=axis),
        cumsum=lambda x, axis: torch.cumsum(x, dim=axis),
        cumprod=lambda x, axis: torch.cumprod(x, dim=axis),
        swapaxes=torch.transpose,
        searchsorted=lambda a, x: torch.searchsorted(a, x.detach()),
        fft=SimpleNamespace(rfft=torch.fft.rfft, irfft=torch.fft.irfft),
    )
    held = [torch.tensor(x) for x in args]
    held[0].requires_grad_()
    return lambda: torch.autograd.grad(f(np, *held), held[0])


CONTENDERS = {"numpy": with_numpy, "adjoint": with_adjoint, "jax": with_jax, "torch": with_torch}


def measure(contender, name, seconds):
    """Seconds of the first call and of the fastest, and the result."""
    run = CONTENDERS[contender](PROGRAMS[name][0], arguments(name))
    began = time.perf_counter()
    result = run()
    first = time.perf_counter() - began
    times = []
    end = time.perf_counter() + seconds
    while len(times) < 3 or (time.perf_counter() < end and len(times) < 5000):
        began = time.perf_counter()
        run()
        times.append(time.perf_counter() - began)
    found = result[0] if isinstance(result, tuple) else result
    return {"first": first, "least": min(times), "norm": float(numpy.linalg.norm(numpy.asarray(found)))}


def work(contender, names, seconds):
    """In the process of a contender: a line of JSON for each program."""
    warnings.simplefilter("ignore")
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    for name in names:
        try:
            answer = measure(contender, name, seconds)
        except Exception as error:  # of a peer that lacks something; it is shown
            answer = {"error": f"{type(error).__name__}: {error}"[:300]}
        out.write(json.dumps({"program": name, **answer}) + "\n")


def shown(seconds):
    return f"{seconds * 1e3:10.3f}" if seconds is not None else f"{'-':>10}"


def table(found):
    contenders = list(dict.fromkeys(c for row in found.values() for c in row))
    print(f"{'milliseconds':20}" + "".join(f"{c:>10}" for c in contenders) + "   to NumPy  to best peer   first calls (s)")
    ratios, behind, behind_numpy, slow_first = [], [], [], []
    for name, row in found.items():
        least = {c: row[c].get("least") for c in contenders if c in row}
        ours, plain = least.get("adjoint"), least.get("numpy")
        peers = [t for c, t in least.items() if c not in ("adjoint", "numpy") and t is not None]
        to_best = min(peers) / ours if peers and ours else math.nan
        to_numpy = plain / ours if plain and ours else math.nan
        firsts = " ".join(f"{row[c]['first']:.2f}" if "first" in row.get(c, {}) else "-" for c in contenders)
        print(f"{name:20}" + "".join(shown(least.get(c)) for c in contenders) + f"{to_numpy:11.2f}{to_best:14.2f}   {firsts}")
        if not math.isnan(to_best):
            ratios.append(to_best)
            behind += [name] * (to_best < 1)
        behind_numpy += [name] * (to_numpy < 1)
        if "first" in row.get("jax", {}) and "first" in row.get("adjoint", {}):
            slow_first += [name] * (row["adjoint"]["first"] > row["jax"]["first"])
        norms = {c: row[c]["norm"] for c in contenders if c != "numpy" and "norm" in row.get(c, {})}
        for c, norm in norms.items():
            if abs(norm - next(iter(norms.values()))) > 1e-6 * abs(norm):
                print(f"    {c} computes something else: {norm} against {next(iter(norms.values()))}")
        for c in contenders:
            if "error" in row.get(c, {}):
                print(f"    {c}: {row[c]['error'].splitlines()[0][:160]}")
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(f"\n{len(ratios)} programs, {mean:.2f} times as fast as the best peer in the geometric mean")
        print(f"behind the best peer: {', '.join(behind) or 'none'}")
    print(f"behind NumPy's function: {', '.join(behind_numpy) or 'none'}")
    print(f"first call longer than JAX's: {', '.join(slow_first) or 'none'}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="programs; all if none is given")
    parser.add_argument("--contenders", default="numpy,adjoint,jax,torch")
    parser.add_argument("--seconds", type=float, default=0.5, help="for each program of each contender")
    parser.add_argument("--json", default="")
    parser.add_argument("--work", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    names = options.names or list(PROGRAMS)
    if options.work:
        return work(options.work, names, options.seconds)
    found: dict[str, dict] = {name: {} for name in names}
    environment = {**os.environ, "ADJOINT_CACHE_DIR": "", "JAX_PLATFORMS": "cpu"}
    for contender in options.contenders.split(","):
        python = os.environ.get("ADJOINT_JAX_PYTHON", sys.executable) if contender == "jax" else sys.executable
        command = [python, __file__, *sys.argv[1:], "--work", contender]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as child:
            for line in child.stdout:
                if line.startswith("{"):
                    answer = json.loads(line)
                    found[answer["program"]][contender] = answer
                    print(f"{contender}: {answer}"[:150], file=sys.stderr, flush=True)
    if options.json:
        Path(options.json).write_text(json.dumps(found, indent=1))
    return table(found)


if __name__ == "__main__":
    sys.exit(main())
