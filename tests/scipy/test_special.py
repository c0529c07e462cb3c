"""scipy.special: derivatives against mpmath, the Python functions, refusals, and where each function stands."""

import subprocess
import sys

import mpmath
import numpy as np
import pytest
import scipy.special
from harness import check

import adjoint as ad
from adjoint.core.errors import UnsupportedError
from adjoint.scipy import special


def mp_slope(f, x):
    with mpmath.workdps(40):
        return complex(mpmath.diff(f, mpmath.mpmathify(x)))


# function of x, the same in mpmath, points
TRUTH = {
    "erf": (special.erf, mpmath.erf, [-3.0, -0.2, 0.0, 1.5]),
    "erfc": (special.erfc, mpmath.erfc, [-3.0, 0.0, 5.0]),
    "erfi": (special.erfi, mpmath.erfi, [-1.0, 0.0, 2.0]),
    "erfcx": (special.erfcx, lambda x: mpmath.exp(x * x) * mpmath.erfc(x), [-2.0, 0.0, 3.0, 19.0, 21.0, 300.0, 1e4]),
    "dawsn": (
        special.dawsn,
        lambda x: mpmath.sqrt(mpmath.pi) / 2 * mpmath.exp(-x * x) * mpmath.erfi(x),
        [0.0, 0.9, 5.0, 19.0, 21.0, -25.0],
    ),
    "log_ndtr": (special.log_ndtr, lambda x: mpmath.log(mpmath.ncdf(x)), [-30.0, -5.0, 0.0, 5.0]),
    "ndtri": (special.ndtri, lambda p: mpmath.sqrt(2) * mpmath.erfinv(2 * p - 1), [0.01, 0.5, 0.8]),
    "erfinv": (special.erfinv, mpmath.erfinv, [-0.9, 0.0, 0.3]),
    "gamma": (special.gamma, mpmath.gamma, [-2.5, 0.3, 1.0, 20.0]),
    "gammaln": (special.gammaln, mpmath.loggamma, [0.3, 1.0, 2.0, 1e3]),
    "rgamma": (special.rgamma, mpmath.rgamma, [-3.0, -2.5, 0.0, 1.0, 4.0]),
    "psi": (special.psi, mpmath.digamma, [-0.5, 0.1, 1.0, 50.0]),
    "polygamma": (lambda x: special.polygamma(2, x), lambda x: mpmath.polygamma(2, x), [0.3, 2.0, 30.0]),
    "zeta": (lambda q: special.zeta(2.5, q), lambda q: mpmath.zeta(2.5, q), [0.3, 1.0, 8.0]),
    "exprel": (special.exprel, lambda x: mpmath.expm1(x) / x, [-30.0, -1.0, 1e-9, 0.3, 20.0]),
    "expit": (special.expit, lambda x: 1 / (1 + mpmath.exp(-x)), [-40.0, 0.0, 3.0]),
    "log_expit": (special.log_expit, lambda x: -mpmath.log1p(mpmath.exp(-x)), [-40.0, 0.0, 40.0]),
    "spence": (special.spence, lambda z: mpmath.polylog(2, 1 - z), [0.2, 0.95, 1.0 + 1e-7, 1.05]),
    "j0": (special.j0, lambda x: mpmath.besselj(0, x), [0.0, 0.5, 10.0]),
    "j1": (special.j1, lambda x: mpmath.besselj(1, x), [0.0, 0.5, 10.0]),
    "jv": (lambda x: special.jv(2.5, x), lambda x: mpmath.besselj(2.5, x), [0.3, 4.0]),
    "yv": (lambda x: special.yv(1.5, x), lambda x: mpmath.bessely(1.5, x), [0.3, 4.0]),
    "iv": (lambda x: special.iv(0.5, x), lambda x: mpmath.besseli(0.5, x), [0.3, 4.0]),
    "kv": (lambda x: special.kv(0.7, x), lambda x: mpmath.besselk(0.7, x), [0.3, 4.0]),
    "i1e": (special.i1e, lambda x: mpmath.exp(-x) * mpmath.besseli(1, x), [0.3, 50.0]),
    "kve": (lambda x: special.kve(0.7, x), lambda x: mpmath.exp(x) * mpmath.besselk(0.7, x), [0.3, 50.0]),
    "struve": (lambda x: special.struve(0.5, x), lambda x: mpmath.struveh(0.5, x), [0.3, 4.0]),
    "expi": (special.expi, mpmath.ei, [0.3, 2.0, 10.0]),
    "exp1": (special.exp1, mpmath.e1, [0.3, 2.0, 10.0]),
    "expn": (lambda x: special.expn(3, x), lambda x: mpmath.expint(3, x), [0.3, 2.0, 10.0]),
    "si": (lambda x: special.sici(x)[0], mpmath.si, [1e-9, 0.3, 5.0]),
    "chi": (lambda x: special.shichi(x)[1], mpmath.chi, [0.3, 5.0]),
    "fresnel": (lambda x: special.fresnel(x)[0], mpmath.fresnels, [0.0, 0.5, 3.0]),
    "airy": (lambda x: special.airy(x)[3], lambda x: mpmath.airybi(x, derivative=1), [-2.0, 0.0, 1.0]),
    "ellipk": (special.ellipk, mpmath.ellipk, [-3.0, -1e-9, 0.05, 0.5, 0.99]),
    "ellipe": (special.ellipe, mpmath.ellipe, [-3.0, 1e-9, 0.05, 0.5, 0.99]),
    "ellipkm1": (special.ellipkm1, lambda p: mpmath.ellipk(1 - p), [1e-6, 0.5, 1.0 - 1e-9]),
    "ellipkinc": (lambda m: special.ellipkinc(0.8, m), lambda m: mpmath.ellipf(0.8, m), [-0.5, 1e-9, 0.019, 0.021, 0.7]),
    "ellipeinc": (lambda m: special.ellipeinc(4.0, m), lambda m: mpmath.ellipe(4.0, m), [-0.5, 1e-9, 0.019, 0.021, 0.7]),
    "lambertw": (lambda x: special.lambertw(x), mpmath.lambertw, [0.1, 0.0, 2.0, -0.3]),
    "hyp1f1": (lambda x: special.hyp1f1(0.4, 1.3, x), lambda x: mpmath.hyp1f1(0.4, 1.3, x), [-5.0, 0.0, 2.0]),
    "hyp2f1": (lambda x: special.hyp2f1(0.4, 1.3, 2.1, x), lambda x: mpmath.hyp2f1(0.4, 1.3, 2.1, x), [-0.8, 0.0, 0.6]),
    "boxcox": (lambda k: special.boxcox(3.0, k), lambda k: (mpmath.mpf(3) ** k - 1) / k, [-1.0, 1e-9, 0.5]),
    "gammainc": (
        lambda a: special.gammainc(a, 2.5),
        lambda a: mpmath.gammainc(a, 0, 2.5, regularized=True),
        [0.1, 1.0, 2.9, 3.1, 20.0],
    ),
    "gammaincc": (
        lambda a: special.gammaincc(a, 0.3),
        lambda a: mpmath.gammainc(a, 0.3, mpmath.inf, regularized=True),
        [0.02, 0.7, 5.0],
    ),
    "betainc": (lambda x: special.betainc(0.7, 2.5, x), lambda x: mpmath.betainc(0.7, 2.5, 0, x, regularized=True), [0.1, 0.9]),
    "owens_t": (
        lambda h: special.owens_t(h, 0.6),
        lambda h: mpmath.quad(lambda t: mpmath.exp(-h * h * (1 + t * t) / 2) / (1 + t * t), [0, 0.6]) / (2 * mpmath.pi),
        [0.5, 2.0],
    ),
    "agm": (lambda a: special.agm(a, 2.0), lambda a: mpmath.agm(a, 2), [0.1, 1.999999, 2.5]),
    "wrightomega": (special.wrightomega, lambda z: mpmath.lambertw(mpmath.exp(z)), [-3.0, 0.0, 10.0]),
    "poch": (lambda a: special.poch(a, 3.0), lambda a: a * (a + 1) * (a + 2), [-4.0, -3.5, -1.0, 0.5, 2.0]),
    "binom": (lambda n: special.binom(n, 2.0), lambda n: n * (n - 1) / 2, [0.3, 1.0, 4.0]),
}  # fmt: skip


