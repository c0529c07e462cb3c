"""Orthogonal polynomials by recurrences, for degrees that are integers.

    d ← ((2k + 1) (x − 1) P + k d) / (k + 1),  P ← P + d            Legendre's

Differences of successive polynomials, as in SciPy, so that infinite, huge and singular arguments and parameters have its values:
many are nan where there is a limit. Real degrees need hypergeometric functions, and are refused, as is a negative degree of
Jacobi's; one that is not known when the program is written gives nan.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.bind import Traced
from ...core.op import Op
from ...core.types import Value, dtype_of
from ...ops import hypergeometric as h
from ...ops.broadcast import cast, where
from ...ops.gamma import beta, binom
from .numerics import DOUBLE, Expansion, by_pairs, by_recurrence, kind_of, scipy_special

_NAN, _INF = math.nan, math.inf


def _of(family: Expansion, argument: Callable[[Any], Any], factor: float = 1.0) -> Expansion:
    """The polynomials of another argument."""

    def expansion(*args: Value) -> Any:
        *rest, x = args
        made = family(*rest, argument(x))
        return made if made is NotImplemented or factor == 1 else factor * made

    return expansion


def _ends(recurrence: Expansion, ends: Expansion, reflection: int) -> Expansion:
    """A recurrence with ends(value, n, x) in the place of its value; a degree n < 0 becomes `reflection` − n."""

    def expansion(n: Value, x: Value) -> Any:
        degree = n if kind_of(n) != "i" else np.maximum(n, reflection - n)
        made = recurrence(degree, x)
        return made if made is NotImplemented else ends(made, n, x if dtype_of(x) == DOUBLE else cast(x, dtype=DOUBLE))

    return expansion


def _finite(value: Any, x: Any) -> Any:
    return where(np.abs(x) < _INF, value, _NAN)


def _second_kind_ends(value: Any, n: Any, x: Any) -> Any:
    """U(−1) = 0, U(−n) = −U(n − 2)."""
    return where(n == -1, 0.0, _finite(where(n < 0, -value, value), x))


def _by_differences(first: Expansion, step: Expansion, ends: Expansion) -> Expansion:
    """P(k + 1) = P(k) + d(k + 1), where d(k + 1) = step(k, P(k), d(k), x, *parameters), in units of a value that `ends` knows.

    `first(x, *parameters)` gives P(1) and d(1), `ends(value, n, x, *parameters)` the polynomial from its multiple.
    """

    def after(k: Any, p: Any, q: Any, x: Any, *parameters: Any) -> Any:
        start, difference = first(x, *parameters)
        change = where(k == 0, difference, step(k, p, q, x, *parameters))
        return where(k == 0, start, p + change), change

    recurrence = by_pairs(after)

    def expansion(n: Value, *rest: Value) -> Any:
        made = recurrence(n, *rest)
        if made is NotImplemented:
            return made
        *parameters, x = (y if dtype_of(y) == DOUBLE else cast(y, dtype=DOUBLE) for y in rest)
        return ends(made, cast(n, dtype=DOUBLE), x, *parameters)

    return expansion


def _legendre_ends(value: Any, n: Any, x: Any) -> Any:
    """Near 0 by powers of x², where x − 1 would lose x."""
    near = np.abs(x) < 1e-5
    y, half = where(near, x, 0.0), np.floor(0.5 * n)
    odd = n - 2.0 * half
    sign = where(np.floor(0.5 * half) == 0.5 * half, 1.0, -1.0)
    lowest = sign * where(odd == 0, -2.0 / beta(half + 1.0, -0.5), 2.0 * y / beta(half + 1.0, 0.5))
    total, term = 0.0, lowest
    for k in range(_FEW):
        total = total + term
        m = half - k
        term = term * (-2.0 * y * y * m * (2.0 * n + 1.0 - 2.0 * m) / ((n + 1.0 - 2.0 * m) * (n + 2.0 - 2.0 * m)))
    return where(np.logical_and(near, n > 1), total, value)


_FEW = 6  # powers of x² for |x| < 1e-5


def _legendre(n: Value, x: Value) -> Any:
    return _legendre_of(n if kind_of(n) != "i" else np.maximum(n, -1 - n), x)


_legendre_of = _by_differences(
    lambda x: (x, x - 1.0),
    lambda k, p, d, x: (2.0 * k + 1.0) / (k + 1.0) * (x - 1.0) * p + k / (k + 1.0) * d,
    _legendre_ends,
)


def _laguerre_ends(value: Any, n: Any, x: Any, a: Any) -> Any:
    made = where(n == 1, a + 1.0 - x, binom(n + a, n) * value)
    made = where(n == 0, 1.0, where(n < 0, 0.0, made))
    return where(np.logical_and(a > -1, x == x), made, _NAN)


_laguerre = _by_differences(
    lambda x, a: (1.0 - x / (a + 1.0), -x / (a + 1.0)),
    lambda k, p, d, x, a: -x / (k + a + 1.0) * p + k / (k + a + 1.0) * d,
    _laguerre_ends,
)


def _gegenbauer_ends(value: Any, n: Any, x: Any, a: Any) -> Any:
    """Versions of SciPy differ for a = 0, where all but the first vanish, and at x = -∞."""
    first, far, even = (float(scipy_special("eval_gegenbauer")(*z)) for z in ((0, 0.0, 0.5), (3, 0.0, _INF), (2, 1.0, -_INF)))
    made = where(np.abs(a / n) < 1e-8, 2.0 * a / n * value, binom(n + 2.0 * a - 1.0, n) * value)
    made = where(np.logical_and(np.abs(x) < 1e-5, np.abs(a) < _INF), _gegenbauer_near_zero(n, x, a), made)
    below = np.logical_and(x == -_INF, np.logical_and(a > 0, a < _INF))
    made = where(below, where(np.floor(0.5 * n) == 0.5 * n, even, -even), made)
    made = where(n == 1, 2.0 * a * x, made)
    made = where(a == 0, where(np.abs(x) == _INF, far, 0.0), made)
    made = where(n < 1, where(n == 0, where(a == 0, first, 1.0), 0.0), made)
    return where(np.logical_or(np.isnan(a), np.isnan(x)), _NAN, made)


def _gegenbauer_near_zero(n: Any, x: Any, a: Any) -> Any:
    """By powers of x²."""
    half = np.floor(0.5 * n)
    sign = where(np.floor(0.5 * half) == 0.5 * half, 1.0, -1.0)
    term = sign / beta(a, 1.0 + half) * where(n == 2.0 * half, 1.0 / (half + a), 2.0 * x)
    total: Any = 0.0
    for k in range(_FEW):
        total = total + term
        m = half - k
        term = term * (-4.0 * x * x * m * (a + n - m) / ((n + 1.0 - 2.0 * m) * (n + 2.0 - 2.0 * m)))
    return total


_gegenbauer = _by_differences(
    lambda x, a: (x, x - 1.0),
    lambda k, p, d, x, a: 2.0 * (k + a) / (k + 2.0 * a) * (x - 1.0) * p + k / (k + 2.0 * a) * d,
    _gegenbauer_ends,
)


def _jacobi_step(k: Any, p: Any, d: Any, x: Any, a: Any, b: Any) -> Any:
    t = 2.0 * k + a + b
    total = t * (t + 1.0) * (t + 2.0) * (x - 1.0) * p + 2.0 * k * (k + b) * (t + 2.0) * d
    return total / (2.0 * (k + a + 1.0) * (k + a + b + 1.0) * t)


def _jacobi_ends(value: Any, n: Any, x: Any, a: Any, b: Any) -> Any:
    first = 0.5 * (2.0 * (a + 1.0) + (a + b + 2.0) * (x - 1.0))
    made = where(n == 1, first, binom(n + a, n) * value)
    return where(n > 0, made, where(n == 0, 1.0, _NAN))


def _jacobi_first(x: Any, a: Any, b: Any) -> Any:
    d = (a + b + 2.0) * (x - 1.0) / (2.0 * (a + 1.0))
    return d + 1.0, d


_jacobi_of = _by_differences(_jacobi_first, _jacobi_step, _jacobi_ends)


def _jacobi(n: Value, a: Value, b: Value, x: Value) -> Any:
    if not isinstance(n, Traced) and np.any(np.asarray(n) < 0):
        return NotImplemented
    return _jacobi_of(n, a, b, x)


def _shifted_jacobi(n: Value, p: Value, q: Value, x: Value) -> Any:
    made = _jacobi(n, p - 1.0 * q, q - 1.0, 2.0 * x - 1.0)  # p and q may be bools
    if made is NotImplemented:
        return made
    return made / binom(2.0 * n + p - 1.0, n)


_first_kind = _ends(
    by_recurrence(lambda k, p, q, x: 2.0 * x * p - q, start=lambda x: (1.0, x)),
    lambda value, n, x: _finite(value, x),
    0,
)
_second_kind = _ends(by_recurrence(lambda k, p, q, x: 2.0 * x * p - q), _second_kind_ends, -2)


def _hermite(step: Expansion) -> Expansion:
    recurrence = by_recurrence(step)

    def expansion(n: Value, x: Value) -> Any:
        made = recurrence(n, x)
        return made if made is NotImplemented else where(x == x, made, _NAN)

    return expansion


def _half(x: Value) -> Value:
    return 0.5 * x


def _to_unit(x: Value) -> Value:
    return 2.0 * x - 1.0


EXPANSIONS: dict[Op, Expansion] = {
    h.eval_legendre: _legendre,
    h.eval_sh_legendre: _of(_legendre, _to_unit),
    h.eval_chebyt: _first_kind,
    h.eval_chebyu: _second_kind,
    h.eval_chebyc: _of(_first_kind, _half, 2.0),
    h.eval_chebys: _of(_second_kind, _half),
    h.eval_sh_chebyt: _of(_first_kind, _to_unit),
    h.eval_sh_chebyu: _of(_second_kind, _to_unit),
    h.eval_hermite: _hermite(lambda k, p, q, x: 2.0 * (x * p - k * q)),
    h.eval_hermitenorm: _hermite(lambda k, p, q, x: x * p - k * q),
    h.eval_laguerre: lambda n, x: _laguerre(n, 0.0, x),
    h.eval_genlaguerre: _laguerre,
    h.eval_gegenbauer: _gegenbauer,
    h.eval_jacobi: _jacobi,
    h.eval_sh_jacobi: _shifted_jacobi,
}
