"""Steps that run at the same time: the same bits on any number of threads, errors in the order of the program, real overlap."""

import contextlib
import ctypes
import threading

import llvmlite.binding
import numpy as np
import pytest

import adjoint as ad
from adjoint.compiler import native
from adjoint.compiler.lower.step import ParallelGroup

RNG = np.random.default_rng(0)
X = np.linspace(0.1, 0.9, 4)
LENGTH = 3000
MEMBER = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
GROUP = ctypes.CFUNCTYPE(None, MEMBER, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)


@pytest.fixture
def pool():
    found = native.pool()
    before = found.threads
    found.threads = 3
    yield found
    found.threads = before


def groups(compiled, *args):
    return [step for step in compiled.lower(*args).lowered.steps if isinstance(step, ParallelGroup)]


def loop(x, iterations=LENGTH, reverse=False):
    return ad.scan(lambda c, _: (np.sin(c) + 0.1, None), x, None, length=iterations, reverse=reverse)[0]


def recurrence(w, xs, reverse=False):
    def iteration(h, x):
        h = np.tanh(w * h + x)
        return h, h

    return ad.scan(iteration, np.zeros(xs.shape[1]), xs, reverse=reverse)[1]


def both_ways(w, v, xs):
    return np.sum(recurrence(w, xs) * recurrence(v, xs, reverse=True))


def until(x, most=1e6):
    return ad.while_loop(lambda c: np.sum(c) < most, lambda c: c * 1.005 + 0.01 * np.sin(c) ** 2, x, checkpoint="sqrt")


def ensemble(x):
    return sum(np.sum(loop(x * k)) ** 2 for k in range(1, 6))


def nested(x):
    """The bodies of two loops have two loops each."""
    outer = lambda c, _: (loop(c, 1200) * 0.5 + loop(c * 2, 1200) * 0.25, None)
    return ad.scan(outer, x, None, length=4)[0] + ad.scan(outer, x * 2, None, length=5)[0]


def pick(table, at):
    return ad.scan(lambda c, i: (np.sin(c + table[i]), None), 0.0, at)[0]


def scatter(x, v, at):
    x = x.copy()
    np.add.at(x, at, np.exp(np.sin(v)))
    return x


def squares(a):
    def iteration(c, _):
        return np.linalg.cholesky(c @ c.T + np.eye(len(c))), None

    return ad.scan(iteration, a, None, length=200)[0]


PROGRAMS = {
    "both ways": (both_ways, X, X[::-1].copy(), RNG.normal(size=(700, 4))),
    "gradient both ways": (ad.value_and_grad(both_ways, (0, 1)), X, X[::-1].copy(), RNG.normal(size=(700, 4))),
    "ensemble": (ad.value_and_grad(ensemble), X),
    "while": (lambda x: (until(x), until(x * 1.5)), X),
    "gradient of while": (ad.grad(lambda x: np.sum(until(x)) * np.sum(until(x * 1.5))), X),
    "branch": (lambda x: ad.cond(x[0] > 0, loop, np.sin, x) + loop(x * 2), X),
    "nested": (nested, X),
    "scatter": (
        lambda x, v: (scatter(x, v, np.arange(3000) % 7), scatter(x, v[1:], np.arange(2999) % 5)),
        np.ones(9),
        np.ones(3000),
    ),
    "decompositions": (lambda a: squares(a) + squares(a.T), RNG.normal(size=(6, 6))),
    "stacks": (lambda a: (np.linalg.cholesky(a), np.linalg.eigh(a + 1)[0]), np.stack([np.eye(12) * k for k in range(1, 90)])),
    "in and out": (lambda x: (loop(x), x * 2, loop(x[::-1]), loop(x)[0] + loop(x)[1]), X),
    "indices": (
        lambda t, i, j: pick(t, i) * pick(t, j),
        RNG.normal(size=50),
        RNG.integers(0, 50, 3000),
        RNG.integers(0, 50, 2500),
    ),
}


