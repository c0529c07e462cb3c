"""Elementary functions as LLVM code: straight-line arithmetic that the loop vectorizer widens, for any target.

    vecmath.definitions([("exp", "double", 1)])     the function @adjoint.exp.f64, and what it needs
    vecmath.definitions([("exp.alone", …)])         of one number at a time: see `alone`
    vecmath.soften(text)                            for a target without fused multiply-add

Each function is defined once per module and inlined where it is called. Errors are below 2 units in the last place on the whole
range, for float64 and float32 (docs/accuracy.md gives the greatest error found); signed zeros, infinities and nan follow C's
Annex F, as NumPy's do.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable

from adjoint.compiler.llvm.vecmath import alone, error, exponential, inverse, logaddexp, logarithm, power, roots, trigonometric
from adjoint.compiler.llvm.vecmath.scalar import DOUBLE, FORMATS, FunctionCode, Scalar
from adjoint.compiler.llvm.vecmath.soften import soften

__all__ = ["NAMES", "alone_name", "definitions", "soften"]

Function = Callable[..., Scalar]

# For both formats.
_NATIVE: dict[str, Function] = {
    "exp": exponential.exp,
    "exp2": exponential.exp2,
    "expm1": exponential.expm1,
    "expit": exponential.expit,
    "sinh": exponential.sinh,
    "cosh": exponential.cosh,
    "tanh": exponential.tanh,
    "log": logarithm.log,
    "log2": logarithm.log2,
    "log10": logarithm.log10,
    "log1p": logarithm.log1p,
    "arcsinh": logarithm.arcsinh,
    "arccosh": logarithm.arccosh,
    "arctanh": logarithm.arctanh,
    "sin": trigonometric.sin,
    "cos": trigonometric.cos,
    "tan": trigonometric.tan,
    "arcsin": inverse.arcsin,
    "arccos": inverse.arccos,
    "arctan": inverse.arctan,
    "arctan2": inverse.arctan2,
    "sqrt": roots.sqrt,
    "hypot": roots.hypot,
}
# For float64; a float32 is widened, and the result rounded.
_WIDE: dict[str, Function] = {
    "logaddexp": logaddexp.logaddexp,
    "logaddexp2": logaddexp.logaddexp2,
    "power": power.power,
    "cbrt": roots.cbrt,
    "erf": error.erf,
    "erfc": error.erfc,
}
# Where less than the whole float64 function is enough for that.
_SINGLE: dict[str, Function] = {
    "logaddexp": logaddexp.logaddexp_to_single,
    "logaddexp2": logaddexp.logaddexp2_to_single,
    "power": power.power_to_single,
}
# For float64, where one number is computed at a time.
_ALONE: dict[str, Function] = {"exp": alone.exp, "log": alone.log, "sin": alone.sin, "cos": alone.cos}
_SUFFIX = ".alone"
NAMES = frozenset(_NATIVE) | frozenset(_WIDE)
_POWER = "power."  # with an integer, as in power.3 or power.minus.3: that power


def definitions(functions: Iterable[tuple[str, str, int]]) -> list[str]:
    """The text of functions, each of a name, a type ("double" or "float") and a number of arguments, and of what they need."""
    found: dict[str, str] = {}
    for name, kind, count in functions:
        found |= _defined(name, kind, count)
    return list(found.values())


@functools.cache
def _defined(name: str, kind: str, count: int) -> dict[str, str]:
    if kind not in FORMATS:
        raise TypeError(f"vecmath.{name} is a function of doubles or floats, not of {kind}")
    body = FunctionCode()
    body.function(f"@adjoint.{name}.{FORMATS[kind].suffix}", kind, count, _function(name, kind), "alwaysinline nounwind")
    return body.needed


def alone_name(name: str, kind: str) -> str:
    """The name of the function of one number at a time, if it has a form of its own."""
    return f"{name}{_SUFFIX}" if kind == DOUBLE and name in _ALONE else name


def _function(name: str, kind: str) -> Function:
    if name.endswith(_SUFFIX):
        return _ALONE[name.removesuffix(_SUFFIX)]
    if name.startswith(_POWER):
        exponent = int(name.removeprefix(_POWER).replace("minus.", "-"))
        return lambda x: power.whole_power(x, exponent)
    if name in _NATIVE:
        return _NATIVE[name]
    if kind == DOUBLE:
        return _WIDE[name]
    wide = _SINGLE.get(name) or _WIDE[name]
    return lambda *args: wide(*(x.widened() for x in args)).narrowed()
