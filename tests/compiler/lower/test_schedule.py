"""Loops, pieces and memory."""

import numpy as np
import pytest

import adjoint as ad
from adjoint.compiler.lower import schedule

RNG = np.random.default_rng(0)


def kernel_of(f, *xs):
    return ad.jit(f).lower(*xs).lowered.steps[0]


def lengths(kernel):
    return [loop.length for loop in kernel.loops]


def test_axes_with_compatible_strides_are_one_loop():
    x = RNG.normal(size=(4, 5, 12))
    assert lengths(kernel_of(np.sin, x)) == [240]
    assert lengths(kernel_of(lambda x: np.sin(x) * x[0], x)) == [4, 60]
    assert lengths(kernel_of(lambda x: np.sum(x, axis=1), x)) == [4, 5, 12]
    assert lengths(kernel_of(lambda x: np.sum(x, axis=(1, 2)), x)) == [4, 60]


def test_the_smallest_steps_are_innermost():
    x = RNG.normal(size=(30, 40))
    kernel = kernel_of(lambda x: np.sum(np.sin(x.T), axis=1), x)
    assert [loop.axes for loop in kernel.loops] == [(1,), (0,)]


def test_large_kernels_are_cut_by_their_shapes_alone():
    large, small = RNG.normal(size=(2, 200_000))[0], RNG.normal(size=100)
    kernel = kernel_of(lambda x: np.sum(np.sin(x)), large)
    assert kernel.chunks > 1
    ((how, partial),) = kernel.partials.values()
    assert how == "sum"
    assert partial.size == kernel.chunks
    assert kernel_of(lambda x: np.sum(np.sin(x)), small).chunks == 1


@pytest.mark.parametrize("rows", [(3, 9), (9, 3), (8, 9)])
def test_kernels_of_the_same_code_and_other_lengths_have_pieces_of_their_own(monkeypatch, rows):
    monkeypatch.setattr(schedule, "_PIECE", 20)
    xs = [RNG.normal(size=(n, 40)) for n in rows]
    f = lambda x, y: (np.exp(x), np.exp(y), np.sum(x[:, :20] * 2), np.sum(y[:, :20] * 2))
    compiled = ad.jit(f)
    assert min(step.chunks for step in compiled.lower(*xs).lowered.steps) > 1
    for a, b in zip(compiled(*xs), f(*xs), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_memory_is_used_again():
    """A chain of products needs two matrices in between, however long it is."""
    a = RNG.normal(size=(50, 50)) / 7

    def f(a):
        y = a
        for _ in range(5):
            y = y @ a
        return y

    lowered = ad.jit(f).lower(a).lowered
    assert sum(b.kind == "local" for b in lowered.buffers) == 4
    assert lowered.arena <= 2 * (a.nbytes + 64)
    np.testing.assert_allclose(ad.jit(f)(a), f(a), rtol=1e-11, atol=1e-12)
