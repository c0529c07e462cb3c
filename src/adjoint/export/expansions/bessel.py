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

from ...api.control import while_loop
from ...core.bind import Traced
from ...core.op import Op
from ...core.types import Value, dtype_of
from ...ops import bessel
from ...ops.broadcast import cast, where
from ...ops.gamma import gammaln, gammasgn
from .numerics import (
    DOUBLE,
    EPS,
    LEAST,
    Expansion,
    by_recurrence,
    fitted,
    fraction,
    horner,
    kind_of,
    of_reals,
    repeated,
    scipy_special,
)

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
    a = np.minimum(np.maximum(x, LEAST), 2.0)
    first = _i("i0" if name == "k0" else "i1", a)
    logarithm = (np.log(a) - math.log(2.0)) * first
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
    return where(x <= 0.0, where(x == 0.0, x, -value), value) if order else value


def _y(order: int, x: Any) -> Any:
    _, rest, p, q = _oscillating(order)
    near = np.minimum(np.maximum(x, LEAST), _FAR)
    fit = fitted(near * near, rest, 0.0, 64.0)
    inside = (fit / near if order else fit) + 2 / math.pi * (np.log(near) - math.log(2.0)) * _j(order, near)
    far = np.maximum(x, _FAR)
    t = (_FAR / far) * (_FAR / far)
    c, s = _turned(order, far)
    outside = np.sqrt(2 / math.pi / far) * (fitted(t, p, 0.0, 1.0) * s + fitted(t, q, 0.0, 1.0) / far * c)
    value = where(x <= _FAR, inside, outside)
    return where(x == 0.0, -_INF, where(x < 0.0, _NAN, value))


# -- of whole orders --------------------------------------------------------------------------------------------


def _power_series(v: Any, x: Any, sign: float) -> Any:
    """(x/2)ᵛ Σ (± x²/4)ᵏ / (k! Γ(v + k + 1)), which is J or I."""
    square = sign * 0.25 * x * x

    def step(k: Any, total: Any, term: Any) -> Any:
        term = term * (square / (k * (v + k)))
        return total + term, term

    first = gammasgn(v + 1.0) * np.exp(v * (np.log(np.maximum(x, LEAST)) - math.log(2.0)) - gammaln(v + 1.0))
    first = where(x == 0, where(v == 0, 1.0, where(v < 0, _NAN, 0.0)), first)
    return repeated(step, (first, first), lambda total, term: np.abs(term) > EPS / 4 * np.abs(total))[0]


_upwards = by_recurrence(lambda k, p, q, x: 2.0 * k / x * p - q, start=lambda x: (bessel.j0(x), -bessel.j1(x)))


def _downwards(n: Any, x: Any) -> Any:
    """From the ratio J(n + 1)/J(n) by a continued fraction down to the orders 0 and 1, which are known."""
    ratio = 1.0 / fraction(lambda k: (-1.0 + 0.0 * x, 2.0 * (n + 1.0 + k) / x), 2.0 * (n + 1.0) / x)

    def step(carry: Any) -> Any:
        k, p, q = carry  # p of the order k, q of k + 1
        lower = k <= n
        return k - 1.0, where(lower, 2.0 * k / x * p - q, p), where(lower, p, q)

    _, zero, one = while_loop(lambda c: c[0] > 0.5, step, (np.max(n), 1.0 + 0.0 * ratio, ratio))
    return (zero * bessel.j0(x) + one * bessel.j1(x)) / (zero * zero + one * one)


def _jn(n: Value, x: Any) -> Any:
    """J of a whole order: by the recurrence upwards where x is larger than the order, a power series where it is small."""
    order, a = np.abs(n), np.abs(x)
    m = order * (1.0 + 0.0 * a)
    large, small = a > m, a * a < 4.0 * (m + 1.0)
    middle = np.logical_not(np.logical_or(large, small))
    between = _downwards(where(middle, m, 0.0), where(middle, a, 1.0))
    value = where(large, _upwards(order, where(large, a, m + 1.0)), between)
    value = where(np.logical_and(small, np.logical_not(large)), _power_series(m, where(small, a, 1.0), -1.0), value)
    odd = n % 2 == 1
    return where(np.logical_and(odd, (x < 0) != (n < 0)), -value, value)


