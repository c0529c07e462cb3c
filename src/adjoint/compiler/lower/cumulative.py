"""Cumulative sums and products, and first-order recurrences, along one axis.

y_0 = x_0,  y_i = y_{i-1} + x_i       cumsum
            y_i = y_{i-1} * x_i       cumprod
            y_i = max(y_{i-1}, x_i)   running_max, and running_min likewise
            y_i = a_i * y_{i-1} + x_i recurrence
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ...ir.graph import Equation
from ...ops import broadcast
from ...ops.reduce import cumprod, cumsum, recurrence, running_max, running_min
from .kernel import View
from .lowered import Rules
from .scalar import FLOATS
from .step import Cumulative

if TYPE_CHECKING:
    from .fuse import Lowering

_HOW = {cumsum: "sum", cumprod: "prod", running_max: "max", running_min: "min", recurrence: "recurrence"}


def cumulative(low: Lowering, equation: Equation) -> bool:
    (result,) = equation.types
    dtypes = FLOATS if equation.op is recurrence else low.dtypes
    types = [low.type_of(o) for o in equation.inputs]
    if not low.has_cumulative or 0 in result.shape or result.dtype.kind == "b" or result.dtype not in dtypes:
        return False
    if any(t.shape != result.shape or t.dtype not in low.dtypes for t in types):
        return False
    given = [
        o if t == result else low.emit(broadcast.cast, (o,), result, dtype=result.dtype)
        for o, t in zip(equation.inputs, types, strict=True)
    ]
    axis = equation.params["axis"] % len(result.shape)
    *factors, terms = (along_last(low.view(o), axis) for o in given)
    out = low.local(result)
    step = Cumulative(
        _HOW[equation.op], factors[0] if factors else None, terms, along_last(out, axis), {low.line: None} if low.line else {}
    )
    low.ready[out.buffer] = low.step(step)
    return low.hold(equation, out)


def along_last(view: View, axis: int) -> View:
    """With an axis moved to the end."""
    order = [k for k in range(len(view.shape)) if k != axis] + [axis]
    return replace(view, shape=tuple(view.shape[k] for k in order), strides=tuple(view.strides[k] for k in order))


RULES: Rules = dict.fromkeys(_HOW, cumulative)