def leaves(result):
    """The arrays in a result."""
    return [leaf for part in result for leaf in leaves(part)] if isinstance(result, (tuple, list)) else [np.asarray(result)]


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_same_bits_on_any_number_of_threads(name, pool):
    f, *args = PROGRAMS[name]
    compiled = ad.jit(f)
    assert groups(compiled, *args)
    assert not compiled.eager
    results = []
    for count in (1, 2, 3):
        pool.threads = count
        results += [leaves(compiled(*args)) for _ in range(3)]
    for expected, found in zip(leaves(f(*args)), results[0], strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    for other in results[1:]:
        assert [a.tobytes() for a in other] == [a.tobytes() for a in results[0]]


def drawn(rng, count=7):
    """A function of loops and other steps, each of which takes some earlier values."""
    plan = [(rng.integers(6), *rng.integers(0, 10**6, 2), bool(rng.integers(2))) for _ in range(count)]

    def f(x):
        values = [x, x * 2]
        for kind, i, j, reverse in plan:
            a, b = values[i % len(values)], values[j % len(values)]
            if kind < 3:
                values.append(loop(a + 0.5 * b, 1500 + kind, reverse))
            elif kind == 3:
                values.append(np.sum(recurrence(np.tanh(a), np.outer(np.linspace(0, 1, 800), b), reverse), axis=0) * 0.01)
            else:
                values.append(np.sin(a) * b[::-1] if kind == 4 else np.outer(a, b) @ a)
        return sum(np.sum(value) for value in values)

    return f


@pytest.mark.parametrize("seed", range(4))
def test_random_programs(seed, pool):
    f = drawn(np.random.default_rng(seed))
    compiled = ad.jit(ad.value_and_grad(f))
    assert groups(compiled, X)
    for found, expected in zip(compiled(X), ad.value_and_grad(f)(X), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-10)
    results = []
    for count in (1, 2, 3, 3, 3):
        pool.threads = count
        results.append([a.tobytes() for a in leaves(compiled(X))])
    assert all(result == results[0] for result in results)


# -- errors --


def test_errors_are_those_of_the_first_step(pool):
    def first_index(table, i, a):
        return pick(table, i), ad.scan(lambda c, _: (np.linalg.cholesky(c), None), a, None, length=300)[0]

    def first_matrix(table, i, a):
        return ad.scan(lambda c, _: (np.linalg.cholesky(c), None), a, None, length=300)[0], pick(table, i)

    table, fine, bad = np.ones(5), np.zeros(3000, int), np.full(3000, 7)
    good, indefinite = np.eye(8), -np.eye(8)
    for g in (first_index, first_matrix):
        compiled = ad.jit(g)
        compiled(table, fine, good)
        assert groups(compiled, table, fine, good)
        for _ in range(4):
            with pytest.raises(IndexError):
                compiled(table, bad, good)
            with pytest.raises(np.linalg.LinAlgError):
                compiled(table, fine, indefinite)
            with pytest.raises(IndexError if g is first_index else np.linalg.LinAlgError):
                compiled(table, bad, indefinite)
        assert np.isfinite(leaves(compiled(table, fine, good))[0]).all()


def test_guards_that_miss(pool):
    @ad.jit
    def f(x, at):
        if x[0] > 0:
            return pick(x, at) + pick(x * 2, at), 1
        return loop(x) * loop(x * 2), 2

    at = np.zeros(3000, int)
    bad = np.full(3000, 9)
    assert f(X, at)[1] == 1
    assert groups(f, X, at)
    for _ in range(5):
        assert f(-X, bad)[1] == 2  # the loops of the other path fail with these indices
        with pytest.raises(IndexError):
            f(X, bad)
        np.testing.assert_allclose(f(-X, at)[0], loop(-X) * loop(-2 * X))


# -- threads --


def test_calls_from_many_threads(pool):
    f = ad.jit(ad.value_and_grad(both_ways, (0, 1)))
    inputs = [(X * k, X / k, RNG.normal(size=(700, 4))) for k in range(1, 5)]
    expected = [leaves(f(*args)) for args in inputs]
    wrong = []

    def work(which):
        for _ in range(15):
            if any((a != b).any() for a, b in zip(leaves(f(*inputs[which])), expected[which], strict=True)):
                wrong.append(which)

    threads = [threading.Thread(target=work, args=(k % 4,)) for k in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_members_meet(pool):
    """Two members wait for each other, so they run at the same time; unless they were short the last time."""
    run_group = GROUP(pool.parallel_group)
    gain = ctypes.c_int64(10**9)
    meeting = threading.Barrier(2)
    run_group(MEMBER(lambda table, i: meeting.wait(20) and None), None, 2, ctypes.addressof(gain))
    assert not meeting.broken
    seen = []
    gain.value = 0
    run_group(MEMBER(lambda table, i: seen.append((i, threading.get_native_id()))), None, 4, ctypes.addressof(gain))
    assert seen == [(i, threading.get_native_id()) for i in range(4)]
    sleep = threading.Event()
    run_group(MEMBER(lambda table, i: sleep.wait(0.01 * (i + 1)) and None), None, 3, ctypes.addressof(gain))
    assert 25_000_000 < gain.value < 10**9  # two of three times
    run_group(MEMBER(lambda table, i: None), None, 2, ctypes.addressof(gain))
    assert gain.value < 5_000_000


@contextlib.contextmanager
def intercepted(function):
    """Programs that are loaded meanwhile call this function in place of the pool's."""
    kept = GROUP(function)
    llvmlite.binding.add_symbol("adjoint_parallel_group", ctypes.cast(kept, ctypes.c_void_p).value)
    try:
        yield
    finally:
        llvmlite.binding.add_symbol("adjoint_parallel_group", native.pool().parallel_group)


@pytest.mark.parametrize("name", ["gradient both ways", "while", "in and out"])
def test_members_of_a_program_overlap_in_any_order(name, pool):
    """All members of a program are begun before one of them runs, and they run backwards."""
    f, *args = PROGRAMS[name]
    usual = ad.jit(f)
    expected, members = leaves(usual(*args)), [len(group.members) for group in groups(usual, *args)]
    calls = []

    def meet(member, table, count, gain):
        calls.append(count)
        inside, turn = threading.Barrier(count), [threading.Event() for _ in range(count + 1)]
        turn[count].set()

        def run(i):
            inside.wait(20)
            turn[i + 1].wait(20)
            member(table, i)
            turn[i].set()

        threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    with intercepted(meet):
        found = leaves(ad.jit(f)(*args))
    assert [a.tobytes() for a in found] == [a.tobytes() for a in expected]
    assert calls == members != []


def test_groups_in_reports_and_profiles(pool):
    f = ad.jit(both_ways)
    args = PROGRAMS["both ways"][1:]
    f(*args)
    assert "1 group of independent steps, " in f.report()
    assert "parallel group of 2 members" in f.profile(*args)
