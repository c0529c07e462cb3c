"""What happens to compiled programs when the process forks, is interrupted, or drops them. Each test has processes of its own."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest
from builds import with_gil
from night import sampled

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals and forks")

HEAD = """
import gc, os, signal, sys, threading, time, warnings
import numpy as np, adjoint as ad
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs inherit that it is ignored
warnings.simplefilter("ignore")  # of forks in a process with threads, of functions that are compiled again and again
"""


def start(code, *args, **environment):
    """Python code in a process of its own, which keeps no programs on disk."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "ADJOINT_CACHE_DIR": "", **environment}
    command = [sys.executable, "-c", HEAD + textwrap.dedent(code), *args]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process, seconds=300):
    """The rest of what a process says. One that hangs is killed."""
    watch = threading.Timer(seconds, process.kill)
    watch.start()
    with process:
        out, errors = process.stdout.read(), process.stderr.read()
    watch.cancel()
    assert (process.returncode, errors) == (0, ""), out
    return out


# -- forks ----------------------------------------------------------------------------------------------------------------------


def test_children_of_a_process_that_compiles_compile_as_well():
    code = """
    shared = ad.jit(lambda x: np.sum(np.cos(x) ** 3))
    large = ad.jit(lambda x: np.sum(np.sin(x) * x))
    data = np.ones(300_000)
    large(data)

    def compiles():
        for k in range(10**6):
            ad.jit(ad.grad(lambda x: np.sum(np.sin(x * k) * np.exp(-x)) + np.sum(np.outer(x, x) ** 2)))(np.ones(5))
            shared(np.ones(k + 1))

    def runs():
        while True:
            large(data)

    for target in (compiles, compiles, runs):
        threading.Thread(target=target, daemon=True).start()

    def child(k):
        signal.alarm(60)  # ends a child that hangs
        assert abs(ad.jit(lambda x: np.sum(np.tanh(x) * k))(np.ones(3)) - 3 * np.tanh(1) * k) < 1e-9
        assert abs(shared(np.ones(10_000 + k)) - (10_000 + k) * np.cos(1) ** 3) < 1e-6
        assert abs(large(data) - 300_000 * np.sin(1)) < 1e-3

    for k in range(12):
        time.sleep(0.013 * (1 + k % 5))
        pid = os.fork()
        if not pid:
            child(k)
            os._exit(0)
        status = os.waitpid(pid, 0)[1]
        assert status == 0, (k, status)
    sys.stdout.write("done")
    sys.stdout.flush()
    os._exit(0)
    """
    assert finish(start(code)) == "done"


def test_a_fork_waits_for_the_imports_of_the_first_call():
    code = """
    import concurrent.futures.thread  # it and logging have hooks for forks, which complain if they are added during one
    def first():
        ad.jit(ad.grad(lambda x: np.sum(np.sin(x) @ np.ones((4, 4)))))(np.ones(4))

    threading.Thread(target=first, daemon=True).start()
    for k in range(12):
        time.sleep(0.04)
        pid = os.fork()
        if not pid:
            signal.alarm(100)  # ends a child that hangs
            assert abs(ad.jit(lambda x: np.sum(np.tanh(x) * k))(np.ones(3)) - 3 * np.tanh(1) * k) < 1e-9
            os._exit(0)
        status = os.waitpid(pid, 0)[1]
        assert status == 0, (k, status)
    sys.stdout.write("done")
    sys.stdout.flush()
    os._exit(0)
    """
    assert finish(start(code)) == "done"


def test_a_lock_is_held_in_a_child_only_by_the_thread_that_forked():
    code = """
    from adjoint.core.locks import lock
    mine, other, held = lock(), lock(), threading.Event()
    threading.Thread(target=lambda: (other.acquire(), held.set(), time.sleep(1000)), daemon=True).start()
    held.wait()
    with mine:
        pid = os.fork()
        child_has = mine._is_owned() and other.acquire(blocking=False)
    if not pid:
        os._exit(not child_has)
    assert os.waitpid(pid, 0)[1] == 0
    assert not other.acquire(blocking=False)
    """
    finish(start(code))


def test_a_fork_waits_for_threads_inside_a_gate():
    code = """
    from adjoint.core.locks import Gate
    gate, inside, leave, left = Gate(), threading.Event(), threading.Event(), []

    def holds():
        with gate:
            inside.set()
            leave.wait()
            left.append(1)

    threading.Thread(target=holds, daemon=True).start()
    inside.wait()
    forks = []

    def fork():
        pid = os.fork()
        if not pid:
            os._exit(0)
        forks.append(pid)

    forking = threading.Thread(target=fork)
    forking.start()
    late = threading.Thread(target=lambda: gate.__enter__(), daemon=True)  # not let in while a fork waits
    forking.join(0.3)
    late.start()
    late.join(0.2)
    assert not forks and gate.inside == 1
    leave.set()
    forking.join()
    assert left and os.waitpid(forks[0], 0)[1] == 0
    late.join()
    assert gate.inside == 1
    gate.__exit__()

    for _ in range(2):
        pid = os.fork()
        if not pid:
            signal.alarm(60)
            with gate:
                os._exit(not (gate.inside == 1 and ad.jit(np.sin)(1.0) == np.sin(1.0)))
        assert os.waitpid(pid, 0)[1] == 0
    """
    finish(start(code))


