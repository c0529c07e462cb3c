"""Every op that export.c writes, under the address and undefined-behaviour sanitizers, with arrays of exact size on the heap.

Elementwise ops also run on arrays without elements, with one, and with 7. A day's run takes a sample, a nightly one all.
"""

import subprocess

import numpy as np
import op_samples
import pytest
from export.c_compiler import COMPILERS, STRICT
from export.test_c_source import SANITIZED, c_kind, number
from night import AT_NIGHT

import adjoint as ad
from adjoint.core.errors import UnsupportedError
from adjoint.core.op import OPS, Elementwise
from adjoint.export.c_source import write
from adjoint.export.program import parts

CHUNK = 40
NAMES = sorted(op_samples.names())
CHUNKS = [NAMES[i::CHUNK] for i in range(CHUNK)] if AT_NIGHT else [NAMES[1::80], NAMES[3::80]]


def cases(name):
    """(program, inputs) of an op: its sample, and other sizes."""
    program, inputs = op_samples.programs(name)[0]
    yield program, [np.asarray(x) for x in inputs]
    op = OPS.get(name)
    if isinstance(op, Elementwise) and all(np.asarray(x).dtype.kind in "fib" for x in inputs):
        (params,) = [e.params for e in program.equations if e.op is op]
        for size in (0, 1, 7):
            arrays = [np.resize(np.asarray(x).ravel(), size) for x in inputs]
            with np.errstate(all="ignore"):
                yield ad.graph(lambda *xs: op(*xs, **params))(*arrays), arrays


def pairs(x):
    """An array as the exported function has it: complex numbers as pairs."""
    x = np.asarray(x)
    return x.reshape(-1).view(x.real.dtype) if x.dtype.kind == "c" else x


def caller(part, inputs):
    """A block of C that calls a function with arrays on the heap, and prints the results."""
    lines, given, arrays = [], [], []
    for i, (x, t) in enumerate(zip(inputs, part.given, strict=True)):
        numbers = [number(v).replace("nan", "NAN").replace("inf", "INFINITY") for v in pairs(x).ravel().tolist()]
        if t.shape == ():
            given.append(numbers[0])
            continue
        lines.append(f"    {c_kind(t)} *x{i} = malloc({t.size} * sizeof *x{i});")
        lines += [f"    x{i}[{k}] = ({c_kind(t)})({v});" for k, v in enumerate(numbers)]
        given.append(f"x{i}")
        arrays.append(f"x{i}")
    for i, t in enumerate(part.made):
        lines.append(f"    {c_kind(t)} *y{i} = malloc({t.size} * sizeof *y{i});")
        given.append(f"y{i}")
        arrays.append(f"y{i}")
    lines.append(f"    struct {{ {part.name}_work work; }} *all = malloc(sizeof *all);")
    lines.append(f"    if ({part.name}({', '.join([*given, '&all->work'])}) != 0) return 1;")
    for i, t in enumerate(part.made):
        lines.append(f'    for (int i = 0; i < {t.size}; ++i) printf("%.17g\\n", (double)y{i}[i]);')
    lines += [f"    free({name});" for name in (*arrays, "all")]
    return "\n".join(["  {", *lines, "  }"])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("chunk", range(len(CHUNKS)))
def test_ops(chunk, compiler, tmp_path):
    (tmp_path / "probe.c").write_text("int main(void) { return 0; }\n")
    if subprocess.run([compiler, *SANITIZED, "probe.c"], cwd=tmp_path, capture_output=True, check=False).returncode:
        pytest.skip(f"{compiler} has no sanitizers; on Debian: apt-get install -y libclang-rt-dev")
    blocks, headers, files, wanted = [], [], [], []
    for name in CHUNKS[chunk]:
        for k, (program, inputs) in enumerate(cases(name)):
            (part,) = parts(program, (), name=f"op_{name}_{k}_")
            try:
                source = write([part])
            except UnsupportedError:
                continue
            (tmp_path / f"{part.name}.c").write_text(source.source)
            (tmp_path / f"{part.name}.h").write_text(source.header)
            files.append(f"{part.name}.c")
            headers.append(f'#include "{part.name}.h"')
            blocks.append(caller(part, inputs))
            with np.errstate(all="ignore"):
                made = part.graph.run_flat([x[()] if not x.shape else x for x in inputs])
            wanted += [pairs(np.asarray(y)).astype(float).ravel() for y in made]
    head = "\n".join(["#include <math.h>", "#include <stdio.h>", "#include <stdlib.h>", *headers, "int main(void) {"])
    (tmp_path / "main.c").write_text("\n".join([head, *blocks, "  return 0;", "}\n"]))
    subprocess.run([compiler, *STRICT, *SANITIZED, "-c", *files], cwd=tmp_path, check=True)
    objects = [file.replace(".c", ".o") for file in files]
    subprocess.run([compiler, *SANITIZED, "main.c", *objects, "-o", "run", "-lm"], cwd=tmp_path, check=True)
    done = subprocess.run([str(tmp_path / "run")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = np.array(done.stdout.split(), float)
    np.testing.assert_allclose(np.abs(found), np.abs(np.concatenate(wanted)), 1e-6, 1e-9)  # vectors may have other signs
