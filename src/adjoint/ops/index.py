"""Reading and writing by any NumPy index, from two pairs of ops.

    basic index      x[1:, None, 3]      getitem(x, spec=…)            transpose: place
    integer arrays   x[:, i, j]          gather(x, i, j, axis=1)       transpose: scatter_add

`gather` indexes neighbouring axes. The integer arrays are arguments, not parameters: under vmap they may differ between examples.
Any NumPy index is a basic one, then at most one transpose, then a gather: see `decompose`. Boolean masks become integer arrays.
"""

from __future__ import annotations

import math
import operator
from typing import Any, NamedTuple

import numpy as np

from ..core.bind import Traced
from ..core.op import case
from ..core.types import Shape, Type, Value, dtype_of, ndim_of, shape_of
from .broadcast import align, broadcast_to, cast, fit, moveaxis, reshape, transpose, where
from .declare import constant, linear

Spec = tuple[Any, ...]

# -- basic indices ----------------------------------------------------------------------------------------------


def _region(x: Any, spec: Spec) -> Any:
    """The elements a spec names, as a view even if it is a single one."""
    return x[(*spec, ...)]


def _place(g: Any, *, spec: Spec, shape: Shape) -> Any:
    out = np.zeros(shape, dtype_of(g))
    _region(out, spec)[...] = g
    return out


def _place_into(total: Any, g: Any, *, spec: Spec) -> None:
    view = _region(total, spec)
    np.add(view, g, out=view)


def _common(x: Any, v: Any) -> np.dtype[Any]:
    """The dtype of an array after a write: unchanged, as in NumPy, unless the value is complex."""
    own = np.asarray(x).dtype
    return np.result_type(own, dtype_of(v)) if dtype_of(v).kind == "c" and own.kind != "c" else own


def _put(x: Any, v: Any, *, spec: Spec) -> Any:
    out = np.array(x, dtype=_common(x, v))
    _region(out, spec)[...] = v
    return out


def _put_batch(flags: tuple[bool, ...], x: Value, v: Value, *, spec: Spec) -> Value:
    size = shape_of(x if flags[0] else v)[0]
    if not flags[0]:
        x = broadcast_to(x, shape=(size, *shape_of(x)))
    if flags[1]:
        region = np.broadcast_to(False, shape_of(x)[1:])[(*spec, ...)].ndim
        v = align(v, region)
    return put(x, v, spec=(slice(None), *spec))


getitem = linear(
    "getitem",
    lambda x, *, spec: x[spec],
    transpose=lambda g, x, *, spec: place(g, spec=spec, shape=x.shape),
    into=_place_into,
    batch=lambda flags, x, *, spec: getitem(x, spec=(slice(None), *spec)),
    cases=[
        case((4,), spec=(2,)),
        case((4, 3), spec=(slice(None, None, -2), None, 1)),
        case((2, 3, 4), spec=(slice(None), slice(2, 0, -1))),
        case((3,), spec=(slice(0, 0),)),
    ],
    doc="Read a basic index: integers, slices, newaxis.",
    cost=1,
    indexed=True,
    terms="moved",
)

place = linear(
    "place",
    _place,
    transpose=lambda g, x, *, spec, shape: getitem(g, spec=spec),
    batch=lambda flags, x, *, spec, shape: place(x, spec=(slice(None), *spec), shape=(shape_of(x)[0], *shape)),
    cases=[case((2, 3), spec=(slice(1, 3),), shape=(4, 3)), case((), spec=(1, 2), shape=(2, 3))],
    doc="Zeros with a value at a basic index.",
    cost=1,
    indexed=True,
    python="placed({0}, {spec}, {shape})",
    terms="moved",
)

put = linear(
    "put",
    _put,
    transpose=(
        lambda g, x, v, *, spec: put(g, np.zeros((), g.dtype), spec=spec),
        lambda g, x, v, *, spec: fit(getitem(g, spec=spec), v),
    ),
    batch=_put_batch,
    cases=[
        case((4, 3), (3,), spec=(slice(1, 3),)),
        case((4,), (), spec=(2,)),
        case((2, 3), (2, 1), spec=(slice(None), slice(0, 2))),
    ],
    doc="A copy with a value written at a basic index.",
    no_axes="array",
    indexed=True,
    python="put({0}, {1}, {spec})",
    terms="moved",
)