@pytest.mark.parametrize("name", TRUTH)
def test_slopes_against_mpmath(name):
    f, g, points = TRUTH[name]
    for x in points:
        expected = mp_slope(g, x)
        _, t = ad.jvp(f, (x,), (1.0,))
        np.testing.assert_allclose(t, expected if np.iscomplexobj(t) else expected.real, rtol=2e-11, atol=1e-80)
        reverse = ad.grad(lambda x: np.real(f(x)))(x)
        np.testing.assert_allclose(reverse, expected.real, rtol=2e-11, atol=1e-80)


@pytest.mark.parametrize("name", [n for n in TRUTH if n not in ("gammaincc", "owens_t", "airy", "ellipeinc", "betainc")])
def test_second_slopes_against_mpmath(name):
    f, g, points = TRUTH[name]
    for x in points:
        if name in ("boxcox", "exprel") and abs(x) < 1e-6:
            continue  # mpmath's own quotient cancels here
        with mpmath.workdps(50):
            expected = float(mpmath.re(mpmath.diff(g, mpmath.mpf(x), 2)))
        found = ad.grad(ad.grad(lambda x: np.real(f(x))))(x)
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("f", [special.erf, special.erfcx, special.wofz, special.loggamma, special.gamma, special.exp1])
def test_complex_arguments(f):
    check(lambda z: f(z), np.array([0.5 + 0.3j, 1.2 - 0.4j]), order=1)
    z = 0.7 + 0.2j
    slope = ad.grad(f, holomorphic=True)(z)
    np.testing.assert_allclose(slope, (f(z + 1e-6) - f(z - 1e-6)) / 2e-6, rtol=1e-7)


