"""Integers, bools and narrow floats: dtypes and values are NumPy's."""

import itertools
import operator

import numpy as np
import pytest
from night import sampled

import adjoint as ad

I = np.array([[100, -3, 7], [5, 0, 90]])
MASK = I > 4
ALL = ("int8", "uint8", "int32", "int64", "bool")
FLOATS = ("float16", "float32", "float64")

FUNCTIONS = {
    "fabs": (np.fabs, ALL),
    "modf": (lambda x: np.modf(x)[0] + np.modf(x)[1], ALL),
    "frexp": (lambda x: np.frexp(x)[0], ALL),
    "exponent": (lambda x: np.frexp(x)[1], ALL),
    "heaviside": (lambda x: np.heaviside(x, x), ALL),
    "copysign": (lambda x: np.copysign(x, x), ALL),
    "ldexp": (lambda x: np.ldexp(x, x % 3), ("int8", "int32")),
    "square of bools": (lambda x: x**2, ("bool",)),
    "shifts": (lambda x: ((x << 1) >> 2) | (1 << (x & 3)), ("int8", "uint8", "int64")),
    "largest where": (lambda x: np.max(x, axis=0, initial=0, where=MASK), ALL),
    "least where": (lambda x: np.min(x, initial=1, where=MASK), ALL),
    "a wider value to begin with": (lambda x: np.sum(x, initial=np.float64(2.5)) * np.prod(x, initial=2.5), ALL + FLOATS),
    "no axes": (lambda x: np.prod(x, axis=()) * np.max(x, axis=()), ALL + FLOATS),
    "norm": (lambda x: np.linalg.norm(x) + np.linalg.vector_norm(x), ALL),
    "mean of numbers": (np.nanmean, ALL + FLOATS),
    "median of numbers": (lambda x: np.nanmedian(x, axis=0), ALL + FLOATS),
    "largest number": (lambda x: np.nanmax(x) - np.nanmin(x, axis=0), ("int8", "int64", *FLOATS)),
    "quantile": (lambda x: np.quantile(x, 0.3, axis=0), ("int8", "int64", *FLOATS)),
    "quantile of numbers": (lambda x: np.nanquantile(x, 0.3), ("int8", "int64", *FLOATS)),
    "running extrema": (lambda x: np.maximum.accumulate(x) - np.minimum.accumulate(x, axis=1), ("int8", *FLOATS)),
    "reduced by a ufunc of floats": (lambda x: np.hypot.reduce(x, axis=1) + np.logaddexp.accumulate(x, axis=1)[:, 1], ALL),
    "products of vectors": (lambda x: np.vdot(x, x) + np.vecdot(x, x), ALL),
    "vander": (lambda x: np.vander(x[0]), ALL + FLOATS),
    "poly": (lambda x: np.poly(x[0]), ALL + FLOATS),
    "gradient": (lambda x: np.gradient(x, axis=1), ("uint8", "int64", *FLOATS)),
    "interp": (lambda x: np.interp(x[0], [0.0, 6.0, 50.0], x[1]), ALL + FLOATS),
    "unwrap": (lambda x: np.unwrap(x), ("int8", "int64", *FLOATS)),
    "pad": (lambda x: np.pad(x, 1, "mean"), ("int8", "uint8", *FLOATS)),
    "pinv": (lambda x: np.linalg.pinv(x[:, :2], hermitian=True), ("int8", "int64", "float32")),
    "trapezoid": (np.trapezoid, ALL + FLOATS),
    "trapezoid at points": (lambda x: np.trapezoid(x, [0.0, 1.0, 3.0]), ALL),
}


@pytest.mark.parametrize(("name", "dtype"), [(name, dtype) for name, (_, dtypes) in FUNCTIONS.items() for dtype in dtypes])
def test_as_numpy(name, dtype):
    f, x = FUNCTIONS[name][0], I.astype(dtype)
    expected, found = f(x), ad.graph(f)(x).run(x)
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=16 * np.finfo(dtype).eps if dtype in FLOATS else 1e-13, atol=1e-15)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_parts_of_special_numbers(dtype):
    x = np.array([0.0, -0.0, 1.0, -1.0, 2.5, -2.5, np.inf, -np.inf, np.nan, 1e-40], dtype)

    def f(x):
        return *np.modf(x), *np.frexp(x), np.nextafter(x, np.float32(0)), np.copysign(x, -x), np.heaviside(x, x), np.ldexp(x, 3)

    for found, expected in zip(ad.jit(f)(x), f(x), strict=True):
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))


