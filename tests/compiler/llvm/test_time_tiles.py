"""Loops over stencils of usual size run in time tiles: the states of the loop as it is, and Ctrl-C between tiles."""

import signal
import threading
import time

import numpy as np
import pytest

import adjoint as ad
from adjoint.compiler.lower.step import TimeTiles


def heat(u):
    return u + 0.1 * np.pad(u[2:] - 2.0 * u[1:-1] + u[:-2], 1)


def repeated(count):
    return lambda u: ad.scan(lambda u, _: (heat(u), None), u, None, length=count)[0]


def is_tiled(compiled, u):
    return any(isinstance(step, TimeTiles) for step in compiled.lower(u).lowered.steps)


@pytest.mark.parametrize("count", [8, 63, 64, 65, 129])
@pytest.mark.parametrize("dtype, size", [(np.float64, 125_000), (np.float32, 270_001)])
def test_tiles_give_the_loop(dtype, size, count):
    u = np.random.default_rng(0).normal(size=size).astype(dtype)
    compiled = ad.jit(repeated(count))
    assert is_tiled(compiled, u)
    wanted = u
    for _ in range(count):
        wanted = heat(wanted)
    assert compiled(u).dtype == dtype
    np.testing.assert_allclose(
        compiled(u), wanted, rtol=1e-11 if dtype is np.float64 else 1e-3, atol=1e-13 if dtype is np.float64 else 1e-5
    )


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="signals of this system go to no thread")
def test_a_long_loop_is_interrupted():
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs inherit that it is ignored
    try:
        compiled, u = ad.jit(repeated(1_000_000)), np.ones(150_000)
        assert is_tiled(compiled, u)
        main = threading.main_thread().ident
        threading.Timer(0.5, lambda: signal.pthread_kill(main, signal.SIGINT)).start()
        began = time.process_time()  # other processes do not count
        with pytest.raises(KeyboardInterrupt):  # a quarter of a minute of work
            compiled(u)
        assert time.process_time() - began < 8
    finally:
        signal.signal(signal.SIGINT, handler)
