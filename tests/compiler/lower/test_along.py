"""take_along_axis and its scatter-add: kernels, not calls into NumPy."""

import numpy as np
import pytest
from on_device import both_orders

import adjoint as ad

SHAPES = [(7,), (5, 6), (3, 4, 5), (1, 6), (6, 1)]
CASES = [(shape, axis) for shape in SHAPES for axis in range(len(shape))]


def numbers(shape):
    return np.random.default_rng(0).normal(size=shape)


def places(shape, axis, count):
    return np.random.default_rng(1).integers(
        -shape[axis], shape[axis], tuple(count if k == axis else n for k, n in enumerate(shape))
    )


def check(f, *args):
    compiled, wanted = ad.jit(f), f(*args)
    for found in (compiled(*args), both_orders(f, args)[0][0]):
        assert found.dtype == wanted.dtype
        slack = 2e-6 if wanted.dtype == np.float32 else 1e-13  # NumPy adds float32 in double precision
        np.testing.assert_allclose(found, wanted, rtol=slack, atol=10 * slack)
    return compiled.report()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "bool"])
@pytest.mark.parametrize("places_dtype", ["int64", "int32"])
@pytest.mark.parametrize(("shape", "axis"), CASES)
def test_taken(shape, axis, dtype, places_dtype):
    x = (3 * numbers(shape)).astype(dtype)
    report = check(lambda x, i: np.take_along_axis(x, i, axis=axis), x, places(shape, axis, 4).astype(places_dtype))
    assert "calls NumPy" not in report


@pytest.mark.parametrize(("shape", "axis"), CASES)
def test_views_and_intermediate_values(shape, axis):
    x, i = np.asfortranarray(numbers(shape)), places(shape, axis, 3)
    f = lambda x, i: np.take_along_axis(np.sin(np.flip(x, axis)) * 2, i - i // 2, axis=axis) + 1
    check(f, x, i)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("count", [1, 4, 30])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(("shape", "axis"), CASES)
def test_gradients_add_up(shape, axis, dtype, count):
    x, i = numbers(shape).astype(dtype), places(shape, axis, count)
    weights = numbers(i.shape).astype(dtype)
    report = check(ad.grad(lambda x, i, w: np.sum(np.take_along_axis(x, i, axis=axis) ** 2 * w)), x, i, weights)
    assert "calls NumPy" not in report


@pytest.mark.parametrize("wrong", [6, -7, 2**40])
def test_out_of_bounds(wrong):
    f = ad.jit(lambda x, i: np.take_along_axis(x, i, axis=1))
    x, i = numbers((5, 6)), np.zeros((5, 2), int)
    np.testing.assert_array_equal(f(x, i), x[:, [0, 0]])
    i[3, 1] = wrong
    with pytest.raises(IndexError, match="out of bounds"):
        f(x, i)


@pytest.mark.parametrize(("shape", "axis"), CASES)
def test_sorted(shape, axis):
    x = numbers(shape)
    report = check(lambda x: np.sort(x, axis=axis), x)
    assert "calls NumPy" not in report


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0)])
def test_without_elements(shape):
    check(lambda x, i: np.take_along_axis(x, i, axis=-1), np.zeros(shape), np.zeros((*shape[:-1], 0), int))


@pytest.mark.parametrize("transform", [ad.jacrev, ad.jacfwd, lambda f: ad.vmap(ad.grad(lambda x: np.sum(f(x))))])
@pytest.mark.parametrize("place", [2, 3, 5, 6, -3, 10**8])
def test_a_constant_place_out_of_bounds_is_no_place_in_another_row(place, transform):
    """The values themselves are not computed: the derivative must notice."""
    f = ad.jit(transform(lambda x: 2.0 * np.take_along_axis(x, np.array([[place], [0], [0]]), 1)))
    with pytest.raises(IndexError):
        f(np.ones((4, 3, 2)) if transform not in (ad.jacrev, ad.jacfwd) else np.ones((3, 2)))
