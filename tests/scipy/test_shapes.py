"""Distribution functions by their shapes: the incomplete beta function, Student's and Fisher's, against mpmath and SciPy."""

import itertools

import mpmath
import numpy as np
import pytest
import scipy.special
import scipy.stats
from harness import check
from mpmath import mpf

import adjoint as ad
from adjoint.core.errors import UnsupportedError
from adjoint.scipy import special, stats

SHAPES = [0.05, 0.7, 1.0, 3.5, 60.0, 500.0]
ORDERS = [(1, 0), (0, 1), (2, 0), (1, 1), (0, 2)]


def lower(a, b, x):
    """I_x(a, b) by a series of positive terms, for x below the mean."""
    return x**a * (1 - x) ** b / (a * mpmath.beta(a, b)) * mpmath.hyp2f1(a + b, 1, a + 1, x)


def mp_betainc(a, b, x):
    return lower(a, b, x) if x * (a + b) < a else 1 - lower(b, a, 1 - x)


def differences(f, a, b):
    """The derivatives of ORDERS by central differences in 60 digits."""
    h, k = a * mpf(10) ** -10, b * mpf(10) ** -10
    y = {(i, j): f(a + i * h, b + j * k) for i in (-1, 0, 1) for j in (-1, 0, 1)}
    return [
        (y[1, 0] - y[-1, 0]) / (2 * h),
        (y[0, 1] - y[0, -1]) / (2 * k),
        (y[1, 0] - 2 * y[0, 0] + y[-1, 0]) / h**2,
        (y[1, 1] - y[1, -1] - y[-1, 1] + y[-1, -1]) / (4 * h * k),
        (y[0, 1] - 2 * y[0, 0] + y[0, -1]) / k**2,
    ]


def derivatives(f, a, b):
    """The same by our own modes, of f(a, b) elementwise."""
    by_a = lambda a, b: ad.jvp(lambda a: f(a, b), (a,), (np.ones_like(a),))[1]
    by_b = lambda a, b: ad.vjp(lambda b: f(a, b), b)[1](np.ones_like(b))[0]
    return [
        by_a(a, b),
        by_b(a, b),
        ad.jvp(lambda a: by_a(a, b), (a,), (np.ones_like(a),))[1],
        ad.vjp(lambda b: by_a(a, b), b)[1](np.ones_like(b))[0],
        ad.jvp(lambda b: by_b(a, b), (b,), (np.ones_like(b),))[1],
    ]


@pytest.mark.parametrize("level", [1e-9, 0.03, 0.5, 0.8, 1 - 1e-9])
def test_betainc_by_its_shapes_against_mpmath(level):
    a, b = np.array(list(itertools.product(SHAPES, SHAPES))).T
    x = scipy.special.betaincinv(a, b, level)
    keep = (x > 1e-290) & (x < 1)
    a, b, x = a[keep], b[keep], x[keep]
    found = derivatives(lambda a, b: special.betainc(a, b, x), a, b)
    with mpmath.workdps(60):
        expected = [
            differences(lambda a, b, x=x: mp_betainc(a, b, mpf(x)), mpf(a), mpf(b)) for a, b, x in zip(a, b, x, strict=True)
        ]
    expected = np.array(expected, float).T
    for order, ours, theirs in zip(ORDERS, found, expected, strict=True):
        # Second derivatives pass through zero, in the middle and, at a shape of 1, in the tail.
        rtol = 1e-10 if sum(order) == 1 else 1e-7
        np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=0 if sum(order) == 1 else 1e-13 if level == 0.5 else 1e-16)


@pytest.mark.parametrize("x", [1e-200, 1e-30, 1e-8, 1 - 1e-8, 1 - 2.0**-53])
def test_betainc_by_its_shapes_near_the_ends(x):
    a, b = np.array([0.05, 0.4, 2.2, 7.0, 0.4]), np.array([0.05, 12.0, 0.3, 4.0, 500.0])
    found = derivatives(lambda a, b: special.betainc(a, b, x), a, b)
    with mpmath.workdps(400):
        expected = [differences(lambda a, b: mp_betainc(a, b, mpf(x)), mpf(a), mpf(b)) for a, b in zip(a, b, strict=True)]
    expected = np.array([[float(e) for e in row] for row in expected]).T
    np.testing.assert_allclose(found[:2], expected[:2], rtol=1e-9, atol=1e-300)
    np.testing.assert_allclose(found[2:], expected[2:], rtol=1e-7, atol=1e-300)


