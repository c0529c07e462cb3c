"""Calls on traced values and compiled end as in NumPy: with the same value, shape and dtype, or an error of the same type."""

import operator
import warnings

import numpy as np
import pytest
from night import sampled

import adjoint as ad
import adjoint.numpy as anp

M = np.array([[0.5, 2.0, -1.0], [1.5, 0.0, 3.0]])
V = np.array([1.0, 3.0, 4.0])
HALF = np.arange(5, dtype=np.float16)
INF, NAN = np.inf, np.nan

CALLS = {
    "cov: one row, variables in columns": (lambda x: np.cov(x, ddof=0, rowvar=False), np.ones((1, 3))),
    "cov: one column, variables in columns": (lambda x: np.cov(x, rowvar=False), M[:, :1]),
    "cov: a vector": (lambda x: np.cov(x, rowvar=False), V),
    "cov: two samples": (lambda x: np.cov(x, 2 * x, rowvar=False), M),
    "cov: a second sample of one row": (lambda x: np.cov(x, x[:, 0], rowvar=False), M[:2]),
    "cov: too many dimensions": (lambda x: np.cov(x, x[None]), M),
    "cov: weights": (lambda x: np.cov(x, aweights=[1.0, 2.0, 3.0], fweights=[1, 0, 2]), M),
    "cov: weights in rows": (lambda x: np.cov(x, aweights=np.ones((2, 3))), M),
    "cov: counts in rows": (lambda x: np.cov(x, fweights=np.ones((2, 3), int)), M),
    "cov: weights of another length": (lambda x: np.cov(x, aweights=[1.0, 2.0]), M),
    "cov: negative weights": (lambda x: np.cov(x, aweights=[1.0, 2.0, -1.0]), M),
    "cov: broken counts": (lambda x: np.cov(x, fweights=[1.0, 2.5, 1.0]), M),
    "nanmedian: one number that is infinite": (lambda x: np.nanmedian(x, axis=0), np.array([[INF, NAN], [NAN, NAN]])),
    "nanmedian: two": (lambda x: np.nanmedian(x, axis=1, keepdims=True), np.array([[INF, 1.0, NAN], [-INF, INF, 2.0]])),
    "nanmedian: all": (np.nanmedian, np.array([[INF, 1.0, NAN], [-INF, INF, 2.0]])),
    "nanmedian: none": (lambda x: np.nanmedian(x, axis=1), np.zeros((2, 0))),
    "nanmedian: half precision": (np.nanmedian, np.array([6e3, 5e3, NAN], np.float16)),
    "quantile: infinite neighbours": (lambda x: np.quantile(x, 0.3), np.array([-INF, INF, 2.0])),
    "quantile: infinite above": (lambda x: np.quantile(x, [0.2, 0.5, 0.7]), np.array([1.0, INF])),
    "nanquantile: infinite": (lambda x: np.nanquantile(x, 0.5), np.array([INF, 1.0, NAN])),
    "quantile: infinite weights": (lambda x: np.quantile(x, 0.5, weights=x / 0.0, method="inverted_cdf"), V),
    "quantile: no weights": (lambda x: np.quantile(x, 0.5, weights=x * 0.0, method="inverted_cdf"), V),
    "percentile: half precision": (lambda x: np.percentile(x, 30), HALF),
    "percentile: half precision, narrow percentages": (lambda x: np.percentile(x, np.array([10, 20], np.int8)), HALF),
    "percentile: half precision, half percentages": (lambda x: np.percentile(x, np.array([10, 20], np.float16)), HALF),
    "nanpercentile: half precision": (lambda x: np.nanpercentile(x, np.array([10, 20], np.int8)), HALF),
    "percentile: whole numbers": (lambda x: np.percentile(np.arange(5) * (x[0] > 0), 30), V),
    **{f"convolve: mode {m}": (lambda x, m=m: np.convolve(x, x[:2], mode=m), V) for m in (0, 1, 2, 3, "same", "no")},
    **{f"correlate: mode {m}": (lambda x, m=m: np.correlate(x[:2], x, mode=m), V) for m in (0, 1, 2, "full")},
    "moveaxis: ranges": (lambda x: np.moveaxis(x, range(2), range(1, -1, -1)), M),
    "moveaxis: arrays": (lambda x: np.moveaxis(x, np.array([0]), [-1]), M),
    "moveaxis: too many": (lambda x: np.moveaxis(x, range(3), range(3)), M),
    "isclose: lists as tolerances": (lambda x: np.isclose(x, x + 1e-9, [1e-10, 1e-8, 1e-5], [0, 0, 0]), V),
    "allclose: lists as tolerances": (lambda x: np.allclose(x, x + 1e-9, [1e-5, 1e-8, 1e-5], [0, 0, 0]), V),
    **{
        f"{f.__name__}: to {np.dtype(t).name} by {c}": (lambda x, f=f, t=t, c=c: f([x, x], dtype=t, casting=c), V)
        for f in (np.concatenate, np.stack, np.hstack, np.vstack)
        for t in (np.float32, np.float64, np.complex128, int)
        for c in ("no", "safe", "same_kind", "unsafe")
    },
    "concatenate: mixed, as it is": (lambda x: np.concatenate([x, np.arange(2)], casting="no"), V),
    "concatenate: mixed, safely": (lambda x: np.concatenate([x, np.arange(2)], casting="safe"), V),
    "take_along_axis: truth values": (lambda x: np.take_along_axis(x, np.array([True, False, True]), 0), V),
    "take_along_axis: floats": (lambda x: np.take_along_axis(x, np.array([0.0]), 0), V),
    "einsum: a diagonal of two lengths": (lambda x: np.einsum("ii->i", x[None, :2]), V),
    "einsum: a trace of two lengths": (lambda x: np.einsum("ii", x[None]), V),
    "interp: at complex places": (lambda x: np.interp(x * 1j, [0.0, 1.0], [2.0, 3.0]), V),
    "interp: complex knots": (lambda x: np.interp(x, x * 1j, [2.0, 3.0, 4.0]), V),
    **{
        f"nanpercentile: {np.dtype(t).name}, no numbers in {where}, {q}": (
            lambda x, q=q: np.nanpercentile(x, q, axis=1),
            x.astype(t),
        )
        for where, x in (("the first row", np.array([[NAN, NAN], [1.0, 2.0]])), ("the last", np.array([[1.0, 2.0], [NAN, NAN]])))
        for t in (np.float16, np.float32, np.float64)
        for q in (50, [25, 75])
    },
    "quantile: negative weights": (lambda x: np.quantile(x, 0.4, weights=[-0.5, 1, 1], method="inverted_cdf"), V),
    "quantile: weights in half precision": (
        lambda x: np.quantile(x, 0.4, weights=np.ones(5, np.float16), method="inverted_cdf"),
        np.array([15, 20, 35, 40, 50], np.float16),
    ),
    "clip: one bound": (lambda x: np.clip(x, 2), V),
    "clip: an upper bound by name": (lambda x: np.clip(x, a_max=2), V),
    "clip: bounds twice": (lambda x: np.clip(x, 2, 3, max=3), V),
    "clip: bounds twice, None": (lambda x: np.clip(x, 2, 3, min=None), V),
    "clip: by keyword": (lambda x: np.clip(x, min=2), V),
    "clip: no bounds": (np.clip, V),
    **{
        f"pad: {mode} of {n} by {w}": (lambda x, mode=mode, n=n, w=w: np.pad(x, w, mode, stat_length=n), V)
        for mode in ("maximum", "mean")
        for n in (0, (0, 1), -1, 2)
        for w in (0, (0, 1), 2)
    },
    **{
        f"full_like: {value!r} as {np.dtype(t).name}": (lambda x, value=value, t=t: np.full_like(x, value, dtype=t), V)
        for value in (INF, NAN, 2.5, 1j, True, np.float32(2.7))
        for t in (np.int8, bool, np.float32, float, complex)
    },
    **{
        f"geomspace: {a} to {b}, {options}": (lambda x, a=a, b=b, o=options: np.geomspace(a * x[0], b * x[0], **o), V)
        for a, b in ((-1.0, 1.0), (-3.0, -24.0), (1.0, 1e6), (0.0, 1.0), (2.0, 2.0))
        for options in ({"num": 4}, {"num": 4, "dtype": complex}, {"num": 4, "endpoint": False}, {"dtype": "i4"}, {"num": 1})
    },
    **{
        f"{name}: {places!r}": (lambda x, f=f, places=places: f(x, places), V)
        for name, f in {
            "insert": lambda x, p: np.insert(x, p, 9.0),
            "insert two": lambda x, p: np.insert(x, p, [8.0, 9.0]),
            "partition": np.partition,
            "roll": np.roll,
            "split": lambda x, p: np.concatenate([(i + 1) * y for i, y in enumerate(np.split(x, p))]),
        }.items()
        for places in ([True, False], True, [], [1.0], np.array([1], np.uint8), np.array([True, False, False]))
        if name[:6] != "insert" or isinstance(places, np.ndarray)  # NumPy's error is another in each version
    },
    "a complex number in a real array": (lambda x: np.copyto(x, 1j), V),
    "insert: at broken places": (lambda x: np.insert(x, [1.0, 2.0], 5.0), V),
    "insert: at one broken place": (lambda x: np.insert(x, 1.0, 5.0), V),
    "insert: nowhere": (lambda x: np.insert(x, [], 5.0), V),
    "insert: nowhere, as an array": (lambda x: np.insert(x, np.array([]), 5.0), V),
    "insert: nowhere, as a traced array": (lambda x: np.insert(x, x[:0], 5.0), V),
    "insert: outside": (lambda x: np.insert(x, [1, 9], 5.0), V),
    "histogram: nan": (lambda x: np.histogram(x, range=(NAN, 1.0))[0], V),
    "histogram: infinite range": (lambda x: np.histogram(x, range=(0.0, INF))[0], V),
    "histogram: nan among the numbers": (lambda x: np.histogram(x / x)[0], np.array([0.0, 1.0])),
    "ediff1d: complex end": (lambda x: np.ediff1d(x, to_end=1j), V),
    "ediff1d: broken end of whole numbers": (lambda x: np.ediff1d(np.array([1, 2, 4]), to_begin=x[0]), V),
    "ediff1d: whole end": (lambda x: np.ediff1d(x, to_end=[7, 8]), V),
    "isposinf: complex": (lambda x: np.isposinf(x + 0j), V),
    "isneginf: complex": (lambda x: np.isneginf(x + 0j), V),
    "vecdot: one and three": (lambda x: np.vecdot(x, np.ones((2, 1))), M),
    "vecdot: along another axis": (lambda x: np.vecdot(x, np.ones((2, 1)), axis=0), M),
    "vecdot: of linalg": (lambda x: np.linalg.vecdot(x, np.ones(1)), M),
    **{f"convolve: mode {m!r}": (lambda x, m=m: np.convolve(x, x[:2], mode=m), V) for m in (1.0, None, np.int64(2))},
    **{f"take: {i!r}": (lambda x, i=i: np.take(x, i), V) for i in ([1.7, 0.2], 1.2, [], np.array([]), np.array([1.0]), 1j)},
    **{f"delete: {i!r}": (lambda x, i=i: np.delete(x, i), V) for i in (True, 1, [True, False, False], [0, 2])},
    **{f"insert: at {i!r}": (lambda x, i=i: np.insert(x, i, [3.0, 4.0]), V) for i in ([-4], [3], [4], -3)},
    **{
        f"digitize: {b}, right={r}": (lambda x, b=b, r=r: np.digitize(x, b, right=r), V)
        for b in ([4.0, 3.0, 3.0, 1.0], [1.0, 3.0, 3.0, 4.0], [3.0, 3.0], [2.0, 1.0, 3.0])
        for r in (False, True)
    },
    "digitize: complex": (lambda x: np.digitize(x + 0j, [1.0, 2.0]), V),
    "isin: a table of floats": (lambda x: np.isin(x, [1, 2], kind="table"), V),
    "isin: an unknown kind": (lambda x: np.isin(x, [1, 2], kind="tree"), V),
    "bincount: an empty array of floats": (lambda x: np.bincount(x[:0]), V),
    **{f"trim_zeros: {t!r}": (lambda x, t=t: np.trim_zeros(x, t), np.array([0.0, 2.0, 0.0])) for t in ("", "F", "front", "bf")},
    "pad: a negative length": (lambda x: np.pad(x, 1, mode="mean", stat_length=-1), V),
    "i0: complex": (lambda x: np.i0(x + 0j), V),
    "i0: half precision": (np.i0, HALF),
    **{f"maximum: as {d}": (lambda x, d=d: np.maximum(x, 2.0, dtype=d), V) for d in (np.int8, np.float32, np.complex128)},
    "maximum: as whole numbers, by force": (lambda x: np.maximum(x, 2.0, dtype=int, casting="unsafe"), V),
    "add: no loss allowed": (lambda x: np.add(x, 2.0, dtype=np.float32, casting="safe"), V),
    "full_like: a number of NumPy's": (lambda x: np.full_like(x, np.int64(1000), dtype="i1"), V),
    **{
        f"interp: {fp}": (
            lambda x, fp=fp: np.interp(x, [1.0, 2.0, 3.0, 4.0], np.array(fp)), np.array([1.0, 2.0, 2.5, 3.0, 3.5, 4.0]))
        for fp in ([1, 2, INF, 4], [1, 2 + 1j, INF, 4], [-INF, 2, 3, INF], [1, 2, 3, 4j])
    },
    "histogram: bins that meet": (lambda x: np.histogram(x)[0], np.array([1.0, np.nextafter(1.0, 2.0)])),
    **{
        f"linspace: to {end} in {n} as {d}": (
            lambda x, end=end, n=n, d=d: np.linspace(x[0], end, n, dtype=d) - np.linspace(V[0], end, n, dtype=d), V)
        for end in (-2.7, 1e20, 1.0)
        for n in (1, 2, 7, 23)
        for d in (None, int, np.float32)
        if not (d is int and end == 1e20)
    },
    "quantile: weights, a table of them": (
        lambda x: np.quantile(x, [[0.1, 0.9], [0.4, 1.0]], axis=1, weights=[1.0, 2.0, 0.5], method="inverted_cdf"), M),
    "percentile: to an array of one": (lambda x: np.percentile(x, 5, out=np.zeros_like(x[:1])), V),
    "fftshift: an axis twice": (lambda x: np.fft.fftshift(x, axes=(0, 1, 1)), M),
}  # fmt: skip

