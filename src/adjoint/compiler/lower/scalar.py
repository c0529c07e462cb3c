"""Elementwise operations as lines of scalar code, in the instructions of the back ends.

A rule gets the writer of the code and its operands, already of the dtype in which the operation works:

    "square": lambda w, x: w("mul", x, x)

An operation without a rule, or with an unsupported dtype, becomes a foreign call.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...core.op import Op
from . import special
from .kernel import Dtype, Kernel

BOOL = np.dtype(bool)
NATIVE = frozenset(map(np.dtype, (np.float64, np.float32, np.int64, np.int32, bool)))
FLOATS = frozenset(map(np.dtype, (np.float64, np.float32)))

#: Functions of floats that the back ends implement directly.
FUNCTIONS = frozenset(
    {
        *("sqrt", "cbrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "expit", "logaddexp", "logaddexp2"),
        *("sin", "cos", "tan", "arcsin", "arccos", "arctan", "arctan2", "sinh", "cosh", "tanh", "arcsinh", "arccosh", "arctanh"),
        *("hypot", "erf", "erfc", "floor", "ceil", "trunc", "rint"),
    }
)
_COMPARISONS = frozenset(["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"])
_TESTS = frozenset(["isnan", "isinf", "isfinite", "signbit"])
_LOGIC = frozenset(["logical_and", "logical_or", "logical_xor", "logical_not"])


class Writer:
    """Adds lines to a kernel; the dtype of a result is that of its first operand unless another is given."""

    __slots__ = ("kernel",)

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel

    def __call__(self, name: str, *args: int, dtype: Dtype | None = None) -> int:
        return self.kernel.add("op", args, name, dtype or self.dtype(args[name == "select"]))

    def dtype(self, line: int) -> Dtype:
        return self.kernel.code[line].dtype

    def const(self, value: Any, dtype: Dtype) -> int:
        return self.kernel.add("const", (), dtype.type(value).item(), dtype)

    def cast(self, line: int, dtype: Dtype) -> int:
        if self.dtype(line) == dtype:
            return line
        known = self.kernel.code[line]
        if known.kind == "const":
            return self.const(known.data, dtype)
        return self("cast", line, dtype=dtype)

    def like(self, value: Any, line: int) -> int:
        return self.const(value, self.dtype(line))

    def is_plain(self, line: int) -> bool:
        """Whether a line is a number that is finite and not zero."""
        known = self.kernel.code[line]
        return known.kind == "const" and known.data != 0 and math.isfinite(known.data)

    def test(self, name: str, *args: int) -> int:
        return self(name, *args, dtype=BOOL)


def _sign(w: Writer, x: int) -> int:
    zero, one = w.like(0, x), w.like(1, x)
    unit = w("select", w.test("greater", x, zero), one, w("select", w.test("less", x, zero), w.like(-1, x), zero))
    return unit if w.dtype(x).kind in "ib" else w("select", w.test("isnan", x), x, unit)


def _copysign(w: Writer, a: int, b: int) -> int:
    size = w("abs", a)
    return w("select", w.test("signbit", b), w("neg", size), size)


def _heaviside(w: Writer, x: int, at_zero: int) -> int:
    zero = w.like(0, x)
    step = w("select", w.test("greater", x, zero), w.like(1, x), w("select", w.test("equal", x, zero), at_zero, zero))
    return w("select", w.test("isnan", x), x, step)


def _fraction(w: Writer, x: int) -> int:
    """x without its integer part; a zero of the sign of x if the fraction is zero, or x infinite."""
    rest = w("select", _infinite(w, x), w.like(0, x), w("sub", x, w("trunc", x)))
    return _copysign(w, rest, x)


def _infinite(w: Writer, x: int) -> int:
    return w.test("equal", w("abs", x), w.like(math.inf, x))


def _finite(w: Writer, x: int) -> int:
    return w.test("less", w("abs", x), w.like(math.inf, x))


def _times_log(w: Writer, x: int, y: int, name: str) -> int:
    """x log(y), or x log(1 + y): zero where x is, unless y is nan."""
    zero = w.like(0, x)
    vanishes = w.test("and", w.test("equal", x, zero), w.test("not", w.test("isnan", y)))
    return w("select", vanishes, zero, w("mul", x, w(name, y)))


def _entropy(w: Writer, x: int) -> int:
    """−x log(x); −inf on the left of 0."""
    zero = w.like(0, x)
    inside = w("select", w.test("equal", x, zero), zero, w("neg", w("mul", x, w("log", x))))
    return w("select", w.test("less", x, zero), w.like(-math.inf, x), inside)


def _log_expit(w: Writer, x: int) -> int:
    return w("sub", w("minimum", x, w.like(0, x)), w("log1p", w("exp", w("neg", w("abs", x)))))


def _normal_distribution(w: Writer, x: int) -> int:
    """Half of 1 + erf, or of erfc where that is small; in double precision, since the tail magnifies rounding errors."""
    x = w.cast(x, np.dtype(np.float64))
    z, half = w("mul", x, w.like(math.sqrt(0.5), x)), w.like(0.5, x)
    size = w("abs", z)
    tail = w("mul", half, w("erfc", size))
    outside = w("select", w.test("greater", z, w.like(0, x)), w("sub", w.like(1, x), tail), tail)
    return w("select", w.test("less", size, w.like(1, x)), w("add", half, w("mul", half, w("erf", z))), outside)


def _chain(w: Writer, g: int, p: int) -> int:
    """The product in which a zero g is strong. A finite constant p needs no test."""
    if w.is_plain(g) or w.is_plain(p):
        return w("mul", g, p)
    return w("select", w.test("equal", g, w.like(0, g)), w.like(0, g), w("mul", g, p))


def _absorb(w: Writer, a: int, b: int) -> int:
    """The product in which either zero is strong."""
    if w.is_plain(a) or w.is_plain(b):
        return w("mul", a, b)
    zero = w.test("or", w.test("equal", a, w.like(0, a)), w.test("equal", b, w.like(0, b)))
    return w("select", zero, w.like(0, a), w("mul", a, b))


ScalarRule = Callable[..., int]

#: By name of the op. The operands have the dtype of the result, unless the op is a comparison, a test or a choice.
RULES: dict[str, ScalarRule] = {
    "add": lambda w, a, b: w("add", a, b),
    "sub": lambda w, a, b: w("sub", a, b),
    "mul": lambda w, a, b: w("mul", a, b),
    "div": lambda w, a, b: w("div", a, b),
    "neg": lambda w, x: w("neg", x),
    "pos": lambda w, x: x,
    "stop_gradient": lambda w, x: x,
    "square": lambda w, x: w("mul", x, x),
    "reciprocal": lambda w, x: w("div", w.like(1, x), x),
    "abs": lambda w, x: w("abs", x),
    "fabs": lambda w, x: w("abs", x),
    "copysign": _copysign,
    "heaviside": _heaviside,
    "fraction": _fraction,
    "whole": lambda w, x: w("trunc", x),
    "maximum": lambda w, a, b: w("maximum", a, b),
    "minimum": lambda w, a, b: w("minimum", a, b),
    "fmax": lambda w, a, b: w("select", w.test("isnan", a), b, w("select", w.test("isnan", b), a, w("maximum", a, b))),
    "fmin": lambda w, a, b: w("select", w.test("isnan", a), b, w("select", w.test("isnan", b), a, w("minimum", a, b))),
    "chain": _chain,
    "absorb": _absorb,
    "times": lambda w, g, p: w("mul", g, p),
    "root": lambda w, x: w("sqrt", x),
    "deg2rad": lambda w, x: w("mul", x, w.like(math.pi / 180, x)),
    "rad2deg": lambda w, x: w("mul", x, w.like(180 / math.pi, x)),
    "sign": _sign,
    "xlogy": lambda w, x, y: _times_log(w, x, y, "log"),
    "xlog1py": lambda w, x, y: _times_log(w, x, y, "log1p"),
    "entr": _entropy,
    "log_expit": _log_expit,
    "ndtr": _normal_distribution,
    "isnan": lambda w, x: w.test("isnan", x),
    "isinf": _infinite,
    "isfinite": _finite,
    "signbit": lambda w, x: w.test("signbit", x),
    "logical_and": lambda w, a, b: w.test("and", a, b),
    "logical_or": lambda w, a, b: w.test("or", a, b),
    "logical_xor": lambda w, a, b: w.test("xor", a, b),
    "logical_not": lambda w, a: w.test("not", a),
    "where": lambda w, c, a, b: w("select", c, a, b),
    **{name: (lambda w, a, b, name=name: w.test(name, a, b)) for name in _COMPARISONS},
    **{name: (lambda w, *xs, name=name: w(name, *xs)) for name in FUNCTIONS},
}
_OF_FLOATS = frozenset({"xlogy", "xlog1py", "entr", "log_expit", "ndtr"})
#: Rules that make sense for floats only, though NumPy has the op for integers too.
_FLOAT_ONLY = (
    FUNCTIONS
    | _TESTS
    | _OF_FLOATS
    | {"div", "reciprocal", "chain", "absorb", "times", "root", "deg2rad", "rad2deg", "fmax", "fmin", "power"}
    | {"fabs", "copysign", "heaviside", "fraction", "whole"}
)
_NOT_OF_BOOLS = frozenset({"sub", "neg", "abs", "square", "sign", "pos", "add", "mul"})


def working_dtypes(op: Op, operands: Sequence[Any], result: Dtype) -> list[Dtype] | None:
    """The dtype of each operand inside the kernel, or None if there is no native code. An operand is a dtype or a Python
    number."""
    name = op.name
    if any(type(o) is int and not -(2**63) <= o < 2**63 for o in operands):
        return None
    if name not in RULES and special.function_name(op) is not None:
        given = [o for o in operands if isinstance(o, np.dtype)]
        return special.working_dtypes(op, operands, result) if all(d in NATIVE for d in (*given, result)) else None
    if name == "where":
        wanted = [BOOL, result, result]
    elif name in _LOGIC:
        wanted = [BOOL] * len(operands)
    elif name in _COMPARISONS or name in _TESTS:
        try:
            common = np.result_type(*operands)
        except OverflowError:  # a Python int outside the range of the dtype it is compared with
            return None
        whole = any(type(o) is int for o in operands) and common.kind == "i"
        wanted = [np.dtype(np.int64) if whole else common] * len(operands)
    else:
        wanted = [result] * len(operands)
    given = [o for o in operands if isinstance(o, np.dtype)]
    if any(d not in NATIVE for d in (*wanted, *given, result)):
        return None
    working = wanted[-1]
    if name in _FLOAT_ONLY and working not in FLOATS:
        return None
    if name in _NOT_OF_BOOLS and working == BOOL:
        return None
    return wanted


def is_native(op: Op) -> bool:
    return op.name in RULES or op.name in ("power", "cast", "truncate") or special.function_name(op) is not None


def write(op: Op, writer: Writer, args: Sequence[int], wanted: Sequence[Dtype]) -> int:
    """Add the lines of one elementwise operation; returns the line of its result."""
    if op.name == "power":
        return _power(writer, args, wanted[0])
    operands = [as_bool(writer, a) if d == BOOL else writer.cast(a, d) for a, d in zip(args, wanted, strict=True)]
    if op.name not in RULES:
        result = np.dtype(np.float32 if wanted[-1] == np.float32 else np.float64)
        return writer(special.line_name(op, wanted), *operands, dtype=result)
    return RULES[op.name](writer, *operands)


def as_bool(writer: Writer, line: int) -> int:
    """Whether a number is not zero."""
    if writer.dtype(line) == BOOL:
        return line
    return writer.test("not_equal", line, writer.like(0, line))


_MOST_FACTORS = 16


def _power(w: Writer, args: Sequence[int], dtype: Dtype) -> int:
    """A small integer power is a product; a half is a square root; the rest is a function.

    Each factor adds half a unit in the last place: beyond the fourth power, the product must keep its rounding errors. The square
    of the reciprocal, not the reciprocal of the square, is accurate near underflow.
    """
    base, exponent = args
    line = w.kernel.code[exponent]
    x = w.cast(base, dtype)
    if line.kind == "const":
        n = line.data
        if n in (0, 1):
            return w.like(1, x) if n == 0 else x
        if n in (2, 3, 4):
            square = w("mul", x, x)
            return square if n == 2 else w("mul", square, x if n == 3 else square)
        if n in (-1, -2):
            inverse = w("div", w.like(1, x), x)
            return inverse if n == -1 else w("mul", inverse, inverse)
        if float(n).is_integer() and abs(n) <= _MOST_FACTORS:
            return w(f"power.{int(n)}" if n > 0 else f"power.minus.{-int(n)}", x)
        if n == 0.5:
            # pow(-0.0, 0.5) is +0.0 and pow(-inf, 0.5) is inf; adding zero and the test give both.
            root = w("add", w("sqrt", x), w.like(0, x))
            return w("select", w.test("equal", x, w.like(-math.inf, x)), w.like(math.inf, x), root)
    return w("power", x, w.cast(exponent, dtype))
