"""`ad.adopt`: other people's modules, differentiable as they are.

>>> import adjoint as ad
>>> colours = ad.adopt("colorsys")                   # a module or a package, by name or as an object
>>> ad.grad(lambda red: colours.rgb_to_hls(red, 0.2, 0.1)[1])(0.6)
np.float64(0.5)

A module is loaded a second time, as a private copy that sees `adjoint.numpy` for `numpy` (`copies.py`), with the packages that it
imports and that compute (`choice.py`). A function or a class of the caller's own is adopted where it is (`live.py`).

The package itself is what users call, so that the name `ad.adopt` means the same whatever has been imported before.
"""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Iterable
from typing import Any

import numpy as np

from ..core.boundary import boundary
from ..core.errors import ArgumentError
from ..core.home import COPIES, OWN, original_name, package_of
from .choice import Choice, Plan, find_spec
from .copies import MADE, World, world_with
from .live import Adoption
from .symbolic import SymPy


@boundary
def adopt(target: Any = None, *, include: Iterable[str] = (), exclude: Iterable[str] = ()) -> Any:
    """A differentiable copy of a module, a function or a class; also a decorator.

    >>> import adjoint as ad
    >>> colours = ad.adopt("colorsys")
    >>> ad.grad(lambda red: colours.rgb_to_hls(red, 0.2, 0.1)[1])(0.6)
    np.float64(0.5)

    `include` names packages to copy that `adopt` would leave as they are, and `exclude` packages or modules to leave as they are;
    `adopt.plan(name)` shows what is copied, and why.
    """
    if target is None:
        return functools.partial(adopt, include=include, exclude=exclude)
    world = world_with(include, exclude)
    if isinstance(target, types.ModuleType):
        if target.__name__ == "__main__" or not hasattr(target, "__spec__"):
            raise ArgumentError(
                "the module that is running cannot be loaded a second time; adopt its functions, or move them to a module"
            )
        target = target.__name__
    if isinstance(target, str):
        return _module(target, world)
    if isinstance(target, (types.FunctionType, types.MethodType, type, functools.partial)) or _is_transform(target):
        return adoption_in(world).value(target)
    if isinstance(target, (types.BuiltinFunctionType, np.ufunc)):
        found = adoption_in(world).value(target)
        if found is target:
            raise ArgumentError(
                f"{target.__name__} is compiled code, which cannot be adopted; declare its rule with ad.custom_vjp"
            )
        return found
    raise ArgumentError(f"adopt takes the name of a module, a module, a function or a class, not {type(target).__name__}")


def _is_transform(x: Any) -> bool:
    return package_of(type(x).__module__) == OWN and isinstance(getattr(x, "__wrapped__", None), types.FunctionType)


def _module(name: str, world: World) -> Any:
    name = original_name(name)
    if not name or not all(part.isidentifier() for part in name.split(".")):
        raise ArgumentError(f"adopt takes the name of a module, such as 'filterpy.kalman', not {name!r}")
    root = name.partition(".")[0]
    if find_spec(root) is None and world.face(root) is None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    try:
        return world.adopt(name)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith(f"{COPIES}."):
            missing = original_name(str(error.name))
            raise ModuleNotFoundError(f"No module named {missing!r}", name=missing) from None
        raise


def plan(target: Any, *, include: Iterable[str] = (), exclude: Iterable[str] = ()) -> Plan:
    """What `adopt(target)` would copy, and why not the rest. Nothing is loaded."""
    name = target if isinstance(target, str) else target.__name__ if isinstance(target, types.ModuleType) else target.__module__
    root = original_name(name).partition(".")[0]
    if find_spec(root) is None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    names = world_with(include, exclude).choice
    choice = Choice(names.include, names.exclude)
    choice.asked.add(root)
    return Plan(original_name(name), choice)


_adoptions: dict[str, Adoption] = {}


def adoption_in(world: World) -> Adoption:
    return _adoptions.setdefault(world.key, Adoption(world))


MADE["sympy"] = lambda world: SymPy(adoption_in(world).value)


class _Callable(types.ModuleType):
    def __call__(self, target: Any = None, *, include: Iterable[str] = (), exclude: Iterable[str] = ()) -> Any:
        return adopt(target, include=include, exclude=exclude)


_Callable.__call__.__doc__ = adopt.__doc__
sys.modules[__name__].__class__ = _Callable
