"""An op's NumPy implementation as a function of CuPy arrays: the same code, with CuPy in place of `np`.

    lambda x, *, axis: np.add.reduce(x, axis=axis)      with np.add.reduce as CuPy's sum

An op's implementation is a NumPy function, or a Python function that calls NumPy functions by name. Names that CuPy lacks raise
when they are looked up.
"""

from __future__ import annotations

import functools
import importlib
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.code import names_in

_REDUCTIONS = {"add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min", "logical_and": "all", "logical_or": "any"}
_ACCUMULATIONS = {"add": "cumsum", "multiply": "cumprod"}
_OF_THE_HOST = frozenset({"errstate", "finfo", "iinfo", "dtype", "issubdtype", "ndindex", "newaxis", "pi", "e", "inf", "nan"})
_DISPATCHED = type(np.sum)


class Missing(AttributeError):  # noqa: N818  # an answer, which the caller makes an error of
    """A function of NumPy that CuPy does not have."""


class Namespace:
    """CuPy, or a part of it, by NumPy's names."""

    def __init__(self, xp: Any, module: Any = np) -> None:
        self._xp, self._module = xp, module

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._module, name)
        if name in _OF_THE_HOST or (isinstance(found, type) and found is not np.ndarray):
            return found
        if isinstance(found, types.ModuleType):
            return Namespace(_named(self._xp, name, found), found)
        return _CuPyUfunc(self._xp, found) if isinstance(found, np.ufunc) else _named(self._xp, name, found)


class _CuPyUfunc:
    """A ufunc of CuPy, with the reductions for which CuPy has functions."""

    def __init__(self, xp: Any, ufunc: np.ufunc) -> None:
        self._xp, self._name = xp, ufunc.__name__
        self._call = _named(xp if getattr(np, self._name, None) is ufunc else _special(xp), self._name, ufunc)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._call(*args, **kwargs)

    def __getattr__(self, method: str) -> Any:
        known = {"reduce": _REDUCTIONS, "accumulate": _ACCUMULATIONS}.get(method, {})
        if self._name in known:
            return getattr(self._xp, known[self._name])
        if method == "accumulate" and self._name in ("maximum", "minimum"):
            return functools.partial(_accumulated, self._xp, self._call)
        if method == "at" and self._name == "add":
            return self._xp.add.at
        raise Missing(f"CuPy has no numpy.{self._name}.{method}")


def _accumulated(xp: Any, combine: Callable[..., Any], x: Any, *, axis: int) -> Any:
    """The largest so far along an axis, or the smallest: over 1, 2, 4, … elements."""
    y, reach = xp.array(xp.moveaxis(x, axis, -1)), 1
    while reach < y.shape[-1]:
        y = xp.concatenate([y[..., :reach], combine(y[..., reach:], y[..., :-reach])], axis=-1)
        reach *= 2
    return xp.moveaxis(y, -1, axis)


def _special(xp: Any) -> Any:
    """The counterpart of `scipy.special`."""
    return importlib.import_module("cupyx.scipy.special") if xp.__name__ == "cupy" else xp.special


def _named(xp: Any, name: str, function: Any) -> Any:
    found = getattr(xp, name, None)
    if found is None:
        raise Missing(f"CuPy has no {getattr(function, '__module__', 'numpy')}.{name}")
    return found


def counterpart(f: Any, xp: Any) -> Callable[..., Any]:
    """A function of NumPy's arrays as one of CuPy's."""
    return _Copies(xp).of(f)  # type: ignore[no-any-return]


class _Copies:
    """Copies our own functions, and those that they call, each once."""

    def __init__(self, xp: Any) -> None:
        self.xp, self.numpy = xp, Namespace(xp)
        self.known: dict[int, Any] = {}

    def of(self, x: Any) -> Any:
        """What stands for x in code that runs on CuPy."""
        if x is np:
            return self.numpy
        if isinstance(x, np.ufunc):
            return _CuPyUfunc(self.xp, x)
        if isinstance(x, _DISPATCHED):
            place = self.numpy
            for part in str(x.__module__).split(".")[1:]:
                place = getattr(place, part)
            return getattr(place, x.__name__)
        if isinstance(x, functools.partial):
            return functools.partial(self.of(x.func), *map(self.of, x.args), **{k: self.of(v) for k, v in x.keywords.items()})
        if isinstance(x, types.FunctionType) and x.__module__.startswith(__name__.partition(".")[0] + ".ops"):
            return self.known.get(id(x)) or self.copied(x)
        return x

    def copied(self, f: types.FunctionType) -> Any:
        names: dict[str, Any] = {"__builtins__": f.__globals__["__builtins__"], "__name__": f.__module__}
        cells = tuple(types.CellType() for _ in f.__closure__ or ())
        made = self.known[id(f)] = types.FunctionType(f.__code__, names, f.__name__, f.__defaults__, cells)
        made.__kwdefaults__ = f.__kwdefaults__
        names |= {name: self.of(f.__globals__[name]) for name in names_in(f.__code__) if name in f.__globals__}
        for cell, old in zip(cells, f.__closure__ or (), strict=True):
            cell.cell_contents = self.of(old.cell_contents)
        return made
