"""Programs cached by their graph: found again, and never confused with another."""

import os
import re
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import adjoint as ad
from adjoint.compiler.runtime import cache, program_cache
from adjoint.compiler.specialization import lower

X = np.linspace(0.1, 1, 7)


@pytest.fixture
def place(tmp_path, monkeypatch):
    folder = tmp_path / "objects"
    monkeypatch.setenv("ADJOINT_CACHE_DIR", str(folder))
    monkeypatch.setattr(program_cache, "_LOADED", 1 << 62)  # the source files may be new: this process has them as they are
    compiler = program_cache._compiler.__wrapped__()
    monkeypatch.setattr(program_cache, "_compiler", lambda: compiler)
    return folder


@pytest.fixture
def lowered(monkeypatch):
    """How often a program was made of its graph."""
    made = []
    monkeypatch.setattr("adjoint.compiler.specialization.lower", lambda *args: made.append(1) or lower(*args))
    return made


def twice(f, *args):
    """The results of a function that is compiled, and of one that is found."""
    first, second = ad.jit(f), ad.jit(f)
    results = first(*args), second(*args)
    (path,) = next(iter(second.specializations.values()))
    assert path.native.was_cached
    return results


def _iterations(x):
    return ad.fori_loop(0, 2000, lambda i, c: np.sin(c) + 0.1, x)


PROGRAMS = {
    "loops": (lambda x: np.sum(np.sin(x) * x), X),
    "containers": (lambda t: {"a": t["x"] * 2, "b": (t["x"][0], [t["y"]])}, {"x": X, "y": 1.0}),
    "product": (lambda a: a @ a, np.ones((40, 40))),
    "decomposition": (lambda a: np.linalg.inv(a), np.eye(30) * 2),
    "foreign calls": (lambda x: np.fft.fft(x) + np.arange(7.0), X),
    "foreign calls with constants": (lambda x: np.convolve(x, np.arange(3.0)) + np.searchsorted(np.arange(9.0), x[0]), X),
    "small constants": (lambda x: x * np.arange(7.0)[::-1], X),
    "large constants": (lambda x: np.outer(np.arange(500.0), x) + np.linspace(0, 1, 3500).reshape(500, 7), X),
    "folded constants": (lambda x: x[:, None] + np.sin(np.arange(700.0)), X),
    "a loop": (ad.grad(lambda x: ad.scan(lambda c, r: (np.sin(c) * r, c), 1.0, x)[0]), X),
    "loops at the same time": (lambda x: _iterations(x) * _iterations(x + 1), X),
    "a branch": (lambda x: x * 2 if x[0] > 0 else x, X),
    "a Python number": (lambda x, y: x * y, X, 2.0),
}


@pytest.mark.parametrize("what", PROGRAMS)
def test_a_program_that_is_found_gives_what_the_compiled_one_gives(place, lowered, what):
    first, second = twice(*PROGRAMS[what])
    assert len(lowered) == 1
    flat = [np.asarray(y) for y in ad.core.tree.flatten(first)[0]]
    for a, b in zip(flat, ad.core.tree.flatten(second)[0], strict=True):
        assert a.dtype == np.asarray(b).dtype
        np.testing.assert_array_equal(a, b)


def test_other_answers_to_a_guard_are_another_program(place, lowered):
    f = lambda x: np.sin(x) if x > 0 else x * x
    for _ in range(2):
        g = ad.jit(f)
        assert (g(1.0), g(-2.0), g(2.0)) == (np.sin(1.0), 4.0, np.sin(2.0))
    assert len(lowered) == 2


def test_large_constants_of_the_graph_are_not_written_again(place):
    data = np.random.default_rng(0).normal(size=200_000)
    np.testing.assert_array_equal(*twice(lambda x: np.sum(x[0] * data), X))
    assert sum(p.stat().st_size for p in place.iterdir()) < 100_000


def test_programs_with_too_many_constants_are_not_kept(place, lowered, monkeypatch):
    monkeypatch.setattr(program_cache, "LARGEST", 50)
    twice(lambda x: x * np.arange(7.0), X)
    assert len(lowered) == 2


