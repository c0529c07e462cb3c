"""Order by counting: an element's rank is the number of elements that come before it. Long rows are merged.

    x       3.  1.  2.  1.
    rank    3   0   2   1         Σ_j [x_j < x_i, or x_j = x_i and j < i]
    order   1   3   2   0         order[rank[i]] = i

All pairs are compared, in a kernel without branches: the fastest way for short rows, and for the kth elements of them (medians,
quantiles). Longer rows are merged, or ordered by digits (`llvm.order`). The order is stable, and nan comes last.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.op import Op
from ...core.types import Type
from ...ir.graph import Equation, Literal, Operand
from ...ops import broadcast, index, reduce, sort
from ...ops import elementwise as ew
from .cumulative import along_last
from .kernel import View
from .lowered import Rules
from .scalar import BOOL
from .step import Ordered

if TYPE_CHECKING:
    from .fuse import Lowering

_INDEX = np.dtype(np.int64)
BLOCK = 8  # elements that `llvm.order` orders by counting, before they are merged
LONGEST = 24  # elements of a row that is ordered by counting
_LONGEST_FOR_SOME = (
    512  # elements of a row that is ordered for the sake of some of them; NumPy finds those faster in a longer one
)
_MOST_WRITES = 128  # that are compared with each other


class _Pairs:
    """All pairs of elements of the rows of an array: `first` along the row's own axis, `second` along one behind it."""

    def __init__(self, low: Lowering, t: Type, axis: int) -> None:
        self.low, self.t, self.axis = low, t, axis % len(t.shape)
        self.n = t.shape[self.axis]
        self.shape = (*t.shape[: self.axis], self.n, *t.shape[self.axis :])

    def __call__(self, op: Op, *operands: Operand, dtype: Any = BOOL) -> int:
        return self.low.emit(op, operands, Type(self.shape, dtype))

    def spread(self, x: Operand, place: int) -> int:
        """An array over the pairs: its own axis is the first of the two, or the second."""
        t = self.low.type_of(x)
        shape = tuple(1 if k == self.axis + 1 - place else n for k, n in enumerate(self.shape))
        return self.low.emit(broadcast.reshape, (x,), Type(shape, t.dtype), shape=shape)

    def constant(self, matrix: Any) -> Literal:
        """A matrix over the two axes."""
        return Literal(matrix.reshape(self.n, self.n, *(1,) * (len(self.t.shape) - self.axis - 1)))

    def sum(self, x: Operand, dtype: Any) -> int:
        """Over the first of the two axes."""
        return self.low.emit(broadcast.sum_, (x,), Type(self.t.shape, dtype), axis=(self.axis,), keepdims=False)


def _is_native(low: Lowering, t: Type) -> bool:
    return low.has_array_kernels and bool(t.shape) and t.dtype in low.dtypes and 0 not in t.shape


def argsort(low: Lowering, equation: Equation) -> bool:
    (x,), axis = equation.inputs, equation.params["axis"]
    if not _is_native(low, low.type_of(x)):
        return False
    return low.alias(equation, _order(low, x, axis))


def _order(low: Lowering, x: Operand, axis: int) -> int:
    """The indices of the elements of each row, in order."""
    t = low.type_of(x)
    if t.shape[axis] > LONGEST:
        return _merged(low, x, axis)
    if isinstance(x, Literal):  # in memory once, for all pairs
        x = low.emit(broadcast.broadcast_to, (x,), t, shape=t.shape)
    pairs = _Pairs(low, t, axis)
    one, other = pairs.spread(x, 0), pairs.spread(x, 1)
    earlier = pairs.constant(np.tri(pairs.n, pairs.n, -1, dtype=bool).T)
    before = pairs(broadcast.where, earlier, pairs(ew.less_equal, one, other), pairs(ew.less, one, other))
    if t.dtype.kind == "f":
        is_nan = Type(t.shape, BOOL)
        nan = low.emit(ew.isnan, (x,), is_nan)
        behind = pairs(ew.logical_or, earlier, pairs(ew.logical_not, pairs.spread(nan, 0)))
        before = pairs(ew.logical_or, before, pairs(ew.logical_and, pairs.spread(nan, 1), behind))
    rank = pairs.sum(before, _INDEX)
    places = np.arange(pairs.n).reshape([pairs.n if k == pairs.axis else 1 for k in range(len(t.shape))])
    numbers = Type(t.shape, _INDEX)
    given = low.emit(broadcast.broadcast_to, (Literal(places),), numbers, shape=t.shape)
    low.ranges[rank] = 0, pairs.n - 1
    order = low.emit(sort.add_along, (given, rank), numbers, axis=pairs.axis, shape=t.shape)
    low.ranges[order] = 0, pairs.n - 1
    return order


