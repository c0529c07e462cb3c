"""Whether a matrix is symmetric up to rounding: as the op says in NumPy, for all sizes of tiles and layouts."""

import numpy as np
import pytest

import adjoint as ad
from adjoint.ops.matrix import is_hermitian

RNG = np.random.default_rng(0)


def check(a):
    return ad.jit(is_hermitian)(a)


@pytest.mark.parametrize("n", [1, 2, 7, 16, 33, 70])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_symmetric_up_to_rounding(n, dtype):
    a = RNG.normal(size=(n, n))
    symmetric = (a + a.T).astype(dtype)
    assert check(symmetric)
    assert check(symmetric * (1 + np.finfo(dtype).eps * np.sign(a)).astype(dtype))


@pytest.mark.parametrize("n", [2, 7, 16, 33, 70])
def test_one_element_is_enough(n):
    a = RNG.normal(size=(n, n))
    symmetric = a + a.T
    for i, j in {(0, 1), (n - 1, 0), (n // 2, n - 1)} - {(0, 0)}:
        if i == j:
            continue
        other = symmetric.copy()
        other[i, j] += 1.0
        assert not check(other)
        assert bool(check(other)) == bool(is_hermitian(other))


def test_transposed_and_strided_matrices():
    a = RNG.normal(size=(40, 40))
    symmetric = a + a.T
    assert check(symmetric[::2, ::2])
    assert check(symmetric.T)
    assert not check(a[::2, ::2])


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_nonfinite_values(value):
    a = np.eye(5)
    a[1, 3] = a[3, 1] = value
    with np.errstate(all="ignore"):
        assert bool(check(a)) == bool(is_hermitian(a))
