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
    inside = where(m >= 1.0, 0.5, m)
    x, y = 1.0, np.sqrt(1.0 - inside)
    total, weight = 0.5 * inside, 1.0
    for _ in range(8):
        c = 0.5 * (x - y)
        x, y = 0.5 * (x + y), np.sqrt(x * y)
        total = total + weight * c * c
        weight *= 2.0
    return where(m == 1.0, 1.0, where(m > 1.0, _NAN, where(m == -_INF, _INF, 0.5 * math.pi / x * (1.0 - total))))


_REAL: dict[Op, Expansion] = {
    elliptic.agm: _agm,
    elliptic.ellipk: lambda m: elliptic.ellipkm1(1.0 - m),
    elliptic.ellipkm1: _ellipkm1,
    elliptic.ellipe: _ellipe,
}
EXPANSIONS = {op: of_reals(f) for op, f in _REAL.items()}
