"""SciPy in plain functions: a copy of a function in which SciPy's functions are those of `adjoint.scipy`.

    from scipy.stats import norm
    ad.grad(lambda mu: norm.logpdf(data, mu).sum())(0.0)        # the lambda runs as a copy that sees adjoint.scipy.stats.norm

The copy reads the globals and cells of the original at each call. Nothing but SciPy is replaced in it, and in functions of the
user's that it calls by name.
"""

from __future__ import annotations

import builtins
import functools
import types
from typing import Any
from weakref import WeakKeyDictionary

from ..core.home import package_of
from ..core.plain_scipy import can_be_copied, counterpart, has_methods, reaches
from .copies import world_with
from .live import Adoption


class PlainSciPy(Adoption):
    def __init__(self) -> None:
        super().__init__(world_with())
        self.builtins = {**vars(builtins), "__import__": self._import}
        self._subclasses: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
        self._copies: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()

    def value(self, x: Any) -> Any:
        """What the copy sees in place of x."""
        if isinstance(x, types.ModuleType):
            return self._module(x) if package_of(x.__name__) == "scipy" else x
        if isinstance(x, types.FunctionType) and package_of(x.__module__) != "scipy":
            return self._adopted(x) if reaches(x) else x
        if isinstance(x, types.MethodType) and isinstance(x.__func__, types.FunctionType) and can_be_copied(x.__func__):
            return types.MethodType(self.value(x.__func__), self.value(x.__self__))
        if isinstance(x, functools.partial):
            f = self.value(x.func)
            return x if f is x.func else functools.partial(f, *x.args, **x.keywords)
        if isinstance(x, type) and package_of(x.__module__) != "scipy":
            return x
        ours = counterpart(x)
        if ours is not None:
            return ours
        return self._extended(x) if has_methods(x) else x

    def _extended(self, x: Any) -> Any:
        """An object of a subclass, which shares the attributes of x; methods and attributes are replaced likewise."""
        cls: Any = type(x)
        if cls not in self._subclasses:
            find = cls.__getattribute__
            names = {"__getattribute__": lambda y, name: self.value(find(y, name)), **_named_as(cls)}
            self._subclasses[cls] = type(cls)(cls.__name__, (self._subclass(cls),), names)
        new: Any = object.__new__(self._subclasses[cls])
        object.__setattr__(new, "__dict__", x.__dict__)
        return new

    def _subclass(self, cls: Any) -> Any:
        """A class below a class of the user's, and below those of its bases: `super()` finds methods that are replaced, too."""
        owner = types.CellType()
        own = {name: self._member(x, owner) for name, x in vars(cls).items() if name not in ("__dict__", "__weakref__")}
        bases = [self._subclass(base) for base in cls.__bases__ if base is not object]
        owner.cell_contents = type(cls)(cls.__name__, (*bases, cls), {**own, **_named_as(cls)})
        return owner.cell_contents

    def _import(self, name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:
        make = self.world.import_ if not level and package_of(name) == "scipy" else builtins.__import__
        return make(name, globals, locals, fromlist, level)

    def _known(self, x: Any) -> Any:
        return self._copies.get(x)

    def _keep(self, original: Any, made: Any) -> Any:
        self._copies[original] = made
        return made


@functools.cache
def _plain() -> PlainSciPy:
    return PlainSciPy()


def with_ours(f: Any) -> Any:
    """A function that sees adjoint.scipy; f itself if it names nothing that adjoint.scipy has."""
    return _plain().value(f)


def _named_as(cls: type) -> dict[str, Any]:
    return {name: getattr(cls, name) for name in ("__module__", "__qualname__", "__doc__")}
