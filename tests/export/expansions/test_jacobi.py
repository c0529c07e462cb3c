"""Eigenvalues and singular values by rotations in our own ops, against LAPACK: sizes, stacks, scales, equal values, low rank."""

import numpy as np
import pytest

import adjoint as ad
from adjoint.export.expansions.jacobi import _tournament
from adjoint.export.normal import normal
from adjoint.export.onnx_nodes import TARGET

RNG = np.random.default_rng(0)
DTYPES = {np.float64: 1e-13, np.float32: 2e-5}


def expanded(f, a):
    with np.errstate(all="ignore"):
        return normal(ad.graph(f)(a), TARGET).run_flat([a])


def check_eigh(a, tol, uplo="L"):
    w, v = expanded(lambda a: tuple(np.linalg.eigh(a, uplo)), a)
    scale = max(np.abs(a).max(), np.finfo(a.dtype).tiny)
    assert w.dtype == v.dtype == a.dtype
    np.testing.assert_allclose(w, np.linalg.eigvalsh(a, uplo), atol=10 * tol * scale, rtol=tol)
    one = np.broadcast_to(np.eye(a.shape[-1]), a.shape)
    np.testing.assert_allclose(v.swapaxes(-1, -2) @ v, one, atol=10 * tol)
    half = np.tril if uplo == "L" else np.triu
    whole = half(a) + np.swapaxes(half(a, -1 if uplo == "L" else 1), -1, -2)
    np.testing.assert_allclose((v * w[..., None, :]) @ v.swapaxes(-1, -2), whole, atol=20 * tol * scale)


def check_svd(a, tol, full):
    u, s, vh = expanded(lambda a: tuple(np.linalg.svd(a, full_matrices=full)), a)
    expected = np.linalg.svd(a, full_matrices=full)
    assert [(x.shape, x.dtype) for x in (u, s, vh)] == [(x.shape, x.dtype) for x in expected]
    scale, short = max(np.abs(a).max(), np.finfo(a.dtype).tiny), s.shape[-1]
    np.testing.assert_allclose(s, expected[1], atol=10 * tol * scale, rtol=tol)
    np.testing.assert_allclose((u[..., :short] * s[..., None, :]) @ vh[..., :short, :], a, atol=20 * tol * scale)
    for q in (u.swapaxes(-1, -2), vh):  # all vectors, also those that the values do not determine
        np.testing.assert_allclose(
            q @ q.swapaxes(-1, -2), np.broadcast_to(np.eye(q.shape[-2]), q.shape[:-1] + q.shape[-2:-1]), atol=20 * tol
        )


@pytest.mark.parametrize("n", [1, 2, 5, 6, 9])
def test_every_pair_meets_once(n):
    rounds = _tournament(n)
    pairs = [(i, j) for partner in rounds for i, j in enumerate(partner) if i < j]
    assert sorted(pairs) == [(i, j) for i in range(n) for j in range(i + 1, n)]
    assert all(partner[partner[i]] == i for partner in rounds for i in range(n))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 1), (5, 5), (2, 3, 4, 4)])
def test_eigenvalues(shape, dtype):
    check_eigh(RNG.normal(size=shape).astype(dtype), DTYPES[dtype], "U" if len(shape) > 2 else "L")


MATRICES = {
    "zeros": np.zeros((3, 3)),
    "identity": np.eye(3),
    "equal values": np.ones((4, 4)) + np.eye(4),
    "close values": np.diag([1.0, 1.0 + 1e-14, 1.0 - 1e-14]) + 1e-15,
    "large": 1e150 * (np.eye(3) + 0.3),
    "small": 1e-150 * (np.eye(3) + 0.3),
    "graded": np.diag([1e-8, 1.0, 1e8]) + 1e-4,
    "low rank": np.outer([1.0, 2.0, -1.0], [1.0, 2.0, -1.0]),
}


@pytest.mark.parametrize("name", MATRICES)
def test_special_matrices(name):
    check_eigh(MATRICES[name], 1e-13)
    check_svd(MATRICES[name], 1e-13, full=True)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("shape", [(1, 1), (4, 4), (5, 2), (2, 5), (2, 4, 3)])
def test_singular_values(shape, full, dtype):
    check_svd(RNG.normal(size=shape).astype(dtype), DTYPES[dtype], full)


@pytest.mark.parametrize("full", [True, False])
def test_vectors_of_low_rank(full):
    check_svd(np.outer([1.0, 2.0, -1.0, 0.5], [1.0, 0.5, 2.0]), 1e-13, full)
    check_svd(np.zeros((4, 2)), 1e-13, full)
