"""Index searches: the position of an extremum along an axis, and of each value in a sorted array.

The position of an extremum is the least index of an element that equals it. A sorted array is searched by bisection, without
branches and with the same number of comparisons for every value, so that the search can be fused into the kernel that computes
the values.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ...core.types import Type
from ...ir.graph import Equation, Literal
from ...ops import broadcast, reduce
from ...ops import elementwise as ew
from ...ops.reduce import argmax, argmin
from ...ops.sort import searchsorted
from .kernel import View
from .lowered import Line, Rules
from .scalar import BOOL, FLOATS, KernelWriter

if TYPE_CHECKING:
    from .fuse import Lowering

_INDEX = np.dtype(np.int64)
_COUNT = np.dtype(np.float64)  # of reductions: max and min are of floats
_MOST = 1 << 53  # elements, which a float counts


def place_of_extremum(low: Lowering, equation: Equation) -> bool:
    """The least index of what equals the extremum, or of the first nan, which NumPy takes for it."""
    (x,), (result,) = equation.inputs, equation.types
    t, axis = low.type_of(x), equation.params["axis"]
    if t.dtype not in low.dtypes or 0 in t.shape or not t.shape or math.prod(t.shape) > _MOST:
        return False
    if t.dtype not in FLOATS and not low.has_array_kernels:
        return False
    if axis is None:
        t, axis = Type((math.prod(t.shape),), t.dtype), 0
        x = low.emit(broadcast.reshape, (x,), t, shape=t.shape)
    axis %= len(t.shape)
    kept = Type(tuple(1 if k == axis else n for k, n in enumerate(t.shape)), t.dtype)
    top = low.emit(reduce.max_ if equation.op is argmax else reduce.min_, (x,), kept, axis=(axis,), keepdims=True)
    truth = Type(t.shape, BOOL)
    is_top = low.emit(ew.equal, (x, top), truth)
    if t.dtype in FLOATS:
        is_top = low.emit(ew.logical_or, (is_top, low.emit(ew.isnan, (x,), truth)), truth)
    n = t.shape[axis]
    count = np.arange(n, dtype=_COUNT).reshape([n if k == axis else 1 for k in range(len(t.shape))])
    places = low.emit(broadcast.where, (is_top, Literal(count), Literal(np.float64(n))), Type(t.shape, _COUNT))
    first = low.emit(reduce.min_, (places,), Type(kept.shape, _COUNT), axis=(axis,), keepdims=True)
    number = low.emit(broadcast.cast, (first,), Type(kept.shape, _INDEX), dtype=_INDEX)
    return low.alias(equation, low.emit(broadcast.reshape, (number,), result, shape=result.shape))


def place_in_order(low: Lowering, equation: Equation) -> bool:
    """How many elements of a sorted array come before each value; nan comes last."""
    a, v = equation.inputs
    table, values = low.type_of(a), low.type_of(v)
    if values.dtype != table.dtype or len(table.shape) != 1 or 0 in (*table.shape, *values.shape):
        return False
    if table.dtype not in FLOATS and not (low.has_array_kernels and table.dtype.kind in "iu" and table.dtype in low.dtypes):
        return False
    held, operand, domain = low.view(a), low.operand(v, values.shape), values.shape
    position = low.place(domain, [operand, held])
    write = KernelWriter(low.kernel(position))
    value = low.read(position, operand)
    everywhere = View(held.buffer, domain, (0,) * len(domain), held.offset)
    (n,), none = table.shape, write.const(0, _INDEX)
    place, length = none, write.const(n, _INDEX)
    for bit in reversed(range(n.bit_length())):
        further = write("add", place, write.const(1 << bit, _INDEX))
        inside = write.test("less_equal", further, length)
        index = write("select", inside, write("sub", further, write.const(1, _INDEX)), none)
        element = low.kernel(position).add("gather", (index,), (everywhere, held.strides), table.dtype)
        is_before = _comes_before(write, element, value, equation.params["side"], table.dtype in FLOATS)
        place = write("select", write.test("and", inside, is_before), further, place)
    return low.hold(equation, Line(position, place))


def _comes_before(write: KernelWriter, element: int, value: int, side: str, has_nan: bool) -> int:
    """Whether an element is less than the value, or not greater."""
    if side == "right":
        return write.test("not", _comes_before(write, value, element, "left", has_nan))
    if not has_nan:
        return write.test("less", element, value)
    last = write.test("and", write.test("isnan", value), write.test("not", write.test("isnan", element)))
    return write.test("or", write.test("less", element, value), last)


RULES: Rules = {argmax: place_of_extremum, argmin: place_of_extremum, searchsorted: place_in_order}
