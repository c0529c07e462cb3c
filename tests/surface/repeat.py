"""Repeat the calls that NumPy's and SciPy's own tests make: on traced values, compiled, and differentiated.

    python -m surface.repeat numpy.linalg            one suite; all of SUITES without a name
    python -m surface.repeat --seconds 600 --each 12 numpy.lib scipy.special

scipy.fft has no module of ours: SciPy's own functions take traced values once its Array API is switched on, and are repeated so.

The wheels of NumPy and SciPy carry their tests. A suite is run with every public function that this library knows replaced by one
that notes its arguments when a test calls it. Then each call is repeated:

eager          its float arrays traced by `ad.vjp` (where it has none, its first array as floats); value, shape and dtype must be
               NumPy's, or an error where NumPy raises one
compiled       the same through `ad.jit`
derivative     near the point of the call, `ad.jvp` against differences, and `ad.vjp` against `ad.jvp`

A call that the library refuses by one of its own errors is counted, not reported. Differences that have a reason stand in
repeat_allowed.toml; any other makes the run fail.
"""

from __future__ import annotations

import argparse
import copy
import importlib
import importlib.util
import itertools
import os
import pathlib
import subprocess
import sys
import time
import tomllib
import warnings
from collections import Counter, defaultdict
from typing import Any, NamedTuple

import numpy as np
import scipy

import adjoint as ad
from adjoint.core.bind import unwrap_fresh
from adjoint.core.tree import flatten, map_leaves
from adjoint.numpy.table import FUNCTIONS, REFUSED, UFUNCS, load_all

#: For each suite, the files of tests.
SUITES = {
    "numpy.lib": "function_base nanfunctions histograms arraypad shape_base twodim_base arraysetops index_tricks polynomial "
    "type_check ufunclike stride_tricks",
    "numpy._core": "numeric function_base shape_base einsum item_selection umath_complex",
    "numpy.linalg": "linalg regression",
    "numpy.fft": "pocketfft helper",
    "scipy.special": "basic logsumexp gammainc erfinv ndtr digamma loggamma logit lambertw spherical_bessel sici hypergeometric "
    "boxcox trig gamma kolmogorov log1mexp orthogonal_eval",
    "scipy.linalg": "basic decomp decomp_cholesky decomp_lu decomp_polar matfuncs special_matrices solvers solve_toeplitz "
    "matmul_toeplitz",
    "scipy.stats": "distributions multivariate continuous_basic discrete_basic",
    "scipy.fft": "basic helper real_transforms",
}
#: What must stand in the environment before SciPy is imported.
ENVIRONMENT = {"scipy.fft": {"SCIPY_ARRAY_API": "1"}}
#: Tests that measure memory, start threads or programs, or take long.
LEFT_OUT = (
    "not thread and not multiprocess and not huge and not memory and not leak and not subprocess and not slow and not large"
)
LEFT_OUT += " and not fit"
ALLOWED = pathlib.Path(__file__).with_name("repeat_allowed.toml")
MOST_ELEMENTS = 400  # of an argument: the tests of large arrays are about memory
MOST_RESULTS = 10**6  # elements of a result, which may be a view of a few
MODES = ("eager", "compiled", "derivative")
#: What the comparison is not about: text, memory, and numbers that say something of dtypes.
NOT_COMPARED = {
    *("array2string", "array_repr", "array_str", "shares_memory", "may_share_memory", "result_type", "can_cast", "copyto"),
    *("common_type", "min_scalar_type", "einsum_path", "empty_like", "empty", "require", "put", "place", "putmask"),
    *("fill_diagonal", "put_along_axis", "save", "frompyfunc", "vectorize", "asarray_chkfinite", "asmatrix"),
}


class Call(NamedTuple):
    """One call of a function `home.name`, as a test made it."""

    home: str
    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    @property
    def function(self) -> str:
        return f"{self.home}.{self.name}"

    def __str__(self) -> str:
        parts = [*map(brief, self.args), *(f"{key}={brief(value)}" for key, value in self.kwargs.items())]
        return f"{self.function}({', '.join(parts)})"


class Difference(NamedTuple):
    """A call that ends otherwise than in NumPy or SciPy."""

    function: str
    mode: str
    call: str
    what: str


def brief(value: Any) -> str:
    text = " ".join(repr(value).split())
    kind = f"{value.dtype}{value.shape}" if isinstance(value, np.ndarray) else type(value).__name__
    return text if len(text) <= 120 else f"{text[:80]}…: {kind}"