# -- integer arrays ---------------------------------------------------------------------------------------------


def _at(arrays: tuple[Any, ...], axis: int) -> tuple[Any, ...]:
    return (slice(None),) * axis + arrays


def _scatter_add(g: Any, *arrays: Any, axis: int, shape: Shape) -> Any:
    out = np.zeros(shape, dtype_of(g))
    np.add.at(out, _at(arrays, axis), g)
    return out


def _put_at(x: Any, v: Any, *arrays: Any, axis: int) -> Any:
    out = np.array(x, dtype=_common(x, v))
    out[_at(arrays, axis)] = v
    return out


def _last_write(*arrays: Any, extent: Shape) -> Any:
    index = tuple(np.broadcast_arrays(*arrays))
    order = np.arange(index[0].size).reshape(index[0].shape)
    winner = np.empty(extent, np.intp)
    winner[index] = order
    return np.equal(winner[index], order)


def _last_write_batch(flags: tuple[bool, ...], *arrays: Value, extent: Shape) -> Value:
    size = next(shape_of(a)[0] for a, flag in zip(arrays, flags, strict=True) if flag)
    lifted = _align_arrays(arrays, flags)
    examples = np.arange(size).reshape((size,) + (1,) * (ndim_of(lifted[0]) - 1))
    return last_write(examples, *lifted, extent=(size, *extent))


# True for the entries whose write survives: where an element is written twice, NumPy keeps the last.
last_write = constant(
    "last_write",
    _last_write,
    batch=_last_write_batch,
    python="def",
    cases=[case(np.array([2, 0, 2]), extent=(3,)), case(np.array([[1], [1]]), np.array([0, 2, 0]), extent=(2, 3))],
)


def _put_at_value(g: Value, x: Type, v: Type, *arrays: Value, axis: int) -> Value:
    stop = axis + len(arrays)
    if math.prod(np.broadcast_shapes(*map(shape_of, arrays))) == 1:  # one place: nothing is written twice
        return fit(gather(g, *arrays, axis=axis), v)
    survives = last_write(*arrays, extent=x.shape[axis:stop])
    survives = reshape(survives, shape=shape_of(survives) + (1,) * (len(x.shape) - stop))
    return fit(where(survives, gather(g, *arrays, axis=axis), np.zeros((), dtype_of(g))), v)


def _align_arrays(arrays: tuple[Value, ...], flags: tuple[bool, ...]) -> list[Value]:
    """Index arrays of one rank, all with a batch axis in front (of length one where they have none)."""
    ndim = max(ndim_of(a) - flag for a, flag in zip(arrays, flags, strict=True))
    return [align(a if flag else reshape(a, shape=(1, *shape_of(a))), ndim) for a, flag in zip(arrays, flags, strict=True)]


def _move_block(x: Value, start: int, length: int, to: int) -> Value:
    """Move `length` neighbouring axes from `start` to `to`."""
    order = list(range(ndim_of(x)))
    block = order[start : start + length]
    del order[start : start + length]
    order[to:to] = block
    return x if order == sorted(order) else transpose(x, axes=tuple(order))


def _lift(flags: tuple[bool, ...], x: Value, arrays: tuple[Value, ...], axis: int) -> tuple[Value, list[Value]]:
    """A batched x with the indexed axes right after the batch, and index arrays with the example numbers first."""
    size = next(shape_of(a)[0] for a, flag in zip((x, *arrays), flags, strict=True) if flag)
    if not flags[0]:
        x = broadcast_to(x, shape=(size, *shape_of(x)))
    lifted = _align_arrays(arrays, flags[1:])
    examples = np.arange(size).reshape((size,) + (1,) * (ndim_of(lifted[0]) - 1))
    return _move_block(x, axis + 1, len(arrays), 1), [examples, *lifted]


def _gather_batch(flags: tuple[bool, ...], x: Value, *arrays: Value, axis: int) -> Value:
    if not any(flags[1:]):
        return gather(x, *arrays, axis=axis + 1)
    if not flags[0]:
        return moveaxis(gather(x, *_align_arrays(arrays, flags[1:]), axis=axis), axis, 0)
    x, lifted = _lift(flags, x, arrays, axis)
    return _move_block(gather(x, *lifted, axis=0), 1, ndim_of(lifted[0]) - 1, axis + 1)


