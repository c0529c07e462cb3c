"""Bad input on a GPU: a right result or a clear error, never a wrong number."""

import subprocess
import sys

import numpy as np
import pytest
from gpu.test_jit import OnGPU, check

import adjoint as ad
from adjoint.core.errors import ArgumentError


@pytest.fixture
def gpu():
    return OnGPU()


@pytest.mark.parametrize("dtype", ["c8", "c16", "u2", "u4", "u8", "i2"])
def test_less_common_dtypes(gpu, dtype):
    x = np.arange(1, 13).reshape(3, 4).astype(dtype)
    check(gpu, lambda x: (x + x, x * 2, np.sum(x), x[::-1, 1:], x.T), x, rtol=1e-6)


OF_HALVES = {
    "arithmetic": lambda x: ((x + 1.5) * x - 0.1 / x, x**2, x > 0.1, np.maximum(x, 0.3), -x),
    "functions": lambda x: (np.sin(x), np.exp(x), np.tanh(x), np.sqrt(np.abs(x))),
    "conversions": lambda x: (
        x.astype(float),
        (x.astype(float) / 3).astype(np.float16),
        x.astype(np.int32),
        x + x.astype(np.float32),
    ),
    "moves": lambda x: (x[::-1, 1:], x.T, np.concatenate([x, x]), np.pad(x, 1), np.where(x > 0, x, 1), x[np.array([2, 0])]),
    "maxima": lambda x: (np.max(x), np.min(x, axis=0)),
    "gradient": ad.grad(lambda x: np.sum(np.tanh(x) * x)),
    "loops": lambda x: ad.scan(lambda c, r: (np.tanh(c + r), c * r), x[0], x),
}


@pytest.mark.parametrize("name", OF_HALVES)
def test_halves(gpu, name):
    """Bit for bit as on the CPU."""
    compiled = check(gpu, OF_HALVES[name], (3 * np.random.default_rng(0).normal(size=(70, 33))).astype(np.float16), rtol=0)
    assert "on the host" not in compiled.report()


OF_INTEGERS = {
    "arithmetic": lambda a, b: ((a + b) * a - b, -a, np.abs(a), a**2),
    "bits": lambda a, b: ((a & b) ^ ~a, (a << (b & 3)) >> (b & 1)),
    "quotients": lambda a, b: (a // (b | 1), a % (b | 1), a / (b | 1)),
    "comparisons": lambda a, b: (a > b, np.where(a == b, a, b), np.maximum(a, b), np.clip(a, 1, 5)),
    "reductions": lambda a, b: (
        np.sum(a),
        np.sum(a, axis=0, dtype=a.dtype),
        np.prod(a[:2], axis=1),
        np.max(a),
        np.min(b, axis=0),
    ),
    "means": lambda a, b: (np.mean(a), np.var(a, axis=0)),
    "conversions": lambda a, b: (a.astype(float) / 3, a.astype(np.int8), a.astype(np.uint16), np.sqrt(a) * 3),
    "indices": lambda a, b: (np.arange(300.0)[a & 7], np.arange(9)[(a & 3) + (b & 3)], np.arange(10.0).take(b & 7)),
    "parts": lambda a, b: (np.roll(a, 1, 0), np.concatenate([a, b]), a[:, ::-1], np.pad(a, 1)),
    "products": lambda a, b: (a.T @ b, np.einsum("ij,ij->i", a, b)),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"])
@pytest.mark.parametrize("name", OF_INTEGERS)
def test_integers(gpu, name, dtype):
    a, b = np.random.default_rng(0).integers(0, 120, (2, 37, 5)).astype(dtype)
    compiled = check(gpu, OF_INTEGERS[name], a, b)
    assert "on the host" not in compiled.report() or (name, dtype) == ("indices", "u8")


def test_unsupported_dtypes(gpu):
    try:
        x = gpu.put(np.zeros(3, [("a", "f8")]))
    except (TypeError, ValueError):
        pytest.skip("CuPy has no such arrays")
    with pytest.raises(ArgumentError, match="jit takes numbers"):
        ad.jit(lambda x: x + x)(x)


EMPTY = {
    "elementwise": lambda x: np.sin(x) * 2,
    "sums": lambda x: (np.sum(x), np.sum(x, axis=0), np.prod(x, axis=-1)),
    "products": lambda x: (x @ x.T, x.T @ x),
    "gradient": ad.grad(lambda x: np.sum(np.sin(x) ** 2)),
    "loops": lambda x: ad.scan(lambda c, _: (np.sin(c) + np.sum(c), None), x, None, 12)[0],
    "no iteration": lambda x: ad.scan(lambda c, r: (c + np.sum(r), c), 1.0, x),
    "sorted": lambda x: np.sort(x, axis=-1),
    "stacks of matrices": lambda x: np.linalg.solve(np.zeros((*x.shape, 2, 2)) + np.eye(2), np.ones((*x.shape, 2, 1))),
}


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0)])
@pytest.mark.parametrize("name", EMPTY)
def test_empty_arrays(gpu, name, shape):
    check(gpu, EMPTY[name], np.zeros(shape))


