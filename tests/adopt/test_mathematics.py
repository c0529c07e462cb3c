"""Python's numbers in adopted code: as before on plain numbers, with a derivative on traced ones."""

import cmath
import fractions
import math
import random
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import adjoint as ad
from adjoint.adopt.builtin import Complex, Float
from adjoint.adopt.library import FRACTIONS
from adjoint.adopt.mathematics import CMATH, MATH
from adjoint.check.differences import finite_difference

STATISTICS = ad.adopt("statistics")

ONE = [
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "tanh",
    "asinh",
    "atanh",
    "exp",
    "expm1",
    "exp2",
    "cbrt",
    "log",
]
ONE += ["log2", "log10", "log1p", "sqrt", "degrees", "radians", "fabs", "gamma", "lgamma", "erf", "erfc"]
TWO = ["atan2", "pow", "fmod", "copysign", "hypot", "remainder"]


def outcome(f, *args):
    """A result and its class, or an error and its text."""
    try:
        y = f(*args)
    except Exception as error:
        return type(error), str(error)
    return type(y), repr(y)


anything = st.one_of(
    st.floats(), st.integers(-5, 5), st.booleans(), st.floats(-2, 2).map(np.float64), st.text(max_size=2), st.none()
)


@pytest.mark.parametrize("name", sorted(k for k in vars(MATH) if not k.startswith("_") and callable(vars(MATH)[k])))
@given(args=st.lists(anything, max_size=3))
def test_math_is_pythons_on_plain_numbers(name, args):
    assert outcome(getattr(MATH, name), *args) == outcome(getattr(math, name), *args)


@pytest.mark.parametrize("name", sorted(k for k in vars(CMATH) if not k.startswith("_") and callable(vars(CMATH)[k])))
@given(args=st.lists(st.one_of(anything, st.complex_numbers(max_magnitude=3)), max_size=2))
def test_cmath_is_pythons_on_plain_numbers(name, args):
    assert outcome(getattr(CMATH, name), *args) == outcome(getattr(cmath, name), *args)


@given(x=anything)
def test_float_and_complex_are_pythons_on_plain_numbers(x):
    assert outcome(Float, x) == outcome(float, x)
    assert outcome(Complex, x) == outcome(complex, x)


@pytest.mark.parametrize("name", ONE)
def test_math_of_one_traced_number(name):
    f = getattr(MATH, name)
    slope = finite_difference(getattr(math, name), 0.6)
    for g in (ad.grad(f), ad.jit(ad.grad(f)), ad.derivative(f)):
        assert g(0.6) == pytest.approx(slope, rel=1e-7)
    assert ad.vmap(f)(np.array([0.3, 0.6])) == pytest.approx([getattr(math, name)(x) for x in (0.3, 0.6)], rel=1e-14)


@pytest.mark.parametrize("name", TWO)
@pytest.mark.parametrize("place", [0, 1])
def test_math_of_two_numbers(name, place):
    f, plain, x = getattr(MATH, name), getattr(math, name), [1.3, 0.7]
    slope = finite_difference(lambda v: plain(*[v if i == place else y for i, y in enumerate(x)]), x[place])
    assert ad.grad(f, place)(*x) == pytest.approx(slope, rel=1e-7, abs=1e-9)
    assert ad.jit(ad.grad(f, place))(*x) == pytest.approx(slope, rel=1e-7, abs=1e-9)


def test_math_of_several():
    assert ad.grad(lambda x: MATH.fsum([x, x * x, 1.0]))(3.0) == 7.0
    assert ad.grad(lambda x: MATH.fsum(x * i for i in range(4)))(3.0) == 6.0
    assert ad.grad(lambda x: MATH.prod([x, 2.0, x]))(3.0) == 12.0
    assert ad.grad(lambda x: MATH.dist([x, 0.0], [0.0, 4.0]))(3.0) == 0.6
    assert ad.grad(lambda x: MATH.hypot(x, 4.0, 0.0))(3.0) == 0.6
    assert ad.grad(lambda x: MATH.log(x, 2))(3.0) == pytest.approx(1 / 3 / math.log(2))
    assert ad.grad(lambda b: MATH.log(8.0, b))(2.0) == pytest.approx(finite_difference(lambda b: math.log(8.0, b), 2.0), rel=1e-7)
    assert ad.grad(lambda x: MATH.modf(x)[0])(2.5) == 1.0
    assert ad.grad(lambda x: MATH.frexp(x)[0] * MATH.ldexp(x, 3))(2.5) == pytest.approx(10.0)
    assert ad.grad(lambda x: x * MATH.floor(x) + MATH.ceil(x) + MATH.trunc(x))(2.5) == 2.0
    assert ad.grad(lambda x: x if MATH.isclose(x, 2.0) and not MATH.isnan(x) else 0 * x)(2.0) == 1.0


