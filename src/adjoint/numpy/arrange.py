"""Rearranging the elements of arrays: reversing, repeating, joining and cutting. All of it is linear."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.bind import fresh
from ..core.types import Shape, Value, canonical_axes, canonical_axis, dtype_of, integers, ndim_of, shape_of
from ..ops import broadcast as shapes
from ..ops import index as indexing
from ..ops import shape as joins
from ..ops import shift as neighbours
from .concrete import primal
from .layout import copied, held, held_as
from .shape import astype, broadcast_to, concatenate, moveaxis, ravel, reshape, transpose, with_axis
from .table import implements, is_whole, lift
from .views import as_stored, lift_into, read, view
from .ways import Seen, strong


def along(axis: int, part: Any) -> tuple[Any, ...]:
    """The index that takes `part` of one axis and all of the others."""
    return (slice(None),) * axis + (part,)


# -- reversing and rolling --------------------------------------------------------------------------------------


@implements(np.flip)
def flip(m: Any, axis: Any = None) -> Value:
    m = strong(lift(m))
    axes = canonical_axes(axis, ndim_of(m))
    return read(m, tuple(slice(None, None, -1 if i in axes else None) for i in range(ndim_of(m))))


@implements(np.fliplr)
def fliplr(m: Any) -> Value:
    if ndim_of(lift(m)) < 2:
        raise ValueError("Input must be >= 2-d.")
    return flip(m, 1)


@implements(np.flipud)
def flipud(m: Any) -> Value:
    if ndim_of(lift(m)) < 1:
        raise ValueError("Input must be >= 1-d.")
    return flip(m, 0)


@implements(np.rot90)
def rot90(m: Any, k: int = 1, axes: Any = (0, 1)) -> Value:
    m = lift(m)
    n = ndim_of(m)
    first, second = (canonical_axis(a, n) for a in axes)
    if first == second:
        raise ValueError("Axes must be different.")
    order = list(range(n))
    order[first], order[second] = second, first
    k %= 4
    if k == 0:
        return read(m, ...)
    if k == 2:
        return flip(m, (first, second))
    return transpose(flip(m, second), order) if k == 1 else flip(transpose(m, order), second)


@implements(np.roll)
def roll(a: Any, shift: Any, axis: Any = None) -> Value:
    a = lift(a)
    if axis is None:
        return reshape(roll(ravel(a), np.sum(shift), 0), shape_of(a))
    axes = [canonical_axis(i, ndim_of(a)) for i in (axis if np.ndim(axis) else [axis])]
    shifts = [int(s) for s in (shift if np.ndim(shift) else [shift])]
    pairs = list(zip(*np.broadcast_arrays(shifts, axes), strict=True))
    return neighbours.roll(a, shifts=tuple(int(s) for s, _ in pairs), axes=tuple(int(i) for _, i in pairs))


# -- repeating --------------------------------------------------------------------------------------------------


@implements(np.tile)
def tile(A: Any, reps: Any) -> Value:
    a = lift(A)
    times = integers(reps)
    n = max(ndim_of(a), len(times))
    times = (1,) * (n - len(times)) + times
    own = (1,) * (n - ndim_of(a)) + shape_of(a)
    apart = shapes.reshape(a, shape=tuple(d for length in own for d in (1, length)))
    full = shapes.broadcast_to(apart, shape=tuple(d for pair in zip(times, own, strict=True) for d in pair))
    return held(shapes.reshape(full, shape=tuple(map(operator.mul, times, own))))


@implements(np.repeat)
def repeat(a: Any, repeats: Any, axis: int | None = None) -> Value:
    a, axis = with_axis(lift(a), axis)
    own = shape_of(a)
    times = np.asarray(primal(repeats))
    if times.size != 1 or (times.ndim and times.dtype.kind not in "iub"):  # which raises
        return held(indexing.gather(a, np.repeat(np.arange(own[axis]), times), axis=axis))
    k = int(times.reshape(()))
    apart = shapes.expand_dims(a, (axis + 1,))
    full = shapes.broadcast_to(apart, shape=(*own[: axis + 1], k, *own[axis + 1 :]))
    return held(shapes.reshape(full, shape=(*own[:axis], own[axis] * k, *own[axis + 1 :])))


@implements(np.resize)
def resize(a: Any, new_shape: Any) -> Value:
    new = integers(new_shape)
    flat = ravel(a)
    have, want = shape_of(flat)[0], math.prod(new)
    if have == 0 or want == 0:
        return fresh(np.zeros(new, dtype_of(flat)))
    if want > have:
        flat = tile(flat, -(-want // have))
    return shapes.reshape(indexing.read(flat, slice(0, want)), shape=new)


@implements(np.meshgrid)
def meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> tuple[Value, ...]:
    if indexing not in ("xy", "ij"):
        raise ValueError("Valid values for `indexing` are 'xy' and 'ij'.")
    n = len(xi)
    flat = [reshape(x, -1) for x in xi]
    places = list(range(n))
    if indexing == "xy" and n > 1:
        places[:2] = [1, 0]
    open_ = [reshape(x, (1,) * i + shape_of(x) + (1,) * (n - 1 - i)) for x, i in zip(flat, places, strict=True)]
    if not sparse:
        full = np.broadcast_shapes(*map(shape_of, open_)) if n else ()
        open_ = [x if shape_of(x) == full else broadcast_to(x, full) for x in open_]
    return tuple(copied(x, "C") for x in open_) if copy else tuple(open_)


# -- diagonals and triangles ------------------------------------------------------------------------------------


@implements(np.tril)
def tril(m: Any, k: int = 0) -> Value:
    m = lift(m)
    return shapes.where(_lower(m, k), m, np.zeros((), dtype_of(m)))


@implements(np.triu)
def triu(m: Any, k: int = 0) -> Value:
    m = lift(m)
    return shapes.where(_lower(m, k - 1), np.zeros((), dtype_of(m)), m)


def _lower(m: Value, k: int) -> Any:
    """True on and below the k-th diagonal."""
    rows, columns = (*shape_of(m)[-2:-1], *shape_of(m)[-1:] * 2)[:2]
    return np.tri(rows, columns, operator.index(k) if is_whole(k) else k, bool)


@implements(np.diag)
def diag(v: Any, k: int = 0) -> Value:
    v = lift(v)
    if ndim_of(v) == 2:
        return diagonal(v, k)
    if ndim_of(v) != 1:
        raise ValueError("Input must be 1- or 2-d.")
    k = operator.index(k)
    n = shape_of(v)[0] + abs(k)
    # The diagonal of a flattened n×n matrix is a slice with step n + 1.
    start = k if k >= 0 else -k * n
    spec = (slice(start, start + shape_of(v)[0] * (n + 1), n + 1),)
    if shape_of(v)[0] == 0:
        return fresh(np.zeros((n, n), dtype_of(v)))
    return shapes.reshape(indexing.place(v, spec=spec, shape=(n * n,)), shape=(n, n))


@implements(np.diagflat)
def diagflat(v: Any, k: int = 0) -> Value:
    return diag(ravel(v), k)


@implements(np.diagonal)
def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Value:
    a = lift(a)
    i, j = _two_axes(a, axis1, axis2)

    def look(base: Value) -> Value:
        y = _diagonal(base, offset, i, j)
        return y if ndim_of(y) < 2 else held_as(y, base, ask)  # gathered, not read as a view

    def ask(memory: Any) -> Any:
        return memory.diagonal(offset, i, j)

    return view(a, Seen(look, ask))


def _two_axes(a: Value, axis1: int, axis2: int) -> tuple[int, int]:
    """The axes of the matrices whose diagonals are meant."""
    if ndim_of(a) < 2:
        raise ValueError("diag requires an array of at least two dimensions")
    i, j = canonical_axis(axis1, ndim_of(a)), canonical_axis(axis2, ndim_of(a))
    if i == j:
        raise ValueError("axis1 and axis2 cannot be the same")
    return i, j


def _diagonal(a: Value, offset: int, i: int, j: int) -> Value:
    n, offset = ndim_of(a), operator.index(offset)
    if (i, j) != (n - 2, n - 1):
        a = shapes.transpose(a, axes=(*(k for k in range(n) if k not in (i, j)), i, j))
    rows, columns = shape_of(a)[-2:]
    length = max(0, min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns))
    if ndim_of(a) == 2 and length:
        start = offset if offset >= 0 else -offset * columns
        flat = shapes.reshape(a, shape=(rows * columns,))
        return indexing.getitem(flat, spec=(slice(start, start + (length - 1) * (columns + 1) + 1, columns + 1),))
    steps = np.arange(length)
    return indexing.read(a, (..., steps + max(-offset, 0), steps + max(offset, 0)))


@implements(np.trace)
def trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Any = None) -> Value:
    a = lift(a)
    i, j = _two_axes(a, axis1, axis2)
    return np.sum(_diagonal(a, offset, i, j), axis=-1, dtype=dtype, out=out)


# -- cutting ----------------------------------------------------------------------------------------------------


def _cut(a: Value, bounds: Sequence[int], axis: int) -> list[Value]:
    """The slices between bounds, which may be negative or lie outside, as in NumPy."""
    return [read(a, along(axis, slice(lo, hi))) for lo, hi in itertools.pairwise(bounds)]


def _place(i: Any) -> int:
    """Where to cut: an integer, or Python's True or False, which slices take."""
    if isinstance(i, np.bool_):
        raise TypeError("slice indices must be integers or None or have an __index__ method")
    return operator.index(i)


