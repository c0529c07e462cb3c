"""Arrays made inside a differentiated function, ready to have traced values written into them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.bind import Traced, depth, fresh, snapshot
from ..core.errors import ConversionError, UnsupportedError
from ..core.types import dtype_of, shape_of
from .dropin import in_place_of
from .shape import astype
from .table import holds_traced, implements, lift
from .views import as_array

_array, _inside = np.array, depth.get  # found at once: outside any transform `array` costs little more than NumPy's


def trackable(function: Callable[..., Any]) -> Callable[..., Any]:
    """A NumPy function that makes a new array; inside a transform its result can hold traced values."""

    @in_place_of(function)
    def make(*args: Any, **kwargs: Any) -> Any:
        return fresh(function(*args, **kwargs)) if _inside() else function(*args, **kwargs)

    return make


def _like(x: Any, dtype: Any, shape: Any) -> tuple[Any, Any]:
    return (shape_of(x) if shape is None else shape), (dtype_of(x) if dtype is None else dtype)


@implements(np.zeros_like)
def zeros_like(a: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, *, device: Any = None) -> Any:
    return fresh(np.zeros(*_like(lift(a), dtype, shape)))


@implements(np.ones_like)
def ones_like(a: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, *, device: Any = None) -> Any:
    return fresh(np.ones(*_like(lift(a), dtype, shape)))


@implements(np.empty_like)
def empty_like(
    prototype: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, *, device: Any = None
) -> Any:
    return fresh(np.empty(*_like(lift(prototype), dtype, shape)))


@implements(np.full_like)
def full_like(
    a: Any, fill_value: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, *, device: Any = None
) -> Any:
    result = fresh(np.zeros(*_like(lift(a), dtype, shape)))
    result[...] = fill_value
    return result


def array(*args: Any, **options: Any) -> Any:
    """`numpy.array`, also of (nested lists of) traced values."""
    try:
        y = _array(*args, **options)
    except (ConversionError, UnsupportedError):  # a traced value somewhere inside
        return _array_of_traced(*args, **options)
    return fresh(y) if _inside() else y


def _array_of_traced(
    object: Any, dtype: Any = None, *, copy: Any = True, order: str = "K", subok: bool = False, ndmin: int = 0, like: Any = None
) -> Any:
    value = lift(object)
    if dtype is not None:
        value = astype(value, dtype)
    if ndmin > len(shape_of(value)):
        value = np.reshape(value, (1,) * (ndmin - len(shape_of(value))) + shape_of(value))
    return snapshot(as_array(value))


def asarray(
    a: Any, dtype: Any = None, order: Any = None, *, device: Any = None, copy: bool | None = None, like: Any = None
) -> Any:
    """`numpy.asarray`, also of traced values."""
    if isinstance(a, Traced) and (dtype is None or np.dtype(dtype) == dtype_of(a)) and not copy:
        return as_array(a)
    if holds_traced(a):
        return array(a, dtype)
    y = np.asarray(a, dtype=dtype, order=order, copy=copy)
    # Memory of its own may become traced; memory shared with the user's array must stay what it is.
    return fresh(y) if depth.get() and (copy or not isinstance(a, (np.ndarray, np.generic))) else y
