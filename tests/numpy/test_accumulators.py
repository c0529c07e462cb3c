"""Reductions of every dtype: what they add in, and what they give, is NumPy's. Traced, differentiated and compiled."""

import warnings

import numpy as np
import pytest
from night import AT_NIGHT

import adjoint as ad
import adjoint.numpy as anp

DTYPES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
)
#: What may be asked for. Complex infinities differ by what their products with zero leave, in NumPy itself.
ASKED = (None, "bool", "uint8", "int16", "int32", "int64", "float16", "float32", "float64")
MASK = np.array([[True, True, True, True], [True, False, True, False], [True, True, False, False]])
AXES = ({}, {"axis": 0}, {"axis": -1, "keepdims": True}, {"axis": (0, 1)}, {"axis": ()})


def _with_dtypes(*options):
    return [{**o, **({} if d is None else {"dtype": d})} for o in options for d in ASKED]


_MASKED = ({"where": MASK}, {"axis": 1, "where": MASK})
_FREEDOM = [{"axis": 0, **o} for o in ({"correction": 2.0}, {"correction": 1}, {"ddof": 1.5}, {"ddof": 9})]
_BEGUN = [{**axes, "initial": 3, **o} for axes in AXES for o in ({}, {"dtype": "uint8"}, {"where": MASK})]
OPTIONS = {
    **{name: [*_with_dtypes(*AXES, *_MASKED), *_BEGUN] for name in ("sum", "prod", "nansum", "nanprod")},
    **{name: _with_dtypes(*AXES, *_MASKED) for name in ("mean", "nanmean")},
    **{name: [*_with_dtypes(*AXES, *_MASKED), *_FREEDOM] for name in ("var", "std", "nanvar", "nanstd")},
    **{name: _with_dtypes({}, {"axis": 0}) for name in ("cumsum", "cumprod", "nancumsum", "nancumprod")},
    **{
        name: _with_dtypes(*[{"axis": 0, "include_initial": i} for i in (0, 1)]) for name in ("cumulative_sum", "cumulative_prod")
    },
    **{name: list(AXES[:3]) for name in ("max", "min", "ptp", "median", "nanmax", "nanmin", "all", "any", "count_nonzero")},
    "average": [*AXES[:3], {"weights": MASK}, {"weights": np.arange(1, 5), "axis": 1}, {"weights": MASK * np.float32(0.5)}],
    "trace": _with_dtypes({}, {"offset": 1}),
    "round": [{"decimals": d} for d in (0, 1, 3, -1, -2)],
}


def _sample(dtype, large):
    """Numbers of a dtype, or such that their sum is beyond it."""
    rng, dtype = np.random.default_rng(7), np.dtype(dtype)
    if dtype.kind == "b":
        return rng.integers(0, 2, (3, 4)).astype(bool)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        low, high = (limits.max // 2, limits.max) if large else (max(limits.min, -9), 9)
        x = rng.integers(low, high, (3, 4), dtype=dtype)
        return np.where(x == 0, 1, x)  # a product that overflows before it comes to a zero is nan
    x = rng.uniform(-2, 2, (3, 4)) + (1j * rng.uniform(-2, 2, (3, 4)) if dtype.kind == "c" else 0)
    return (x * (float(np.finfo(dtype).max) / 5 if large and dtype.kind == "f" else 1)).astype(dtype)


def _possible(name, x):
    """The options that NumPy takes, with its results."""
    found = []
    for options in OPTIONS[name]:
        try:
            found.append((options, getattr(np, name)(x, **options)))
        except (TypeError, ValueError):
            continue
    return found


def _check(found, expected, options, dtype):
    found, expected = np.asarray(found), np.asarray(expected)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape), options
    if expected.dtype.kind in "fc":
        eps = max(np.finfo(d).eps for d in (expected.dtype, dtype, options.get("dtype") or "f8") if np.dtype(d).kind in "fc")
        np.testing.assert_allclose(found, expected, rtol=32 * eps, atol=32 * eps, err_msg=str(options))
    else:
        np.testing.assert_array_equal(found, expected, err_msg=str(options))