# -- which functions, and their counterparts ------------------------------------------------------------------------


def reach(root: str, name: str) -> Any:
    found = importlib.import_module(root)
    for part in name.split("."):
        found = getattr(found, part)
    return found


def known(suite: str) -> list[tuple[str, str]]:
    """The functions that a suite's tests are watched for: (module, name)."""
    load_all()
    if suite.startswith("numpy"):
        homes = ("numpy", "numpy.linalg", "numpy.fft")
        return [(h, n) for h in homes for n in dir(importlib.import_module(h)) if _is_ours(importlib.import_module(h), n)]
    theirs = importlib.import_module(suite)
    if suite == "scipy.stats":
        from surface.cases_stats import FAMILIES, methods

        several = [
            (suite, f"{family}.{m}") for family in ("multivariate_normal", "dirichlet") for m in ("pdf", "logpdf", "entropy")
        ]
        return several + [(suite, f"{family}.{m}") for family, found in FAMILIES.items() for m in methods(found)]
    if suite == "scipy.fft":
        return [(suite, n) for n in theirs.__all__ if any(part in n for part in ("fft", "dct", "dst")) and "freq" not in n]
    ours = importlib.import_module(f"adjoint.{suite}")
    names = [n for n in theirs.__all__ if callable(getattr(theirs, n)) and not isinstance(getattr(theirs, n), type)]
    tables = {**FUNCTIONS, **UFUNCS, **vars(ours)}
    return [(suite, n) for n in names if (n in tables or getattr(theirs, n) in tables) and getattr(theirs, n) not in REFUSED]


def _is_ours(module: Any, name: str) -> bool:
    if name.startswith("_") or name in NOT_COMPARED:
        return False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        f = getattr(module, name, None)
    return callable(f) and not isinstance(f, type) and (f in FUNCTIONS or f in UFUNCS) and f not in REFUSED


def counterpart(home: str, name: str) -> Any:
    """What a user calls on traced values: the function itself, or that of our module in place of SciPy's."""
    return reach(home if home.startswith("numpy") or home in ENVIRONMENT else f"adjoint.{home}", name)


# -- recording --------------------------------------------------------------------------------------------------------


def is_their_test(path: str) -> bool:
    return f"{os.sep}tests{os.sep}" in path and path.startswith(_THEIRS)


_THEIRS = tuple(os.path.dirname(module.__file__) + os.sep for module in (np, scipy))


