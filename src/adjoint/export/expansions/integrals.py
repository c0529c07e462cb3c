"""Exponential, trigonometric and Fresnel integrals, Dawson's function and the dilogarithm in terms of other ops.

Power series, continued fractions, and Chebyshev polynomials whose coefficients are computed from SciPy's values when a
program is written. To about 1e-13 of the size of the result, or of its larger terms near a zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.op import Op
from ...ops import hypergeometric as h
from ...ops import special
from ...ops.broadcast import where
from .numerics import LEAST, Expansion, fitted, fraction, horner, of_reals, scipy_special

_EULER = 0.5772156649015329
_NAN, _INF = math.nan, math.inf


def _series(x: Any, first: int, step: int, terms: int, sign: int = 1) -> Any:
    """Σ ± xᵏ⁻ᶠ / (k k!) for k = f, f + s, …, without the factor xᶠ."""
    signs = [sign**i for i in range(terms)]
    return horner(x**step, [s / (k * math.factorial(k)) for s, k in zip(signs, range(first, 999, step), strict=False)])


# -- exponential integrals --------------------------------------------------------------------------------------


def _exp1(x: Any) -> Any:
    near, far = np.minimum(np.maximum(x, LEAST), 1.0), np.maximum(x, 1.0)
    series = near * _series(-near, 1, 1, 20) - _EULER - np.log(near)
    bounded = np.minimum(far, 1e3)
    value = np.exp(-far) / fraction(lambda k: (-k * k, bounded + 2.0 * k + 1.0), bounded + 1.0)
    return where(x == 0, _INF, where(x < 0, _NAN, where(x <= 1, series, value)))


_EI_FAR = 40.0


def _expi(x: Any) -> Any:
    near, far = np.minimum(np.maximum(x, LEAST), _EI_FAR), np.maximum(x, _EI_FAR)
    total = near * _series(near, 1, 1, 150) + _EULER + np.log(near)
    tail = horner(1.0 / far, [float(math.factorial(k)) for k in range(40)])
    half = np.exp(0.5 * far)
    positive = where(x <= _EI_FAR, total, half * (half / far) * tail)
    return where(x == 0, -_INF, where(x < 0, -h.exp1(np.abs(x)), where(x == _INF, _INF, positive)))


def _shichi(x: Any) -> Any:
    a = np.abs(x)
    near, far = np.minimum(a, 1.0), np.maximum(a, 1.0)
    growth, decay = h.expi(far), h.exp1(far)
    odd = where(a <= 1, near * _series(near, 1, 2, 12), 0.5 * (growth + decay))
    small = np.maximum(near, LEAST)
    even = where(a <= 1, _EULER + np.log(small) + near * near * _series(near, 2, 2, 12), 0.5 * (growth - decay))
    return np.copysign(odd, x), where(x == 0, -_INF, even)


# -- trigonometric and Fresnel integrals ------------------------------------------------------------------------


def _of_root(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function of x² as one of x, away from 0."""
    return lambda s: f(np.sqrt(np.maximum(s, 1e-12)))


_SI_FAR = 4.0


def _si_parts(t: Any) -> Any:
    """x (f + i g) at x = 4 / t, where Si = π/2 − f cos − g sin and Ci = f sin − g cos."""
    x = _SI_FAR / t
    return 1j * x * np.exp(1j * x) * scipy_special("exp1")(1j * x)


_F_SI, _G_SI = _of_root(lambda t: _si_parts(t).real), _of_root(lambda t: _si_parts(t).imag / t)


def _sici(x: Any) -> Any:
    a = np.abs(x)
    near, far = np.minimum(a, _SI_FAR), np.minimum(np.maximum(a, _SI_FAR), 1e300)
    t = (_SI_FAR / far) * (_SI_FAR / far)
    f, g = fitted(t, _F_SI, 0.0, 1.0) / far, fitted(t, _G_SI, 0.0, 1.0) * (_SI_FAR / far) / far
    c, s = np.cos(far), np.sin(far)
    si = where(a <= _SI_FAR, near * _series(near, 1, 2, 18, -1), math.pi / 2 - f * c - g * s)
    ci = f * s - g * c
    small = np.maximum(near, LEAST)
    ci = where(a <= _SI_FAR, _EULER + np.log(small) - near * near * _series(near, 2, 2, 18, -1), ci)
    si = where(a == _INF, math.pi / 2, si)
    ci = where(x == 0, -_INF, where(a == _INF, where(x > 0, 0.0, _NAN), ci))
    return np.copysign(si, x), where(np.isnan(x), x, ci)