def test_programs_of_other_constants_share_their_code(place, lowered):
    for i in range(3):
        f = ad.jit(lambda x, i=i: x * np.arange(i, 7.0 + i))
        np.testing.assert_array_equal(f(X), X * np.arange(i, 7.0 + i))
    assert len(lowered) == 3
    (path,) = next(iter(f.specializations.values()))
    assert path.native.was_cached


def test_ops_of_the_user_are_never_taken_from_disk(place, lowered):
    for power in (2, 3):
        op = ad.extend.linear("scaled_by_mine", lambda x, p=power: x * p, lambda g, x: g)
        assert ad.jit(lambda x, op=op: op(x))(2.0) == 2.0 * power
    assert len(lowered) == 2
    ad.core.op.OPS.pop("scaled_by_mine")


def entries(place):
    """The entries of programs, and those of their code."""
    programs = [p for p in place.iterdir() if b"Program" in p.read_bytes()]
    return programs, [p for p in place.iterdir() if p not in programs]


@pytest.mark.parametrize("damage", [lambda p: p.write_bytes(p.read_bytes()[:-3]), lambda p: p.unlink(), lambda p: p.chmod(0o666)])
@pytest.mark.parametrize("of", [0, 1])
def test_damaged_entries_are_rebuilt(place, lowered, damage, of):
    f = lambda x: np.sum(np.cos(x) * x)
    expected = ad.jit(f)(X)
    for path in entries(place)[of]:
        damage(path)
    assert ad.jit(f)(X) == expected
    assert len(lowered) == 2
    assert ad.jit(f)(X) == expected
    assert len(lowered) == (3 if any(p.stat().st_mode & 0o22 for p in place.iterdir()) else 2)


def test_every_circumstance_changes_the_name(place, monkeypatch):
    graph = ad.graph(lambda x, y: x * y)(X, 2.0)
    other = ad.graph(lambda x, y: x + y)(X, 2.0)
    machine = ("x86", "zen", "+avx", "LLVM 20")
    names = [program_cache.name_of(graph, (), False, machine), program_cache.name_of(other, (), False, machine)]
    names += [program_cache.name_of(graph, (1,), False, machine), program_cache.name_of(graph, (), True, machine)]
    for i in range(len(machine)):
        names.append(program_cache.name_of(graph, (), False, (*machine[:i], "other", *machine[i + 1 :])))
    compiler = program_cache._compiler()
    for i in range(len(compiler)):
        monkeypatch.setattr(program_cache, "_compiler", lambda i=i: (*compiler[:i], "other", *compiler[i + 1 :]))
        names.append(program_cache.name_of(graph, (), False, machine))
    assert len({name.key for name in names}) == len(names)
    monkeypatch.setattr(program_cache, "_compiler", lambda: compiler)
    assert program_cache.name_of(graph, (), False, machine).key == names[0].key
    monkeypatch.setattr(program_cache, "_compiler", lambda: None)
    assert program_cache.name_of(graph, (), False, machine) is None
    monkeypatch.setenv("ADJOINT_CACHE_DIR", "")
    monkeypatch.setattr(program_cache, "_compiler", lambda: compiler)
    assert program_cache.name_of(graph, (), False, machine) is None


def test_every_source_file_counts_as_the_compiler():
    """The rules of ops are written into programs as much as code generation is."""
    files = {path for path, _, _ in program_cache._sources(str(program_cache._PACKAGE))}
    root = os.path.dirname(ad.__file__)
    expected = {
        os.path.join(root, *part.split("/")) for part in ("ops/elementwise.py", "rewrite/loops/roll.py", "compiler/jit.py")
    }
    assert expected <= files


