"""`math` and `cmath` of adopted modules: Python's own on plain numbers, ours on traced values.

On a traced value out of its domain, a function raises as Python's does: `math.sqrt` of -1 a ValueError, `math.exp` of 1000 an
OverflowError. A compiled program has a guard on the domain.
"""

from __future__ import annotations

import cmath
import functools
import importlib
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import numpy as anp
from ..core.bind import Traced, numbers
from ..source.staged import in_body, in_graph, restrict
from .builtin import is_batched, scalar
from .face import FixedFace

Function = Callable[..., Any]


def is_traced(x: Any) -> bool:
    return isinstance(x, Traced)


def on_traced(plain: Function, ours: Function) -> Function:
    """Python's function, with ours for calls with a traced argument. Arrays of one element are numbers, as for Python."""

    @functools.wraps(plain)
    def call(*args: Any, **options: Any) -> Any:
        for x in args:
            if isinstance(x, Traced):
                return ours(*[_number(a) for a in args], **options)
        return plain(*args, **options)

    return call


def _number(x: Any) -> Any:
    return scalar(x) if is_traced(x) else x


def in_domain(plain: Function, ours: Function) -> Function:
    """Our function, which raises where Python's does: for finite numbers without a finite result.

    A graph gives nan there, by a condition; not for functions that are finite at all finite numbers.
    """
    is_total = plain.__name__ in _TOTAL

    def call(*args: Any) -> Any:
        y = ours(*args)
        if is_batched(y):
            return y
        known = numbers(y)
        if known is None and is_total and in_graph():
            return y
        if known is None and restrict(anp.isfinite(y)):
            return y
        if not (np.isfinite(known) if known is not None else bool(anp.isfinite(y))):
            plain(*[_concrete(x) for x in args])
        return y

    return on_traced(plain, call)


#: Functions that are finite at all finite numbers.
_TOTAL = frozenset(["sin", "cos", "tan", "atan", "tanh", "asinh", "erf", "erfc", "fabs", "copysign", "atan2", "cbrt", "radians"])


def _concrete(x: Any) -> Any:
    while isinstance(x, Traced):
        x = x.by.concrete(x, "the number of")
    return x


def _log(x: Any, *base: Any) -> Any:
    return anp.log(x) / anp.log(base[0]) if base else anp.log(x)


def _special(name: str) -> Function:
    return lambda *args: getattr(importlib.import_module("adjoint.scipy.special"), name)(*args)


def _modf(x: Any) -> tuple[Any, Any]:
    whole = anp.trunc(x)
    return x - whole, whole


def _frexp(x: Any) -> tuple[Any, int]:
    exponent = math.frexp(_concrete(x))[1]
    return x / 2.0**exponent, exponent


def _remainder(x: Any, y: Any) -> Any:
    return x - anp.rint(x / y) * y


def _truth(function: Function) -> Function:
    def call(*args: Any, **options: Any) -> Any:
        answer = function(*args, **options)
        return answer if in_body(answer) else bool(answer)

    return call


def _isclose(a: Any, b: Any, *, rel_tol: float = 1e-09, abs_tol: float = 0.0) -> bool:
    return bool(a == b) or bool(abs(a - b) <= max(rel_tol * max(abs(a), abs(b)), abs_tol))


def over_items(plain: Function, ours: Function) -> Function:
    """Python's function of iterables, with ours if an item is traced."""

    @functools.wraps(plain)
    def call(*args: Any, **options: Any) -> Any:
        args = tuple([list(a) if hasattr(a, "__next__") else a for a in args])
        return ours(*args, **options) if any(map(holds_traced, args)) else plain(*args, **options)

    return call


def holds_traced(x: Any) -> bool:
    if isinstance(x, Traced):
        return True
    return not isinstance(x, (str, bytes, int, float, complex, np.ndarray)) and hasattr(x, "__iter__") and any(map(is_traced, x))


def _sum(items: Any) -> Any:
    return anp.sum(anp.stack([anp.asarray(x) for x in items])) if len(items) else 0.0


def _prod(items: Any, *, start: Any = 1) -> Any:
    return functools.reduce(lambda a, b: a * b, items, start)


def _dot(p: Sequence[Any], q: Sequence[Any]) -> Any:
    return sum(a * b for a, b in zip(p, q, strict=True))


def _dist(p: Sequence[Any], q: Sequence[Any]) -> Any:
    if len(p) != len(q):
        raise ValueError("both points must have the same number of dimensions")
    return _hypot(*[a - b for a, b in zip(p, q, strict=True)])


def _hypot(*sides: Any) -> Any:
    return abs(sides[0]) if len(sides) == 1 else functools.reduce(anp.hypot, sides)


#: Functions that math and cmath both have, and those of math alone, which NumPy has as well.
_SHARED = ["sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "exp", "log10", "sqrt"]
_REAL = ["expm1", "log2", "log1p", "degrees", "radians", "exp2", "cbrt", "fmod", "copysign", "atan2", "fabs", "pow"]
_RENAMED = {"atan2": "arctan2", "fabs": "abs", "pow": "power"}


def _of_numpy(name: str) -> Function:
    """NumPy's function for one of math, or of cmath: arcsin for asin."""
    return getattr(anp, _RENAMED.get(name) or (f"arc{name[1:]}" if name[0] == "a" else name))


_SPECIAL = {"gamma": "gamma", "lgamma": "gammaln", "erf": "erf", "erfc": "erfc"}
_MATH: dict[str, Function] = {
    **{name: _of_numpy(name) for name in (*_SHARED, *_REAL)},
    **{name: _special(ours) for name, ours in _SPECIAL.items()},
    "log": _log,
    "ldexp": lambda x, i: x * 2.0**i,
    "remainder": _remainder,
    "hypot": _hypot,
}
_TESTS: dict[str, Function] = {
    **{name: _truth(getattr(anp, name)) for name in ("isnan", "isinf", "isfinite")},
    "isclose": _isclose,
}
_OTHER: dict[str, Function] = {
    **_TESTS,
    "modf": _modf,
    "frexp": _frexp,
}
_ITEMS: dict[str, Function] = {"fsum": _sum, "prod": _prod, "dist": _dist, "sumprod": _dot}
if hasattr(math, "fma"):
    _MATH["fma"] = lambda x, y, z: x * y + z

MATH = FixedFace(
    math,
    {
        **{name: in_domain(getattr(math, name), ours) for name, ours in _MATH.items()},
        **{name: on_traced(getattr(math, name), ours) for name, ours in _OTHER.items()},
        **{name: over_items(getattr(math, name), ours) for name, ours in _ITEMS.items() if hasattr(math, name)},
    },
)


# -- cmath --------------------------------------------------------------------------------------------------------


def _of_complex(function: Function) -> Function:
    return lambda *args: function(*[x.astype(complex) if is_traced(x) else complex(x) for x in args])


def _phase(z: Any) -> Any:
    return anp.angle(z)


_CMATH: dict[str, Function] = {name: _of_complex(_of_numpy(name)) for name in _SHARED}
_CMATH["log"] = lambda z, *base: _of_complex(_log)(z, *base)
_COMPLEX: dict[str, Function] = {
    **_TESTS,
    "phase": _phase,
    "polar": lambda z: (abs(z), _phase(z)),
    "rect": lambda r, phi: r * anp.cos(phi) + 1j * (r * anp.sin(phi)),
}
CMATH = FixedFace(
    cmath,
    {
        **{name: in_domain(getattr(cmath, name), ours) for name, ours in _CMATH.items()},
        **{name: on_traced(getattr(cmath, name), ours) for name, ours in _COMPLEX.items()},
    },
)
