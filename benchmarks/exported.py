"""Exported code against `jit` on one thread: C by gcc -O3, WebAssembly and JavaScript by Node, on workloads of `workloads.py`.

    python benchmarks/exported.py [words of names]

Times are of the processor, the best of many blocks of about a millisecond: other work on the machine counts little.
C is compiled with `-O3 -march=native -std=c99` and math="exact", which has the functions that jit has. Arrays of
WebAssembly are in the memory of the module. The column "128 bits" is `export.object` for x86-64-v2: native code with the
vectors that WebAssembly has, and no fused multiply-add; "relaxed" is WebAssembly with `relaxed=True`, which Node 20 has behind a
flag; "scalar" is C by `gcc -O2 -fno-tree-vectorize`, one number at a time, as in JavaScript.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # of the products that jit calls BLAS for

import numpy
from workloads import WORKLOADS

import adjoint as ad
import adjoint.numpy as anp
import adjoint.scipy.special as special
from adjoint.core.tree import flatten
from adjoint.export import c_source, javascript_module, object_file, wasm_module
from adjoint.export.program import parts

SECONDS = 0.7
SECONDS_OF_NODE = 4  # V8 compiles a function after many calls, and in the background
BLOCK = 1e-3  # seconds of a block of calls, if one is shorter
CHOSEN = (
    "dispatch",
    "chain",
    "Black",
    "Rosenbrock",
    "mixture",
    "Lennard",
    "Lorenz",
    "heat",
    "LSTM, 100 steps, scan",
    "log-sum-exp",
    "perceptron",
)


class Space:
    """adjoint's NumPy, with what else the workloads use."""

    erf, logsumexp = staticmethod(special.erf), staticmethod(special.logsumexp)

    def __getattr__(self, name):
        return getattr(anp, name)

    @staticmethod
    def constant(build, *n):
        return build(*n)

    @staticmethod
    def loop(step, carry, xs, length=None):
        return ad.scan(step, carry, xs, length)

    @staticmethod
    def repeat_while(goes_on, step, carry):
        return ad.while_loop(goes_on, step, carry)


def best(run):
    run()  # the first call may compile
    count, spent = 1, 0.0
    while spent < BLOCK:  # calls of a block
        start = time.thread_time()
        for _ in range(count):
            run()
        spent = time.thread_time() - start
        count *= 2 if spent < BLOCK else 1
    found, end = [spent / count], time.perf_counter() + SECONDS
    while time.perf_counter() < end or len(found) < 5:
        start = time.thread_time()
        for _ in range(count):
            run()
        found.append((time.thread_time() - start) / count)
    return min(found)


def of_object(made, inputs, folder):
    """Native code with vectors of 128 bits."""
    text, arena = object_file.program(made, "export.object")
    (folder / "o.o").write_bytes(object_file.compiled(text, cpu="x86-64-v2"))
    subprocess.run(["gcc", "-shared", "o.o", "-o", "o.so", "-lm"], cwd=folder, check=True)
    return called(getattr(ctypes.CDLL(str(folder / "o.so")), made[-1].name), made, inputs, arena + 64)[0]


def called(function, made, inputs, work):
    """Seconds of a call, and the results."""
    given = [ctypes.c_double(float(x)) if x.shape == () else ctypes.c_void_p(x.ctypes.data) for x in inputs]
    outs = [numpy.zeros(t.shape, t.dtype) for t in made[-1].graph.output_types]
    work = numpy.zeros(work + 64, numpy.uint8)
    work = work[-work.ctypes.data % 64 :]  # as jit has it; NumPy aligns to 16 bytes, and vectors of 64 would cross cache lines
    given += [ctypes.c_void_p(a.ctypes.data) for a in (*outs, work)]
    return best(lambda: function(*given)), outs


def of_c(made, inputs, folder, flags=("-O3", "-march=native")):
    source = c_source.write(made, "exact")
    (folder / "f.c").write_text(source.source)
    (folder / f"{made[0].name}.h").write_text(source.header)
    library = f"f{''.join(flags)}.so"
    subprocess.run(["gcc", *flags, "-std=c99", "-shared", "-fPIC", "f.c", "-o", library, "-lm"], cwd=folder, check=True)
    function = getattr(ctypes.CDLL(str(folder / library)), made[-1].name)
    return called(function, made, inputs, 1 << 28)


