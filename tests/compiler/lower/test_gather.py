"""Reads and sums at computed places."""

import numpy as np
import pytest

import adjoint as ad
from adjoint.ops import index as indexing
from adjoint.ops import sort as sorts

RNG = np.random.default_rng(0)
X, AT = RNG.normal(size=(10, 3)), RNG.integers(-10, 10, 25)


def test_a_read_joins_the_kernel_of_its_use():
    f = lambda x, i: np.sum(np.sin(x[i]) ** 2)
    (kernel,) = ad.jit(f).lower(X, AT).lowered.steps
    assert [line.kind for line in kernel.code].count("gather") == 1
    assert not kernel.stores
    np.testing.assert_allclose(ad.jit(f)(X, AT), f(X, AT), rtol=1e-13)


def test_the_transpose_adds_to_zeros():
    f = ad.grad(lambda x, i: np.sum(x[i] ** 3))
    lowered = ad.jit(f).lower(X, AT).lowered
    assert sum(len(s.scatters) for s in lowered.steps) == 1
    assert all(s.chunks == 1 for s in lowered.steps if s.scatters)  # two pieces might add to one element
    np.testing.assert_allclose(ad.jit(f)(X, AT), f(X, AT), rtol=1e-13)


def test_an_index_out_of_bounds_is_reported_at_the_end():
    compiled = ad.jit(lambda x, i: x[i])
    (outside,) = compiled.lower(X, AT).lowered.out_of_bounds
    assert outside.shape == ()
    with pytest.raises(IndexError):
        compiled(X, np.array([0, 10]))


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "shape, index", [((7,), "i"), ((7,), "-1 - i"), ((3, 7), "i % 3"), ((3, 7), "(i % 3, i)"), ((7, 3), "(slice(None), i % 3)")]
)
@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "complex128"])
def test_writes_to_one_place(shape, index, dtype):
    """x[i] = v for an integer that is not known while the program is compiled."""

    def f(x, v, n):
        def body(i, a):
            a = a.copy()
            a[eval(index, {"i": i})] = v * a[eval(index, {"i": i})]
            return a

        return ad.fori_loop(0, n, body, x)

    x = np.arange(1, 1 + np.prod(shape)).reshape(shape).astype(dtype)
    compiled, expected = ad.jit(f), x.copy()
    for n in (0, 5, 7):
        expected = x.copy()
        for i in range(n):
            expected[eval(index, {"i": i})] *= 3
        np.testing.assert_array_equal(compiled(x, np.dtype(dtype).type(3), n), expected)


def test_a_write_out_of_bounds():
    def f(x, i):
        return ad.fori_loop(i, i + 1, lambda k, a: _written(a, k), x)

    def _written(a, k):
        a = a.copy()
        a[k] = 5.0
        return a

    compiled = ad.jit(f)
    for i in (0, 2, -1, -3):
        np.testing.assert_array_equal(compiled(np.ones(3), i)[i], 5.0)
    for i in (3, -4):
        with pytest.raises(IndexError):
            compiled(np.ones(3), i)


@pytest.mark.parametrize("size", [3, 40])
@pytest.mark.parametrize("seed", range(4))
def test_the_sum_of_bools_is_an_or(size, seed):
    rng = np.random.default_rng(seed)
    g, at = rng.random(12) < 0.4, rng.integers(0, 3, 12)
    expected = np.zeros(size, bool)
    np.logical_or.at(expected, at, g)
    f = lambda g, at: indexing.scatter_add(g, at, axis=0, shape=(size,))
    np.testing.assert_array_equal(ad.jit(f)(g, at), expected)
    np.testing.assert_array_equal(ad.jit(lambda g: f(g, at))(g), expected)
    np.testing.assert_array_equal(ad.jit(lambda x, g: x + f(g, at))(~expected, g), np.ones(size, bool))
    along = lambda g, at: sorts.add_along(g, at, axis=0, shape=(size,))
    np.testing.assert_array_equal(ad.jit(along)(g, at), expected)
