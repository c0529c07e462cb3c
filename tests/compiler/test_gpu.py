"""`ad.jit` on a GPU, with the simulator in place of one: the tests of a GPU, and what only the stand-in shows."""

import sys

import numpy as np
import pytest
import stand_in
from gpu.test_jit import *  # noqa: F403
from gpu.test_jit import W, X, loss

import adjoint as ad
from adjoint.compiler.cuda.replay import MOST, Replays
from adjoint.compiler.jit import CompileWarning
from adjoint.core.errors import ArgumentError, DeviceError
from adjoint.device.gpu import cupy


@pytest.fixture
def gpu(monkeypatch):
    return stand_in.StandIn(stand_in.install(monkeypatch))


def test_nothing_is_copied_to_the_host_unless_python_asks(gpu):
    x, w = gpu.put((X, W))
    f = ad.jit(ad.value_and_grad(loss))
    for _ in range(3):
        f(w, x)
    assert gpu.gpus[0].fetches == 0
    asks = ad.jit(lambda x: x * int(x[0, 0]))
    asks(x)
    assert gpu.gpus[0].fetches == 1


def test_later_calls_do_not_open_their_arguments(gpu, monkeypatch):
    f = ad.jit(ad.grad(lambda x: np.sum(np.sin(x) * x)))
    x = gpu.put(np.arange(3.0))
    f(x)
    monkeypatch.setattr(type(f), "_find", None)
    np.testing.assert_allclose(gpu.get(f(x)), np.sin(np.arange(3.0)) + np.arange(3.0) * np.cos(np.arange(3.0)))


def test_gpus_and_the_host_share_a_function(gpu):
    f = ad.jit(lambda x: np.sin(x) * 2)
    for _ in range(3):
        assert isinstance(f(X), np.ndarray)
        assert f(gpu.put(X))._number == 0
        assert f(gpu.put(X, 1))._number == 1
    assert [str(s) for s in f.specializations] == ["float64[6,4]", "float64[6,4], on GPU 0", "float64[6,4], on GPU 1"]


def test_mixed_gpus(gpu):
    f = ad.jit(lambda a, b: a["u"] + b)
    with pytest.raises(DeviceError, match="a_u on GPU 0, b on GPU 1; copy them to one"):
        f({"u": gpu.put(X)}, gpu.put(X, 1))
    with pytest.raises(DeviceError, match="x on GPU 0 and device='cuda:1' was asked for"):
        ad.jit(lambda x: x, device="cuda:1")(gpu.put(X))
    outside = gpu.put(X, 1)
    with pytest.raises(DeviceError, match="reads outside on GPU 1, but its arguments are on GPU 0"):
        ad.jit(lambda x: x + outside)(gpu.put(X))
    np.testing.assert_array_equal(gpu.get(ad.jit(lambda x: x + 1, device="cuda:1")(gpu.put(X, 1))), X + 1)


@pytest.mark.parametrize("library", [stand_in.ByInterface, stand_in.ByDlpack])
def test_arrays_of_other_libraries(gpu, library):
    f = ad.jit(lambda x, y: x @ y)
    for _ in range(2):
        np.testing.assert_allclose(gpu.get(f(library(gpu.put(X)), gpu.put(W))), X @ W, rtol=1e-13)


def test_an_array_of_objects(gpu):
    x = stand_in.ndarray(np.array(["a"]))
    with pytest.raises(ArgumentError, match=r"x of .* is an array of dtype <U1"):
        ad.jit(lambda x: x)(x)


def test_the_copy_of_an_array_outside_is_kept_until_it_changes(gpu):
    data = np.ones((4, 3))
    f = ad.jit(lambda x: np.sum(x @ data))
    x = gpu.put(X)
    f(x)
    before = gpu.gpus[0].copies
    for _ in range(3):
        f(x)
    assert gpu.gpus[0].copies == before
    data[0, 0] = np.nan
    f(x)
    f(x)
    assert gpu.gpus[0].copies == before + 1