def _scatter_add_batch(flags: tuple[bool, ...], g: Value, *arrays: Value, axis: int, shape: Shape) -> Value:
    size = next(shape_of(a)[0] for a, flag in zip((g, *arrays), flags, strict=True) if flag)
    if not any(flags[1:]):
        return scatter_add(g, *arrays, axis=axis + 1, shape=(size, *shape))
    if not flags[0]:
        g = broadcast_to(g, shape=(size, *shape_of(g)))
    lifted = _align_arrays(arrays, flags[1:])
    examples = np.arange(size).reshape((size,) + (1,) * (ndim_of(lifted[0]) - 1))
    g = _move_block(g, axis + 1, ndim_of(lifted[0]) - 1, 1)
    indexed = shape[axis : axis + len(arrays)]
    full = scatter_add(g, examples, *lifted, axis=0, shape=(size, *indexed, *shape[:axis], *shape[axis + len(arrays) :]))
    return _move_block(full, 1, len(arrays), axis + 1)


def _put_at_batch(flags: tuple[bool, ...], x: Value, v: Value, *arrays: Value, axis: int) -> Value:
    size = next(shape_of(a)[0] for a, flag in zip((x, v, *arrays), flags, strict=True) if flag)
    if not flags[0]:
        x = broadcast_to(x, shape=(size, *shape_of(x)))
    count = len(arrays)
    if not any(flags[2:]):
        region = ndim_of(x) - 1 - count + max(map(ndim_of, arrays))
        return put_at(x, align(v, region) if flags[1] else v, *arrays, axis=axis + 1)
    lifted = _align_arrays(arrays, flags[2:])
    examples = np.arange(size).reshape((size,) + (1,) * (ndim_of(lifted[0]) - 1))
    lead = ndim_of(lifted[0]) - 1
    region = ndim_of(x) - 1 - count + lead
    v = align(v, region) if flags[1] else align(reshape(v, shape=(1, *shape_of(v))), region)
    v = _move_block(v, axis + 1, lead, 1)
    full = put_at(_move_block(x, axis + 1, count, 1), v, examples, *lifted, axis=0)
    return _move_block(full, 1, count, axis + 1)


_I = np.array([2, 0, 2])
_J = np.array([[1], [0]])

gather = linear(
    "gather",
    lambda x, *arrays, axis: x[_at(arrays, axis)],
    transpose=(lambda g, x, *arrays, axis: scatter_add(g, *arrays, axis=axis, shape=x.shape), None),
    into=lambda total, g, *arrays, axis: np.add.at(total, _at(arrays, axis), g),
    batch=_gather_batch,
    cases=[
        case((3,), _I, axis=0),
        case((2, 3), _I, axis=1),
        case((2, 3, 4), _J, _I, axis=0),
        case((2, 3), np.array([], int), axis=0),
    ],
    doc="Read integer arrays on neighbouring axes.",
    may_fail=True,
    terms="moved",
)

scatter_add = linear(
    "scatter_add",
    _scatter_add,
    transpose=(lambda g, x, *arrays, axis, shape: gather(g, *arrays, axis=axis), None),
    batch=_scatter_add_batch,
    cases=[
        case((3,), _I, axis=0, shape=(3,)),
        case((2, 3), _I, axis=1, shape=(2, 4)),
        case((2, 3, 4), _J, _I, axis=0, shape=(2, 3, 4)),
    ],
    doc="Zeros with a value added at integer arrays; repeated indices accumulate.",
    terms="added",
)

put_at = linear(
    "put_at",
    _put_at,
    transpose=(
        lambda g, x, v, *arrays, axis: put_at(g, np.zeros((), g.dtype), *arrays, axis=axis),
        _put_at_value,
        None,
    ),
    batch=_put_at_batch,
    cases=[case((3,), (3,), _I, axis=0), case((2, 3), (2, 1), np.array([0, 2]), axis=1), case((2, 3), (), _J, _I, axis=0)],
    doc="A copy with a value written at integer arrays.",
    terms="moved",
)

# -- any index --------------------------------------------------------------------------------------------------


