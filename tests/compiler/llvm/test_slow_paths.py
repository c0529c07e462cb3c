"""Slow paths of functions are compiled once for all programs."""

import re

import numpy as np
import pytest

import adjoint as ad
from adjoint.compiler import native
from adjoint.compiler.llvm import emit, slow_paths

X = np.linspace(0.2, 3.0, 7)
LONG = np.linspace(0.2, 1e9, 300)

FUNCTIONS = {
    "a sum of exponentials": (lambda x: np.sum(np.logaddexp(x, 2.0)) + np.sum(np.sin(x)), X),
    "a few points": (lambda x: np.sum(np.sin(x) * np.cos(x)), X),
    "single precision": (lambda x: np.sum(np.sin(x) * np.exp(x)), X.astype(np.float32)),
    "a slow path in a loop over points": (lambda x: np.sum(np.sin(x) * np.tan(x)), LONG),
    "two arguments": (lambda x: np.sum(np.logaddexp(x, -x)), LONG / 1e9),
    "a power": (lambda x: np.sum(x**1.7), X),
    "a loop": (lambda x: ad.scan(lambda c, r: (np.sin(c + r), c), 0.5, x)[0], X),
    "none": (lambda x: np.sum(x * x), X),
}


def functions(text):
    return re.findall(r"^define .*?@([\w.]+)\(", text, re.M)


@pytest.mark.parametrize("least", [1, 150])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_program_and_its_slow_paths_are_the_whole(name, least, monkeypatch):
    """Each text can be read, nothing is lost, and nothing but the slow path is visible."""
    f, x = FUNCTIONS[name]
    text = ad.jit(ad.grad(f)).lower(x).native.text
    monkeypatch.setattr(slow_paths, "_LONG", least)
    rest, paths = slow_paths.taken_apart(text)
    assert set(functions(rest)).union(*(functions(path.text) for path in paths)) == set(functions(text))
    for path in paths:
        emit.llvm.parse_assembly(path.text).verify()
        assert re.findall(r"^define (?!internal)[^@]*@([\w.]+)", path.text, re.M) == [path.name]
        assert re.search(rf"^declare [^\n]*@{re.escape(path.name)}\(", rest, re.M)
        assert path.name not in functions(rest)
    emit.llvm.parse_assembly(rest).verify()
    if least == 1:
        assert bool(paths) == (" optnone " in text)
        assert " optnone " not in rest
    assert all(path.text.count("\n") >= least for path in paths)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_programs_give_the_same_in_one_part_and_in_many(name, monkeypatch):
    monkeypatch.setenv("ADJOINT_CACHE_DIR", "")
    monkeypatch.setattr(slow_paths, "_LONG", 1)
    f, x = FUNCTIONS[name]
    results = []
    for count in (1, 3, 3):  # the third finds the slow paths of the second
        monkeypatch.setattr(emit, "default_threads", lambda count=count: count)
        results.append(ad.jit(ad.grad(f))(x))
    np.testing.assert_array_equal(results[1], results[0])
    np.testing.assert_array_equal(results[2], results[0])


def test_slow_paths_are_compiled_once(monkeypatch, tmp_path):
    """For all programs of a process; other processes find them on disk."""
    monkeypatch.setenv("ADJOINT_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(emit, "default_threads", lambda: 2)
    monkeypatch.setattr(native._SHARED, "known", {})
    compiled = []
    real = emit._compiled
    monkeypatch.setattr(emit, "_compiled", lambda part, dropped: (compiled.append(part), real(part, dropped))[1])
    ad.jit(lambda x: np.sum(np.logaddexp(x, 2) * 3))(X)
    assert [part.is_shared for part in compiled].count(True) == 1
    for again in (lambda x: np.sum(np.logaddexp(x, 1) * 5), lambda x: np.sum(np.logaddexp(x, -x) ** 2) / 7):
        compiled.clear()
        np.testing.assert_allclose(ad.jit(again)(X), again(X), rtol=1e-14)
        assert compiled
        assert not any(part.is_shared for part in compiled)
        native._SHARED.known.clear()


def test_the_text_of_a_slow_path_does_not_depend_on_the_program(monkeypatch):
    programs = [
        lambda x: np.sum(np.sin(x)),
        lambda x: np.max(np.sin(x) * np.exp(x)) + np.cos(x[0]),
        lambda x: np.sin(x[:3]) @ x[:3],
    ]
    monkeypatch.setattr(slow_paths, "_LONG", 1)
    found = [{path.name: path.text for path in slow_paths.taken_apart(ad.jit(f).lower(X).native.text)[1]} for f in programs]
    assert len({texts["adjoint.rare.sin.f64"] for texts in found}) == 1