@implements(np.array_split)
def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Value]:
    a = lift(ary)
    axis = canonical_axis(axis, ndim_of(a))
    n = shape_of(a)[axis]
    if isinstance(indices_or_sections, (tuple, list, range, np.ndarray)) and np.ndim(indices_or_sections) > 0:
        return _cut(a, [0, *map(_place, indices_or_sections), n], axis)
    sections = int(indices_or_sections)
    if sections <= 0:
        raise ValueError("number sections must be larger than 0.")
    each, extras = divmod(n, sections)
    return _cut(a, [0, *np.cumsum([each + 1] * extras + [each] * (sections - extras)).tolist()], axis)


@implements(np.split)
def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Value]:
    a = lift(ary)
    n = shape_of(a)[canonical_axis(axis, ndim_of(a))]
    if isinstance(indices_or_sections, (int, np.integer)) and n % int(indices_or_sections):
        raise ValueError("array split does not result in an equal division")
    return array_split(a, indices_or_sections, axis)


@implements(np.hsplit)
def hsplit(ary: Any, indices_or_sections: Any) -> list[Value]:
    n = ndim_of(lift(ary))
    if n == 0:
        raise ValueError("hsplit only works on arrays of 1 or more dimensions")
    return split(ary, indices_or_sections, 1 if n > 1 else 0)