def test_powers_of_two_beyond_the_range_of_floats():
    assert ad.grad(lambda x: np.ldexp(x, 3))(1.5) == 8.0
    assert ad.jit(lambda x, n: np.ldexp(x, n))(1e-300, np.int64(1030)) == np.ldexp(1e-300, 1030)


def test_copies_of_other_dtypes():
    x = np.arange(6).reshape(2, 3)
    for dtype in ("uint8", "float16", "complex128"):
        np.testing.assert_array_equal(ad.jit(lambda x: np.repeat(x, 2, axis=0))(x.astype(dtype)), np.repeat(x, 2, axis=0))


def test_failures_that_depend_on_the_numbers():
    f = ad.jit(lambda x: np.nanargmax(x))
    assert f(np.array([1.0, np.nan, 3.0])) == 2
    with pytest.raises(ValueError, match="All-NaN slice"):
        f(np.full(3, np.nan))
    g = ad.jit(lambda x, q: np.quantile(x, q))
    assert g(np.array([1.0, 2.0]), 0.5) == 1.5
    with pytest.raises(ValueError, match="range"):
        g(np.array([1.0, 2.0]), 1.5)
    with pytest.raises(TypeError, match="real numbers"):
        ad.jit(lambda x: np.quantile(x, 0.5))(np.array([1j, 2.0]))


#: Functions of whole numbers that could wrap around, lose digits, or subtract bools on the way.
OF_WHOLE_NUMBERS = {
    "isclose": lambda x: np.isclose(x, x[::-1]),
    "isclose with a number": lambda x: np.isclose(x, 1),
    "isclose of a number": lambda x: np.isclose(2, x, rtol=0.5),
    "isclose with tolerances": lambda x: np.isclose(x, x[::-1], rtol=0, atol=2),
    "allclose": lambda x: np.allclose(x, x[::-1], atol=3),
    "array_equal": lambda x: np.array_equal(x, x[::-1]),
    "ediff1d": np.ediff1d,
    "diff": np.diff,
    "ptp": np.ptp,
    "mean": np.mean,
    "average": np.average,
    "var": np.var,
    "median": np.median,
    "percentile": lambda x: np.percentile(x, 37.0),
    "quantile": lambda x: np.quantile(x, 0.6, method="nearest"),
    "norm": np.linalg.norm,
    "cov": lambda x: np.cov(np.concatenate([x, x[:1]])),
    "gradient": lambda x: np.gradient(np.concatenate([x, x])),
    "trapezoid": np.trapezoid,
    "interp": lambda x: np.interp(x, [0, 1, 2], [5.0, 6.0, 9.0]),
    "digitize": lambda x: np.digitize(x, [0, 1, 2]),
    "searchsorted": lambda x: np.searchsorted(np.sort(x), x),
    "clip": lambda x: np.clip(x, 0, 1),
    "round": lambda x: np.round(x, -1),
    "convolve": lambda x: np.convolve(x, x),
    "dot": lambda x: x @ x,
    "outer": lambda x: np.subtract.outer(x, x),
    "cumsum": np.cumsum,
    "cumprod": np.cumprod,
    "nan_to_num": np.nan_to_num,
    "nanmean": np.nanmean,
    "nanmax": np.nanmax,
    "sort": np.sort,
    "abs": np.abs,
    "sign": np.sign,
    "angle": np.angle,
    "heaviside": lambda x: np.heaviside(x, 0.5),
    "ldexp": lambda x: np.ldexp(x, 2),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint8, np.int16, np.uint32, np.int64, np.uint64], ids=lambda t: t.__name__)
@pytest.mark.parametrize("name", OF_WHOLE_NUMBERS)
def test_extreme_whole_numbers(name, dtype):
    f, rng = OF_WHOLE_NUMBERS[name], np.random.default_rng(5)
    ends = [0, 1] if dtype is bool else [0, 1, 2, 3, 7, np.iinfo(dtype).min, np.iinfo(dtype).max, np.iinfo(dtype).max - 1]
    for count in (1, 2, 7):
        x = rng.choice(np.array(ends, dtype), count)
        with np.errstate(all="ignore"):
            try:
                expected = f(x)
            except (TypeError, ValueError) as error:
                with pytest.raises(type(error)):
                    ad.jit(f)(x)
                continue
            for found in (ad.jit(f)(x), ad.vmap(f)(x[None])[0]):
                assert np.asarray(found).dtype == np.asarray(expected).dtype
                np.testing.assert_allclose(found, expected, rtol=1e-13 if np.asarray(expected).itemsize > 4 else 1e-3)


