"""NumPy functions that lack arguments of the Array API standard, with those arguments.

https://data-apis.org/array-api/2024.12
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.types import dtype_of
from .dropin import in_place_of
from .table import lift

__array_api_version__ = "2024.12"
VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12")


@in_place_of(np.sort)
def sort(
    a: Any, axis: int | None = -1, kind: Any = None, order: Any = None, *, stable: bool | None = None, descending: bool = False
) -> Any:
    y = np.sort(_listed(a), axis, kind, order, stable=stable)
    return np.flip(y, 0 if axis is None else axis) if descending else y


@in_place_of(np.argsort)
def argsort(
    a: Any, axis: int | None = -1, kind: Any = None, order: Any = None, *, stable: bool | None = None, descending: bool = False
) -> Any:
    if kind is None and order is None and stable is None:
        stable = True  # the standard's default
    a = _listed(a)
    if not descending:
        return np.argsort(a, axis, kind, order, stable=stable)
    if axis is None:
        a, axis = np.ravel(a), 0
    # Sorted backwards from the back, so that equal elements keep their order.
    places = np.argsort(np.flip(a, axis), axis, kind, order, stable=stable)
    return np.shape(a)[axis] - 1 - np.flip(places, axis)


@in_place_of(np.expand_dims)
def expand_dims(a: Any, axis: Any = 0) -> Any:
    return np.expand_dims(_listed(a), axis)


@in_place_of(np.diff)
def diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Any:
    ends = {"prepend": prepend, "append": append}
    return np.diff(_listed(a), n, axis, **{name: _listed(end) for name, end in ends.items() if end is not None})


def _listed(a: Any) -> Any:
    """A list, possibly of traced values, as an array."""
    return lift(a) if isinstance(a, (list, tuple)) else a


def finfo(dtype: Any) -> Any:
    """`numpy.finfo`, also of an array."""
    return np.finfo(_type_of(dtype))


def iinfo(type: Any) -> Any:
    """`numpy.iinfo`, also of an array."""
    return np.iinfo(_type_of(type))


def _type_of(x: Any) -> Any:
    """The dtype of an array or a number; a dtype as it is."""
    is_array = hasattr(x, "shape") and not isinstance(x, (np.dtype, type))
    return dtype_of(x) if is_array or isinstance(x, (float, complex, int)) else x
