"""Functions under `functools.lru_cache` in compiled functions: each call of the program makes the call."""

import functools
import types
import warnings

import numpy as np
import pytest

import adjoint as ad
from adjoint.compiler.jit import CompileWarning

rate = 2.0


@functools.cache
def scaled(n, power=1):
    return rate * n**power


@functools.lru_cache(maxsize=1)
def table(n):
    return np.arange(1.0, n + 1)


def count(compiled):
    return len(next(iter(compiled.specializations.values())))


@pytest.mark.parametrize("call", [lambda: scaled(3), lambda: scaled(3, 2), lambda: scaled(3, power=2), lambda: scaled(n=3)])
def test_what_is_remembered_counts_until_it_is_dropped(call, monkeypatch):
    scaled.cache_clear()
    f = lambda x: x * call()
    compiled = ad.jit(f)
    first = f(1.5)
    assert compiled(1.5) == compiled(1.5) == first
    monkeypatch.setattr(f"{__name__}.rate", 5.0)
    assert compiled(1.5) == first
    scaled.cache_clear()
    assert compiled(1.5) == f(1.5) != first


def test_a_remembered_array_is_an_input():
    table.cache_clear()
    f = lambda x: np.sum(x * table(3))
    compiled = ad.jit(f)
    assert compiled(2.0) == f(2.0) == 12.0
    table(3)[0] = 7.0
    assert compiled(2.0) == f(2.0) == 24.0
    table(4)  # the only entry is another one
    assert compiled(2.0) == f(2.0) == 12.0
    assert count(compiled) == 1


def test_the_program_makes_one_call_of_each():
    calls = []
    memo = functools.cache(lambda n: calls.append(n) or float(n))
    compiled = ad.jit(lambda x: x * memo(2) + memo(2) * memo(3))
    assert compiled(1.0) == compiled(1.0) == 8.0
    assert calls == [2, 3]
    memo.cache_clear()
    assert compiled(1.0) == 8.0
    assert calls == [2, 3, 2, 3]


@pytest.mark.parametrize("error", [ValueError, RuntimeError, KeyboardInterrupt])
def test_a_memo_that_raises(error):
    broken = False

    @functools.cache
    def helper():
        if broken:
            raise error("broken")
        return 3.0

    compiled = ad.jit(lambda x: x * helper())
    assert compiled(2.0) == compiled(2.0) == 6.0
    broken = True
    assert compiled(2.0) == 6.0
    helper.cache_clear()
    with pytest.raises(error, match="broken"):
        compiled(2.0)
    broken = False
    assert compiled(2.0) == 6.0


def test_a_memo_of_an_argument_runs_eagerly(monkeypatch):
    scaled.cache_clear()
    compiled = ad.jit(lambda x: scaled(x))
    with pytest.warns(CompileWarning, match="calls scaled, whose results are remembered, with an argument that is computed"):
        assert compiled(1.5) == 3.0
    monkeypatch.setattr(f"{__name__}.rate", 5.0)
    assert compiled(1.5) == 3.0  # as it is remembered
    assert compiled(2.5) == 12.5


def test_what_lies_under_a_memo_is_compiled(monkeypatch):
    compiled = ad.jit(lambda x: scaled.__wrapped__(x))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert compiled(1.5) == 3.0
    monkeypatch.setattr(f"{__name__}.rate", 5.0)
    assert compiled(1.5) == 7.5


def test_files_and_traced_arrays_stay_out_of_a_memo(tmp_path):
    file = tmp_path / "numbers.txt"
    np.savetxt(file, [1.0, 2.0])
    held = types.SimpleNamespace(w=np.array([3.0, 4.0]))
    load = functools.cache(lambda: np.loadtxt(file) * held.w)
    compiled = ad.jit(lambda x: np.sum(x * load() * held.w))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert compiled(1.0) == compiled(1.0) == 41.0
    assert type(load()) is np.ndarray
