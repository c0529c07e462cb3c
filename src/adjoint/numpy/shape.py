"""Shape functions with NumPy's signatures. What NumPy returns as a view is a view here."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from typing import Any

import numpy as np

from ..core.bind import Traced, snapshot
from ..core.errors import DtypeError
from ..core.types import Shape, Value, canonical_axes, canonical_axis, dtype_of, is_inexact, ndim_of, shape_of
from ..ops import broadcast as shapes
from ..ops import elementwise as ops
from ..ops import shape as joins
from .concrete import primal
from .table import implements, lift
from .ufunc import deliver
from .views import as_array, view


def _reshaped(x: Value, shape: Shape) -> Value:
    """A reshape that is a view."""
    own = shape_of(x)
    if shape == own:
        return view(shapes.reshape(x, shape=shape), x, lambda base: base, lambda base, part: part)
    y = shapes.reshape(x, shape=shape)
    return view(y, x, lambda base: shapes.reshape(base, shape=shape), lambda base, part: shapes.reshape(part, shape=own))


def _permuted(x: Value, axes: Shape) -> Value:
    """A transpose that is a view."""
    inverse = tuple(sorted(range(len(axes)), key=axes.__getitem__))
    y = shapes.transpose(x, axes=axes)
    return view(y, x, lambda base: shapes.transpose(base, axes=axes), lambda base, part: shapes.transpose(part, axes=inverse))


def _full_shape(shape: Any, size: int) -> Shape:
    """A requested shape with its -1 worked out."""
    wanted = [operator.index(n) for n in shape] if isinstance(shape, (tuple, list)) else [operator.index(shape)]
    if wanted.count(-1) > 1:
        raise ValueError("can only specify one unknown dimension")
    if -1 in wanted:
        known = math.prod(n for n in wanted if n != -1)
        if known == 0 or size % known:
            raise ValueError(f"cannot reshape array of size {size} into shape {tuple(wanted)}")
        wanted[wanted.index(-1)] = size // known
    if math.prod(wanted) != size:
        raise ValueError(f"cannot reshape array of size {size} into shape {tuple(wanted)}")
    return tuple(wanted)


def _in_memory(a: Value) -> Value:
    """The array behind a value, for a look at how it is held."""
    while isinstance(a, Traced):
        a = a.value if a.by.has_numbers else a.by.concrete(a, "the order in memory of")
    return np.asarray(a)


def _memory_order(a: Value) -> Shape:
    """The axes from the slowest to the quickest in memory, as NumPy would hold the array; a batch axis does not count."""
    n = ndim_of(a)
    strides = _in_memory(a).strides
    strides = strides[len(strides) - n :]
    return tuple(sorted(range(n), key=lambda i: -abs(strides[i])))


def _is_fortran(a: Value) -> bool:
    """Whether NumPy would hold the array column by column; the examples of a batch are taken to be dense."""
    n = ndim_of(a)
    axes, held = _memory_order(a), _in_memory(a)
    return bool(np.isfortran(held)) if held.ndim == n else n > 1 and axes == tuple(range(n))[::-1]


@implements(np.reshape)
def reshape(a: Any, /, shape: Any, order: str = "C", *, copy: bool | None = None) -> Value:
    a = lift(a)
    new = _full_shape(shape, math.prod(shape_of(a)))
    if order == "A":
        order = "F" if _is_fortran(a) else "C"
    if order == "F":
        return transpose(_reshaped(transpose(a), new[::-1]))
    if order != "C":
        raise ValueError(f"order must be one of 'C', 'F' or 'A' (got {order!r})")
    return _reshaped(a, new)


@implements(np.ravel)
def ravel(a: Any, order: str = "C") -> Value:
    a = lift(a)
    if order == "K":
        axes = _memory_order(a)
        a, order = (a if axes == tuple(range(len(axes))) else _permuted(a, axes)), "C"
    return reshape(a, (math.prod(shape_of(a)),), order=order)


@implements(np.transpose, np.permute_dims)
def transpose(a: Any, axes: Any = None) -> Value:
    a = lift(a)
    n = ndim_of(a)
    if axes is None:
        order = tuple(range(n))[::-1]
    else:
        order = canonical_axes(tuple(axes) if not isinstance(axes, int) else (axes,), n)
        if len(order) != n:
            raise ValueError("axes don't match array")
    return _permuted(a, order)


@implements(np.matrix_transpose)
def matrix_transpose(x: Any, /) -> Value:
    return swapaxes(x, -1, -2)


@implements(np.swapaxes)
def swapaxes(a: Any, axis1: int, axis2: int) -> Value:
    a = lift(a)
    n = ndim_of(a)
    order = list(range(n))
    i, j = canonical_axis(axis1, n), canonical_axis(axis2, n)
    order[i], order[j] = order[j], order[i]
    return _permuted(a, tuple(order))


@implements(np.moveaxis)
def moveaxis(a: Any, source: Any, destination: Any) -> Value:
    a = lift(a)
    n = ndim_of(a)
    origins, targets = (canonical_axes(tuple(x) if isinstance(x, Iterable) else x, n) for x in (source, destination))
    if len(origins) != len(targets):
        raise ValueError("`source` and `destination` arguments must have the same number of elements")
    order = [i for i in range(n) if i not in origins]
    for target, origin in sorted(zip(targets, origins, strict=True)):
        order.insert(target, origin)
    return _permuted(a, tuple(order))


@implements(np.rollaxis)
def rollaxis(a: Any, axis: int, start: int = 0) -> Value:
    n = ndim_of(lift(a))
    axis = canonical_axis(axis, n)
    start = start + n if start < 0 else start
    return moveaxis(a, axis, start - 1 if axis < start else start)


@implements(np.expand_dims)
def expand_dims(a: Any, axis: Any) -> Value:
    a = lift(a)
    extra = len(axis) if isinstance(axis, (tuple, list)) else 1
    axes = canonical_axes(tuple(axis) if isinstance(axis, list) else axis, ndim_of(a) + extra)
    shape = list(shape_of(a))
    for i in sorted(axes):
        shape.insert(i, 1)
    return _reshaped(a, tuple(shape))


@implements(np.squeeze)
def squeeze(a: Any, axis: Any = None) -> Value:
    a = lift(a)
    shape = shape_of(a)
    if axis is None:
        return _reshaped(a, tuple(n for n in shape if n != 1))
    axes = canonical_axes(axis, len(shape))
    if any(shape[i] != 1 for i in axes):
        raise ValueError("cannot select an axis to squeeze out which has size not equal to one")
    return _reshaped(a, tuple(n for i, n in enumerate(shape) if i not in axes))


@implements(np.broadcast_to)
def broadcast_to(array: Any, shape: Any, subok: bool = False) -> Value:
    shape = tuple(shape) if isinstance(shape, (tuple, list)) else (operator.index(shape),)
    a = lift(array)
    y = shapes.broadcast_to(a, shape=shape)
    return view(y, a, lambda base: shapes.broadcast_to(base, shape=shape), None)


@implements(np.broadcast_arrays)
def broadcast_arrays(*args: Any, subok: bool = False) -> tuple[Value, ...]:
    values = [lift(a) for a in args]
    shape = np.broadcast_shapes(*map(shape_of, values))
    return tuple(broadcast_to(v, shape) for v in values)


@implements(np.atleast_1d)
def atleast_1d(*arys: Any) -> Any:
    return _each(arys, lambda a: a if ndim_of(a) >= 1 else _reshaped(a, (1,)))


@implements(np.atleast_2d)
def atleast_2d(*arys: Any) -> Any:
    return _each(arys, lambda a: a if ndim_of(a) >= 2 else _reshaped(a, (1, math.prod(shape_of(a)))))


@implements(np.atleast_3d)
def atleast_3d(*arys: Any) -> Any:
    def deepen(a: Value) -> Value:
        shape = shape_of(a)
        if len(shape) >= 3:
            return a
        return _reshaped(a, (*shape, 1) if len(shape) == 2 else (1, math.prod(shape), 1))

    return _each(arys, deepen)


def _each(arys: tuple[Any, ...], change: Any) -> Any:
    results = tuple(change(lift(a)) for a in arys)
    return results[0] if len(results) == 1 else results


@implements(np.astype)
def astype(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Value:
    x = lift(x)
    new = np.dtype(dtype)
    if not is_inexact(new):
        if new.kind in "iub":
            return ops.truncate(x, dtype=new)
        raise DtypeError(f"astype({new}) of a traced value: only numbers can be converted")
    if new == dtype_of(x):
        return Traced(x.by, x.value, x.aux) if isinstance(x, Traced) else x
    return shapes.cast(x, dtype=new)


# -- joining ----------------------------------------------------------------------------------------------------


def _one_dtype(values: list[Value], dtype: Any, casting: str) -> list[Value]:
    """The values in the dtype that is asked for, or that of them all together, as far as `casting` allows."""
    if dtype is None and casting == "same_kind":  # to which every common dtype is
        return values
    wanted = np.result_type(*map(dtype_of, values)) if dtype is None else np.dtype(dtype)
    for v in values:
        if not np.can_cast(dtype_of(v), wanted, casting):  # type: ignore[arg-type]
            raise TypeError(f"Cannot cast array data from {dtype_of(v)!r} to {wanted!r} according to the rule '{casting}'")
    return [astype(v, wanted) for v in values]


@implements(np.concatenate, np.concat)
def concatenate(arrays: Any, /, axis: int | None = 0, out: Any = None, *, dtype: Any = None, casting: str = "same_kind") -> Value:
    values = _one_dtype([lift(a) for a in arrays], dtype, casting)
    if not values:
        raise ValueError("need at least one array to concatenate")
    if axis is None:
        values, axis = [ravel(v) for v in values], 0
    if ndim_of(values[0]) == 0:
        raise ValueError("zero-dimensional arrays cannot be concatenated")
    return deliver(joins.concatenate(*values, axis=canonical_axis(axis, ndim_of(values[0]))), out)


@implements(np.stack)
def stack(arrays: Any, axis: int = 0, out: Any = None, *, dtype: Any = None, casting: str = "same_kind") -> Value:
    values = _one_dtype([lift(a) for a in arrays], dtype, casting)
    if not values:
        raise ValueError("need at least one array to stack")
    if len({shape_of(v) for v in values}) != 1:
        raise ValueError("all input arrays must have the same shape")
    return deliver(joins.stack(*values, axis=canonical_axis(axis, ndim_of(values[0]) + 1)), out)


@implements(np.vstack)
def vstack(tup: Any, *, dtype: Any = None, casting: str = "same_kind") -> Value:
    return concatenate([atleast_2d(a) for a in tup], 0, dtype=dtype, casting=casting)


@implements(np.hstack)
def hstack(tup: Any, *, dtype: Any = None, casting: str = "same_kind") -> Value:
    values = [atleast_1d(a) for a in tup]
    return concatenate(values, 0 if ndim_of(values[0]) == 1 else 1, dtype=dtype, casting=casting)


@implements(np.dstack)
def dstack(tup: Any) -> Value:
    return concatenate([atleast_3d(a) for a in tup], 2)


@implements(np.column_stack)
def column_stack(tup: Any) -> Value:
    values = [lift(a) for a in tup]
    return concatenate([_reshaped(v, (math.prod(shape_of(v)), 1)) if ndim_of(v) < 2 else v for v in values], 1)


@implements(np.append)
def append(arr: Any, values: Any, axis: int | None = None) -> Value:
    return concatenate([arr, values], axis) if axis is not None else concatenate([ravel(arr), ravel(values)])


# -- choosing ---------------------------------------------------------------------------------------------------


@implements(np.where)
def where(condition: Any, x: Any = None, y: Any = None, /) -> Value:
    c = lift(condition)
    if x is None and y is None:
        return nonzero(c)
    if dtype_of(c).kind in "fc":
        c = ops.not_equal(c, 0)
    return as_array(shapes.where(c, lift(x), lift(y)))


@implements(np.nonzero)
def nonzero(a: Any) -> Any:
    return np.nonzero(primal(lift(a)))


@implements(np.clip)
def clip(
    a: Any, a_min: Any = None, a_max: Any = None, out: Any = None, *, min: Any = None, max: Any = None, **options: Any
) -> Value:
    low, high = (a_min if min is None else min), (a_max if max is None else max)
    y = lift(a)
    if low is not None:
        y = ops.maximum(y, lift(low))
    if high is not None:
        y = ops.minimum(y, lift(high))
    if low is None and high is None:
        y = ops.pos(y)
    return deliver(y, out)


@implements(np._core.umath.clip)  # type: ignore[attr-defined]
def _clip_method(a: Any, low: Any, high: Any) -> Value:
    """`array.clip(low, high)` of a plain array, with a traced bound."""
    return clip(a, low, high)


@implements(np.real)
def real(val: Any) -> Value:
    val = lift(val)
    if dtype_of(val).kind != "c":
        return val
    return view(shapes.real(val), val, shapes.real, with_real)


@implements(np.imag)
def imag(val: Any) -> Value:
    val = lift(val)
    y = shapes.imag(val)
    return view(y, val, shapes.imag, with_imag if dtype_of(val).kind == "c" else None)


def with_real(base: Value, part: Value) -> Value:
    """A complex array with another real part."""
    return shapes.cast(part, dtype=dtype_of(base)) + 1j * shapes.imag(base)


def with_imag(base: Value, part: Value) -> Value:
    """A complex array with another imaginary part."""
    return shapes.real(base) + 1j * shapes.cast(part, dtype=dtype_of(base))


@implements(np.copy)
def copy(a: Any, order: str = "K", subok: bool = False) -> Value:
    return snapshot(as_array(a)) if isinstance(a, Traced) else np.array(a)


@implements(np.shape)
def shape(a: Any) -> Shape:
    return shape_of(lift(a))


@implements(np.ndim)
def ndim(a: Any) -> int:
    return ndim_of(lift(a))


@implements(np.size)
def size(a: Any, axis: Any = None) -> int:
    dims = shape_of(lift(a))
    return math.prod(dims) if axis is None else math.prod(dims[i] for i in canonical_axes(axis, len(dims)))


@implements(np.round, np.around)
def round(a: Any, decimals: int = 0, out: Any = None) -> Value:
    """Piecewise constant, so a plain value."""
    if decimals == 0:
        return ops.rint(lift(a))
    scale = 10.0 ** abs(decimals)
    return ops.rint(lift(a) * scale) / scale if decimals > 0 else ops.rint(lift(a) / scale) * scale


@implements(np.fix)
def fix(x: Any, out: Any = None) -> Value:
    return ops.trunc(lift(x))