@functools.cache
def _debye() -> tuple[tuple[float, ...], ...]:
    """The polynomials u(k, t) of Debye's expansions, without their factor tᵏ, in t²."""
    u, found = np.polynomial.Polynomial([1.0]), []
    t = np.polynomial.Polynomial([0.0, 1.0])
    for k in range(_TERMS):
        found.append(tuple(float(c) for c in u.coef[k::2]))
        u = 0.5 * t**2 * (1.0 - t**2) * u.deriv() + 0.125 * ((1.0 - 5.0 * t**2) * u).integ()
    return tuple(found)


_TERMS = 14  # of an expansion for orders above 30


def _large_order(v: Any, x: Any, first: bool) -> Any:
    """exp(−x) I(v, x), or exp(−x) K(v, x), for v > 30: Debye's expansion, which holds for all x ≥ 0."""
    root = np.hypot(v, x)
    t, total, power = v / root, 0.0, 1.0
    for coefficients in _debye():
        total = total + power * horner(t * t, coefficients)
        power = power * (t / v if first else -t / v)
    shift = v * np.arcsinh(v / np.maximum(x, LEAST))
    if first:
        return np.exp(v * (v / (root + x)) - shift) / np.sqrt(2 * math.pi * root) * total
    return np.exp(shift - root - x) * np.sqrt(0.5 * math.pi / root) * total


def _ive(v: Any, x: Any) -> Any:
    """exp(−|x|) I(v, x) of a real order: a power series, in which all terms are positive; for large x, Hankel's expansion."""
    whole = v == np.floor(v)
    v = where(np.logical_and(whole, v < 0), -v, v)
    a, large = np.abs(x), np.abs(v) > 30
    small = where(large, 0.0, v)
    near = np.minimum(a, 700.0)
    far = np.maximum(a, 700.0)
    total, term, mu = 1.0, 1.0, 4.0 * small * small
    for k in range(1, 16):
        term = term * (-(mu - (2 * k - 1) ** 2) / (8.0 * k * far))
        total = total + term
    value = where(a <= 700, _power_series(small, near, 1.0) * np.exp(-near), total / np.sqrt(2 * math.pi * far))
    order = where(large, np.abs(v), 31.0)
    by_order = _large_order(order, a, first=True)
    turn = order - 2.0 * np.rint(0.5 * order)
    second = 2 / math.pi * np.sin(math.pi * turn) * _large_order(order, a, first=False)  # I(−v) − I(v)
    value = where(large, where(v < 0, by_order + second, by_order), value)
    value = where(x < 0, where(whole, _alternating(v) * value, _NAN), value)
    return where(np.logical_and(np.abs(v) < _INF, a < _INF), value, _NAN)


_CROSSED = 0.6627434  # √(1 + z²) = arsinh(1 / z): from here on I(v, v z) grows with v


def _alternating(v: Any) -> Any:
    return where(np.floor(0.5 * v) != 0.5 * v, -1.0, 1.0)


def _iv(v: Any, x: Any) -> Any:
    half = np.exp(np.minimum(0.5 * np.abs(x), 1e3))
    pole = np.logical_and(x == 0, np.logical_and(v < 0, v != np.floor(v)))
    scaled = bessel.ive(v, x)
    large = where(x < 0, np.copysign(_INF, _alternating(v)), _INF)
    far = where(np.abs(x) < _CROSSED * np.abs(v), 0.0, where(np.logical_and(x < 0, v != np.floor(v)), _NAN, large))
    value = where(np.logical_and(scaled == 0, np.abs(x) > 1e3), far, scaled * half * half)
    value = where(np.logical_and(np.abs(v) == _INF, np.abs(x) < _INF), 0.0, value)
    return where(pole, _INF, value)


def _known_order(f: Expansion) -> Expansion:
    """A function of a whole order, which is known when the program is written."""

    def expansion(v: Value, x: Value) -> Any:
        if isinstance(v, Traced) or np.any(np.asarray(v) != np.rint(v)):
            return NotImplemented
        return f(np.asarray(v).astype(np.int64), x if dtype_of(x) == DOUBLE else cast(x, dtype=DOUBLE))

    return expansion


def _of_size(f: Expansion, alternates: bool = False) -> Expansion:
    """A function of the size of its order; with `alternates`, its sign changes for negative odd ones."""

    def expansion(n: Value, x: Value) -> Any:
        value = f(np.abs(n), x) if kind_of(n) in "iu" else NotImplemented
        return value if value is NotImplemented or not alternates else where(np.logical_and(n < 0, n % 2 == 1), -value, value)

    return expansion


