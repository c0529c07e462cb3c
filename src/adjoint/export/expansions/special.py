"""Closed forms of functions of scipy.special: angles in degrees, entropies, losses, powers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...core.op import Op
from ...core.types import Shape, shape_of
from ...ops import special
from ...ops.broadcast import where
from .numerics import Expansion, of_reals

_NAN, _INF = math.nan, math.inf


def _in_degrees(x: Any) -> tuple[Any, Any]:
    """sin and cos of an angle in degrees, exact at multiples of 90."""
    lost = np.abs(x) > 1e14  # the angle has no significant digits left; SciPy gives 0 for both
    x = where(lost, 0.0, x)
    k = np.rint(x / 90.0)
    r = (x - 90.0 * k) * (math.pi / 180.0)
    quarter = k - 4.0 * np.floor(0.25 * k)
    s, c = np.sin(r), np.cos(r)
    odd = np.logical_or(quarter == 1.0, quarter == 3.0)
    sine, cosine = where(odd, c, s), where(odd, s, c)
    cosine = where(np.logical_or(quarter == 1.0, quarter == 2.0), -cosine, cosine)
    return where(quarter >= 2.0, -sine, sine), where(lost, 0.0, cosine)


def _tandg(x: Any) -> Any:
    s, c = _in_degrees(x)
    return where(np.abs(x) > 1e14, 0.0, where(c == 0.0, _INF, s / c))


def _cotdg(x: Any) -> Any:
    s, c = _in_degrees(x)
    return where(np.abs(x) > 1e14, 0.0, where(s == 0.0, _INF, c / s))


def _logit(x: Any) -> Any:
    s = 2.0 * (x - 0.5)
    middle = np.logical_and(x >= 0.3, x <= 0.65)
    return where(middle, np.log1p(where(middle, s, 0.0)) - np.log1p(-where(middle, s, 0.0)), np.log(x / (1.0 - x)))


def _rel_entr(x: Any, y: Any, more: Any = lambda x, y: 0.0) -> Any:
    inside = np.logical_and(x > 0, y > 0)
    a, b = where(inside, x, 1.0), where(inside, y, 1.0)
    ratio = a / b
    near = np.logical_and(ratio > 0.5, ratio < 2)
    usual = np.logical_and(ratio > 0, ratio < _INF)
    logarithm = where(near, np.log1p((a - b) / b), where(usual, np.log(where(usual, ratio, 1.0)), np.log(a) - np.log(b)))
    value = where(inside, more(a, b) + a * logarithm, where(np.logical_and(x == 0, y >= 0), more(x, y), _INF))
    return where(np.logical_or(np.isnan(x), np.isnan(y)), _NAN, value)


def _huber(delta: Any, r: Any) -> Any:
    a = np.abs(r)
    return where(delta < 0.0, _INF, where(a <= delta, 0.5 * r * r, delta * (a - 0.5 * delta)))


def _pseudo_huber(delta: Any, r: Any) -> Any:
    v = r / where(delta == 0.0, 1.0, delta)
    value = r * (r / (1.0 + np.hypot(1.0, v)))
    value = where(np.abs(v) > 1e17, delta * np.abs(r), value)
    value = where(np.abs(r) == _INF, _INF, value)
    value = where(np.abs(delta) < _INF, value, _NAN)
    return where(delta < 0.0, _INF, where(np.logical_or(delta == 0.0, r == 0.0), 0.0, value))


def _boxcox_of(logarithm: Any, power: Any) -> Any:
    exponent = power * logarithm
    flat = np.abs(power) < 1e-19
    safe = where(flat, 1.0, power)
    big = np.exp(exponent - np.log(np.abs(safe))) * where(safe < 0.0, -1.0, 1.0) - 1.0 / safe
    return where(flat, logarithm, where(exponent < 709.78, np.expm1(exponent) / safe, big))


def _inv_boxcox_log(x: Any, power: Any) -> Any:
    safe = where(power == 0.0, 1.0, power)
    product = power * x
    logarithm = where(np.abs(product) < 1e300, np.log1p(product), np.log(np.abs(safe)) + np.log(np.abs(x)))
    logarithm = where(product < -1.0, _NAN, logarithm)
    return where(np.logical_or(power == 0.0, np.abs(product) < 1e-154), x, logarithm / safe)


def _powm1(x: Any, y: Any) -> Any:
    positive = np.logical_and(x > 0.0, np.abs(x) < _INF)
    exponent = y * np.log(where(positive, x, 1.0))
    near = np.logical_and(positive, np.abs(exponent) < 0.5)
    value = where(near, np.expm1(where(near, exponent, 0.0)), np.power(x, y) - 1.0)
    whole = np.logical_and(y == np.floor(y), np.abs(y) < _INF)
    return where(np.logical_and(x < 0, np.logical_not(whole)), _NAN, value)


def _exprel(x: Any) -> Any:
    small = np.abs(x) < 1e-16
    return where(small, 1.0, where(x > 717.0, _INF, np.expm1(x) / where(small, 1.0, x)))


def _diric(x: Any, n: Any) -> Any:
    """sin(nx/2) / (n sin(x/2)); ±1 where both sines vanish."""
    low = np.sin(0.5 * x)
    flat = np.abs(low) < 3e-15
    turns = np.rint(x / (2 * math.pi)) * (n - 1.0)
    limit = where(np.floor(0.5 * turns) == 0.5 * turns, 1.0, -1.0)
    value = where(flat, limit, np.sin(0.5 * n * x) / (n * where(flat, 1.0, low)))
    return where(np.logical_or(n <= 0, n != np.floor(n)), _NAN, value)


def _logsumexp(x: Any, *, axis: Shape) -> Any:
    top = np.max(x, axis=axis, keepdims=True)
    level = where(np.abs(top) < _INF, top, 0.0)
    total = np.log(np.sum(np.exp(x - level), axis=axis))
    return total + np.reshape(level, shape_of(total))


_REAL: dict[Op, Expansion] = {
    special.exp10: lambda x: np.power(10.0, x),
    special.cosm1: lambda x: -2.0 * np.square(np.sin(0.5 * x)),
    special.logit: _logit,
    special.powm1: _powm1,
    special.exprel: _exprel,
    special.sindg: lambda x: _in_degrees(x)[0],
    special.cosdg: lambda x: _in_degrees(x)[1],
    special.tandg: _tandg,
    special.cotdg: _cotdg,
    special.radian: lambda d, m, s: ((d * 60.0 + m) * 60.0 + s) * (math.pi / 648000.0),
    special.diric: _diric,
    special.round_: lambda x, *out: np.rint(x),
    special.rel_entr: _rel_entr,
    special.kl_div: lambda x, y: _rel_entr(x, y, lambda x, y: y - x),
    special.huber: _huber,
    special.pseudo_huber: _pseudo_huber,
    special.boxcox: lambda x, p: _boxcox_of(np.log(x), p),
    special.boxcox1p: lambda x, p: _boxcox_of(np.log1p(x), p),
    special.inv_boxcox: lambda x, p: np.exp(_inv_boxcox_log(x, p)),
    special.inv_boxcox1p: lambda x, p: np.expm1(_inv_boxcox_log(x, p)),
}
EXPANSIONS: dict[Op, Expansion] = {special.logsumexp: _logsumexp, **{op: of_reals(f) for op, f in _REAL.items()}}
