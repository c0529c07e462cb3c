"""Products and matrix routines written out: every layout and size, in C and as LLVM functions."""

import numpy as np
import pytest
from export.c_compiler import COMPILERS, Library

from adjoint.export.c_source import write
from adjoint.export.program import parts
from adjoint.export.routines import _layout

RNG = np.random.default_rng(0)


@pytest.mark.parametrize(
    "rows, columns, down, across, expected",
    [(3, 4, 4, 1, "No"), (3, 4, 1, 3, ""), (3, 4, 8, 1, "No"), (3, 4, 8, 2, None), (3, 4, 0, 1, None)],
)
def test_how_cblas_reads_a_matrix(rows, columns, down, across, expected):
    found = _layout(rows, columns, down, across)
    assert (None if found is None else found[0]) == expected


@pytest.mark.skipif(not COMPILERS, reason="no C compiler; on Debian: apt-get install -y gcc clang")
@pytest.mark.parametrize("sizes", [(1, 1, 1), (4, 8, 4), (5, 3, 7), (13, 9, 17)])
def test_products_of_all_remainders(sizes, tmp_path):
    m, k, n = sizes
    a, b, c = RNG.normal(size=(m, k)), RNG.normal(size=(k, n)), RNG.normal(size=(n, k))
    f = lambda a, b, c: (a @ b, a @ c.T, b.T @ a.T)
    (part,) = parts(f, (a, b, c), {}, derivatives=(), argnums=0, name="f")
    for found, expected in zip(Library(write([part]), tmp_path, "f")(part, [a, b, c]), f(a, b, c), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)


@pytest.mark.skipif(not COMPILERS, reason="no C compiler; on Debian: apt-get install -y gcc clang")
@pytest.mark.parametrize("n", [1, 2, 6])
@pytest.mark.parametrize("dtype, tol", [(np.float64, 1e-10), (np.float32, 1e-3)])
def test_systems(n, dtype, tol, tmp_path):
    a = (RNG.normal(size=(n, n)) + 3 * np.eye(n)).astype(dtype)
    b = RNG.normal(size=(n, 2)).astype(dtype)
    f = lambda a, b: (np.linalg.solve(a, b), np.linalg.inv(a), np.linalg.cholesky(a @ a.T), np.linalg.det(a))
    (part,) = parts(f, (a, b), {}, derivatives=(), argnums=0, name="f")
    for found, expected in zip(Library(write([part]), tmp_path, "f")(part, [a, b]), f(a, b), strict=True):
        np.testing.assert_allclose(found, expected, rtol=tol, atol=tol)
