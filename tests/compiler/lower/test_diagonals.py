"""Constants that are the same along their diagonals: found to the bit, and computed at each point."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from night import sampled

import adjoint as ad
from adjoint.compiler.lower import diagonals as module
from adjoint.compiler.lower.diagonals import LEAST, diagonals

SIDE = int(LEAST**0.5)


def filled(found):
    """The matrix that was found."""
    rows, columns = found.shape
    distance = np.arange(columns) - np.arange(rows)[:, None] - found.shift
    made = np.where(distance < 0, found.below, np.where(distance > 0, found.above, found.on))
    return made.astype(found.dtype)


@given(
    st.integers(2, 40),
    st.integers(2, 40),
    st.integers(-45, 45),
    st.tuples(*[st.sampled_from([0.0, -0.0, 1.0, np.nan, np.inf, -2.5])] * 3),
    st.sampled_from([np.float64, np.float32, np.int64, np.int32, bool]),
    st.integers(0, 2),
    st.booleans(),
    st.randoms(use_true_random=False),
)
@settings(max_examples=150, deadline=None)
def test_diagonals_reproduce_the_matrix_bit_for_bit(rows, columns, shift, numbers, dtype, changed, transposed, random):
    distance = np.arange(columns) - np.arange(rows)[:, None] - shift
    with np.errstate(invalid="ignore"):
        matrix = np.where(distance < 0, numbers[0], np.where(distance > 0, numbers[2], numbers[1])).astype(dtype)
    for _ in range(changed):
        matrix[random.randrange(rows), random.randrange(columns)] = 7
    matrix = matrix.T if transposed else matrix
    previous, module.LEAST = module.LEAST, 0
    try:
        found = diagonals(matrix)
    finally:
        module.LEAST = previous
    if found is not None:
        assert filled(found).tobytes() == matrix.tobytes()
    else:
        assert changed


@pytest.mark.parametrize("at_once", [1, 7, 1 << 20])
def test_every_element_is_looked_at(monkeypatch, at_once):
    monkeypatch.setattr(module, "_AT_ONCE", at_once)
    monkeypatch.setattr(module, "LEAST", 0)
    for at in np.ndindex(5, 6):
        matrix = np.eye(5, 6, k=1)
        matrix[at] = 3.0
        assert diagonals(matrix) is None


def test_only_large_matrices():
    assert diagonals(np.eye(SIDE - 1)) is None
    assert diagonals(np.eye(SIDE)) is not None
    assert diagonals(np.eye(3, LEAST // 3)) is None
    assert diagonals(np.eye(4, LEAST // 4)) is not None
    assert diagonals(np.ones(2 * LEAST)) is None
    assert diagonals(np.ones((1, 2 * LEAST))) is None


MASKS = {
    "eye": lambda n: np.eye(n),
    "off": lambda n: 1.0 - np.eye(n),
    "shifted": lambda n: np.eye(n, k=3) - 2.0 * np.tri(n, k=2),
    "below": lambda n: np.tri(n, k=-1),
    "truth": lambda n: np.tri(n, k=40) == 1,
    "integers": lambda n: np.tri(n, dtype=np.int32),
    "ones": lambda n: np.full((n, n), 3.0),
}


CASES = itertools.product(MASKS, [SIDE - 1, SIDE, SIDE + 37], [np.float64, np.float32])


@pytest.mark.parametrize("kind, n, dtype", sampled(CASES, 3, key=lambda case: case[0]))
def test_compiled_as_eager(kind, n, dtype):
    def f(x):
        mask = MASKS[kind](n)
        y = np.exp(x[:, None] - x) * mask
        return np.where(mask != 0, y, x), np.sum(y + mask[:, ::-1], axis=0), np.sum(np.sin(y).reshape(n, n) @ mask)

    x = np.linspace(-1, 1, n).astype(dtype)
    near = {"rtol": 1e-3, "atol": 1e-3} if dtype is np.float32 else {"rtol": 1e-10, "atol": 1e-10}
    for got, wanted in zip(ad.jit(f)(x), f(x), strict=True):
        np.testing.assert_allclose(got, wanted, **near)
    total = lambda x: np.sum(f(x)[0]) + np.sum(f(x)[1])
    got, wanted = ad.jit(ad.grad(total))(x), ad.grad(total)(x)
    np.testing.assert_allclose(got, wanted, **near)


def test_no_large_constant_is_kept():
    n = 2 * SIDE
    made = ad.jit(lambda x: np.sum((x[:, None] - x) ** 2 * (1.0 - np.eye(n)) + np.eye(n))).lower(np.ones(n))
    assert all(b.size < LEAST for b in made.lowered.buffers if b.kind == "constant")


def test_a_batch_of_matrices():
    n = SIDE
    x = np.random.default_rng(0).standard_normal((3, n, n))
    np.testing.assert_array_equal(ad.jit(lambda x: x * np.tri(n) + np.eye(n))(x), x * np.tri(n) + np.eye(n))


@pytest.mark.parametrize("at_once", [1, 1 << 20])
def test_matrices_repeated_along_axes_that_follow(monkeypatch, at_once):
    monkeypatch.setattr(module, "_AT_ONCE", at_once)
    monkeypatch.setattr(module, "LEAST", 0)
    repeated = np.broadcast_to(np.tri(5, 6)[:, :, None, None], (5, 6, 2, 3))
    found = diagonals(repeated)
    assert found is not None
    assert found.after == 2
    np.testing.assert_array_equal(filled(found), np.tri(5, 6))
    for at in [(0, 0, 0, 1), (4, 5, 1, 2), (2, 3, 1, 0)]:
        other = repeated.copy()
        other[at] += 1.0
        assert diagonals(other) is None
    assert diagonals(np.zeros((5, 6, 0))) is None


def test_the_mask_of_a_cotangent_is_not_loaded():
    """Zeros of a constant mask the cotangents of vectors, one mask for all elements of a vector."""
    n = SIDE
    gaps = lambda x: x[:, None, :] - x[None, :, :]
    f = ad.grad(lambda x: np.sum((1.0 - np.eye(n)) / (np.sum(gaps(x) ** 2, axis=2) + np.eye(n))))
    x = np.random.default_rng(0).standard_normal((n, 3))
    made = ad.jit(f).lower(x)
    assert all(b.size < LEAST for b in made.lowered.buffers if b.kind == "constant")
    np.testing.assert_allclose(ad.jit(f)(x), f(x), rtol=1e-9, atol=1e-9)
