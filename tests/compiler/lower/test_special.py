"""Functions of scipy.special in compiled programs: to the last bit what SciPy's ufuncs give, or not native."""

import ctypes
import warnings

import numpy as np
import pytest
from scipy import special as reference

import adjoint as ad
import adjoint.scipy.special as special
from adjoint.compiler.lower import scalar
from adjoint.compiler.lower import special as lowering
from adjoint.compiler.lower.step import Foreign
from adjoint.core.op import OPS

NAMES = sorted(name for name, op in OPS.items() if not scalar.has_code(op) and lowering.function_name(op) is not None)
DOUBLE, SINGLE, WHOLE = (np.dtype(kind) for kind in (np.float64, np.float32, np.int64))
#: Without a C function, or with one that calls Python.
NOT_NATIVE = {
    *("bdtr", "bdtrc", "bdtri", "nbdtr", "nbdtrc", "nbdtri", "pdtri", "expn", "kn", "yn"),  # warn of a fraction
    *("eval_hermite", "eval_hermitenorm"),  # of whole numbers only
    *("hankel1", "hankel1e", "hankel2", "hankel2e", "wofz"),  # complex
    *("diric", "lambertw", "spherical_in", "spherical_jn", "spherical_kn", "spherical_yn", "zeta"),  # no ufunc
}


def native(f, *xs):
    """The compiled function, which calls no Python."""
    compiled = ad.jit(f)
    steps = compiled.lower(*xs).lowered.steps
    assert not any(isinstance(s, Foreign) for s in steps)
    return compiled


def samples(op, dtype=float, count=50):
    rng = np.random.default_rng(0)
    return [rng.uniform(low, high, count).astype(dtype) for low, high in lowering._domain(op, op.arity)]


def test_which_are_native():
    found = {
        name for name in NAMES if lowering.working_dtypes(OPS[name], [DOUBLE] * (getattr(OPS[name], "arity", None) or 1), DOUBLE)
    }
    assert set(NAMES) - found == NOT_NATIVE


@pytest.mark.parametrize("name", [name for name in NAMES if name not in NOT_NATIVE and getattr(OPS[name], "arity", None)])
def test_values(name):
    op = OPS[name]
    assert lowering.working_dtypes(op, [DOUBLE] * op.arity, DOUBLE) is not None
    function = lowering.entries(lowering.function_name(op))["d" * op.arity]
    columns = samples(op)
    with np.errstate(all="ignore"):
        expected = op.impl(*columns)
    np.testing.assert_array_equal([function(*row) for row in zip(*columns, strict=True)], expected)


@pytest.mark.parametrize("name", ["gammaln", "psi", "ndtri", "betainc", "jv", "hyp2f1", "erfinv", "logit"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_compiled(name, dtype):
    op = OPS[name]
    columns = samples(op, dtype)
    got = native(getattr(special, name), *columns)(*columns)
    want = getattr(reference, name)(*columns)
    assert got.dtype == want.dtype == dtype
    np.testing.assert_array_equal(got, want)


def test_whole_orders_take_the_loop_for_whole_numbers():
    orders, x = np.arange(5), np.linspace(0.5, 3, 5)
    for name in ("kn", "yn", "eval_legendre", "expn"):
        assert lowering.working_dtypes(OPS[name], [WHOLE, DOUBLE], DOUBLE) == [WHOLE, DOUBLE]
        np.testing.assert_array_equal(native(getattr(special, name), orders, x)(orders, x), getattr(reference, name)(orders, x))
        np.testing.assert_array_equal(native(lambda x: getattr(special, name)(2, x), x)(x), getattr(reference, name)(2, x))  # noqa: B023
    small = orders.astype(np.int32)
    np.testing.assert_array_equal(native(special.kn, small, x)(small, x), reference.kn(small, x))


def test_other_dtypes_go_to_scipy():
    for dtype in (np.uint8, np.float16, bool):
        x = np.array([1, 0, 1], dtype)
        compiled = ad.jit(special.gammaln)
        want = reference.gammaln(x)
        got = compiled(x)
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)


def test_float32_is_native_only_where_scipy_widens():
    assert lowering.working_dtypes(OPS["gammaln"], [SINGLE], SINGLE) == [DOUBLE]
    assert lowering.working_dtypes(OPS["erfinv"], [SINGLE], SINGLE) == [SINGLE]
    assert lowering.working_dtypes(OPS["ker"], [SINGLE], SINGLE) is None


def test_a_function_that_disagrees_is_refused():
    wrong = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double, ctypes.c_int)(lambda x, _: x)
    known = lowering.Special("gammaln", "d", "d", ctypes.cast(wrong, ctypes.c_void_p).value)
    assert known(2.5) == 2.5
    assert not lowering._agrees(known, "d", "d", ((0.5, 3.0),))


def test_nothing_warns_or_raises():
    with reference.errstate(all="raise"), warnings.catch_warnings():
        warnings.simplefilter("error")
        x = np.array([-1.0, 0.0, np.nan, np.inf])
        got = ad.jit(special.gammaln)(np.abs(x) + 1)
        np.testing.assert_array_equal(got, reference.gammaln(np.abs(x) + 1))
    compiled = native(special.gammaln, np.ones(4))
    with reference.errstate(all="raise"), warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(compiled(x), [np.inf, np.inf, np.nan, np.inf])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", ["ndtr", "log_expit", "entr", "xlogy", "xlog1py"])
def test_those_that_are_formulas(name, dtype):
    """Written in terms of functions that LLVM vectorises."""
    edges = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-30, -1e-30, 1.0, -1.0]
    x = np.concatenate([np.linspace(-30, 30, 301), edges]).astype(dtype)
    columns = [a.ravel() for a in np.meshgrid(x[::7], x[-12:])] if OPS[name].arity == 2 else [x]
    with np.errstate(all="ignore"):
        want = getattr(reference, name)(*columns)
    got = native(getattr(special, name), *columns)(*columns)
    assert got.dtype == want.dtype
    slack = 1e-13 if name == "ndtr" and dtype == np.float64 else 4 * np.finfo(dtype).eps  # SciPy's tail is off by that much
    np.testing.assert_allclose(got, want, rtol=slack)


def test_in_a_derivative_and_in_threads():
    def f(x):
        return np.sum(special.gammaln(x) * special.gammainc(2.0, x) + np.exp(-x) * special.j0(x))

    x = np.linspace(0.5, 4, 60_000)
    gradient = ad.grad(f)
    np.testing.assert_allclose(native(gradient, x)(x), gradient(x), rtol=1e-12, atol=1e-15)
