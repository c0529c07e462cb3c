"""Elementary functions as LLVM code: straight lines of arithmetic that the loop vectoriser widens, for any target.

    vecmath.emit(builder, "exp", x)     the value of exp(x), x a double or a float
    vecmath.soften(module)              at the end, for a target without fused multiply-add

Each function is defined once in a module, to be inlined wherever it is called. Errors are below 2 units in the last place on the
whole range, for float64 and float32 (docs/accuracy.md gives the greatest found); signed zeros, infinities and nan follow C's
Annex F, as NumPy's do. Only the error of `logaddexp` near the curve where it is 0 is relative to its arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from adjoint.backend.vecmath import error, exponential, inverse, logarithm, power, roots, trigonometric
from adjoint.backend.vecmath.scalar import DOUBLE, FLOAT, Scalar
from adjoint.backend.vecmath.soften import soften

__all__ = ["NAMES", "emit", "soften"]

Function = Callable[..., Scalar]

# Written for either format.
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
# Written for float64; a float32 is widened, and the result rounded.
_WIDE: dict[str, Function] = {
    "logaddexp": logarithm.logaddexp,
    "logaddexp2": logarithm.logaddexp2,
    "power": power.power,
    "cbrt": roots.cbrt,
    "erf": error.erf,
    "erfc": error.erfc,
}
_SINGLE: dict[str, Function] = {"power": power.power_to_single}  # where less than the whole float64 function is enough for that
NAMES = frozenset(_NATIVE) | frozenset(_WIDE)


def emit(builder: Any, name: str, *args: Any) -> Any:
    """The value of the function at `args`, all double or all float."""
    kind = args[0].type
    if kind not in (DOUBLE, FLOAT) or any(arg.type != kind for arg in args):
        raise TypeError(f"vecmath.{name} takes values that are all double or all float, not {[str(arg.type) for arg in args]}")
    return builder.call(_defined(builder.module, name, kind, len(args)), args)


def _defined(module: Any, name: str, kind: Any, count: int) -> Any:
    """The function in the module; defined there on first use."""
    full = f"adjoint.{name}.{'f64' if kind == DOUBLE else 'f32'}"
    known = module.globals.get(full)
    if known is not None:
        return known
    function = ir.Function(module, ir.FunctionType(kind, [kind] * count), full)
    function.linkage = "internal"
    function.attributes.add("alwaysinline")
    function.attributes.add("nounwind")
    builder = ir.IRBuilder(function.append_basic_block())
    scalars = [Scalar(builder, arg) for arg in function.args]
    if name in _NATIVE:
        result = _NATIVE[name](*scalars)
    elif kind == DOUBLE:
        result = _WIDE[name](*scalars)
    else:
        result = (_SINGLE.get(name) or _WIDE[name])(*(scalar.widened() for scalar in scalars)).narrowed()
    builder.ret(result.value)
    return function
