"""Calls of NumPy's reductions, scans, statistics, calculus, products and polynomials."""

import numpy as np
from surface.calls import Data, F, O, X, call, entry

MASK = np.array([[True, False, True], [True, True, False]])
NAN = np.array([[1.5, np.nan, -0.5], [0.7, 2.0, np.nan]])
GAPS = X(NAN)


NUMBERS = "the length or the dtype of the result depends on the numbers: refused"
PAIRS = "whether complex zeros come in pairs depends on the numbers: refused"


def reduction(f=F, dtype=True, initial=None, where=True, fill=None, empty=True):
    """The forms of a reduction: all axes, one, from the end, several, none; and the options that NumPy documents."""
    calls = [
        call(f()), call(f(3)), call(f(1)), call(f(2, 3)), call(f(2, 3), 0), call(f(2, 3), -1), call(f(2, 3), axis=1),
        call(f(2, 3), axis=(0, 1)), call(f(2, 2, 3), axis=(0, -1), keepdims=True), call(f(2, 3), axis=None, keepdims=True),
        call(f(2, 3), axis=0, out=O(3)), call(f(2, 3), keepdims=True, axis=-2), call([f(), f(), f()]).but(protocol=LIST),
        call(f(2, 3), axis=()),
    ]  # fmt: skip
    if dtype:
        calls.append(call(f(2, 3), axis=0, dtype=np.float64))
    if initial is not None:
        calls += [call(f(2, 3), axis=1, initial=initial), call(f(3), initial=initial, keepdims=True)]
    if where:
        first = {} if fill is None else {"initial": fill}
        calls += [call(f(2, 3), axis=1, where=MASK, **first), call(f(2, 3), where=MASK[0], keepdims=True, **first)]
    if empty:
        calls += [call(f(0)), call(f(0, 3), axis=0), call(f(0, 3), axis=1)]
    return calls


LIST = "NumPy's protocol does not look into lists"


def spread(ddof=True, given=True):
    """What var and std have beyond a reduction."""
    return [
        call(F(3), ddof=1), call(F(2, 3), 1, None, None, 1), call(F(2, 3), axis=0, correction=1),
        call(F(2, 3), axis=(0, 1), ddof=1, keepdims=True), call(F(2, 3), axis=1, mean=F(2, 1)),
        call(F(2, 3), axis=1, ddof=1, where=MASK),
    ]  # fmt: skip


def with_gaps(*calls):
    """The same calls on an array with nan, and a few of its own."""
    return [call(GAPS), call(GAPS, 0), call(GAPS, axis=-1, keepdims=True), call(GAPS, axis=(0, 1)), *calls]


def order(q, gaps=False):
    """Quantiles: of all methods, of several q at once, weighted."""
    percent = q
    some = np.array([0.25, 0.6]) * percent
    methods = [
        "inverted_cdf", "averaged_inverted_cdf", "closest_observation", "interpolated_inverted_cdf", "hazen", "weibull", "linear",
        "median_unbiased", "normal_unbiased", "lower", "higher", "midpoint", "nearest",
    ]  # fmt: skip
    a = GAPS if gaps else F(2, 3)
    return [
        call(F(5), 0.3 * percent), call(F(1), 0.3 * percent), call(F(2, 3), 0.3 * percent, 0), call(F(2, 3), some, axis=-1),
        call(F(2, 3), some, axis=(0, 1), keepdims=True), call(F(2, 3), 0.3 * percent, axis=1, out=O(2)), call(F(), 0.5 * percent),
        call(F(5), np.array([[0.1, 0.3], [0.5, 0.9]]) * percent), call(a, 0.4 * percent, 1, keepdims=True),
        call(F(5), F(low=0.3 * percent, high=0.35 * percent, real=True)), call(F(5), 0.0), call(F(5), 1.0 * percent),
        call(F(5), 0.3 * percent, weights=np.array([1.0, 2, 0.5, 1, 3]), method="inverted_cdf"),
        call(F(3), 0.5 * percent, overwrite_input=False),
        *(call(F(5), 0.37 * percent, method=method) for method in methods),
    ]  # fmt: skip


