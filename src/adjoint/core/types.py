"""The type of a value: its shape and its dtype."""

from __future__ import annotations

import operator
import sys
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

Shape = tuple[int, ...]
Value = Any  # a NumPy array or scalar, a Python number, or a traced value

#: Python's or NumPy's class for each class that replaces it in adopted code, by its id: NumPy takes long to find its dtype.
REPLACED: dict[int, type] = {}

PYTHON_NUMBERS = frozenset({bool, int, float, complex})
_PYTHON = {bool: np.dtype(bool), int: np.dtype(int), float: np.dtype(float), complex: np.dtype(complex)}


class Type(NamedTuple):
    """Shape and dtype.

    >>> Type.of(np.ones((2, 3), np.float32))
    float32[2,3]
    """

    shape: Shape
    dtype: np.dtype[Any]

    @staticmethod
    def of(value: Value) -> Type:
        return Type(shape_of(value), dtype_of(value))

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        n = 1
        for d in self.shape:
            n *= d
        return n

    def __repr__(self) -> str:
        return f"{self.dtype.name}[{','.join(map(str, self.shape))}]"


def shape_of(value: Value) -> Shape:
    try:
        return value.shape  # type: ignore[no-any-return]
    except AttributeError:
        return ()


def is_masked(x: Any) -> bool:
    """Whether an array has a mask. If there is one, numpy.ma is loaded; otherwise that would take long."""
    masked = sys.modules.get("numpy.ma")
    return masked is not None and isinstance(x, masked.MaskedArray)


def ndim_of(value: Value) -> int:
    return len(shape_of(value))


def dtype_of(value: Value) -> np.dtype[Any]:
    try:
        return value.dtype  # type: ignore[no-any-return]
    except AttributeError:
        return _PYTHON[type(value)]


def is_inexact(dtype: np.dtype[Any]) -> bool:
    """Float or complex: the dtypes that carry a derivative."""
    return dtype.kind in "fc"


def canonical_axes(axis: int | Iterable[int] | None, ndim: int) -> tuple[int, ...]:
    """Non-negative axes, of an integer or of any collection; None means all of them. Raises NumPy's own AxisError.

    >>> canonical_axes((-1, 0), 3), canonical_axes(range(2), 3)
    ((2, 0), (0, 1))
    """
    if axis is None:
        return tuple(range(ndim))
    if not isinstance(axis, (tuple, list)):
        try:
            axis = (operator.index(axis),)  # type: ignore[arg-type]
        except TypeError:
            axis = tuple(axis) if isinstance(axis, Iterable) else (axis,)
    result = tuple(canonical_axis(a, ndim) for a in axis)
    if len(set(result)) != len(result):
        raise ValueError("repeated axis")
    return result


def reduced_axes(axis: int | tuple[int, ...] | None, ndim: int) -> tuple[int, ...]:
    """The axes of a reduction: an integer or a tuple; also 0 or -1 of an array that has none, which NumPy's ufuncs take."""
    if axis is None or isinstance(axis, tuple):
        return canonical_axes(axis, ndim)
    return () if not ndim and axis in (0, -1) else canonical_axes((axis,), ndim)


def canonical_axis(axis: int, ndim: int) -> int:
    """One non-negative axis."""
    try:
        index = operator.index(axis)
    except TypeError:
        raise TypeError(f"an axis is an integer, not {type(axis).__name__}") from None
    if not -ndim <= index < ndim:
        raise np.exceptions.AxisError(index, ndim)
    return index % ndim


def integers(given: Any) -> tuple[int, ...]:
    """A shape, or numbers of repeats: one integer, or several in a sequence or an array.

    >>> integers(3), integers(np.array([2, 3])), integers(range(2))
    ((3,), (2, 3), (0, 1))
    """
    has_several = isinstance(given, (tuple, list, range)) or bool(getattr(given, "shape", ()))
    return tuple(map(operator.index, given)) if has_several else (operator.index(given),)


def is_weak(x: Any) -> bool:
    """A Python number, whose dtype arithmetic decides."""
    return type(x) in (int, float, complex)
