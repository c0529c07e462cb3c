"""`jit` at the edges: guards that cannot be met exactly, failures on other paths, Python numbers, static arguments, processes."""

import enum
import math
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import adjoint as ad
import adjoint.numpy as anp
from adjoint.compiler.calls import MOST_ENTRIES
from adjoint.core.tree import flatten


def same(f, *calls, paths=None, **options):
    """Every call gives what the function gives, or raises what it raises."""
    compiled = ad.jit(f, **options)
    for arguments in calls:
        with np.errstate(all="ignore"):
            try:
                wanted = f(*arguments)
            except Exception as error:
                with pytest.raises(type(error)):
                    compiled(*arguments)
                continue
        for a, b in zip(flatten(compiled(*arguments))[0], flatten(wanted)[0], strict=True):
            assert np.asarray(a).dtype == np.asarray(b).dtype
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)
    assert not compiled.eager
    if paths is not None:
        assert [len(several) for several in compiled.specializations.values()] == [paths]
    return compiled


@pytest.mark.filterwarnings("ignore:.*compiled again for the third time")
def test_a_guard_depends_on_no_more_than_was_asked():
    same(lambda x: x * 2 if x else x * 3, *[(float(v),) for v in range(20)], paths=2)
    same(lambda x: x[: int(x.sum())] * 2, *[(np.full(3, v),) for v in np.linspace(1, 1.3, 20)], paths=1)
    for f in (math.floor, math.ceil, round, math.trunc):
        same(lambda x, f=f: x * f(x), *[(v,) for v in (-1.5, -0.5, 0.5, 0.4, 1.5, 2.5, 2.4)])
    same(lambda x, n: x[:n] if n else x, *[(np.arange(4.0), n) for n in (1, 2, 0, 3, -1)], paths=4)  # x[:-1] is x[:3]


def test_an_array_to_write_to_asks_nothing():
    def f(x):
        a = anp.array(x)
        a[0] = 2.0
        return a

    same(f, *[(np.full(3, v),) for v in (1.0, 2.0, 3.0)], paths=1)


def test_nan_is_an_answer():
    same(lambda x: 1.0 * x if x else 2.0 * x, (np.nan,), (np.nan,), (1.0,), (0.0,), paths=2)

    def f(x):
        try:
            return x * int(x)
        except ValueError:
            return x * 0 + 7

    same(f, (np.nan,), (2.5,), (np.nan,), paths=2)


def test_a_failure_behind_a_guard_miss_is_ignored():
    same(
        lambda x: np.linalg.inv(x) if x[0, 0] > 0 else x * 2,
        *[(a,) for a in (np.eye(2), np.zeros((2, 2)), 3 * np.eye(2), np.ones((2, 2)), np.eye(2))],
        paths=2,
    )
    same(lambda x, i: x[i] if i[0] < 3 else x * 2, *[(np.arange(3.0), np.array([i])) for i in (1, 7, 2, -5, 7)], paths=2)


def test_python_numbers_are_weak_as_in_numpy():
    small = np.array([0.1, 0.2], np.float32)
    same(lambda x, c: (x == c, x == c * 2, x < -c, x * (c + c)), (small, 0.1))
    same(lambda x, c: (x * c, x + c), (np.array([1e-3, 3.1], np.float16), 1.1), (np.array([1e-3], np.float16), 70000.0))
    whole = np.arange(3, dtype=np.int32)
    same(lambda x, n: (x < n, x == n, n > x), (whole, 5), (whole, 2**40), (whole, -(2**40)))
    same(lambda x, n: x + n, (whole, 5), (whole, 2**40), (whole, 6))
    same(lambda x, n: x + n, (whole.astype(np.uint8), 5), (whole.astype(np.uint8), -1), (whole.astype(np.uint8), 300))
    same(lambda x: (x < 2**40, x < 2**70, x == 2**64), (whole,), (whole.astype(np.int64),))

    class Count(enum.IntEnum):
        THREE = 3

    same(lambda x, n: x * n, (small, Count.THREE), (whole, Count.THREE))


def test_static_arguments_by_place_name_and_class():
    ones = np.ones(3, int)
    for n in (1, -1):
        same(lambda x, n: x * n, (ones, 1), (ones, 1.0), (ones, True), static_argnums=n)
    same(lambda x, n: x * n[0], (ones, (1,)), (ones, (1.0,)), static_argnums=1)
    f = ad.jit(lambda x, how: getattr(np, how)(x), static_argnames="how")
    g = ad.jit(lambda x, how: getattr(np, how)(x), static_argnums=1)
    for compiled in (f, g):
        assert compiled(ones, "sum") == compiled(ones, how="sum") == 3
        assert compiled(ones, "max") == 1


def test_arrays_from_files_and_of_other_layouts(tmp_path):
    mapped = np.memmap(tmp_path / "x", float, "w+", shape=(4,))
    mapped[:] = [1, 2, 3, 4]
    same(lambda x: x * 2, (mapped,), (mapped,), (np.ones(4),), paths=1)
    odd = np.frombuffer(bytearray(8 * 101 + 3), np.float64, 100, 3)
    assert not odd.flags.aligned
    same(lambda x: (x + 1, x.sum()), (odd,), (np.arange(100.0).astype(">f8"),), paths=1)


def test_threads_that_come_at_once_compile_once():
    f = ad.jit(lambda x: np.sum(np.sin(x) * x**2) + x[0])
    x, barrier, wrong = np.ones(50), threading.Barrier(24), []
    wanted = f.f(x)

    def run():
        barrier.wait()
        if not np.allclose(f(x), wanted):
            wrong.append(1)

    threads = [threading.Thread(target=run) for _ in range(24)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
    assert [len(paths) for paths in f.specializations.values()] == [1]


@pytest.mark.filterwarnings("ignore:.*compiled again for the third time")
def test_more_signatures_than_native_entries():
    f = ad.jit(lambda x: x * 2)
    for _ in range(2):
        for n in range(1, MOST_ENTRIES + 5):
            assert f(np.ones(n)).sum() == 2 * n


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_forked_processes_run_compiled_code():
    code = """
import os, threading, numpy as np, adjoint as ad
f = ad.jit(lambda x: np.sum(np.sin(x) * np.exp(x)))
x = np.ones(300_000)
wanted, stop = f(x), []
def busy():
    while not stop:
        f(x)
threads = [threading.Thread(target=busy) for _ in range(2)]
[t.start() for t in threads]
for _ in range(8):
    child = os.fork()
    if child == 0:
        os._exit(0 if all(f(x) == wanted for _ in range(3)) else 1)
    assert os.waitpid(child, 0)[1] == 0
stop.append(1)
[t.join() for t in threads]
"""
    done = subprocess.run([sys.executable, "-c", code], timeout=120, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.parametrize("n", [-16, -7, -3, -2, -1, 0, 1, 2, 3, 4, 6, 7, 12, 16, 0.5])
def test_powers_are_accurate_to_two_units(n):
    x = np.concatenate([np.linspace(0.5, 2.0, 999), [1e155, 1e45, 1e-45, 0.0, np.inf, np.nan]])
    x = np.concatenate([x, -x]) if n != 0.5 else x
    with np.errstate(all="ignore"):
        expected = x**n
        found = ad.jit(lambda x: x**n)(x)
        assert np.array_equal(np.isnan(expected), np.isnan(found))
        same = (expected == found) | np.isnan(expected)
        assert np.all(same | (np.abs(found - expected) <= 2 * np.spacing(np.abs(expected))))