def test_blas_has_its_threads_in_a_child_forked_during_a_deterministic_call():
    code = """
    from adjoint.compiler.runtime import blas
    from adjoint.compiler import native
    inside, leave = threading.Event(), threading.Event()
    before = blas.of_numpy().threads()
    def holds():
        with native.one_thread_of_blas():
            inside.set()
            leave.wait()
    native.one_thread_of_blas()
    thread = threading.Thread(target=holds)
    thread.start()
    inside.wait()
    pid = os.fork()
    if not pid:
        os._exit(blas.of_numpy().threads() != before)
    status = os.waitpid(pid, 0)[1]
    assert blas.of_numpy().threads() == 1
    leave.set()
    thread.join()
    assert (status, blas.of_numpy().threads()) == (0, before)
    """
    finish(start(code, OPENBLAS_NUM_THREADS="2"))


# -- Ctrl-C ---------------------------------------------------------------------------------------------------------------------


def interrupted(process):
    """Interrupt a process that has said it is ready; how long it took to say that it was interrupted, and the rest it says."""
    watch = threading.Timer(300, process.kill)
    watch.start()
    lines = [process.stdout.readline()]
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    began = time.perf_counter()
    lines.append(process.stdout.readline())
    seconds = time.perf_counter() - began
    watch.cancel()
    rest = finish(process)
    assert lines == ["ready\n", "interrupted\n"]
    return seconds, rest


LONG = """
def f(x):
    for k in range(500):
        x = np.sin(x) + np.exp(-x) * np.roll(x, k) if k % 2 else np.tanh(x + 0.1 * k) + 0.1 * np.cumsum(x)
    return np.sum(x)

from adjoint.compiler.llvm import emit
compile_, large = emit._compiled, []
def told(*args):
    if len(args[0].text) > 50_000:
        large.append(args)
        if len(large) == 1:
            print("ready", flush=True)
    return compile_(*args)
emit._compiled = told
"""


@pytest.mark.parametrize("threads", ["1", "2"])
def test_compilation_is_interrupted_and_may_be_repeated(threads):
    """A signal that arrives while LLVM works would be swallowed by the destructor of the first object that goes afterwards."""
    code = f"""
    exec({LONG!r})
    jitted = ad.jit(ad.grad(f))
    try:
        jitted(np.ones(5))
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    emit._compiled = compile_
    small = ad.jit(np.sin)
    assert small(0.0) == 0.0
    np.testing.assert_allclose(jitted(np.ones(5)), ad.grad(f)(np.ones(5)))
    print("done")
    """
    seconds, rest = interrupted(start(code, OMP_NUM_THREADS=threads))
    assert rest.replace("ready\n", "") == "done\n"
    assert seconds < 1.5


def test_an_interrupted_process_ends_at_once():
    """Threads that are still in LLVM do not hold it up."""
    code = f"""
    exec({LONG!r})
    try:
        ad.jit(ad.grad(f))(np.ones(5))
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    """
    began = time.perf_counter()
    interrupted(start(code))
    assert time.perf_counter() - began < 60


LOOPS = {
    "while": "loop(x, n)",
    "guarded": "loop(x, n) if x > 0 else x",
    "nested": "loop(x, n, lambda s: loop(s, 3.0))",
    "scan in while": "loop(x, n, lambda s: ad.scan(lambda c, _: (np.sin(c), None), s, None, length=50)[0])",
    "while in scan": "ad.scan(lambda c, _: (loop(c, n), None), x, None, length=3)[0]",
    "gradient": "ad.grad(lambda x: loop(x, n, lambda s: np.sin(s * x), checkpoint='sqrt'))(x)",
    "a group": "loop(x, n) + loop(x, 2e5, lambda s: s * 0.25)",
    "a worker": "loop(x, 2e5, lambda s: s * 0.25) + loop(x, n)",
}


@pytest.mark.parametrize("name", sampled(LOOPS, 2))
def test_endless_loops_are_interrupted(name):
    code = f"""
    def loop(x, n, body=lambda s: s * 0.5, **options):
        return ad.while_loop(lambda c: c[1] < n, lambda c: (body(c[0]), c[1] + 1.0), (x, 0.0), **options)[0]
    f = ad.jit(lambda x, n: {LOOPS[name]})
    wanted = f(1.0, 2e5), f(1.0, 2e5)
    f.lower(1.0, 2.0)
    print("ready", flush=True)
    try:
        f(1.0, {1e8 if name == "gradient" else 1e15})
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    assert wanted == (f(1.0, 2e5), f(1.0, 2e5))
    """
    seconds, _ = interrupted(start(code, OMP_NUM_THREADS="2"))
    assert seconds < 1.5


