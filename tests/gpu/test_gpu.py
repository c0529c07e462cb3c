"""What only a GPU shows: streams, large arrays, memory, arrays of other libraries, the time of a call."""

import gc
import os
import time

import numpy as np
import pytest
from gpu.test_jit import OnGPU

import adjoint as ad


@pytest.fixture
def gpu():
    return OnGPU()


def test_results_are_on_the_current_stream(gpu):
    xp = gpu.xp
    f = ad.jit(lambda x: np.sum(np.sin(x)))
    x = xp.ones(1 << 22)
    wanted = float(f(x))
    streams = [xp.cuda.Stream(non_blocking=True) for _ in range(2)]
    xp.cuda.Device().synchronize()
    found = []
    for _ in range(10):
        for stream in streams:
            with stream:
                found.append(f(x))
    for stream in streams:
        stream.synchronize()
    assert {float(y) for y in found} == {wanted}


def test_two_to_the_31_elements(gpu):
    xp = gpu.xp
    if xp.cuda.runtime.memGetInfo()[0] < 40 << 30:
        pytest.skip("needs 40 GB")
    n = (1 << 31) + 12_345
    x = xp.zeros(n, np.float32)
    x[-1], x[1 << 31] = 3.0, 5.0
    y, total = ad.jit(lambda x: (x * 2 + 1, np.sum(x)))(x)
    assert float(total) == 8.0
    assert [float(y[i]) for i in (0, (1 << 31) - 1, 1 << 31, n - 1)] == [1.0, 1.0, 11.0, 7.0]
    del x, y
    xp.get_default_memory_pool().free_all_blocks()


def test_out_of_memory_and_again(gpu):
    xp = gpu.xp
    f = ad.jit(lambda x: np.sin(x))
    x = xp.ones(1 << 24)
    f(x)
    pool = xp.get_default_memory_pool()
    gc.collect()  # which CuPy does as well, before it gives up
    pool.free_all_blocks()
    pool.set_limit(size=pool.total_bytes() + (1 << 20))
    try:
        with pytest.raises(MemoryError, match=f"for the {x.nbytes} bytes of the results"):
            f(x)
    finally:
        pool.set_limit(size=0)
    assert float(f(x)[0]) == pytest.approx(np.sin(1.0), abs=1e-15)


def test_tensors_of_torch(gpu):
    torch = pytest.importorskip("torch")
    x = torch.arange(5, dtype=torch.float64, device="cuda")
    y = ad.jit(lambda x: np.sin(x) * 2)(x)
    np.testing.assert_array_equal(gpu.get(y), 2 * np.sin(np.arange(5.0)))
    with pytest.raises(ad.AdjointError, match="cannot be read by CuPy"):
        ad.jit(lambda x: np.sin(x) * 2)(x.requires_grad_())


def test_machine_code_is_kept(gpu, tmp_path, monkeypatch):
    monkeypatch.setenv("ADJOINT_CACHE_DIR", str(tmp_path))
    x = gpu.xp.ones(7)
    first = gpu.get(ad.jit(lambda x: np.exp(x) * 3.25)(x))
    assert os.listdir(tmp_path)
    monkeypatch.setattr(type(gpu.device), "_linked", None)
    np.testing.assert_array_equal(gpu.get(ad.jit(lambda x: np.exp(x) * 3.25)(x)), first)


def test_graphs_are_replayed_quicker(gpu):
    from gpu.test_jit import stencil

    x = gpu.put(np.linspace(0, 1, 5000))
    f = ad.jit(lambda x: stencil(x)[0])
    f(x)
    program = f.lower(x).program
    times = {}
    for name, replays in (("replayed", program.replays), ("launched", None)):
        program.replays = replays
        f(x), f(x), f(x)
        gpu.xp.cuda.Device().synchronize()
        began = time.perf_counter()
        for _ in range(50):
            f(x)
        gpu.xp.cuda.Device().synchronize()
        times[name] = time.perf_counter() - began
    print({name: f"{t / 50 * 1e6:.0f} µs" for name, t in times.items()})
    assert times["replayed"] < times["launched"]


def test_the_call_of_a_small_gradient(gpu):
    f = ad.jit(ad.grad(lambda x: np.sum(np.sin(x) * x)))
    x = gpu.xp.ones(3)
    wait, times = gpu.xp.cuda.Device().synchronize, []
    for _ in range(2000):
        began = time.perf_counter()
        f(x)
        wait()
        times.append(time.perf_counter() - began)
    middle = sorted(times)[1000]
    print(f"{middle * 1e6:.1f} µs, waited for")
    assert middle < 30e-6  # 15 µs are to be reached; a busy host takes longer
