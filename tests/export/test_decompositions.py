"""Eigenvalues and singular values by rotations, compiled by LLVM, against LAPACK: sizes, scales, equal values, low rank, nans."""

import functools

import numpy as np
import pytest
from export.in_process import exported, results

import adjoint as ad
from adjoint.compiler.lower.kernel import Buffer, View
from adjoint.compiler.lower.step import Lapack
from adjoint.export.decompositions import _SWEEPS, _filled, _swapped, orthogonal, reflectors
from adjoint.export.lowering import lower

RNG = np.random.default_rng(0)
DTYPES = {np.float64: 1e-13, np.float32: 2e-5}


def symmetric(n, dtype=float):
    a = RNG.normal(size=(n, n))
    return ((a + a.T) / 2).astype(dtype)


def identity(n, stack=()):
    return np.broadcast_to(np.eye(n), (*stack, n, n))


@functools.cache
def eigh(shape, dtype, uplo):
    return exported(lambda a: tuple(np.linalg.eigh(a, uplo)), np.zeros(shape, dtype))


@functools.cache
def svd(shape, dtype, full):
    return exported(lambda a: tuple(np.linalg.svd(a, full_matrices=full)), np.zeros(shape, dtype))


def check_eigh(a, tol, uplo="L"):
    w, v = eigh(a.shape, a.dtype, uplo)(a)
    scale = max(np.abs(a).max(), np.finfo(a.dtype).tiny)
    assert w.dtype == v.dtype == a.dtype
    assert np.all(np.diff(w, axis=-1) >= 0)  # ascending
    np.testing.assert_allclose(w, np.linalg.eigvalsh(a, uplo), atol=10 * tol * scale, rtol=tol)
    np.testing.assert_allclose(v.swapaxes(-1, -2) @ v, identity(a.shape[-1], a.shape[:-2]), atol=10 * tol)
    whole = np.tril(a) + np.swapaxes(np.tril(a, -1), -1, -2) if uplo == "L" else np.triu(a) + np.swapaxes(np.triu(a, 1), -1, -2)
    np.testing.assert_allclose((v * w[..., None, :]) @ v.swapaxes(-1, -2), whole, atol=20 * tol * scale)


def check_svd(a, tol, full=True):
    u, s, vh = svd(a.shape, a.dtype, full)(a)
    expected = np.linalg.svd(a, full_matrices=full)
    assert [x.shape for x in (u, s, vh)] == [x.shape for x in expected]
    assert u.dtype == s.dtype == vh.dtype == a.dtype
    scale = max(np.abs(a).max(), np.finfo(a.dtype).tiny)
    assert np.all(np.diff(s, axis=-1) <= 0)  # descending
    np.testing.assert_allclose(s, expected[1], atol=10 * tol * scale, rtol=tol)
    short = s.shape[-1]
    np.testing.assert_allclose((u[..., :short] * s[..., None, :]) @ vh[..., :short, :], a, atol=20 * tol * scale)
    for q in (u.swapaxes(-1, -2), vh):  # all vectors, also those that the values do not determine
        np.testing.assert_allclose(q @ q.swapaxes(-1, -2), identity(q.shape[-2], q.shape[:-2]), atol=20 * tol)


# -- eigenvalues -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 3])
def test_eigenvalues(n, dtype):
    check_eigh(symmetric(n, dtype), DTYPES[dtype])


@pytest.mark.parametrize("uplo", ["L", "U"])
def test_one_triangle_is_read(uplo):
    check_eigh(RNG.normal(size=(4, 4)), 1e-13, uplo)


MATRICES = {
    "zeros": np.zeros((3, 3)),
    "identity": np.eye(3),
    "diagonal": np.diag([3.0, -1.0, 2.0]),
    "equal values": np.ones((3, 3)) + np.eye(3),
    "close values": np.diag([1.0, 1.0 + 1e-14, 1.0 - 1e-14]) + 1e-15,
    "large": 1e150 * symmetric(3),
    "small": 1e-150 * symmetric(3),
    "graded": np.diag([1e-8, 1.0, 1e8]) + 1e-4,
}


