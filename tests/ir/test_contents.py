"""Arrays compared by their bits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjoint.ir import contents as module
from adjoint.ir.contents import contents, is_repeated, same_bits
from adjoint.ir.graph import Literal

SIZES = [0, 1, 2, 511, 512, 513, 20_000, 2 * module._AT_ONCE // 8 + 3]  # on both sides of the thresholds, in doubles


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int8, np.bool_, np.complex128])
def test_equal_arrays_have_equal_keys(size, dtype):
    a = np.random.default_rng(0).integers(0, 2, size).astype(dtype)
    b = a.copy()
    assert same_bits(a, b)
    assert contents(a) == contents(b)
    assert hash(contents(a)) == hash(contents(b))
    assert {Literal(a): 1}[Literal(b)] == 1


@pytest.mark.parametrize("size", SIZES[1:])
def test_one_element_differs(size):
    for place in {0, size // 2, size - 1}:
        a = np.zeros(size)
        b = a.copy()
        b[place] = -0.0
        assert not same_bits(a, b)
        assert contents(a) != contents(b)
        assert Literal(a) != Literal(b)


@given(st.integers(1, 70), st.integers(1, 70), st.integers(0, 3))
def test_layouts(rows, columns, kind):
    """The bits are those of the elements in order, whatever their places in memory."""
    a = np.random.default_rng(rows).normal(size=(rows, columns))
    b = [a.copy(), np.asfortranarray(a), np.repeat(a, 2, axis=1)[:, ::2], a[::-1].copy()[::-1]][kind]
    assert same_bits(a, b)
    assert contents(a) == contents(b)
    assert hash(contents(a)) == hash(contents(b))


def test_nan_equals_itself():
    a = np.full(1000, np.nan)
    assert same_bits(a, a.copy())
    assert contents(a) == contents(a.copy())


def test_repeated_numbers():
    """One number, broadcast, is the same constant as an array full of it."""
    a, b = np.broadcast_to(2.0, (600, 3)), np.full((600, 3), 2.0)
    assert is_repeated(a)
    assert not is_repeated(b)
    assert same_bits(a, b)
    assert hash(Literal(a)) == hash(Literal(b))
    assert Literal(a) == Literal(b)
    assert Literal(a) != Literal(np.broadcast_to(3.0, (600, 3)))


def test_dtype_and_shape_count():
    a = np.zeros(1000)
    for b in (np.zeros((10, 100)), np.zeros(1000, np.int64), np.zeros(2000, np.float32)):
        assert contents(a) != contents(b)
        assert Literal(a) != Literal(b)
