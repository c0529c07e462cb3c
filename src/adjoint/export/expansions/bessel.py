"""Bessel functions in terms of other ops: Chebyshev polynomials near 0, expansions in 1/x beyond.

    i0e(x)       = p(x), x <= 8;  p(1/x) / sqrt(x) beyond

The coefficients are computed from SciPy's values when a program is written, and stand in it as numbers. To about 1e-14 of the
size of the result, or of its larger terms near a zero.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.op import Op
from ...ops import bessel
from ...ops.broadcast import where
from .numerics import Expansion, fitted, of_reals, scipy_special

_NAN, _INF = math.nan, math.inf
_FAR = 8.0  # from here on, expansions in 1/x


@functools.cache
def _modified(name: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The scaled function on [0, 8], divided by x if it is odd; and beyond, times the root of x."""
    scaled = scipy_special(name)
    near = (lambda x: scaled(x) / np.where(x == 0, 1, x)) if name == "i1e" else scaled
    return near, lambda t: scaled(_FAR / np.maximum(t, 1e-8)) * np.sqrt(_FAR / np.maximum(t, 1e-8))


def _ie(name: str, x: Any) -> Any:
    """i0e or i1e, of |x|."""
    near, far = _modified(name)
    a = np.abs(x)
    inside = fitted(a, near, 0.0, _FAR, 50) * (a if name == "i1e" else 1.0)
    beyond = np.maximum(a, _FAR)
    return where(a <= _FAR, inside, fitted(_FAR / beyond, far, 0.0, 1.0) / np.sqrt(beyond))


def _i(name: str, x: Any) -> Any:
    value = _ie(f"{name}e", x) * np.exp(0.5 * np.abs(x)) * np.exp(0.5 * np.abs(x))
    return where(x < 0.0, -value, value) if name == "i1" else value


def _signed(name: str, x: Any) -> Any:
    value = _ie(name, x)
    return where(x < 0.0, -value, value) if name == "i1e" else value


@functools.cache
def _second_kind(name: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """K0 + log(x/2) I0, or x K1 - x log(x/2) I1, of x² on [0, 4]; and beyond 2, the scaled function times the root of x."""

    def near(s: Any) -> Any:
        x = np.sqrt(np.maximum(s, 1e-18))
        f = scipy_special
        if name == "k0e":
            return f("k0")(x) + np.log(x / 2) * f("i0")(x)
        return x * f("k1")(x) - x * np.log(x / 2) * f("i1")(x)

    return near, lambda t: scipy_special(name)(2.0 / np.maximum(t, 1e-8)) * np.sqrt(2.0 / np.maximum(t, 1e-8))


def _k(name: str, x: Any, scaled: bool) -> Any:
    near, far = _second_kind(f"{name}e")
    a = np.minimum(np.maximum(x, 1e-300), 2.0)
    first = _i("i0" if name == "k0" else "i1", a)
    logarithm = np.log(0.5 * a) * first
    fit = fitted(a * a, near, 0.0, 4.0)
    inside = fit - logarithm if name == "k0" else fit / a + logarithm
    beyond = np.maximum(x, 2.0)
    outside = fitted(2.0 / beyond, far, 0.0, 1.0) / np.sqrt(beyond)
    if scaled:
        value = where(x <= 2.0, inside * np.exp(a), outside)
    else:
        value = where(x <= 2.0, inside, outside * np.exp(-beyond))
    return where(x == 0.0, _INF, where(x < 0.0, _NAN, value))


@functools.cache
def _oscillating(order: int) -> tuple[Callable[..., Any], ...]:
    """J (over x if odd) and what Y adds to (2/π) log(x/2) J, of x² on [0, 64]; the P and Q of Hankel's expansion, of (8/x)²."""
    j, y = (scipy_special(f"{name}{order}") for name in "jy")
    shift = (0.5 * order + 0.25) * math.pi

    def root(s: Any) -> Any:
        return np.sqrt(np.maximum(s, 1e-16))

    def regular(s: Any) -> Any:
        x = root(s)
        return j(x) / x if order else j(x)

    def rest(s: Any) -> Any:
        x = root(s)
        value = y(x) - 2 / math.pi * np.log(x / 2) * j(x)
        return x * value if order else value  # -2/(π x) is left in: times x it is even

    def hankel(t: Any) -> tuple[Any, Any, Any, Any]:
        x = _FAR / np.sqrt(np.maximum(t, 1e-8))
        size, chi = np.sqrt(math.pi * x / 2), x - shift
        return x, chi, size * j(x), size * y(x)

    def p(t: Any) -> Any:
        _, chi, a, b = hankel(t)
        return a * np.cos(chi) + b * np.sin(chi)

    def q(t: Any) -> Any:
        x, chi, a, b = hankel(t)
        return x * (b * np.cos(chi) - a * np.sin(chi))

    return regular, rest, p, q


def _turned(order: int, x: Any) -> tuple[Any, Any]:
    """cos and sin of x - π/4 - order π/2, without the rounding error of the shift."""
    c, s = np.cos(x), np.sin(x)
    half = math.sqrt(0.5)
    return (half * (c + s), half * (s - c)) if order == 0 else (half * (s - c), -half * (c + s))


def _j(order: int, x: Any) -> Any:
    regular, _, p, q = _oscillating(order)
    a = np.abs(x)
    near = np.minimum(a, _FAR)
    inside = fitted(near * near, regular, 0.0, 64.0) * (near if order else 1.0)
    far = np.maximum(a, _FAR)
    t = (_FAR / far) * (_FAR / far)
    c, s = _turned(order, far)
    outside = np.sqrt(2 / math.pi / far) * (fitted(t, p, 0.0, 1.0) * c - fitted(t, q, 0.0, 1.0) / far * s)
    value = where(a <= _FAR, inside, outside)
    return where(x < 0.0, -value, value) if order else value


def _y(order: int, x: Any) -> Any:
    _, rest, p, q = _oscillating(order)
    near = np.minimum(np.maximum(x, 1e-300), _FAR)
    fit = fitted(near * near, rest, 0.0, 64.0)
    inside = (fit / near if order else fit) + 2 / math.pi * np.log(0.5 * near) * _j(order, near)
    far = np.maximum(x, _FAR)
    t = (_FAR / far) * (_FAR / far)
    c, s = _turned(order, far)
    outside = np.sqrt(2 / math.pi / far) * (fitted(t, p, 0.0, 1.0) * s + fitted(t, q, 0.0, 1.0) / far * c)
    value = where(x <= _FAR, inside, outside)
    return where(x == 0.0, -_INF, where(x < 0.0, _NAN, value))


_REAL: dict[Op, Expansion] = {
    bessel.i0: lambda x: _i("i0", x),
    bessel.i1: functools.partial(_i, "i1"),
    bessel.i0e: functools.partial(_signed, "i0e"),
    bessel.i1e: functools.partial(_signed, "i1e"),
    bessel.k0: lambda x: _k("k0", x, scaled=False),
    bessel.k1: lambda x: _k("k1", x, scaled=False),
    bessel.k0e: lambda x: _k("k0", x, scaled=True),
    bessel.k1e: lambda x: _k("k1", x, scaled=True),
    bessel.j0: functools.partial(_j, 0),
    bessel.j1: functools.partial(_j, 1),
    bessel.y0: functools.partial(_y, 0),
    bessel.y1: functools.partial(_y, 1),
}
EXPANSIONS = {op: of_reals(f) for op, f in _REAL.items()}
