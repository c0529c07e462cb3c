"""The error function, its inverse and its relatives in terms of other ops: polynomials, asymptotic series, Halley's method."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...compiler.llvm.vecmath import coefficients
from ...core.op import Op
from ...ops import special
from ...ops.broadcast import where
from .numerics import LEAST, Expansion, horner, of_reals

_NAN, _INF = math.nan, math.inf


def _growth(a: Any) -> Any:
    """(1 + 2a)·np.exp(a²)·erfc(a)."""
    return horner((a - 3.75) / (a + 3.75), coefficients.ERFCX_64) + 1.25


def _erf_small(x: Any) -> Any:
    return x + x * horner(x * x, coefficients.ERF_64)


def _erf(x: Any) -> Any:
    a = np.abs(x)
    bounded = np.minimum(np.maximum(a, 1.0), 6.5)
    rest = np.exp(-(bounded * bounded)) * _growth(bounded) / (2 * bounded + 1)
    near = a < 1
    return where(np.isnan(x), x, where(near, _erf_small(where(near, x, 0.0)), np.copysign(1 - rest, x)))


def _erfc(x: Any) -> Any:
    """np.exp(−a²)·p/(1 + 2a) for a = |x|. The square is split, since its rounding would be magnified."""
    a = np.abs(x)
    bounded = np.minimum(np.maximum(a, 0.5), 28.0)
    high = np.floor(bounded * 2.0**20) * 2.0**-20
    far = np.exp(-(high * high)) * np.exp(-(bounded - high) * (bounded + high)) * _growth(bounded) / (2 * bounded + 1)
    near = 1 - _erf_small(where(a < 0.5, x, 0.0))
    return where(np.isnan(x), x, where(a < 0.5, near, where(x < 0, 2 - far, far)))


def _erfcx(x: Any) -> Any:
    a = np.abs(x)
    far = np.maximum(a, 28.0)
    series = horner(1.0 / (far * far), (1.0, -0.5, 0.75, -1.875, 6.5625, -29.53125)) / (math.sqrt(math.pi) * far)
    middle = np.minimum(np.maximum(a, 0.5), 28.0)
    right = where(a > 28.0, series, _growth(middle) / (1.0 + 2.0 * middle))
    near = np.exp(np.minimum(x * x, 1.0)) * special.erfc(x)
    return where(a < 0.5, near, where(x < 0.0, 2.0 * np.exp(x * x) - right, right))


def _log_ndtr(x: Any) -> Any:
    z = x * math.sqrt(0.5)
    left = np.log(0.5 * special.erfcx(-np.minimum(z, 0.0))) - z * z
    return where(x < -1.0, left, np.log1p(-0.5 * special.erfc(np.maximum(z, -1.0))))


def _erfcinv_small(q: Any) -> Any:
    """x >= 0 with erfc(x) = q <= 1: Halley's method on log erfc, from an asymptotic start."""
    inside = np.maximum(q, LEAST)
    l = 2.0 * (math.log(2.0) - np.log(inside))  # noqa: E741
    t = np.sqrt(np.maximum(l, 1e-300))
    above, below = 2.515517 + 0.802853 * t + 0.010328 * t * t, 1.0 + 1.432788 * t + 0.189269 * t * t + 0.001308 * t * t * t
    x = math.sqrt(0.5) * (t - above / below)
    x = np.maximum(x, 0.0)
    for _ in range(3):
        scaled = special.erfcx(x)
        # f = log erfc(x) - log q; log erfc(x) = log erfcx(x) - x²
        f = np.log(scaled) - x * x - np.log(inside)
        slope = -2.0 / (math.sqrt(math.pi) * scaled)
        x = x - f / slope / (1.0 - 0.5 * f / slope * (-2.0 * x - slope))
    return x


def _erfinv_middle(y: Any) -> Any:
    """x with erf(x) = y, |y| <= 0.5: Halley's method."""
    x = y * (math.sqrt(math.pi) / 2 + y * y * (0.2320136665 + y * y * 0.1275561753))
    for _ in range(3):
        f = (special.erf(x) - y) * (0.5 * math.sqrt(math.pi)) * np.exp(x * x)
        x = x - f / (1.0 + x * f)
    return x


def _erfinv(y: Any) -> Any:
    middle = np.abs(y) <= 0.5
    outer = _erfcinv_small(1.0 - where(middle, 0.5, np.abs(y)))
    value = where(middle, _erfinv_middle(where(middle, y, 0.25)), where(y < 0.0, -outer, outer))
    return where(np.abs(y) == 1.0, np.copysign(_INF, y), where(np.abs(y) > 1.0, _NAN, where(y == 0.0, y, value)))


def _erfcinv(q: Any) -> Any:
    low, high = q < 0.5, q > 1.5
    outer = _erfcinv_small(where(low, q, where(high, 2.0 - q, 0.5)))
    middle = _erfinv_middle(where(np.logical_or(low, high), 0.25, 1.0 - q))
    value = where(low, outer, where(high, -outer, middle))
    ends = where(q == 0.0, _INF, where(q == 2.0, -_INF, _NAN))
    return where(np.logical_or(q <= 0.0, q >= 2.0), ends, value)


def _ndtri(p: Any) -> Any:
    return -math.sqrt(2.0) * special.erfcinv(2.0 * p)


_REAL: dict[Op, Expansion] = {
    special.erfcx: _erfcx,
    special.log_ndtr: _log_ndtr,
    special.erfinv: _erfinv,
    special.erfcinv: _erfcinv,
    special.ndtri: _ndtri,
}
EXPANSIONS: dict[Op, Expansion] = {special.erf: _erf, special.erfc: _erfc, **{op: of_reals(f) for op, f in _REAL.items()}}