def test_out_of_memory(gpu):
    f = ad.jit(lambda x: np.sum(x, axis=0) - x)
    x = gpu.put(X)
    wanted = gpu.get(f(x))
    gpu.gpus[0].memory = 10
    with pytest.raises(MemoryError, match=f"for the {X.nbytes} bytes of the results and the .* bytes of intermediate arrays"):
        f(x)
    gpu.gpus[0].memory = None
    np.testing.assert_array_equal(gpu.get(f(x)), wanted)


def test_a_gpu_that_fails(gpu, monkeypatch):
    class LostError(Exception):
        pass

    f = ad.jit(lambda x: np.sin(x))
    x = gpu.put(X)
    f(x)
    monkeypatch.setattr(stand_in.SimulatedGPU, "failures", (LostError,))

    def lost(*args):
        raise LostError("cudaErrorIllegalAddress: an illegal memory access was encountered")

    monkeypatch.setattr(gpu.gpus[0], "empty", lost)
    with pytest.raises(DeviceError, match="simulator 0 has failed: cudaErrorIllegalAddress"):
        f(x)


def test_a_function_that_cannot_be_compiled_runs_on_the_host(gpu):
    compiled = ad.jit(lambda x: x + (np.random.rand() > 2))
    with pytest.warns(CompileWarning, match="runs eagerly: .* draws random numbers"):
        y = compiled(gpu.put(X))
    assert gpu.is_on_gpu(y)
    np.testing.assert_array_equal(gpu.get(y), X)


def test_graphs_are_kept_for_repeated_addresses(gpu):
    device, done = gpu.gpus[0], []
    replays = Replays(device)
    for _ in range(3):
        replays.run((1, 2), lambda: done.append("first"))
    assert device.captures == 1
    for address in range(12):
        replays.run((address,), lambda: done.append("others"))
    assert device.captures == 1
    assert len(replays.known) == MOST
    assert (len(done), done.count("first")) == (15, 3)


def test_no_cupy(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    cupy.cache_clear()
    try:
        with pytest.raises(DeviceError, match=r"need CuPy, which is not installed; pip install 'adjoint\[cuda\]'"):
            ad.jit(np.sin, device="cuda")(X)
    finally:
        cupy.cache_clear()


def test_static_arrays_on_a_gpu_are_constants(gpu):
    w = ad.static(gpu.put(W))
    f = ad.jit(lambda x: x @ w)
    for _ in range(2):
        np.testing.assert_allclose(gpu.get(f(gpu.put(X))), X @ W, rtol=1e-13)


def test_which_loops_are_captured(gpu):
    """Products are; what waits for the GPU or is called on the host is not."""
    x = gpu.put(np.eye(30) * 0.5)
    for step, is_captured in (
        (lambda c: np.tanh(c @ c), True),
        (lambda c: np.linalg.solve(c + 3 * np.eye(30), c), True),
        (lambda c: np.linalg.eigh(c)[1], False),
        (lambda c: np.cumsum(c, axis=0), False),
    ):
        program = ad.jit(lambda x, step=step: ad.scan(lambda c, _: (step(c), None), x, None, 20)[0]).lower(x).program
        assert (program.replays is not None) == is_captured
        assert program.launches >= 20


def test_a_loop_that_cannot_be_captured_is_launched_and_reported(gpu, monkeypatch):
    def refuses(run):
        raise DeviceError("cuStreamEndCapture failed with CUDA_ERROR_STREAM_CAPTURE_INVALIDATED")

    monkeypatch.setattr(gpu.gpus[0], "captured", refuses)
    f = ad.jit(lambda x: ad.scan(lambda c, _: (c - np.mean(c), None), x, None, 20)[0])
    x, addresses = gpu.put(X), (1, 2)
    program = f.lower(x).program
    for _ in range(3):
        program.replays.run(addresses, lambda: None)
        np.testing.assert_allclose(gpu.get(f(x)), X - np.mean(X), atol=1e-12)
    assert "is not captured as a CUDA graph: DeviceError: cuStreamEndCapture failed with CUDA_ERROR_STREAM_CAPTURE" in f.report()