_third_kind = by_recurrence(lambda k, p, q, x: q + 2.0 * k / x * p, start=lambda x: (bessel.k0e(x), bessel.k1e(x)))


def _finite(recurrence: Expansion, zero: float, positive: float, negative: float) -> Expansion:
    """A function with given values at 0 and at ±infinity; nan for a negative order."""

    def expansion(n: Value, x: Value) -> Any:
        inside = np.logical_and(x != 0, np.abs(x) < _INF)
        made = recurrence(n, where(inside, x, 1.0))
        if made is NotImplemented:
            return made
        ends = where(x == 0, zero, where(np.isnan(x), x, where(x > 0, positive, negative)))
        return where(np.logical_or(inside, n < 0), made, ends)

    return expansion


def _falling(scaled: Expansion) -> Expansion:
    """A function from its multiple by exp(x), which neither it nor exp(−x) need bound alone."""

    def expansion(n: Value, x: Value) -> Any:
        made = scaled(n, x)
        half = np.exp(-0.5 * x)
        return made if made is NotImplemented else made * half * half

    return expansion


_kn = _of_size(_finite(_falling(_third_kind), _INF, 0.0, _NAN))
_kne = _of_size(_finite(_third_kind, _INF, _NAN, _NAN))


def _less(p: Any, q: Any) -> Any:
    """p − q, where an infinite p wins: the sequence grows."""
    return where(np.abs(p) == _INF, p, p - q)


_y_upwards = by_recurrence(lambda k, p, q, x: _less(2.0 * k / x * p, q), start=lambda x: (bessel.y0(x), -bessel.y1(x)))
_yn = _of_size(_finite(_y_upwards, -_INF, _NAN, _NAN), alternates=True)
_yne = _of_size(_finite(_y_upwards, _NAN, _NAN, _NAN), alternates=True)
_spherical_yn = by_recurrence(
    lambda k, p, q, x: _less((2.0 * k + 1.0) / x * p, q), start=lambda x: (-np.cos(x) / x, np.sin(x) / x)
)
_spherical_k_upwards = by_recurrence(
    lambda k, p, q, x: q + (2.0 * k + 1.0) / x * p, start=lambda x: (0.5 * math.pi * np.exp(-x) / x,) * 2
)


def _spherical_kn(n: Value, x: Value) -> Any:
    """For x < 0, where the recurrence loses its digits, k(n, x) = −π i(n, |x|) − (−1)ⁿ k(n, |x|)."""
    made = _spherical_k_upwards(n, np.abs(x))
    if made is NotImplemented:
        return made
    first = math.pi * bessel.spherical_in(n, np.abs(x))
    return where(x < 0, where(n % 2 == 1, made - first, -made - first), made)


def _spherical_in(n: Any, x: Any) -> Any:
    a = np.abs(x)
    safe = where(a == 0, 1.0, a)
    half = np.exp(np.minimum(0.5 * safe, 1e3))
    value = np.sqrt(0.5 * math.pi) * (bessel.ive(n + 0.5, safe) / np.sqrt(safe) * half) * half
    value = where(a == 0, where(n == 0, 1.0, 0.0), value)
    value = where(a == _INF, _INF, value)
    return where(n < 0, _NAN, where(x < 0, _alternating(n) * value, value))


WHOLE: dict[Op, Expansion] = {
    bessel.kn: _kn,
    bessel.yn: _yn,
    bessel.jv: _known_order(_jn),
    bessel.jve: _known_order(_jn),
    bessel.yv: _known_order(_yn),
    bessel.yve: _known_order(_yne),
    bessel.kv: _known_order(_kn),
    bessel.kve: _known_order(_kne),
    bessel.spherical_yn: _finite(_spherical_yn, -_INF, 0.0, 0.0),
    bessel.spherical_kn: _finite(_spherical_kn, _INF, 0.0, -_INF),
}
_REAL: dict[Op, Expansion] = {
    bessel.iv: _iv,
    bessel.ive: _ive,
    bessel.spherical_in: _spherical_in,
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
EXPANSIONS: dict[Op, Expansion] = {**WHOLE, **{op: of_reals(f) for op, f in _REAL.items()}}