#: Functions of axes, and the collections in which axes are given: some take any, some a tuple or a list, some a tuple alone.
OVER_AXES = {
    "sum": np.sum, "max": np.max, "var": np.var, "prod": np.prod, "any": np.any, "count_nonzero": np.count_nonzero, "ptp": np.ptp,
    "nansum": np.nansum, "median": np.median, "average": lambda x, axis: np.average(x, axis=axis), "flip": np.flip,
    "nanmedian": np.nanmedian, "quantile": lambda x, axis: np.quantile(x, 0.3, axis=axis),
    "gradient": lambda x, axis: np.stack(np.gradient(x, axis=axis)), "expand_dims": np.expand_dims,
    "squeeze": lambda x, axis: np.squeeze(x[None, None], axis), "roll": lambda x, axis: np.roll(x, 1, axis),
    "fftshift": lambda x, axis: np.fft.fftshift(x, axes=axis), "fftn": lambda x, axis: np.fft.fftn(x, axes=axis),
    "norm": lambda x, axis: np.linalg.norm(x, axis=axis),
}  # fmt: skip
AXES = {"tuple": (1, 0), "list": [1, 0], "range": range(2), "array": np.array([1, 0]), "float": 1.0, "small": np.uint8(1)}
CALLS |= {
    f"{name}: axes as {kind}": (lambda x, f=f, axis=axis: f(x, axis), M)
    for name, f in OVER_AXES.items()
    for kind, axis in AXES.items()
}