@pytest.mark.parametrize(
    "name, good, bad",
    [("sqrt", 1.0, -1.0), ("log", 1.0, 0.0), ("exp", 1.0, 1e4), ("acos", 0.5, 2.0), ("lgamma", 1.5, -1.0), ("cosh", 1.0, 1e4)],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_domain_errors_are_pythons(name, good, bad):
    """A library that catches them takes the same branch, compiled too."""
    f, plain = getattr(MATH, name), getattr(math, name)
    with pytest.raises((ValueError, OverflowError)) as expected:
        plain(bad)
    for g in (ad.grad(f), ad.jit(ad.grad(f)), ad.jit(f)):
        g(good)
        with pytest.raises(expected.type, match=str(expected.value)):
            g(bad)

    def caught(x):
        try:
            return f(x)
        except (ValueError, OverflowError):
            return 7 * x

    g = ad.jit(ad.grad(caught))
    assert (g(good), g(bad)) == pytest.approx((ad.grad(f)(good), 7.0), rel=1e-15)
    hidden = lambda x: x if f(x) < 0 else 2 * x
    for h in (f, caught, hidden):  # a graph cannot raise
        staged = ad.graph(ad.value_and_grad(h), source=True)(good)
        assert staged(good) == pytest.approx(ad.value_and_grad(h)(good), rel=1e-15)
        assert np.isnan(staged(bad)).all()


@pytest.mark.parametrize("name", ONE)
def test_graphs_of_math(name):
    """Alone, and in a loop; a condition where the result may not be finite, and no other."""
    x = 0.3
    f, plain = getattr(MATH, name), getattr(math, name)

    def looped(x):
        total = 0.0
        for k in range(1, 12):
            total = total + f(x / k)
        return total

    for g, expected in ((f, plain(x)), (looped, sum(plain(x / k) for k in range(1, 12)))):
        value, slope = ad.graph(ad.value_and_grad(g), source=True)(x)(x)
        assert value == pytest.approx(expected, rel=1e-14)
        assert slope == pytest.approx(ad.grad(g)(x), rel=1e-13)
    assert ("isfinite" in str(ad.graph(f)(x))) == (name not in _FINITE)


_FINITE = ["sin", "cos", "tan", "atan", "tanh", "asinh", "erf", "erfc", "fabs", "cbrt", "radians"]


@pytest.mark.parametrize(
    "name", ["sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "atanh", "exp", "log", "log10", "sqrt"]
)
def test_cmath_of_a_traced_number(name):
    f, plain, z = getattr(CMATH, name), getattr(cmath, name), 0.3 + 0.4j
    slope = (plain(z + 1e-6) - plain(z - 1e-6)) / 2e-6
    assert ad.grad(f, holomorphic=True)(z) == pytest.approx(slope, rel=1e-8)
    assert ad.grad(lambda x: f(x).real)(0.3) == pytest.approx(finite_difference(lambda x: plain(x).real, 0.3), rel=1e-7, abs=1e-9)


def test_cmath_polar():
    assert ad.grad(lambda r: CMATH.rect(r, 0.5).imag)(2.0) == math.sin(0.5)
    assert ad.grad(lambda x: CMATH.phase(Complex(x, 1.0)))(1.0) == pytest.approx(-0.5)
    assert ad.grad(lambda x: CMATH.polar(Complex(3.0, x))[0])(4.0) == pytest.approx(0.8)


def test_float_of_traced_values():
    assert ad.grad(lambda x: Float(x) * 2)(3.0) == 2.0
    assert ad.grad(lambda x: Float(x[1]) * Float(x[:1]))(np.array([3.0, 4.0])).tolist() == [4.0, 3.0]
    assert ad.jit(ad.grad(lambda x: Float(x.sum())))(np.ones(3)).tolist() == [1.0, 1.0, 1.0]
    assert ad.vmap(lambda x: Float(x) + 1)(np.arange(3.0)).tolist() == [1.0, 2.0, 3.0]
    with pytest.raises(TypeError):
        ad.grad(lambda x: Float(x))(np.ones(2))
    with pytest.raises(TypeError):
        ad.grad(lambda x: Float(x + 1j))(1.0)
    assert ad.grad(lambda x: (x.astype(np.float32) * 1).sum() + Float(x.astype(np.float32)[0]))(np.ones(1)) == 2.0

    class Length:
        def __init__(self, metres):
            self.metres = metres

        def __float__(self):
            return self.metres

    assert ad.grad(lambda x: Float(Length(x * 3)))(1.0) == 3.0
    assert Float(Length(2.5)) == 2.5


def test_statistics():
    rng = random.Random(3)
    data = [rng.gauss(0, 1) for _ in range(7)]
    for name in [
        "mean",
        "fmean",
        "median",
        "median_low",
        "median_high",
        "variance",
        "pvariance",
        "stdev",
        "pstdev",
        "geometric_mean",
        "harmonic_mean",
    ]:
        f, plain = getattr(STATISTICS, name), getattr(statistics, name)
        x = np.array([abs(v) + 0.1 for v in data])
        assert f(x.tolist()) == plain(x.tolist())
        slope = [(plain([*(x + h)]) - plain([*(x - h)])) / 2e-6 for h in 1e-6 * np.eye(7)]
        assert ad.grad(lambda v, f=f: f(list(v)))(x) == pytest.approx(slope, rel=1e-5, abs=1e-7), name
    normal = STATISTICS.NormalDist
    assert ad.grad(lambda m: normal(m, 2.0).cdf(1.0))(0.5) == pytest.approx(-statistics.NormalDist(0.5, 2.0).pdf(1.0))


def test_fractions():
    assert FRACTIONS.Fraction(1, 3) == fractions.Fraction(1, 3)
    assert isinstance(fractions.Fraction(1, 3), FRACTIONS.Fraction)
    assert ad.grad(lambda x: FRACTIONS.Fraction(1, 4) * x + FRACTIONS.Fraction(x))(2.0) == 1.25


def test_builtins_that_stay(write):
    write(
        "builtin_s.py",
        """
        def f(x, y):
            z = sorted([x, y, 2.0])
            rounded = round(y) * x + round(x, 1) + int(y) * y + divmod(y, 1.0)[1]
            return abs(-x) + sum(z) + min(x, y) * max(x, y) + pow(x, 2) + rounded
        def kinds(x, n):
            import numbers, numpy as np
            return [
                isinstance(x, (int, float, np.ndarray, np.floating, numbers.Real)), isinstance(x, float),
                isinstance(x, numbers.Number), type(x) is float or type(x) is np.float64, isinstance(n, np.ndarray),
                type(n) is np.ndarray, not isinstance(n, float), not isinstance(x, complex),
            ]
        def scalars(x):
            import numpy as np
            listed = np.array([x], dtype=float).item() + np.array([[x]]).tolist()[0][0]
            return np.float64(x) * np.double(x) + np.float32(1.5) + listed
        """,
    )
    m = ad.adopt("builtin_s")
    x, y = 1.3, 2.6
    assert ad.grad(m.f)(x, y) == pytest.approx(1 + 1 + y + 2 * x + 3)
    assert ad.grad(m.f, 1)(x, y) == pytest.approx(1 + x + 2 + 1)
    seen = []
    ad.grad(lambda v, a: (seen.append(m.kinds(v, a)), v)[1])(1.0, np.ones(2))
    ad.grad(lambda a, v: (seen.append(m.kinds(v, a)), a.sum())[1])(np.ones(2), 1.0)
    assert all(map(all, seen)), seen
    assert ad.grad(m.scalars)(3.0) == 8.0
    assert ad.jit(ad.grad(m.scalars))(3.0) == 8.0
