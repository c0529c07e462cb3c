"""Ops without machine code of their own are expanded: the results are those of the ops, and no call of NumPy is left."""

from __future__ import annotations

import numpy as np
import pytest

import adjoint as ad
from adjoint.compiler.expand import EXPANSIONS, expand
from adjoint.ops import determinant, gaps
from adjoint.transform.build import build

RNG = np.random.default_rng(3)
EQUAL = np.array([[1.0, 1.0, 2.0, 5.0], [0.0, 0.0, 0.0, 0.0], [-3.0, 1.0, 1.0 + 1e-12, 1.0 + 1e-3], [1.0, 2.0, 3.0, 4.0]])
SPECTRA = {
    "one": np.array([2.0]),
    "equal": EQUAL,
    "singular": EQUAL[:, ::-1].clip(0.0),
    "float32": EQUAL.astype(np.float32),
    "not finite": np.array([[1.0, np.inf], [np.nan, 1.0]]),
    "random": RNG.normal(size=(5, 2, 7)),
}
PARAMS = {
    gaps.negligible: [{"sign": 1}, {"sign": -1}],
    gaps.splitting: [{"kind": kind} for kind in ("real", "positive", "any")],
    gaps.gap_splitting: [{"sign": -1, "kind": "real"}, {"sign": 1, "kind": "positive"}],
    gaps.crowded: [{"kind": kind} for kind in ("real", "positive", "any")],
    gaps.magnitude: [{}],
}


def graph_of(op, args, params):
    from adjoint.core.types import Type

    return build(op.name, [(f"x{i}", Type.of(x)) for i, x in enumerate(args)], lambda xs: [op(*xs, **params)])


def assert_same(op, args, **params):
    graph = graph_of(op, args, params)
    found = expand(graph)
    assert all(e.op is not op for e in found.equations)
    with np.errstate(all="ignore"):
        (result,), expected = found.run_flat(args), op.impl(*args, **params)
    assert result.dtype == expected.dtype
    eps = 1e-12 if expected.dtype != np.float32 else 1e-5
    np.testing.assert_allclose(result, expected, rtol=eps, atol=eps if op is determinant.cofactor else 0)


@pytest.mark.parametrize("spectrum", SPECTRA)
@pytest.mark.parametrize("op", PARAMS, ids=lambda op: op.name)
def test_gaps(op, spectrum):
    for params in PARAMS[op]:
        assert_same(op, [SPECTRA[spectrum]], **params)


@pytest.mark.parametrize("spectrum", SPECTRA)
def test_cotangents_of_equal_eigenvalues(spectrum):
    w = SPECTRA[spectrum]
    for g in (np.ones_like(w), np.arange(w.size, dtype=w.dtype).reshape(w.shape)):
        assert_same(gaps.told_apart, [g, w])
    assert_same(gaps.cancelled, [np.stack([w, np.zeros_like(w)]), np.stack([w, w])])


@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (3, 3), (4, 4), (6, 3, 3), (2, 3, 4, 4)])
def test_cofactors(shape):
    a = RNG.normal(size=shape)
    assert_same(determinant.cofactor, [a])
    a[..., -1, :] = a[..., 0, :]  # singular
    assert_same(determinant.cofactor, [a])


def test_larger_complex_and_empty_matrices_are_not_expanded():
    for a in (RNG.normal(size=(5, 5)), RNG.normal(size=(2, 2)) + 1j, np.zeros((0, 0))):
        graph = graph_of(determinant.cofactor, [a], {})
        assert expand(graph) is graph


def test_every_op_is_tested():
    assert {*PARAMS, gaps.told_apart, gaps.cancelled, determinant.cofactor} == set(EXPANSIONS)


FUNCTIONS = {
    "det": lambda a: np.sum(np.linalg.det(a) ** 2),
    "eigvalsh": lambda a: np.sum(np.linalg.eigvalsh(a + np.swapaxes(a, -1, -2)) ** 3),
    "eigh": lambda a: np.sum(np.linalg.eigh(a + np.swapaxes(a, -1, -2))[1] ** 4),
    "singular values": lambda a: np.sum(np.linalg.svd(a, compute_uv=False) ** 3),
    "svd": lambda a: np.sum(np.linalg.svd(a)[0] ** 4),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_call_no_numpy(name):
    f = FUNCTIONS[name]
    for shape in ((3, 3), (5, 4, 4)):
        a = RNG.normal(size=shape)
        gradient = ad.jit(ad.grad(f))
        np.testing.assert_allclose(gradient(a), ad.grad(f)(a), rtol=1e-9, atol=1e-10)
        assert "calls NumPy" not in gradient.report()


def test_inside_a_loop():
    def f(a):
        return ad.scan(lambda s, row: (s + np.linalg.det(row) * np.sin(s), None), 0.5, a)[0]

    a = RNG.normal(size=(6, 3, 3))
    gradient = ad.jit(ad.grad(f))
    np.testing.assert_allclose(gradient(a), ad.grad(f)(a), rtol=1e-10)
    assert "calls NumPy" not in gradient.report()


def test_a_repeated_eigenvalue_has_the_same_gradient_compiled():
    def f(a):
        w, v = np.linalg.eigh(a)
        return np.sum((v * np.exp(w)) @ v.T)

    a = np.diag([1.0, 1.0, 2.0])
    np.testing.assert_allclose(ad.jit(ad.grad(f))(a), ad.grad(f)(a), rtol=1e-9, atol=1e-12)