class Index(NamedTuple):
    """A NumPy index in parts: basic spec, then a permutation of axes, then a gather at `axis`."""

    spec: Spec | None
    axes: Shape | None
    arrays: tuple[Value, ...]
    axis: int


INTEGERS = frozenset({int})


def decompose(index: Any, shape: Shape) -> Index:
    """Split any NumPy index into the ops above."""
    if type(index) is tuple and len(index) == len(shape) and INTEGERS.issuperset(map(type, index)):  # one element
        return Index(index, None, (), 0)
    entries: list[Any] = []
    masks: list[tuple[int, Shape]] = []  # the first entry of each, and its shape
    given = [_known(entry) for entry in (index if isinstance(index, tuple) else (index,))]
    for known in given:
        if isinstance(known, np.ndarray) and known.dtype.kind == "b":
            masks.append((len(entries), known.shape))
        entries += _expand_entry(known)
    consumed = sum(entry is not Ellipsis and _takes_axis(entry) for entry in entries)
    if consumed > len(shape):
        raise IndexError(f"too many indices for array: array is {len(shape)}-dimensional, but {consumed} were indexed")
    ellipses = [i for i, entry in enumerate(entries) if entry is Ellipsis]
    if len(ellipses) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    fill = [slice(None)] * (len(shape) - consumed)
    where_to = ellipses[0] if ellipses else len(entries)
    entries[where_to : where_to + 1] = fill
    for place, extent in masks:
        _check_mask(extent, entries[: place + (len(fill) - 1 if place > where_to else 0)], shape)
    if not any(_is_array(entry) for entry in entries):
        while entries and entries[-1] == slice(None):
            entries.pop()
        return Index(tuple(entries), None, (), 0)
    return _with_arrays(entries, where_to if ellipses and not fill else 0)


def _with_arrays(entries: list[Any], gap: int) -> Index:
    """The same with integer arrays. An ellipsis of no axes, before entry `gap`, still separates them."""
    # Next to an integer array, an integer is an array too. Slices and newaxis come first, in one basic read.
    spec = [slice(None) if _is_array(entry) or isinstance(entry, int) else entry for entry in entries]
    spec = [None if isinstance(entry, _Truth) else part for entry, part in zip(entries, spec, strict=True)]
    places = [i for i, entry in enumerate(entries) if _is_array(entry) or isinstance(entry, int)]
    arrays = tuple(_array_of(entries[i]) for i in places)
    basic = None if all(entry == slice(None) for entry in spec) else tuple(spec)
    if places[-1] - places[0] == len(places) - 1 and not places[0] < gap <= places[-1]:
        return Index(basic, None, arrays, places[0])
    rest = [i for i in range(len(spec)) if i not in places]
    return Index(basic, (*places, *rest), arrays, 0)


class _Truth(NamedTuple):
    """A single True or False: a mask of no axes, which chooses one element of a new axis, or none."""

    chosen: bool


def _array_of(entry: Any) -> Any:
    if isinstance(entry, _Truth):
        return np.zeros(int(entry.chosen), np.intp)
    return np.intp(entry) if isinstance(entry, int) else entry


def _is_array(entry: Any) -> bool:
    return isinstance(entry, (np.ndarray, Traced, _Truth))


def _takes_axis(entry: Any) -> bool:
    return entry is not None and not isinstance(entry, _Truth)


def _known(entry: Any) -> Any:
    """An entry with lists as arrays and masks as plain arrays: the number of elements they choose must be known."""
    if isinstance(entry, Traced) and dtype_of(entry).kind == "b":
        while isinstance(entry, Traced):
            entry = entry.by.concrete(entry, "the choice of elements by")
        return np.asarray(entry)
    if isinstance(entry, (list, tuple, range)):
        array = np.asarray(entry)
        return array if array.size else array.astype(np.intp)
    return entry


def _check_mask(extent: Shape, before: list[Any], shape: Shape) -> None:
    """A mask has the lengths of the axes that it chooses from, which follow those of the entries before it.

    NumPy does not compare an axis of length 0, by which nothing is chosen.
    """
    first = sum(map(_takes_axis, before))
    for axis, (length, own) in enumerate(zip(shape[first:], extent, strict=False), first):
        if own and length != own:
            raise IndexError(
                f"boolean index did not match indexed array along axis {axis}; size of axis is {length} but size of "
                f"corresponding boolean axis is {own}"
            )


