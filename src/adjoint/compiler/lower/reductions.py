"""Reductions over axes, fused into the kernel that computes the operand."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ...core.types import Type
from ...ir.graph import Equation, Literal
from ...ops import broadcast, reduce
from ...ops import elementwise as ew
from ...ops.broadcast import sum_
from ...ops.norm import norm as norm_op
from ...ops.reduce import all_, any_, max_, min_
from ...ops.special import logsumexp
from .kernel import Reduce, View, size_of
from .lowered import Rules
from .scalar import BOOL, FLOATS, KernelWriter

if TYPE_CHECKING:
    from .fuse import Lowering


def reduction(low: Lowering, equation: Equation) -> bool:
    (x,), (result,) = equation.inputs, equation.types
    how, axes = equation.op.name, equation.params["axis"]
    t = low.type_of(x)
    if t.dtype not in low.dtypes or result.dtype not in low.dtypes:
        return False
    if how in ("any", "all") and t.dtype != BOOL:
        x, t = low.emit(ew.not_equal, (x, Literal(0)), Type(t.shape, BOOL)), Type(t.shape, BOOL)
    if how in ("max", "min"):
        if size_of(t.shape) == 0:
            return False
        if t.dtype == BOOL:
            how = "any" if how == "max" else "all"
    if not axes:  # of each element alone: a step that reads it must not take it for a total of a tile
        return low.alias(equation, low.emit(broadcast.cast, (x,), result, dtype=result.dtype))
    out = low.local(result)
    kept = out.strides if equation.params["keepdims"] else _reinsert(out.strides, axes)
    strides = tuple(0 if k in axes else s for k, s in enumerate(kept))
    operand = low.operand(x, t.shape)
    position = low.place(t.shape, [operand])
    line = KernelWriter(low.kernel(position)).cast(low.read(position, operand), result.dtype)
    low.kernel(position).reductions.append(Reduce(how, line, axes, View(out.buffer, t.shape, strides)))
    low.ready[out.buffer] = position
    return low.hold(equation, out)


def product(low: Lowering, equation: Equation) -> bool:
    return reduction(low, replace(equation, params={"axis": (equation.params["axis"],), "keepdims": False}))


def count_nonzero(low: Lowering, equation: Equation) -> bool:
    (x,), (result,) = equation.inputs, equation.types
    t = low.type_of(x)
    if t.dtype not in low.dtypes:
        return False
    truth = x if t.dtype == BOOL else low.emit(ew.not_equal, (x, Literal(0)), Type(t.shape, BOOL))
    return low.alias(equation, low.emit(broadcast.sum_, (truth,), result, **equation.params))


def _reinsert(strides: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    """Strides with reduced axes reinserted."""
    kept = iter(strides)
    return tuple(0 if k in axes else next(kept) for k in range(len(strides) + len(axes)))


def log_sum_exp(low: Lowering, equation: Equation) -> bool:
    (x,), (result,), axis = equation.inputs, equation.types, equation.params["axis"]
    t = low.type_of(x)
    if t.dtype not in FLOATS or 0 in t.shape:
        return False
    kept = Type(tuple(1 if k in axis else n for k, n in enumerate(t.shape)), t.dtype)
    top = low.emit(reduce.max_, (x,), kept, axis=axis, keepdims=True)
    finite = low.emit(ew.isfinite, (top,), Type(kept.shape, BOOL))
    shift = low.emit(broadcast.where, (finite, top, Literal(0.0)), kept)
    terms = low.emit(ew.exp, (low.emit(ew.sub, (x, shift), t),), t)
    total = low.emit(ew.log, (low.emit(broadcast.sum_, (terms,), kept, axis=axis, keepdims=True),), kept)
    y = low.emit(ew.add, (total, shift), kept)
    return low.alias(equation, low.emit(broadcast.reshape, (y,), result, shape=result.shape))


def norm(low: Lowering, equation: Equation) -> bool:
    (x,), (result,) = equation.inputs, equation.types
    t = low.type_of(x)
    if t.dtype not in FLOATS:
        return False
    total = low.emit(broadcast.sum_, (low.emit(ew.square, (x,), t),), result, **equation.params)
    return low.alias(equation, low.emit(ew.sqrt, (total,), result))


RULES: Rules = {
    **dict.fromkeys((sum_, max_, min_, any_, all_), reduction),
    reduce.prod: product,
    reduce.count_nonzero: count_nonzero,
    logsumexp: log_sum_exp,
    norm_op: norm,
}
