"""What expansions of functions share: dtypes, polynomials, Chebyshev series, continued fractions, recurrences."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...api.control import while_loop
from ...core.bind import Traced
from ...core.types import Value, dtype_of
from ...ops.broadcast import cast, where

Expansion = Callable[..., Any]
DOUBLE, INT64 = np.dtype(np.float64), np.dtype(np.int64)
EPS = float(np.finfo(float).eps)
LEAST = 5e-324  # the least positive number
_MOST = 100_000.0  # iterations
_TINY = 1e-300


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


# -- loops ------------------------------------------------------------------------------------------------------


def repeated(step: Callable[..., Any], start: tuple[Any, ...], going: Callable[..., Any]) -> Any:
    """The state after the iteration in which nothing is `going` on; step(k, *state) for k = 1, 2, …"""
    shape = np.broadcast_shapes(*map(np.shape, start))
    first = tuple(np.broadcast_to(x, shape) * 1.0 for x in start)

    def body(carry: Any) -> Any:
        k, state, _ = carry
        state = step(k, *state)
        return k + 1.0, state, np.any(going(*state))

    return while_loop(lambda c: np.logical_and(c[2], c[0] < _MOST), body, (np.float64(1.0), first, np.True_))[1]


def fraction(term: Callable[[Any], tuple[Any, Any]], first: Any) -> Any:
    """The continued fraction first + a₁/(b₁ + a₂/(b₂ + …)), with (aₖ, bₖ) = term(k), after Lentz."""

    def apart(x: Any) -> Any:
        return where(np.abs(x) < _TINY, _TINY, x)

    def step(k: Any, f: Any, c: Any, low: Any, change: Any) -> Any:
        a, b = term(k)
        low = 1.0 / apart(b + a * low)
        c = apart(b + a / c)
        return f * (c * low), c, low, c * low

    start = apart(first)
    return repeated(step, (start, start, start * 0.0, start * 0.0), lambda f, c, low, change: np.abs(change - 1.0) > EPS)[0]


_UNROLLED = 16  # the largest degree, known when the program is written, without a loop


def by_recurrence(step: Expansion, start: Expansion = lambda x, *parameters: (1.0, 0.0)) -> Expansion:
    """P(k + 1) = step(k, P(k), P(k − 1), x, *parameters), of a degree that is an integer; start(…) gives P(0) and P(−1).

    The expansion has the signature (degree, *parameters, x). A real degree is refused, a negative one gives nan.
    """
    return by_pairs(lambda k, p, q, *rest: (step(k, p, q, *rest), p), start)


def by_pairs(step: Expansion, start: Expansion = lambda x, *parameters: (1.0, 0.0)) -> Expansion:
    """The same for a pair: P(k + 1), Q(k + 1) = step(k, P(k), Q(k), x, *parameters), from P(0) and Q(0)."""

    def expansion(n: Value, *rest: Value) -> Any:
        if kind_of(n) not in "iu" or any(kind_of(x) == "c" for x in rest):
            return NotImplemented
        *parameters, x = (x if dtype_of(x) == DOUBLE else cast(x, dtype=DOUBLE) for x in rest)
        one = np.ones(np.broadcast_shapes(*map(np.shape, (n, *rest))))
        degree = n * one

        def advanced(k: Any, p: Any, q: Any) -> Any:
            more = k < degree
            return tuple(where(more, new, old) for new, old in zip(step(k, p, q, x, *parameters), (p, q), strict=True))

        p, q = (y * one for y in start(x, *parameters))
        if not isinstance(n, Traced) and np.max(n, initial=0) <= _UNROLLED:
            for k in range(int(np.max(n, initial=0))):
                p, q = advanced(float(k), p, q)
        else:
            first = (np.float64(0.0), p, q)
            p = while_loop(lambda c: c[0] < np.max(degree), lambda c: (c[0] + 1.0, *advanced(*c)), first)[1]
        return where(n < 0, np.nan, p)

    return expansion