#: A quotient by a number of any type has the dtype of the sum; a quantile that of the sample and of q.
CALLS |= {
    f"{f.__name__}: {np.dtype(d)}, {name}={ddof!r}, axis={axis}": (
        lambda x, f=f, name=name, ddof=ddof, axis=axis: f(x, axis=axis, **{name: ddof}),
        np.arange(6, dtype=d).reshape(2, 3),
    )
    for f in (np.var, np.std, np.nanvar, np.nanstd)
    for d in "efFd"
    for name, ddof in (
        ("ddof", 1.0),
        ("ddof", np.float64(1)),
        ("ddof", np.float32(0.5)),
        ("correction", np.float64(1)),
        ("ddof", 7.0),
    )
    for axis in (None, 1)
}
CALLS |= {
    f"{f.__name__}: {np.dtype(d)}, {q!r}, {method}": (
        lambda x, f=f, q=q, method=method: f(x, q, method=method),
        np.array([0.3, -1.7, 2.9, 1.1, 0.7], d),
    )
    for f in (np.percentile, np.nanpercentile)
    for d in "efd"
    for q in (30.0, [30, 70], np.float32(30), np.array([20.0, 55.0]))
    for method in ("midpoint", "linear", "hazen", "averaged_inverted_cdf")
}


def copied_to(x, d, casting):
    y = anp.zeros(x.shape, d)
    np.copyto(y, x, casting=casting)
    return y


