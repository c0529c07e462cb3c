"""Linear algebra as steps: NumPy's results for stacks and layouts, one factorisation for several uses, failures."""

import numpy as np
import pytest

import adjoint as ad
from adjoint.compiler.lower.step import Lapack

RNG = np.random.default_rng(0)
A = RNG.normal(size=(5, 5))
SPD = A @ A.T + 5 * np.eye(5)
FUNCTIONS = {
    "cholesky": (np.linalg.cholesky, SPD),
    "inv": (np.linalg.inv, A),
    "det": (np.linalg.det, A),
    "slogdet": (lambda a: np.linalg.slogdet(a)[1], A),
    "solve": (lambda a: np.linalg.solve(a, np.ones(5)), A),
    "eigvalsh": (np.linalg.eigvalsh, SPD),
    "svd": (lambda a: np.linalg.svd(a)[1], A),
    "qr": (lambda a: np.abs(np.linalg.qr(a)[1]), A),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("layout", ["rows", "columns", "strided", "stack"])
def test_values_and_gradients(name, layout):
    f, a = FUNCTIONS[name]
    if layout == "columns":
        a = np.asfortranarray(a)
    elif layout == "strided":
        wide = np.zeros((10, 10))
        wide[::2, ::2] = a
        a = wide[::2, ::2]
    elif layout == "stack":
        f, a = (lambda one: lambda a: np.stack([one(a[0]), one(a[1])]))(f), np.stack([a, a + np.eye(5)])
    g = lambda a: np.sum(np.cos(f(a)))
    for found, expected in zip(ad.jit(ad.value_and_grad(g))(a), ad.value_and_grad(g)(a), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-10)


def routines(f, *args):
    return [step.routine for step in ad.jit(f).lower(*args).lowered.steps if isinstance(step, Lapack)]


def test_factors_are_shared():
    f = lambda a, b: (np.linalg.solve(a, b), np.linalg.solve(a, 2 * b), np.linalg.det(a), np.linalg.solve(a.T, b))
    assert routines(f, A, np.ones(5)).count("factors") == 1


@pytest.mark.parametrize("name", ["cholesky", "inv", "solve"])
def test_failures_are_those_of_numpy(name):
    f, _ = FUNCTIONS[name]
    bad = -np.eye(5) if name == "cholesky" else np.zeros((5, 5))
    compiled = ad.jit(f)
    compiled(FUNCTIONS[name][1])
    with pytest.raises(np.linalg.LinAlgError):
        compiled(bad)


@pytest.mark.parametrize("shape", [(0, 0), (3, 0, 0), (0, 4, 4)])
def test_empty_matrices(shape):
    a = np.zeros(shape)
    np.testing.assert_array_equal(ad.jit(np.linalg.inv)(a), np.linalg.inv(a))


@pytest.mark.parametrize("shape", [(1, 1), (5, 5), (3, 7), (7, 3), (4, 3, 3), (40, 40)])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_vectors_that_nothing_reads_are_not_computed(shape, dtype):
    a = np.random.default_rng(1).normal(size=shape).astype(dtype)
    cases = [(lambda a: np.linalg.svd(a, compute_uv=False), lambda a: np.linalg.svd(a, full_matrices=False)[1:])]
    if shape[-1] == shape[-2]:
        cases.append((np.linalg.eigvalsh, lambda a: tuple(np.linalg.eigh(a))))
    for values, vectors in cases:
        expected = values(a)
        np.testing.assert_allclose(ad.jit(values)(a), expected, rtol=1e-5, atol=1e-5 if dtype == "f4" else 1e-12)
        np.testing.assert_allclose(ad.jit(vectors)(a)[0], expected, rtol=1e-5, atol=1e-5 if dtype == "f4" else 1e-12)
        for f, has_vectors in ((values, False), (vectors, True)):
            (options,) = [step.options for step in ad.jit(f).lower(a).lowered.steps if isinstance(step, Lapack)]
            assert has_vectors == (options.get("vectors", False) or options.get("job", "N") != "N")