# -- the Python functions -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("axis", [None, 0, 1, -1, (0, 1)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_logsumexp(axis, keepdims, rng):
    x, b = rng.uniform(-2, 2, (3, 4)), rng.uniform(0.5, 2, (3, 4))
    for weights in (None, b, b[0]):
        run = lambda x, weights=weights: special.logsumexp(x, axis=axis, b=weights, keepdims=keepdims)
        np.testing.assert_allclose(ad.vjp(run, x)[0], scipy.special.logsumexp(x, axis, weights, keepdims), rtol=1e-12)
        check(run, x)
    check(lambda x, b: special.logsumexp(x, axis, b, keepdims), x, b)


def test_logsumexp_with_signs(rng):
    x, b = rng.uniform(-2, 2, (3, 4)), np.array([1.0, -2.0, 0.0, 0.5])
    value, sign = ad.vjp(lambda x: special.logsumexp(x, 1, b, return_sign=True), x)[0]
    for found, plain in zip((value, sign), scipy.special.logsumexp(x, 1, b, return_sign=True), strict=True):
        np.testing.assert_allclose(found, plain)
    check(lambda x, b: special.logsumexp(x, 1, b, return_sign=True)[0], x, b)
    check(lambda z: special.logsumexp(z, 1), x + 0.3j * x, order=1)


def test_logsumexp_at_infinity():
    g = ad.grad(special.logsumexp)
    np.testing.assert_array_equal(g(np.array([-np.inf, 0.0, -np.inf])), [0, 1, 0])
    np.testing.assert_array_equal(g(np.array([-np.inf, -np.inf])), [0, 0])
    np.testing.assert_array_equal(g(np.array([np.inf, 1.0, np.inf])), [0.5, 0, 0.5])
    np.testing.assert_allclose(g(np.array([1e4, 1e4, 0.0])), [0.5, 0.5, 0])
    assert g(2.0) == 1
    assert special.logsumexp(np.array([1.0, 2.0])) == scipy.special.logsumexp(np.array([1.0, 2.0]))


@pytest.mark.parametrize("f", [special.softmax, special.log_softmax])
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 1)])
def test_softmax(f, axis, rng):
    x = rng.uniform(-2, 2, (3, 4))
    np.testing.assert_allclose(ad.vjp(lambda x: f(x, axis=axis), x)[0], f(x, axis), rtol=1e-12)
    check(lambda x: f(x, axis), x)
    np.testing.assert_allclose(ad.vjp(lambda x: f(x, axis), 1e4 * x)[0], f(1e4 * x, axis), rtol=1e-12)