#: Options of calls are followed, or refused as NumPy refuses them.
CASTS = {
    "astype": lambda x, d, casting: x.astype(d, casting=casting),
    "astype, by place": lambda x, d, casting: x.astype(d, "C", casting),
    "a ufunc with out": lambda x, d, casting: np.exp(x, out=anp.zeros(x.shape, d), casting=casting),
    "a ufunc of two dtypes": lambda x, d, casting: np.subtract(x, anp.ones(x.shape, d), casting=casting),
    "a ufunc with dtype": lambda x, d, casting: np.multiply(x, x, dtype=d, casting=casting),
    "copyto": copied_to,
}
CALLS |= {
    f"{name}: {x.dtype}, {np.dtype(d)}, casting={casting}": (lambda x, f=f, d=d, casting=casting: f(x, d, casting), x)
    for name, f in CASTS.items()
    for x in (M, M.astype("f"), M + 1j)
    for d in "fdD"
    for casting in ("no", "safe", "same_kind", "nonsense")
}
CALLS |= {
    "clip: a lower bound alone": (lambda x: x.clip(0), M),
    "clip: bounds by name": (lambda x: x.clip(0, max=1), M),
    "clip: an upper bound by name": (lambda x: x.clip(max=1), M),
    "clip: no bounds": (lambda x: x.clip(), M),
    "clip: two lower bounds": (lambda x: x.clip(0, min=1), M),
    "clip: the names of the function's bounds": (lambda x: x.clip(a_min=0), M),
    "clip: one bound of the function": (lambda x: np.clip(x, 0), M),
    "clip: a narrower dtype": (lambda x: np.clip(x, -1, 1, dtype="f"), M),
    "clip: a wider dtype": (lambda x: x.clip(-1, x[0], dtype="d"), M.astype("f")),
    "clip: where": (lambda x: np.clip(x, -1, 1, where=x > 0, out=anp.ones((2, 3))), M),
    "order: of a ufunc": (lambda x: np.add(x, 1, order="Q"), M),
    "searchsorted: another side": (lambda x: np.searchsorted(x, 1.0, "middle"), V),
    "round: a broken number of decimals": (lambda x: np.round(x, 1.5), M),
    "round: decimals that are an integer of NumPy": (lambda x: x.round(np.int8(1)), M),
    "dot: out of another dtype": (lambda x: np.dot(x, x.T, out=anp.zeros((2, 2), "f")), M),
    "del": (lambda x: x.__delitem__(0), M),
    **{
        f"trapezoid: {places!r} along {axis}": (lambda x, p=places, axis=axis: np.trapezoid(x, p, axis=axis), M)
        for places in ([0.5, 2.0], [1.0], [1.0, 3.0, 4.0], [1.0, 2.0, 3.0, 4.0], 2.0, np.array([[1.0, 4.0], [2.0, 3.0]]))
        for axis in (0, 1)
    },
    **{f"searchsorted: {i} axes": (lambda x, i=i: np.searchsorted(x[(0,) * (2 - i)], 1.0), np.sort(M)) for i in (0, 1, 2)},
    "average: weights that sum to zero": (lambda x: np.average(x, weights=x - x), V),
    "average: weights that sum to zero in a row": (lambda x: np.average(x, axis=1, weights=x * np.array([[1.0], [0.0]])), M),
    "quantile: out of range": (lambda x: np.quantile(V, x), np.array([0.5, 1.5])),
    "quantile: in range": (lambda x: np.quantile(V, x), np.array([0.5, 1.0])),
}
CALLS |= {
    f"{name}: {type(other).__name__}, {np.ndim(x)} axes": (lambda x, f=f, other=other: f(x, other), x)
    for name, f in {"==": operator.eq, "!=": operator.ne}.items()
    for other in (None, "a", b"a", {}, set(), 1, "1.0")
    for x in (M, np.array(1.0), V[:0])
}