SCAN = [
    call(F()), call(F(3)), call(F(1)), call(F(2, 3)), call(F(2, 3), 0), call(F(2, 3), axis=-1), call(F(2, 3), axis=None),
    call(F(2, 3), axis=1, out=O(2, 3)), call(F(2, 3), 1, np.float64), call(F(0)), call(F(0, 3), axis=1),
    call(X([[0.0, 2, 0]]), 1),
]  # fmt: skip
CUMULATIVE = [
    call(F(3)), call(F(1)), call(F(2, 3), axis=0), call(F(2, 3), axis=-1, include_initial=True), call(F(0)),
    call(F(2, 3), axis=1, dtype=np.float64), call(F(2, 3), axis=1, out=O(2, 3)),
]  # fmt: skip

REDUCTIONS = {
    "sum": reduction(initial=1.5),
    "prod": [*reduction(initial=1.5), call(X([0.0, 2.0, 3.0])), call(X([0.0, 2.0, 0.0])), call(X([[0.0, 0.0, 0.0]]), 1)],
    "mean": [*reduction(empty=False), call(F(0, 3), axis=1)],
    "var": [*reduction(empty=False), *spread()],
    "std": [*reduction(lambda *s: F(*s), empty=False)[3:7], *reduction(empty=False)[7:10], *spread(), call(F(3)),
            call(F(2, 3), axis=0, out=O(3)), call(F(2, 3), axis=0, dtype=float)],
    "max": reduction(dtype=False, initial=0.5, fill=-3.0, empty=False),
    "min": reduction(dtype=False, initial=0.5, fill=3.0, empty=False),
    "ptp": reduction(dtype=False, where=False, empty=False),
    "median": [*reduction(dtype=False, where=False, empty=False), call(F(4)), call(F(4), overwrite_input=False)],
    "cumsum": entry(*SCAN),
    "cumprod": entry(*SCAN),
    "cumulative_sum": entry(*CUMULATIVE),
    "cumulative_prod": entry(*CUMULATIVE),
    "quantile": order(1.0),
    "percentile": order(100.0),
    "nansum": [*reduction(initial=1.5), *with_gaps()],
    "nanprod": [*reduction(initial=1.5), *with_gaps()],
    "nanmean": [*reduction(empty=False), *with_gaps()],
    "nanvar": [*reduction(empty=False)[1:], *spread(), *with_gaps(call(GAPS, 1, ddof=1))],
    "nanstd": [*reduction(empty=False)[3:10], *spread(), *with_gaps(call(GAPS, 1, None, O(2)), call(GAPS, 1, np.float64))],
    "nanmax": [*reduction(dtype=False, initial=0.5, fill=-3.0, empty=False), *with_gaps()],
    "nanmin": [*reduction(dtype=False, initial=0.5, fill=3.0, empty=False), *with_gaps()],
    "nanmedian": [*reduction(dtype=False, where=False, empty=False), *with_gaps(call(GAPS, overwrite_input=False))],
    "nancumsum": [*SCAN, call(GAPS), call(GAPS, 0)],
    "nancumprod": [*SCAN, call(GAPS), call(GAPS, 1)],
    "nanquantile": order(1.0, gaps=True),
    "nanpercentile": order(100.0, gaps=True),
    "average": entry(
        call(F(3)), call(F(2, 3)), call(F(2, 3), 0), call(F(2, 3), -1, F(3, low=0.5)), call(F(2, 3), weights=F(2, 3, low=0.5)),
        call(F(2, 3), axis=1, weights=F(2, 3, low=0.5), keepdims=True), call(F(2, 3), axis=0, returned=True),
        call(F(2, 3), axis=1, weights=F(3, low=0.5), returned=True), call(F(2, 2, 3), axis=(0, 2), weights=F(2, 3, low=0.5)),
        call(F(1)), call(F(2, 3), axis=(0, 1), keepdims=True),
    ),
    "cov": entry(
        call(F(3)), call(F(2, 3)), call(F(3), F(3)), call(F(2, 3), F(1, 3)), call(F(3, 2), rowvar=False),
        call(F(2, 3), bias=True),
        call(F(2, 3), ddof=0), call(F(2, 3), None, True, False, 2), call(F(2, 3), fweights=np.array([1, 2, 1])),
        call(F(2, 3), aweights=F(3, low=0.5, real=True)), call(F(2, 3), dtype=np.float64),
        call(F(2, 3), fweights=np.array([1, 2, 1]), aweights=np.array([0.5, 1.0, 2.0]), ddof=1),
    ),
    "corrcoef": entry(
        call(F(2, 3)), call(F(3), F(3)), call(F(4, 2), rowvar=False), call(F(2, 4), F(1, 4)), call(F(2, 4), dtype=np.float64),
    ),
}  # fmt: skip

