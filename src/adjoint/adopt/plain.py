"""What plain functions see inside a transform: a copy of the function, for which SciPy's functions are those of `adjoint.scipy`.

    from scipy.stats import norm
    ad.grad(lambda mu: norm.logpdf(data, mu).sum())(0.0)        # the lambda runs as a copy that sees adjoint.scipy.stats.norm
    ad.grad(lambda x: x * x if type(x) is float else x)(3.0)    # and as one whose `type` gives the class that x stands for

The copy reads the globals and cells of the original at each call. Only SciPy and `type` are replaced in it, and in functions of
the user's that it calls by name.
"""

from __future__ import annotations

import builtins
import functools
import types
from typing import Any
from weakref import WeakKeyDictionary

from ..core.bind import TypeOf
from ..core.counterparts import can_be_copied, counterpart, has_methods, reaches
from ..core.home import EXTENDS, package_of
from .copies import world_with
from .live import Adoption


class _Types(type(TypeOf)):  # type: ignore[misc]
    def __call__(cls, *args: Any, **options: Any) -> Any:
        found = super().__call__(*args, **options)
        return vars(found).get(EXTENDS, found) if len(args) == 1 else found


class Type(TypeOf, metaclass=_Types):
    """`type` for a copy: the class of the underlying value, and the user's own class of an object that is extended here."""


class PlainFunctions(Adoption):
    def __init__(self) -> None:
        super().__init__(world_with())
        self.builtins = {**vars(builtins), "__import__": self._import, "type": Type}
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
            names = {"__getattribute__": lambda y, name: self.value(find(y, name)), "__class__": property(lambda y: cls)}
            self._subclasses[cls] = type(cls)(cls.__name__, (self._subclass(cls),), {**names, **_extending(cls)})
        new: Any = object.__new__(self._subclasses[cls])
        object.__setattr__(new, "__dict__", x.__dict__)
        return new

    def _subclass(self, cls: Any) -> Any:
        """A class below a class of the user's, and below those of its bases: `super()` finds methods that are replaced, too."""
        owner = types.CellType()
        own = {name: self._member(x, owner) for name, x in vars(cls).items() if name not in ("__dict__", "__weakref__")}
        bases = [self._subclass(base) for base in cls.__bases__ if base is not object]
        owner.cell_contents = type(cls)(cls.__name__, (*bases, cls), {**own, **_extending(cls)})
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
def _plain() -> PlainFunctions:
    return PlainFunctions()


def with_ours(f: Any) -> Any:
    """A function that sees adjoint.scipy and our `type`; f itself if it names nothing that is replaced."""
    return _plain().value(f)


def _extending(cls: type) -> dict[str, Any]:
    """The names of a class that extends one of the user's."""
    return {EXTENDS: cls, **{name: getattr(cls, name) for name in ("__module__", "__qualname__", "__doc__")}}