def test_arrays_with_gaps_in_every_kind_of_step(gpu):
    """Products, routines, transforms and loops of views that are not in order."""
    x = np.random.default_rng(0).normal(size=(12, 14))
    f = lambda x: (x @ x.T, np.linalg.inv(x @ x.T + np.eye(6)), np.fft.rfft(x), np.cumsum(x, axis=0), np.argsort(x, axis=0))
    for index in (np.s_[::2, ::2], np.s_[5::-1, ::2], np.s_[:6, 3:10]):
        found = ad.jit(f)(gpu.view(x, index))
        for a, b in zip(found, f(x[index]), strict=True):
            np.testing.assert_allclose(gpu.get(a), b, rtol=1e-9, atol=1e-9)
    transposed = ad.jit(f)(gpu.view(x, np.s_[:7, :6]).T)
    for a, b in zip(transposed, f(x[:7, :6].T), strict=True):
        np.testing.assert_allclose(gpu.get(a), b, rtol=1e-9, atol=1e-9)


def in_a_loop(x, i):
    return ad.scan(lambda c, k: (c + np.mean(c) + x[k], None), x[:2], i)[0]


def in_a_branch(x, i):
    return ad.cond(np.sum(x) > 0, lambda x, i: x[i], lambda x, i: x[:1] * i, x, i)


def until(x, i):
    return ad.while_loop(lambda c: c[1] < 3, lambda c: (c[0] + np.sum(x[i + c[1]]), c[1] + 1), (0.0, 0))[0]


def take(x, i):
    return np.sum(x[i])


READS = {"take": take, "loop": in_a_loop, "branch": in_a_branch, "while": until, "gradient": ad.grad(take)}


@pytest.mark.parametrize("name", READS)
def test_indices_out_of_bounds(gpu, name):
    """Raised after the call, with the user's line; and the program can be called again."""
    x, i = np.ones(9), np.array([1, 4])
    compiled = ad.jit(READS[name])
    for _ in range(3):
        first = gpu.get(compiled(*gpu.put((x, i))))
        with pytest.raises(IndexError, match="out of bounds") as caught:
            compiled(*gpu.put((x, i + 7)))
        assert any("[" in str(frame.statement) and frame.path.name == "test_bad_input.py" for frame in caught.traceback[1:])
        np.testing.assert_array_equal(gpu.get(compiled(*gpu.put((x, i)))), first)


def test_failures_of_decompositions_in_loops(gpu):
    f = ad.jit(lambda a: ad.scan(lambda c, _: (np.linalg.cholesky(c) - 1, None), a, None, 3)[0])
    for _ in range(3):
        with pytest.raises(np.linalg.LinAlgError, match="definite"):
            f(gpu.put(np.eye(3)))


_LOST = """
import cupy, numpy as np, adjoint as ad
f = ad.jit({f})
x = cupy.ones(5)
print(float(cupy.sum(f(x))))
bad = cupy.RawKernel('extern "C" __global__ void bad(long long* p) {{ p[0] = 1; }}', "bad")
bad((1,), (1,), (np.int64(16),))
for _ in range(2):
    try:
        for _ in range(3):
            y = f(x)
            cupy.cuda.Device().synchronize()
    except ad.AdjointError as error:
        print(type(error).__name__, error)
    except cupy.cuda.runtime.CUDARuntimeError as error:
        print("CuPy:", error)
"""


@pytest.mark.parametrize("f", ["lambda x: x * 2", "lambda x: ad.cond(np.sum(x) > 0, np.sin, np.cos, x)"])
def test_a_gpu_whose_kernel_failed(gpu, f):
    """In a process of its own: the context is lost. Every later call says so, and the process ends by itself."""
    if not hasattr(gpu, "device"):
        pytest.skip("needs a GPU")
    done = subprocess.run([sys.executable, "-c", _LOST.format(f=f)], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode >= 0, done.stderr  # it did not crash
    assert "illegal" in done.stdout.lower() or "invalid" in done.stdout.lower(), done.stdout + done.stderr
    assert "Segmentation" not in done.stderr
