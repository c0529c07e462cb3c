"""Machine code in parts, compiled at the same time."""

import os
import re
import subprocess
import sys
import threading

import numpy as np
import pytest

import adjoint as ad
from adjoint.compiler import native
from adjoint.compiler.llvm.builder import STRIDED, UNOPTIMISED, WRITTEN_AS_VECTORS
from adjoint.compiler.native import emit

X = np.linspace(0.1, 3, 500)


def several(x):
    """A program with several large functions, some of which call others."""
    rows = np.outer(np.sin(x), np.cos(x * 1e9))
    return np.sum(np.exp(-rows) @ np.tanh(x)), np.max(rows, axis=0), ad.scan(lambda c, r: (c + np.log(r) * x, c[0]), x, x)


@pytest.fixture(scope="module")
def text():
    return ad.jit(several).lower(X).native.text


@pytest.mark.parametrize("count", [1, 2, 3, 8])
@pytest.mark.parametrize("marked", [False, True])
def test_every_function_is_in_one_part_that_others_know(text, count, marked):
    text = text if marked else text.replace(UNOPTIMISED, "")
    parts = [part for part in emit.parts(text, count) if not part.is_shared]
    optimised = [part for part in parts if part.effort is emit.Effort.ALL]
    assert len(parts) - len(optimised) == marked
    assert len(optimised) == 1 if count == 1 else 1 < len(optimised) <= count
    public = [re.findall(r"^define (?!internal)\S+ @(\w+)", part.text, re.MULTILINE) for part in parts]
    names = [name for found in public for name in found]
    assert len(set(names)) == len(names)
    assert "program" in public[0]
    large = set(re.findall(r"^define internal \w+ @(\w+)\(.*noinline", text, re.MULTILINE))
    assert set(names) == ({"program", *large} if len(parts) > 1 else {"program"})
    for part, own in zip(parts, public, strict=True):
        declared = re.findall(r"^declare \w+ @(\w+)", part.text, re.MULTILINE)
        assert not set(declared) & set(own)
        emit.llvm.parse_assembly(part.text).verify()
        is_optimised = part.effort is emit.Effort.ALL
        assert all(
            ("unoptimised" in line) != is_optimised for line in re.findall(r"^define (?!internal).*", part.text, re.MULTILINE)
        )


def test_a_program_that_only_calls_its_kernels_is_not_optimised():
    """Its kernel is; a program whose own work is a large part of the whole is optimised, with or without a loop."""
    x = np.linspace(0.0, 1.0, 100_000)
    efforts = lambda f, *args: {
        p.effort.name: re.findall(r"^define (?!internal)\S+ @(\w+)", p.text, re.M)
        for p in emit.parts(ad.jit(f).lower(*args).native.text, 1)
    }
    large = efforts(lambda x: np.sum(np.exp(x)), x)
    assert set(large) == {"ALL", "NONE"}
    assert "program" in large["NONE"]
    assert "program" not in large["ALL"]
    assert efforts(lambda x: np.sum(np.exp(x)), x[:8]) == {"ALL": ["program"]}
    loop = efforts(lambda x: ad.scan(lambda c, _: (c - np.mean(c), None), x, None, 5)[0], x)
    assert "program" in loop["ALL"]


@pytest.mark.parametrize("count", [1, 2, 8])
@pytest.mark.parametrize("rows", [40, 200])
def test_what_is_written_as_vectors_is_compiled_by_itself(rows, count):
    """Matrix products, beside kernels of the same program that LLVM vectorizes."""
    a = np.linspace(0.0, 1.0, rows * 30).reshape(rows, 30)
    text = ad.jit(lambda a: np.tanh(a @ a.T).sum(0)).lower(a).native.text
    is_written = lambda name: WRITTEN_AS_VECTORS in re.search(rf"^define .*@{name}\(.*", text, re.M)[0]
    found = set()
    for part in emit.parts(text, count):
        for name in re.findall(r"^define (?!internal)\S+ @(\w+)\(", part.text, re.M):
            assert (part.effort is emit.Effort.VECTORS) == is_written(name)
            found.add(part.effort)
    has_products = WRITTEN_AS_VECTORS in text  # not where BLAS uses the vectors of the processor
    assert (emit.Effort.VECTORS in found) == has_products


def test_parts_are_balanced():
    weights = {f"f{i}": i for i in range(1, 20)}
    groups = emit._balanced(weights, weights, 3, 30)
    totals = [30 + sum(weights[n] for n in groups[0]), *(sum(weights[n] for n in g) for g in groups[1:])]
    assert max(totals) - min(totals) <= 3
    assert sorted(n for g in groups for n in g) == sorted(weights)
    assert emit._balanced([], {}, 4, 10) == [[]]


def test_a_program_in_parts_gives_the_same(monkeypatch):
    monkeypatch.setenv("ADJOINT_CACHE_DIR", "")
    results = []
    for count in (1, 2, 5):
        monkeypatch.setattr(emit, "default_threads", lambda count=count: count)
        f = ad.jit(several)
        results.append([np.asarray(y) for y in ad.core.tree.flatten(f(X))[0]])
        assert len(f.lower(X).native.code) == len(emit.parts(f.lower(X).native.text, count))
        assert (count == 1) == (len(f.lower(X).native.code) == 2)  # one of them is not optimised
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(a, b)
    for a, b in zip(results[0], ad.core.tree.flatten(several(X))[0], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)


def test_many_threads_compile_at_once(text):
    texts = [text] * 6
    codes = [None] * len(texts)

    def run(i):
        codes[i] = emit.object_code(texts[i])

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(texts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(code == codes[0] for code in codes)


def test_a_program_is_compiled_when_the_process_ends():
    code = (
        "import atexit, numpy as np, adjoint as ad\n"
        "f = ad.jit(lambda x: (np.sin(x[:, None] * x), np.sum(np.exp(x)), np.max(np.cos(x))))\n"
        "atexit.register(lambda: print(f(np.ones(100))[1]))"
    )
    environment = {**os.environ, "ADJOINT_CACHE_DIR": "", "OMP_NUM_THREADS": "3"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert (done.stdout.strip()[:7], done.stderr) == ("271.828", "")


def test_text_that_is_wrong_is_an_error():
    with pytest.raises(RuntimeError, match="parsing error"):
        emit.object_code("define i32 @program() { ret i64 0 }")


def test_what_is_made_of_a_text_can_be_read(text):
    assert "@program" in emit.optimised(text)
    assert "program:" in emit.assembly(text)
    assert isinstance(native.object_code(text)[1], list)


def columns(z):
    """A loop in tiles of points, whose rows are the columns of an array."""
    return np.sum(ad.scan(lambda v, row: (0.5 * v + row * v, None), np.ones(len(z)), z.T)[0])


@pytest.mark.parametrize("processor, loads_one_by_one", [("znver3", True), ("znver5", True), ("skylake-avx512", False)])
def test_strided_loads_on_zen_are_not_gathers(monkeypatch, processor, loads_one_by_one):
    z = np.ones((300, 40))
    text = ad.jit(columns).lower(z).native.text
    assert STRIDED in text
    assert STRIDED not in ad.jit(lambda z: columns(z.T)).lower(z.T.copy()).native.text
    if emit.target()[0].triple.startswith("x86_64"):
        made, _, features = emit.target()
        monkeypatch.setattr(emit, "target", lambda: (made, processor, features))
        assert not (loads_one_by_one and "vgather" in emit.assembly(text))
