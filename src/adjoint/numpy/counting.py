"""Counting. Which bin a sample falls into is constant almost everywhere; the weights and the edges carry derivatives."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from ..core.bind import Traced
from ..core.errors import UnsupportedError
from ..core.types import Value, dtype_of, ndim_of, shape_of
from ..ops import elementwise as ops
from ..ops import index as indexing
from ..ops.sort import searchsorted
from .calculus import diff
from .concrete import primal
from .grids import linspace
from .selection import whole
from .shape import astype, ravel
from .table import holds_traced, implements, lift


@implements(np.bincount)
def bincount(x: Any, /, weights: Any = None, minlength: int = 0) -> Value:
    """The sum of the weights for each number in x."""
    index = whole(x)
    count = operator.index(minlength)
    if not isinstance(index, Traced) and weights is None:
        return np.bincount(index, minlength=count)
    if ndim_of(index) != 1:
        raise ValueError(f"object {'too deep' if ndim_of(index) else 'of too small depth'} for desired array")
    w = np.ones(shape_of(index), np.intp) if weights is None else lift(weights)
    if shape_of(w) != shape_of(index):
        raise ValueError("The weights and list don't have the same length.")
    if count < 0:
        raise ValueError("'minlength' must not be negative")
    if shape_of(index)[0]:
        if primal(ops.less(np.min(index), 0)):
            raise ValueError("'list' argument must have no negative elements")
        top = np.max(index)
        # Whether all fit is one answer, the greatest of them another one for each program.
        count = count if primal(ops.less(top, count)) else int(primal(top)) + 1
    if weights is not None and dtype_of(w) != np.dtype(float):
        w = astype(w, float)
    return indexing.scatter_add(w, index, axis=0, shape=(count,))


@implements(np.histogram_bin_edges)
def histogram_bin_edges(a: Any, bins: Any = 10, range: Any = None, weights: Any = None) -> Value:
    if isinstance(bins, str):
        if holds_traced(bins) or weights is not None:
            raise TypeError("Automated estimation of the number of bins is not supported for weighted data")
        bins = len(np.histogram_bin_edges(primal(lift(a)), bins, primal(range) if range is None else range)) - 1
    if ndim_of(lift(bins)):
        edges = lift(bins)
        if not isinstance(edges, Traced) and np.any(edges[:-1] > edges[1:]):
            raise ValueError("`bins` must increase monotonically, when an array")
        return edges
    count = operator.index(bins)
    if count < 1:
        raise ValueError("`bins` must be positive, when an integer")
    a = ravel(a)
    low, high = range if range is not None else (np.min(a), np.max(a)) if shape_of(a)[0] else (0.0, 1.0)
    reversed_, finite = ops.greater(low, high), ops.logical_and(ops.isfinite(low), ops.isfinite(high))
    if not isinstance(reversed_, Traced) and reversed_:
        raise ValueError("max must be larger than min in range parameter.")
    if not isinstance(finite, Traced) and not finite:
        given = "supplied" if range is not None else "autodetected"
        raise ValueError(f"{given} range of [{primal(low)}, {primal(high)}] is not finite")
    margin = 0.5 * ops.equal(low, high)  # coinciding edges are separated
    kind = np.result_type(dtype_of(a), *[x if isinstance(x, (int, float)) else dtype_of(x) for x in (low, high)])
    kind = kind if kind.kind in "fc" else np.result_type(kind, float)
    edges = linspace(low - margin, high + margin, count + 1, dtype=kind)
    met = ops.greater_equal(edges[:-1], edges[1:])
    if not isinstance(met, Traced) and np.any(met):
        raise ValueError(f"Too many bins for data range. Cannot create {count} finite-sized bins.")
    return edges


@implements(np.histogram)
def histogram(a: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None) -> Any:
    a = ravel(a)
    edges = histogram_bin_edges(a, bins, range, weights)
    n = shape_of(edges)[0] - 1
    number = searchsorted(edges, a, side="right") - 1
    if isinstance(number, Traced):
        raise UnsupportedError(
            "np.histogram counts the numbers themselves, which vmap and graph do not have; run the examples one by one"
        )
    plain = primal(a)
    number = np.where(plain == primal(edges)[-1], n - 1, number)  # the last bin holds its right edge too
    inside = (number >= 0) & (number < n)
    counts: Value
    if weights is None:
        counts = np.bincount(number[inside], minlength=n)
    else:
        w = ravel(weights)
        if shape_of(w) != shape_of(a):
            raise ValueError("weights should have the same shape as a.")
        counts = indexing.scatter_add(indexing.read(w, inside), number[inside], axis=0, shape=(n,))
    if density:
        counts = counts / diff(edges) / np.sum(counts)
    return counts, edges
