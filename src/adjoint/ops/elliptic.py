"""Elliptic integrals and functions, in the parameter m = k² as in SciPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core.op import case
from ..core.types import Value
from .broadcast import where
from .declare import opaque
from .elementwise import absolute, cos, equal, less, sin, sqrt
from .hypergeometric import hyp2f1
from .lazy import SPECIAL, Lazy, chained_sum, special

# K' and E' by m; near 0, where the quotients cancel, as hypergeometric series.


def _near_zero(m: Value, series: Value, quotient: Value) -> Value:
    return where(less(absolute(m), 0.1), series, quotient)


def _small(m: Value) -> Value:
    return where(less(absolute(m), 0.1), m, 0.0)


ellipk = special(
    "ellipk",
    lambda y, m: (
        _near_zero(m, math.pi / 8 * hyp2f1(1.5, 1.5, 2.0, _small(m)), (ellipe(m) / (1 - m) - y) / (2 * m)),
    ),
    domain=(-2, 0.8),
)  # fmt: skip
ellipkm1 = special(
    "ellipkm1",
    lambda y, p: (
        -_near_zero(1 - p, math.pi / 8 * hyp2f1(1.5, 1.5, 2.0, _small(1 - p)), (ellipe(1 - p) / p - y) / (2 * (1 - p))),
    ),
    domain=(0.2, 2),
)  # fmt: skip
ellipe = special(
    "ellipe",
    lambda y, m: (_near_zero(m, -math.pi / 8 * hyp2f1(0.5, 1.5, 2.0, _small(m)), (y - ellipk(m)) / (2 * m)),),
    domain=(-2, 0.8),
)

# The arithmetic-geometric mean is π a / (2 K(1 − b²/a²)); it is homogeneous, so one partial gives the other.
agm = special(
    "agm",
    lambda y, a, b: ((y - where(equal(b, 0), 0.0, b * _agm_by_b(y, a, b))) / a, _agm_by_b(y, a, b)),
    domain=((0.5, 2), (0.5, 2)),
    cases=[case((3,), (3,)), case(np.array([1.0, 2.0]), np.array([1.0, 2.001]))],
)


def _agm_by_b(y: Value, a: Value, b: Value) -> Value:
    p = (b / a) * (b / a)
    near = math.pi / 8 * hyp2f1(1.5, 1.5, 2.0, _small(1 - p))
    k = 0.5 * math.pi * a / y
    slope = _near_zero(1 - p, near, (ellipe(1 - p) / p - k) / (2 * (1 - p)))
    return y * slope / k * 2 * b / (a * a)


# -- incomplete -------------------------------------------------------------------------------------------------


def _delta(phi: Value, m: Value) -> Value:
    return sqrt(1 - m * sin(phi) * sin(phi))


def _sine_series(phi: Value, m: Value, exponent: float) -> Value:
    """∫₀^φ sin²θ (1 − m sin²θ)^exponent dθ for small m, term by term in m."""
    s, c = sin(phi), cos(phi)
    integral: Value = 0.5 * (phi - s * c)
    total, factor, odd = integral, 1.0, s
    for n in range(1, 10):
        odd = odd * s * s  # sin^(2n+1)
        integral = ((2 * n + 1) * integral - c * odd) / (2 * n + 2)
        factor = factor * (n - 1 - exponent) / n * m
        total = total + factor * integral
    return total


def _first_by_m(y: Value, phi: Value, m: Value) -> Value:
    """∂F/∂m = ½ ∫ sin²θ (1 − m sin²θ)^(−3/2) dθ."""
    small = less(absolute(m), 0.02)
    quotient = (ellipeinc(phi, m) / (1 - m) - y - m * sin(phi) * cos(phi) / ((1 - m) * _delta(phi, m))) / (2 * m)
    return where(small, 0.5 * _sine_series(phi, where(small, m, 0.0), -1.5), quotient)


def _second_by_m(y: Value, phi: Value, m: Value) -> Value:
    """∂E/∂m = −½ ∫ sin²θ (1 − m sin²θ)^(−1/2) dθ."""
    small = less(absolute(m), 0.02)
    return where(small, -0.5 * _sine_series(phi, where(small, m, 0.0), -0.5), (y - ellipkinc(phi, m)) / (2 * m))


_INCOMPLETE = [
    case((3,), (3,)),
    case((2, 1), (2,)),
    case(np.array([0.7, 1.2, 4.0, -2.0]), np.array([0.0, 0.01, -0.012, 0.5])),
    case((), ()),
]
ellipkinc = special(
    "ellipkinc",
    lambda y, phi, m: (1 / _delta(phi, m), _first_by_m(y, phi, m)),
    domain=((-1.4, 1.4), (0.1, 0.8)),
    cases=_INCOMPLETE,
)
ellipeinc = special(
    "ellipeinc",
    lambda y, phi, m: (_delta(phi, m), _second_by_m(y, phi, m)),
    domain=((-1.4, 1.4), (0.1, 0.8)),
    cases=_INCOMPLETE,
)

# -- Jacobi's functions sn, cn, dn and the amplitude φ, which solves F(φ, m) = u --------------------------------


def _by_u(ys: Any, m: Value) -> tuple[Value, ...]:
    sn, cn, dn, _ = ys
    return cn * dn, -sn * dn, -m * sn * cn, dn


def _by_m(ys: Any, u: Value, m: Value) -> tuple[Value, ...]:
    sn, cn, dn, phi = ys
    turn = -dn * _first_by_m(u, phi, m)
    return cn * turn, -sn * turn, -(0.5 * sn * sn + m * sn * cn * turn) / dn, turn


def _ellipj_jvp(ts: Any, ys: Any, u: Value, m: Value) -> Any:
    du, dm = ts
    parts = [[0.0] * 4, [0.0] * 4]
    if du is not None:
        parts[0] = [du * p for p in _by_u(ys, m)]
    if dm is not None:
        parts[1] = [dm * p for p in _by_m(ys, u, m)]
    return tuple(a + b for a, b in zip(*parts, strict=True))


ellipj = opaque(
    "ellipj",
    Lazy("scipy.special", "ellipj"),
    jvp=_ellipj_jvp,
    vjp=lambda gs, ys, u, m: (chained_sum(gs, _by_u(ys, m)), chained_sum(gs, _by_m(ys, u, m))),
    axes=(),
    domain=((-1.4, 1.4), (0.1, 0.8)),
    cases=[case((3,), (3,)), case((2, 1), (2,)), case((), ()), case(np.array([0.7, 1.2]), np.array([0.001, 0.01]))],
    many=True,
    doc="scipy.special.ellipj",
)
SPECIAL["ellipj"] = ellipj

# -- Carlson's symmetric forms: those whose derivatives are again such forms ------------------------------------

_POSITIVE = (0.4, 3)
_TRIPLES = [case((3,), (3,), (3,)), case((2, 1), (2,), ())]
elliprd = special(
    "elliprd",
    lambda r, x, y, z: (
        _rd_across(r, x, y, z),
        _rd_across(r, y, x, z),
        -(1.5 * r + x * _rd_across(r, x, y, z) + y * _rd_across(r, y, x, z)) / z,
    ),
    domain=((0.4, 1), (0.4, 1), (1.5, 3)),
    cases=_TRIPLES,
)
elliprf = special(
    "elliprf",
    lambda r, x, y, z: (-elliprd(y, z, x) / 6, -elliprd(z, x, y) / 6, -elliprd(x, y, z) / 6),
    domain=((0.4, 1), (1.5, 2), (2.5, 3)),
    cases=_TRIPLES,
)
elliprc = special(
    "elliprc", lambda r, x, y: (_rc_by_x(r, x, y), -(0.5 * r + x * _rc_by_x(r, x, y)) / y), domain=((0.4, 1), (1.5, 3))
)
elliprg = special(
    "elliprg",
    lambda r, x, y, z: (_rg_by(x, y, z), _rg_by(y, z, x), _rg_by(z, x, y)),
    domain=((0.4, 1), (1.5, 2), (2.5, 3)),
    cases=_TRIPLES,
)


def _rg_by(x: Value, y: Value, z: Value) -> Value:
    return 0.25 * (elliprf(x, y, z) - x / 3 * elliprd(y, z, x))


def _rc_by_x(r: Value, x: Value, y: Value) -> Value:
    return (r - 1 / sqrt(x)) / (2 * (y - x))


def _rd_across(r: Value, x: Value, y: Value, z: Value) -> Value:
    """∂R_D/∂x, by Euler and Poisson: R_D = −6 ∂R_F/∂z, and mixed derivatives of R_F are differences of single ones."""
    return (r - elliprd(y, z, x)) / (2 * (z - x))
