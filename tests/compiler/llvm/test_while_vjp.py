"""The backward pass of `while` in machine code: all states kept, or segments between checkpoints."""

import numpy as np
import pytest

import adjoint as ad
from adjoint.compiler.llvm.while_vjp import _layout
from adjoint.compiler.lower.kernel import Buffer, View


def loss(x, count, size):
    start = (x * np.ones(size), 0)
    return np.sum(ad.while_loop(lambda s: s[1] < count, lambda s: (np.sin(s[0]) + x * 0.3, s[1] + 1), start)[0])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("count", [0, 1, 2, 3, 10, 257])
@pytest.mark.parametrize("size", [1, 5])
def test_gradients_for_any_number_of_iterations(count, size):
    f = lambda x: loss(x, count, size)
    np.testing.assert_allclose(ad.jit(ad.grad(f))(0.7), ad.grad(f)(0.7), rtol=1e-11)


def test_many_states_in_segments():
    f = lambda x: loss(x, 3000, 2000)
    np.testing.assert_allclose(ad.jit(ad.grad(f))(0.7), ad.derivative(f)(0.7), rtol=1e-9)


def test_carries_of_several_dtypes():
    def f(x):
        start = (x, np.float32(1.0), np.int32(0), True)
        step = lambda s: (s[0] * 1.5, s[1] * np.float32(0.5), s[2] + np.int32(1), s[0] < 10)
        a, b, *_ = ad.while_loop(lambda s: s[3], step, start)
        return a * b

    np.testing.assert_allclose(ad.jit(ad.grad(f))(0.7), ad.derivative(f)(0.7), rtol=1e-6)


@pytest.mark.parametrize("dtypes", [["float64"], ["bool", "float64"], ["int32", "bool", "int64"], []])
def test_states_are_aligned(dtypes):
    views = [View.whole(Buffer(i, np.dtype(d), 3, "local"), (3,)) for i, d in enumerate(dtypes)]
    offsets, size = _layout(views)
    assert len(offsets) == len(views)
    ends = 0
    for offset, view in zip(offsets, views, strict=True):
        assert offset % view.dtype.itemsize == 0
        assert offset >= ends
        ends = offset + view.buffer.nbytes
    assert size >= ends
