"""Hypergeometric functions and their family: orthogonal polynomials, exponential integrals.

Each family is closed under differentiation: the derivative is the same function with shifted parameters. There is no derivative
with respect to the parameters themselves.
"""

from __future__ import annotations

import math

import numpy as np

from ..core.op import case
from ..core.types import Value
from .broadcast import where
from .elementwise import absolute, cos, equal, exp, less, log1p, maximum, sin, sinc
from .gamma import binom
from .lazy import special, special_many

# -- pFq --------------------------------------------------------------------------------------------------------

hyp0f1 = special(
    "hyp0f1",
    lambda y, v, z: (None, hyp0f1(v + 1, z) / v),
    cases=[case(np.array([0.5, 1.5, 2.0]), (3,)), case(1.5, (2, 2))],
    complex_domain=True,
)
hyp1f1 = special(
    "hyp1f1",
    lambda y, a, b, x: (None, None, a / b * hyp1f1(a + 1, b + 1, x)),
    cases=[case(np.array([0.5, 1.5, -0.3]), np.array([1.5, 2.5, 0.7]), (3,)), case(1.0, 2.0, (2, 2))],
    complex_domain=True,
)
hyp2f1 = special(
    "hyp2f1",
    lambda y, a, b, c, z: (None, None, None, a * b / c * hyp2f1(a + 1, b + 1, c + 1, z)),
    domain=(-0.8, 0.8),
    cases=[case(0.5, 1.5, np.array([2.5, 1.2, 0.8]), (3,)), case(1.0, 1.0, 2.0, (2, 2))],
    complex_domain=True,
)
hyperu = special(
    "hyperu",
    lambda y, a, b, x: (None, None, -a * hyperu(a + 1, b + 1, x)),
    domain=(0.5, 2),
    cases=[case(np.array([0.5, 1.5, 0.3]), np.array([1.5, 2.5, 0.7]), (3,))],
)
wright_bessel = special(
    "wright_bessel",
    lambda y, a, b, x: (None, None, wright_bessel(a, a + b, x)),
    domain=(0.5, 2),
    cases=[case(np.array([0.5, 1.5, 0.3]), np.array([1.5, 2.5, 0.7]), (3,))],
)
log_wright_bessel = special(
    "log_wright_bessel",
    lambda y, a, b, x: (None, None, exp(log_wright_bessel(a, a + b, x) - y)),
    domain=(0.5, 2),
    cases=[case(np.array([0.5, 1.5, 0.3]), np.array([1.5, 2.5, 0.7]), (3,))],
)

# -- exponential integrals and their kin ------------------------------------------------------------------------

expi = special("expi", lambda y, x: (exp(x) / x,), domain=(0.3, 2), complex_domain=True)
exp1 = special("exp1", lambda y, x: (-exp(-x) / x,), domain=(0.3, 2), complex_domain=True)
expn = special(
    "expn",
    lambda y, n, x: (None, where(less(n, 1), -y * (1 + 1 / x), -expn(maximum(n - 1, 0), x))),
    domain=(0.3, 2),
    cases=[case(np.array([0, 1, 4]), (3,)), case(2, (2, 2))],
)
# sin(x)/x and sinh(x)/x in forms that are exact at 0, with all their derivatives.
sici = special_many("sici", lambda ys, x: (sinc(x / math.pi), cos(x) / x), domain=(0.3, 2))
shichi = special_many("shichi", lambda ys, x: (hyp0f1(1.5, 0.25 * x * x), _cosh(x) / x), domain=(0.3, 2), complex_domain=True)


def _cosh(x: Value) -> Value:
    return 0.5 * (exp(x) + exp(-x))


fresnel = special_many(
    "fresnel", lambda ys, x: (sin(math.pi / 2 * x * x), cos(math.pi / 2 * x * x)), domain=(-1.5, 1.5), complex_domain=True
)
# F₊(x) = ∫ₓ exp(it²) and K₊ = exp(−i(x² + π/4)) F₊ / √π; F₋ and K₋ are their conjugates.
modfresnelp = special_many(
    "modfresnelp",
    lambda ys, x: (-exp(1j * x * x), -2j * x * ys[1] - (1 - 1j) / math.sqrt(2 * math.pi)),
    domain=(0.2, 2),
)
modfresnelm = special_many(
    "modfresnelm",
    lambda ys, x: (-exp(-1j * x * x), 2j * x * ys[1] - (1 + 1j) / math.sqrt(2 * math.pi)),
    domain=(0.2, 2),
)


def _log_ratio(w: Value) -> Value:
    """log(1 + w) / w; a hypergeometric function near 0, where the quotient would lose the higher derivatives."""
    near = less(absolute(w), 0.1)
    return where(near, hyp2f1(1.0, 1.0, 2.0, -where(near, w, 0.0)), log1p(w) / w)


spence = special("spence", lambda y, z: (-_log_ratio(z - 1),), domain=(0.3, 1.8), complex_domain=True)
wrightomega = special("wrightomega", lambda y, z: (y / (1 + y),), complex_domain=True)

# -- orthogonal polynomials: the derivative has degree n − 1 and neighbouring parameters ------------------------