def of_node(made, inputs, folder, wasm, relaxed=False):
    part = made[1]
    if wasm:
        result = wasm_module.write(made, "f.wasm", simd=True, relaxed=relaxed)
        (folder / "f.wasm").write_bytes(result.code)
        (folder / "m.mjs").write_text(result.loader)
    else:
        (folder / "m.mjs").write_text(javascript_module.write(made).source)
    given = []
    for i, x in enumerate(inputs):
        (folder / f"x{i}").write_bytes(x.tobytes())
        kind = {"float64": "Float64Array", "float32": "Float32Array"}[x.dtype.name]
        read = f'new {kind}(new Uint8Array(readFileSync("x{i}")).buffer)'
        given.append(read if x.shape else f"{read}[0]")
    arrays = [(n, t) for n, t in zip(part.output_names, part.graph.output_types, strict=True) if t.shape]
    if wasm:  # in the memory of the module, as arrays of jit are in that of the process
        given = [f"own({x}, {n!r})" for x, n in zip(given, part.graph.input_names, strict=True)]
    new = [f"new { ({'float64': 'Float64Array', 'float32': 'Float32Array'}[t.dtype.name]) }({t.size})" for _, t in arrays]
    several = len(part.output_names) > 1
    if wasm:
        new = [f"f.arrays.{part.name}.{n}" for n, _ in arrays]
    out = (
        "{" + ", ".join(f"{n}: {v}" for (n, _), v in zip(arrays, new, strict=True)) + "}"
        if several
        else (new or ["undefined"])[0]
    )
    (folder / "main.mjs").write_text(f"""
import {{ readFileSync }} from "node:fs";
import * as m from "./m.mjs";
const f = {"await m.load()" if wasm else "m"};
const own = (x, name) => {{
  if (typeof x === "number") return x;
  f.arrays.{part.name}[name].set(x);
  return f.arrays.{part.name}[name];
}};
const given = [{", ".join(given)}], out = {out};
let found = Infinity;
const end = performance.now() + {1000 * SECONDS_OF_NODE};
for (let k = 0; k < 5 || performance.now() < end; ++k) {{
  const repeat = Math.ceil({1000 * BLOCK} / Math.min(found, {1000 * BLOCK})), start = process.cpuUsage();
  for (let j = 0; j < repeat; ++j) f.{part.name}(...given, out);
  const used = process.cpuUsage(start);
  found = Math.min(found, (used.user + used.system) / 1000 / repeat || Infinity);
}}
console.log(JSON.stringify(found));
""")
    flags = ["--experimental-wasm-relaxed-simd"] if relaxed and node_version() < 22 else []
    done = subprocess.run(["node", *flags, "main.mjs"], cwd=folder, capture_output=True, text=True, check=True)
    return json.loads(done.stdout) / 1000


def node_version():
    return int(
        subprocess.run(["node", "--version"], capture_output=True, text=True, check=True).stdout.strip("v\n").split(".")[0]
    )


def main():
    words = sys.argv[1:] or CHOSEN
    ad.set_num_threads(1)
    print("workload, seconds of jit, and multiples of it: C, 128 bits, WebAssembly, relaxed, scalar, JavaScript")
    for workload in WORKLOADS:
        if workload.kind != "gradient" or not any(word in workload.name for word in words):
            continue
        inputs = workload.inputs(numpy.random.default_rng(0))
        chosen = tuple(range(workload.differentiated))
        f = lambda *a, w=workload: w.function(Space(), *a)
        made = parts(f, inputs, {}, derivatives="value_and_gradient", argnums=chosen, name="work_")
        jitted = ad.jit(ad.value_and_grad(f, chosen))
        flat = list(map(numpy.asarray, flatten((inputs, {}))[0]))
        row = [workload.name]
        with tempfile.TemporaryDirectory() as folder:
            try:
                native = best(lambda j=jitted, i=inputs: j(*i))
                row += [native]
                seconds, outs = of_c(made, flat, Path(folder))
                for got, wanted in zip(outs, flatten(jitted(*inputs))[0], strict=True):
                    numpy.testing.assert_allclose(got, wanted, 1e-4 if got.dtype == numpy.float32 else 1e-7, 1e-8)
                row += [seconds / native, of_object(made, flat, Path(folder)) / native]
                row += [of_node(made, flat, Path(folder), wasm=True, relaxed=r) / native for r in (False, True)]
                row += [of_c(made, flat, Path(folder), ("-O2", "-fno-tree-vectorize"))[0] / native]
                row += [of_node(made, flat, Path(folder), wasm=False) / native]
            except ad.AdjointError as error:
                row.append(str(error)[:80])
        print("  ".join(f"{x:.3g}" if isinstance(x, float) else f"{x:44}" for x in row), flush=True)


if __name__ == "__main__":
    main()