def _expand_entry(entry: Any) -> list[Any]:
    """One entry of an index as NumPy understands it: masks become integer arrays."""
    if entry is None or entry is Ellipsis or type(entry) is int or isinstance(entry, slice):
        return [entry]
    if isinstance(entry, Traced):
        if dtype_of(entry).kind not in "iu":
            raise IndexError("arrays used as indices must be of integer (or boolean) type")
        return [entry]
    if isinstance(entry, (bool, np.bool_)):
        return [_Truth(bool(entry))]
    if not isinstance(entry, np.ndarray):
        try:
            return [operator.index(entry)]
        except TypeError:
            raise IndexError(
                "only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and integer or boolean arrays are valid "
                "indices"
            ) from None
    if entry.dtype.kind == "b":
        return _expand_entry(bool(entry)) if entry.ndim == 0 else list(entry.nonzero())
    if entry.dtype.kind not in "iu":
        raise IndexError("arrays used as indices must be of integer (or boolean) type")
    return [int(entry)] if entry.ndim == 0 else [entry]


def read(x: Value, index: Any) -> Value:
    """x[index]."""
    if type(index) is int:
        return getitem(x, spec=(index,))
    spec, axes, arrays, axis = decompose(index, shape_of(x))
    if spec is not None and (spec or not arrays):
        x = getitem(x, spec=spec)
    if axes is not None:
        x = transpose(x, axes=axes)
    return gather(x, *arrays, axis=axis) if arrays else x


def scatter(v: Value, index: Any, shape: Shape) -> Value:
    """Zeros of a shape with v added at an index: the transpose of `read`."""
    spec, axes, arrays, axis = decompose(index, shape)
    inner = shape if spec is None else np.broadcast_to(False, shape)[spec].shape
    if arrays:
        moved = inner if axes is None else tuple(inner[a] for a in axes)
        v = scatter_add(v, *arrays, axis=axis, shape=moved)
    if axes is not None:
        v = transpose(v, axes=tuple(sorted(range(len(axes)), key=axes.__getitem__)))
    return v if spec is None else place(v, spec=spec, shape=shape)


def _written(v: Value, region: int) -> Value:
    """A value that is written to a region of that many axes. NumPy ignores leading axes of length one that are too many."""
    own = shape_of(v)
    extra = len(own) - region
    return reshape(v, shape=own[extra:]) if extra > 0 and set(own[:extra]) == {1} else v


def _chosen(x: Value, mask: Any, v: Value) -> Value | None:
    """The same for a traced mask and a value that has no axis for the elements chosen: their number is not asked for."""
    own = shape_of(x)
    if not isinstance(mask, Traced) or dtype_of(mask).kind != "b" or dtype_of(x).kind not in "fc":
        return None
    k = ndim_of(mask)
    v = _written(v, len(own) - k)
    rest = shape_of(v)
    fits = len(rest) <= len(own) - k and all(a in (1, b) for a, b in zip(rest[::-1], own[::-1], strict=False))
    if not k or shape_of(mask) != own[:k] or not fits:
        return None
    y = where(reshape(mask, shape=own[:k] + (1,) * (len(own) - k)) if k < len(own) else mask, v, x)
    return y if dtype_of(y) == dtype_of(x) else cast(y, dtype=dtype_of(x))


def write(x: Value, index: Any, v: Value) -> Value:
    """A copy of x with x[index] = v."""
    chosen = _chosen(x, index, v)
    if chosen is not None:
        return chosen
    spec, axes, arrays, axis = decompose(index, shape_of(x))
    if not arrays:
        assert spec is not None
        if shape_of(v)[:1] == (1,):
            v = _written(v, ndim_of(x) + sum((entry is None) - (type(entry) is int) for entry in spec))
        return put(x, v, spec=spec)
    region = x if spec is None else getitem(x, spec=spec)
    if axes is not None:
        region = transpose(region, axes=axes)
    v = _written(v, ndim_of(region) - len(arrays) + max(map(ndim_of, arrays)))
    region = put_at(region, v, *arrays, axis=axis)
    if axes is not None:
        region = transpose(region, axes=tuple(sorted(range(len(axes)), key=axes.__getitem__)))
    return region if spec is None else put(x, region, spec=spec)
