"""Bessel functions and their relatives. The derivative uses the neighbouring orders; there is no derivative with respect to the
order."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.errors import UnsupportedError
from ..core.op import Elementwise, case
from ..core.types import Value, dtype_of
from .broadcast import where
from .declare import elementwise
from .elementwise import equal, maximum, power, safe_ratio, sign
from .gamma import rgamma
from .lazy import Lazy, special, special_many

_POSITIVE = (0.4, 3)
_ORDERS = [case(np.array([0.0, 1.0, 2.5, -0.7]), (4,)), case(1.5, (2, 2)), case(2, (3,))]
_WHOLE_ORDERS = [case(np.array([0, 1, 4]), (3,)), case(2, (2, 2))]

# -- of any order -----------------------------------------------------------------------------------------------

jv = special(
    "jv", lambda y, v, z: (None, 0.5 * (jv(v - 1, z) - jv(v + 1, z))), domain=_POSITIVE, cases=_ORDERS, complex_domain=True
)
yv = special(
    "yv", lambda y, v, z: (None, 0.5 * (yv(v - 1, z) - yv(v + 1, z))), domain=_POSITIVE, cases=_ORDERS, complex_domain=True
)
iv = special(
    "iv", lambda y, v, z: (None, 0.5 * (iv(v - 1, z) + iv(v + 1, z))), domain=_POSITIVE, cases=_ORDERS, complex_domain=True
)
kv = special(
    "kv", lambda y, v, z: (None, -0.5 * (kv(v - 1, z) + kv(v + 1, z))), domain=_POSITIVE, cases=_ORDERS, complex_domain=True
)
hankel1 = special(
    "hankel1",
    lambda y, v, z: (None, 0.5 * (hankel1(v - 1, z) - hankel1(v + 1, z))),
    domain=_POSITIVE,
    cases=_ORDERS,
    complex_domain=True,
)
hankel2 = special(
    "hankel2",
    lambda y, v, z: (None, 0.5 * (hankel2(v - 1, z) - hankel2(v + 1, z))),
    domain=_POSITIVE,
    cases=_ORDERS,
    complex_domain=True,
)
yn = special("yn", lambda y, n, x: (None, 0.5 * (yv(n - 1, x) - yv(n + 1, x))), domain=_POSITIVE, cases=_WHOLE_ORDERS)
kn = special("kn", lambda y, n, x: (None, -0.5 * (kv(n - 1, x) + kv(n + 1, x))), domain=_POSITIVE, cases=_WHOLE_ORDERS)

# -- exponentially scaled: by e^z and e^(∓iz) they stay analytic, by e^(−|·|) only on the real line -------------

kve = special(
    "kve", lambda y, v, z: (None, y - 0.5 * (kve(v - 1, z) + kve(v + 1, z))), domain=_POSITIVE, cases=_ORDERS, complex_domain=True
)
hankel1e = special(
    "hankel1e",
    lambda y, v, z: (None, 0.5 * (hankel1e(v - 1, z) - hankel1e(v + 1, z)) - 1j * y),
    domain=_POSITIVE,
    cases=_ORDERS,
    complex_domain=True,
)
hankel2e = special(
    "hankel2e",
    lambda y, v, z: (None, 0.5 * (hankel2e(v - 1, z) - hankel2e(v + 1, z)) + 1j * y),
    domain=_POSITIVE,
    cases=_ORDERS,
    complex_domain=True,
)
ive = special(
    "ive",
    lambda y, v, z: (None, 0.5 * (ive(v - 1, z) + ive(v + 1, z)) - sign(_on_the_line(z)) * y),
    domain=_POSITIVE,
    cases=_ORDERS,
)
jve = special("jve", lambda y, v, z: (None, 0.5 * (jve(v - 1, z) - jve(v + 1, _on_the_line(z)))), domain=_POSITIVE, cases=_ORDERS)
yve = special("yve", lambda y, v, z: (None, 0.5 * (yve(v - 1, z) - yve(v + 1, _on_the_line(z)))), domain=_POSITIVE, cases=_ORDERS)


def _real_only(x: Any) -> Any:
    if dtype_of(x).kind == "c":
        raise UnsupportedError(
            "a Bessel function scaled by exp(−|·|) is not analytic: it has a derivative for real arguments only"
        )
    return x


_on_the_line = elementwise("real_argument", _real_only, lambda y, x: (1,), scalar=lambda x: x)

# -- orders 0 and 1 ---------------------------------------------------------------------------------------------

j0 = special("j0", lambda y, x: (-j1(x),), finite=True)
j1 = special("j1", lambda y, x: (0.5 * (j0(x) - jv(2.0, x)),), finite=True)
y0 = special("y0", lambda y, x: (-y1(x),), domain=_POSITIVE)
y1 = special("y1", lambda y, x: (y0(x) - y / x,), domain=_POSITIVE)
i0 = special("i0", lambda y, x: (i1(x),))
i1 = special("i1", lambda y, x: (0.5 * (i0(x) + iv(2.0, x)),))
k0 = special("k0", lambda y, x: (-k1(x),), domain=_POSITIVE)
k1 = special("k1", lambda y, x: (-k0(x) - y / x,), domain=_POSITIVE)
i0e = special("i0e", lambda y, x: (i1e(x) - sign(x) * y,), domain=_POSITIVE, finite=True)
i1e = special("i1e", lambda y, x: (0.5 * (i0e(x) + ive(2.0, x)) - sign(x) * y,), domain=_POSITIVE, finite=True)
k0e = special("k0e", lambda y, x: (y - k1e(x),), domain=_POSITIVE)
k1e = special("k1e", lambda y, x: (y - k0e(x) - y / x,), domain=_POSITIVE)

# -- spherical: (2n+1) f' = n f(n−1) ∓ (n+1) f(n+1), which needs no division by z -------------------------------


def _spherical(name: str, slope: Callable[[Any, Value, Value], Value]) -> Elementwise:
    op = special(
        name,
        lambda y, n, z: (None, slope(op, n, z) / (2 * n + 1)),
        domain=_POSITIVE,
        cases=_WHOLE_ORDERS,
        complex_domain=True,
    )
    return op


def _before(f: Any, n: Value, z: Value) -> Value:
    return n * f(maximum(n - 1, 0), z)


spherical_jn = _spherical("spherical_jn", lambda f, n, z: _before(f, n, z) - (n + 1) * f(n + 1, z))
spherical_yn = _spherical("spherical_yn", lambda f, n, z: _before(f, n, z) - (n + 1) * f(n + 1, z))
spherical_in = _spherical("spherical_in", lambda f, n, z: _before(f, n, z) + (n + 1) * f(n + 1, z))
spherical_kn = _spherical("spherical_kn", lambda f, n, z: -(_before(f, n, z) + (n + 1) * f(n + 1, z)))


def spherical_slope(op: Elementwise, n: Value, z: Value) -> Value:
    """The derivative of a spherical Bessel function, from the neighbouring orders."""
    if op is spherical_in:
        return (_before(op, n, z) + (n + 1) * op(n + 1, z)) / (2 * n + 1)
    if op is spherical_kn:
        return -(_before(op, n, z) + (n + 1) * op(n + 1, z)) / (2 * n + 1)
    return (_before(op, n, z) - (n + 1) * op(n + 1, z)) / (2 * n + 1)


# -- Struve -----------------------------------------------------------------------------------------------------


def _struve_term(v: Value, x: Value) -> Value:
    return power(0.5 * x, v) * rgamma(v + 1.5) / math.sqrt(math.pi)


struve = special(
    "struve",
    lambda y, v, x: (None, 0.5 * (struve(v - 1, x) - struve(v + 1, x) + _struve_term(v, x))),
    domain=_POSITIVE,
    cases=_ORDERS,
)
modstruve = special(
    "modstruve",
    lambda y, v, x: (None, 0.5 * (modstruve(v - 1, x) + modstruve(v + 1, x) + _struve_term(v, x))),
    domain=_POSITIVE,
    cases=_ORDERS,
)
itstruve0 = special("itstruve0", lambda y, x: (struve(0.0, x),), domain=_POSITIVE)
it2struve0 = special("it2struve0", lambda y, x: (-struve(0.0, x) / x,), domain=_POSITIVE)
itmodstruve0 = special("itmodstruve0", lambda y, x: (modstruve(0.0, x),), domain=_POSITIVE)

# -- Airy, and integrals ----------------------------------------------------------------------------------------

airy = special_many("airy", lambda ys, z: (ys[1], z * ys[0], ys[3], z * ys[2]), complex_domain=True)
itairy = special_many("itairy", lambda ys, x: (airy(x)[0], airy(x)[2], airy(-x)[0], airy(-x)[2]), domain=_POSITIVE)
iti0k0 = special_many("iti0k0", lambda ys, x: (i0(x), k0(x)), domain=_POSITIVE)
itj0y0 = special_many("itj0y0", lambda ys, x: (j0(x), y0(x)), domain=_POSITIVE)
it2i0k0 = special_many("it2i0k0", lambda ys, x: (safe_ratio(i0(x) - 1, x), -k0(x) / x), domain=_POSITIVE)
it2j0y0 = special_many("it2j0y0", lambda ys, x: (safe_ratio(1 - j0(x), x), -y0(x) / x), domain=_POSITIVE)

# -- Kelvin: f = ber + i bei satisfies f'' = i f − f'/x ---------------------------------------------------------

ber = special("ber", lambda y, x: (berp(x),), domain=_POSITIVE)
bei = special("bei", lambda y, x: (beip(x),), domain=_POSITIVE)
berp = special("berp", lambda y, x: (-bei(x) - safe_ratio(y, x),), domain=_POSITIVE)
beip = special("beip", lambda y, x: (ber(x) - where(equal(x, 0), 0.5, safe_ratio(y, x)),), domain=_POSITIVE)
ker = special("ker", lambda y, x: (kerp(x),), domain=_POSITIVE)
kei = special("kei", lambda y, x: (keip(x),), domain=_POSITIVE)
kerp = special("kerp", lambda y, x: (-kei(x) - y / x,), domain=_POSITIVE)
keip = special("keip", lambda y, x: (ker(x) - y / x,), domain=_POSITIVE)


# -- parabolic cylinder: D'' = (x²/4 − v − ½) D, the same for V, and W'' = (a − x²/4) W -------------------------


def _first(name: str) -> Callable[..., Any]:
    function = Lazy("scipy.special", name)
    return lambda v, x: function(v, x)[0]


def _second(name: str) -> Callable[..., Any]:
    function = Lazy("scipy.special", name)
    return lambda v, x: function(v, x)[1]


def _cylinder(name: str, stiffness: Callable[[Value, Value], Value]) -> tuple[Elementwise, Elementwise]:
    """A function and its derivative, which SciPy gives together, as two ops."""
    cases = [case(np.array([0.5, 1.5, -0.7]), (3,)), case(1.5, (2, 2))]
    value = elementwise(name, _first(name), lambda y, v, x: (None, slope(v, x)), cases=cases, doc=f"scipy.special.{name}")
    slope = elementwise(f"{name}_slope", _second(name), lambda y, v, x: (None, stiffness(v, x) * value(v, x)), cases=cases)
    return value, slope


CYLINDER = {
    "pbdv": _cylinder("pbdv", lambda v, x: 0.25 * x * x - v - 0.5),
    "pbvv": _cylinder("pbvv", lambda v, x: 0.25 * x * x - v - 0.5),
    "pbwa": _cylinder("pbwa", lambda a, x: a - 0.25 * x * x),
}