def test_long_scans_and_sequences_of_steps_are_interrupted():
    code = """
    scan = ad.jit(lambda x: ad.scan(lambda c, _: (np.sin(c) + 0.1, None), x, None, length=2_000_000)[0])
    scan(1.0)
    def steps(x):
        for k in range(12):
            x = (x @ x.T) * (1 / (3 + k))
        return x
    matrix = np.full((400, 400), 0.05)
    steps = ad.jit(steps)
    steps(matrix)
    print("ready", flush=True)
    try:
        while True:
            scan(1.0)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    try:
        os.kill(os.getpid(), signal.SIGINT)
        steps(matrix)
    except KeyboardInterrupt:
        print("again")
    """
    seconds, rest = interrupted(start(code))
    assert seconds < 1.5
    assert rest == "again\n"


@pytest.mark.parametrize("name", sampled(LOOPS, 2))
def test_other_threads_run_during_a_loop_of_the_main_thread(name):
    """One of them ends the loop: it needs the GIL for that."""
    code = f"""
    def loop(x, n, body=lambda s: s * 0.5, **options):
        return ad.while_loop(lambda c: c[1] < n, lambda c: (body(c[0]), c[1] + 1.0), (x, 0.0), **options)[0]
    f = ad.jit(lambda x, n: {LOOPS[name]})
    f(1.0, 2e5)
    def end():
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGINT)
    threading.Thread(target=end, daemon=True).start()
    try:
        f(1.0, {1e8 if name == "gradient" else 1e15})
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    """
    assert finish(start(code), 60) == "interrupted\n"


def test_other_threads_are_not_interrupted():
    """Handlers run in the main thread; a loop in another one goes on, and its result is right."""
    code = """
    f = ad.jit(lambda n: ad.while_loop(lambda c: c[1] < n, lambda c: (c[0] + 2.0, c[1] + 1.0), (0.0, 0.0))[0])
    f(2.0)
    results, done = [], threading.Event()
    def run():
        results.append(f(2e9))
        done.set()
    try:
        threading.Thread(target=run).start()
        print("ready", flush=True)
        done.wait()
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    done.wait()
    print(results)
    """
    process = start(code)
    assert interrupted(process)[1] == "[np.float64(4000000000.0)]\n"


def test_an_endless_loop_in_another_thread_does_not_stop_the_process():
    code = """
    f = ad.jit(lambda n: ad.while_loop(lambda c: c[1] < n, lambda c: (c[0] + 2.0, c[1] + 1.0), (0.0, 0.0))[0])
    f(2.0)
    threading.Thread(target=lambda: f(1e15), daemon=True).start()
    print("ready", flush=True)
    try:
        time.sleep(1000)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    """
    seconds, _ = interrupted(start(code))
    assert seconds < 1.5


def test_a_handler_that_does_not_raise_lets_the_loop_go_on():
    code = """
    seen = []
    signal.signal(signal.SIGINT, lambda *_: (seen.append(1), print("interrupted", flush=True)))
    f = ad.jit(lambda n: ad.while_loop(lambda c: c[1] < n, lambda c: (c[0] + 2.0, c[1] + 1.0), (0.0, 0.0))[0])
    f(2.0)
    print("ready", flush=True)
    assert f(3e9) == 6e9
    print(seen)
    """
    seconds, rest = interrupted(start(code))
    assert (seconds < 1.5, rest) == (True, "[1]\n")


# -- programs that are dropped --------------------------------------------------------------------------------------------------


@with_gil
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_programs_that_are_dropped_are_freed():
    code = """
    import ctypes
    def memory():
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    def once(k):
        constant = np.arange(5000.0) + k
        ad.jit(lambda x: np.sum(np.exp(x) * constant) + k * x[0])(np.ones(5000))
    for k in range(40):
        once(k)
    before = memory()
    for k in range(40, 120):
        once(k)
    print((memory() - before) / 80)
    """
    # One heap for all threads, and no more threads than need be: else it takes long until the heaps grow no more.
    assert float(finish(start(code, MALLOC_ARENA_MAX="1", OMP_NUM_THREADS="1"))) < 15_000  # bytes


def test_functions_outlive_their_program():
    code = """
    def held():
        f = ad.jit(lambda x: np.cumsum(np.sin(x)) + 1.0)
        data = np.arange(40_000.0)
        first = f(data)  # large: its memory comes from the handler of compiled functions
        f(1.5 * data[:7])
        path = f.lower(data)
        return path.flat, f._calls.entry, path.native.function(path.inputs), first
    flat, entry, function, first = held()
    gc.collect()
    for k in range(5):
        ad.jit(lambda x: x * k)(np.ones(3))
    gc.collect()
    data = np.arange(40_000.0)
    wanted = np.cumsum(np.sin(data)) + 1.0
    for result in (flat(data)[0], entry(data), function(data)[0], first):
        np.testing.assert_allclose(result, wanted)
    np.testing.assert_allclose(entry(1.5 * data[:7]), np.cumsum(np.sin(1.5 * data[:7])) + 1.0)
    np.testing.assert_allclose(entry(data[:9]), np.cumsum(np.sin(data[:9])) + 1.0)  # compiled now
    thread = threading.Thread(target=lambda: entry(data))
    thread.start()
    del flat, entry, function
    gc.collect()
    thread.join()
    """
    finish(start(code))