_DEGREES = [case(np.array([0, 1, 2, 5]), (4,)), case(3, (2, 2)), case(np.array(2.5), (3,))]
_WHOLE_DEGREES = [case(np.array([0, 1, 2, 5]), (4,)), case(3, (2, 2))]


def _below(n: Value) -> Value:
    """The degree below n. A constant has none: its factor is zero, so any value serves."""
    return where(equal(n, 0), 0, n - 1)


def _unless_constant(n: Value, slope: Value) -> Value:
    return where(equal(n, 0), 0.0, slope)


def _jacobi_slope(n: Value, alpha: Value, beta: Value, x: Value) -> Value:
    return _unless_constant(n, 0.5 * (n + alpha + beta + 1) * eval_jacobi(_below(n), alpha + 1, beta + 1, x))


eval_jacobi = special(
    "eval_jacobi",
    lambda y, n, alpha, beta, x: (None, None, None, _jacobi_slope(n, alpha, beta, x)),
    domain=(-0.9, 0.9),
    cases=[case(np.array([0, 1, 2, 5]), 0.5, 1.5, (4,)), case(3, 1.0, 0.3, (2, 2))],
)
eval_sh_jacobi = special(
    "eval_sh_jacobi",
    lambda y, n, p, q, x: (
        None, None, None, 2 * _jacobi_slope(n, p - q, q - 1, 2 * x - 1) / binom(2 * n + p - 1, n)
    ),
    domain=(0.1, 0.9),
    cases=[case(np.array([0, 1, 2, 5]), 2.5, 1.5, (4,)), case(3, 2.0, 1.3, (2, 2))],
)  # fmt: skip
eval_gegenbauer = special(
    "eval_gegenbauer",
    lambda y, n, alpha, x: (None, None, _unless_constant(n, 2 * alpha * eval_gegenbauer(_below(n), alpha + 1, x))),
    domain=(-0.9, 0.9),
    cases=[case(np.array([0, 1, 2, 5]), 0.5, (4,)), case(3, 1.0, (2, 2))],
)
eval_legendre = special("eval_legendre", lambda y, n, x: (None, _jacobi_slope(n, 0, 0, x)), domain=(-0.9, 0.9), cases=_DEGREES)
eval_sh_legendre = special(
    "eval_sh_legendre", lambda y, n, x: (None, 2 * _jacobi_slope(n, 0, 0, 2 * x - 1)), domain=(0.1, 0.9), cases=_DEGREES
)
eval_chebyt = special("eval_chebyt", lambda y, n, x: (None, n * eval_chebyu(_below(n), x)), domain=(-0.9, 0.9), cases=_DEGREES)
eval_chebyu = special("eval_chebyu", lambda y, n, x: (None, _chebyu_slope(n, x)), domain=(-0.9, 0.9), cases=_DEGREES)
eval_chebyc = special("eval_chebyc", lambda y, n, x: (None, n * eval_chebys(_below(n), x)), cases=_DEGREES, domain=(-1.8, 1.8))
eval_chebys = special("eval_chebys", lambda y, n, x: (None, 0.5 * _chebyu_slope(n, x / 2)), cases=_DEGREES, domain=(-1.8, 1.8))
eval_sh_chebyt = special(
    "eval_sh_chebyt", lambda y, n, x: (None, 2 * n * eval_chebyu(_below(n), 2 * x - 1)), domain=(0.1, 0.9), cases=_DEGREES
)
eval_sh_chebyu = special(
    "eval_sh_chebyu", lambda y, n, x: (None, 2 * _chebyu_slope(n, 2 * x - 1)), domain=(0.1, 0.9), cases=_DEGREES
)
eval_hermite = special("eval_hermite", lambda y, n, x: (None, 2 * n * eval_hermite(_below(n), x)), cases=_WHOLE_DEGREES)
eval_hermitenorm = special("eval_hermitenorm", lambda y, n, x: (None, n * eval_hermitenorm(_below(n), x)), cases=_WHOLE_DEGREES)
eval_laguerre = special("eval_laguerre", lambda y, n, x: (None, _laguerre_slope(n, 0.0, x)), cases=_DEGREES)
eval_genlaguerre = special(
    "eval_genlaguerre",
    lambda y, n, alpha, x: (None, None, _laguerre_slope(n, alpha, x)),
    cases=[case(np.array([0, 1, 2, 5]), 0.5, (4,)), case(3, 1.0, (2, 2))],
)


def _chebyu_slope(n: Value, x: Value) -> Value:
    return _unless_constant(n, 2 * eval_gegenbauer(_below(n), 2.0, x))


def _laguerre_slope(n: Value, alpha: Value, x: Value) -> Value:
    return _unless_constant(n, -eval_genlaguerre(_below(n), alpha + 1, x))


# Associated Legendre functions of real degree; this form does not give the slope at ±1.
lpmv = special(
    "lpmv",
    lambda y, m, v, x: (None, None, (v * x * y - (v + m) * lpmv(m, _below(v), x)) / (x * x - 1)),
    domain=(-0.8, 0.8),
    cases=[case(np.array([0, 1, 2]), np.array([0, 2, 3]), (3,)), case(1, 2.5, (2, 2))],
)
