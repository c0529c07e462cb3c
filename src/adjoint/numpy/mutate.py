"""Functions that write into their first argument: put, place, copyto and their relatives."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..core.bind import Traced, is_array
from ..core.errors import ReadOnlyError
from ..core.types import PYTHON_NUMBERS, canonical_axis, dtype_of, ndim_of, shape_of
from ..ops import broadcast as shapes
from .arrange import resize
from .concrete import primal
from .selection import partition, sort, whole, within
from .shape import ravel
from .table import implements, lift
from .ufunc import check_cast
from .views import is_read_only, lift_into, read_only, view, write
from .ways import Elements


def _target(a: Any, name: str) -> Traced:
    if not isinstance(a, Traced):
        raise ReadOnlyError(
            f"{name} cannot write a traced value into a plain NumPy array; make the array with adjoint.numpy inside the function"
        )
    if is_read_only(a):  # even if nothing is to be written
        raise read_only()
    return a


def _write_flat(a: Traced, index: Any, values: Any, count: int) -> None:
    """Write to elements by their indices in the flattened array; values repeat as needed."""
    v = lift_into(a, values)
    if count:
        write(_flat(a), index, resize(v, (count,)) if ndim_of(v) else v)


def _flat(a: Traced) -> Any:
    """The elements in row-major order, as a view."""
    return a if ndim_of(a) == 1 else view(a, Elements(shape_of(a)))


@implements(np.copyto)
def copyto(dst: Any, src: Any, casting: str = "same_kind", where: Any = True) -> None:
    dst = _target(dst, "np.copyto")
    v = lift(src)
    if type(v) in PYTHON_NUMBERS:
        np.copyto(np.empty(0, dtype_of(dst)), v, casting)  # type: ignore[arg-type]  # raises if it does not fit
    else:
        check_cast(dtype_of(v), dtype_of(dst), casting)
    if where is True:
        write(dst, ..., v)
        return
    now = Traced(dst.by, dst.underlying, dst.aux)
    write(dst, ..., shapes.where(lift(where), v, now))


@implements(np.put)
def put(a: Any, ind: Any, v: Any, mode: str = "raise") -> None:
    a = _target(a, "np.put")
    index = ravel(whole(ind))
    if not math.prod(shape_of(lift(v))):
        return
    _write_flat(a, within(index, int(np.prod(shape_of(a))), mode), v, shape_of(index)[0])


@implements(np.put_along_axis)
def put_along_axis(arr: Any, indices: Any, values: Any, axis: int | None) -> None:
    arr = _target(arr, "np.put_along_axis")
    index = lift(indices)
    if dtype_of(index).kind not in "iu":
        raise IndexError("`indices` must be an integer array")
    index = whole(index)
    if axis is None:
        write(_flat(arr), index, values)
        return
    n = ndim_of(arr)
    axis = canonical_axis(axis, n)
    if ndim_of(index) != n:
        raise ValueError("`indices` and `arr` must have the same number of dimensions")
    grid = [np.arange(d).reshape((-1,) + (1,) * (n - 1 - i)) for i, d in enumerate(shape_of(arr))]
    write(arr, tuple(index if i == axis else g for i, g in enumerate(grid)), values)


@implements(np.putmask)
def putmask(a: Any, mask: Any, values: Any) -> None:
    a = _target(a, "np.putmask")
    now = Traced(a.by, a.underlying, a.aux)
    v = lift_into(a, values)
    write(a, ..., shapes.where(lift(mask), resize(v, shape_of(a)) if ndim_of(v) else v, now))


@implements(np.place)
def place(arr: Any, mask: Any, vals: Any) -> None:
    arr = _target(arr, "np.place")
    where = np.flatnonzero(primal(lift(mask)))
    if where.size and shape_of(ravel(vals)) == (0,):
        raise ValueError("Cannot insert from an empty array!")
    _write_flat(arr, where, vals, where.size)


@implements(np.fill_diagonal)
def fill_diagonal(a: Any, val: Any, wrap: bool = False) -> None:
    a = _target(a, "np.fill_diagonal")
    shape = shape_of(a)
    if len(shape) < 2:
        raise ValueError("array must be at least 2-d")
    size = int(np.prod(shape))
    if len(shape) == 2:
        step = shape[1] + 1
        end = size if wrap else min(size, shape[1] * shape[1])
    else:
        if len(set(shape)) != 1:
            raise ValueError("All dimensions of input must be of equal length")
        step, end = 1 + int(np.cumprod(shape[:-1]).sum()), size
    numbers = range(0, end, step)
    _write_flat(a, slice(0, end, step), val, len(numbers))


# -- methods of arrays that work in place -----------------------------------------------------------------------


def sort_in_place(self: Traced, axis: int = -1, kind: Any = None, order: Any = None, *, stable: bool | None = None) -> None:
    _target(self, "sort")
    write(self, ..., sort(Traced(self.by, self.underlying, self.aux), axis, kind, order, stable=stable))


def partition_in_place(self: Traced, kth: Any, axis: int = -1, kind: str = "introselect", order: Any = None) -> None:
    _target(self, "partition")
    write(self, ..., partition(Traced(self.by, self.underlying, self.aux), kth, axis, kind, order))


class Flat:
    """`x.flat`: the elements in order, to read, to write, to loop over."""

    def __init__(self, base: Traced) -> None:
        self.base = base

    def __len__(self) -> int:
        return int(np.prod(shape_of(self.base)))

    def __iter__(self) -> Iterator[Any]:
        return iter(np.copy(_flat(self.base)))

    def __getitem__(self, index: Any) -> Any:
        found = _flat(self.base)[index]
        return np.copy(found) if is_array(found) else found

    def __setitem__(self, index: Any, values: Any) -> None:
        _write_flat(_target(self.base, "x.flat"), index, values, np.size(np.empty(len(self), bool)[index]))
