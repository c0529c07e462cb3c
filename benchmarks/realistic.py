"""Programs as people write them (`programs.py`): compiled gradients of ours, JAX and PyTorch; functions of NumPy and Numba.

    python benchmarks/realistic.py [name …] [--contenders adjoint,jax] [--quick] [--seconds 0.5] [--limit 120] [--json FILE]

Ours is the text as it stands, with loops of Python and writes in place. JAX has its own loops and updates. `compile` is
torch.compile, with the loops of Python. NumPy and Numba compute the function alone, Numba by the loops of `programs_numba.py`;
`function` is our compiled function, to be compared with them. Each contender runs in a process of its own, after a trivial
program; a first call has an empty cache, and a time is the least of many calls. A program of a contender that takes longer than
the limit is ended, and shown as such. Each contender has the interpreter of this process, or that which ADJOINT_JAX_PYTHON,
ADJOINT_TORCH_PYTHON or ADJOINT_NUMBA_PYTHON names.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import selectors
import signal
import subprocess
import sys
import tempfile
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


def with_adjoint(f, args, transform="grad"):
    import adjoint as ad
    import adjoint.numpy as anp

    def summed(a, at, v):
        anp.add.at(a, at, v)
        return a

    np = Space(anp, loop=looped(anp.stack), put=written, add_at=summed)
    whole = lambda *args: f(np, *args)
    compiled = ad.jit(ad.grad(whole) if transform == "grad" else whole)
    return lambda: compiled(*args)


def with_function(f, args):
    """The function alone, compiled by ours."""
    return with_adjoint(f, args, "value")


NO_LOOPS = "no loops are written for Numba"


def with_numba(f, args):
    import numba
    import programs_numba

    found = vars(programs_numba).get(f.__name__)
    if found is None:
        raise NotImplementedError(NO_LOOPS)
    compiled = numba.njit(found)
    return lambda: compiled(*args)


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


def with_torch(f, args, transform=lambda f: f):
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
    run = transform(lambda *args: f(np, *args))
    return lambda: torch.autograd.grad(run(*held), held[0])


def with_torch_compile(f, args):
    import torch

    return with_torch(f, args, torch.compile)


CONTENDERS = {
    "numpy": with_numpy,
    "numba": with_numba,
    "function": with_function,
    "adjoint": with_adjoint,
    "jax": with_jax,
    "torch": with_torch,
    "compile": with_torch_compile,
}
OF_FUNCTION = ("numpy", "numba", "function")  # these compute no gradient
PEERS = ("jax", "torch", "compile")
START = 300  # seconds for the trivial program: torch.compile translates its headers
PYTHONS = {
    "jax": "ADJOINT_JAX_PYTHON",
    "torch": "ADJOINT_TORCH_PYTHON",
    "compile": "ADJOINT_TORCH_PYTHON",
    "numba": "ADJOINT_NUMBA_PYTHON",
}


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
    found = found.detach() if hasattr(found, "detach") else found
    return {"first": first, "least": min(times), "norm": float(numpy.linalg.norm(numpy.asarray(found)))}


def trivial(np, x):
    """A trivial program, which loads the libraries."""
    return np.sum(np.exp(x))


def work(contender, names, seconds):
    """In the process of a contender: a line of JSON for each program."""
    warnings.simplefilter("ignore")
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    if contender != "numba":
        CONTENDERS[contender](trivial, [numpy.ones(3)])()
    out.write("{}\n")
    for name in names:
        out.write(json.dumps({"begun": name}) + "\n")
        try:
            answer = measure(contender, name, seconds)
        except Exception as error:  # of a peer that lacks something; it is shown
            answer = {"error": f"{type(error).__name__}: {error}"[:300]}
        out.write(json.dumps({"program": name, **answer}) + "\n")


def lines_of(child, most):
    """The lines of a process; None when one takes longer than `most` seconds, of which the first line has `START`."""
    with selectors.DefaultSelector() as selector:
        selector.register(child.stdout, selectors.EVENT_READ)
        pending, limit = b"", START
        while True:
            if not selector.select(limit):
                yield None
                return
            read = os.read(child.stdout.fileno(), 1 << 16)
            if not read:
                return
            *lines, pending = (pending + read).split(b"\n")
            limit = most
            yield from map(json.loads, lines)


def ask(contender, names, seconds, most):
    """The answers of a contender. Its process is ended when a program takes too long, and begun again for the rest."""
    found: dict[str, dict] = {}
    python = os.environ.get(PYTHONS.get(contender, ""), sys.executable)
    with tempfile.TemporaryDirectory() as empty:  # a cache for headers of C++, which no program is in yet
        environment = {**os.environ, "ADJOINT_CACHE_DIR": "", "JAX_PLATFORMS": "cpu", "TORCHINDUCTOR_CACHE_DIR": empty}
        while left := [name for name in names if name not in found]:
            command = [python, __file__, *left, "--seconds", str(seconds), "--work", contender]
            begun = ""
            with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as child:
                try:
                    for answer in lines_of(child, most + seconds):
                        if answer is None:
                            found.update({name: {"over": most} for name in ([begun] if begun else left)})
                            break
                        begun = answer.get("begun", "")
                        if "program" in answer:
                            print(f"{contender}: {answer}"[:150], file=sys.stderr, flush=True)
                            found[answer["program"]] = answer
                finally:
                    child.kill()
            if child.returncode and not (set(left) & set(found)):  # it ended on its own: with a program, or before all
                ended = {"error": f"its process ended with {child.returncode}"}
                found.update(dict.fromkeys([begun] if begun else left, ended))
    return found


def shown(answer):
    if "least" in answer:
        return f"{answer['least'] * 1e3:10.3f}"
    return f"{'> ' + str(round(answer['over'])) + ' s':>10}" if "over" in answer else f"{'-':>10}"


def first_call(answer):
    return f"{answer['first']:.2f}" if "first" in answer else f"> {answer['over']:.0f}" if "over" in answer else "-"


def ratio(row, mine, others):
    """How many times the least of the others is longer than mine; nan if one of both is not known."""
    peers = [row[c]["least"] for c in others if "least" in row.get(c, {})]
    return min(peers) / row[mine]["least"] if peers and "least" in row.get(mine, {}) else math.nan


def is_slower(mine, other):
    """Whether a first call is longer than another, which may have been ended."""
    return "first" in mine and mine["first"] > other.get("first", other.get("over", math.inf))


def disagreements(row):
    """Contenders whose result is not that of the first."""
    for group in (OF_FUNCTION, ("adjoint", *PEERS)):
        norms = {c: row[c]["norm"] for c in group if "norm" in row.get(c, {})}
        for c, norm in norms.items():
            expected = next(iter(norms.values()))
            if abs(norm - expected) > 1e-6 * abs(expected):
                yield f"    {c} computes something else: {norm} against {expected}"


def table(found):
    contenders = list(dict.fromkeys(c for row in found.values() for c in row))
    print(
        f"{'milliseconds':20}"
        + "".join(f"{c:>10}" for c in contenders)
        + "   to NumPy  to best peer  function to Numba   first calls (s)"
    )
    kinds = {"to NumPy": ("adjoint", ("numpy",)), "to best peer": ("adjoint", PEERS), "to Numba": ("function", ("numba",))}
    ratios = {name: {kind: ratio(row, *sides) for kind, sides in kinds.items()} for name, row in found.items()}
    for name, row in found.items():
        to_numpy, to_best, to_numba = ratios[name].values()
        firsts = " ".join(first_call(row.get(c, {})) for c in contenders)
        times = "".join(shown(row.get(c, {})) for c in contenders)
        print(f"{name:20}{times}{to_numpy:11.2f}{to_best:14.2f}{to_numba:19.2f}   {firsts}")
        for line in disagreements(row):
            print(line)
        for c in contenders:
            if "error" in row.get(c, {}) and NO_LOOPS not in row[c]["error"]:
                print(f"    {c}: {row[c]['error'].splitlines()[0][:160]}")
    print()
    for kind in kinds:
        known = {name: of[kind] for name, of in ratios.items() if not math.isnan(of[kind])}
        if known:
            mean = math.exp(sum(map(math.log, known.values())) / len(known))
            behind = [f"{name} {r:.2f}" for name, r in known.items() if r < 1]
            print(f"{kind}: {len(known)} programs, {mean:.2f} times as fast in the geometric mean")
            print(f"    behind: {', '.join(behind) or 'none'}")
    slow = [name for name, row in found.items() if is_slower(row.get("adjoint", {}), row.get("jax", {}))]
    print(f"first call longer than JAX's: {', '.join(slow) or 'none'}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="programs; all if none is given")
    parser.add_argument("--contenders", default=",".join(CONTENDERS))
    parser.add_argument("--seconds", type=float, default=0.5, help="for each program of each contender")
    parser.add_argument("--limit", type=float, default=120, help="seconds, of a first call and of the calls after it")
    parser.add_argument("--quick", action="store_true", help="--seconds 0.1 --limit 20")
    parser.add_argument("--json", default="")
    parser.add_argument("--work", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    names = options.names or list(PROGRAMS)
    if options.work:
        return work(options.work, names, options.seconds)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))  # with the process of a contender
    seconds, limit = (0.1, 20.0) if options.quick else (options.seconds, options.limit)
    found: dict[str, dict] = {name: {} for name in names}
    for contender in options.contenders.split(","):
        for name, answer in ask(contender, names, seconds, limit).items():
            found[name][contender] = answer
        if options.json:
            Path(options.json).write_text(json.dumps(found, indent=1))
    return table(found)


if __name__ == "__main__":
    sys.exit(main())
