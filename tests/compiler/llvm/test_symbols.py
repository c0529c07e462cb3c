"""No object file is run that calls what nothing defines; and loops with rare functions call no undefined vector form.

A program that calls address 0 ends the process: what could do that runs in one of its own.
"""

import os
import pickle
import subprocess
import sys

import llvmlite.binding
import numpy as np
import pytest

import adjoint as ad
from adjoint.compiler import native
from adjoint.compiler.jit import CompileWarning
from adjoint.compiler.native import emit, symbols
from adjoint.compiler.runtime import cache
from adjoint.core.errors import CompilerError

TEXT = """
@kept = global i64 3
@elsewhere = external global i64
declare double @a_function_with_a_long_name(double)
declare void @short()
define internal double @hidden(double %x) noinline { ret double %x }
define double @known(double %x) {
  %word = load i64, ptr @elsewhere
  store i64 %word, ptr @kept
  call void @short()
  %y = call double @a_function_with_a_long_name(double %x)
  %z = call double @hidden(double %y)
  ret double %z
}"""

BAD = """
declare i32 @nobody_defines_this()
define i32 @program() {
  %r = call i32 @nobody_defines_this()
  ret i32 %r
}"""


def object_for(triple, text, **options):
    """The object file of a text for another machine, as this LLVM makes it."""
    llvmlite.binding.initialize_all_targets()
    llvmlite.binding.initialize_all_asmprinters()
    machine = llvmlite.binding.Target.from_triple(triple).create_target_machine(opt=3, **options)
    return machine.emit_object(emit.passed(emit.ModulePart(f'target triple = "{triple}"\n{text}'), machine))


TRIPLES = ("x86_64-linux-gnu", "aarch64-linux-gnu", "x86_64-apple-darwin", "arm64-apple-darwin", "x86_64-pc-windows-msvc")


@pytest.mark.parametrize("triple", TRIPLES)
def test_undefined_symbols_of_every_format(triple):
    data = object_for(triple, TEXT)
    assert symbols.undefined([data]) == ["a_function_with_a_long_name", "elsewhere", "short"]
    others = "@elsewhere = global i64 1\ndefine void @short() { ret void }"
    assert symbols.undefined([data, object_for(triple, others)]) == ["a_function_with_a_long_name"]


def test_an_unknown_format_is_an_error():
    with pytest.raises(RuntimeError, match="unknown format"):
        symbols.undefined([b"\0\0\0\0\0\0\0\0"])


def test_a_program_that_calls_what_nothing_defines_is_not_loaded():
    code = emit.object_code(BAD)
    with pytest.raises(RuntimeError, match="internal error: compiled code calls nobody_defines_this, which nothing defines"):
        native.load(code)


def test_nor_is_one_from_the_disk(tmp_path, monkeypatch):
    """The code in the cache is exchanged for one that would call address 0: it is not run."""
    monkeypatch.setenv("ADJOINT_CACHE_DIR", str(tmp_path))
    name, _, _ = native.object_code(ad.jit(np.sin).lower(1.5).native.text)
    cache.write(name, pickle.dumps(emit.object_code(BAD)))
    with pytest.raises(CompilerError, match="nobody_defines_this"):
        ad.jit(np.sin)(1.5)
    monkeypatch.setenv("ADJOINT_COMPILER_ERRORS", "eager")
    with pytest.warns(CompileWarning, match="nobody_defines_this"):
        assert ad.jit(np.sin)(1.5) == np.sin(1.5)


# -- loops with rare functions, at every width that the vectoriser may choose ---------------------------------------------------

RARE = (np.sin, np.cos, np.tan, lambda x: np.logaddexp(x, 1.0), lambda x: np.logaddexp2(x, x * x))
MACHINES = [
    ("x86_64-linux-gnu", {"cpu": cpu}) for cpu in ("x86-64", "haswell", "skylake-avx512", "znver4", "sapphirerapids", "x86-64-v4")
]
MACHINES += [("aarch64-linux-gnu", {"cpu": cpu}) for cpu in ("generic", "apple-m1", "neoverse-v1", "a64fx")]
MACHINES += [("riscv64-linux-gnu", {"features": "+m,+f,+d,+v,+zvl1024b"})]


@pytest.fixture(scope="module")
def texts():
    """Kernels whose memory is bytes, which put one number through a rare function: registers hold 64 bytes and more."""
    found = []
    for dtype in (np.float64, np.float32):
        for f in RARE:

            def kernel(x, f=f, dtype=dtype):
                v = np.ones(1000, dtype) * x
                v[10:500] = f(v[10:500])
                return v > 0.5

            found.append(ad.jit(kernel).lower(dtype(1)).native.text)
            found.append(
                ad.jit(lambda x, k, f=f: (f(x) > 0.5, k + k)).lower(np.ones(1000, dtype), np.ones(1000, np.int8)).native.text
            )
    return found


@pytest.mark.parametrize(("triple", "options"), MACHINES, ids=lambda x: x if isinstance(x, str) else "-".join(x.values()))
def test_no_machine_calls_an_undefined_vector_form(texts, triple, options):
    for text in texts[:2] + texts[6:8] + texts[10:12]:
        missing = symbols.undefined([object_for(triple, text, **options)])
        assert not [name for name in missing if name.startswith("adjoint.rare")]


FAMILY = """
import warnings
import numpy as np, adjoint as ad
warnings.simplefilter("error")
rng = np.random.default_rng(0)
rare = {
    "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "logaddexp": lambda x: np.logaddexp(x, x.dtype.type(1)), "logaddexp2": lambda x: np.logaddexp2(x, x * x),
}
count = 0
def check(f, *args):
    global count
    for got, wanted in zip(ad.jit(f)(*args), f(*args), strict=True):
        assert got.dtype == wanted.dtype, (f, got.dtype, wanted.dtype)
        np.testing.assert_allclose(got, wanted, rtol=1e-4 if got.dtype == np.float32 else 1e-9, atol=1e-6)
    count += 1
for name, g in rare.items():
    for dtype in (np.float64, np.float32):
        for n in (3, 1000) if dtype == np.float64 else (200,):
            x = rng.uniform(-3, 3, n).astype(dtype)
            x[::17] *= 1e8 if name in ("sin", "cos", "tan") else 1  # where the rare path is taken
            check(lambda y: (np.concatenate([g(np.ones(n, dtype) * y), np.ones(n, dtype) * y]) > 0.5,), dtype(1e9))
            check(lambda y: (lambda w: (w, w > 0))(g(np.ones(n, dtype) * y)), dtype(1.25))
            for stored in (np.bool_, np.int8, np.uint8, np.int16, np.float16, np.float32):
                if stored is np.int8 or (n == 1000 and name in ("cos", "logaddexp2")):
                    k = rng.integers(0, 2, n).astype(stored)
                    check(lambda x, k: (g(x), k * k, g(x) > 0), x, k)

def sliced(x):
    v = np.ones(1000) * x
    v[10:500] = np.sin(v[10:500])
    return v > 0.5

def summed(x):
    w = np.logaddexp(np.ones(200) * np.sum(x), 1.0)
    return w, w > 0

def largest(x):
    v = np.ones(1000) * x
    v[10:500] = np.sin(v[10:500])
    return np.max(v) + np.median(v) + np.log(np.sum(np.exp(v)))

check(lambda x: (sliced(x),), 1.0)
check(summed, np.ones(3))
check(lambda x: (ad.grad(largest)(x),), 1.0)
print(count)
"""


def test_stores_of_every_size_beside_rare_functions():
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", FAMILY], env=environment, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    assert int(done.stdout) == 58