@implements(np.vsplit)
def vsplit(ary: Any, indices_or_sections: Any) -> list[Value]:
    if ndim_of(lift(ary)) < 2:
        raise ValueError("vsplit only works on arrays of 2 or more dimensions")
    return split(ary, indices_or_sections, 0)


@implements(np.dsplit)
def dsplit(ary: Any, indices_or_sections: Any) -> list[Value]:
    if ndim_of(lift(ary)) < 3:
        raise ValueError("dsplit only works on arrays of 3 or more dimensions")
    return split(ary, indices_or_sections, 2)


@implements(np.unstack)
def unstack(x: Any, /, *, axis: int = 0) -> tuple[Value, ...]:
    x = lift(x)
    if ndim_of(x) == 0:
        raise ValueError("Input array must be at least 1-d.")
    axis = canonical_axis(axis, ndim_of(x))
    return tuple(read(x, along(axis, i)) for i in range(shape_of(x)[axis]))


@implements(np.delete)
def delete(arr: Any, obj: Any, axis: int | None = None) -> Value:
    a = lift(arr)
    if axis is None:
        a, axis = ravel(a), 0
    axis = canonical_axis(axis, ndim_of(a))
    n = shape_of(a)[axis]
    if isinstance(obj, (int, np.integer)) and not isinstance(obj, bool) and -n <= obj < n:
        i = int(obj) % n
        before, after = (indexing.read(a, along(axis, part)) for part in (slice(0, i), slice(i + 1, n)))
        return held(joins.concatenate(before, after, axis=axis), "A", a)
    return indexing.gather(a, np.delete(np.arange(n), primal(obj)), axis=axis)


@implements(np.trim_zeros)
def trim_zeros(filt: Any, trim: str = "fb", axis: Any = None) -> Value:
    """Which elements are zero is a question with one answer, so not inside vmap."""
    if trim.lower() not in ("fb", "bf", "f", "b"):
        raise ValueError(f"unexpected character(s) in `trim`: {trim!r}")
    listed = isinstance(filt, (list, tuple))
    a = lift(filt)
    n = ndim_of(a)
    axes = canonical_axes(axis, n)
    places = np.argwhere(primal(a))
    front, back = "f" in trim.lower(), "b" in trim.lower()
    spec = []
    for i in range(n):
        low, high = 0, shape_of(a)[i]
        if i in axes and not len(places):
            low = high if front else 0
            high = high if front or not back else 0
        elif i in axes:
            low = int(places[:, i].min()) if front else low
            high = int(places[:, i].max()) + 1 if back else high
        spec.append(slice(low, high))
    y = read(a, tuple(spec)) if n else a
    return type(filt)(y) if listed else y


