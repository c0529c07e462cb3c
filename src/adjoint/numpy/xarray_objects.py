"""xarray's DataArray of a traced array: xarray accepts any array with NumPy's protocols, so it holds the traced array itself."""

from __future__ import annotations

import functools
import operator
import types
from collections.abc import Callable
from typing import Any

import xarray as xr

from ..core.bind import Traced
from ..core.tree import OpenContainer, Static, register_opener

_OPERATORS = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow")


class TracedDataArray(xr.DataArray):
    """A DataArray whose numbers are traced: `.values` and `.to_numpy()` are the traced array."""

    __slots__ = ()

    @property
    def values(self) -> Any:
        data = self.variable._data
        return data if isinstance(data, Traced) else super().values

    def to_numpy(self) -> Any:
        return self.values


def _kept(y: Any) -> Any:
    """A result of xarray's with traced numbers: `apply_ufunc` makes plain DataArrays, whose `.values` cannot be traced."""
    if type(y) is xr.DataArray and isinstance(y.variable._data, Traced):
        return TracedDataArray(y.variable, coords=y._coords, name=y.name, indexes=y._indexes, fastpath=True)
    return y


def _keeping(method: Callable[..., Any]) -> Any:
    return functools.wraps(method)(lambda *args, **options: _kept(method(*args, **options)))


def _item(self: Any, *args: Any) -> Any:
    data = self.variable._data
    return data.reshape(-1)[args[0] if args else 0] if isinstance(data, Traced) else xr.DataArray.item(self, *args)


def _reflected(function: Callable[[Any, Any], Any]) -> Any:
    """A reflected operator of the subclass, which Python calls before the operator of a plain DataArray."""
    return lambda self, other: self._binary_op(other, function, reflexive=True)


for _name in dir(xr.DataArray):
    _method = getattr(xr.DataArray, _name)
    is_public = isinstance(_method, types.FunctionType) and (not _name.startswith("_") or _name == "__array_ufunc__")
    if is_public and getattr(TracedDataArray, _name) is _method:
        setattr(TracedDataArray, _name, _keeping(_method))
TracedDataArray.item = _item  # here: xarray adds this method to a subclass once its body has run
TracedDataArray.__module__ = "xarray"  # whose object it is to the rest of this package
for _name in _OPERATORS:
    setattr(TracedDataArray, f"__r{_name}__", _reflected(getattr(operator, _name)))


class _Labels:
    """The dimensions, coordinates, name and attributes of a DataArray."""

    def __init__(self, array: Any) -> None:
        self.dims, self.name, self.attrs, self.shape = array.dims, array.name, array.attrs, array.shape
        self.coords = {name: coordinate.variable for name, coordinate in array.coords.items()}

    def __hash__(self) -> int:
        return hash((self.dims, str(self.name)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Labels) or (self.dims, self.name, self.shape) != (other.dims, other.name, other.shape):
            return False
        mine, theirs = self.coords, other.coords
        return mine.keys() == theirs.keys() and all(mine[name].identical(theirs[name]) for name in mine)

    def around(self, part: Any) -> Any:
        """A DataArray of these labels; an array of another shape, as a Jacobian is, stays an array."""
        if getattr(part, "shape", None) != self.shape:
            return part
        cls = TracedDataArray if isinstance(part, Traced) else xr.DataArray
        return cls(part, coords=self.coords, dims=self.dims, name=self.name, attrs=self.attrs)


def _open(array: Any) -> OpenContainer:
    labels = _Labels(array)
    data = array.variable._data
    value = data if isinstance(data, Traced) else array.data
    return OpenContainer(xr.DataArray, [""], [value], lambda parts: labels.around(parts[0]), None, Static(labels))


def operate(function: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
    """xarray's own operators hold traced operands."""
    if isinstance(a, Traced):
        return NotImplemented
    return a._binary_op(b, function)


def register() -> None:
    for cls in (xr.DataArray, TracedDataArray):
        register_opener(cls, _open)