_FRESNEL_FAR = 2.0


def _fresnel_parts(t: Any) -> Any:
    """g + i f at x = 2 / t, where S = ½ − f cos − g sin and C = ½ + f sin − g cos of πx²/2."""
    return (1 + 1j) / 2 * scipy_special("wofz")(math.sqrt(math.pi) / 2 * (1 + 1j) * _FRESNEL_FAR / t)


_F_FRESNEL = _of_root(lambda t: _fresnel_parts(t).imag * _FRESNEL_FAR / t)
_G_FRESNEL = _of_root(lambda t: _fresnel_parts(t).real * (_FRESNEL_FAR / t) ** 3)
_S_NEAR = _of_root(lambda x: scipy_special("fresnel")(x)[0] / x**3)
_C_NEAR = _of_root(lambda x: scipy_special("fresnel")(x)[1] / x)


def _fresnel(x: Any) -> Any:
    a = np.abs(x)
    near, far = np.minimum(a, _FRESNEL_FAR), np.minimum(np.maximum(a, _FRESNEL_FAR), 1e6)
    square = near * near
    s_near = near * square * fitted(square, _S_NEAR, 0.0, 4.0)
    c_near = near * fitted(square, _C_NEAR, 0.0, 4.0)
    t = (_FRESNEL_FAR / far) * (_FRESNEL_FAR / far)
    f, g = fitted(t, _F_FRESNEL, 0.0, 1.0) / far, fitted(t, _G_FRESNEL, 0.0, 1.0) / (far * far * far)
    turn = far * far - 4.0 * np.rint(0.25 * far * far)
    s, c = np.sin(math.pi / 2 * turn), np.cos(math.pi / 2 * turn)
    inside = a <= _FRESNEL_FAR
    lost = a > 1e6
    results = where(inside, s_near, 0.5 - f * c - g * s), where(inside, c_near, 0.5 + f * s - g * c)
    return tuple(where(np.isnan(x), x, np.copysign(where(lost, 0.5, y), x)) for y in results)


# -- Dawson's function, the dilogarithm -------------------------------------------------------------------------

_DAWSON_FAR = 5.0
_D_NEAR = _of_root(lambda x: scipy_special("dawsn")(x) / x)
_D_FAR = _of_root(lambda t: _DAWSON_FAR / t * scipy_special("dawsn")(_DAWSON_FAR / t))


def _dawsn(x: Any) -> Any:
    a = np.abs(x)
    near, far = np.minimum(a, _DAWSON_FAR), np.maximum(a, _DAWSON_FAR)
    t = (_DAWSON_FAR / far) * (_DAWSON_FAR / far)
    inside = near * fitted(near * near, _D_NEAR, 0.0, 25.0, 60)
    return np.copysign(where(a <= _DAWSON_FAR, inside, fitted(t, _D_FAR, 0.0, 1.0) / far), x)


def _erfi(x: Any) -> Any:
    a = np.abs(x)
    value = 2 / math.sqrt(math.pi) * np.exp(np.minimum(x * x, 720.0)) * special.dawsn(x)
    return where(a > 26.8, np.copysign(_INF, x), value)


def _dilogarithm(z: Any) -> Any:
    near = np.abs(1 - z) < 1e-9
    return np.where(near, 1.0, scipy_special("spence")(z) / np.where(near, 1.0, 1 - z))


def _spence(z: Any) -> Any:
    """By reflections z → 1/z and z → 1 − z into [½, 3/2]."""
    inverted = z > 1.5
    w = where(inverted, 1.0 / where(inverted, z, 1.0), np.maximum(z, 0.0))
    reflected = w < 0.5
    v = where(reflected, 1.0 - w, w)
    value = (1.0 - v) * fitted(v, _dilogarithm, 0.5, 1.5)
    safe = np.maximum(w, LEAST)
    value = where(reflected, math.pi**2 / 6 - np.log(safe) * np.log1p(-np.minimum(w, 0.5)) - value, value)
    logarithm = np.log(where(inverted, z, 1.0))
    return where(np.logical_or(z < 0, z == math.inf), _NAN, where(inverted, -0.5 * logarithm * logarithm - value, value))


_REAL: dict[Op, Expansion] = {
    h.exp1: _exp1,
    h.expi: _expi,
    h.shichi: _shichi,
    h.sici: _sici,
    h.fresnel: _fresnel,
    h.spence: _spence,
    special.dawsn: _dawsn,
    special.erfi: _erfi,
}
EXPANSIONS = {op: of_reals(f) for op, f in _REAL.items()}
