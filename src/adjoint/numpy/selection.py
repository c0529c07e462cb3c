"""Selecting elements: by index, by condition, by order."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from ..core.bind import Traced, fresh
from ..core.types import Value, canonical_axis, dtype_of, ndim_of, shape_of
from ..eager.batch import Batch
from ..ops import broadcast as shapes
from ..ops import elementwise as ops
from ..ops import index as indexing
from ..ops import reduce as reductions
from ..ops import shape as joins
from ..ops import sort as sorts
from .concrete import primal
from .layout import held
from .selected import Selected
from .selected import select as select_elements
from .shape import astype, concatenate, converted, nonzero, ravel, reshape, with_axis
from .table import implements, lift
from .ufunc import deliver
from .views import read
from .ways import as_array, kind_of


def whole(index: Any) -> Value:
    """Numbers of elements as an array of integers (a traced one inside vmap and graph)."""
    is_array = isinstance(index, (np.ndarray, Traced))
    index = lift(index)
    while isinstance(index, Traced):
        if isinstance(index.by, Batch) or not index.by.has_numbers:
            return astype(index, np.intp) if dtype_of(index).kind == "b" else index
        index = index.underlying
    index = np.asarray(index)
    if index.dtype.kind not in "iub":
        if index.size or is_array:
            raise TypeError(f"Cannot cast array data from {index.dtype} to an integer index")
        return index.astype(np.intp)  # of an empty list
    return index.astype(np.intp) if index.dtype.kind == "b" else index


def _numbers(indices: Any) -> Value:
    """As `take` reads them: an array has whole numbers, a list or a number is cut to them."""
    if not isinstance(indices, (np.ndarray, Traced)):
        listed = lift(indices)
        if not isinstance(listed, Traced) and dtype_of(listed).kind == "f":
            return np.asarray(listed).astype(np.intp)
    return whole(indices)


def within(index: Value, n: int, mode: str) -> Value:
    """Indices brought into range according to mode=."""
    if mode == "wrap":
        return np.remainder(index, n)
    if mode == "clip":
        return np.minimum(np.maximum(index, 0), n - 1)
    if mode != "raise":
        raise ValueError(f"mode must be one of 'clip', 'raise', or 'wrap' (got {mode!r})")
    return index


# -- by number --------------------------------------------------------------------------------------------------


def _deliver_taken(y: Value, out: Any) -> Value:
    """As `deliver`. NumPy is asked which dtypes of `out` it takes: since 2.5 all."""
    if out is not None:
        np.take(np.zeros(1, dtype_of(y)), [0], out=np.zeros(1, dtype_of(out)))
    return deliver(y, out, casting="unsafe")


@implements(np.take)
def take(a: Any, indices: Any, axis: int | None = None, out: Any = None, mode: str = "raise") -> Value:
    a, axis = with_axis(lift(a), axis)
    if isinstance(indices, Selected) and mode == "raise" and out is None:
        chosen = select_elements(a, (slice(None),) * axis + (indices,))
        if chosen is not NotImplemented:
            return chosen
    own = shape_of(a)
    if 0 in own[:axis] or (mode == "clip" and not own[axis] and 0 in own[axis + 1 :]):  # then NumPy looks at no index
        return _deliver_taken(fresh(np.zeros((*own[:axis], *shape_of(_numbers(indices)), *own[axis + 1 :]), dtype_of(a))), out)
    index = within(_numbers(indices), shape_of(a)[axis], mode)
    if isinstance(index, Traced) or ndim_of(index):
        return _deliver_taken(held(indexing.gather(a, index, axis=axis)), out)
    return _deliver_taken(held(indexing.getitem(a, spec=(slice(None),) * axis + (int(index),))), out)


@implements(np.take_along_axis)
def take_along_axis(arr: Any, indices: Any, axis: int | None = -1) -> Value:
    a, index = lift(arr), lift(indices)
    if dtype_of(index).kind not in "iu":
        raise IndexError("`indices` must be an integer array")
    index = whole(index)
    if axis is None:
        a, axis = ravel(a), 0
        if ndim_of(index) != 1:
            raise ValueError("when axis=None, `indices` must have a single dimension.")
    if ndim_of(a) != ndim_of(index):
        raise ValueError("`indices` and `arr` must have the same number of dimensions")
    axis = canonical_axis(axis, ndim_of(a))
    return sorts.take_along(*_level(a, index, axis), axis=axis)


def _level(a: Value, index: Value, axis: int) -> tuple[Value, Value]:
    """Both arrays, broadcast against each other on all other axes."""
    own, other = list(shape_of(a)), list(shape_of(index))
    own[axis] = other[axis] = 1
    full = np.broadcast_shapes(tuple(own), tuple(other))
    result = []
    for x in (a, index):
        shape = (*full[:axis], shape_of(x)[axis], *full[axis + 1 :])
        result.append(x if shape_of(x) == shape else shapes.broadcast_to(x, shape=shape))
    return result[0], result[1]


@implements(np.choose)
def choose(a: Any, choices: Any, out: Any = None, mode: str = "raise") -> Value:
    options = [lift(c) for c in choices]
    kind = np.result_type(*map(kind_of, options))
    options = [c if dtype_of(c) == kind else astype(c, kind) for c in options]
    index = within(whole(a), len(options), mode)
    if not isinstance(index, Traced) and np.size(index) and not 0 <= np.min(index) <= np.max(index) < len(options):
        raise ValueError("invalid entry in choice array")
    shape = np.broadcast_shapes(shape_of(index), *map(shape_of, options))
    options_first = joins.stack(*[shapes.broadcast_to(c, shape=shape) for c in options], axis=0)
    index = shapes.reshape(shapes.broadcast_to(index, shape=shape), shape=(1, *shape))
    return deliver(held(read(sorts.take_along(options_first, index, axis=0), 0)), out, casting="unsafe")


# -- by condition -----------------------------------------------------------------------------------------------


def _where_true(condition: Any) -> Any:
    """The indices where a condition holds."""
    return nonzero(condition)[0]


@implements(np.compress)
def compress(condition: Any, a: Any, axis: int | None = None, out: Any = None) -> Value:
    if ndim_of(lift(condition)) != 1:
        raise ValueError("condition must be a 1-d array")
    return take(a, _where_true(lift(condition)), axis, out)


@implements(np.extract)
def extract(condition: Any, arr: Any) -> Value:
    return take(ravel(arr), _where_true(ravel(condition)))


@implements(np.select)
def select(condlist: Any, choicelist: Any, default: Any = 0) -> Value:
    conditions, choices = [lift(c) for c in condlist], [lift(c) for c in choicelist]
    if len(conditions) != len(choices):
        raise ValueError("list of cases must be same length as list of conditions")
    if not conditions:
        raise ValueError("select with an empty condition list is not possible")
    if any(dtype_of(c).kind != "b" for c in conditions):
        raise TypeError("invalid entry in condlist: should be boolean ndarray")
    kinds = [kind_of(c) for c in (*choices, lift(default))]
    y, dtype = lift(default), np.result_type(*kinds)
    if dtype.kind in "fc":
        y = astype(y, dtype)
    elif type(y) is int:
        y = np.asarray(y).astype(dtype)  # which wraps around, as np.full does
    for condition, choice in zip(reversed(conditions), reversed(choices), strict=True):
        y = shapes.where(condition, choice, y)
    return held(as_array(y))


@implements(np.piecewise)
def piecewise(x: Any, condlist: Any, funclist: Any, *args: Any, **kw: Any) -> Value:
    """Each function sees only the elements of its own piece, as in NumPy; inside vmap it sees them all."""
    x = lift(x)
    conditions = _conditions(condlist, ndim_of(x))
    functions = list(funclist)
    if len(functions) == len(conditions) + 1:
        conditions = [*conditions, ops.logical_not(_any_of(conditions))]  # ~ of Python's True is -2
    if len(functions) != len(conditions):
        raise ValueError(
            f"with {len(conditions)} condition(s), {len(conditions)} or {len(conditions) + 1} functions are expected"
        )
    y: Value = np.zeros(shape_of(x), dtype_of(x))
    for condition, function in zip(conditions, functions, strict=True):
        if not callable(function):
            y = shapes.where(condition, function, y)
        elif isinstance(condition, Traced) or ndim_of(x) == 0:
            y = shapes.where(condition, function(x, *args, **kw), y)
        elif np.any(condition):
            index = np.nonzero(np.broadcast_to(condition, shape_of(x)))
            y = indexing.write(y, index, function(indexing.read(x, index), *args, **kw))
    return held(as_array(converted(y, dtype_of(x)) if dtype_of(y) != dtype_of(x) else y), "K", x)


def _conditions(condlist: Any, ndim: int) -> list[Value]:
    single = not isinstance(condlist, (list, tuple)) or (not isinstance(condlist[0], (list, tuple, np.ndarray, Traced)) and ndim)
    conditions = [condlist] if single and ndim_of(lift(condlist)) <= ndim else list(condlist)
    return [ops.not_equal(lift(c), False) for c in conditions]


def _any_of(conditions: list[Value]) -> Value:
    found = conditions[0]
    for c in conditions[1:]:
        found = ops.logical_or(found, c)
    return found


# -- by order ---------------------------------------------------------------------------------------------------


@implements(np.sort)
def sort(
    a: Any, axis: int | None = -1, kind: Any = None, order: Any = None, *, stable: bool | None = None, descending: Any = False
) -> Value:
    _unstructured(order)
    a = lift(a)
    if axis is None:
        a, axis = ravel(a), 0
    along, how = canonical_axis(axis, ndim_of(a)), "stable" if stable else kind
    if descending is True:  # NumPy 2.5; nan comes last all the same
        y = -sorts.sort(-a, along, how) if dtype_of(a).kind in "fc" else np.flip(sorts.sort(a, along, how), along)
    else:
        y = sorts.sort(a, along, how)
    return held(y, "K", a)


def _unstructured(order: Any) -> None:
    if order is not None:
        raise ValueError("Cannot specify order when the array has no fields.")


@implements(np.sort_complex)
def sort_complex(a: Any) -> Value:
    y = sort(a)
    return (
        y if dtype_of(y).kind == "c" else shapes.cast(y, dtype=np.result_type(dtype_of(y), complex))
    )  # never single, as in NumPy


@implements(np.partition)
def partition(a: Any, kth: Any, axis: int | None = -1, kind: str = "introselect", order: Any = None) -> Value:
    _unstructured(order)
    a = lift(a)
    if axis is None:
        a, axis = ravel(a), 0
    axis = canonical_axis(axis, ndim_of(a))
    return held(sorts.partition(a, _kth(kth, shape_of(a), axis), axis), "K", a)


def _kth(kth: Any, shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    if np.asarray(kth).dtype.kind == "b":
        raise ValueError("Booleans unacceptable as partition index")
    numbers = [operator.index(k) for k in (kth if isinstance(kth, (tuple, list, np.ndarray)) else [kth])]
    if 0 in shape:
        return (0,)  # NumPy checks nothing for an empty array
    n = shape[axis]
    for k in numbers:
        if not -n <= k < n:
            raise ValueError(f"kth(={k}) out of bounds ({n})")
    return tuple(k % n for k in numbers)


@implements(np.argpartition)
def argpartition(a: Any, kth: Any, axis: int | None = -1, kind: str = "introselect", order: Any = None) -> Value:
    _unstructured(order)
    a, axis = with_axis(lift(a), axis)
    return sorts.argpartition(a, kth=_kth(kth, shape_of(a), axis), axis=axis)


@implements(np.searchsorted)
def searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None) -> Value:
    a = lift(a)
    if side not in ("left", "right"):
        raise ValueError(f"search side must be 'left' or 'right' (got {side!r})")
    if ndim_of(a) != 1:
        raise ValueError(f"searchsorted takes a sorted array of one axis, not {ndim_of(a)}")
    if sorter is not None:
        a = take(a, sorter)
    return sorts.searchsorted(a, lift(v), side=side)


@implements(np.digitize)
def digitize(x: Any, bins: Any, right: bool = False) -> Value:
    x, bins = lift(x), lift(bins)
    if dtype_of(x).kind == "c":
        raise TypeError("x may not be complex")
    side = "left" if right else "right"
    steps = np.diff(primal(bins))
    if not (np.all(steps >= 0) or np.all(steps <= 0)):
        raise ValueError("bins must be monotonically increasing or decreasing")
    if np.all(steps >= 0):
        return searchsorted(bins, x, side)
    return shape_of(bins)[0] - searchsorted(joins.flip(bins, 0), x, side)


@implements(np.lexsort)
def lexsort(keys: Any, axis: int = -1) -> Value:
    keys = lift(keys)
    if not ndim_of(keys) or not shape_of(keys)[0]:
        raise TypeError("need sequence of keys with len > 0 in lexsort")
    if ndim_of(keys) == 1:
        return sorts.lexsort(reshape(keys, (-1, 1)), axis=0)[0]
    return sorts.lexsort(keys, axis=canonical_axis(axis, ndim_of(keys) - 1))


# -- sets -------------------------------------------------------------------------------------------------------


@implements(np.unique)
def unique(
    ar: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
    sorted: bool = True,
) -> Any:
    """The distinct values; the cotangent of each goes to the elements equal to it (to the first one, for rows).

    Of a staged value only their number is asked: the places of equal values move from call to call.
    """
    a = lift(ar)
    if axis is not None and not (canonical_axis(axis, ndim_of(a)) or ndim_of(a) > 1):
        axis = None
    order: Any = None
    if axis is None:
        values = sorts.sort(ravel(a), 0)
        differ, n = _changes(values, equal_nan), shape_of(values)[0]
        if return_index or return_inverse:
            order = reductions.argsort(ravel(a), axis=0, kind="stable")
    else:
        rows = shapes.moveaxis(a, canonical_axis(axis, ndim_of(a)), 0)
        rows = reshape(rows, (shape_of(rows)[0], math.prod(shape_of(rows)[1:])))
        order, n = _by_rows(rows), shape_of(rows)[0]
        rows = take(rows, order, 0)
        differ = reductions.any_(_changes(rows, equal_nan=False), axis=(1,), keepdims=False)
    ranks = concatenate([np.zeros(min(n, 1), np.intp), np.cumsum(differ)])
    starts = _starts(ranks, n)
    counts = ops.sub(concatenate([read(starts, slice(1, None)), np.full(min(n, 1), n)]), starts)
    if axis is not None:
        values = take(a, take(order, starts), axis)
    else:
        values = indexing.gather(values, starts, axis=0)
        if not sorted and not (return_index or return_inverse or return_counts):
            # NumPy may then leave them in hash-table order.
            place = np.argsort(np.unique(primal(a), equal_nan=equal_nan, sorted=False), stable=True)
            values = indexing.gather(values, np.argsort(place), axis=0)
    extra: list[Any] = [take(order, starts)] if return_index else []
    if return_inverse:
        inverse = indexing.write(np.zeros(n, np.intp), order, ranks)
        extra.append(reshape(inverse, shape_of(a)) if axis is None else inverse)
    if return_counts:
        extra.append(counts)
    return (values, *extra) if extra else values


def _changes(values: Value, equal_nan: bool) -> Any:
    """Which of sorted elements differ from the one before, without the first."""
    before = read(values, slice(0, -1))
    differ: Any = ops.not_equal(read(values, slice(1, None)), before)
    if equal_nan and dtype_of(values).kind in "fc":
        return ops.logical_and(differ, ops.logical_not(ops.isnan(before)))
    return differ


def _starts(ranks: Value, n: int) -> Value:
    """Where the runs of equal elements begin, among n sorted ones with their ranks."""
    number = int(primal(read(ranks, -1))) + 1 if n else 0
    return np.arange(n) if number == n else searchsorted(ranks, np.arange(number))


def _by_rows(rows: Value) -> Value:
    """The order of the rows of a matrix: by their first elements, then by their second, …"""
    if not shape_of(rows)[1]:
        return np.arange(shape_of(rows)[0])
    return sorts.lexsort(joins.flip(shapes.transpose(rows, axes=(1, 0)), 0), axis=0)


@implements(np.unique_values)
def unique_values(x: Any, /) -> Value:
    return unique(x, equal_nan=False, sorted=False)


def _named(function: Any, *results: Value) -> Any:
    """Results as the tuple with names that a function of NumPy's gives."""
    return type(function(np.zeros(0)))(*results)


