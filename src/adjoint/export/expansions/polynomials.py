"""Orthogonal polynomials by their recurrences, for degrees that are integers.

    (k + 1) P(k + 1) = (2k + 1) x P(k) − k P(k − 1)                 Legendre's

Real degrees need hypergeometric functions, and are refused; a negative degree gives nan.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.op import Op
from ...core.types import Value
from ...ops import hypergeometric as h
from ...ops.broadcast import cast, where
from ...ops.gamma import gammaln
from .numerics import DOUBLE, Expansion, by_recurrence


def _of(family: Expansion, argument: Callable[[Any], Any], factor: float = 1.0) -> Expansion:
    """The polynomials of another argument."""

    def expansion(*args: Value) -> Any:
        *rest, x = args
        made = family(*rest, argument(x))
        return made if made is NotImplemented or factor == 1 else factor * made

    return expansion


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
    return made * np.exp(gammaln(m + 1.0) + gammaln(m + p) - gammaln(2.0 * m + p))  # over binom(2n + p − 1, n)


_legendre = by_recurrence(lambda k, p, q, x: ((2.0 * k + 1.0) * x * p - k * q) / (k + 1.0))
_first_kind = by_recurrence(lambda k, p, q, x: 2.0 * x * p - q, start=lambda x: (1.0, x))
_second_kind = by_recurrence(lambda k, p, q, x: 2.0 * x * p - q)
_laguerre = by_recurrence(lambda k, p, q, x, a: ((2.0 * k + 1.0 + a - x) * p - (k + a) * q) / (k + 1.0))
_jacobi = by_recurrence(_jacobi_step)


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
    h.eval_hermite: by_recurrence(lambda k, p, q, x: 2.0 * (x * p - k * q)),
    h.eval_hermitenorm: by_recurrence(lambda k, p, q, x: x * p - k * q),
    h.eval_laguerre: lambda n, x: _laguerre(n, 0.0, x),
    h.eval_genlaguerre: _laguerre,
    h.eval_gegenbauer: by_recurrence(lambda k, p, q, x, a: (2.0 * (k + a) * x * p - (k + 2.0 * a - 1.0) * q) / (k + 1.0)),
    h.eval_jacobi: _jacobi,
    h.eval_sh_jacobi: _shifted_jacobi,
}
