"""Running graphs as dataflow: overlap, errors, interrupts, levels and profiles."""

import os
import signal
import threading
import time

import numpy as np
import pytest
from night import AT_NIGHT

import adjoint as ad
from adjoint.api.graph import parse
from adjoint.ir.dataflow import critical_path

RNG = np.random.default_rng(0)
X = RNG.standard_normal((20, 20))


def waiting_op(name, wait):
    """An op that calls `wait` when it runs on numbers; staging runs it on empty arrays only."""

    def impl(x):
        if np.size(x):
            wait(x)
        return x + 1.0

    return ad.extend.elementwise(name, impl, partials=lambda y, x: (1.0,))


def diamond(x):
    a, b = np.sin(x), np.cos(x)
    return np.sum(a * b), a @ b


def random_program(rng, length):
    steps = [(*rng.integers(i + 1, size=2), rng.integers(6)) for i in range(length)]

    def f(x):
        values = [x]
        for i, j, which in steps:
            a, b = values[i], values[j]
            values.append([np.sin(a), a + b, a * b, a - 0.5, np.tanh(a @ b), np.exp(-a * a)][which])
        return values[-1], values[length // 2], np.sum(values[-2])

    return f


@pytest.mark.parametrize("workers", [2, 3, 8])
@pytest.mark.parametrize("seed", range(6))
def test_results_are_those_of_the_serial_run(seed, workers):
    program = ad.graph(random_program(np.random.default_rng(seed), 60))(X)
    for serial, parallel in zip(program.run(X), program.run(X, workers=workers), strict=True):
        assert np.asarray(serial).tobytes() == np.asarray(parallel).tobytes()


def test_derivative_graphs_and_several_results():
    program = ad.graph(ad.grad(lambda x: np.sum(np.linalg.svd(x)[1]) + diamond(x)[0]))(X)
    assert program.run(X, workers=4).tobytes() == program.run(X).tobytes()
    assert ad.graph(lambda x: (x, 2.0))(X).run(X, workers=4)[1] == 2.0  # nothing to do


def test_workers_of_one_or_none_is_the_serial_run():
    seen = set()
    op = waiting_op("which_thread", lambda x: seen.add(threading.get_ident()))
    program = ad.graph(lambda x: op(x) * op(x + 1.0))(1.0)
    for workers in (None, 1):
        assert program.run(1.0, workers=workers) == 6.0
    assert seen == {threading.get_ident()}
    assert program.run(1.0, workers=2) == 6.0
    assert len(seen) > 1


def test_independent_nodes_overlap():
    barrier = threading.Barrier(2)
    meet = waiting_op("meet", lambda x: barrier.wait(timeout=20))  # passes only if two run at the same time
    program = ad.graph(lambda x: meet(x) * meet(2.0 * x))(1.0)
    assert program.run(1.0, workers=2) == 6.0
    assert not barrier.broken
    assert program.run(1.0, workers=5) == 6.0


def test_dependent_nodes_do_not_overlap():
    running = []

    def alone(x):
        running.append(x)
        assert len(running) == 1
        time.sleep(0.002)
        running.pop()

    step = waiting_op("step_alone", alone)
    program = ad.graph(lambda x: step(step(step(step(x)))))(1.0)
    assert program.run(1.0, workers=4) == 5.0


def test_an_error_cancels_the_rest_and_names_the_line():
    ran = []
    after = waiting_op("after", lambda x: ran.append(float(x)))

    def f(x):
        y = np.linalg.inv(x)
        z = y[0, 0]
        for _ in range(50):
            z = after(z)
        return z

    program = ad.graph(f)(np.eye(2))
    line = next(e.line for e in program.equations if e.op.name == "inv")
    assert line.startswith("test_dataflow.py:")
    for workers in (None, 2, 4):
        with pytest.raises(np.linalg.LinAlgError) as caught:
            program.run(np.zeros((2, 2)), workers=workers)
        assert any("= inv of the graph 'f'" in note and line in note for note in caught.value.__notes__)
    with pytest.raises(np.linalg.LinAlgError):
        program.profile(np.zeros((2, 2)))
    assert not ran


def test_an_error_stops_independent_nodes_too():
    failed, ran = threading.Event(), []

    def fail(x):
        failed.set()
        raise RuntimeError("no luck")

    def slow(x):
        failed.wait(10)
        time.sleep(0.01)
        ran.append(1)

    bad, good = waiting_op("fails", fail), waiting_op("is_slow", slow)

    def f(x):
        y = x
        for _ in range(100):
            y = good(y)
        return bad(x) + y

    program = ad.graph(f)(1.0)
    before = threading.active_count()
    with pytest.raises(RuntimeError, match="no luck"):
        program.run(1.0, workers=2)
    assert len(ran) <= 3
    assert threading.active_count() == before
    assert not any(frame.path.name == "dataflow.py" for frame in ad_frames())


def ad_frames():
    """The frames of an error as the user sees them."""
    op = waiting_op("fails_again", lambda x: 1 / 0)
    program = ad.graph(lambda x: op(x) + op(x + 1.0))(1.0)
    with pytest.raises(ZeroDivisionError) as caught:
        program.run(1.0, workers=2)
    return caught.traceback


def test_an_interrupt_gets_through():
    if threading.current_thread() is not threading.main_thread():
        pytest.skip("signals reach the main thread only")
    release = threading.Event()

    def interrupt(x):
        os.kill(os.getpid(), signal.SIGINT)
        release.wait(20)

    op = waiting_op("interrupted", interrupt)
    program = ad.graph(lambda x: op(x) + np.sin(x))(1.0)
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        start = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            program.run(1.0, workers=2)
        assert time.monotonic() - start < 10
    finally:
        signal.signal(signal.SIGINT, handler)
        release.set()


def test_the_callers_error_state_reaches_the_threads():
    program = ad.graph(lambda x: np.log(x) + 1 / x)(np.zeros(3))
    np.testing.assert_array_equal(program.run(np.zeros(3), workers=2), [np.nan] * 3)  # and no warning


def test_traced_inputs_are_recorded_in_order():
    program = ad.graph(diamond)(X)
    f = lambda x: program.run(x, workers=3)[0]
    np.testing.assert_allclose(ad.grad(f)(X), ad.grad(lambda x: diamond(x)[0])(X))


@pytest.mark.parametrize("workers", [0, -1, 1.5, True, "2"])
def test_wrong_workers(workers):
    with pytest.raises(ad.AdjointError, match="number of threads"):
        ad.graph(np.sin)(1.0).run(1.0, workers=workers)


def test_wrong_inputs_are_refused_before_anything_runs():
    with pytest.raises(ad.AdjointError, match="input 'x'"):
        ad.graph(lambda x: np.sin(x))(X).run(X[0], workers=2)
    with pytest.raises(ad.AdjointError, match="input 'x' of the graph 'lambda' is str"):
        ad.graph(lambda x: np.sin(x))(1.0).run("text")


def test_levels():
    program = ad.graph(diamond)(X)
    assert [e.op.name for e in program.equations] == ["sin", "cos", "mul", "sum", "matmul"]
    assert program.levels() == ((0, 1), (2, 4), (3,))
    assert ad.graph(lambda x: x)(X).levels() == ()


def test_levels_hold_everything_once_and_respect_the_order():
    program = ad.graph(random_program(np.random.default_rng(7), 80))(X)
    levels = program.levels()
    assert sorted(i for level in levels for i in level) == list(range(len(program)))
    done = {0}
    for level in levels:
        for i in level:
            assert all(n in done for n in program.equations[i].inputs if isinstance(n, int))
        done.update(n for i in level for n in program.equations[i].outputs)


def test_profile():
    slow = waiting_op("sleeps", lambda x: time.sleep(0.02))

    def f(x):
        return slow(slow(x)) + np.sin(np.cos(x))

    program = ad.graph(f)(1.0)
    profile = program.profile(1.0)
    names = [program.equations[i].op.name for i in profile.critical_path]
    assert names == ["sleeps", "sleeps", "add"]
    assert len(profile.times) == 5
    assert 0.04 <= profile.critical_time <= profile.total
    assert profile.parallelism >= 1.0
    assert [program.equations[i].op.name for i in profile.slowest(2)] == ["sleeps", "sleeps"]
    shown = str(profile)
    assert "profile of f: 5 equations" in shown
    assert "critical path: 3 equations" in shown
    assert "= sleeps: float64[]  # test_dataflow.py:" in shown
    assert "beside it, the slowest:" in shown


def test_profile_takes_arguments_as_a_call_does():
    program = ad.graph(lambda p, *, scale: p["w"] * scale + p["b"])({"w": X, "b": 1.0}, scale=2.0)
    assert len(program.profile({"w": X, "b": 1.0}, scale=3.0).times) == 2
    assert "0 equations" in str(ad.graph(lambda x: x)(X).profile(X))


def test_critical_path_goes_by_time():
    program = parse(
        "graph f(x: float64[]) {\n  v1: float64[] = sin x\n  v2: float64[] = cos x\n"
        "  v3: float64[] = exp v2\n  v4: float64[] = add v1, v3\n  return v4\n}"
    )
    assert critical_path(program, [5.0, 1.0, 1.0, 1.0]) == (0, 3)
    assert critical_path(program, [1.0, 1.0, 1.0, 1.0]) == (1, 2, 3)


def test_deep_and_wide_graphs():
    def text(n):
        deep = [f"  v{i}: float64[] = {'sin' if i % 2 else 'cos'} {f'v{i - 1}' if i > 1 else 'x'}" for i in range(1, n)]
        wide = [f"  v{n + i}: float64[] = sin v{i + 1}" for i in range(n - 1)]
        return "\n".join(["graph f(x: float64[]) {", *deep, *wide, f"  return v{n - 1}, v{2 * n - 2}", "}"])

    n = 50_000 if AT_NIGHT else 10_000
    program = parse(text(n))
    assert len(program) == 2 * n - 2
    levels = program.levels()
    assert len(levels) == n
    assert program.run(0.5, workers=3) == program.run(0.5)
    assert len(str(program.profile(0.5)).splitlines()) < 40
