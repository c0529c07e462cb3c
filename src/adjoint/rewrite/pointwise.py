"""Which equations apply a function of single numbers to each element of their operands, broadcast as in NumPy."""

from __future__ import annotations

from ..core.op import Constant, Elementwise
from ..ir.graph import Equation
from ..ops import elementwise
from ..ops.broadcast import cast, where

#: Besides the ops with partials: products of the chain rule, and the functions of the same module that have no derivative.
_OTHERS = frozenset({cast, where, *elementwise.PRODUCTS, *(op for op in vars(elementwise).values() if isinstance(op, Constant))})


def is_pointwise(e: Equation) -> bool:
    return isinstance(e.op, Elementwise) or e.op in _OTHERS
