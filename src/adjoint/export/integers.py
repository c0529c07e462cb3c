"""Scalar code that exporters have beyond `jit`: the bits of integers, quotients and remainders.

The words are those of `compiler.lower.scalar` and a few more, which C, JavaScript and LLVM write.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..compiler.lower.kernel import Dtype
from ..compiler.lower.lowered import Line, Rules
from ..compiler.lower.scalar import BOOL, FLOATS, Writer
from ..core.op import Op
from ..ir.graph import Equation
from ..ops import elementwise as e
from ..ops import integer

if TYPE_CHECKING:
    from ..compiler.lower.fuse import Lowering

WHOLE = frozenset(map(np.dtype, (np.int64, np.int32)))
#: By op: the word for integers, and that for truths.
_WORDS: dict[Op, tuple[str, str]] = {
    e.bitwise_and: ("bits.and", "and"),
    e.bitwise_or: ("bits.or", "or"),
    e.bitwise_xor: ("bits.xor", "xor"),
    e.invert: ("bits.not", "not"),
    integer.left_shift: ("bits.left", ""),
    integer.right_shift: ("bits.right", ""),
}


def _lines(low: Lowering, equation: Equation, dtype: Dtype) -> tuple[int, Writer, list[int]]:
    """A kernel over the result, and the operands in it."""
    domain = equation.types[0].shape
    operands = [low.operand(o, domain) for o in equation.inputs]
    position = low.place(domain, operands)
    w = Writer(low.kernel(position))
    return position, w, [w.cast(low.read(position, o), dtype) for o in operands]


def _bitwise(low: Lowering, equation: Equation) -> bool:
    dtype = equation.types[0].dtype
    if dtype not in WHOLE | {BOOL} or any(low.type_of(o).dtype not in WHOLE | {BOOL} for o in equation.inputs):
        return False
    word = _WORDS[equation.op][dtype == BOOL]
    if not word:
        return False
    position, w, lines = _lines(low, equation, dtype)
    return low.hold(equation, Line(position, w(word, *lines)))


def _fmod(low: Lowering, equation: Equation) -> bool:
    """The remainder with the sign of the first operand."""
    dtype = equation.types[0].dtype
    if dtype not in FLOATS:
        return False
    position, w, lines = _lines(low, equation, dtype)
    return low.hold(equation, Line(position, w("fmod", *lines)))


def _divided(low: Lowering, equation: Equation) -> bool:
    """Integers: the quotient rounded down, or what is left; 0 for a divisor of 0."""
    dtype = equation.types[0].dtype
    if dtype not in WHOLE:
        return False
    position, w, (a, b) = _lines(low, equation, dtype)
    zero = w.like(0, a)
    towards_zero = w("quotient", a, b)
    rest = w("sub", a, w("mul", towards_zero, b))
    rest = w("select", w.test("equal", b, zero), zero, rest)
    opposite = w.test("xor", w.test("less", rest, zero), w.test("less", b, zero))
    down = w.test("and", w.test("not_equal", rest, zero), opposite)
    if equation.op is e.floor_divide:
        line = w("select", down, w("sub", towards_zero, w.like(1, a)), towards_zero)
    else:
        line = w("select", down, w("add", rest, b), rest)
    return low.hold(equation, Line(position, line))


RULES: Rules = {
    **dict.fromkeys(_WORDS, _bitwise),
    e.fmod: _fmod,
    e.floor_divide: _divided,
    e.remainder: _divided,
}
