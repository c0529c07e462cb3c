"""LU factors and inverses of small matrices without LAPACK: against NumPy, on both sides of the greatest size."""

import numpy as np
import pytest

import adjoint as ad
from adjoint.compiler.switches import Switch, without

SIZES = [1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 17]


def matrices(n, dtype=np.float64, count=20):
    rng = np.random.default_rng(n)
    a = rng.normal(size=(count, n, n)).astype(dtype)
    a[0] = np.eye(n)[::-1]  # needs pivots
    a[1] *= np.geomspace(1e-3, 1e3, n)[:, None].astype(dtype)
    return a


FUNCTIONS = {
    "slogdet": lambda a: np.linalg.slogdet(a)[1],
    "det": np.linalg.det,
    "inv": np.linalg.inv,
    "solve": lambda a: np.linalg.solve(a, a[:, :, :1] + 1),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_against_numpy(name, n, dtype):
    f, a = FUNCTIONS[name], matrices(n, dtype)
    exact, got = f(a.astype(np.float64)), ad.jit(f)(a)
    assert got.dtype == f(a).dtype
    condition = np.linalg.cond(a.astype(np.float64)).reshape(-1, *(1,) * (exact.ndim - 1))
    scale = np.max(np.abs(exact), axis=tuple(range(1, exact.ndim)), keepdims=True)
    assert np.all(np.abs(got - exact) <= 20 * n * np.finfo(dtype).eps * condition * (scale + 1))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("n", [1, 2, 5, 6, 7, 8, 9, 12, 13])
@pytest.mark.parametrize("name", ["slogdet", "inv", "solve"])
def test_gradients(name, n):
    a = matrices(n, count=4)
    a[2:] += 3 * np.eye(n)
    gradient = ad.grad(lambda a: np.sum(np.sin(FUNCTIONS[name](a))))
    want = gradient(a)
    np.testing.assert_allclose(ad.jit(gradient)(a), want, rtol=1e-7, atol=1e-8 * np.abs(want).max())


@pytest.mark.parametrize("n", [1, 2, 3, 5, 6, 7, 8, 9, 12, 13])
def test_singular_matrices(n):
    a = matrices(n)
    a[3] = 0
    sign, size = ad.jit(np.linalg.slogdet)(a)
    assert (sign[3], size[3]) == (0, -np.inf)
    with pytest.raises(np.linalg.LinAlgError):
        ad.jit(np.linalg.inv)(a)
    with pytest.raises(np.linalg.LinAlgError):
        ad.jit(lambda a: np.linalg.solve(a, a))(a)


def test_the_pivot_is_the_largest_and_ties_go_to_the_first():
    a = np.array([[1e-20, 1.0, 2.0], [-1.0, 1.0, 0.0], [1.0, 1.0, 1.0]])
    np.testing.assert_allclose(ad.jit(np.linalg.inv)(a), np.linalg.inv(a), rtol=1e-14)
    assert ad.jit(np.linalg.slogdet)(a[[1, 0, 2]])[0] == np.linalg.slogdet(a[[1, 0, 2]])[0]


def test_nan_stays_nan():
    a = matrices(3)
    a[4, 1, 1] = np.nan
    got = ad.jit(np.linalg.det)(a)
    assert np.isnan(got[4])
    np.testing.assert_allclose(np.delete(got, 4), np.linalg.det(np.delete(a, 4, axis=0)), rtol=1e-12)


def test_the_switch():
    a = matrices(5)
    with without(Switch.SMALL_SYSTEMS):
        text = ad.jit(np.linalg.inv).lower(a).native.text
    assert "getrf" in text
    assert "getrf" not in ad.jit(np.linalg.inv).lower(a).native.text


def test_few_rows_are_written_out():
    """Without loops over rows and columns, up to a size; beyond, the code does not grow."""
    lines = {n: len(ad.jit(np.linalg.inv).lower(matrices(n)).native.text.splitlines()) for n in (2, 6, 8, 9, 12)}
    assert lines[2] < lines[6] < 12_000
    assert lines[9] < lines[8] < 12_000
    assert lines[12] < 1.1 * lines[9]