@implements(np.unique_counts)
def unique_counts(x: Any, /) -> Any:
    return _named(np.unique_counts, *unique(x, return_counts=True, equal_nan=False))


@implements(np.unique_inverse)
def unique_inverse(x: Any, /) -> Any:
    return _named(np.unique_inverse, *unique(x, return_inverse=True, equal_nan=False))


@implements(np.unique_all)
def unique_all(x: Any, /) -> Any:
    return _named(np.unique_all, *unique(x, True, True, True, equal_nan=False))


@implements(np.union1d)
def union1d(ar1: Any, ar2: Any) -> Value:
    return unique(concatenate([ravel(ar1), ravel(ar2)]))


@implements(np.intersect1d)
def intersect1d(ar1: Any, ar2: Any, assume_unique: bool = False, return_indices: bool = False) -> Any:
    a, b = ravel(ar1), ravel(ar2)
    _, i, j = np.intersect1d(primal(a), primal(b), assume_unique, return_indices=True)
    # The common value belongs to both arrays, which share the cotangent.
    pairs = joins.stack(take(a, i), take(b, j), axis=1)
    values = indexing.getitem(sorts.equal_shared(pairs, axis=1, ordered=True), spec=(slice(None), 0))
    return (values, i, j) if return_indices else values


@implements(np.setdiff1d)
def setdiff1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Value:
    a = ravel(ar1) if assume_unique else unique(ar1)
    return take(a, np.flatnonzero(~np.isin(primal(a), primal(lift(ar2)))))