# -- calculus -----------------------------------------------------------------------------------------------------

GRID = np.array([0.0, 0.5, 1.5, 2.0])
CALCULUS = {
    "diff": entry(
        call(F(4)), call(F(1)), call(F(2, 3)), call(F(2, 3), 1, 0), call(F(4), 2), call(F(2, 4), n=2, axis=-1), call(F(4), n=0),
        call(F(3), prepend=0.0), call(F(2, 3), axis=0, prepend=F(1, 3), append=F(2, 3)), call(F(3), append=F()), call(F(0)),
    ),
    "ediff1d": entry(call(F(4)), call(F(2, 3)), call(F(3), F(2)), call(F(3), to_begin=F(), to_end=F(2)), call(F(1)), call(F(0))),
    "gradient": entry(
        call(F(4)), call(F(3, 4)), call(F(4), 0.5), call(F(4), GRID), call(F(3, 4), 0.5, 2.0), call(F(3, 4), axis=0),
        call(F(3, 4), axis=-1), call(F(3, 4), axis=(0, 1)), call(F(4), edge_order=2), call(F(3, 4), 2.0, GRID, edge_order=2),
        call(F(4), F(low=0.5, high=2, real=True)), call(F(4), F(4, low=0.5, high=2, real=True, through=lambda x: np.cumsum(x))),
        call(F(3, 4), GRID, axis=1), call(F(2)),
    ),
    "trapezoid": entry(
        call(F(4)), call(F(1)), call(F(2, 3)), call(F(4), GRID), call(F(2, 4), F(4, real=True)), call(F(3), dx=0.5),
        call(F(3), dx=F(low=0.2, real=True)), call(F(2, 3), axis=0), call(F(2, 3), F(2, 3), axis=-1), call(F(2, 3), None, 0.5, 0),
        call(F(0)),
    ),
    "convolve": entry(call(F(4), F(3)), call(F(3), F(4)), call(F(4), F(2), "same"), call(F(4), F(2), mode="valid"),
        call(F(1), F(3)),
                      call(F(), F(3))),
    "correlate": entry(call(F(4), F(3)), call(F(3), F(4)), call(F(4), F(2), "same"), call(F(4), F(2), mode="full"),
                       call(F(1), F(3), mode="full"), call(F(3), F(3))),
    "interp": entry(
        call(F(3, low=0.1, high=1.9, real=True), GRID, F(4)), call(F(low=0.1, high=1.9, real=True), GRID, F(4)),
        call(F(2, 2, real=True), GRID, F(4), left=F(), right=F()), call(F(3, real=True), GRID, F(4), 0.5, -0.5),
        call(F(3, low=-5, high=5, real=True), GRID, F(4), period=3.0), call(F(3, low=0.6, high=1.4, real=True), X(GRID), F(4)),
        call(F(0, real=True), GRID, F(4)),
    ),
    "cross": entry(
        call(F(3), F(3)), call(F(2, 3), F(3)), call(F(3, 2), F(3, 2), 0, 0), call(F(3, 2), F(2, 3), axisa=0, axisb=1, axisc=0),
        call(F(3, 2), F(3, 2), axis=0), call(F(2, 3), F(2, 3), axis=-1), call(F(1, 3), F(2, 3)), call(F(0, 3), F(3)),
        call(F(2, 3), F(2, 3), -1, -1, -1),
    ),
    "linspace": entry(
        call(F(), F(), 4), call(F(3), F(3), num=3), call(F(2), 1.0, 3, axis=-1), call(0.0, F(), 3, endpoint=False),
        call(F(), F(), 3, retstep=True), call(F(), F(), 1), call(F(), F(), 0), call(F(), F(), 3, dtype=np.float64),
        call(F(2, 2), F(2), 3, axis=1),
    ),
    "logspace": entry(
        call(F(), F(), 4), call(F(3), F(3), num=3), call(F(2), 1.0, 3, axis=-1), call(0.0, F(), 3, endpoint=False),
        call(F(), F(), 3, base=2.0), call(F(), 1.0, 3, base=F(low=1.5)), call(F(), F(), 3, dtype=np.float64),
        call(F(2, 2), F(2), 3, axis=1),
    ),
    "geomspace": entry(
        call(F(low=0.5), F(low=0.5), 4), call(F(3, low=0.5), F(3, low=0.5), num=3), call(F(2, low=0.5), 1.0, 3, axis=-1),
        call(1.0, F(low=0.5), 3, endpoint=False), call(F(low=-2, high=-1), F(low=-2, high=-1), 3),
        call(F(low=0.5), F(low=0.5), 3, dtype=np.float64), call(F(2, 2, low=0.5), F(2, low=0.5), 3, axis=1),
    ),
    "apply_along_axis": entry(
        call(lambda v: (v * v).sum(), 0, F(2, 3)), call(lambda v: v * v[0], -1, F(2, 3)), call(lambda v: v.sum(), 0, F(3)),
        call(lambda v: np.outer(v, v), 1, F(2, 2)), call(lambda v, k: v * k, 1, F(2, 3), 3.0),
        call(lambda v, k: v * k, axis=0, arr=F(2, 3), k=3.0),
    ),
    "apply_over_axes": entry(
        call(np.sum, F(2, 3), 0), call(np.sum, F(2, 3), [0, 1]), call(np.sum, F(2, 2, 3), axes=(0, -1)), call(np.prod, F(3), 0),
    ),
    "unwrap": entry(
        call(F(4, low=-9, high=9)), call(F(2, 3, low=-9, high=9)), call(F(3, 2, low=-9, high=9), axis=0), call(F(1)),
        call(F(4, low=-9, high=9), 4.0), call(F(4, low=-9, high=9), period=3.0), call(F(3, low=-9, high=9), None, -1),
        call(F(4, low=-9, high=9), discont=3.5),
    ),
    "i0": entry(call(F()), call(F(3)), call(F(2, 3)), call(F(1)), call(X([0.0, 9.0]))),
    "sinc": entry(call(F()), call(F(3)), call(F(2, 3)), call(F(0, 2)), call(X([0.0, 1.0, 1e-9]))),
    "kaiser": entry(call(4, F(low=0.5)), call(1, F(low=0.5)), call(0, F(low=0.5)), call(3, beta=F(low=0.5)),
                    protocol="np.kaiser converts its arguments to plain numbers itself", complex="beta is a real number"),
    "angle": entry(call(F(3)), call(F(2, 3)), call(F(3), True), call(F(3), deg=True), call(F()), call(X([1 + 1j, -1 + 0.5j]))),
    "real": entry(call(F(3)), call(F(2, 3)), call(F()), call(X([1 + 1j, -1 + 0.5j])), call(F(0))),
    "imag": entry(call(F(3)), call(F(2, 3)), call(F()), call(X([1 + 1j, -1 + 0.5j])), call(F(0))),
    "nan_to_num": entry(
        call(F(3)), call(F()), call(GAPS), call(GAPS, nan=1.0), call(X([np.inf, 1.0, -np.inf]), True, 0.0, 2.0, -2.0),
        call(X([np.inf, 1.0, -np.inf]), posinf=1.0, neginf=0.0), call(F(0)), call(GAPS, copy=True),
    ),
    "real_if_close": entry(call(F(3)), call(F(2, 3)), call(F()), call(X([1 + 1j, 2.0])), call(F(2, through=lambda x: x + 1e-18j)),
                           call(X([1 + 1e-3j, 2.0]), tol=0.1), vmap=NUMBERS, staged=NUMBERS),
    "clip": entry(
        call(F(3), -1.0, 1.0), call(F(2, 3), -0.5, None), call(F(2, 3), None, 0.5), call(F(3), F(3, low=-1, high=0), F(3, low=0)),
        call(F(3), min=-1.0), call(F(3), max=F()), call(F(3), a_min=-1.0, a_max=1.0, out=O(3)), call(F(), -1.0, 1.0),
        call(F(0), -1.0, 1.0), call(F(2, 1), F(3, high=0), 1.0),
    ),
    "piecewise": entry(
        call(F(4), [np.array([1, 0, 1, 0], bool)], [lambda x: x * x, lambda x: -x]),
        call(F(2, 3), [MASK, ~MASK], [np.sin, np.cos]), call(F(), [True], [np.sin]), call(F(3), [MASK[0]], [2.0]),
        call(F(3), [MASK[0]], [lambda x, k: k * x, 1.0], 3.0), call(F(3), [MASK[0]], [lambda x, k: k * x, 1.0], k=3.0),
    ),
    "histogram": entry(
        call(X([0.2, 1.5, 2.7]), 3, (0.0, 3.0), weights=F(3)), call(X([0.2, 1.5, 2.7]), weights=F(3), bins=2),
        call(np.array([0.2, 1.5]), np.array([0.0, 1.0, 2.0]), weights=F(2), density=True), call(F(2, 2), bins=3, weights=F(2, 2)),
        vmap=NUMBERS, staged=NUMBERS, compiled=NUMBERS,
    ),
    "histogram_bin_edges": entry(call(F(4), 3), call(F(2, 3), bins=2), call(F(4), 3, (0.0, F(low=1))),
                                 call(F(4), bins=X([0.0, 1, 2])), call(F(4), weights=np.ones(4), bins=2)),
    "bincount": entry(  # its length depends on the numbers, and these are plain here
        call(np.array([0, 2, 1, 2]), F(4)), call(np.array([0, 1]), weights=F(2), minlength=4), call(np.array([0]), F(1)),
        call(np.array([[0, 1], [1, 1]]).ravel(), F(2, 2, through=np.ravel)),
    ),
}  # fmt: skip

