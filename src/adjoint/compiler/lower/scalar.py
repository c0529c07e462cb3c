"""Elementwise operations as lines of scalar code, in the instructions of the back ends.

An op is either an instruction itself (`sin`), or is defined in terms of other ops with `scalar=`:

    square = elementwise("square", …, scalar=lambda x: x * x)

Other ops, and dtypes that no back end supports, are not native: the program calls NumPy for them.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...core.bind import Traced
from ...core.op import Expansion, Op
from ...ops.broadcast import cast
from ...ops.elementwise import floor_divide, fmod, nan_where, power, remainder, strong_mul_either_op, strong_mul_op, truncate
from . import special
from .kernel import Dtype, Kernel, KernelLine

BOOL = np.dtype(bool)
#: The dtypes that every back end has, and those of this processor.
NATIVE = frozenset(map(np.dtype, (np.float64, np.float32, np.int64, np.int32, bool)))
EVERY = NATIVE | frozenset(map(np.dtype, (np.int8, np.int16, np.uint8, np.uint16, np.uint32, np.uint64)))
MOVABLE = EVERY | {np.dtype(np.float16)}  # of which there is no arithmetic: see `rewrite.halves`
FLOATS = frozenset(map(np.dtype, (np.float64, np.float32)))

#: The words that every back end writes. An op of that name is one, unless it says `scalar=`.
_ARITHMETIC = frozenset({"add", "sub", "mul", "neg", "abs"})  # of numbers
_CHOICES = frozenset({"maximum", "minimum", "select", "cast"})  # of anything
_COMPARISONS = frozenset({"equal", "not_equal", "less", "less_equal", "greater", "greater_equal"})
_LOGIC = frozenset({"and", "or", "xor", "not"})  # of truths
_SHIFTS = frozenset({"bits.left", "bits.right"})  # of integers
_BITS = {"bits.and": "and", "bits.or": "or", "bits.xor": "xor", "bits.not": "not"}  # of integers; the words for truths
_TESTS = frozenset({"isnan", "signbit"})  # of floats, as are the functions
FUNCTIONS = frozenset(
    {
        *("div", "sqrt", "cbrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "expit", "logaddexp", "logaddexp2"),
        *("sin", "cos", "tan", "arcsin", "arccos", "arctan", "arctan2", "sinh", "cosh", "tanh", "arcsinh", "arccosh", "arctanh"),
        *("hypot", "erf", "erfc", "floor", "ceil", "trunc", "rint", "power"),
    }
)
_DIVISION = frozenset({"quotient", "fmod"})  # of integers, towards zero; and what is left of a float
WORDS = _ARITHMETIC | _CHOICES | _COMPARISONS | _LOGIC | _SHIFTS | _BITS.keys() | _TESTS | _DIVISION | FUNCTIONS
_INTERNAL = _LOGIC | {"select"}  # names of no op


class KernelWriter:
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
        if known.kind == "const":  # wraps around, as NumPy's cast does
            return self.const(np.asarray(known.data).astype(dtype)[()], dtype)
        if dtype == BOOL:
            return as_bool(self, line)
        return self("cast", line, dtype=dtype)

    def like(self, value: Any, line: int) -> int:
        return self.const(value, self.dtype(line))

    def is_plain(self, line: int) -> bool:
        """Whether a line is a number that is finite and not zero."""
        known = self.kernel.code[line]
        return known.kind == "const" and known.data != 0 and math.isfinite(known.data)

    def test(self, name: str, *args: int) -> int:
        return self(name, *args, dtype=BOOL)


def _strong_mul(w: KernelWriter, g: int, p: int) -> int:
    """The product in which a zero g wins. A number p that is finite leaves a zero as it is."""
    if w.is_plain(g) or w.is_plain(p):
        return w("mul", g, p)
    return w("select", w.test("equal", g, w.like(0, g)), w.like(0, g), w("mul", g, p))


def _strong_mul_either(w: KernelWriter, a: int, b: int) -> int:
    """The product in which either zero wins."""
    if w.is_plain(a) or w.is_plain(b):
        return w("mul", a, b)
    zero = w.test("or", w.test("equal", a, w.like(0, a)), w.test("equal", b, w.like(0, b)))
    return w("select", zero, w.like(0, a), w("mul", a, b))


def _what_is_left(w: KernelWriter, a: int, b: int) -> int:
    """What is left of a after the division by b towards zero: exact, and with the sign of a. 0 for an integer b of 0."""
    if w.dtype(a).kind == "f":
        return w("fmod", a, b)
    rest = w("sub", a, w("mul", w("quotient", a, b), b))
    return w("select", w.test("equal", b, w.like(0, b)), w.like(0, a), rest)


def _is_rounded(w: KernelWriter, rest: int, b: int) -> int:
    """Whether the quotient towards zero is greater than the quotient rounded down."""
    zero = w.like(0, b)
    opposite = w.test("xor", w.test("less", rest, zero), w.test("less", b, zero))
    return w.test("and", w.test("not_equal", rest, zero), opposite)


def _with_sign(w: KernelWriter, like: int) -> int:
    """A zero with the sign of another float."""
    return w("select", w.test("signbit", like), w.like(-0.0, like), w.like(0.0, like))


def _remainder(w: KernelWriter, a: int, b: int) -> int:
    """a - b floor(a / b), as NumPy has it: with the sign of b."""
    rest = _what_is_left(w, a, b)
    moved = w("select", _is_rounded(w, rest, b), w("add", rest, b), rest)
    if w.dtype(a).kind != "f":
        return moved
    zero = w.test("equal", rest, w.like(0, rest))  # of b = 0, nan is left
    return w("select", zero, _with_sign(w, b), moved)


def _floor_divide(w: KernelWriter, a: int, b: int) -> int:
    """floor(a / b), as NumPy has it: from what is left of a, so that it is rounded once."""
    rest = _what_is_left(w, a, b)
    is_rounded = _is_rounded(w, rest, b)
    one = w.like(1, a)
    if w.dtype(a).kind != "f":
        towards_zero = w("quotient", a, b)
        return w("select", is_rounded, w("sub", towards_zero, one), towards_zero)
    quotient = w("div", w("sub", a, rest), b)
    quotient = w("select", is_rounded, w("sub", quotient, one), quotient)
    down = w("floor", quotient)
    down = w("select", w.test("greater", w("sub", quotient, down), w.like(0.5, a)), w("add", down, one), down)
    ratio = w("div", a, b)
    down = w("select", w.test("equal", quotient, w.like(0, a)), _with_sign(w, ratio), down)
    return w("select", w.test("equal", b, w.like(0, b)), ratio, down)


class _NoWordError(Exception):
    """An expression holds an op that scalar code does not have."""


#: Ops whose lines depend on which of their operands are numbers, or on the dtype. Products with strong zeros are of floats.
_STRONG: dict[Op, Callable[..., int]] = {strong_mul_op: _strong_mul, strong_mul_either_op: _strong_mul_either}
DIVISIONS: dict[Op, Callable[..., int]] = {fmod: _what_is_left, remainder: _remainder, floor_divide: _floor_divide}
_RULES = _STRONG | DIVISIONS


def _expanded(w: KernelWriter, op: Op, args: tuple[Any, ...], params: dict[str, Any]) -> int:
    """One op of an expression; all values but conditions have one dtype."""
    dtype = next(w.dtype(a.aux) for a in reversed(args) if isinstance(a, Traced))
    lines = [a.aux if isinstance(a, Traced) else w.const(a, dtype) for a in args]
    return w.cast(lines[0], params["dtype"]) if op is cast else _line(op, w, lines)


def word_of(op: Op) -> str | None:
    """The word that an op is in scalar code, if it is a single one."""
    word = op.scalar if isinstance(op.scalar, str) else op.name if op.scalar is None and op.name not in _INTERNAL else ""
    return word if word in WORDS else None


def _line(op: Op, w: KernelWriter, operands: Sequence[int]) -> int:
    """The line of an op; the operands have the dtype of the result, unless it is a truth."""
    if op in _RULES:
        return _RULES[op](w, *operands)
    word = word_of(op)
    if word is None:
        if not callable(op.scalar):
            raise _NoWordError(op.name)
        return Expansion(functools.partial(_expanded, w)).run(op.scalar, operands)  # type: ignore[no-any-return]
    if word in _BITS and w.dtype(operands[0]) == BOOL:
        word = _BITS[word]
    return w(word, *operands, dtype=BOOL if word in _COMPARISONS | _LOGIC | _TESTS else None)


def _takes(op: Op, dtypes: tuple[Dtype, ...]) -> bool:
    """Whether all words that an op becomes exist for these dtypes."""
    known = op.derived.setdefault("scalar", {})
    if dtypes not in known:
        known[dtypes] = _is_written(op, dtypes)
    return known[dtypes]  # type: ignore[no-any-return]


def _is_written(op: Op, dtypes: tuple[Dtype, ...]) -> bool:
    kernel = Kernel(())
    operands = [kernel.add("load", (), i, d) for i, d in enumerate(dtypes)]
    try:
        _line(op, KernelWriter(kernel), operands)
    except (OverflowError, ValueError, _NoWordError):  # a number that the dtype cannot represent, such as infinity
        return False
    used = [(line.data, kernel.code[line.args[-1]].dtype) for line in kernel.code if line.kind == "op"]
    floats_only = FUNCTIONS | _TESTS | ({"mul"} if op in _STRONG else set())
    return not any(
        (d not in FLOATS and word in floats_only)
        or (d in FLOATS and (word in _BITS or word in _SHIFTS))
        or (d == BOOL and word in _ARITHMETIC | _SHIFTS | _DIVISION)
        for word, d in used
    )


def lines_of(op: Op, arity: int, dtype: Dtype) -> list[KernelLine]:
    """The lines of an op on operands of one dtype; none if it has no code for it."""
    kernel = Kernel(())
    operands = [kernel.add("load", (), i, dtype) for i in range(arity)]
    try:
        _line(op, KernelWriter(kernel), operands)
    except (OverflowError, ValueError, _NoWordError):
        return []
    return kernel.code


def has_code(op: Op) -> bool:
    """Whether an op can be written in the words that every back end has."""
    return callable(op.scalar) or op in _RULES or op is truncate or word_of(op) is not None


def is_native(op: Op) -> bool:
    return has_code(op) or special.function_name(op) is not None


def working_dtypes(op: Op, operands: Sequence[Any], result: Dtype, dtypes: frozenset[Dtype] = NATIVE) -> list[Dtype] | None:
    """The dtype in which each operand enters, or None if it is not one of the back end's.

    An operand is a dtype or a Python number.
    """
    if any(type(o) is int and not -(2**63) <= o < 2**63 for o in operands):
        return None
    given = [o for o in operands if isinstance(o, np.dtype)]
    if not has_code(op):
        return special.working_dtypes(op, operands, result) if all(d in NATIVE for d in (*given, result)) else None
    word = word_of(op)
    if word == "select":
        wanted = [BOOL, result, result]
    elif op is nan_where:
        wanted = [BOOL, result]
    elif word in _LOGIC:
        wanted = [BOOL] * len(operands)
    else:
        common = _compared_dtype(operands, given) if result == BOOL else result
        if common is None:
            return None
        wanted = [common] * len(operands)
    if any(d not in dtypes for d in (*wanted, *given, result)) or not _takes(op, tuple(wanted)):
        return None
    return wanted


def _compared_dtype(operands: Sequence[Any], given: Sequence[Dtype]) -> Dtype | None:
    """The dtype in which a comparison or a test is made; None if NumPy makes it in no dtype, but exactly."""
    try:
        common = np.result_type(*operands)
    except OverflowError:  # a Python int outside the range of the dtype it is compared with
        return None
    if common == np.uint64 and any(type(o) is int and o < 0 for o in operands):
        return None
    all_whole = bool(given) and all(d.kind in "iu" for d in given) and not any(type(o) is float for o in operands)
    if common.kind == "f" and all_whole:
        return None  # no dtype holds both kinds of integers exactly
    has_python_int = any(type(o) is int for o in operands) and common.kind in "iu"
    return np.dtype(np.int64) if has_python_int and common != np.uint64 else common


def write(op: Op, writer: KernelWriter, args: Sequence[int], wanted: Sequence[Dtype]) -> int:
    """The lines of one elementwise operation; the line that holds its result."""
    if op is power:
        return _power(writer, args, wanted[0])
    operands = [as_bool(writer, a) if d == BOOL else writer.cast(a, d) for a, d in zip(args, wanted, strict=True)]
    if not has_code(op):
        result = np.dtype(np.float32 if wanted[-1] == np.float32 else np.float64)
        return writer(special.line_name(op, wanted), *operands, dtype=result)
    return _line(op, writer, operands)


def as_bool(writer: KernelWriter, line: int) -> int:
    """Whether a number is not zero."""
    if writer.dtype(line) == BOOL:
        return line
    return writer.test("not_equal", line, writer.like(0, line))


_MOST_FACTORS = 16


def _power(w: KernelWriter, args: Sequence[int], dtype: Dtype) -> int:
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
