"""Algorithms of linear algebra for a card, with NumPy in the place of CuPy."""

import numpy as np
import pytest
from scipy.linalg import solve_triangular

from adjoint.compiler.cuda import linear
from adjoint.compiler.cuda.linear import Libraries


class OnHost(Libraries):
    """NumPy's arrays, and BLAS as it sees them: the transposes of what is stored by rows."""

    def __init__(self):
        self.xp = np

    def trsm(self, a, x, leading, from_right, triangle, transposed):
        u, seen = a.T, x.T
        if from_right:
            seen[...] = solve_triangular(u, seen.T, lower=triangle == "L", trans=0 if transposed == "T" else "T").T
        else:
            seen[...] = solve_triangular(u, seen, lower=triangle == "L", trans="T" if transposed == "T" else 0)


def pulled_back(l, g):
    """p + pᵀ with p = l⁻ᵀ Φ(lᵀ g) l⁻¹."""
    inner = np.tril(l.T @ np.tril(g))
    inner[np.diag_indices_from(inner)] *= 0.5
    p = np.linalg.inv(l).T @ inner @ np.linalg.inv(l)
    return p + p.T


@pytest.mark.parametrize("block", [1, 2, 3, 6, 7, 8, 50])
@pytest.mark.parametrize("stack", [(), (2,), (2, 3)])
def test_pullback_of_cholesky_by_blocks(monkeypatch, block, stack):
    monkeypatch.setattr(linear, "_BLOCK", block)
    rng = np.random.default_rng(0)
    a = rng.standard_normal((*stack, 7, 7))
    factor = np.linalg.cholesky(a @ np.swapaxes(a, -1, -2) + 7 * np.eye(7))
    cotangent = rng.standard_normal(factor.shape)
    found, failed = cotangent.copy(), np.array(True)
    noise = factor + np.triu(rng.standard_normal(factor.shape), 1)  # what is above the diagonal is not read
    OnHost().cholesky_pullback(None, noise, found, failed)
    for index in np.ndindex(stack):
        np.testing.assert_allclose(found[index], pulled_back(factor[index], cotangent[index]), rtol=1e-12, atol=1e-12)
    assert not failed