# -- products -----------------------------------------------------------------------------------------------------

PRODUCTS = {
    "dot": entry(
        call(F(3), F(3)), call(F(), F(3)), call(F(2, 3), F(3)), call(F(2, 3), F(3, 2)), call(F(2, 3), F(2, 3, 2)), call(F(), F()),
        call(F(2, 3), F(3, 2), out=O(2, 2)).but(single="the check is in double precision, and `out` has to have the dtype"),
        call(F(0), F(0)), call(F(2, 2, 3), F(3)), call(2.0, F(2, 2)),
    ),
    "inner": entry(call(F(3), F(3)), call(F(), F(3)), call(F(2, 3), F(3)), call(F(2, 3), F(4, 3)), call(F(2, 1, 3), F(2, 3))),
    "outer": entry(call(F(3), F(2)), call(F(), F(2)), call(F(2, 2), F(3)), call(F(3), F(2), out=O(3, 2)), call(F(0), F(2))),
    "vdot": entry(call(F(3), F(3)), call(F(2, 3), F(2, 3)), call(F(2, 3), F(3, 2)), call(F(), F()), call(F(0), F(0))),
    "kron": entry(call(F(2), F(3)), call(F(2, 2), F(2, 3)), call(F(2), F(2, 2)), call(F(), F(3)), call(F(2, 1, 2), F(2, 2)),
                  call(F(0), F(2))),
    "tensordot": entry(
        call(F(2, 3), F(2, 3)), call(F(3), F(3), 1), call(F(2, 3), F(3, 2), axes=1), call(F(3), F(2), 0),
        call(F(2, 3), F(3, 2), axes=([0, 1], [1, 0])), call(F(2, 3), F(2, 4), (0, 0)), call(F(2, 3), F(4, 3), axes=(-1, -1)),
        call(F(2, 3, 2), F(3, 2), axes=((1, 2), (0, 1))), call(F(0, 2), F(2, 3), 1),
    ),
    "einsum": entry(
        call("ij,jk->ik", F(2, 3), F(3, 2)), call("ij,jk", F(2, 3), F(3, 2)), call("ii->i", F(3, 3)), call("ii", F(3, 3)),
        call("ij->ji", F(2, 3)), call("ij->", F(2, 3)), call("i,j->ij", F(2), F(3)), call("...j,j->...", F(2, 2, 3), F(3)),
        call("...,...", F(2, 3), F(3)), call("ij,jk,kl->il", F(2, 2), F(2, 2), F(2, 2), optimize=True), call(",i->i", F(), F(3)),
        call(F(2, 3), [0, 1], F(3, 2), [1, 2], [0, 2]), call(F(2, 3), [0, 1], F(3), [1]),
        call("bij,bjk->bik", F(2, 2, 3), F(2, 3, 1)),
        call("ij,ij->i", F(2, 3), F(2, 3), out=O(2)), call("i->i", F(0)), call("ij,j->i", F(2, 3), F(1)),
        call("ij,kj->ik", F(2, 3), F(2, 3), dtype=np.float64), call(F(2, 2, 3), [..., 0], [0, ...]),
        call("i,i,i", F(3), F(3), F(3)),
    ),
}  # fmt: skip

