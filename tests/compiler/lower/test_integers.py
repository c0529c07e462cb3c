"""Integers of 8 and 16 bits, and unsigned ones, are native; division of all numbers is NumPy's, to the last bit."""

import operator

import numpy as np
import pytest

import adjoint as ad

SMALL = ["int8", "int16", "uint8", "uint16", "uint32", "uint64"]
WHOLE = [*SMALL, "int32", "int64"]
ARITHMETIC = [operator.add, operator.sub, operator.mul, np.maximum, np.minimum]
BITS = [operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift]
DIVISION = [operator.mod, operator.floordiv, np.fmod]
COMPARISONS = [operator.lt, operator.le, operator.eq, operator.ne, operator.gt, operator.ge]


def numbers(dtype, n=64, seed=0):
    """Some from the whole range, with both ends; some small, and zero."""
    rng, limits = np.random.default_rng(seed), np.iinfo(dtype)
    x = rng.integers(limits.min, limits.max, n, dtype=dtype, endpoint=True)
    x[: n // 2] = rng.integers(max(limits.min, -3), 5, n // 2).astype(dtype)
    x[n // 2 : n // 2 + 3] = limits.min, limits.max, 0
    return x[rng.permutation(n)]


def check(f, *args, native=True):
    compiled = ad.jit(f)
    with np.errstate(all="ignore"):
        wanted = f(*args)
    for got, expected in zip(compiled(*args), wanted, strict=True):
        assert got.dtype == expected.dtype
        np.testing.assert_array_equal(got, expected)
        if got.dtype.kind == "f":
            known = ~np.isnan(expected)
            np.testing.assert_array_equal(np.signbit(got)[known], np.signbit(expected)[known])
    assert ("calls NumPy" not in compiled.report()) == native


@pytest.mark.parametrize("dtype", WHOLE)
def test_of_one_dtype(dtype):
    a, b = numbers(dtype), numbers(dtype, seed=1)

    def f(a, b):
        binary = [op(a, b) for op in (*ARITHMETIC, *DIVISION, *COMPARISONS)]
        bits = [op(a, b & 7) for op in BITS]
        unary = [-a, np.abs(a), ~a, a * 2 + 1, a % 3, a // 2, a > 2, np.where(a > b, a, b), a * a]
        return [*binary, *bits, *unary]

    check(f, a, b)


@pytest.mark.parametrize("dtype", WHOLE)
def test_reductions(dtype):
    a = numbers(dtype, 24).reshape(2, 3, 4)

    def f(a):
        along = [
            op(a, axis=1) for op in (np.sum, np.prod, np.max, np.min, np.argmax, np.argmin, np.any, np.all, np.count_nonzero)
        ]
        running = [op(a, axis=2) for op in (np.cumsum, np.cumprod, np.maximum.accumulate, np.minimum.accumulate)]
        return [*along, *running, np.max(a), np.argmax(a), np.sum(a)]

    check(f, a)


@pytest.mark.parametrize("dtype", SMALL)
def test_casts(dtype):
    a, x = numbers(dtype), np.array([0.0, 1.9, 100.5, 127.0, 3.0])

    def f(a, x):
        return [*(a.astype(d) for d in (*WHOLE, "float64", "float32", "bool")), x.astype(dtype), a * 0.5 + 1.0]

    check(f, a, x)


def test_of_two_dtypes():
    a, b, c, d = (numbers(dtype) for dtype in ("uint8", "int16", "uint32", "int64"))
    check(lambda a, b, c, d: [a + b, a * d, b < a, c // np.maximum(b, 1), d % (a | 1), a == d, np.where(a > 3, b, c)], a, b, c, d)
    check(lambda c, d: [c.astype(np.uint64) > d], c, d, native=False)  # no dtype has the numbers of both


def test_slices_indices_and_stacks():
    a, i = numbers("uint8"), np.array([3, 1, 60], np.int16)

    def f(a, i):
        b = np.concatenate([a[:5], a[::-2]])
        return [a[i], b, np.stack([a, a + 1]), np.roll(a, 3), np.diff(a), np.pad(a, 2), a.reshape(8, 8).T, np.sort(a)]

    check(f, a, i)


def test_loops_carry_small_integers():
    check(lambda a: [ad.fori_loop(0, 100, lambda i, c: (c << 1) ^ (c >> 3) ^ a, a)], numbers("uint16"))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_division_of_floats(dtype):
    special = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 0.1, -0.3, 1e300, 5e-324, 1 / 3, 2.0**53, 6.0, -3.0]
    with np.errstate(all="ignore"):
        a, b = (x.ravel().astype(dtype) for x in np.meshgrid(special, special))

    def f(a, b):
        return [*(op(a, b) for op in DIVISION), *np.divmod(a, b), a % 0.3, a // 0.3, 7.0 % b, a % -2]

    check(f, a, b)


def test_derivatives_of_remainders():
    a, b = np.array([5.3, -5.3, 0.7]), np.array([0.8, 0.9, -2.5])

    def f(a, b):
        return np.sum(a % b * a + np.fmod(a, b) * b + a // b * a)

    compiled = ad.jit(ad.grad(f, (0, 1)))
    for got, wanted in zip(compiled(a, b), ad.grad(f, (0, 1))(a, b), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-15)
    assert "calls NumPy" not in compiled.report()


def test_division_by_a_python_zero_raises():
    f = ad.jit(lambda n, m: n // m)
    assert f(7, 2) == 3
    with pytest.raises(ZeroDivisionError):
        f(7, 0)


def test_a_python_number_that_does_not_fit():
    f = ad.jit(lambda a, n: a + n)
    np.testing.assert_array_equal(f(np.array([1, 2], np.uint8), 3), np.array([4, 5], np.uint8))
    with pytest.raises(OverflowError):
        f(np.array([1, 2], np.uint8), 300)