# -- joining ----------------------------------------------------------------------------------------------------


@implements(np.block)
def block(arrays: Any) -> Value:
    depth = _depth(arrays)
    values = _map_nested(arrays, lift)
    n = max(depth, max(map(ndim_of, _flatten_nested(values))))
    raised = _map_nested(values, lambda v: reshape(v, (1,) * (n - ndim_of(v)) + shape_of(v)))
    return _join(raised, n - depth, n)


def _depth(arrays: Any) -> int:
    if isinstance(arrays, tuple):
        raise TypeError("np.block takes nested lists, not tuples")
    if not isinstance(arrays, list):
        return 0
    if not arrays:
        raise ValueError("List cannot be empty")
    depths = {_depth(x) for x in arrays}
    if len(depths) != 1:
        raise ValueError("List depths are mismatched")
    return 1 + depths.pop()


def _map_nested(x: Any, change: Any) -> Any:
    return [_map_nested(part, change) for part in x] if isinstance(x, list) else change(x)


def _flatten_nested(x: Any) -> list[Any]:
    return [leaf for part in x for leaf in _flatten_nested(part)] if isinstance(x, list) else [x]


def _join(x: Any, axis: int, n: int) -> Value:
    """Lists at depth d are joined along axis (n - depth) + d."""
    if not isinstance(x, list):
        return np.copy(x)
    parts = [_join(part, axis + 1, n) if isinstance(part, list) else part for part in x]
    return concatenate(parts, axis)


@implements(np.insert)
def insert(arr: Any, obj: Any, values: Any, axis: int | None = None) -> Value:
    a = lift(arr)
    if axis is None:
        a, axis = ravel(a), 0
    n = ndim_of(a)
    axis = canonical_axis(axis, n)
    length = shape_of(a)[axis]
    v = lift_into(a, values)
    v = reshape(v, (1,) * (n - ndim_of(v)) + shape_of(v)) if ndim_of(v) < n else v
    where = np.arange(length)[obj] if isinstance(obj, slice) else np.asarray(primal(obj))
    if where.dtype.kind == "b":
        if not hasattr(obj, "ndim") or where.ndim != 1:
            raise ValueError("boolean array argument obj to insert must be one dimensional")
        where = np.flatnonzero(where)
    elif where.dtype.kind in "iu":
        where = where.astype(np.intp)
    if where.size == 1 and not -length <= where <= length:
        raise IndexError(f"index {obj} is out of bounds for axis {axis} with size {length}")
    if where.size == 1 and where.ndim == 0:
        v = moveaxis(v, 0, axis)
    count = shape_of(v)[axis] if where.size == 1 else where.size
    where = np.broadcast_to(where.reshape(-1), (count,)) if where.size == 1 else where
    room = list(shape_of(a))
    room[axis] = count
    v = shapes.broadcast_to(v, shape=tuple(room))
    v = astype(as_stored(a, v), dtype_of(a))
    if not where.size and isinstance(obj, (list, tuple)):
        where = where.astype(np.intp)  # of an empty list
    order = np.insert(np.arange(length), where, length + np.arange(count))  # raises for invalid positions
    return held(indexing.gather(joins.concatenate(a, v, axis=axis), order, axis=axis), "A", a)


@implements(np.kron)
def kron(a: Any, b: Any) -> Value:
    a, b = lift(a), lift(b)
    n = max(ndim_of(a), ndim_of(b))
    left, right = ((1,) * (n - ndim_of(x)) + shape_of(x) for x in (a, b))
    wide = shapes.reshape(a, shape=_interleave(left, (1,) * n)) * shapes.reshape(b, shape=_interleave((1,) * n, right))
    return shapes.reshape(wide, shape=tuple(map(operator.mul, left, right)))


def _interleave(first: Shape, second: Shape) -> Shape:
    return tuple(d for pair in zip(first, second, strict=True) for d in pair)


@implements(np.ix_)
def ix_(*args: Any) -> tuple[Value, ...]:
    n = len(args)
    result = []
    for i, x in enumerate(args):
        x = lift(x)
        if ndim_of(x) != 1:
            raise ValueError("Cross index must be 1 dimensional")
        if dtype_of(x).kind == "b":
            x = np.flatnonzero(primal(x))
        result.append(reshape(x, (1,) * i + (shape_of(x)[0],) + (1,) * (n - 1 - i)))
    return tuple(result)
