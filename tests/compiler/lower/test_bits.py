"""Bitwise operators and shifts are scalar code: as NumPy's, for every pair of types, also by more bits than there are."""

import operator

import numpy as np
import pytest
from on_device import both_orders, same_bits

import adjoint as ad

RNG = np.random.default_rng(0)
NUMBERS = {d: RNG.integers(-(2**31), 2**31, (3, 14)).astype(d) for d in ("int64", "int32", "bool")}
COUNTS = np.array([0, 1, 5, 31, 32, 33, 63, 64, 65, 1000, -1, -31, -64, 7])
SIGNS = {"and": operator.and_, "or": operator.or_, "xor": operator.xor}
SHIFTS = {"left": operator.lshift, "right": operator.rshift}


def check(f, *args):
    """On the CPU and in the simulator, without a call of NumPy."""
    compiled = ad.jit(f)
    wanted = np.asarray(f(*args))
    same_bits(np.asarray(compiled(*args)), wanted)
    same_bits(both_orders(f, args)[0][0], wanted)
    assert "calls NumPy" not in compiled.report()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("first", NUMBERS)
@pytest.mark.parametrize("second", NUMBERS)
@pytest.mark.parametrize("sign", SIGNS)
def test_of_two(first, second, sign):
    check(SIGNS[sign], NUMBERS[first], NUMBERS[second][0])


@pytest.mark.parametrize("dtype", NUMBERS)
def test_of_one_and_of_numbers(dtype):
    x = NUMBERS[dtype]
    check(lambda x: ~x, x)
    check(lambda x: (x & True) ^ (3 | x), x)
    check(lambda x: ~(x[:, :1] & x) | ~x[0, 0], x)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", ["int64", "int32"])
@pytest.mark.parametrize("other", ["int64", "int32"])
@pytest.mark.parametrize("side", SHIFTS)
def test_shifts(dtype, other, side):
    shift = SHIFTS[side]
    check(shift, NUMBERS[dtype], COUNTS.astype(other))
    check(lambda k: shift(-5, k), COUNTS.astype(other))
    check(lambda x: shift(shift(x, 3), 40), NUMBERS[dtype])


def test_bools_are_shifted_as_in_numpy():
    x = NUMBERS["bool"]
    for f in (lambda x: x << x, lambda x: x >> x, lambda x: x << 2):
        found = ad.jit(f)(x)
        same_bits(found, f(x))


def test_objects_without_a_fingerprint():
    with pytest.raises(TypeError):
        ad.jit(lambda x: x & 1)(np.ones(3))
    with pytest.raises(TypeError):
        ad.jit(lambda x: x << 1)(np.ones(3))
    with pytest.raises(OverflowError):
        ad.jit(lambda x: x & 2**40)(np.ones(3, np.int32))
