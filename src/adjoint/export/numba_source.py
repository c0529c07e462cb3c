"""A function and its derivatives as a Python module that Numba compiles: the text of `export.python` with `@njit`."""

from __future__ import annotations

import os
import re
from typing import Any

from ..core.errors import ArgumentError, UnsupportedError, boundary
from ..core.types import Type
from ..ir.graph import Equation, Graph, Literal
from ..view.python import module
from ..view.python_text import PRELUDE
from .program import write
from .python_source import readable

#: Ops whose text Numba compiles, of every shape.
COMPILED = frozenset({
    "abs", "add", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "bitwise_and", "bitwise_or",
    "bitwise_xor", "broadcast_to", "cast", "cbrt", "ceil", "checkpoint", "cholesky", "cond", "conj", "copysign", "cos", "cosh",
    "deg2rad", "det", "div", "equal", "exp", "exp2", "expit", "expm1", "fabs", "floor", "floor_divide", "fmax", "fmin", "fmod",
    "gather", "gcd", "getitem", "greater", "greater_equal", "hypot", "ieee_mul", "invert", "isfinite", "isinf", "isnan", "lcm",
    "ldexp", "left_shift", "less", "less_equal", "log", "log10", "log1p", "log2", "logaddexp", "logaddexp2", "logical_and",
    "logical_not", "logical_or", "logical_xor", "matmul", "maximum", "minimum", "mul", "neg", "nextafter", "not_equal", "pinv",
    "place", "pos", "power", "rad2deg", "real", "reciprocal", "remainder", "reshape", "right_shift", "rint", "root", "round_to",
    "scan", "searchsorted", "sign", "signbit", "sin", "sinc", "sinh", "slogdet", "solve", "spacing", "sqrt", "square",
    "strong_mul", "strong_mul_either", "sub", "svd", "take_along", "tan", "tanh", "transpose", "trunc", "truncate", "where",
    "while",
})  # fmt: skip
#: Reductions that Numba has over all axes, or over one.
_REDUCED = {"sum": (True, True), "max": (True, False), "min": (True, False)}


@boundary
def numba(
    f: Any,
    *args: Any,
    path: str | os.PathLike[str] | None = None,
    derivatives: Any = (),
    argnums: Any = 0,
    name: str | None = None,
    **kwargs: Any,
) -> str:
    """The source of f, and of the derivatives asked for, as functions that Numba compiles on their first call.

    Arguments are arrays, or NumPy's numbers, of the dtypes they were exported for. What Numba does not have is refused by name.

    >>> from adjoint import export
    >>> "@njit" in export.numba(lambda x: x * x + 1, 2.0)
    True
    """
    found = readable(f, args, kwargs, derivatives, argnums, name)
    for part in found:
        if "njit" in (part.name, *part.graph.input_names):
            raise ArgumentError("export.numba cannot write a function or an argument named 'njit', which the module imports")
    for part in found:
        _check(part.graph)
    text = module([(part.graph, part.output_names) for part in found], readable=True)
    text = text.replace("import numpy as np", "import numpy as np\nfrom numba import njit", 1)
    text = text.replace('@np.errstate(all="ignore")', _DECORATOR)
    text = re.sub(r'\n    (\w+) = np\.asarray\(\1, "\w+"\)(\[\(\)\])?(?=\n)', "", text)  # types are known when it is compiled
    helpers = "|".join(PRELUDE)
    return write(path, re.sub(rf"^def ({helpers})\(", rf"{_DECORATOR}\ndef \1(", text, flags=re.MULTILINE))


_DECORATOR = '@njit(error_model="numpy")'


def _check(graph: Graph) -> None:
    types = graph.types
    for equation in graph.equations:
        given = [o.type if isinstance(o, Literal) else types[o] for o in equation.inputs]
        if not _is_compiled(equation, given):
            raise UnsupportedError(f"export.numba has no code for {equation.op.name!r}: Numba does not compile it", equation.line)
        for part in equation.params.values():
            if isinstance(part, Graph):
                _check(part)


def _is_compiled(equation: Equation, given: list[Type]) -> bool:
    op, params = equation.op, equation.params
    if op.name in _REDUCED:
        whole, single = _REDUCED[op.name]
        count, ndim = len(params["axis"]), len(given[0].shape)
        return not params["keepdims"] and ((whole and count == ndim) or (single and count == 1))
    return op.name in COMPILED


__all__ = ["numba"]