def test_betainc_by_its_shapes_at_the_ends_and_at_no_shape():
    slopes = ad.grad(special.betainc, (0, 1))
    for x in (0.0, 1.0):
        assert slopes(2.5, 0.7, x) == (0, 0)
        assert ad.grad(ad.grad(special.betainc))(2.5, 0.7, x) == 0
    assert np.isnan(ad.grad(lambda a: special.betainc(a, 1.0, 0.4))(-1.0))
    assert np.isnan(ad.grad(lambda a: special.betainc(a, 1.0, 0.4))(np.nan))
    single = ad.grad(lambda a: np.sum(special.betainc(a, np.float32(2), np.float32(0.4))))(np.array([1.5, 2.5], np.float32))
    assert single.dtype == np.float32


def test_third_derivative_and_plain_cases():
    # I_x(a, 1) = x^a, and I_x(1, b) = 1 − (1−x)^b
    a, x = 2.5, 0.3
    third = ad.grad(ad.grad(ad.grad(lambda a: special.betainc(a, 1.0, x))))
    np.testing.assert_allclose(third(a), x**a * np.log(x) ** 3, rtol=1e-10)
    third = ad.grad(ad.grad(ad.grad(lambda b: special.betaincc(1.0, b, x))))
    np.testing.assert_allclose(third(a), (1 - x) ** a * np.log(1 - x) ** 3, rtol=1e-10)
    hessian = ad.hessian(lambda z: special.betainc(z[0], z[1], z[2]))(np.array([2.5, 1.7, 0.3]))
    np.testing.assert_allclose(hessian, hessian.T, rtol=1e-12)


# -- Student and Fisher -------------------------------------------------------------------------------------------


def mp_student(df, t):
    """The distribution function at t < 0."""
    return (
        lower(df / 2, mpf(1) / 2, df / (df + t * t)) / 2
        if t * t > 1
        else mpf(1) / 2 - lower(mpf(1) / 2, df / 2, t * t / (df + t * t)) / 2
    )


@pytest.mark.parametrize("df", [0.1, 1.0, 4.3, 90.0, 1e3, 1e6])
def test_stdtr_by_df_against_mpmath(df):
    t = np.array([-1e4, -40.0, -6.0, -2.3, -1.4, -0.6, -0.01, -1e-12])
    f = lambda df, t: special.stdtr(df, t)
    first = ad.jvp(lambda df: f(df, t), (np.full(8, df),), (np.ones(8),))[1]
    second = ad.jvp(lambda df: ad.vjp(lambda df: f(df, t), df)[1](np.ones(8))[0], (np.full(8, df),), (np.ones(8),))[1]
    with mpmath.workdps(80):
        h = mpf(df) * mpf(10) ** -12
        rows = [[mp_student(mpf(df) + i * h, mpf(s)) for i in (-1, 0, 1)] for s in t]
        expected = np.array([[(c - a) / (2 * h), (a - 2 * b + c) / h**2] for a, b, c in rows], float).T
    np.testing.assert_allclose(first, expected[0], rtol=1e-9, atol=1e-200)
    np.testing.assert_allclose(second, expected[1], rtol=1e-7, atol=1e-200)
    np.testing.assert_allclose(ad.jvp(lambda df: f(df, -t), (np.full(8, df),), (np.ones(8),))[1], -first)