def _sizes(i):
    """Small and large arrays; by day one of them, alternately."""
    return (False, True) if AT_NIGHT else (i % 2 == 0,)


@pytest.mark.parametrize("name", OPTIONS)
def test_as_numpy(name):
    function = getattr(np, name)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for i, dtype in enumerate(DTYPES, len(name)):
            for large in _sizes(i):
                x = _sample(dtype, large)
                cases = _possible(name, x)
                every = lambda x, cases=cases: [*(function(x, **options) for options, _ in cases), x, x]
                runs = [ad.graph(every)(x).run(x)]
                if x.dtype.kind in "fc":
                    runs.append(ad.jvp(every, (x,), (x,))[0])
                for results in runs:
                    for y, (options, expected) in zip(results[:-2], cases, strict=True):
                        _check(y, expected, options, dtype)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "uint64", "float16", "float32"])
def test_compiled(dtype):
    """A few options of each, in one program."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for large in _sizes(len(dtype)):
            x = _sample(dtype, large)
            cases = [(name, *case) for name in OPTIONS for case in _possible(name, x)[:: 1 + len(OPTIONS[name]) // 9]]
            f = ad.jit(lambda x, cases=cases: [getattr(np, name)(x, **options) for name, options, _ in cases])
            for y, (name, options, expected) in zip(f(x), cases, strict=True):
                _check(y, expected, {**options, "name": name}, dtype)
            assert not f.eager


def test_the_mean_of_times_in_nanoseconds():
    now = np.int64(1_700_000_000_000_000_000) + np.arange(20)
    for f in (np.mean, np.average, np.nanmean, np.median, np.std):
        np.testing.assert_allclose(ad.jit(f)(now), f(now))


def test_the_mean_of_many_half_floats():
    x = np.full(50_000, 3.0, np.float16)
    for mean in (np.mean(x), ad.jit(np.mean)(x), ad.jvp(np.mean, (x,), (x,))[0], *ad.jvp(np.mean, (x,), (x,))):
        assert (mean, mean.dtype) == (3.0, np.float16)
    np.testing.assert_array_equal(ad.grad(np.mean)(x), np.full(50_000, 1 / 50_000, np.float16))


def test_methods_and_ufuncs_take_the_same_dtypes():
    x = np.arange(100, dtype=np.uint8)
    for f in (
        lambda x: x.sum(dtype=np.uint8),
        lambda x: np.add.reduce(x, dtype=np.uint8),
        lambda x: np.multiply.reduce(x + 1, dtype=np.int16),
        lambda x: np.add.accumulate(x, dtype=np.int8),
        lambda x: x.cumsum(dtype=np.int16),
        lambda x: x.mean(dtype=int),
        lambda x: x.round(-1),
    ):
        found, expected = ad.jit(f)(x), f(x)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


def test_rounding_keeps_every_digit():
    assert ad.jit(np.round)(np.int64(2**53 + 1)) == 2**53 + 1


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, complex])
@pytest.mark.parametrize("decimals", [-1, 0, 1, 3])
def test_booleans_are_rounded_in_the_dtype_of_out(decimals, dtype):
    def f(x):
        out = anp.zeros(3, dtype)
        np.round(x, decimals, out=out)
        return out

    x = np.array([True, False, True])
    found, expected = ad.jit(f)(x), f(x)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


def test_weights_that_sum_to_zero():
    f = ad.jit(lambda x, w: np.average(x, weights=w))
    assert f(np.array([1.0, 3.0]), np.array([1.0, 1.0])) == 2.0
    with pytest.raises(ZeroDivisionError, match="Weights sum to zero"):
        f(np.array([1.0, 3.0]), np.array([1.0, -1.0]))


def test_std_in_whole_numbers_is_numpys():
    x = np.arange(8).reshape(2, 4)
    assert ad.jit(lambda x: np.std(x, dtype=int))(x) == np.std(x, dtype=int)
    with pytest.raises(TypeError, match="cannot be stored"):
        ad.graph(lambda x: np.std(x, axis=0, dtype=int))(x)
