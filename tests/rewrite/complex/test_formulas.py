"""Formulas for the parts of complex numbers, against NumPy: in the whole range, at infinities, nan and signed zeros."""

import numpy as np
import pytest

import adjoint as ad

EDGES = [0.0, -0.0, 1.0, -1.0, 2.5, -3.7, 20.5, 1e-8, np.pi, 1e-320, 1e-200, 1e200, 1e308, -1e308, 709.9, -750.0]
EDGES += [np.inf, -np.inf, np.nan]
EXACT = ["negative", "positive", "conjugate", "real", "imag", "isnan", "isinf", "isfinite", "logical_not"]
ROUNDED = ["square", "reciprocal", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "abs", "angle"]
ROUNDED += ["sinh", "cosh", "tanh", "sin", "cos", "tan"]


def samples(dtype):
    """All pairs of edges, some numbers of the size of one, and some on the unit circle, where the logarithm cancels."""
    rng = np.random.default_rng(0)
    with np.errstate(all="ignore"):
        edges = np.array(EDGES).astype(np.empty((), dtype).real.dtype)
    grid = np.empty((len(edges), len(edges)), dtype)
    grid.real, grid.imag = edges[:, None], edges
    some = rng.normal(size=200) + 1j * rng.normal(size=200)
    return np.concatenate([grid.ravel(), some.astype(dtype), np.exp(1j * rng.uniform(-3, 3, 100)).astype(dtype)])


def native(f, *args):
    compiled = ad.jit(f)
    with np.errstate(all="ignore"):
        result = compiled(*args)
    assert "calls NumPy" not in str(compiled.report())
    return result


def parts(z):
    return (z.real, z.imag) if np.iscomplexobj(z) else (z,)


def check(got, want, eps, ulps):
    """Parts within a few units in the last place of the modulus; infinities and nan where NumPy has them."""
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    with np.errstate(all="ignore"):
        size = np.abs(want)
        for a, b in zip(parts(got), parts(want), strict=True):
            finite = np.isfinite(b)
            scale = np.where(np.isfinite(size), size, np.abs(b))
            slack = ulps * eps * scale + 4 * np.finfo(want.dtype).smallest_subnormal
            assert np.all(np.abs(a - b)[finite] <= slack[finite])
            np.testing.assert_array_equal(a[~finite], b[~finite])


@pytest.mark.parametrize("dtype", [np.complex128, np.complex64])
@pytest.mark.parametrize("name", EXACT)
def test_exact(name, dtype):
    z, f = samples(dtype), getattr(np, name)
    got, want = native(f, z), f(z)
    assert got.dtype == want.dtype
    for a, b in zip(parts(got), parts(want), strict=True):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(np.signbit(a)[b == 0], np.signbit(b)[b == 0])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", [np.complex128, np.complex64])
@pytest.mark.parametrize("name", ROUNDED)
def test_within_a_few_ulp(name, dtype):
    z, f = samples(dtype), getattr(np, name)
    eps = np.finfo(dtype).eps
    with np.errstate(all="ignore"):
        want = f(z)
        usual = np.ones(z.shape, bool)
        if name in ("sinh", "cosh", "sin", "cos"):  # C leaves signs open, or has a finite product of which a factor overflows
            growth, angle = (z.real, z.imag) if name.endswith("h") else (z.imag, z.real)
            usual = np.isfinite(angle) & ~((np.abs(growth) > 700) & (np.abs(angle) < 1e-100) & (angle != 0))
        if name == "square":  # NumPy's vectorised product may use fused operations: inf − inf is not always nan
            usual = ~np.isinf(want.real) & ~np.isnan(want.real)
    check(native(f, z[usual]), want[usual], eps, 4)


def test_the_logarithm_is_accurate_near_the_unit_circle():
    z = np.exp(1j * np.linspace(-3, 3, 500))
    want, got = np.log(z).real, native(np.log, z).real
    assert np.max(np.abs(want)) < 1e-15
    np.testing.assert_allclose(got, want, rtol=1e-10)


