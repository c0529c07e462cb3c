"""Reshapes, transposes and slices: views, without a copy."""

import numpy as np
import pytest

import adjoint as ad

X = np.arange(24.0).reshape(2, 3, 4)


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.reshape(6, 4),
        lambda x: x.transpose(2, 0, 1),
        lambda x: x[:, ::-1, 1::2],
        lambda x: x[:, None, 0],
        lambda x: x.transpose(1, 0, 2)[:, :, 1:].swapaxes(0, 1),
    ],
)
def test_one_kernel_reads_through_a_view(view):
    compiled = ad.jit(lambda x: np.sin(view(x)))
    (kernel,) = compiled.lower(X).lowered.steps
    assert [line.kind for line in kernel.code] == ["load", "op"]
    np.testing.assert_allclose(compiled(X), np.sin(view(X)), rtol=1e-14)


def test_a_reshape_that_numpy_copies_for_is_a_copy():
    f = lambda x: np.sin(x.T.reshape(8, 3))
    copy, kernel = ad.jit(f).lower(X).lowered.steps
    assert copy.domain == (4, 3, 2)
    assert kernel.domain == (8, 3)
    np.testing.assert_allclose(ad.jit(f)(X), f(X), rtol=1e-14)