def test_stdtr_in_the_middle_and_at_infinity():
    assert ad.grad(special.stdtr)(3.0, 0.0) == 0
    assert ad.grad(special.stdtr)(np.inf, 0.7) == 0
    assert ad.grad(special.stdtr)(np.array(0.7), -np.inf) == 0
    mixed, other = ad.grad(ad.grad(special.stdtr, 0), 1)(3.0, 0.0), ad.grad(ad.grad(special.stdtr, 1), 0)(3.0, 0.0)
    density = lambda df: scipy.stats.t.pdf(0.0, df)
    np.testing.assert_allclose([mixed, other], (density(3 + 1e-5) - density(3 - 1e-5)) / 2e-5, rtol=1e-8)


@pytest.mark.parametrize("x", [1e-6, 0.2, 0.9, 3.0, 50.0])
def test_fdtr_by_its_shapes_against_mpmath(x):
    dfn, dfd = np.array(list(itertools.product([0.3, 2.0, 35.0], [0.6, 5.0, 200.0]))).T
    found = derivatives(lambda m, n: special.fdtr(m, n, x), dfn, dfd)
    with mpmath.workdps(80):
        f = lambda m, n: mp_betainc(m / 2, n / 2, m * mpf(x) / (n + m * mpf(x)))
        expected = np.array([differences(f, mpf(m), mpf(n)) for m, n in zip(dfn, dfd, strict=True)], float).T
    np.testing.assert_allclose(found[:2], expected[:2], rtol=1e-9, atol=1e-13 * min(x, 1))
    np.testing.assert_allclose(found[2:], expected[2:], rtol=1e-7, atol=1e-13 * min(x, 1))
    assert ad.grad(special.fdtrc, (0, 1, 2))(2.5, 3.5, 0.0)[:2] == (0, 0)


# -- scipy.stats --------------------------------------------------------------------------------------------------


def slope_of(f, s):
    """By Richardson's rule from SciPy's values."""
    d = lambda h: (f(s + h) - f(s - h)) / (2 * h)
    return (4 * d(1e-3 * s) - d(2e-3 * s)) / 3


@pytest.mark.parametrize(
    "name, x, shapes",
    [
        ("t", np.array([-7.0, -1.2, 0.0, 0.4, 3.0]), (2.7,)),
        ("beta", np.array([0.02, 0.4, 0.97]), (0.6, 2.8)),
        ("beta", np.array([0.3, 0.5, 0.62]), (40.0, 35.0)),
        ("f", np.array([0.05, 0.9, 6.0]), (3.2, 7.5)),
        ("nbinom", np.array([0.0, 2.0, 9.0]), (2.5, 0.4)),
    ],
)
@pytest.mark.parametrize("method", ["cdf", "sf", "logcdf", "logsf"])
def test_stats_by_shapes_against_differences_of_scipy(name, x, shapes, method):
    ours, theirs = getattr(getattr(stats, name), method), getattr(getattr(scipy.stats, name), method)
    for i, s in enumerate(shapes):
        at = lambda f, s, i=i: f(x, *shapes[:i], s, *shapes[i + 1 :])
        expected = slope_of(lambda s: at(theirs, s), s)  # noqa: B023 - called at once
        np.testing.assert_allclose(ad.jacobian(lambda s: at(ours, s))(s), expected, rtol=1e-7, atol=1e-11)  # noqa: B023
    check(lambda *shapes: ours(x, *shapes), *map(np.array, shapes))


def test_counts_of_trials_have_no_derivative():
    with pytest.raises(UnsupportedError):
        ad.grad(lambda n: stats.binom.cdf(2, n, 0.4))(5.0)
    with pytest.raises(UnsupportedError):
        ad.grad(lambda k: stats.nbinom.cdf(k, 2.5, 0.4))(2.0)


@pytest.mark.parametrize("name, shapes", [("beta", (2.2, 1.6)), ("t", (3.5,)), ("f", (3.0, 5.5))])
@pytest.mark.parametrize("method", ["ppf", "isf"])
def test_quantiles_by_shapes(name, shapes, method):
    ours = getattr(getattr(stats, name), method)
    check(lambda *shapes: ours(np.array([0.1, 0.4, 0.85]), *shapes), *map(np.array, shapes), rtol=2e-5, rtol2=2e-3)
