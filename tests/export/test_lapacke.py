"""Systems and decompositions of exported C through CBLAS and LAPACKE, against NumPy and the gradients of `ad.grad`."""

import subprocess

import numpy as np
import pytest
from export.c_compiler import COMPILERS, compiled
from export.test_c_source import SANITIZED, run_main

import adjoint as ad
import adjoint.scipy.linalg as scipy_linalg
from adjoint import export
from adjoint.export.lapacke import _CALLS
from adjoint.export.program import parts

RNG = np.random.default_rng(0)
LIBRARIES = ("-llapacke", "-lopenblas")
PROBE = """\
#include <cblas.h>
#include <lapacke.h>
int main(void) { double a[1] = {1.0}; return (int)LAPACKE_dpotrf_work(LAPACK_COL_MAJOR, 'U', 1, a, 1); }
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    if not COMPILERS:
        pytest.skip("no C compiler; on Debian: apt-get install -y gcc clang")
    folder = tmp_path_factory.mktemp("lapacke")
    (folder / "probe.c").write_text(PROBE)
    probe = [COMPILERS[0], "probe.c", "-o", "probe", *LIBRARIES]
    if subprocess.run(probe, cwd=folder, capture_output=True, check=False).returncode:
        pytest.skip("no LAPACKE or CBLAS; on Debian: apt-get install -y liblapacke-dev libopenblas-dev")
    return folder


def run(folder, f, *args, compiler=None, **options):
    """The results of each exported function."""
    library, made = compiled(
        folder, f, *args, compiler=compiler or COMPILERS[0], flags=("-O1", *LIBRARIES), blas="cblas", lapack="lapacke", **options
    )
    return [library(part, [*args]) for part in made]


def matrix(*shape, dtype=float):
    return RNG.normal(size=shape).astype(dtype)


TOLERANCES = {np.float64: 1e-10, np.float32: 2e-3}
FUNCTIONS = {
    "cholesky": lambda a: np.linalg.cholesky(a @ a.T + 10 * np.eye(5, dtype=a.dtype)),
    "solve": lambda a: np.linalg.solve(a, a.T[:, :3] * 2),
    "solve, one column": lambda a: np.linalg.solve(a, a[0]),
    "inverse": lambda a: np.linalg.inv(a),
    "determinant": lambda a: np.linalg.slogdet(a)[1],
    "eigenvalues": lambda a: np.linalg.eigh(a + a.T)[0],
    "eigenvalues, upper": lambda a: np.linalg.eigh(a, "U")[0],
    "projector": lambda a: np.linalg.eigh(a + a.T)[1][:, :2] @ np.linalg.eigh(a + a.T)[1][:, :2].T,
    "qr": lambda a: np.linalg.qr(a)[1],
    "qr, tall": lambda a: np.linalg.qr(a[:, :3])[0],
    "qr, complete": lambda a: np.linalg.qr(a[:, :3], "complete")[0][:, :3],
    "singular values": lambda a: np.linalg.svd(a[:, :3])[1],
    "low rank": lambda a: (lambda u, s, vh: (u[:, :2] * s[:2]) @ vh[:2])(*np.linalg.svd(a, full_matrices=False)),
    "triangular": lambda a: scipy_linalg.solve_triangular(a, a.T[:, :2], lower=True),
    "triangular, transposed": lambda a: scipy_linalg.solve_triangular(a, a[:, 0], trans=1),
    "lu": lambda a: scipy_linalg.lu(a)[2],
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_and_gradients(folder, name, dtype):
    f, a = FUNCTIONS[name], (matrix(5, 5) + 4 * np.diag(np.arange(1, 6))).astype(dtype)
    tol = TOLERANCES[dtype]

    def loss(a):
        y = f(a)
        return np.sum(y * np.arange(1, y.size + 1, dtype=dtype).reshape(y.shape))

    (value,), (gradient,) = run(folder, loss, a, name="loss", derivatives="gradient")
    np.testing.assert_allclose(value, loss(a), rtol=tol)
    expected = ad.grad(loss)(a)
    np.testing.assert_allclose(gradient, expected, rtol=tol, atol=tol * np.abs(expected).max())


def test_both_compilers_are_silent(folder):
    a = matrix(4, 4) + 4 * np.eye(4)

    def f(a):
        w, v = np.linalg.eigh(a + a.T)
        u, s, vh = np.linalg.svd(a)
        return (
            np.linalg.inv(a),
            np.linalg.solve(a, a),
            np.linalg.cholesky(positive_part(a)),
            w,
            np.abs(v),
            np.abs(u),
            s,
            np.abs(vh),
        )

    def positive_part(a):
        return a @ a.T + np.eye(4)

    for compiler in COMPILERS:
        for got, wanted in zip(run(folder, f, a, compiler=compiler, name="f")[0], f(a), strict=True):
            np.testing.assert_allclose(got, wanted, atol=1e-10)


def test_stacks_share_the_work_memory(folder):
    a = matrix(50, 3, 3) + 3 * np.eye(3)
    f = lambda a: (
        np.linalg.inv(a),
        np.linalg.eigh(a)[0],
        np.linalg.svd(a)[1],
        np.linalg.qr(a)[1],
        np.linalg.solve(a, a[:, :, :1]),
    )
    for got, wanted in zip(run(folder, f, a, name="f")[0], f(a), strict=True):
        np.testing.assert_allclose(got, wanted, atol=1e-12)


def test_failures_are_statuses(folder):
    solve = lambda a: np.linalg.solve(a, a[0])
    library, made = compiled(folder, solve, np.eye(2), name="f", flags=("-O1", *LIBRARIES), blas="cblas", lapack="lapacke")
    with pytest.raises(ArithmeticError, match="5"):
        library(made[0], [np.zeros((2, 2))])
    library, made = compiled(folder, np.linalg.cholesky, np.eye(2), name="f", flags=("-O1", *LIBRARIES), lapack="lapacke")
    with pytest.raises(ArithmeticError, match="6"):
        library(made[0], [-np.eye(2)])


def test_a_user_may_name_an_argument_like_a_macro_of_complex(folder):
    def f(I, complex):
        return np.linalg.inv(I) + complex

    a = np.eye(2) * 2
    np.testing.assert_allclose(run(folder, f, a, 1.0, name="f")[0][0], np.eye(2) / 2 + 1)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_decomposition_is_a_call(name):
    source = export.c(FUNCTIONS[name], matrix(5, 5), name="f", blas="cblas", lapack="lapacke").source
    assert ("cblas_dtr" if name.startswith("triangular") else "LAPACKE_d") in source
    assert "with CBLAS and LAPACKE" in source.splitlines()[0]


def test_each_routine_is_in_a_function_above():
    sources = [export.c(f, matrix(5, 5), name="f", lapack="lapacke").source for f in FUNCTIONS.values()]
    for routine in ("potrf", "getrf", "getrs", "getri", "syevd", "geqrf", "orgqr", "gesdd"):
        assert any(f"LAPACKE_d{routine}_work" in source for source in sources), routine
    assert len(_CALLS) == 8


def test_refusals():
    with pytest.raises(ad.AdjointError, match="None or 'lapacke'"):
        export.c(np.linalg.inv, np.eye(2), name="f", lapack="mkl")


@pytest.mark.parametrize("compiler", COMPILERS)
def test_sanitizers(folder, compiler, tmp_path, monkeypatch):
    """All calls in one program: of one matrix, of a stack, of one row and column; the library's own memory is not looked at."""
    (tmp_path / "probe.c").write_text("int main(void) { return 0; }\n")
    if subprocess.run([compiler, *SANITIZED, "probe.c"], cwd=tmp_path, capture_output=True, check=False).returncode:
        pytest.skip(f"{compiler} has no sanitizers; on Debian: apt-get install -y libclang-rt-dev")
    monkeypatch.setenv("ASAN_OPTIONS", "detect_leaks=0")
    samples = []
    for f in FUNCTIONS.values():
        a = np.random.default_rng(5).normal(size=(5, 5)) + 3 * np.eye(5)
        (part,) = parts(f, (a,), name=f"case{len(samples)}" if samples else "sample")
        samples.append((part, [a], [np.asarray(y) for y in part.graph.run_flat([a])]))
    for shape in ((2, 3, 3), (1, 1)):
        a = np.random.default_rng(6).normal(size=shape) + 3 * np.eye(shape[-1])
        (part,) = parts(lambda a: (np.linalg.inv(a), a @ a, np.linalg.solve(a, a)), (a,), name=f"case{len(samples)}")
        samples.append((part, [a], [np.asarray(y) for y in part.graph.run_flat([a])]))
    run_main(samples, tmp_path, compiler, SANITIZED, libraries=LIBRARIES, blas="cblas", lapack="lapacke")
