"""Which equations apply a function of single numbers to each element of their operands, broadcast as in NumPy."""

from __future__ import annotations

from ..core.op import Elementwise
from ..ir.graph import Equation
from ..ops.broadcast import cast, where
from ..ops.elementwise import (
    bitwise_and,
    bitwise_or,
    bitwise_xor,
    ceil,
    equal,
    floor,
    greater,
    greater_equal,
    ieee_mul,
    invert,
    isfinite,
    isinf,
    isnan,
    less,
    less_equal,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    not_equal,
    rint,
    sign,
    signbit,
    strong_mul_either_op,
    strong_mul_op,
    trunc,
)

_OTHERS = frozenset(
    [
        bitwise_and,
        bitwise_or,
        bitwise_xor,
        cast,
        ceil,
        equal,
        floor,
        greater,
        greater_equal,
        ieee_mul,
        invert,
        isfinite,
        isinf,
        isnan,
        less,
        less_equal,
        logical_and,
        logical_not,
        logical_or,
        logical_xor,
        not_equal,
        rint,
        sign,
        signbit,
        strong_mul_either_op,
        strong_mul_op,
        trunc,
        where,
    ]
)


def is_pointwise(e: Equation) -> bool:
    return isinstance(e.op, Elementwise) or e.op in _OTHERS