def outcome(run):
    """The value, or the type of error by which NumPy's callers know it."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return run()
    except (TypeError, ValueError, IndexError, RuntimeError, ZeroDivisionError) as error:
        known = (IndexError, RuntimeError, ValueError, TypeError, ZeroDivisionError)
        return next(kind for kind in known if isinstance(error, kind))


@pytest.mark.parametrize(
    "name, mode", [*((name, "eager") for name in CALLS), *((name, "compiled") for name in sampled(CALLS, 3))]
)
def test_ends_as_in_numpy(name, mode):
    f, x = CALLS[name]
    expected = outcome(lambda: f(x))
    found = outcome((lambda: ad.vjp(f, x)[0]) if mode == "eager" else (lambda: ad.jit(f)(x)))
    if isinstance(expected, type):
        assert found is expected
    else:
        assert not isinstance(found, type), found
        assert np.asarray(found).dtype == np.asarray(expected).dtype
        assert np.shape(found) == np.shape(expected)
        np.testing.assert_allclose(
            found, expected, rtol={"e": 1e-3, "f": 1e-6, "F": 1e-6}.get(np.asarray(found).dtype.char, 1e-12)
        )


@pytest.mark.parametrize("places", [[True, False, True], True, (False,)])
def test_insert_refuses_a_list_of_bools(places):
    """Which could be a mask as well as the places 0 and 1."""
    with pytest.raises(ValueError, match="boolean"):
        ad.vjp(lambda x: np.insert(x, places, 9.0), V)


def test_derivatives_of_the_median_without_nan():
    x = np.array([[3.0, NAN, 1.0, 2.0], [INF, 5.0, NAN, NAN], [4.0, 1.0, 2.0, 8.0]])
    g = ad.grad(lambda x: np.sum(np.nanmedian(x, axis=1) * np.array([1.0, 10.0, 100.0])))(x)
    np.testing.assert_array_equal(g, [[0, 0, 0, 1], [5, 5, 0, 0], [50, 0, 50, 0]])
