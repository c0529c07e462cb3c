"""Exported C: compiled without a warning by gcc and clang, clean under the sanitizers, equal to the graph."""

from __future__ import annotations

import shutil
import subprocess
from itertools import cycle, product

import numpy as np
import pytest
import scipy.special
from export import c_compiler
from export.c_compiler import COMPILERS, STRICT, Library
from export.samples import LOOSE, SAMPLES, X, agree, exportable, random_samples, sample, share
from night import AT_NIGHT

import adjoint as ad
import adjoint.numpy as anp
from adjoint import export
from adjoint.core.op import OPS
from adjoint.export.c_source import write

pytestmark = pytest.mark.skipif(not COMPILERS, reason="no C compiler; on Debian: apt-get install -y gcc clang")
SANITIZED = ["-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]


@pytest.mark.parametrize("name", share("c"))
def test_samples(name, tmp_path):
    samples = sample(name)
    compiler = COMPILERS[hash_of(name) % len(COMPILERS)]
    library = Library(write([part for part, _, _ in samples]), tmp_path, "sample", compiler)
    for part, inputs, wanted in samples:
        agree(library(part, inputs), wanted, f"{name}: {part.name}", LOOSE.get(name, 1e-11))


def hash_of(name):
    """The same number on every run."""
    return sum(map(ord, name))


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("math", ["libm", "exact"])
def test_every_compiler(compiler, math, tmp_path):
    for name in ("functions", "functions of two", "functions of singles", "softmax", "cholesky", "fori", "int32"):
        samples = sample(name)
        library = Library(write([part for part, _, _ in samples], math), tmp_path, "sample", compiler, ("-O2",))
        for part, inputs, wanted in samples:
            agree(library(part, inputs), wanted, f"{name}: {part.name}", LOOSE.get(name, 1e-11))


@pytest.mark.skipif("gcc" not in COMPILERS, reason="no gcc")
@pytest.mark.parametrize("name", ["functions", "functions of two", "functions of singles"])
def test_exact_functions_are_those_of_jit_to_the_bit(name, tmp_path):
    """With the instructions of this machine, of which jit uses the fused multiply-add too."""
    ((part, inputs, _),) = sample(name)
    library = Library(write([part], "exact"), tmp_path, "sample", "gcc", ("-O2", "-march=native"))
    f, args, _ = SAMPLES[name]
    for i, (x, y) in enumerate(zip(library(part, inputs), ad.jit(f)(*args), strict=True)):
        np.testing.assert_array_equal(x, y, f"result {i}")
        is_number = ~np.isnan(y)
        np.testing.assert_array_equal(np.signbit(x)[is_number], np.signbit(y)[is_number], f"sign of result {i}")


def test_random_programs(tmp_path):
    for i, (name, made, arrays, source) in enumerate(exportable(write, random_samples())):
        library = Library(source, tmp_path, made[0].name, COMPILERS[i % len(COMPILERS)])
        with np.errstate(all="ignore"):
            wanted = list(map(np.asarray, made[0].graph.run_flat(arrays)))
        agree(library(made[0], arrays), wanted, name, 1e-10)


def main_of(samples):
    """A program that is C and C++: it calls each function with an array for each argument, and prints all results."""
    lines = []
    for k, (part, inputs, _) in enumerate(samples):
        given = []
        for i, (x, t) in enumerate(zip(inputs, part.graph.input_types, strict=True)):
            numbers = ", ".join(number(v) for v in x.ravel().tolist())
            kind = c_kind(t)
            lines.append(f"  static const {kind} x{k}_{i}[] = {{{numbers or '0'}}};")
            given.append(f"x{k}_{i}" if t.shape else f"x{k}_{i}[0]")
        for i, t in enumerate(part.graph.output_types):
            lines.append(f"  static {c_kind(t)} y{k}_{i}[{max(1, t.size)}];")
            given.append(f"y{k}_{i}")
        lines.append(f"  if ({part.name}({', '.join([*given, '&work'])}) != 0) return 1;")
        for i, t in enumerate(part.graph.output_types):
            lines.append(f'  for (int i = 0; i < {t.size}; ++i) printf("%.17g\\n", (double)y{k}_{i}[i]);')
    head = '#include <stdio.h>\n#include "sample.h"\nint main(void) {\n  static sample_work work;\n'
    return head + "\n".join(lines) + "\n  return 0;\n}\n"


def number(x):
    return str(x).lower() if isinstance(x, bool) else repr(x)


def c_kind(t):
    return {"float64": "double", "float32": "float", "int64": "int64_t", "int32": "int32_t", "bool": "uint8_t"}[t.dtype.name]


def run_main(samples, tmp_path, compiler, flags, cplusplus=False, libraries=(), **ways):
    source = write([part for part, _, _ in samples], **ways)
    (tmp_path / "sample.c").write_text(source.source)
    (tmp_path / "sample.h").write_text(source.header)
    main = tmp_path / ("main.cpp" if cplusplus else "main.c")
    main.write_text(main_of(samples))
    subprocess.run([compiler, *STRICT, *flags, "-c", "sample.c", "-o", "sample.o"], cwd=tmp_path, check=True)
    driver = {"gcc": "g++", "clang": "clang++"}[compiler] if cplusplus else compiler
    standard = ["-std=c++11", "-Wall", "-Wextra", "-pedantic", "-Werror"] if cplusplus else STRICT
    subprocess.run([driver, *standard, *flags, main.name, "sample.o", "-o", "main", *libraries, "-lm"], cwd=tmp_path, check=True)
    done = subprocess.run([str(tmp_path / "main")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    numbers = np.array(done.stdout.split(), float)
    wanted = np.concatenate([y.astype(float).ravel() for _, _, ys in samples for y in ys])
    np.testing.assert_allclose(numbers, wanted, 1e-10, 1e-12)


CHECKED = ["shifted", "integers", "int32", "inverse", "cholesky", "gather", "fori", "while", "bools", "row tiles"]


PAIRS = product(CHECKED, COMPILERS) if AT_NIGHT else zip(CHECKED, cycle(COMPILERS), strict=False)


@pytest.mark.parametrize("name, compiler", list(PAIRS))
def test_sanitizers(name, compiler, tmp_path):
    (tmp_path / "probe.c").write_text("int main(void) { return 0; }\n")
    if subprocess.run([compiler, *SANITIZED, "probe.c"], cwd=tmp_path, capture_output=True, check=False).returncode:
        pytest.skip(f"{compiler} has no sanitizers; on Debian: apt-get install -y libclang-rt-dev")
    run_main(sample(name), tmp_path, compiler, SANITIZED)


@pytest.mark.skipif(not shutil.which("g++"), reason="no C++ compiler; on Debian: apt-get install -y g++")
def test_from_c_plus_plus(tmp_path):
    run_main(sample("network"), tmp_path, "gcc", ["-O1"], cplusplus=True)


def test_failures_are_told(tmp_path):
    library, made = c_compiler.compiled(tmp_path, lambda x, i: x[i], X, np.array([0, 1]), name="take")
    with pytest.raises(ArithmeticError, match="1"):
        library(made[0], [X, np.array([0, 6])])
    library, made = c_compiler.compiled(tmp_path, lambda a: np.linalg.inv(a), np.eye(3), name="inverse_of")
    with pytest.raises(ArithmeticError, match="5"):
        library(made[0], [np.ones((3, 3))])
    library, made = c_compiler.compiled(tmp_path, lambda a: np.linalg.cholesky(a), np.eye(3), name="root_of")
    with pytest.raises(ArithmeticError, match="6"):
        library(made[0], [-np.eye(3)])


def test_failures_in_a_loop_are_told(tmp_path):
    def f(a, xs):
        return ad.scan(lambda c, x: (np.linalg.solve(c, np.eye(2)) + x, x), a, xs)[0]

    library, made = c_compiler.compiled(tmp_path, f, np.eye(2), np.zeros(3), name="looped")
    library(made[0], [np.eye(2), np.zeros(3)])
    with pytest.raises(ArithmeticError, match="5"):
        library(made[0], [np.zeros((2, 2)), np.zeros(3)])


def test_loops_that_write_into_arrays(tmp_path):
    def f(x):
        b, u = anp.zeros(len(x)), anp.zeros((12, 12))
        for i in range(1, len(x)):
            b[i] = np.sin(b[i - 1]) + x[i]
        for i in range(1, 11):
            for j in range(1, 11):
                u[i, j] = 0.25 * (u[i - 1, j] + u[i, j - 1]) + x[i]
        return np.sum(b * b) + np.sum(u**2)

    x = np.linspace(0.0, 1.0, 40)
    library, made = c_compiler.compiled(tmp_path, f, x, name="tables", derivatives="gradient")
    for part, expected in zip(made, (f(x), ad.grad(f)(x)), strict=False):
        np.testing.assert_allclose(np.ravel(library(part, [x])[-1]), np.ravel(expected), rtol=1e-12)


def test_files(tmp_path):
    result = export.c(lambda x: np.sum(x**2), X, path=tmp_path / "square.c", name="energy", derivatives="gradient")
    assert (tmp_path / "square.c").read_text() == result.source
    assert '#include "square.h"' in result.source
    assert "int energy_gradient(const double *ADJOINT_RESTRICT x" in (tmp_path / "square.h").read_text()
    with pytest.raises(ad.AdjointError, match=r"ends in \.c"):
        export.c(lambda x: x, X, path=tmp_path / "square.txt", name="f")


def test_loops_stay_loops():
    source = export.c(lambda x: ad.fori_loop(0, 1000, lambda i, c: np.sin(c), x), X, name="f").source
    assert "< 1000" in source
    assert len(source.splitlines()) < 60


def test_refusals():
    with pytest.raises(ad.AdjointError, match=r"export\.c has no code for 'hyperu'.*test_c_source\.py"):
        export.c(lambda x: scipy.special.hyperu(0.5, 1.5, x), X, name="f")
    with pytest.raises(ad.AdjointError, match=r"export\.c has no code for 'eig' of complex128.*test_c_source\.py"):
        export.c(lambda x: np.abs(OPS["eig"](x)[0]), np.eye(3), name="f")
    with pytest.raises(ad.AdjointError, match=r"export\.c has no numbers of dtype float16, of the argument 'x'"):
        export.c(lambda x: x, X.astype(np.float16), name="f")
    with pytest.raises(ad.AdjointError, match="cannot name a function 'exp'"):
        export.c(lambda x: x, X, name="exp")
    with pytest.raises(ad.AdjointError, match="'libm' or 'exact'"):
        export.c(lambda x: x, X, name="f", math="fast")


CALLER = """
#include "f.h"
{include}
int main(void) {{
  {kind} z[2] = {{{one}, {two}}}, y[2];
  f_work work;
  if (f((const double *)z, (double *)y, &work)) return 1;
  return {re}(y[0]) == -3.0 && {im}(y[0]) == 4.0 && {re}(y[1]) == 0.0 && {im}(y[1]) == -2.0 ? 0 : 2;
}}
"""


@pytest.mark.parametrize("compiler", ["gcc", "clang", "g++"])
def test_complex_arrays_of_c_and_cpp(compiler, tmp_path):
    """Pairs are the memory of `double complex` and of `std::complex<double>`."""
    if not shutil.which(compiler):
        pytest.skip(f"no {compiler}; on Debian: apt-get install -y {compiler}")
    export.c(lambda z: z * z, np.array([1 + 2j, 1 - 1j]), path=tmp_path / "f.c", name="f")
    if compiler == "g++":
        words = {"include": "#include <complex>", "kind": "std::complex<double>", "re": "std::real", "im": "std::imag"}
        text = CALLER.format(one="{1.0, 2.0}", two="{1.0, -1.0}", **words)
    else:
        words = {"include": "#include <complex.h>", "kind": "double complex", "re": "creal", "im": "cimag"}
        text = CALLER.format(one="1.0 + 2.0 * I", two="1.0 - 1.0 * I", **words)
    main = "main.cpp" if compiler == "g++" else "main.c"
    (tmp_path / main).write_text(text)
    subprocess.run(["gcc", *STRICT, "-c", "f.c"], cwd=tmp_path, check=True)
    subprocess.run([compiler, "-Wall", "-Wextra", main, "f.o", "-o", "run", "-lm"], cwd=tmp_path, check=True)
    assert subprocess.run([tmp_path / "run"], check=False).returncode == 0


CBLAS = "#include <cblas.h>\nint main(void) { return 0; }\n"


def test_through_cblas(tmp_path):
    (tmp_path / "probe.c").write_text(CBLAS)
    probe = [COMPILERS[0], "probe.c", "-o", "probe", "-lopenblas"]
    if subprocess.run(probe, cwd=tmp_path, capture_output=True, check=False).returncode:
        pytest.skip("no CBLAS; on Debian: apt-get install -y libopenblas-dev")
    for name in ("product", "matrix and vector", "stack of products", "network"):
        samples = sample(name)
        library = Library(
            write([p for p, _, _ in samples], blas="cblas"), tmp_path, "sample", COMPILERS[0], ("-O1", "-lopenblas")
        )
        for part, inputs, wanted in samples:
            agree(library(part, inputs), wanted, f"{name}: {part.name}")
