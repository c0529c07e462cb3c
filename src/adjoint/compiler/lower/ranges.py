"""Ranges of whole numbers: an index that is known to be inside the bounds is not checked.

    for i in range(1, n):                 the rows of the loop are the constants 1 … n − 1:
        b[i] = f(b[i - 1])                i is from 1 to n − 1, and i − 1 from 0 to n − 2

A range has its least and its greatest number. It may be wider than the numbers are; None is that of unknown numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ...core.op import Linear, Op
from ...core.types import Type
from ...ir.graph import Equation, Literal
from ...ops import index, reduce
from ...ops.broadcast import cast, where
from ...ops.elementwise import add, maximum, minimum, mul, neg, sub

Range = tuple[int, int]

_ARITHMETIC: dict[Op, Callable[..., Range]] = {
    add: lambda a, b: (a[0] + b[0], a[1] + b[1]),
    sub: lambda a, b: (a[0] - b[1], a[1] - b[0]),
    neg: lambda a: (-a[1], -a[0]),
    mul: lambda a, b: (min(p := [x * y for x in a for y in b]), max(p)),
    minimum: lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
    maximum: lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
    where: lambda _, a, b: (min(a[0], b[0]), max(a[1], b[1])),
    cast: lambda a: a,
    index.gather: lambda a: a,
}


def of_literal(literal: Literal) -> Range | None:
    value = np.asarray(literal.value)
    if value.dtype.kind not in "biu" or not value.size:
        return None
    return int(value.min()), int(value.max())


def of_type(t: Type) -> Range | None:
    """What is known of any value of a type."""
    return (0, 1) if t.dtype.kind == "b" else None


def of_result(equation: Equation, types: Sequence[Type], operands: Sequence[Range | None]) -> Range | None:
    """The range of the result of an equation, of operands of these types and ranges."""
    t, op = equation.types[0], equation.op
    if len(equation.types) != 1 or t.dtype.kind not in "iu":
        return None
    if op in (reduce.argsort, reduce.argmax, reduce.argmin):
        axis = equation.params["axis"]
        shape = types[0].shape
        return 0, (int(np.prod(shape)) if axis is None else shape[axis]) - 1
    known = [r for r in (operands[:1] if op is index.gather else operands) if r is not None]
    if len(known) < (1 if op is index.gather else len(operands)):
        return None
    if op in _ARITHMETIC:
        found = _ARITHMETIC[op](*known)
    elif isinstance(op, Linear) and op.terms == "moved":  # an element of an operand, or 0
        found = min(0, *(r[0] for r in known)), max(0, *(r[1] for r in known))
    else:
        return None
    limits = np.iinfo(t.dtype)
    return found if limits.min <= found[0] and found[1] <= limits.max else None
