"""Products and matrix routines written out: every layout and size, in C and as LLVM functions."""

import pathlib

import numpy as np
import pytest
from export.c_compiler import COMPILERS, Library
from export.in_process import results
from night import rotated

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


SIZES = [(1, 1, 1), (4, 8, 4), (5, 3, 7), (13, 9, 17), (7, 600, 20), (1, 9, 5), (6, 7, 1), (20, 1, 24), (2, 5, 3)]


def products(sizes, dtype):
    """Arguments of these sizes, and their products in every layout."""
    m, k, n = sizes
    given = [RNG.normal(size=size).astype(dtype) for size in ((m, k), (k, n), (n, k), (k, m))]
    return given, lambda a, b, c, d: (a @ b, a @ c.T, b.T @ a.T, d.T @ b, d.T @ c.T, a[::-1] @ b[:, ::-1])


@pytest.mark.skipif(not COMPILERS, reason="no C compiler; on Debian: apt-get install -y gcc clang")
@pytest.mark.parametrize("dtype, tol", [(np.float64, 1e-12), (np.float32, 1e-4)])
@pytest.mark.parametrize("sizes", SIZES)
def test_products_of_all_remainders(sizes, dtype, tol, tmp_path):
    given, f = products(sizes, dtype)
    (part,) = parts(f, given, {}, derivatives=(), argnums=0, name="f")
    for compiler in rotated(COMPILERS, SIZES.index(sizes), len(COMPILERS)):
        library = Library(write([part]), tmp_path, "f", compiler, ("-O2",))
        for found, expected in zip(library(part, given), f(*given), strict=True):
            np.testing.assert_allclose(found, expected, rtol=tol, atol=10 * tol)


#: Vectors of 32 and of 64 bytes, with the features of a processor that have them; the tests above have 16.
VECTORS = {("-mavx2", "-mfma"): ("avx2", "fma"), ("-mavx512f",): ("avx512f",)}


@pytest.mark.skipif(not COMPILERS, reason="no C compiler; on Debian: apt-get install -y gcc clang")
@pytest.mark.parametrize("flags", VECTORS, ids=" ".join)
@pytest.mark.parametrize("dtype, tol", [(np.float64, 1e-12), (np.float32, 1e-4)])
def test_products_with_longer_vectors(flags, dtype, tol, tmp_path):
    information = pathlib.Path("/proc/cpuinfo")
    if not information.exists() or not set(VECTORS[flags]) <= set(information.read_text(encoding="utf-8").split()):
        pytest.skip(f"this processor has no {VECTORS[flags][0]}, or does not say so")
    for i, sizes in enumerate(rotated(SIZES, dtype is np.float32, 2)):
        given, f = products(sizes, dtype)
        (part,) = parts(f, given, {}, derivatives=(), argnums=0, name="f")
        for compiler in rotated(COMPILERS, i, len(COMPILERS)):
            library = Library(write([part]), tmp_path, "f", compiler, ("-O3", *flags))
            for found, expected in zip(library(part, given), f(*given), strict=True):
                np.testing.assert_allclose(found, expected, rtol=tol, atol=10 * tol)


@pytest.mark.parametrize("dtype, tol", [(np.float64, 1e-12), (np.float32, 1e-4)])
@pytest.mark.parametrize("sizes", SIZES)
def test_products_in_object_code(sizes, dtype, tol):
    given, f = products(sizes, dtype)
    for found, expected in zip(results(f, *given), f(*given), strict=True):
        np.testing.assert_allclose(found, expected, rtol=tol, atol=10 * tol)


@pytest.mark.skipif("gcc" not in COMPILERS, reason="no gcc; on Debian: apt-get install -y gcc")
def test_products_for_a_compiler_without_vectors(tmp_path):
    given, f = products((13, 9, 17), np.float64)
    (part,) = parts(f, given, {}, derivatives=(), argnums=0, name="f")
    source = write([part])
    source = source._replace(source=source.source.replace("<string.h>\n", "<string.h>\n#undef __GNUC__\n", 1))
    library = Library(source, tmp_path, "f", "gcc", ("-O1", "-Wno-builtin-macro-redefined"))
    for found, expected in zip(library(part, given), f(*given), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


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
