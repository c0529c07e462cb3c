"""Elliptic integrals in terms of other ops, by the arithmetic-geometric mean."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...core.op import Op
from ...ops import elliptic
from ...ops.broadcast import where
from .numerics import Expansion, of_reals

_NAN, _INF = math.nan, math.inf
_TINY = float(np.finfo(float).tiny)


def _agm(a: Any, b: Any) -> Any:
    opposite = np.logical_or(np.logical_and(a > 0.0, b < 0.0), np.logical_and(a < 0.0, b > 0.0))
    negative = np.logical_or(a < 0.0, b < 0.0)
    x, y = np.abs(a), np.abs(b)
    for _ in range(12):
        x, y = 0.5 * x + 0.5 * y, np.sqrt(x) * np.sqrt(y)
    value = where(np.logical_or(a == 0.0, b == 0.0), 0.0, 0.5 * x + 0.5 * y)
    value = where(
        np.logical_or(np.abs(a) == _INF, np.abs(b) == _INF), where(np.logical_or(a == 0.0, b == 0.0), _NAN, _INF), value
    )
    return where(np.logical_or(opposite, np.isnan(a + b)), _NAN, where(negative, -value, value))


def _ellipkm1(p: Any) -> Any:
    value = 0.5 * math.pi / elliptic.agm(1.0, np.sqrt(where(p <= 0.0, 1.0, p)))
    return where(p == 0.0, _INF, where(p < 0.0, _NAN, where(p == _INF, 0.0, value)))


def _ellipe(m: Any) -> Any:
    """K (1 - Σ 2^(n-1) c_n²), by the arithmetic-geometric mean."""
    inside = where(np.logical_or(m >= 1.0, m < -_MODERATE), 0.5, m)
    x, y = 1.0, np.sqrt(1.0 - inside)
    total, weight = 0.5 * inside, 1.0
    for _ in range(8):
        c = 0.5 * (x - y)
        x, y = 0.5 * (x + y), np.sqrt(x * y)
        total = total + weight * c * c
        weight *= 2.0
    value = where(m < -_MODERATE, _far_ellipe(np.maximum(-m, _MODERATE)), 0.5 * math.pi / x * (1.0 - total))
    return where(m == 1.0, 1.0, where(m > 1.0, _NAN, where(m == -_INF, _INF, value)))


_MODERATE = 1e8


def _far_ellipe(m: Any) -> Any:
    """E(−m) for large m: √m (1 + (log(16 m) + 1) / (4 m) + …)."""
    return np.sqrt(m) * (1.0 + (0.25 * np.log(m) + math.log(2.0) + 0.25) / m)


# -- Carlson's symmetric forms ----------------------------------------------------------------------------------


def _duplicated(x: Any, y: Any, z: Any) -> tuple[Any, ...]:
    """The arguments after duplications, by which they become nearly equal, with Σ 4⁻ⁿ / (√zₙ (zₙ + λₙ)) and 4⁻ⁿ."""
    total, scale = 0.0, 1.0
    for _ in range(_DUPLICATIONS):
        a, b, c = np.sqrt(x), np.sqrt(y), np.sqrt(z)
        shift = a * b + a * c + b * c
        total = total + scale / (c * (z + shift))
        scale *= 0.25
        x, y, z = 0.25 * (x + shift), 0.25 * (y + shift), 0.25 * (z + shift)
    return x, y, z, total, scale


_DUPLICATIONS = 14  # for arguments whose ratios are up to about 1e8; each quarters their differences


def _rf(x: Any, y: Any, z: Any) -> Any:
    x1, y1, z1, _, _ = _duplicated(x, y, z)
    mean = (x1 + y1 + z1) / 3.0
    a, b = 1.0 - x1 / mean, 1.0 - y1 / mean
    c = -a - b
    second, third = a * b - c * c, a * b * c
    series = 1.0 - second / 10 + third / 14 + second * second / 24 - 3 * second * third / 44
    value = series / np.sqrt(mean)
    zeros = where(x == 0, 1.0, 0.0) + where(y == 0, 1.0, 0.0) + where(z == 0, 1.0, 0.0)
    bad = np.logical_or(np.minimum(np.minimum(x, y), z) < 0, np.isnan(x + y + z))
    value = where(zeros > 1, _INF, value)
    return where(bad, _NAN, where(np.maximum(np.maximum(x, y), z) == _INF, 0.0, value))


def _rd(x: Any, y: Any, z: Any) -> Any:
    x1, y1, z1, total, scale = _duplicated(x, y, z)
    mean = (x1 + y1 + 3.0 * z1) / 5.0
    a, b = 1.0 - x1 / mean, 1.0 - y1 / mean
    c = -(a + b) / 3.0
    e2, e3 = a * b - 6 * c * c, (3 * a * b - 8 * c * c) * c
    e4, e5 = 3 * (a * b - c * c) * c * c, a * b * c * c * c
    series = 1 - 3 * e2 / 14 + e3 / 6 + 9 * e2 * e2 / 88 - 3 * e4 / 22 - 9 * e2 * e3 / 52 + 3 * e5 / 26
    value = 3.0 * total + scale * series / (mean * np.sqrt(mean))
    bad = np.logical_or(np.minimum(np.minimum(x, y), z) < 0, np.isnan(x + y + z))
    value = where(np.maximum(x, y) == 0, _INF, value)
    value = where(np.maximum(np.maximum(x, y), z) == _INF, 0.0, value)
    return where(bad, _NAN, where(z == 0, _INF, value))


def _rc(x: Any, y: Any) -> Any:
    """R_F(x, y, y); the principal value for y < 0."""
    negative = y < 0
    shift = where(negative, -y, 0.0)
    value = elliptic.elliprf(x + shift, where(negative, shift, y), where(negative, shift, y))
    value = where(negative, np.sqrt(x / (x + shift)) * value, value)
    value = where(np.logical_and(x == _INF, np.isnan(y)), 0.0, value)
    value = where(np.logical_or(x < 0, np.abs(y) < _TINY), _NAN, value)  # a subnormal y is 0, as in SciPy
    return where(np.logical_and(np.abs(x) < _INF, y == -_INF), np.copysign(0.0, x), value)


def _rg(x: Any, y: Any, z: Any) -> Any:
    """In terms of R_F and R_D, with the argument in the middle as the last."""
    low, high = np.minimum(np.minimum(x, y), z), np.maximum(np.maximum(x, y), z)
    middle = np.maximum(np.minimum(x, y), np.minimum(np.maximum(x, y), z))
    safe = where(middle == 0, 1.0, middle)
    value = safe * elliptic.elliprf(low, safe, high) + np.sqrt(low * high / safe)
    value = 0.5 * (value - (safe - low) * (safe - high) / 3.0 * elliptic.elliprd(low, high, safe))
    value = where(middle == 0, 0.5 * np.sqrt(high), where(high == _INF, _INF, value))
    return where(low < 0, _NAN, value)


def _incomplete(phi: Any, m: Any) -> tuple[Any, ...]:
    """The whole number of half turns, and sin² and cos², 1 − m sin² of what is left."""
    turns = np.rint(phi / math.pi)
    rest = phi - math.pi * turns
    s, c = np.sin(rest), np.cos(rest)
    return turns, s, c * c, 1.0 - m * s * s


def _ellipkinc(phi: Any, m: Any) -> Any:
    turns, s, square, delta = _incomplete(phi, m)
    value = s * elliptic.elliprf(square, delta, np.ones(np.shape(square)))
    whole = where(turns == 0, 0.0, 2.0 * turns * elliptic.ellipk(where(m > 1, 0.0, m)))
    value = where(m > 1, _NAN, where(np.isinf(phi), where(np.abs(m) < _INF, phi, _NAN), value + whole))
    value = where(np.logical_and(np.logical_and(m == 1, np.abs(phi) < _INF), np.abs(phi) >= 0.5 * math.pi), _INF, value)
    return where(np.logical_and(np.abs(phi) < _INF, m == -_INF), 0.0, where(np.isnan(phi), phi, value))


def _ellipeinc(phi: Any, m: Any) -> Any:
    turns, s, square, delta = _incomplete(phi, m)
    one = np.ones(np.shape(square))
    value = s * elliptic.elliprf(square, delta, one)
    value = value - m / 3.0 * s * s * s * elliptic.elliprd(square, delta, one)
    whole = where(turns == 0, 0.0, 2.0 * turns * elliptic.ellipe(where(m > 1, 0.0, m)))
    value = where(m > 1, _NAN, where(np.isinf(phi), where(np.isnan(m), m, phi), value + whole))
    return where(np.isnan(phi), phi, where(np.logical_and(m == -_INF, np.abs(phi) < _INF), _INF, value))


def _ellipj(u: Any, m: Any) -> Any:
    """Descending Landen transformations, and back."""
    bad = np.logical_or(np.logical_or(m < 0, m > 1), np.isnan(u + m))
    bad = np.logical_or(bad, np.isinf(u))
    m1 = where(bad, 0.5, np.minimum(m, 1.0 - 1e-12))
    a, b, c = 1.0 + 0.0 * (u + m1), np.sqrt(1.0 - m1) + 0.0 * u, np.sqrt(m1) + 0.0 * u
    ratios = []
    for _ in range(9):
        a, b, c = 0.5 * (a + b), np.sqrt(a * b), 0.5 * (a - b)
        ratios.append(c / a)
    phi = 2.0**9 * a * u
    for ratio in reversed(ratios):
        phi = 0.5 * (phi + np.arcsin(ratio * np.sin(phi)))
    s, c = np.sin(phi), np.cos(phi)
    dn = np.sqrt(1.0 - m1 * s * s)
    at_one = np.logical_and(m > 1.0 - 1e-12, np.logical_not(bad))
    flat, tail = np.tanh(u), 1.0 / np.cosh(u)
    results = (s, c, dn, phi)
    limits = (flat, tail, tail, 2.0 * np.arctan(np.exp(u)) - math.pi / 2)
    return tuple(where(bad, _NAN, where(at_one, y1, y)) for y, y1 in zip(results, limits, strict=True))


_REAL: dict[Op, Expansion] = {
    elliptic.agm: _agm,
    elliptic.ellipk: lambda m: elliptic.ellipkm1(1.0 - m),
    elliptic.ellipkm1: _ellipkm1,
    elliptic.ellipe: _ellipe,
    elliptic.elliprf: _rf,
    elliptic.elliprd: _rd,
    elliptic.elliprc: _rc,
    elliptic.elliprg: _rg,
    elliptic.ellipkinc: _ellipkinc,
    elliptic.ellipeinc: _ellipeinc,
    elliptic.ellipj: _ellipj,
}
EXPANSIONS = {op: of_reals(f) for op, f in _REAL.items()}