def test_the_text_of_the_entry_point_is_written_once(tmp_path):
    """A second process finds its machine code by the compiler's own stamp."""
    code = """
    import adjoint as ad
    from adjoint.compiler.runtime import entry
    written = []
    text = entry.entry_text
    entry.entry_text = lambda: written.append(1) or text()
    assert ad.jit(lambda x: x * 2)(3.0) == 6
    print(len(written))
    """
    environment = {**os.environ, "ADJOINT_CACHE_DIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", textwrap.dedent(code)]
    runs = [subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout for _ in range(2)]
    assert runs == ["1\n", "0\n"]


def test_a_change_of_the_compiler_is_seen(tmp_path, monkeypatch):
    (tmp_path / "inner").mkdir()
    source, inner = tmp_path / "a.py", tmp_path / "inner" / "b.py"
    for path in (source, inner):
        path.write_text("x = 1")
        os.utime(path, (100, 100))
    found = [program_cache._stamps(tmp_path)]
    for change in (
        lambda: os.utime(inner, (200, 200)),
        lambda: (source.write_text("x = 10"), os.utime(source, (100, 100))),
        lambda: inner.rename(tmp_path / "c.py"),
        lambda: (tmp_path / "c.py").unlink(),
    ):
        change()
        found.append(program_cache._stamps(tmp_path))
    assert len(set(found)) == 5
    (tmp_path / "notes.txt").write_text("")
    assert program_cache._stamps(tmp_path) == found[-1]
    monkeypatch.setattr(program_cache, "_LOADED", 50 * 10**9)
    assert program_cache._stamps(tmp_path) is None


PROGRAM = textwrap.dedent(
    """
    import sys
    import numpy as np, adjoint as ad
    if sys.argv[1:] == ["moved"]:

        pass

    def f(x):
        for _ in range(60):
            x = x + 0.1 * np.sin(x) * np.exp(-x * x)
        return np.sum(np.fft.fft(x).real) if x[0] > 0 else x[0]
    g = ad.jit(ad.grad(f))
    x = np.linspace(0.1, 1, 50)
    g(x)
    path = g.lower(x)
    print(path.native.was_cached, "lowered" in vars(path), "scipy.linalg" in sys.modules)
    print(g.report())
    print(path.graph, path.lowered, path.native.text, g.profile(x).count("\\n"))
    """
)


def test_another_process_shows_the_same_program(tmp_path):
    def run(code):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "ADJOINT_CACHE_DIR": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        )
        return re.sub(r"\d+ ms", "ms", done.stdout).split("\n", 1)

    first, second, moved = run(PROGRAM), run(PROGRAM), run("\n\n\n" + PROGRAM)
    assert (first[0], second[0], moved[0]) == ("False True False", "True False False", "True False False")
    assert second[1] == first[1]
    assert moved[1] != first[1]  # the source lines are those of the program that runs
    assert re.sub(r":\d+", "", moved[1]) == re.sub(r":\d+", "", first[1])


PRODUCT = textwrap.dedent(
    """
    import numpy as np, adjoint as ad
    a = np.arange(2500.0).reshape(50, 50) + 100 * np.eye(50)
    f = ad.jit(lambda a: np.linalg.cholesky(a @ a.T) @ a)
    result = f(a)
    print("scipy.linalg" in sys.modules)
    import scipy.linalg
    from scipy.linalg import cython_blas, cython_lapack
    np.testing.assert_allclose(scipy.linalg.solve(a, a @ np.ones(50)), np.ones(50))
    np.testing.assert_allclose(scipy.linalg.cholesky(a @ a.T, lower=True) @ a, result)
    """
)


@pytest.mark.parametrize("also", ["sys", "sys, scipy.linalg.cython_blas, scipy.linalg.cython_lapack"])
def test_linear_algebra_is_loaded_without_the_package_around_it(also):
    done = subprocess.run([sys.executable, "-c", f"import {also}\n{PRODUCT}"], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == str(also != "sys")


def test_cache_is_asked_for_programs_and_code(place):
    ad.jit(lambda x: x * 3)(X)
    programs, code = entries(place)
    assert len(programs) == 1
    assert all(cache.read(p.stem) for p in (*programs, *code))
