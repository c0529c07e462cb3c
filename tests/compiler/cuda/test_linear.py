"""The calls of cuBLAS and cuSOLVER, with LAPACK in their place: layouts, leading dimensions, options and failures."""

import numpy as np
import pytest
from gpu.test_linear import *  # noqa: F403
from stand_in_libraries import WithLibraries

from adjoint.compiler.cuda import libraries


@pytest.fixture
def gpu():
    return WithLibraries()


def pulled_back(l, g):
    """p + pᵀ with p = l⁻ᵀ Φ(lᵀ g) l⁻¹."""
    inner = np.tril(l.T @ np.tril(g))
    inner[np.diag_indices_from(inner)] *= 0.5
    p = np.linalg.inv(l).T @ inner @ np.linalg.inv(l)
    return p + p.T


@pytest.mark.parametrize("block", [1, 2, 3, 6, 7, 8, 50])
@pytest.mark.parametrize("stack", [(), (2,), (2, 3)])
@pytest.mark.parametrize("batched", [0, 128])
def test_pullback_of_cholesky_by_blocks(gpu, monkeypatch, block, stack, batched):
    monkeypatch.setattr(libraries, "_BLOCK", block)
    monkeypatch.setattr(libraries, "_BATCHED", batched)
    rng = np.random.default_rng(0)
    a = rng.standard_normal((*stack, 7, 7))
    factor = np.linalg.cholesky(a @ np.swapaxes(a, -1, -2) + 7 * np.eye(7))
    cotangent = rng.standard_normal(factor.shape)
    found, failed = cotangent.copy(), np.array(True)
    noise = factor + np.triu(rng.standard_normal(factor.shape), 1)  # what is above the diagonal is not read
    gpu.libraries("highest").cholesky_pullback(None, noise, found, failed)
    for index in np.ndindex(stack):
        np.testing.assert_allclose(found[index], pulled_back(factor[index], cotangent[index]), rtol=1e-12, atol=1e-12)
    assert not failed
