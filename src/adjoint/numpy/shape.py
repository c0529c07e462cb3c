"""Shape functions with NumPy's signatures. They return views where NumPy does."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from typing import Any

import numpy as np

from ..core.bind import Traced, is_array
from ..core.errors import DtypeError
from ..core.types import (
    Shape,
    Value,
    canonical_axes,
    canonical_axis,
    dtype_of,
    integers,
    is_inexact,
    ndim_of,
    reduced_axes,
    shape_of,
)
from ..ops import broadcast as shapes
from ..ops import elementwise as ops
from ..ops import shape as joins
from ..ops.pairs import from_parts
from .concrete import note_rounding, primal
from .layout import axes_by_stride, copied, held_by, stand_in
from .selected import nonzero as selected_places
from .table import implements, lift
from .ufunc import call_with_options, check_cast, deliver
from .views import View, view
from .ways import Flattened, InMemoryOrder, Permuted, Seen, Shaped, Written, as_array


def _reshaped(x: Value, shape: Shape, order: str = "C") -> Value:
    """A reshape, which is a view where NumPy gives one."""
    return view(x, Shaped(shape_of(x), shape, order))


def _permuted(x: Value, axes: Shape) -> Value:
    """A transpose that is a view."""
    return view(x, Permuted(axes))


def _full_shape(shape: Any, size: int) -> Shape:
    """A requested shape with -1 resolved."""
    wanted = list(integers(shape))
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


def _is_fortran(a: Value) -> bool:
    """Whether NumPy would make the array column-major."""
    return bool(stand_in(a).flags.fnc)


@implements(np.reshape)
def reshape(a: Any, /, shape: Any, order: str = "C", *, copy: bool | None = None) -> Value:
    a = lift(a)
    new = _full_shape(shape, math.prod(shape_of(a)))
    if order == "A":
        order = "F" if _is_fortran(a) else "C"
    if order not in ("C", "F"):
        raise ValueError(f"order must be one of 'C', 'F' or 'A' (got {order!r})")
    y = _reshaped(a, new, order)
    if copy:
        return copied(y)
    if copy is False and isinstance(y, View) and not y.is_shared():
        raise ValueError("Unable to avoid creating a copy while reshaping.")
    return y


@implements(np.ravel)
def ravel(a: Any, order: str = "C") -> Value:
    a = lift(a)
    flat = (math.prod(shape_of(a)),)
    if order == "K":
        axes = axes_by_stride(a) if ndim_of(a) > 1 else ()
        if axes != tuple(range(len(axes))):
            return view(a, InMemoryOrder(shape_of(a), axes))
    elif order not in ("C", "F", "A"):
        raise ValueError(f"order must be one of 'C', 'F', 'A', or 'K' (got {order!r})")
    by_columns = order == "F" or (order == "A" and _is_fortran(a))
    return view(a, Flattened(shape_of(a), flat, "F" if by_columns else "C", order))


@implements(np.transpose, np.permute_dims)
def transpose(a: Any, axes: Any = None) -> Value:
    a = lift(a)
    n = ndim_of(a)
    if axes is None:
        order = tuple(range(n))[::-1]
    else:
        order = canonical_axes(axes, n)
        if len(order) != n:
            raise ValueError("axes don't match array")
    return _permuted(a, order)


@implements(np.matrix_transpose)
def matrix_transpose(x: Any, /) -> Value:
    x = lift(x)
    if ndim_of(x) < 2:
        raise ValueError(f"Input array must be at least 2-dimensional, but it is {ndim_of(x)}")
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
    axis = axis if isinstance(axis, (tuple, list)) else (axis,)
    axes = canonical_axes(axis, ndim_of(a) + len(axis))
    shape = list(shape_of(a))
    for i in sorted(axes):
        shape.insert(i, 1)
    return _reshaped(a, tuple(shape))


def with_axis(a: Value, axis: int | None) -> tuple[Value, int]:
    """The array and the axis to work along: None flattens the array; one without axes is taken to have one."""
    if axis is None or (not ndim_of(a) and axis in (0, -1)):
        return ravel(a), 0
    return a, canonical_axis(axis, ndim_of(a))


@implements(np.squeeze)
def squeeze(a: Any, axis: Any = None) -> Value:
    a = lift(a)
    shape = shape_of(a)
    if axis is None:
        return _reshaped(a, tuple(n for n in shape if n != 1))
    axes = reduced_axes(axis, len(shape))
    if any(shape[i] != 1 for i in axes):
        raise ValueError("cannot select an axis to squeeze out which has size not equal to one")
    return _reshaped(a, tuple(n for i, n in enumerate(shape) if i not in axes))


@implements(np.broadcast_to)
def broadcast_to(array: Any, shape: Any, subok: bool = False) -> Value:
    shape = integers(shape)
    a = lift(array)
    return view(a, Seen(lambda base: shapes.broadcast_to(base, shape=shape), lambda memory: np.broadcast_to(memory, shape)))


@implements(np.broadcast_arrays)
def broadcast_arrays(*args: Any, subok: bool = False) -> tuple[Value, ...]:
    values = [lift(a) for a in args]
    shape = np.broadcast_shapes(*map(shape_of, values))
    return tuple(as_array(v) if shape_of(v) == shape else broadcast_to(v, shape) for v in values)


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
    return copied(x) if copy and is_inexact(new) and new == dtype_of(x) else converted(x, new)


def converted(x: Value, dtype: np.dtype[Any]) -> Value:
    """x in another dtype; what is not inexact has no derivative."""
    if dtype.kind in "iub":
        y = ops.truncate(x, dtype=dtype)
        return y if isinstance(y, Traced) or not is_array(x) else np.asarray(y)  # a 0-d array stays one
    if not is_inexact(dtype):
        raise DtypeError(f"astype({dtype}) of a traced value: only numbers can be converted")
    return x if dtype == dtype_of(x) else shapes.cast(x, dtype=dtype)


# -- joining ----------------------------------------------------------------------------------------------------


def _one_dtype(values: list[Value], dtype: Any, casting: str) -> list[Value]:
    """The values in the requested or the common dtype, as far as `casting` allows."""
    if dtype is None and casting == "same_kind":  # which every common dtype satisfies
        return values
    wanted = np.result_type(*map(dtype_of, values)) if dtype is None else np.dtype(dtype)
    for v in values:
        check_cast(dtype_of(v), wanted, casting)
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
    return deliver(joins.concatenate(*values, axis=canonical_axis(axis, ndim_of(values[0]))), out, casting=casting)


@implements(np.stack)
def stack(arrays: Any, axis: int = 0, out: Any = None, *, dtype: Any = None, casting: str = "same_kind") -> Value:
    values = _one_dtype([lift(a) for a in arrays], dtype, casting)
    if not values:
        raise ValueError("need at least one array to stack")
    if len({shape_of(v) for v in values}) != 1:
        raise ValueError("all input arrays must have the same shape")
    return deliver(joins.stack(*values, axis=canonical_axis(axis, ndim_of(values[0]) + 1)), out, casting=casting)


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
    a = lift(a)
    return selected_places(a) or np.nonzero(primal(a))


@implements(np.clip)
def clip(
    a: Any,
    a_min: Any = np._NoValue,
    a_max: Any = np._NoValue,
    out: Any = None,
    *,
    min: Any = np._NoValue,
    max: Any = np._NoValue,
    **options: Any,
) -> Value:
    missing = [name for name, bound in (("a_min", a_min), ("a_max", a_max)) if bound is np._NoValue]
    if len(missing) == 1:
        raise TypeError(f"clip() missing 1 required positional argument: {missing[0]!r}")
    if not missing and (min is not np._NoValue or max is not np._NoValue):
        raise ValueError("Passing `min` or `max` keyword argument when `a_min` and `a_max` are provided is forbidden.")
    low, high = (None if x is np._NoValue else x for x in ((min, max) if missing else (a_min, a_max)))
    return clip_between(a, low, high, out, **options)


def clip_between(a: Any, low: Any = None, high: Any = None, out: Any = None, **options: Any) -> Value:
    """`np.clip`, and `array.clip`, with the options of a ufunc; a bound of None is none."""
    a = lift(a)
    if dtype_of(a).kind in "iu":  # a Python int that no element can reach is no bound, even if the dtype cannot hold it
        info = np.iinfo(dtype_of(a))
        low = None if type(low) is int and low <= info.min else low
        high = None if type(high) is int and high >= info.max else high
    bounds = [(op, x) for op, x in ((ops.maximum, low), (ops.minimum, high)) if x is not None]

    def clipped(y: Value, *limits: Value) -> Value:
        for (op, _), limit in zip(bounds, limits, strict=True):
            y = op(y, limit)
        return y if limits else ops.pos(y)

    inputs = (a, *(x for _, x in bounds))
    if options:
        return call_with_options(clipped, "np.clip", inputs, {"out": out, **options})
    return deliver(clipped(*map(lift, inputs)), out)


@implements(np._core.umath.clip)  # type: ignore[attr-defined]
def _clip_method(a: Any, low: Any, high: Any) -> Value:
    """`array.clip(low, high)` of a plain array, with a traced bound."""
    return clip(a, low, high)


@implements(np.real)
def real(val: Any) -> Value:
    val = lift(val)
    if dtype_of(val).kind != "c":
        return val
    return view(val, Written(shapes.real, np.real, with_real))


@implements(np.imag)
def imag(val: Any) -> Value:
    val = lift(val)
    if dtype_of(val).kind != "c":
        return view(val, Seen(shapes.imag, np.imag))
    return view(val, Written(shapes.imag, np.imag, with_imag))


def with_real(base: Value, part: Value) -> Value:
    """A complex array with another real part."""
    imaginary = shapes.imag(base)
    return from_parts(shapes.cast(part, dtype=dtype_of(imaginary)), imaginary)


def with_imag(base: Value, part: Value) -> Value:
    """A complex array with another imaginary part."""
    real_ = shapes.real(base)
    return from_parts(real_, shapes.cast(part, dtype=dtype_of(real_)))


@implements(np.copy)
def copy(a: Any, order: str = "K", subok: bool = False) -> Value:
    return copied(as_array(a), order)


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
    """Piecewise constant, so a plain value. Integers stay integers."""
    a, decimals = lift(a), operator.index(decimals)
    note_rounding(a, decimals)
    if out is not None and decimals and dtype_of(a).kind == "b" and is_inexact(dtype_of(out)):
        a = shapes.cast(a, dtype=dtype_of(out))  # NumPy computes in it
    kind = dtype_of(a).kind
    scale = 10.0 ** abs(decimals)
    if kind in "iu" and decimals >= 0:
        y = ops.stop_gradient(a)
    elif kind in "iuc" or (kind == "b" and decimals):
        y = ops.rounded(a, decimals=decimals)
    elif decimals == 0:
        y = ops.rint(a)
    else:
        y = ops.rint(a * scale) / scale if decimals > 0 else ops.rint(a / scale) * scale
        y = held_by(y, lambda: np.empty_like(stand_in(a), order="A").strides)
    return deliver(y, out)


@implements(np.fix)
def fix(x: Any, out: Any = None) -> Value:
    return deliver(ops.trunc(lift(x)), out)
