"""Every elementwise op through the code of a GPU's thread, in the simulator: equal to the CPU's code to the last bit."""

import itertools

import device_ops
import numpy as np
import pytest
from night import sampled
from on_device import both_orders, on_cpu, same_bits

import adjoint as ad
from adjoint.compiler.cuda import layout, threads


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_every_op_has_the_bits_of_the_cpu(dtype):
    count = 0
    for some, f, args in device_ops.programs(dtype, 200):
        found, _ = both_orders(f, args)
        for op, a, b in zip(some, found, on_cpu(f, args), strict=True):
            try:
                same_bits(a, b)
            except AssertionError as error:
                raise AssertionError(f"{op.name} of {np.dtype(dtype)}: {error}") from None
            count += 1
    assert count > 60


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_gradients_have_the_bits_of_the_cpu(dtype):
    for some, f, args in device_ops.derivatives(dtype, 100):
        found, _ = both_orders(f, args)
        for a, b in zip(found, on_cpu(f, args), strict=True):
            try:
                same_bits(a, b)
            except AssertionError as error:
                raise AssertionError(f"{[op.name for op in some]} of {np.dtype(dtype)}: {error}") from None


def heat(u, k):
    def step(u, _):
        inside = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4.0 * u[1:-1, 1:-1]
        return u + k * np.pad(inside, 1), None

    return np.sum(ad.scan(step, u, None, 9)[0] ** 2)


def frames(x):
    return np.pad(x[2:] * x[:-2] + 1.5, 1) + np.pad(np.sin(x[3:]), (0, 3)) + x


WINDOWS = {
    "heat": ad.grad(heat),
    "heat, by both": ad.grad(heat, (0, 1)),
    "frames": lambda x, k: frames(x.ravel()),
    "an empty window": lambda x, k: np.pad((x.reshape(1, -1) * 2)[1:], ((1, 0), (0, 0))) + x.reshape(1, -1),
    "gradient of frames": ad.grad(lambda x, k: np.sum(frames(x.ravel()) ** 2)),
}


CASES = itertools.product(WINDOWS, [(30, 40), (31, 41), (3, 4), (300, 7), (5, 1024)], [np.float64, np.float32])


@pytest.mark.parametrize("name, shape, dtype", sampled(CASES, 3, key=lambda case: case[:2]))
def test_windows(monkeypatch, name, shape, dtype):
    """With several points a thread, inside and at the edges, and with blocks in both orders."""
    monkeypatch.setattr(layout, "SEVERAL", 1)
    monkeypatch.setattr(threads, "LARGE", 1)
    u = np.random.default_rng(0).normal(size=shape).astype(dtype)
    args = u, (0.1 + 0.01 * u).astype(dtype)
    found, made = both_orders(WINDOWS[name], args)
    for a, b in zip(found, on_cpu(WINDOWS[name], args), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9 if dtype == np.float64 else 2e-4, atol=1e-9 if dtype == np.float64 else 1e-3)
    several = [kernel.source.layout.per_thread for kernel in made.kernels]
    assert max(several) > 1 or shape[1] % 2
    assert any(kernel.both_ways for kernel in made.kernels) == (name.startswith("heat") and shape[0] * shape[1] > 512)