def _merged(low: Lowering, x: Operand, axis: int) -> int:
    """The indices of the elements of each row, in order, by merging."""
    t = low.type_of(x)
    axis, n = axis % len(t.shape), t.shape[axis]
    numbers = Type(t.shape, _INDEX)
    source, out = low.view(x), low.local(numbers)
    scratch = low.local(Type((4 * -(-n // BLOCK) * BLOCK,), _INDEX))
    number = _add(low, (source,), out, (scratch,), axis)
    low.ranges[number] = 0, n - 1
    return number


def _add(low: Lowering, operands: Sequence[View], out: View, scratch: tuple[View, ...], axis: int) -> int:
    """A step for the rows along an axis; returns the number of its result."""
    rows = tuple(along_last(view, axis) for view in operands)
    position = low.step(Ordered(rows, along_last(out, axis), scratch, {low.line: None} if low.line else {}))
    low.ready.update((view.buffer, position) for view in (out, *scratch))
    number = low.fresh_number(out.type)
    low.values[number] = out
    return number


def argpartition(low: Lowering, equation: Equation) -> bool:
    """A sorted row is a partitioned one."""
    t = low.type_of(equation.inputs[0])
    return bool(t.shape) and t.shape[equation.params["axis"]] <= _LONGEST_FOR_SOME and argsort(low, equation)


def order_statistics(low: Lowering, equation: Equation) -> bool:
    (x,), (result,), axis = equation.inputs, equation.types, equation.params["axis"]
    t = low.type_of(x)
    if not _is_native(low, t) or t.shape[axis] > _LONGEST_FOR_SOME or 0 in result.shape:
        return False
    axis %= len(t.shape)
    kth = np.array([k % t.shape[axis] for k in equation.params["kth"]])
    places = low.emit(index.gather, (_order(low, x, axis), Literal(kth)), Type(result.shape, _INDEX), axis=axis)
    return low.alias(equation, low.emit(sort.take_along, (x, places), result, axis=axis))


def lexsort(low: Lowering, equation: Equation) -> bool:
    """By the last key, then by the one before it: the order is stable, so that the last sort decides."""
    (keys,), (result,), axis = equation.inputs, equation.types, equation.params["axis"]
    t = low.type_of(keys)
    one = Type(t.shape[1:], t.dtype)
    if len(t.shape) < 2 or 0 in t.shape or not _is_native(low, one):
        return False
    axis %= len(one.shape)
    order: int | None = None
    for k in range(t.shape[0]):
        key = low.emit(index.getitem, (keys,), one, spec=(k,))
        if order is None:
            order = _order(low, key, axis)
        else:
            sorted_so_far = low.emit(sort.take_along, (key, order), one, axis=axis)
            order = low.emit(sort.take_along, (order, _order(low, sorted_so_far, axis)), result, axis=axis)
    assert order is not None
    return low.alias(equation, order)


def share_equal(low: Lowering, equation: Equation) -> bool:
    """The mean over equal elements, and over the element itself if it is nan."""
    (t, y), (result,), axis = equation.inputs, equation.types, equation.params["axis"]
    keys = low.type_of(y)
    if not _is_native(low, keys) or low.type_of(t) != result or result.shape != keys.shape or result.dtype.kind != "f":
        return False
    if keys.shape[axis] > LONGEST:
        return low.alias(equation, _shared(low, t, y, axis, equation.params["ordered"]))
    pairs = _Pairs(low, keys, axis)
    itself = pairs.constant(np.eye(pairs.n, dtype=bool))
    same = pairs(ew.logical_or, itself, pairs(ew.equal, pairs.spread(y, 0), pairs.spread(y, 1)))
    terms = pairs(broadcast.where, same, pairs.spread(t, 0), Literal(0.0), dtype=result.dtype)
    total, count = pairs.sum(terms, result.dtype), pairs.sum(same, _INDEX)
    number = low.emit(broadcast.cast, (count,), result, dtype=result.dtype)
    return low.alias(equation, low.emit(ew.div, (total, number), result))


def _shared(low: Lowering, t: Operand, y: Operand, axis: int, ordered: bool) -> int:
    """The mean over equal elements, which are neighbours once they are in order."""
    keys, result = low.type_of(y), low.type_of(t)
    axis %= len(keys.shape)
    if ordered:
        return _add(low, (low.view(t), low.view(y)), low.local(result), (), axis)
    order = _merged(low, y, axis)
    t, y = (low.emit(sort.take_along, (o, order), kind, axis=axis) for o, kind in ((t, result), (y, keys)))
    return low.emit(sort.add_along, (_shared(low, t, y, axis, True), order), result, axis=axis, shape=result.shape)


def last_write(low: Lowering, equation: Equation) -> bool:
    """Of the writes to places that integer arrays name, those that no later one overwrites."""
    (result,), extent = equation.types, equation.params["extent"]
    size = math.prod(result.shape)
    line = Type((size,), _INDEX)
    if not _is_native(low, line) or size > _MOST_WRITES or any(low.type_of(o).dtype.kind != "i" for o in equation.inputs):
        return False
    pairs = _Pairs(low, line, 0)
    is_later: Operand = pairs.constant(np.tri(size, size, -1, dtype=bool))
    for array, n in zip(equation.inputs, extent, strict=True):
        at = low.emit(broadcast.cast, (array,), Type(low.type_of(array).shape, _INDEX), dtype=_INDEX)
        at = low.emit(broadcast.broadcast_to, (at,), Type(result.shape, _INDEX), shape=result.shape)
        at = low.emit(broadcast.reshape, (at,), line, shape=line.shape)
        from_behind = low.emit(ew.less, (at, Literal(0)), Type(line.shape, BOOL))
        at = low.emit(broadcast.where, (from_behind, low.emit(ew.add, (at, Literal(n)), line), at), line)
        is_later = pairs(ew.logical_and, is_later, pairs(ew.equal, pairs.spread(at, 0), pairs.spread(at, 1)))
    overwritten = low.emit(reduce.any_, (is_later,), Type(line.shape, BOOL), axis=(0,), keepdims=False)
    wins = low.emit(ew.logical_not, (overwritten,), Type(line.shape, BOOL))
    return low.alias(equation, low.emit(broadcast.reshape, (wins,), result, shape=result.shape))


RULES: Rules = {
    index.last_write: last_write,
    reduce.argsort: argsort,
    sort.argpartition: argpartition,
    sort.order_statistics: order_statistics,
    sort.lexsort: lexsort,
    sort.share_equal: share_equal,
}