@implements(np.setxor1d)
def setxor1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Value:
    a, b = (ravel(ar1), ravel(ar2)) if assume_unique else (unique(ar1), unique(ar2))
    both = sorts.sort(concatenate([a, b]), 0)
    values, counts = np.unique(primal(both), return_counts=True)
    return take(both, np.searchsorted(primal(both), values[counts == 1]))


@implements(np.isin)
def isin(
    element: Any, test_elements: Any, assume_unique: bool = False, invert: bool = False, *, kind: str | None = None
) -> Value:
    e, test = lift(element), ravel(test_elements)
    if kind not in (None, "sort", "table"):
        raise ValueError(f"Invalid kind: '{kind}'. Please use None, 'sort' or 'table'.")
    if kind == "table" and not (dtype_of(e).kind in "iub" and dtype_of(test).kind in "iub"):
        raise ValueError(
            "The 'table' method is only supported for boolean or integer arrays. Please select 'sort' or None for kind."
        )
    found = reductions.any_(ops.equal(shapes.expand_dims(e, (ndim_of(e),)), test), axis=(ndim_of(e),), keepdims=False)
    return ops.logical_not(found) if invert else found


@implements(np.argwhere)
def argwhere(a: Any) -> Any:
    return np.argwhere(primal(lift(a)))


@implements(np.flatnonzero)
def flatnonzero(a: Any) -> Any:
    return nonzero(ravel(a))[0]


@implements(np.unravel_index)
def unravel_index(indices: Any, shape: Any, order: str = "C") -> Any:
    return np.unravel_index(primal(lift(indices)), shape, order)  # type: ignore[call-overload]


@implements(np.ravel_multi_index)
def ravel_multi_index(multi_index: Any, dims: Any, mode: Any = "raise", order: str = "C") -> Any:
    return np.ravel_multi_index(tuple(map(primal, multi_index)), dims, mode, order)  # type: ignore[call-overload]
