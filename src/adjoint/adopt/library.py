"""Modules of Python's library as adopted code sees them: `random`, `statistics`, `functools`, `sys`, `inspect` and others."""

from __future__ import annotations

import builtins
import fractions
import functools
import importlib
import importlib.metadata
import inspect
import math
import random
import sys
import types
import typing
from collections.abc import Callable, Iterator, MutableMapping
from typing import Any

from .. import numpy as anp
from ..core.home import original_name
from .builtin import Float, replacing, unreplaced
from .face import Face, FixedFace
from .mathematics import MATH, holds_traced

# -- random -------------------------------------------------------------------------------------------------------


def _with_our_math(f: types.FunctionType) -> types.FunctionType:
    names = {key: _OURS.get(id(x), x) for key, x in vars(random).items()}
    new = types.FunctionType(f.__code__, names, f.__name__, f.__defaults__, f.__closure__)
    new.__kwdefaults__, new.__doc__, new.__qualname__, new.__module__ = f.__kwdefaults__, f.__doc__, f.__qualname__, f.__module__
    return new


_OURS = {id(x): getattr(MATH, name) for name, x in vars(math).items()}  # by the identity of Python's
_DRAWS = {
    name: _with_our_math(f)
    for name, f in vars(random.Random).items()
    if isinstance(f, types.FunctionType) and not name.startswith("_") and hasattr(random, name)
}
#: The functions of the module draw from Python's own generator: the same numbers as before.
RANDOM = FixedFace(
    random,
    {
        **{name: types.MethodType(f, random._inst) for name, f in _DRAWS.items()},  # type: ignore[attr-defined]
        "Random": type("Random", (random.Random,), {**_DRAWS, "__module__": "random"}),
    },
)

# -- statistics, fractions ----------------------------------------------------------------------------------------


def statistics_face(copy: types.ModuleType) -> types.ModuleType:
    """A copy of `statistics`, whose exact sums take traced values."""
    exact_sum, exact_squares = copy._sum, copy._ss

    def total(data: Any, *rest: Any) -> Any:
        data = list(data)
        return (Float, sum(data), len(data)) if holds_traced(data) else exact_sum(data, *rest)

    def squares(data: Any, c: Any = None) -> Any:
        data = list(data)
        if not holds_traced([*data, c]):
            return exact_squares(data, c)
        mean = sum(data) / len(data) if c is None else c
        return Float, sum((x - mean) ** 2 for x in data), mean, len(data)

    def root(name: str, variance: Callable[..., Any]) -> Callable[..., Any]:
        plain = getattr(copy, name)

        @functools.wraps(plain)
        def deviation(data: Any, *mean: Any, **options: Any) -> Any:
            data = list(data)
            is_traced = holds_traced([*data, *mean, *options.values()])
            return anp.sqrt(variance(data, *mean, **options)) if is_traced else plain(data, *mean, **options)

        return deviation

    vars(copy).update(_sum=total, _ss=squares)
    vars(copy).update(stdev=root("stdev", copy.variance), pstdev=root("pstdev", copy.pvariance))
    return copy


def _fraction(x: Any = 0, y: Any = None) -> Any:
    """A traced float is returned unchanged: a numerator would not depend on it."""
    return x if y is None else x / y


FRACTIONS = FixedFace(fractions, {"Fraction": replacing(fractions.Fraction, _fraction)})

# -- functools ----------------------------------------------------------------------------------------------------


def _registering(register: Callable[..., Any]) -> Callable[..., Any]:
    """`register` of a generic function: a class of ours stands for Python's, since dispatch goes by the class itself."""

    @functools.wraps(register)
    def call(cls: Any, *args: Any, **options: Any) -> Any:
        if args or isinstance(cls, type) or not hasattr(cls, "__annotations__"):
            return register(unreplaced(cls), *args, **options)
        hints = typing.get_type_hints(cls)
        first = next((unreplaced(hint) for name, hint in hints.items() if name != "return"), None)
        return register(cls) if not isinstance(first, type) else register(first, cls)

    return call


@functools.wraps(functools.singledispatch)
def _singledispatch(func: Any) -> Any:
    generic = functools.singledispatch(func)
    vars(generic)["register"] = _registering(generic.register)
    vars(generic)["dispatch"] = functools.wraps(generic.dispatch)(lambda cls, find=generic.dispatch: find(unreplaced(cls)))
    return generic


class _Method(functools.singledispatchmethod):  # type: ignore[type-arg]
    def register(self, cls: Any, method: Any = None) -> Any:
        return _registering(super().register)(cls) if method is None else super().register(unreplaced(cls), method)


_Method.__name__ = _Method.__qualname__ = "singledispatchmethod"
FUNCTOOLS = FixedFace(functools, {"singledispatch": _singledispatch, "singledispatchmethod": _Method})

# -- sys, importlib -----------------------------------------------------------------------------------------------


class Modules(MutableMapping[str, types.ModuleType]):
    """`sys.modules` by the original names: those of adopted packages stand for the copies."""

    def __init__(self, copy_name: Callable[[str], str]) -> None:
        self.copy_name = copy_name

    def __getitem__(self, name: str) -> types.ModuleType:
        return sys.modules[self.copy_name(name)]

    def __setitem__(self, name: str, module: types.ModuleType) -> None:
        sys.modules[self.copy_name(name)] = module

    def __delitem__(self, name: str) -> None:
        del sys.modules[self.copy_name(name)]

    def __contains__(self, name: object) -> bool:
        return self.copy_name(str(name)) in sys.modules

    def __iter__(self) -> Iterator[str]:
        return iter(list(sys.modules))

    def __len__(self) -> int:
        return len(sys.modules)

    def copy(self) -> dict[str, types.ModuleType]:
        return dict(sys.modules)


class _Sys(Face):
    """`sys` itself, for writes too: only its table of modules differs."""

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(sys, name, value)


class _Builtins(Face):
    """`builtins` as adopted code sees it. A name that a package puts there while it loads is one for copies too."""

    def __init__(self, names: dict[str, Any]) -> None:
        super().__init__(builtins, names)
        vars(self)["_names"] = names

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(builtins, name, value)
        if name != "__import__":
            vars(self)[name] = vars(self)["_names"][name] = value

    def __delattr__(self, name: str) -> None:
        delattr(builtins, name)
        vars(self)["_names"].pop(name, None)
        vars(self).pop(name, None)


def builtins_face(names: dict[str, Any]) -> types.ModuleType:
    return _Builtins(names)


def sys_face(modules: Modules) -> types.ModuleType:
    return _Sys(sys, {"modules": modules})


@functools.wraps(inspect.getmodule)
def _getmodule(object: Any, *args: Any) -> types.ModuleType | None:
    """The module of a frame: Python finds it by the name of the file, which a copy shares with the original."""
    names = object.f_globals if inspect.isframe(object) else {}
    found = sys.modules.get(names.get("__name__", ""))
    return found if found is not None and vars(found) is names else inspect.getmodule(object, *args)


INSPECT = FixedFace(inspect, {"getmodule": _getmodule})


def _of_original(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function of a distribution's name, for which a copy gives its `__name__`."""
    return functools.wraps(f)(lambda name, *args, **options: f(original_name(name), *args, **options))


METADATA = FixedFace(
    importlib.metadata,
    {
        name: _of_original(getattr(importlib.metadata, name))
        for name in ("version", "metadata", "distribution", "files", "requires")
    },
)


def importlib_face(import_module: Callable[..., Any]) -> types.ModuleType:
    return FixedFace(importlib, {"import_module": import_module, "metadata": METADATA})
