"""The incomplete gamma function by its shape: P(a, x) = ∫₀ˣ t^(a−1) e^(−t) dt / Γ(a), differentiated by a.

Under the integral, ∂ₐᵏ brings the factor Bₖ: B₁ = log t − ψ(a), B₂ = B₁² − ψ'(a), and so on, the Bell polynomials. Over the whole
half line each averages to zero, so the integral may be taken below or above x. B₁ changes sign where log t = ψ(a): on the side of
x without such a point nothing cancels.

- x < 1: the power series of P, differentiated term by term.
- else: Gauss-Legendre quadrature in s, with t = x e^(∓s), up to where the integrand has fallen by e^(−45).
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from ..core.op import case
from ..core.types import Value
from .broadcast import where
from .declare import elementwise
from .elementwise import exp, greater, log
from .gamma import gammaln, polygamma, psi
from .lazy import Lazy

_CHUNK = 4096  # elements at a time: the quadrature is a matrix of nodes by elements

_digamma = Lazy("scipy.special", "psi")
_hurwitz = Lazy("scipy.special", "zeta")
_log_gamma = Lazy("scipy.special", "gammaln")


@functools.cache
def _rule() -> Any:
    return np.polynomial.legendre.leggauss(64)


def bell(slopes: list[Any]) -> Any:
    """(e^f)⁽ᵏ⁾ / e^f from f', f'', …, f⁽ᵏ⁾."""
    results: list[Any] = [1.0]
    for k in range(1, len(slopes) + 1):
        results.append(sum(math.comb(k - 1, j) * slopes[j] * results[k - 1 - j] for j in range(k)))
    return results[-1]


def _polygamma(n: int, a: Any) -> Any:
    return (-1) ** (n + 1) * math.factorial(n) * _hurwitz(n + 1.0, a)


def _by_series(order: int, a: Any, x: Any) -> Any:
    """P = Σ (−x)ⁿ/n! · x^a / ((a + n) Γ(a)): each term is the exponential of a function of a."""
    log_x = np.log(x)
    slopes = [log_x - _digamma(a), *(-_polygamma(j, a) for j in range(1, order))]
    total, term = 0.0, 1.0
    for n in range(20):
        inverse = 1 / (a + n)
        each = [s + (-1) ** (j + 1) * math.factorial(j) * inverse ** (j + 1) for j, s in enumerate(slopes)]
        total = total + term * inverse * bell(each)
        term = term * (-x / (n + 1))
    return total * np.exp(a * log_x - _log_gamma(a))


def _by_quadrature(order: int, a: Any, x: Any) -> Any:
    log_x = np.log(x)
    side = np.where(log_x < _digamma(a), -1.0, 1.0)  # t = x e^(side·s)

    def exponent(s: Any) -> Any:
        return side * a * s - x * np.expm1(side * s)

    # The end of the range, by Newton's method from outside: the exponent is concave, so the steps never overshoot.
    end = np.where(side < 0, 45 / np.maximum(a - x, 0.1) + 45 / a, np.log1p((60 + 10 * a) / x))
    for _ in range(16):
        slope = side * (a - x * np.exp(side * end))
        end = end - (exponent(end) + 45) / slope
    nodes, weights = _rule()
    s = 0.5 * end * (nodes[:, None] + 1)
    values = np.exp(exponent(s)) * bell([log_x + side * s - _digamma(a), *(-_polygamma(j, a) for j in range(1, order))])
    integral = 0.5 * end * (weights @ values)
    return -side * integral * np.exp(a * log_x - x - _log_gamma(a))


def _by_shape(a: Any, x: Any, *, order: int) -> Any:
    a, x = np.broadcast_arrays(a, x)
    dtype = np.result_type(a, x, np.float32)
    result = np.zeros(a.size)
    flat_a, flat_x = a.astype(float).ravel(), x.astype(float).ravel()
    inside = (flat_a > 0) & (flat_x > 0) & np.isfinite(flat_x) & np.isfinite(flat_a)
    result[~inside & ((flat_x < 0) | (flat_a <= 0) | np.isnan(flat_x) | np.isnan(flat_a))] = np.nan
    with np.errstate(all="ignore"):
        for method, chosen in ((_by_series, inside & (flat_x < 1)), (_by_quadrature, inside & (flat_x >= 1))):
            where_ = np.flatnonzero(chosen)
            for start in range(0, len(where_), _CHUNK):
                part = where_[start : start + _CHUNK]
                result[part] = method(order, flat_a[part], flat_x[part])
    return result.reshape(a.shape).astype(dtype)[()]


def _density_by_a(y: Value, a: Value, x: Value, *, order: int) -> Value:
    """∂ₐᵏ of the density, the slope by x."""
    inside = greater(x, 0)
    log_x = log(where(inside, x, 1.0))
    slopes = [log_x - psi(a), *(-polygamma(j, a) for j in range(1, order))]
    return where(inside, exp((a - 1) * log_x - x - gammaln(a)) * bell(slopes), 0.0)


gammainc_by_a = elementwise(
    "gammainc_by_a",
    _by_shape,
    (lambda y, a, x, *, order: gammainc_by_a(a, x, order=order + 1), _density_by_a),
    domain=((0.5, 3), (0.3, 4)),
    cases=[case((3,), (3,), order=1), case((2, 1), (2,), order=1), case((), (), order=2), case((0,), (1,), order=1)],
    doc="∂ᵏP(a, x)/∂aᵏ of the regularised incomplete gamma function.",
)
