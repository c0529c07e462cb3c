"""Systems of a few unknowns, solved in place, and those of more, solved by BLAS: the same results on both sides of the limit."""

import numpy as np
import pytest

import adjoint as ad
import adjoint.scipy.linalg as linalg
from adjoint.compiler.llvm import substitution

RNG = np.random.default_rng(0)
SIZES = [
    (1, 1),
    (1, 4),
    (2, 1),
    (3, 5),
    (6, 6),
    (6, 7),
    (7, 2),
    (14, 1),
    (15, 1),
    (16, 1),
    (16, 32),
    (16, 33),
    (17, 2),
    (40, 3),
    (90, 1),
]


def systems(dtype):
    return [
        (
            RNG.normal(size=(n, n)).astype(dtype) + (2 * np.sqrt(n) * np.eye(n)).astype(dtype),
            RNG.normal(size=(n, m)).astype(dtype),
        )
        for n, m in SIZES
    ]


def agree(found, expected, dtype):
    tol = 1e-10 if dtype is float else 2e-3
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == dtype
        np.testing.assert_allclose(a, b, rtol=tol, atol=tol)


def test_the_limit_lies_within_the_sizes():
    assert {substitution.is_small(n, m) for n, m in SIZES} == {True, False}
    assert {n * n * m <= substitution.WORK_WRITTEN_OUT for n, m in SIZES if substitution.is_small(n, m)} == {True, False}


@pytest.mark.parametrize("dtype", [float, np.float32])
def test_general_systems(dtype):
    """With pivots, and transposed in the derivative; stacks of them; vectors."""

    def f(pairs):
        return [np.linalg.solve(a, b) for a, b in pairs] + [np.linalg.solve(np.stack([a, a.T]), b[:, 0]) for a, b in pairs[1:5:2]]

    def gradients(pairs):
        ys, pull = ad.vjp(f, pairs)
        return [x for pair in pull([np.cos(y) for y in ys])[0] for x in pair]

    pairs = [(a[::-1], b) for a, b in systems(dtype)]  # rows are exchanged
    agree(ad.jit(f)(pairs), f(pairs), dtype)
    agree(ad.jit(gradients)(pairs), gradients(pairs), dtype)


@pytest.mark.parametrize("dtype", [float, np.float32])
@pytest.mark.parametrize("lower", [False, True])
def test_triangles(dtype, lower):
    """All ways to read a triangle, with sides by rows and by columns."""

    def f(pairs):
        ways = [(trans, unit) for trans in (0, 1) for unit in (False, True)]
        results = []
        for a, b in pairs:
            for trans, unit in ways:
                results.append(linalg.solve_triangular(a / 4, b, trans=trans, lower=lower, unit_diagonal=unit))
            results.append(linalg.solve_triangular(a.T, (b.T * 2.0).T, lower=lower))
        return results

    pairs = [pair for pair, (n, _) in zip(systems(dtype), SIZES, strict=True) if n <= 17]
    agree(ad.jit(f)(pairs), f(pairs), dtype)


def test_singular_matrices_still_raise():
    with pytest.raises(np.linalg.LinAlgError, match=r"(?i)singular"):
        ad.jit(np.linalg.solve)(np.zeros((3, 3)), np.ones(3))
    with pytest.raises(np.linalg.LinAlgError, match=r"(?i)singular"):
        ad.jit(lambda a, b: linalg.solve_triangular(a, b, lower=True))(np.array([[2.0, 0.0], [1.0, 0.0]]), np.ones(2))