class Recorder:
    """Stands for a function in its module; notes the calls that tests make."""

    def __init__(self, f: Any, home: str, name: str, calls: dict[Any, Call]) -> None:
        self._f, self._home, self._name, self._calls = f, home, name, calls

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if is_their_test(sys._getframe(1).f_code.co_filename):
            call = Call(self._home, self._name, args, kwargs)
            if is_plain((args, kwargs)):
                key = (call.function, shape_key(args), shape_key(kwargs))
                if key not in self._calls:
                    self._calls[key] = Call(self._home, self._name, *copy.deepcopy((args, kwargs)))
        return self._f(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name == "_f":  # while a copy is being made
            raise AttributeError(name)
        return getattr(self._f, name)

    def __deepcopy__(self, memo: Any) -> Recorder:  # of a distribution, say: its calls are noted too
        return self

    def __hash__(self) -> int:  # SciPy's tests look functions up in tables
        return hash(self._f)

    def __eq__(self, other: object) -> bool:
        return other is self or other is self._f


def is_plain(value: Any) -> bool:
    """Numbers, arrays of them, and lists, up to a size."""
    if isinstance(value, np.ndarray):
        return type(value) is np.ndarray and value.dtype.char in "?bhilqBHILQefdFD" and value.size <= MOST_ELEMENTS
    if isinstance(value, (list, tuple)):
        return len(value) <= MOST_ELEMENTS and all(map(is_plain, value))
    if isinstance(value, dict):
        return all(isinstance(k, str) for k in value) and all(map(is_plain, value.values()))
    if isinstance(value, np.generic):
        return value.dtype.char in "?bhilqBHILQefdFD"
    return (
        value is None
        or value is ...
        or value is np._NoValue
        or isinstance(value, (int, float, complex, str, slice, type, np.dtype, range))
    )


def shape_key(value: Any) -> Any:
    """Calls that differ in no more than ordinary numbers count as one."""
    if isinstance(value, (np.ndarray, np.generic)):
        special = bool(value.size and value.dtype.kind in "fc" and not np.all(np.isfinite(value)))
        return "array", value.dtype.char, value.shape, special, value.flags.c_contiguous
    if isinstance(value, (list, tuple)):
        return type(value).__name__, len(value), tuple(map(shape_key, value[:4]))
    if isinstance(value, dict):
        return tuple((k, shape_key(v)) for k, v in sorted(value.items()))
    if isinstance(value, float):
        return "float", "special" if not np.isfinite(value) else ""
    return repr(value)


def record(suite: str, files: list[str]) -> list[Call]:
    """Run a suite's tests and note the calls of the functions that it is watched for."""
    import pytest

    importlib.import_module("numpy._core._rational_tests")  # C code that asks NumPy for its ufuncs as they are
    calls: dict[Any, Call] = {}
    replaced = []
    for home, name in known(suite):
        owner_name, _, last = name.rpartition(".")
        owner = reach(home, owner_name) if owner_name else importlib.import_module(home)
        original = getattr(owner, last)
        setattr(owner, last, Recorder(original, home, name, calls))
        replaced.append((owner, last, original))
    names = [f"{suite}.tests.test_{file}" for file in files]
    present = [name for name in names if importlib.util.find_spec(name) is not None]
    try:
        plugins = ["-p", "no:cacheprovider", "-p", "no:xdist"]
        choice = ["-k", LEFT_OUT, "--continue-on-collection-errors"]
        # Not our own settings, under which a warning is an error.
        pytest.main(["-c", os.devnull, "-qq", "--tb=no", "-W", "ignore", *plugins, *choice, "--pyargs", *present])
    finally:
        for owner, last, original in replaced:
            setattr(owner, last, original)
    return list(calls.values())


# -- repeating --------------------------------------------------------------------------------------------------------


class Opened(NamedTuple):
    """A call as a function of its arrays of floats (and, compiled, of whole numbers)."""

    leaves: list[Any]
    rebuild: Any  # (leaves) ↦ (args, kwargs)


def opened(call: Call, kinds: str) -> Opened:
    leaves: list[Any] = []
    # The numbers of a ufunc and of a distribution are all arguments; those of another function may be settings.
    takes_numbers = call.home == "scipy.stats" or isinstance(reach(call.home, call.name), np.ufunc)

    def open_(value: Any, depth: int) -> Any:
        if isinstance(value, list) and _is_numeric(value):
            value = np.asarray(value)
        if takes_numbers and type(value) is float:
            value = np.float64(value)
        if isinstance(value, (np.ndarray, np.floating, np.complexfloating)) and value.dtype.kind in kinds:
            leaves.append(value)
            return _Place(len(leaves) - 1)
        if isinstance(value, (list, tuple)) and depth < 2:
            return type(value)(open_(v, depth + 1) for v in value)
        return value

    args = [open_(a, 0) for a in call.args]
    kwargs = {key: value if key in ("out", "axis", "axes") else open_(value, 0) for key, value in call.kwargs.items()}

    def rebuild(xs: Any) -> Any:
        return _filled(args, xs), _filled(kwargs, xs)

    return Opened(leaves, rebuild)


def with_floats(call: Call) -> Call:
    """The call with its first argument in floats, where a test gave whole numbers."""
    if not call.args or isinstance(call.args[0], (str, type, np.dtype)):
        return call
    first, failed = quietly(lambda: np.asarray(call.args[0]))
    if failed is not None or first.dtype.kind not in "iu":
        return call
    return call._replace(args=(first.astype(float), *call.args[1:]))


class _Place(int):
    """Where a leaf goes."""


def _is_numeric(value: list[Any]) -> bool:
    """A list that NumPy reads as an array of floats."""
    flat = list(value)
    while flat and all(isinstance(v, (list, tuple)) for v in flat):
        flat = list(itertools.chain(*flat))
    if not flat or not all(isinstance(v, (int, float, complex)) for v in flat) or not any(isinstance(v, float) for v in flat):
        return False
    try:
        return np.asarray(value).dtype.kind in "fc"
    except ValueError:
        return False


def _filled(value: Any, xs: Any) -> Any:
    if isinstance(value, _Place):
        return xs[value]
    if isinstance(value, (list, tuple)):
        return type(value)(_filled(v, xs) for v in value)
    if isinstance(value, dict):
        return {key: _filled(v, xs) for key, v in value.items()}
    return copy.copy(value) if isinstance(value, np.ndarray) else value


def quietly(run: Any) -> Any:
    """(value, None) or (None, the error)."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return run(), None
        except Exception as error:  # any error is an answer here, and is compared
            return None, error


def parts_of(result: Any) -> list[Any]:
    """The arrays of a result; None where it is something else."""
    leaves, _ = flatten(tuple(result) if isinstance(result, (list, tuple)) else result)
    return [np.asarray(x) if isinstance(x, (np.ndarray, np.generic, bool, int, float, complex)) else None for x in leaves]


#: What a factorisation determines: not the phase of a vector, nor those that complete a basis, nor the triangle that
#: it leaves alone. SciPy may call another routine of LAPACK than NumPy, which chooses otherwise.
DETERMINED = {
    "numpy.linalg.eig": lambda w, v: (w, np.abs(v)),
    "numpy.linalg.svd": lambda u, s, vh: (np.abs(u[..., : s.shape[-1]]), s, np.abs(vh[..., : s.shape[-1], :])),
    "scipy.linalg.eigh": lambda w, *vs: (w, *map(np.abs, vs)),
    "scipy.linalg.eig": lambda w, *vs: (w, *map(np.abs, vs)),
    "scipy.linalg.svd": lambda u, s, vh: (np.abs(u[..., : s.shape[-1]]), s, np.abs(vh[..., : s.shape[-1], :])),
    "scipy.linalg.cho_factor": lambda c, lower: (np.tril(c) if lower else np.triu(c), lower),
}


def determined(call: Call, result: Any) -> Any:
    return DETERMINED[call.function](*result) if call.function in DETERMINED and isinstance(result, (tuple, list)) else result


TOLERANCE = {"e": 2e-2, "f": 2e-4, "F": 2e-4}


def tolerance(call: Call, leaves: list[Any]) -> float:
    """SciPy computes quantiles of float16 and float32 in single precision, and returns doubles; here all of it is double."""
    if call.home != "scipy.stats" or not call.name.endswith(("ppf", "isf")):
        return 1e-8
    return max((TOLERANCE["f"] for x in leaves if x.dtype.char in TOLERANCE), default=1e-8)


def unlike(found: Any, expected: Any, least: float = 1e-8) -> str:
    """How two results differ, or ''. The relative tolerance is that of their dtype, and `least` at the least."""
    a, b = parts_of(found), parts_of(expected)
    if len(a) != len(b):
        return f"{len(a)} results instead of {len(b)}"
    for x, y in zip(a, b, strict=True):
        if (x is None) != (y is None):
            return "another kind of result"
        if x is None:
            continue
        if x.shape != y.shape:
            return f"shape {x.shape} instead of {y.shape}"
        if x.dtype != y.dtype:
            return f"dtype {x.dtype} instead of {y.dtype}"
        if y.dtype.kind not in "fc":
            if not np.array_equal(x, y):
                return f"{brief(x)} instead of {brief(y)}"
            continue
        rtol = max(TOLERANCE.get(y.dtype.char, 1e-8), least)
        finite = np.abs(y[np.isfinite(y)])
        if not np.allclose(x, y, rtol=rtol, atol=rtol * (finite.max() if finite.size else 0.0), equal_nan=True):
            return f"{brief(x)} instead of {brief(y)}"
    return ""


REFUSALS = (ad.AdjointError,)


def repeat(call: Call, mode: str) -> tuple[str, str]:
    """How a call repeated in a mode compares: ("same" | "refused" | "passed over" | "different", what)."""
    theirs, ours = reach(call.home, call.name), counterpart(call.home, call.name)
    if mode != "compiled" and not opened(call, "fc").leaves:
        call = with_floats(call)
    leaves, rebuild = opened(call, "fciub" if mode == "compiled" else "fc")
    if not leaves:
        return "passed over", ""
    # As it is repeated: a list may be read otherwise than an array.
    args, kwargs = rebuild([np.copy(x) if isinstance(x, np.ndarray) else x for x in leaves])
    expected, error = quietly(lambda: theirs(*args, **kwargs))
    if isinstance(error, (Warning, FloatingPointError, NotImplementedError)):
        return "passed over", ""
    if error is None and any(x is None or x.size > MOST_RESULTS for x in parts_of(expected)):
        return "passed over", ""
    if mode == "derivative":
        return ("passed over", "") if error is not None else differentiated(call, theirs, ours)

    def f(*xs: Any) -> Any:
        args, kwargs = rebuild(xs)
        return ours(*args, **kwargs)

    if mode == "eager":
        found, failed = quietly(lambda: traced_value(f, leaves))
    else:
        found, failed = quietly(lambda: ad.jit(f)(*leaves))
    if error is not None:
        return (
            ("same", "") if failed is not None else ("different", f"accepted where NumPy raises {type(error).__name__}: {error}")
        )
    if failed is not None:
        if isinstance(failed, REFUSALS):
            return "refused", str(failed)
        return "different", f"{type(failed).__name__}: {failed}"
    what = unlike(determined(call, found), determined(call, expected), tolerance(call, leaves))
    return ("different", what) if what else ("same", "")


def traced_value(f: Any, leaves: list[Any]) -> Any:
    """The value of f on traced arguments, whatever its dtypes."""
    kept = []

    def seen(*xs: Any) -> Any:
        y = f(*xs)
        kept.append(map_leaves(unwrap_fresh, ad.stop_gradient(y)))
        return np.sum(xs[0]) * 1.0

    ad.vjp(seen, *leaves)
    return kept[0]


def differentiated(call: Call, theirs: Any, ours: Any) -> tuple[str, str]:
    """`jvp` against differences and `vjp` against `jvp`, near the point of the call."""
    leaves, rebuild = opened(call, "f")
    if not leaves or any(np.asarray(x).dtype != np.float64 or not np.all(np.isfinite(x)) for x in leaves):
        return "passed over", ""
    rng = np.random.default_rng(0)
    # Away from ties and kinks, on which tests like to sit.
    xs = [np.asarray(x + 0.01 * (0.1 + np.abs(x)) * rng.uniform(-1, 1, np.shape(x))) for x in leaves]
    vs = [np.asarray(rng.standard_normal(np.shape(x)) * (0.1 + np.abs(x))) for x in leaves]
    if call.home == "scipy.stats":  # a covariance stays symmetric
        symmetric = [x.ndim == 2 and x.shape[0] == x.shape[1] and np.array_equal(x, x.T) for x in map(np.asarray, leaves)]
        xs, vs = ([(y + y.T) / 2 if s else y for y, s in zip(ys, symmetric, strict=True)] for ys in (xs, vs))

    def plain(*xs: Any) -> Any:
        args, kwargs = rebuild([np.copy(x) for x in xs])
        return floats(determined(call, theirs(*args, **kwargs)))

    def f(*xs: Any) -> Any:
        args, kwargs = rebuild(xs)
        return floats(determined(call, ours(*args, **kwargs)))

    def slope(h: float) -> Any:
        high, low = (plain(*(x + s * h * v for x, v in zip(xs, vs, strict=True))) for s in (1, -1))
        return [(a - b) / (2 * h) for a, b in zip(high, low, strict=True)]

    slopes, failed = quietly(lambda: (slope(1e-5), slope(3e-6)))
    if failed is not None or not slopes[0]:
        return "passed over", ""
    if not all(a.shape == b.shape and close(a, b, 1e-4) for a, b in zip(*slopes, strict=True)):
        return "passed over", ""  # rough, or outside of the domain
    if any(s.dtype.char not in "dD" for s in slopes[0]):
        return "passed over", ""  # too coarse for differences
    pushed, failed = quietly(lambda: ad.jvp(f, tuple(xs), tuple(vs)))
    if failed is not None:
        return (
            ("refused", str(failed)) if isinstance(failed, REFUSALS) else ("different", f"jvp: {type(failed).__name__}: {failed}")
        )
    if len(pushed[1]) != len(slopes[0]):
        return "different", f"{len(pushed[1])} results of floats instead of {len(slopes[0])}"
    for t, s in zip(pushed[1], slopes[0], strict=True):
        if not close(np.asarray(t), s, 2e-3):
            return "different", f"jvp {brief(np.asarray(t))}, differences {brief(s)}"
    us = [rng.standard_normal(s.shape) + (1j * rng.standard_normal(s.shape) if s.dtype.kind == "c" else 0) for s in slopes[0]]
    pulled, failed = quietly(lambda: ad.vjp(f, *xs)[1](us))
    if failed is not None:
        return (
            ("refused", str(failed)) if isinstance(failed, REFUSALS) else ("different", f"vjp: {type(failed).__name__}: {failed}")
        )
    forward, back = (sum(np.sum(a * b).real for a, b in zip(p, q, strict=True)) for p, q in ((us, pushed[1]), (pulled, vs)))
    scale = sum(np.sum(np.abs(a * b)) for a, b in zip(us, pushed[1], strict=True))
    if not abs(forward - back) <= 1e-7 * max(1.0, scale):
        return "different", f"⟨u, Jv⟩ = {forward}, ⟨Jᵀu, v⟩ = {back}"
    return "same", ""


def floats(result: Any) -> list[Any]:
    leaves, _ = flatten(tuple(result) if isinstance(result, (list, tuple)) else result)
    leaves = [np.asarray(x) if x.__class__ in (float, complex) else x for x in leaves]  # a number of SciPy's may be Python's
    return [x for x in leaves if getattr(x, "dtype", np.dtype(int)).kind in "fc"]


def close(a: Any, b: Any, rtol: float) -> bool:
    if not np.all(np.isfinite(b)):
        return False
    return bool(np.allclose(a, b, rtol=rtol, atol=rtol * max(1e-3, float(np.max(np.abs(b), initial=0.0)))))


# -- reports ----------------------------------------------------------------------------------------------------------


class Report(NamedTuple):
    counts: Counter[tuple[str, str]]  # by mode and outcome
    functions: set[str]
    differences: list[Difference]


def run(calls: list[Call], modes: tuple[str, ...] = MODES, each: int = 12, seconds: float = 1e9) -> Report:
    """Repeat up to `each` calls of every function, one of each function after the other, as long as there is time."""
    by_function: dict[str, list[Call]] = defaultdict(list)
    for call in calls:
        by_function[call.function].append(call)
    end = time.monotonic() + seconds
    report = Report(Counter(), set(), [])
    for rank in range(each):
        for name, found in sorted(by_function.items()):
            if rank >= len(found) or time.monotonic() > end:
                continue
            call = found[rank * len(found) // min(each, len(found))]  # spread over the tests of the function
            for mode in modes:
                outcome, what = repeat(call, mode)
                report.counts[mode, outcome] += 1
                report.functions.add(name)
                if outcome == "different":
                    report.differences.append(Difference(name, mode, str(call), what))
    return report


def allowed() -> list[dict[str, str]]:
    """The differences that have a reason: `function`, `reason`, and where they apply `mode`, a part of the `call`, of `what`."""
    return tomllib.loads(ALLOWED.read_text())["difference"]


def is_allowed(difference: Difference, rules: list[dict[str, str]]) -> bool:
    return any(
        rule["function"] in (difference.function, "*")
        and rule.get("mode", difference.mode) == difference.mode
        and rule.get("call", "") in difference.call
        and rule.get("what", "") in difference.what
        for rule in rules
    )


def show(suite: str, report: Report, unexplained: list[Difference]) -> None:
    total = max(sum(n for (mode, _), n in report.counts.items() if mode == each) for each in MODES)
    print(f"{suite}: {total} calls of {len(report.functions)} functions")
    for mode in MODES:
        counts = {outcome: n for (m, outcome), n in sorted(report.counts.items()) if m == mode}
        print(f"  {mode:10s} " + ", ".join(f"{n} {outcome}" for outcome, n in counts.items()))
    for name, found in itertools.groupby(sorted(unexplained), key=lambda d: d.function):
        print(f"  {name}")
        for d in found:
            print(f"    {d.mode}: {d.call}\n      {d.what}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("suites", nargs="*", help=f"of {', '.join(SUITES)}; all if none is named")
    parser.add_argument("--seconds", type=float, default=1e9, help="for the repetitions of one suite")
    parser.add_argument("--each", type=int, default=12, help="calls of each function")
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--files", help="of one suite: their names without test_, separated by commas")
    options = parser.parse_args()
    suites = options.suites or list(SUITES)
    if unknown := set(suites) - set(SUITES):
        parser.error(f"no such suite: {', '.join(sorted(unknown))}")
    needed = ENVIRONMENT.get(suites[0], {})
    if len(suites) > 1 or not needed.items() <= os.environ.items():  # each in a process of its own: tests leave traces
        arguments = [f"--seconds={options.seconds}", f"--each={options.each}", f"--modes={options.modes}"]
        arguments += [f"--files={options.files}"] if options.files else []
        command = [sys.executable, "-W", "ignore", "-m", "surface.repeat", *arguments]
        return max(subprocess.run([*command, s], env={**os.environ, **ENVIRONMENT.get(s, {})}).returncode for s in suites)
    (suite,) = suites
    calls = record(suite, (options.files or SUITES[suite]).replace(",", " ").split())
    report = run(calls, tuple(options.modes.split(",")), options.each, options.seconds)
    rules = allowed()
    unexplained = [d for d in report.differences if not is_allowed(d, rules)]
    show(suite, report, unexplained)
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