#: Python integers that the dtype may not hold.
BEYOND = {
    "clip": lambda x: np.clip(x, -1, 2),
    "clip above": lambda x: np.clip(x, None, 2**70),
    "clip below all": lambda x: np.clip(x, None, -5),
    "clip by a method": lambda x: x.clip(-1000, 300),
    "where": lambda x: np.where(x > 1, x, -1),
    "select": lambda x: np.select([x > 1], [x], -1),
    "less": lambda x: x < -1,
    "at least": lambda x: x >= -5,
    "equal": lambda x: x == -1,
    "largest": lambda x: np.maximum(x, -1),
    "sum": lambda x: x + 300,
    "power": lambda x: x**-1,
    "insert": lambda x: np.insert(x, 0, -1),
}


@pytest.mark.parametrize("dtype", ["int8", "uint8", "uint32", "int64", "uint64"])
@pytest.mark.parametrize("name", BEYOND)
def test_python_integers_beyond_the_dtype(name, dtype):
    """NumPy's values, or its error."""
    f, x = BEYOND[name], np.array([0, 1, 2, 100], dtype)
    for run in (ad.jit(f), lambda x: ad.vmap(f)(np.stack([x, x]))[1]):
        try:
            expected = f(x)
        except (OverflowError, ValueError) as error:
            with pytest.raises(type(error)):
                run(x)
        else:
            found = run(x)
            assert found.dtype == expected.dtype
            np.testing.assert_array_equal(found, expected)


# -- Python numbers that integers cannot hold ------------------------------------------------------------------------


NUMBERS = [7, -1, 300, -1.25, 2.75, 3e9, 1e30, np.nan, [300, 1], [1.5, -1], (2, 3)]
TRANSFORMED = {
    "eager": lambda f: lambda *args: ad.value_and_grad(f)(*args)[0],
    "compiled": ad.jit,
    "compiled gradient": lambda f: lambda *args: ad.jit(ad.value_and_grad(f))(*args)[0],
}
WRITING = {
    "an index": lambda a, v: operator.setitem(a, 0, np.ravel(v)[0].item()),
    "a slice": lambda a, v: operator.setitem(a, slice(0, 2), v),
    "indices": lambda a, v: operator.setitem(a, np.array([1, 0]), v),
    "a mask": lambda a, v: operator.setitem(a, np.array([True, False, True]), v),
    "put": lambda a, v: np.put(a, [0, 1], v),
    "putmask": lambda a, v: np.putmask(a, np.array([True, True, True]), v),
    "place": lambda a, v: np.place(a, np.array([True, False, True]), v),
    "copyto": lambda a, v: np.copyto(a[:2], v),
}


def outcome(f, *args):
    with np.errstate(all="ignore"):
        try:
            return f(*args)
        except (OverflowError, ValueError, TypeError) as error:
            return type(error).__mro__[-3], str(error)


@pytest.mark.parametrize(
    ("transform", "way", "dtype"),
    sampled(itertools.product(TRANSFORMED, WRITING, [np.uint8, np.int8, np.uint32, np.int64, np.uint64]), 4),
)
def test_numbers_that_integers_cannot_hold_are_refused(transform, way, dtype):
    y = np.array([1, 2, 3], dtype)
    for v in sampled(NUMBERS, 3):

        def f(x, y, v=v):
            w = y.copy()
            WRITING[way](w, v)
            return np.sum(x * x) + np.sum(w * 2)

        found, wanted = outcome(TRANSFORMED[transform](f), np.ones(2), y), outcome(f, np.ones(2), y)
        assert found == wanted, v


def test_numbers_from_outside_that_integers_cannot_hold():
    """One program for numbers that fit; others raise."""
    numbers = {"k": 1}

    def outside(y):
        w = y.copy()
        w[1:] = numbers["k"]
        return np.sum(w)

    def argument(y, k):
        w = y.copy()
        w[1:] = k
        return np.sum(w)

    by_outside, by_argument = ad.jit(outside), ad.jit(argument)
    y = np.array([1, 2, 3], np.uint8)
    for k in (1, 2, 300, 5, -1, 255, 256, 0):
        numbers["k"] = k
        assert outcome(by_outside, y) == outcome(outside, y)
        assert outcome(by_argument, y, k) == outcome(argument, y, k)
