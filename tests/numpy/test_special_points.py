"""Powers, and elementwise functions of complex numbers, at zeros with signs, infinities and nan, against NumPy."""

import itertools

import numpy as np
import pytest

import adjoint as ad
from adjoint.core.bind import unwrap_fresh
from adjoint.core.tree import map_leaves

pytestmark = pytest.mark.filterwarnings("ignore")

# -- real powers ------------------------------------------------------------------------------------------------------

BASES = [-np.inf, np.inf, 0.0, -0.0, np.nan, -2.0, -1.0, 1.0, 3.0, 1e-310, 1e300, -1e300]
EXPONENTS = [0.5, 0.25, 1.5, -0.5, 2.0, 3.0, 2, 3, -1, -2.0, 0.0, 0, 1.0, 1, 1 / 3, 4, np.inf, -np.inf, np.nan]


def same(found, expected, dtype):
    np.testing.assert_allclose(found, expected, rtol=1e-13 if dtype == np.float64 else 1e-5)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("p", EXPONENTS)
def test_powers_at_special_points(p, dtype):
    """Value, first and second derivative with a constant exponent: p x**(p - 1), and 0 where the exponent is."""
    xs = np.array(BASES).astype(dtype)
    f, both = (lambda x: x**p), (lambda x, q: x**q)
    with np.errstate(all="ignore"):
        first = 0 * np.ones_like(xs) if p == 0 else dtype(p) * np.array([x ** dtype(p - 1) for x in xs])
        second = 0 * np.ones_like(xs) if p in (0, 1) else dtype(p) * dtype(p - 1) * np.array([x ** dtype(p - 2) for x in xs])
        same(ad.jit(f)(xs), xs**p, dtype)
        same(ad.vjp(f, xs)[0], xs**p, dtype)
        slope = ad.jit(ad.grad(f))
        curve, push, power, traced = (
            ad.jit(ad.grad(ad.grad(f))),
            ad.jit(lambda x: ad.jvp(f, (x,), (dtype(1),))[1]),
            ad.jit(f),
            ad.jit(both),
        )
        for x, a, b in zip(xs, first, second, strict=True):
            same(power(x), x**p, dtype)
            same(traced(x, dtype(p)), x ** dtype(p), dtype)
            for found in (ad.grad(f)(x), slope(x), ad.jvp(f, (x,), (dtype(1),))[1], push(x), ad.grad(both)(x, dtype(p))):
                same(found, a, dtype)
            for found in (ad.grad(ad.grad(f))(x), curve(x), ad.jvp(ad.grad(f), (x,), (dtype(1),))[1]):
                same(found, b, dtype)


# -- complex numbers --------------------------------------------------------------------------------------------------

PARTS = [0.0, -0.0, 1.0, -2.5, np.inf, -np.inf, np.nan, 1e300, -1e-300, 710.0]
POINTS = np.array([complex(a, b) for a, b in itertools.product(PARTS, PARTS)])
UFUNCS = [
    name
    for name, f in vars(np).items()
    if isinstance(f, np.ufunc) and f.nin == 1 and any(t.startswith("D") for t in f.types) and f is getattr(np, f.__name__, None)
]
OTHERS = {
    "angle": np.angle, "real": np.real, "imag": np.imag, "sinc": np.sinc, "round": np.round, "isreal": np.isreal,
    "nan_to_num": np.nan_to_num, "nan_to_num inf": lambda z: np.nan_to_num(z, posinf=np.inf, neginf=1.0),
    "1/z": lambda z: 1 / z, "1j*z": lambda z: 1j * z, "z/2": lambda z: z / 2.0, "z-1j": lambda z: z - 1j, "z**0": lambda z: z**0,
}  # fmt: skip
#: Functions whose compiled value may be nan or infinite, or the limit, where NumPy's has a nan: it depends on NumPy's own route
#: (SIMD or scalar, array or number) there.
BY_ROUTE = {
    "square": lambda z: z**2,
    "z**3": lambda z: z**3,
    "z**-2": lambda z: z**-2,
    "z**1.5": lambda z: z**1.5,
    "2**z": lambda z: 2.0**z,
}


def value(f, z):
    """Of f on a traced array."""
    kept = []
    ad.vjp(lambda z: (kept.append(map_leaves(unwrap_fresh, ad.stop_gradient(f(z)))), np.sum(np.real(z)))[1], z)
    return kept[0]


def agrees(found, expected, rtol):
    """Elements that agree, part by part, but for the signs of zeros."""
    if expected.dtype.kind == "c":
        near = abs(found - expected) <= rtol * abs(expected)
        return near | (agrees(found.real, expected.real, rtol) & agrees(found.imag, expected.imag, rtol))
    return (
        (found == expected) | (np.isnan(found) & np.isnan(expected))
        if expected.dtype.kind != "f"
        else np.isclose(found, expected, rtol=rtol, atol=0, equal_nan=True)
    )


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", [np.complex128, np.complex64])
@pytest.mark.parametrize("name", [*UFUNCS, *OTHERS])
def test_complex_functions_at_special_points(name, dtype):
    f = OTHERS.get(name) or getattr(np, name)
    with np.errstate(all="ignore"):
        z = POINTS.astype(dtype)
        expected = np.asarray(f(z))
        for mode, found in (("eager", value(f, z)), ("compiled", ad.jit(f)(z))):
            assert found.dtype == expected.dtype
            if mode == "compiled" and name in BY_ROUTE:
                continue
            bad = ~agrees(found, expected, 1e-12 if dtype == np.complex128 else 2e-5)
            assert not bad.any(), (mode, z[bad][:3], found[bad][:3], expected[bad][:3])


@pytest.mark.parametrize("name", BY_ROUTE)
def test_compiled_complex_powers_are_numpys_where_they_are_finite(name):
    f = BY_ROUTE[name]
    with np.errstate(all="ignore"):
        found, expected = ad.jit(f)(POINTS), f(POINTS)
    # At infinities they may be nan; of the cosine of a large number, nothing is left.
    finite = np.isfinite(expected) & np.isfinite(POINTS) & (abs(POINTS.imag) < 1e3)
    assert np.all(agrees(found, expected, 1e-12)[finite])


@pytest.mark.parametrize("part", ["real", "imag"])
def test_a_part_is_written_without_touching_the_other(part):
    def f(z):
        z = z.copy()
        setattr(z, part, 2.0)
        return z

    expected = f(POINTS)
    for found in (value(f, POINTS), ad.jit(f)(POINTS)):
        np.testing.assert_array_equal(found.real, expected.real)
        np.testing.assert_array_equal(found.imag, expected.imag)
    ad.check_grads(f, np.array([1 + 2j, 0.5 - 1j]))


def test_the_derivative_of_the_complex_sign():
    ad.check_grads(np.sign, np.array([1 + 2j, 0.5 - 3j]))
    assert ad.jvp(np.sign, (np.array([complex(np.inf, 1)]),), (np.array([1 + 0j]),))[1] == 0
