"""np.interp: the line through some knots."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.bind import Traced
from ..core.types import Value, dtype_of, ndim_of, shape_of
from ..ops import broadcast as shapes
from ..ops import elementwise as ops
from ..ops import index as indexing
from ..ops import reduce as reductions
from ..ops import shape as joins
from ..ops import sort as sorts
from ..ops.pairs import from_parts
from .calculus import diff
from .shape import astype
from .statistics import is_known
from .table import implements, lift


@implements(np.interp)
def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None) -> Value:
    """Differentiable in x, xp and fp. At a knot the slope is the mean of both sides."""
    x, xp, fp = _double(x), _double(xp), _double(fp)
    if "c" in (dtype_of(x).kind, dtype_of(xp).kind):
        raise TypeError("interp: x and xp are real numbers, and a complex one was given; pass np.real(x)")
    if dtype_of(fp).kind == "c":  # infinite parts stay apart
        parts = []
        for f in (np.real, np.imag):
            low, high = (None if end is None else f(end) for end in (left, right))
            parts.append(interp(x, xp, f(fp), low, high, period))
        return from_parts(*parts)
    if ndim_of(xp) != 1 or shape_of(xp) != shape_of(fp):
        raise ValueError("fp and xp are not of the same length.")
    if not shape_of(xp)[0]:
        raise ValueError("array of sample points is empty")
    if period is not None:
        x, xp, fp = _periodic(x, xp, fp, lift(period))
        left = right = None
    below, above = ops.less(x, xp[0]), ops.greater(x, xp[shape_of(xp)[0] - 1])
    y = _polygon(x, xp, fp, ops.logical_or(below, above))
    if left is not None:
        y = shapes.where(below, _double(left), y)
    if right is not None:
        y = shapes.where(above, _double(right), y)
    return y


def _polygon(x: Value, xp: Value, fp: Value, beyond: Value) -> Value:
    """The line through the knots at x; flat before the first knot (segment 0) and behind the last (segment n)."""
    n = shape_of(xp)[0]
    segment = sorts.searchsorted(xp, x, side="right")
    knot = np.maximum(segment - 1, 0)
    base, height = indexing.gather(xp, knot, axis=0), indexing.gather(fp, knot, axis=0)
    is_at_knot = ops.equal(x, base)

    gaps = diff(xp)
    slopes = diff(fp) / shapes.where(ops.equal(gaps, 0), 1.0, gaps)
    zero = np.zeros(1, dtype_of(slopes))
    slopes = joins.concatenate(zero, slopes, zero, axis=0)
    before = indexing.gather(sorts.searchsorted(xp, ops.stop_gradient(xp), side="left"), knot, axis=0)
    other = shapes.where(is_at_knot, before, segment)
    slope = 0.5 * (indexing.gather(slopes, segment, axis=0) + indexing.gather(slopes, other, axis=0))
    y = height + slope * shapes.where(beyond if n > 1 else True, 0.0, x - base)

    finite = ops.isfinite(fp)
    if not is_known(finite) or np.all(finite):
        return y
    # At a knot its own value counts; a line that is lost between infinite ones is drawn from the other end.
    following = np.minimum(knot + 1, n - 1)
    with np.errstate(invalid="ignore"):
        line = indexing.gather(slopes, segment, axis=0) * (x - indexing.gather(xp, following, axis=0))
    line = line + indexing.gather(fp, following, axis=0)
    return shapes.where(ops.isnan(y), shapes.where(is_at_knot, height, line), y)


def _double(x: Any) -> Value:
    """The value in double precision."""
    x = lift(x)
    kind = np.dtype(complex if dtype_of(x).kind == "c" else float)
    return x if dtype_of(x) == kind else astype(x, kind)


def _periodic(x: Value, xp: Value, fp: Value, period: Value) -> tuple[Value, Value, Value]:
    """One period of samples in order, with the last one repeated in front and the first behind."""
    if ndim_of(period) or (not isinstance(period, Traced) and period == 0):
        raise ValueError("period must be a non-zero value")
    period = ops.absolute(period)
    x, xp = ops.remainder(x, period), ops.remainder(xp, period)
    order = reductions.argsort(xp, axis=0, kind=None)
    xp, fp = indexing.gather(xp, order, axis=0), indexing.gather(fp, order, axis=0)
    xp = joins.concatenate(xp[-1:] - period, xp, xp[:1] + period, axis=0)
    return x, xp, joins.concatenate(fp[-1:], fp, fp[:1], axis=0)
