"""linspace, logspace and geomspace between traced ends."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from ..core.bind import Traced
from ..core.types import Value, canonical_axis, dtype_of, ndim_of, shape_of
from ..ops import broadcast as shapes
from ..ops import elementwise as ops
from ..staging.guard import Guarded
from .shape import astype, broadcast_to, moveaxis
from .table import implements, lift
from .ways import kind_of


@implements(np.linspace)
def linspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
    *,
    device: Any = None,
) -> Any:
    a, b, num = lift(start), lift(stop), operator.index(num)
    kind = np.result_type(kind_of(a), kind_of(b), 1.0)
    a, b = (astype(x, kind) if dtype_of(x) != kind else x for x in (a, b))
    shape = np.broadcast_shapes(shape_of(a), shape_of(b))
    pieces = num - 1 if endpoint else num
    i = np.arange(num).astype(np.finfo(kind).dtype).reshape((-1,) + (1,) * len(shape))
    # With NumPy's operations, so that it is equal to the last bit: the edges of bins are counted by it.
    step = (b - a) / pieces if pieces > 0 else b - a
    y = i * step + a
    tiny = ops.equal(step, 0)
    if not isinstance(tiny, Traced) and np.any(tiny):  # of numbers whose quotient is no more than zero
        y = i / max(pieces, 1) * (b - a) + a
    y = shapes.broadcast_to(y, shape=(num, *shape)) if shape_of(y) != (num, *shape) else y
    if endpoint and num > 1:
        y = shapes.where(np.equal(i, num - 1), b, y)
    if dtype is not None:
        y = astype(ops.floor(y) if np.dtype(dtype).kind in "iu" else y, dtype)
    y = y if axis == 0 else moveaxis(y, 0, axis)
    return (y, (b - a) / pieces if pieces > 0 else np.nan) if retstep else y


@implements(np.logspace)
def logspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, base: Any = 10.0, dtype: Any = None, axis: int = 0
) -> Value:
    base = lift(base)
    if ndim_of(base):
        wide = np.broadcast_shapes(*map(shape_of, map(lift, (start, stop, base))))
        start, stop, base = (broadcast_to(lift(x), wide) for x in (start, stop, base))
        base = shapes.expand_dims(base, (canonical_axis(axis, len(wide) + 1),))
    y = ops.power(base, linspace(start, stop, num, endpoint, axis=axis))
    return y if dtype is None else astype(y, dtype)


@implements(np.geomspace)
def geomspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True, dtype: Any = None, axis: int = 0) -> Value:
    a, b, num = lift(start), lift(stop), operator.index(num)
    kind = np.result_type(dtype_of(a), dtype_of(b), np.float64, np.dtype(dtype))  # as in NumPy, never narrower
    shape = np.broadcast_shapes(shape_of(a), shape_of(b))
    a, b = (shapes.broadcast_to(astype(x, kind) if dtype_of(x) != kind else x, shape=shape) for x in (a, b))
    zero = np.any(ops.logical_or(ops.equal(a, 0), ops.equal(b, 0)))
    if (not isinstance(zero, Traced) or isinstance(zero.by, Guarded)) and zero:
        raise ValueError("Geometric sequence cannot include zero")
    if kind.kind == "c":  # a spiral: the principal logarithm of the ratio
        y = a * ops.exp(linspace(np.zeros(()), ops.log(b / a), num, endpoint))
    else:
        sign = ops.sign(a)
        y = ops.power(10.0, linspace(ops.log10(a / sign), ops.log10(b / sign), num, endpoint)) * sign
    i = np.arange(num).reshape((-1,) + (1,) * len(shape))
    if num:  # the ends are those given, not the exponentials of their logarithms
        y = shapes.where(np.equal(i, 0), a, y)
        y = shapes.where(np.equal(i, num - 1), b, y) if endpoint and num > 1 else y
    y = y if axis == 0 else moveaxis(y, 0, axis)
    return y if dtype is None else astype(y, dtype)
