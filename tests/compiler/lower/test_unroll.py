"""Unrolling of short axes."""

import numpy as np

import adjoint as ad
from adjoint.compiler.lower.kernel import Kernel
from adjoint.compiler.lower.unroll import unrolled

RNG = np.random.default_rng(0)


def kernels(compiled, *xs):
    return [s for s in compiled.lower(*xs).lowered.steps if isinstance(s, Kernel)]


def test_sums_of_a_short_axis_are_in_registers():
    """All pairs of points in space: the three coordinates are lines, and there is no loop over them."""

    def forces(x):
        gaps = x[:, None, :] - x[None, :, :]
        return np.sum(gaps / (1 + gaps * gaps), axis=1)

    x = RNG.normal(size=(50, 3))
    compiled = ad.jit(forces)
    (kernel,) = kernels(compiled, x)
    assert kernel.domain == (50, 50)
    assert len(kernel.reductions) == 3
    assert len({r.view.buffer for r in kernel.reductions}) == 1
    np.testing.assert_allclose(compiled(x), forces(x), rtol=1e-12)
    gradient = ad.grad(lambda x: np.sum(forces(x) ** 2))
    np.testing.assert_allclose(ad.jit(gradient)(x), gradient(x), rtol=1e-9)


def test_pieces_of_several_sums_in_one_array():
    x = RNG.normal(size=(600, 3))
    f = ad.jit(lambda x: np.sum(np.exp(x[:, None, :] * x[None, :, :]), axis=0))
    (kernel,) = kernels(f, x)
    assert kernel.chunks > 1
    assert len(kernel.partials) <= 1
    np.testing.assert_allclose(f(x), np.sum(np.exp(x[:, None, :] * x[None, :, :]), axis=0), rtol=1e-12)


def test_longer_axes_stay_loops():
    x = RNG.normal(size=(50, 20))
    (kernel,) = kernels(ad.jit(lambda x: np.sum(np.sin(x[:, None, :] - x[None, :, :]), axis=1)), x)
    assert kernel.domain == (50, 50, 20)


def kernel_of(f, *xs):
    return kernels(ad.jit(f), *xs)[-1]


def test_stores_and_all_axes_of_a_sum():
    x = RNG.normal(size=(40, 4))
    kernel = kernel_of(lambda x: np.sum(x * x, axis=1), x)
    flat = unrolled(kernel, 1)
    assert flat.domain == (40,)
    assert not flat.reductions  # the terms are added as lines
    assert len(flat.stores) == 1
    kept = unrolled(kernel, 0)
    assert kept.domain == (4,)
    assert len(kept.reductions) == 40


def test_windows_are_decided():
    """What lies outside along the axis is zero, or what was there before."""
    x, y = RNG.normal(size=(30, 2)), RNG.normal(size=(30, 4))

    def f(x, y):
        y = y.copy()
        y[:, 1:3] = x
        return np.sum(np.sin(y)[:, None, :] * y[None, :, :], axis=1)

    np.testing.assert_allclose(ad.jit(f)(x, y), f(x, y), rtol=1e-12)
    gradient = ad.grad(lambda x, y: np.sum(np.cos(f(x, y))), argnums=(0, 1))
    for got, want in zip(ad.jit(gradient)(x, y), gradient(x, y), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-12)


def test_axes_without_elements_are_left_alone():
    def forces(x):
        gaps = x[:, None, :] - x[None, :, :]
        return np.sum(gaps / (1 + gaps * gaps), axis=1), np.sum(gaps, axis=(0, 1))

    for shape in ((0, 3), (5, 0), (0, 0)):
        compiled = ad.jit(forces)
        for found, wanted in zip(compiled(np.zeros(shape)), forces(np.zeros(shape)), strict=True):
            np.testing.assert_array_equal(found, wanted)
        assert not compiled.eager