@pytest.mark.parametrize(
    "f, args",
    [
        (lambda x: special.softplus(x), (np.array([-40.0, -1.0, 0.0, 2.0, 40.0]),)),
        (lambda x: special.polygamma(np.array([0, 1, 2]), x), (np.array([0.5, 1.5, 2.5]),)),
        (lambda a: special.multigammaln(a, 3), (np.array([2.5, 4.0]),)),
        (lambda n, k: special.comb(n, k), (np.array([5.3, 6.1]), np.array([2.2, 1.7]))),
        (lambda n: special.comb(n, 2, repetition=True), (np.array([5.3, 6.1]),)),
        (lambda n, k: special.perm(n, k), (np.array([5.3, 6.1]), np.array([2.2, 1.7]))),
        (lambda n: special.factorial(n), (np.array([0.5, 3.0, -0.7, 4.2]),)),
        (lambda x: special.spherical_jn(np.array([0, 1, 3]), x), (np.array([0.0, 0.5, 2.0]),)),
        (lambda x: special.spherical_jn(2, x, derivative=True), (np.array([0.0, 0.5, 2.0]),)),
        (lambda x: special.spherical_yn(1, x, True), (np.array([0.5, 2.0]),)),
        (lambda x: special.spherical_in(0, x, True), (np.array([0.5, 2.0]),)),
        (lambda x: special.spherical_kn(2, x, derivative=True), (np.array([0.5, 2.0]),)),
        (lambda x: special.jvp(1.5, x, 2), (np.array([0.5, 2.0]),)),
        (lambda x: special.kvp(1, x), (np.array([0.5, 2.0]),)),
        (lambda x: special.ivp(0, x, n=0), (np.array([0.5, 2.0]),)),
        (lambda x: special.yvp(1, x, 3), (np.array([0.5, 2.0]),)),
        (lambda x: special.h1vp(0.5, x), (np.array([0.5, 2.0]),)),
        (lambda x: special.h2vp(0.5, x), (np.array([0.5, 2.0]),)),
        (lambda x: special.lambertw(x), (np.array([0.5, 2.0]),)),
        (lambda x: special.lambertw(x, k=-1), (np.array([-0.2, -0.1]),)),
        (lambda x: special.diric(x, 5), (np.array([0.5, 2.0]),)),
        (lambda x: special.sinc(x), (np.array([0.0, 0.5, 2.0]),)),
        (lambda x: special.assoc_laguerre(x, 3, 0.5), (np.array([0.5, 2.0]),)),
        (lambda x: list(special.kelvin(x)), (np.array([0.5, 2.0]),)),
        (lambda x: list(special.pbdv(1.5, x)), (np.array([0.5, 2.0]),)),
        (lambda x: list(special.pbvv(1.5, x)), (np.array([0.5, 2.0]),)),
        (lambda x: list(special.pbwa(0.5, x)), (np.array([0.5, 2.0]),)),
        (lambda x: special.legendre(3)(x), (np.array([0.5, -0.2]),)),
    ],
)
def test_python_functions(f, args):
    check(f, *args, rtol=2e-5)


def test_names_and_options():
    assert special.erf is scipy.special.erf
    assert special.__all__ == scipy.special.__all__
    assert special.factorial(5, exact=True) == 120
    with pytest.raises(UnsupportedError, match="exact"):
        ad.grad(lambda n: special.factorial(n, exact=True))(3.0)
    x = np.array([0.1, 0.2])
    np.testing.assert_allclose(
        ad.jacobian(lambda x: scipy.special.xlogy.outer(x, np.array([2.0, 3.0])))(x)[1, :, 1], np.log([2, 3])
    )
    single = ad.grad(lambda x: np.sum(scipy.special.gammaln(x)))(np.array([1.5, 2.5], np.float32))
    assert single.dtype == np.float32


# -- nasty points -------------------------------------------------------------------------------------------------


def test_edges():
    both = lambda f, x, y: tuple(map(float, ad.grad(f, (0, 1))(x, y)))
    assert both(special.xlogy, 0.0, 0.0)[1] == 0
    assert both(special.xlogy, 0.0, 2.0) == (np.log(2), 0)
    assert both(special.xlog1py, 0.0, -1.0)[1] == 0
    assert both(special.rel_entr, -1.0, 2.0) == (0, 0)
    assert both(special.kl_div, 1.0, 1.0) == (0, 0)
    assert both(special.rel_entr, 0.0, 2.0)[1] == 0
    assert ad.grad(special.entr)(-1.0) == 0
    assert ad.grad(special.entr)(1.0) == -1
    assert both(special.huber, 1.0, 2.0) == (1, 1)
    assert both(special.huber, 1.0, -0.5) == (0, -0.5)
    assert both(special.huber, -1.0, 2.0) == (0, 0)
    assert both(special.pseudo_huber, 0.0, 2.0) == (2, 0)
    assert both(special.boxcox, 1.0, 0.0) == (1, 0)
    assert ad.grad(special.exprel)(0.0) == 0.5
    assert ad.grad(special.erf)(0.0) == 2 / np.sqrt(np.pi)
    assert ad.grad(lambda n: special.binom(5.0, n))(2.0) == pytest.approx(10 * (special.psi(4) - special.psi(3)))
    assert ad.grad(lambda x: special.gammainc(2.0, x))(-0.0) == 0