@pytest.mark.parametrize("dtype", [np.complex128, np.complex64])
@pytest.mark.parametrize("name", ["add", "subtract"])
def test_sums_are_exact(name, dtype):
    z, f = samples(dtype), getattr(np, name)
    w = z[np.random.default_rng(1).permutation(len(z))]
    got = native(f, z, w)
    with np.errstate(all="ignore"):
        want = f(z, w)
    np.testing.assert_array_equal(got.real, want.real)
    np.testing.assert_array_equal(got.imag, want.imag)
    np.testing.assert_array_equal(np.signbit(got.imag)[want.imag == 0], np.signbit(want.imag)[want.imag == 0])


@pytest.mark.parametrize("dtype", [np.complex128, np.complex64])
def test_division_is_smiths(dtype):
    z, eps = samples(dtype), np.finfo(dtype).eps
    w = z[np.random.default_rng(1).permutation(len(z))]
    with np.errstate(all="ignore"):
        want = z / w
        check(native(np.divide, z, w), want, 4 * eps, 2)
        check(native(lambda w: 1 / w, w), 1 / w, 4 * eps, 2)
        check(native(lambda z: z / 0j, z), z / np.zeros((), dtype), eps, 1)


@pytest.mark.parametrize("dtype", [np.complex128, np.complex64])
def test_products_are_the_plain_formula(dtype):
    z = samples(dtype)
    w = z[np.random.default_rng(1).permutation(len(z))]
    got = native(np.multiply, z, w)
    with np.errstate(all="ignore"):
        wide = [x.astype(np.float64 if dtype == np.complex64 else np.longdouble) for x in (z.real, z.imag, w.real, w.imag)]
        a, b, c, d = wide
        usual = np.isfinite(z) & np.isfinite(w) & (np.abs(z) < 1e15) & (np.abs(w) < 1e15)
        slack = 4 * np.finfo(dtype).eps * (np.abs(z) * np.abs(w)) + 4 * np.finfo(dtype).smallest_subnormal
        for part, exact in ((got.real, a * c - b * d), (got.imag, a * d + b * c)):
            assert np.all((np.abs(part - exact) <= slack)[usual])
    # An infinite factor times a real one: the formula has 0·∞.
    assert np.isnan(native(lambda x: x * 1j, np.array([np.inf])).real).all()
    assert np.isnan(native(lambda z: z * 2.0, np.array([complex(1.0, np.inf)])).real).all()


@pytest.mark.parametrize(
    "name", ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "logical_and", "logical_or"]
)
def test_comparisons(name):
    z, f = samples(np.complex128), getattr(np, name)
    with np.errstate(invalid="ignore"):
        for shift in (1, 7, len(EDGES)):
            w = np.roll(z, shift)
            np.testing.assert_array_equal(native(f, z, w), f(z, w))
        np.testing.assert_array_equal(native(lambda z: f(z, 1.0), z), f(z, 1.0))


@pytest.mark.parametrize("n", [-101, -100, -99, -5, -2, -1, 0, 1, 2, 3, 5, 16, 99, 100, 0.5, 2.5, -1.5, 1 + 2j, 0j, 2j])
def test_powers(n):
    rng = np.random.default_rng(0)
    z = np.exp(0.1 * rng.normal(size=50) + 1j * rng.uniform(-3, 3, 50))
    want = z**n
    np.testing.assert_allclose(native(lambda z: z**n, z), want, rtol=1e-13 if abs(n) < 20 else 1e-12)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(native(lambda z: z**n, np.zeros(1, complex)), np.zeros(1, complex) ** n)


def test_powers_of_arrays():
    rng = np.random.default_rng(0)
    z, w = (rng.normal(size=30) + 1j * rng.normal(size=30) for _ in range(2))
    np.testing.assert_allclose(native(np.power, z, w), z**w, rtol=1e-13)
    np.testing.assert_allclose(native(np.power, z, np.arange(-15, 15)), z ** np.arange(-15, 15), rtol=1e-13)


@pytest.mark.parametrize("exponent", [800.0, 2.5 + 0j])
def test_a_power_that_overflows_along_the_real_axis(exponent):
    z = np.array([3e200 + 0j, 2.0, 1e-200])
    found = ad.jit(lambda z, w: z**w)(z, exponent)
    with np.errstate(all="ignore"):
        expected = z**exponent
    np.testing.assert_allclose(found.real, expected.real, rtol=1e-12)
    np.testing.assert_array_equal(found.imag, expected.imag)
