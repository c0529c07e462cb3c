"""Orthogonal polynomials by their recurrences, for degrees that are integers.

    (k + 1) P(k + 1) = (2k + 1) x P(k) − k P(k − 1)                 Legendre's

Real degrees need hypergeometric functions, and are refused. Negative degrees, and infinite arguments and parameters, have the
values that SciPy's recurrences give: many are nan where there is a limit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.op import Op
from ...core.types import Value, dtype_of
from ...ops import hypergeometric as h
from ...ops.broadcast import cast, where
from ...ops.gamma import gammaln
from .numerics import DOUBLE, Expansion, by_recurrence, kind_of, scipy_special

_NAN, _INF = math.nan, math.inf


def _of(family: Expansion, argument: Callable[[Any], Any], factor: float = 1.0) -> Expansion:
    """The polynomials of another argument."""

    def expansion(*args: Value) -> Any:
        *rest, x = args
        made = family(*rest, argument(x))
        return made if made is NotImplemented or factor == 1 else factor * made

    return expansion


def _ends(recurrence: Expansion, ends: Expansion, reflection: int | None = None) -> Expansion:
    """A recurrence with ends(value, n, *parameters, x) in the place of its value; a degree n < 0 becomes `reflection` − n."""

    def expansion(n: Value, *rest: Value) -> Any:
        degree = n if reflection is None or kind_of(n) != "i" else np.maximum(n, reflection - n)
        made = recurrence(degree, *rest)
        if made is NotImplemented:
            return made
        return ends(made, n, *(x if dtype_of(x) == DOUBLE else cast(x, dtype=DOUBLE) for x in rest))

    return expansion


def _where_all(value: Any, *conditions: Any) -> Any:
    """nan where one of the conditions is false, or an operand of it nan."""
    for condition in conditions:
        value = where(condition, value, _NAN)
    return value


def _legendre_ends(value: Any, n: Any, x: Any) -> Any:
    far = np.logical_and(np.abs(x) == _INF, np.logical_or(n > 1, n < -2))
    return where(far, where(x > 0, _INF, _NAN), value)


def _second_kind_ends(value: Any, n: Any, x: Any) -> Any:
    """U(−1) = 0, U(−n) = −U(n − 2)."""
    return where(n == -1, 0.0, where(np.abs(x) < _INF, where(n < 0, -value, value), _NAN))


def _laguerre_ends(value: Any, n: Any, a: Any, x: Any) -> Any:
    far = np.logical_or(np.logical_and(a == _INF, np.abs(x) < _INF), np.logical_and(a < _INF, x == -_INF))
    finite = np.logical_and(a < _INF, np.abs(x) < _INF)
    made = where(np.logical_or(finite, n < 2), where(n == 1, a + 1.0 - x, value), where(far, _INF, _NAN))
    return _where_all(where(n == 0, 1.0, where(n < 0, 0.0, made)), a > -1, x == x)


def _gegenbauer_ends(value: Any, n: Any, a: Any, x: Any) -> Any:
    """Of degree 2 and more infinite at infinity; versions of SciPy differ at −∞ and for a = 0."""
    sign = np.sign(a)  # of the leading coefficient for a > −1/2
    below = abs(float(scipy_special("eval_gegenbauer")(2, 1.0, -_INF)))  # at −∞, nan or infinite
    size = where(x > 0, _INF, where(n % 2 == 1, -below, below))
    far = where(np.logical_and(np.abs(x) == _INF, np.logical_and(np.abs(a) < _INF, a > -0.5)), sign * size, _NAN)
    made = where(np.logical_and(np.abs(a) < _INF, np.abs(x) < _INF), value, far)
    made = where(n == 1, 2.0 * a * x, made)
    first, at_infinity = (float(scipy_special("eval_gegenbauer")(k, 0.0, y)) for k, y in ((0, 0.5), (3, _INF)))
    made = where(n < 1, where(n == 0, where(a == 0, first, 1.0), 0.0), made)
    made = where(np.logical_and(np.logical_and(a == 0, np.abs(x) == _INF), n > 0), at_infinity, made)
    return _where_all(made, a == a, x == x)


def _jacobi_ends(value: Any, n: Any, a: Any, b: Any, x: Any) -> Any:
    """Infinite at infinity for a, b > −1 (a > −2 too, where the leading coefficient is positive); nan for a = −1."""
    grows = np.logical_and(np.logical_and(a > -2, b > -1), np.logical_and(a + b > -2, a + b < _INF))
    far = where(np.logical_and(x == _INF, grows), _INF, _NAN)
    made = where(np.abs(x) < _INF, value, where(np.isnan(x), x, far))
    return where(n > 1, where(a == -1, _NAN, made), value)


def _jacobi_step(k: Any, p: Any, q: Any, x: Any, a: Any, b: Any) -> Any:
    s = 2.0 * k + a + b
    first = (a + 1.0) + (a + b + 2.0) * (0.5 * (x - 1.0))
    middle = (s + 1.0) * ((s + 2.0) * s * x + a * a - b * b) * p - 2.0 * (k + a) * (k + b) * (s + 2.0) * q
    scale = 2.0 * (k + 1.0) * (k + a + b + 1.0) * s
    start = k == 0
    return where(start, first, middle / where(start, 1.0, scale))


def _shifted_jacobi(n: Value, p: Value, q: Value, x: Value) -> Any:
    made = _jacobi(n, p - 1.0 * q, q - 1.0, 2.0 * x - 1.0)  # p and q may be bools
    if made is NotImplemented:
        return made
    m = cast(n, dtype=DOUBLE)
    over = np.exp(gammaln(m + 1.0) + gammaln(m + p) - gammaln(2.0 * m + p))  # 1 / binom(2n + p − 1, n)
    return where(np.logical_and(m == 0, p == _INF), made, made * over)


_legendre = _ends(by_recurrence(lambda k, p, q, x: ((2.0 * k + 1.0) * x * p - k * q) / (k + 1.0)), _legendre_ends, -1)
_first_kind = _ends(
    by_recurrence(lambda k, p, q, x: 2.0 * x * p - q, start=lambda x: (1.0, x)),
    lambda value, n, x: _where_all(value, np.abs(x) < _INF),
    0,
)
_second_kind = _ends(by_recurrence(lambda k, p, q, x: 2.0 * x * p - q), _second_kind_ends, -2)
_laguerre = _ends(by_recurrence(lambda k, p, q, x, a: ((2.0 * k + 1.0 + a - x) * p - (k + a) * q) / (k + 1.0)), _laguerre_ends)
_gegenbauer = _ends(
    by_recurrence(lambda k, p, q, x, a: (2.0 * (k + a) * x * p - (k + 2.0 * a - 1.0) * q) / (k + 1.0)), _gegenbauer_ends
)
_jacobi = _ends(by_recurrence(_jacobi_step), _jacobi_ends)


def _hermite(step: Expansion) -> Expansion:
    return _ends(by_recurrence(step), lambda value, n, x: _where_all(value, x == x))


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