# -- polynomials --------------------------------------------------------------------------------------------------

POLYNOMIALS = {
    "poly": entry(call(F(3)), call(F(1)), call(F(2, 2)).but(staged=PAIRS), call(F(3, 3)).but(staged=PAIRS)),
    "polyadd": entry(call(F(3), F(3)), call(F(3), F(2)), call(F(1), F(4)), call(F(), F(2))),
    "polysub": entry(call(F(3), F(3)), call(F(3), F(2)), call(F(1), F(4)), call(F(), F(2))),
    "polymul": entry(call(F(3), F(3)), call(F(3), F(2)), call(F(1), F(4)), call(F(), F(2))),
    "polyder": entry(call(F(4)), call(F(1)), call(F(4), 2), call(F(4), m=0), call(F(3), m=3)),
    "polyint": entry(call(F(3)), call(F(1)), call(F(3), 2), call(F(3), 2, F(2)), call(F(3), k=F()), call(F(3), m=0),
        call(F(3), 2, F())),
    "polyval": entry(call(F(3), F()), call(F(3), F(2)), call(F(3), F(2, 2)), call(F(1), F(3)), call([F(), F()], F(2)),
                     call(F(0), F(2))),
    "polydiv": entry(call(F(4), F(2, low=1)).but(take=lambda y: y[0]), call(F(3), F(3, low=1)), call(F(2), F(3, low=1)),
                     call(F(3), F(1, low=1)), vmap=NUMBERS, staged=NUMBERS),
    "roots": entry(call(X([1.0, -3.0, 2.0])), call(X([2.0, 1.0])), call(X([1.0, 0.2, 2.0])).but(take=lambda r: (r**3).sum()),
                   call(X([1.0, -6.0, 11.0, -6.0])), vmap=NUMBERS, staged=NUMBERS),
    "polyfit": entry(
        call(F(5, through=np.cumsum, low=0.3), F(5), 2), call(F(4, through=np.cumsum, low=0.3), F(4, 2), 1),
        call(F(4, through=np.cumsum, low=0.3), F(4), 0), call(GRID, F(4), deg=1, w=F(4, low=0.5)), call(GRID, F(4), 1, cov=True),
        call(GRID, F(4), 1, cov="unscaled"), call(GRID, F(4), 1, 1e-12), call(GRID, F(4, 2), 1, cov=True),
    ),
    "vander": entry(call(F(3)), call(F(3), 2), call(F(3), N=4, increasing=True), call(F(1)), call(F(3), 0), call(F(0), 2)),
}  # fmt: skip

CASES = REDUCTIONS | CALCULUS | PRODUCTS | POLYNOMIALS
CASES |= {"amax": CASES["max"], "amin": CASES["min"]}
_ = Data
