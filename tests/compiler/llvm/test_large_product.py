"""Large products in pieces: which products are cut, and equal results for every layout and remainder."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import adjoint as ad
from adjoint.compiler.llvm import large_product
from adjoint.compiler.llvm.large_product import _LARGE, _LEAST, _MOST_PIECES, _PIECE
from adjoint.compiler.lower.step import Product
from adjoint.compiler.switches import Switch, without

RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def by_blas():
    with without(Switch.PACKED_PRODUCTS):
        yield


def products(f, *args):
    return [step for step in ad.jit(f).lower(*args).lowered.steps if isinstance(step, Product)]


def count(rows, inner, columns):
    """The pieces of a product."""
    (step,) = products(lambda a, b: a @ b, np.empty((rows, inner)), np.empty((inner, columns)))
    return large_product.pieces(step)


@pytest.mark.parametrize(
    ("sizes", "pieces"),
    [
        ((128, _LARGE // (128 * 64) - 1, 64), 1),
        ((128, _LARGE // (128 * 64), 64), 2),
        ((64, _LARGE // (128 * 64), 128), 2),
        ((2 * _LEAST - 1, 1000, 100), 1),
        ((2 * _LEAST, 1000, 100), 2),
        ((100 * _LEAST, 3 * _PIECE // (100 * _LEAST * 50) + 1, 50), 2),  # a power of two
        ((100 * _LEAST, 4 * _PIECE // (100 * _LEAST * 50) + 1, 50), 4),
        ((50_000, 1000, 40), _MOST_PIECES),
        ((50_000, 1000, 1), 1),
        ((1, 1000, 50_000), 1),
    ],
)
def test_what_is_cut(sizes, pieces):
    assert count(*sizes) == pieces


def test_no_piece_is_empty():
    for length in range(2 * _LEAST, 20 * _LEAST, 7):
        for columns in (40, 70):
            found = count(length, 2000, columns)
            each = -(-length // found)
            assert (found - 1) * each < length


def test_stacks_triangles_and_the_switch():
    a = np.empty((3, 300, 300))
    assert all(large_product.pieces(step) == 1 for step in products(lambda a: a @ a, a))
    with without(Switch.ONE_BLAS_THREAD):
        assert count(300, 300, 300) == 1


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("rows", "columns"), [(300, 130), (130, 300), (131, 131), (517, 64), (64, 517)])
@pytest.mark.parametrize("layout", ["rows", "columns", "slices"])
def test_products_of_all_layouts(dtype, rows, columns, layout):
    inner = 2 * _LARGE // (rows * columns)
    a, b = RNG.normal(size=(rows + 3, inner + 2)).astype(dtype), RNG.normal(size=(inner + 2, columns + 5)).astype(dtype)

    def f(a, b):
        if layout == "rows":
            return a[:rows, :inner] * 1.0 @ (b[:inner, :columns] * 1.0)
        if layout == "columns":
            return (a[:rows, :inner] * 1.0).T.copy().T @ (b[:inner, :columns].T * 1.0).T
        return a[3:, 2:] @ b[2:, 5:]

    assert any(large_product.pieces(step) > 1 for step in products(f, a, b))
    tolerance = {"rtol": 1e-3, "atol": 1e-3} if dtype == np.float32 else {"rtol": 1e-10, "atol": 1e-10}
    np.testing.assert_allclose(ad.jit(f)(a, b), f(a, b), **tolerance)


def test_gradients_and_batches():
    a, b = RNG.normal(size=(700, 60)), RNG.normal(size=(60, 150))
    f = lambda a, b: np.sum(np.sin(a @ b))
    for got, want in zip(ad.jit(ad.grad(f, (0, 1)))(a, b), ad.grad(f, (0, 1))(a, b), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-10)
    stack = np.stack([b, 2 * b])
    batched = ad.vmap(lambda b: a @ b)
    np.testing.assert_allclose(ad.jit(batched)(stack), a @ stack, rtol=1e-11, atol=1e-11)


def test_the_same_bits_for_any_number_of_threads():
    a = RNG.normal(size=(400, 400))
    f = ad.jit(lambda a: a @ np.cos(a))
    usual = ad.get_num_threads()
    ad.set_num_threads(1)
    try:
        alone = f(a)
    finally:
        ad.set_num_threads(usual)
    for _ in range(3):
        np.testing.assert_array_equal(f(a), alone)


def test_many_threads_at_once():
    a = RNG.normal(size=(300, 300))
    f = ad.jit(lambda a, k: a @ a * k)
    f(a, 1.0)
    with ThreadPoolExecutor(4) as threads:
        for k, found in enumerate(threads.map(lambda k: f(a, float(k)), range(24))):
            np.testing.assert_allclose(found, a @ a * k, rtol=1e-11, atol=1e-9)
