"""Results in the memory of donated arguments: which are, and the same numbers as without, on the CPU and in the simulator."""

import numpy as np
import pytest
import stand_in
import test_compiled_programs as programs

import adjoint as ad
from adjoint.core.tree import flatten

X = np.random.default_rng(0).normal(size=(30, 20))
REUSED = {
    "point by point": lambda x: x * 2 - np.sin(x),
    "read before it is written": lambda x: x - np.sum(x),
    "of another shape": lambda x: np.cos(x).reshape(-1),
}
OWN = {
    "read at other points": lambda x: x[::-1] + 1,
    "transposed": lambda x: x.T + 1,
    "another size": lambda x: x[1:] * 2,
    "another dtype": lambda x: x.astype(np.float32),
    "an index that may be out of bounds": lambda x: x[(x[:, 0] * 0).astype(int)] + 1,
}


def on_gpu(f, x, monkeypatch):
    stand_in.install(monkeypatch)
    given = stand_in.asarray(x)
    y = ad.jit(f, donate_argnums=0)(given)
    return y.get(), np.shares_memory(y._value, given._value)


def on_cpu(f, x):
    given = x.copy()
    y = ad.jit(f, donate_argnums=0)(given)
    return y, np.shares_memory(y, given)


EITHER = {"windows": lambda x: np.concatenate([x[1:], x[:1]]) - x}  # as kernels are merged


@pytest.mark.parametrize("name", [*REUSED, *OWN, *EITHER])
def test_what_is_reused(name, monkeypatch):
    f = (REUSED | OWN | EITHER)[name]
    for y, is_shared in (on_cpu(f, X), on_gpu(f, X, monkeypatch)):
        np.testing.assert_allclose(y, f(X), rtol=1e-12)
        assert name in EITHER or is_shared == (name in REUSED)


def test_guarded_programs_leave_their_arguments_alone():
    """A call that misses is run again, with the same arguments."""
    f = lambda x: x * 2 if x[0, 0] > 0 else x * 3
    compiled = ad.jit(f, donate_argnums=0)
    for x in (np.abs(X), -np.abs(X), np.abs(X)):
        np.testing.assert_array_equal(compiled(x.copy()), f(x))


def test_arguments_that_share_memory():
    compiled = ad.jit(lambda x, y: x + y[::-1], donate_argnums=0)
    x = X.copy()
    np.testing.assert_array_equal(compiled(x, x), X + X[::-1])
    np.testing.assert_array_equal(x, X)
    np.testing.assert_array_equal(compiled(x[:20], x[10:]), X[:20] + X[10:][::-1])
    np.testing.assert_array_equal(x, X)


def test_read_only_arguments():
    x = X.copy()
    x.flags.writeable = False
    np.testing.assert_array_equal(ad.jit(lambda x: x * 2, donate_argnums=0)(x), X * 2)
    np.testing.assert_array_equal(x, X)


@pytest.mark.parametrize("chunk", range(2))
def test_random_programs(chunk, monkeypatch):
    stand_in.install(monkeypatch)
    for number, steps, types, c in programs.drawn(9000 + chunk, 15, programs.SHAPES, longest=6):
        f = programs.program(steps, programs.LARGEST)
        values = programs.values(types, np.random.default_rng(number))
        if not all(isinstance(v, np.ndarray) and v.dtype == np.float64 for v in values):
            continue
        what = programs.described(number, steps, types)
        all_of_them = tuple(range(len(values)))
        with np.errstate(all="ignore"):
            wanted = [np.asarray(y) for y in flatten(ad.jit(f)(*values, c))[0]]
            found = flatten(ad.jit(f, donate_argnums=all_of_them)(*(v.copy() for v in values), c))[0]
            there = flatten(ad.jit(f, donate_argnums=all_of_them)(*map(stand_in.asarray, values), c))[0]
        programs.agree([np.asarray(y) for y in found], wanted, what)
        programs.agree([y.get() for y in there], wanted, what, loose=10.0)


def update(x):
    return np.cos(x) + 0.5 * x


def test_a_kernel_reads_the_result_that_it_writes_over_an_argument():
    program = ad.jit(update, donate_argnums=0).lower(np.linspace(0.0, 1.0, 1000))
    (kernel,) = program.lowered.steps
    assert {view.buffer for view in kernel.reads()} == {program.lowered.outputs[0].buffer}


def test_an_argument_whose_memory_cannot_be_taken_is_left_alone():
    x = np.linspace(0.0, 1.0, 1000)
    fixed = x.copy()
    fixed.flags.writeable = False
    for f, arguments in ((update, (fixed,)), (lambda x, y: update(x) + y, (x, x))):
        before = x.copy()
        found = ad.jit(f, donate_argnums=0)(*arguments)
        np.testing.assert_allclose(found, f(*(a.copy() for a in arguments)), rtol=1e-14)
        assert not any(np.shares_memory(found, a) for a in arguments)
        np.testing.assert_array_equal(x, before)


def test_a_program_that_is_compared_with_the_function_first_runs_on_copies():
    def f(x):
        return -x if type(x) is not int else x

    x = np.arange(1.0, 4.0)
    np.testing.assert_array_equal(ad.jit(f, donate_argnums=0)(x.copy()), -x)
