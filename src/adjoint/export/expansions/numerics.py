"""Helpers of the expansions: polynomials, Chebyshev series, dtypes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...core.types import Value, dtype_of
from ...ops.broadcast import cast

Expansion = Callable[..., Any]
DOUBLE, SINGLE, INT64 = np.dtype(np.float64), np.dtype(np.float32), np.dtype(np.int64)


def kind_of(x: Value) -> str:
    return dtype_of(x).kind


def integers(x: Value) -> Value:
    return cast(x, dtype=INT64)


def of_truths(op: Expansion) -> Expansion:
    """An op on truths as one of logic."""
    return lambda *xs, **params: op(*xs, **params) if kind_of(xs[0]) == "b" else NotImplemented


def of_reals(function: Expansion) -> Expansion:
    """A function of real numbers, computed in float64 also for float32, as SciPy does."""

    def expansion(*xs: Value, **params: Any) -> Any:
        if any(kind_of(x) == "c" for x in xs):
            return NotImplemented
        return function(*(x if dtype_of(x) == DOUBLE else cast(x, dtype=DOUBLE) for x in xs), **params)

    return expansion


def horner(x: Value, coefficients: Sequence[float]) -> Value:
    """A polynomial, the coefficient of the lowest power first."""
    total: Value = float(coefficients[-1])
    for c in reversed(coefficients[:-1]):
        total = total * x + float(c)
    return total


@functools.cache
def _fit(f: Callable[..., Any], low: float, high: float, degree: int) -> tuple[float, ...]:
    """Chebyshev coefficients of f on an interval, without those that are rounding errors."""
    found = np.polynomial.chebyshev.chebinterpolate(lambda t: f(low + (high - low) * (t + 1) / 2), degree)
    size = np.max(np.abs(found))
    count = int(np.flatnonzero(np.abs(found) > 1e-17 * size)[-1]) + 1
    return tuple(float(c) for c in found[:count])


def fitted(x: Value, f: Callable[..., Any], low: float, high: float, degree: int = 40) -> Value:
    """The Chebyshev series of f on an interval. Outside of it, the value at the nearer end."""
    numbers = _fit(f, low, high, degree)
    t = (np.minimum(np.maximum(x, low), high) - (low + high) / 2) * (4 / (high - low))
    b: Any = 0.0
    before: Any = 0.0
    for c in reversed(numbers[1:]):
        b, before = t * b - before + c, b
    return 0.5 * t * b - before + numbers[0]


def scipy_special(name: str) -> Any:
    from scipy import special

    return getattr(special, name)
