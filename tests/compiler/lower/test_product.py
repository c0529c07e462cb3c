"""Matrix products: loops, unrolled tiles, or BLAS."""

import numpy as np
import pytest

import adjoint as ad
from adjoint.compiler.lower.step import Product

RNG = np.random.default_rng(0)


def products(f, *xs):
    """The products that a program calls for, and its result."""
    compiled = ad.jit(f)
    return [s for s in compiled.lower(*xs).lowered.steps if isinstance(s, Product)], compiled(*xs)


def matrices(*shapes, dtype=float):
    return [RNG.normal(size=shape).astype(dtype) for shape in shapes]


@pytest.mark.parametrize(
    ("left", "right", "narrow"),
    [
        ((100, 20), (20, 20), True),
        ((20, 1000), (1000, 20), True),
        ((300, 40), (40, 8), True),
        ((100, 20), (20, 7), False),  # too few columns for vectors
        ((100, 100), (100, 100), False),  # BLAS is at its best
        ((100, 9000), (9000, 16), False),  # the right one would be read from far, again and again
    ],
)
def test_few_columns_are_written_out(left, right, narrow):
    a, b = matrices(left, right)
    (step,), got = products(np.matmul, a, b)
    assert step.is_narrow == narrow
    np.testing.assert_allclose(got, a @ b, rtol=1e-11, atol=1e-11)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("columns", [8, 9, 15, 20, 31])
@pytest.mark.parametrize("rows", [4, 6, 25, 71])
def test_all_widths_and_heights(rows, columns, dtype):
    a, b = matrices((rows, 33), (33, columns), dtype=dtype)
    (step,), got = products(np.matmul, a, b)
    assert step.is_narrow
    assert got.dtype == dtype
    np.testing.assert_allclose(got, a @ b, rtol=0, atol=1e-12 if dtype is np.float64 else 2e-4)


def test_the_left_one_may_lie_anywhere():
    a, b = matrices((40, 2, 70), (40, 16))
    (step,), got = products(lambda a, b: a[:, 1, ::2].T @ b, a, b)
    assert step.is_narrow
    np.testing.assert_allclose(got, a[:, 1, ::2].T @ b, rtol=1e-12, atol=1e-12)


def test_the_right_one_is_copied_if_it_lies_by_columns():
    a, b = matrices((100, 20), (16, 20))
    (step,), got = products(lambda a, b: a @ b.T, a, b)
    assert step.is_narrow
    assert step.right.strides[-1] == 1
    np.testing.assert_allclose(got, a @ b.T, rtol=1e-12, atol=1e-12)
    (step,), _ = products(lambda a, b: a @ b.T, a[:40], b)
    assert not step.is_narrow  # so few rows are not worth the copy


def test_stacks_and_broadcasting():
    shapes = [
        ((5, 30, 20), (5, 20, 10)),
        ((2, 3, 30, 20), (3, 20, 10)),
        ((30, 20), (4, 20, 10)),
        ((2, 1, 9, 20), (3, 20, 10)),
    ]
    for left, right in shapes:
        a, b = matrices(left, right)
        (step,), got = products(np.matmul, a, b)
        assert step.is_narrow
        np.testing.assert_allclose(got, a @ b, rtol=1e-12, atol=1e-12)


def test_pieces_give_the_same_bits_on_any_number_of_threads():
    a, b = matrices((8, 2000, 24), (8, 24, 24))
    compiled = ad.jit(np.matmul)
    (step,) = compiled.lower(a, b).lowered.steps
    assert step.chunks > 1
    before = ad.get_num_threads()
    found = []
    try:
        for threads in (1, 2, 3):
            ad.set_num_threads(threads)
            found.append(compiled(a, b).tobytes())
    finally:
        ad.set_num_threads(before)
    assert len(set(found)) == 1


@pytest.mark.parametrize("transposed", [False, True])
def test_half_of_a_cholesky_factor_is_left_out(transposed):
    a, b = matrices((200, 200), (200, 150))

    def f(a, b):
        factor = np.linalg.cholesky(a @ a.T + 200 * np.eye(200))
        return (factor.T if transposed else factor) @ b

    found, got = products(f, a, b)
    assert found[-1].triangle == ("upper" if transposed else "lower")
    assert not found[0].triangle
    np.testing.assert_allclose(got, f(a, b), rtol=1e-11, atol=1e-11)
