"""Functions of scipy.special around the exponential and the error function, one line of calculus each.

Where the plain formula would cancel, another form of the same derivative is used.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core.op import case
from ..core.types import Value, dtype_of, shape_of
from .broadcast import cast, imag, real, spread, sum_, where
from .declare import constant, opaque
from .elementwise import (
    absolute,
    cos,
    equal,
    exp,
    expit,
    greater,
    greater_equal,
    hypot,
    isinf,
    isnan,
    less,
    less_equal,
    log,
    log1p,
    logical_and,
    logical_not,
    maximum,
    minimum,
    power,
    safe_ratio,
    sign,
    sin,
    strong_mul,
)
from .hypergeometric import hyp1f1
from .lazy import SPECIAL, Lazy, special

_ROOT_PI = math.sqrt(math.pi)
_ROOT_2PI = math.sqrt(2 * math.pi)
_DEGREE = math.pi / 180

# -- exponentials, logarithms, angles in degrees ----------------------------------------------------------------

exp10 = special("exp10", lambda y, x: (y * math.log(10),))
exprel = special("exprel", lambda y, x: (_exprel_slope(x),))
cosm1 = special("cosm1", lambda y, x: (-sin(x),))
logit = special("logit", lambda y, x: (1 / (x * (1 - x)),), domain=(0.1, 0.9))
log_expit = special(
    "log_expit", lambda y, x: (expit(-x),), scalar=lambda x: minimum(x, 0) - log1p(exp(-absolute(x))), finite=True
)
powm1 = special("powm1", lambda y, a, b: (b * power(a, b - 1), (1 + y) * log(a)), domain=((0.5, 2), (-2, 2)))
sindg = special("sindg", lambda y, x: (_DEGREE * cosdg(x),))
cosdg = special("cosdg", lambda y, x: (-_DEGREE * sindg(x),))
tandg = special("tandg", lambda y, x: (_DEGREE * (1 + y * y),))
cotdg = special("cotdg", lambda y, x: (-_DEGREE * (1 + y * y),), domain=(20, 70))
radian = special(
    "radian", lambda y, d, m, s: (_DEGREE, _DEGREE / 60, _DEGREE / 3600), cases=[case((3,), (3,), (3,)), case((2, 1), (2,), ())]
)
round_ = constant("round", Lazy("scipy.special", "round"))
SPECIAL["round"] = round_  # type: ignore[assignment]
# The Dirichlet kernel, sin(nx/2) / (n sin(x/2)). Its slope is 0 where both sines vanish.
diric = special(
    "diric",
    lambda y, x, n: (safe_ratio(cos(0.5 * n * x) - y * cos(0.5 * x), 2 * sin(0.5 * x)), None),
    domain=(0.5, 2),
    cases=[case((3,), 4), case((2, 2), 3)],
)


def _exprel_slope(x: Value) -> Value:
    """The derivative of (eˣ − 1)/x: no cancellation near 0, and closed under differentiation."""
    return 0.5 * hyp1f1(2.0, 3.0, x)


# -- the error function -----------------------------------------------------------------------------------------

erf = special("erf", lambda y, x: (2 / _ROOT_PI * exp(-x * x),), complex_domain=True, parity="odd", finite=True)
erfc = special("erfc", lambda y, x: (-2 / _ROOT_PI * exp(-x * x),), complex_domain=True, finite=True)
erfi = special("erfi", lambda y, x: (2 / _ROOT_PI * exp(x * x),), complex_domain=True, parity="odd")
erfcx = special(
    "erfcx",
    lambda y, x: (where(greater(real(x), 20), -_asymptotic(x, -1) / _ROOT_PI, 2 * x * y - 2 / _ROOT_PI),),
    complex_domain=True,
)
dawsn = special(
    "dawsn",
    lambda y, x: (where(greater(absolute(real(x)), 20), -0.5 * _asymptotic(x, 1), 1 - 2 * x * y),),
    complex_domain=True,
    finite=True,
)
wofz = special("wofz", lambda y, z: (2j / _ROOT_PI - 2 * z * y,), complex_domain=True)
erfinv = special("erfinv", lambda y, x: (_ROOT_PI / 2 * exp(y * y),), domain=(-0.9, 0.9))
erfcinv = special("erfcinv", lambda y, x: (-_ROOT_PI / 2 * exp(y * y),), domain=(0.2, 1.8))


def _asymptotic(x: Value, sign_: int) -> Value:
    """x⁻² Σ (±1)ⁿ (2n+1)!! (2x²)⁻ⁿ, the tail of the slopes of erfcx and dawsn, where their formulas cancel."""
    r = 1 / (2 * x * x)
    total: Value = 1.0
    for n in range(8, 0, -1):
        total = 1 + sign_ * (2 * n + 1) * r * total
    return 2 * r * total


def _normal_distribution(x: Value) -> Value:
    """The half of 1 + erf, or of erfc where that is small; in double precision, since the tail magnifies rounding errors."""
    x = cast(x, dtype=np.dtype(np.float64))
    z = x * math.sqrt(0.5)
    tail = 0.5 * erfc(absolute(z))
    return where(less(absolute(z), 1), 0.5 + 0.5 * erf(z), where(greater(z, 0), 1 - tail, tail))


ndtr = special(
    "ndtr", lambda y, x: (exp(-0.5 * x * x) / _ROOT_2PI,), complex_domain=True, scalar=_normal_distribution, finite=True
)
log_ndtr = special("log_ndtr", lambda y, x: (math.sqrt(2 / math.pi) / erfcx(-x / math.sqrt(2)),), complex_domain=True)
ndtri = special("ndtri", lambda y, p: (_ROOT_2PI * exp(0.5 * y * y),), domain=(0.1, 0.9))
ndtri_exp = special("ndtri_exp", lambda y, p: (math.sqrt(math.pi / 2) * erfcx(-y / math.sqrt(2)),), domain=(-3, -0.2))
owens_t = special(
    "owens_t",
    lambda y, h, a: (
        -exp(-0.5 * h * h) * erf(a * h / math.sqrt(2)) / (2 * _ROOT_2PI),
        exp(-0.5 * h * h * (1 + a * a)) / (2 * math.pi * (1 + a * a)),
    ),
)
# Re w(z) / (σ√2π) at z = (x + iγ)/(σ√2).
voigt_profile = special(
    "voigt_profile",
    lambda y, x, sigma, gamma: (
        real(_faddeeva_slope(x, sigma, gamma)) / (2 * _ROOT_PI * sigma * sigma),
        -(y + real(_faddeeva_slope(x, sigma, gamma) * (x + 1j * gamma)) / (2 * _ROOT_PI * sigma * sigma)) / sigma,
        -imag(_faddeeva_slope(x, sigma, gamma)) / (2 * _ROOT_PI * sigma * sigma),
    ),
    domain=((-2, 2), (0.5, 2), (0.5, 2)),
    cases=[case((3,), (3,), (3,)), case((2, 1), (2,), ())],
)


def _faddeeva_slope(x: Value, sigma: Value, gamma: Value) -> Value:
    z = (x + 1j * gamma) / (math.sqrt(2) * sigma)
    return 2j / _ROOT_PI - 2 * z * wofz(z)


# -- entropies and losses: zero slope outside the domain, where the value is infinite ---------------------------

entr = special(
    "entr",
    lambda y, x: (where(less(x, 0), 0.0, -log(x) - 1),),
    domain=(0.2, 2),
    scalar=lambda x: where(less(x, 0), -math.inf, where(equal(x, 0), 0, -(x * log(x)))),
)
rel_entr = special(
    "rel_entr",
    lambda y, x, y_: (where(_entropic(x, y_), log(x / y_) + 1, 0.0), where(_entropic(x, y_), -x / y_, 0.0)),
    domain=(0.2, 2),
)
kl_div = special(
    "kl_div",
    lambda y, x, y_: (where(_entropic(x, y_), log(x / y_), 0.0), where(_entropic(x, y_), 1 - safe_ratio(x, y_), 0.0)),
    domain=(0.2, 2),
)


def _entropic(x: Value, y: Value) -> Value:
    """Whether x log(x/y) is finite at (x, y) or about to be."""
    return logical_and(greater_equal(x, 0), greater(y, 0))


def _times_log(x: Value, y: Value, log_: Any) -> Value:
    """x log(y), or x log(1 + y): zero where x is, unless y is nan."""
    return where(logical_and(equal(x, 0), logical_not(isnan(y))), 0, x * log_(y))


xlogy = special(
    "xlogy",
    lambda y, x, a: (log(a), where(equal(x, 0), 0.0, x / a)),
    domain=((-2, 2), (0.3, 2)),
    complex_domain=True,
    scalar=lambda x, y: _times_log(x, y, log),
)
xlog1py = special(
    "xlog1py",
    lambda y, x, a: (log1p(a), where(equal(x, 0), 0.0, x / (1 + a))),
    domain=((-2, 2), (-0.5, 2)),
    complex_domain=True,
    scalar=lambda x, y: _times_log(x, y, log1p),
)
huber = special(
    "huber",
    lambda y, delta, r: (
        where(less_equal(absolute(r), delta), 0.0, where(less(delta, 0), 0.0, absolute(r) - delta)),
        where(less(delta, 0), 0.0, where(less_equal(absolute(r), delta), r, delta * sign(r))),
    ),
    domain=((0.5, 1.5), (-2, 2)),
)
# δ(h − δ) with h = √(δ² + r²); h − δ = r²/(h + δ) does not cancel.
pseudo_huber = special(
    "pseudo_huber",
    lambda y, delta, r: (
        safe_ratio(power(safe_ratio(r * r, hypot(delta, r) + delta), 2), hypot(delta, r)),
        safe_ratio(delta * r, hypot(delta, r)),
    ),
    domain=((0.5, 1.5), (-2, 2)),
)

# -- power transforms: with L = log x, (xᵏ − 1)/k = L exprel(kL) ------------------------------------------------


def _by_power(k: Value, L: Value) -> Value:
    """The derivative of L exprel(kL) by k, exact at k = 0, and at L = −∞, where the function is −1/k."""
    end = logical_and(equal(L, -np.inf), greater(k, 0))
    z = where(end, k, 1.0)
    return where(end, 1 / (z * z), L * L * _exprel_slope(k * L))


boxcox = special("boxcox", lambda y, x, lmbda: (power(x, lmbda - 1), _by_power(lmbda, log(x))), domain=((0.3, 2), (-2, 2)))
boxcox1p = special(
    "boxcox1p", lambda y, x, lmbda: (power(1 + x, lmbda - 1), _by_power(lmbda, log1p(x))), domain=((-0.5, 2), (-2, 2))
)
inv_boxcox = special(
    "inv_boxcox",
    lambda x, y, lmbda: (power(x, 1 - lmbda), -power(x, 1 - lmbda) * _by_power(lmbda, log(x))),
    domain=((0.1, 0.6), (-1, 1)),
)
inv_boxcox1p = special(
    "inv_boxcox1p",
    lambda x, y, lmbda: (power(1 + x, 1 - lmbda), -power(1 + x, 1 - lmbda) * _by_power(lmbda, log1p(x))),
    domain=((0.1, 0.6), (-1, 1)),
)
# The distribution function of Tukey's lambda; its inverse is (pᵏ − (1−p)ᵏ)/k.
tklmbda = special(
    "tklmbda",
    lambda p, x, lmbda: (
        _tukey_density(p, lmbda),
        -_tukey_density(p, lmbda) * (_by_power(lmbda, log(p)) - _by_power(lmbda, log1p(-p))),
    ),
    domain=((-0.7, 0.7), (-0.6, 0.6)),
)


def _tukey_density(p: Value, k: Value) -> Value:
    inside = logical_and(greater(p, 0), less(p, 1))
    return where(inside, 1 / (power(p, k - 1) + power(1 - p, k - 1)), 0.0)


# -- the product logarithm --------------------------------------------------------------------------------------

# W' = 1 / (z + e^W), which holds at z = 0 too.
lambertw = special(
    "lambertw",
    lambda w, z, k, tol: (exp(-w) / (1 + w), None, None),
    domain=(0.2, 2),
    cases=[case((3,), 0, 1e-8), case((2, 2), np.array([0, 1]), 1e-8)],
    complex_domain=True,
)

# -- log-sum-exp ------------------------------------------------------------------------------------------------


def _logsumexp(x: Any, *, axis: tuple[int, ...]) -> Any:
    top = np.max(x, axis=axis, keepdims=True, initial=-np.inf)
    with np.errstate(divide="ignore", over="ignore"):
        shift_ = np.where(np.isfinite(top), top, 0)
        y = np.log(np.sum(np.exp(x - shift_), axis=axis, keepdims=True)) + shift_
    return np.squeeze(y, axis)[()]


def softmax_of(x: Value, y: Value, axis: tuple[int, ...]) -> Value:
    """exp(x − y), where y is the log-sum-exp. Zero where all are −inf; infinite ones share equally."""
    y = spread(y, shape_of(x), axis, False)
    infinite, difference = isinf(y), x - y
    if isinstance(infinite, np.ndarray | np.generic) and not np.any(infinite):
        return exp(difference)
    weights = exp(where(infinite, -np.inf, difference))  # so that derivatives there are 0, and not nan
    ties = logical_and(equal(y, np.inf), isnan(difference))  # inf − inf
    shares = cast(ties, dtype=np.finfo(dtype_of(weights)).dtype)
    return where(ties, 1 / maximum(sum_(shares, axis=axis, keepdims=True), 1.0), weights)


logsumexp = opaque(
    "logsumexp",
    _logsumexp,
    jvp=lambda ts, y, x, *, axis: sum_(strong_mul(ts[0], softmax_of(x, y, axis)), axis=axis, keepdims=False),
    vjp=lambda g, y, x, *, axis: (strong_mul(spread(g, shape_of(x), axis, False), softmax_of(x, y, axis)),),
    axes="axis",
    cases=[case((3,), axis=(0,)), case((2, 3), axis=(1,)), case((2, 3, 2), axis=(0, 2))],
    doc="log Σ exp(x) over axes, without overflow; the derivative is the softmax.",
    python="logsumexp({0}, {axis})",
    finite=True,
)
