"""Overflow on a tape: values that it makes wrong are saved as nan, so that no partial is computed from them.

    sqrt(x * x) at 1e300       x * x is inf, and 0.5 / inf would make the derivative 0

A tape hears of an overflow from NumPy (core/floating.py). From then on it notes which elements of its values are *lost*: those
that overflowed, and those computed from them. In what a node saves, lost elements are nan, so that the partials that read them
are nan as well; behind a mask its zero wins over them, as over any nan. What is infinite without an overflow, because the user's
array is or by a division by zero, is not lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.bind import Traced, numbers
from ..core.op import Elementwise, Linear, Multilinear, Op, Structured
from ..core.types import Value, dtype_of, shape_of
from ..derive import decays, push
from ..ops.broadcast import where
from ..ops.elementwise import (
    add,
    equal,
    isfinite,
    isinf,
    logical_and,
    logical_not,
    logical_or,
    not_equal,
    strong_mul_either_op,
    strong_mul_op,
)
from ..ops.zero import generic

if TYPE_CHECKING:
    from .tape import Node, Tape

_UNKNOWN: Any = object()
_ZERO_WINS = (strong_mul_op, strong_mul_either_op)


def is_silent(op: Op, y: Any, xs: Sequence[Any]) -> bool:
    """Whether an op has overflowed and NumPy has not told: a silent op, or Python's arithmetic."""
    if y.__class__ is float:
        return bool(y - y) and not any(x - x for x in xs)
    return op.silent and _has_infinity(y)


def is_silent_loop(op: Op, ys: Sequence[Any]) -> bool:
    """Whether a loop or a branch, which may run as one compiled program, has a result that is infinite."""
    return isinstance(op, Structured) and any(map(_has_infinity, ys))


def _has_infinity(y: Any) -> bool:
    return not isinstance(y, Traced) and dtype_of(y).kind in "fc" and bool(np.any(np.isinf(y)))


def mark(tape: Tape, node: Node, args: Sequence[Any], ys: Sequence[Any], params: dict[str, Any]) -> None:
    """Note what is lost of the results of a node, and make it nan in what the node has saved."""
    op = node.op
    assert op is not None
    values = [a.underlying if isinstance(a, Traced) and a.by is tape else a for a in args]
    plain = [y.underlying if isinstance(y, Traced) and y.by is tape else y for y in ys]
    if any(numbers(v) is None for v in (*values, *plain)):
        return  # staged
    masks = [_known(tape, a) for a in args]
    for y, value in zip(ys, plain, strict=True):
        if isinstance(y, Traced) and y.by is tape:
            inherited = _inherited(op, value, values, masks, params)
            own = _or_none(_overflowed(op, value, values))
            tape.lost[y.aux] = _union([inherited, own])  # type: ignore[index]
            if op.choice:
                _mark_choice(node, value, values, masks)
            else:
                # Of an elementwise op that overflows, the partial overflows too, or does not depend on it.
                lost = inherited if isinstance(op, Elementwise) else _union([inherited, own])
                _mark_saved(node, [lost, *masks])


def _mark_choice(node: Node, y: Value, values: Sequence[Value], masks: Sequence[Value | None]) -> None:
    """An op that compares needs no lost number, which is large; but of two that are lost, the larger is not known."""
    if isinstance(node.op, Elementwise) and any(m is not None for m in masks):
        tie = logical_and(isinf(y), equal(values[0], values[1]))
        node.saved = tuple([_with_nan(v, tie) for v in node.saved])


def _mark_saved(node: Node, lost: Sequence[Value | None]) -> None:
    """Make the lost elements of the result and of the operands nan."""
    if any(m is not None for m in lost):
        if node.op.many or isinstance(node.op, Structured):  # type: ignore[union-attr]
            node.saved = _all_nan(node.saved)
        else:
            node.saved = tuple([_with_nan(v, m) for v, m in zip(node.saved, lost, strict=True)])


def _known(tape: Tape, x: Any) -> Value | None:
    """The lost elements of an operand. The op that was running at the first overflow had no time to note its own."""
    if not isinstance(x, Traced) or x.by is not tape:
        return None
    mask = tape.lost.get(x.aux, _UNKNOWN)  # type: ignore[union-attr]
    if mask is _UNKNOWN:
        mask = _or_none(isinf(x.underlying)) if x.aux.serial > tape.since and x.aux.parents else None
    return mask


def _overflowed(op: Op, y: Value, xs: Sequence[Value]) -> Value:
    """Where a result is infinite and the operands are not."""
    result = isinf(y)
    if not np.any(numbers(result)):
        return False
    for x in xs:
        finite = True if type(x) is int else isfinite(x)  # NumPy has no isfinite of one beyond 64 bits
        result = logical_and(result, finite if isinstance(op, Elementwise) else bool(np.all(numbers(finite))))
    return result


def _inherited(op: Op, y: Value, xs: Sequence[Value], masks: Sequence[Value | None], params: dict[str, Any]) -> Value | None:
    """The elements of a result that are computed from lost ones."""
    if all(m is None for m in masks):
        return None
    if isinstance(op, Elementwise):
        if op.choice:
            masks = [None if m is None else logical_and(m, equal(y, x)) for m, x in zip(masks, xs, strict=True)]
        mask = _union(masks)
        return _or_none(logical_and(mask, logical_not(isfinite(y))) if saturates(op) else mask)
    if isinstance(op, Linear):
        drawn = [generic(shape_of(x), dtype_of(x), seed) for seed, x in enumerate(xs)]  # so that no two terms cancel
        weights = drawn if isinstance(op, Multilinear) else xs
        ts = [None if m is None else where(m, t, 0.0) for m, t in zip(masks, drawn, strict=True)]
        mask = not_equal(push(op, y, weights, ts, params), 0)
        return _or_none(logical_and(mask, not_equal(y, 0)) if op in _ZERO_WINS else mask)
    return _or_none(isinf(y) if op.choice else logical_or(isinf(y), True))


def saturates(op: Elementwise) -> bool:
    """Whether an op reaches its limit at infinity faster than any power, as exp and tanh do: then the limit is not lost."""
    found = [decay.fast for partial in decays(op) for decay in partial]
    return bool(found) and all(found)


def _union(masks: Sequence[Value | None]) -> Value | None:
    result = None
    for m in masks:
        result = m if result is None else result if m is None else logical_or(result, m)
    return result


def _or_none(mask: Value | None) -> Value | None:
    return mask if mask is not None and np.any(numbers(mask)) else None


def _with_nan(x: Any, mask: Value | None) -> Any:
    if mask is None or not (isinstance(x, (float, np.ndarray, np.inexact, Traced)) and dtype_of(x).kind in "fc"):
        return x
    dtype = dtype_of(x)
    return add(x, where(mask, np.full((), np.nan, dtype), np.zeros((), dtype)))


def _all_nan(saved: Any) -> Any:
    """What an op with several results has saved, in lists and tuples."""
    if isinstance(saved, (list, tuple)):
        return type(saved)([_all_nan(x) for x in saved])
    return _with_nan(saved, True)