@pytest.mark.parametrize("name", MATRICES)
def test_eigenvalues_of_special_matrices(name):
    check_eigh(MATRICES[name], 1e-13)


def test_a_stack_of_matrices():
    check_eigh(np.stack([symmetric(3), np.eye(3), np.zeros((3, 3))]), 1e-13)
    check_svd(RNG.normal(size=(2, 2, 3, 2)), 1e-13)


# -- singular values ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("shape", [(1, 1), (3, 3), (4, 2), (2, 4)])
def test_singular_values(shape, full):
    check_svd(RNG.normal(size=shape), 1e-13, full)


def test_singular_values_in_single_precision():
    check_svd(RNG.normal(size=(4, 2)).astype(np.float32), DTYPES[np.float32])


RECTANGLES = {
    "zeros": np.zeros((3, 3)),
    "rank one": np.outer([1.0, 2.0, 3.0, 0.0], [1.0, -1.0]),
    "rank one, wide": np.outer([1.0, -1.0], [1.0, 2.0, 3.0, 0.0]),
    "equal columns": np.ones((3, 3)),
    "orthogonal": np.linalg.qr(RNG.normal(size=(3, 3)))[0],
    "large": 1e300 * np.array([[1.0, 2.0], [3.0, -1.0], [0.5, 0.0], [0.0, 1.0]]),
    "small": 1e-300 * np.array([[1.0, 2.0], [3.0, -1.0], [0.5, 0.0], [0.0, 1.0]]),
    "a zero column": np.array([[1.0, 0.0], [2.0, 0.0], [3.0, 0.0], [4.0, 0.0]]),
}


@pytest.mark.parametrize("name", RECTANGLES)
def test_singular_values_of_special_matrices(name):
    check_svd(RECTANGLES[name], 1e-13)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("f", [np.linalg.eigvalsh, np.linalg.svd], ids=["eigh", "svd"])
def test_a_matrix_that_is_not_finite_fails(f, bad):
    a = np.eye(3)
    a[1, 0] = a[0, 1] = bad
    with pytest.raises(ArithmeticError):
        results(lambda a: f(a)[0], a)


# -- QR ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "shape, mode", [((1, 1), "reduced"), ((4, 4), "reduced"), ((5, 3), "reduced"), ((5, 3), "complete"), ((3, 5), "complete")]
)
def test_qr_has_the_signs_of_lapack(shape, mode):
    a = RNG.normal(size=shape)
    for found, expected in zip(results(lambda a: tuple(np.linalg.qr(a, mode)), a), np.linalg.qr(a, mode), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-13)


@pytest.mark.parametrize("a", [np.zeros((3, 2)), np.eye(3), 1e200 * np.ones((3, 3)), np.triu(np.ones((3, 3)))])
def test_qr_of_special_matrices(a):
    q, r = results(lambda a: tuple(np.linalg.qr(a)), a)
    np.testing.assert_allclose(q.T @ q, np.eye(q.shape[1]), atol=1e-13)
    np.testing.assert_allclose(q @ r, a, rtol=1e-13, atol=1e-13 * np.abs(a).max())


# -- lowering ----------------------------------------------------------------------------------------------------------


def steps(f, a):
    return [(s.routine, s.options["axes"]) for s in lower(ad.graph(f)(a), "export.c").steps if isinstance(s, Lapack)]


def test_each_is_one_step_of_matrices():
    assert steps(lambda a: np.linalg.eigh(a)[0], np.eye(3)) == [("eigen", 2)]
    assert steps(lambda a: np.linalg.svd(a)[1], np.eye(3)) == [("singular", 2)]


def test_templates_have_no_words_left():
    for text in (reflectors(4, 3), orthogonal(4, 4, 3)):
        assert not any(word in text for word in ("SHORT", "M_", "N_", "SWEEPS"))
    assert _filled("SWEEPS N_", N_=3) == f"{_SWEEPS} 3"


def test_the_last_two_axes_are_swapped():
    view = View.whole(Buffer(0, np.dtype(float), 24, "local"), (2, 3, 4))
    assert _swapped(view).shape == (2, 4, 3)
    assert _swapped(_swapped(view)) == view