# -- refusals -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "f, name",
    [
        (lambda v: scipy.special.jv(v, 1.3), "v"),
        (lambda v: scipy.special.kv(v, 1.3), "v"),
        (lambda b: scipy.special.hyp2f1(0.3, b, 1.2, 0.4), "b"),
        (lambda s: special.zeta(s, 1.2), "x"),
        (lambda n: scipy.special.eval_legendre(n, 0.4), "n"),
        (lambda v: special.pbdv(v, 0.4)[0], "v"),
    ],
)
def test_missing_derivatives_name_their_argument(f, name):
    for run in (lambda: ad.grad(f)(2.5), lambda: ad.jvp(f, (2.5,), (1.0,))):
        with pytest.raises(UnsupportedError, match=f"argument '{name}'.*test_special"):
            run()
    np.testing.assert_allclose(ad.vmap(f)(np.array([2.5, 3.5]))[1], f(3.5))


def test_refused_functions_say_why():
    for f in (scipy.special.zetac, special.zetac, special.kolmogorov, special.stirling2, special.zeta):
        with pytest.raises(UnsupportedError, match=r"scipy\.special"):
            ad.grad(lambda x, f=f: f(x) if f is not special.stirling2 else f(x, 2))(2.5)


def test_every_function_has_a_status():
    found = {special.status(name) for name in scipy.special.__all__}
    assert found == {"differentiable", "constant", "refused"}
    assert [n for n in scipy.special.__all__ if special.status(n) == "refused" and n not in special._REASONS] == []
    assert special.status("round") == "constant"
    assert ad.grad(lambda x: scipy.special.round(x) * x)(2.2) == 2


def test_scipy_is_loaded_late():
    code = "import sys, adjoint, adjoint.numpy, adjoint.scipy; assert not any(m.split('.')[0] == 'scipy' for m in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_log_softmax_of_a_single_number():
    assert ad.value_and_grad(special.log_softmax)(0.37) == (0.0, 0.0)


INFINITE = [
    [1.0, 2.0, 3.0],
    [np.inf, 1.0, np.inf],
    [np.inf, -np.inf, 0.0],
    [-np.inf, -np.inf, -np.inf],
    [-np.inf, 2.0, 2.0],
    [np.nan, 1.0, np.inf],
    [-1e308, 1e308, 1e308],
]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_softmax_at_infinities(dtype):
    """Infinite ones share equally, and derivatives of the softmax there are zero; compiled, with x − y computed elsewhere too."""
    with np.errstate(over="ignore"):
        x = np.array(INFINITE).astype(dtype)
    wanted = np.array([[0.5, 0, 0.5], [1, 0, 0], [0, 0, 0], [0, 0.5, 0.5]])
    total = lambda x: np.sum(special.logsumexp(x, axis=1))
    both = lambda x: np.sum(np.exp(x - special.logsumexp(x, axis=1, keepdims=True))) + total(x)
    with np.errstate(all="ignore"):
        for f in (ad.grad(total), ad.jit(ad.grad(total))):
            found = f(x)
            assert found.dtype == dtype
            np.testing.assert_array_equal(found[1:4], wanted[:3].astype(dtype))
            np.testing.assert_allclose(found[4], wanted[3], rtol=1e-6)
            assert np.isnan(found[5]).all()
            np.testing.assert_allclose(found[0], np.exp(x[0]) / np.sum(np.exp(x[0])), rtol=1e-6)
        np.testing.assert_allclose(ad.jit(ad.grad(both))(x), ad.grad(both)(x), rtol=1e-5, atol=1e-6)
        second = ad.grad(lambda x: np.sum(ad.grad(total)(x) * np.arange(3.0)))
        for f in (second, ad.jit(second)):
            np.testing.assert_array_equal(f(x)[1:4], 0)


def test_logsumexp_with_a_number_as_weight_keeps_the_dtype():
    x = np.ones(3, np.float32)
    assert ad.vjp(lambda x: special.logsumexp(x, b=2.0), x)[0].dtype == np.float32
