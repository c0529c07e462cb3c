"""Products of narrow matrices in tiles: every remainder of rows and columns."""

import numpy as np
import pytest

import adjoint as ad
from adjoint.compiler.llvm.tile import _panels

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("columns", range(1, 40, 3))
@pytest.mark.parametrize("lanes, wide", [(4, 2), (8, 3), (2, 1)])
def test_panels_cover_the_columns(columns, lanes, wide):
    panels = _panels(columns, lanes, wide)
    assert sum(map(sum, panels)) == columns
    assert all(len(panel) <= wide and max(panel) <= lanes for panel in panels)


@pytest.mark.parametrize("rows", [1, 8, 17])
@pytest.mark.parametrize("inner", [1, 5])
@pytest.mark.parametrize("columns", [1, 3, 13])
def test_products_of_all_remainders(rows, inner, columns):
    a, b = RNG.normal(size=(rows, inner)), RNG.normal(size=(inner, columns))
    np.testing.assert_allclose(ad.jit(np.matmul)(a, b), a @ b, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("dtype, tol", [(np.float64, 1e-13), (np.float32, 1e-5)])
def test_stacks_and_transposes(dtype, tol):
    a, b = RNG.normal(size=(4, 5, 3)).astype(dtype), RNG.normal(size=(4, 5, 6)).astype(dtype)
    found = ad.jit(lambda a, b: np.swapaxes(a, 1, 2) @ b)(a, b)
    np.testing.assert_allclose(found, np.swapaxes(a, 1, 2) @ b, rtol=tol, atol=tol)


def test_products_of_nothing():
    np.testing.assert_array_equal(ad.jit(np.matmul)(np.ones((3, 0)), np.ones((0, 2))), np.zeros((3, 2)))
