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
import operator
import threading
import types
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary

import numpy as np

from ..core.bind import TypeOf
from ..core.counterparts import can_be_copied, counterpart, has_methods, leads_there, reaches
from ..core.home import EXTENDS, package_of
from .copies import world_with
from .live import Adoption, assigned_cells


class _Types(type(TypeOf)):  # type: ignore[misc]
    def __call__(cls, *args: Any, **options: Any) -> Any:
        found = super().__call__(*args, **options)
        return vars(found).get(EXTENDS, found) if len(args) == 1 else found


class Type(TypeOf, metaclass=_Types):
    """`type` for a copy: the class of the underlying value, and the user's own class of an object that is extended here."""


class _Checking(threading.local):
    """The functions whose copies a thread is bringing up to date."""

    def __init__(self) -> None:
        self.ids: set[int] = set()


def _original(x: Any) -> Any:
    """The object for which one is seen, or the object itself."""
    try:
        return object.__getattribute__(x, "_adjoint_original")
    except AttributeError:
        return x


#: In a class made here: the functions of the original, each with its copy.
_COPIES = "_adjoint_copies"
#: And the class of its objects, which replaces their attributes.
_OUTERMOST = "_adjoint_outermost"
_MOST = 1 << 8


def _parts(x: Any) -> tuple[Any, ...]:
    """The functions in a member of a class."""
    if isinstance(x, property):
        return x.fget, x.fset, x.fdel
    return (getattr(x, "__func__", None) or getattr(x, "func", None) or x,)


def _copy_in(cls: type, f: Any) -> Any:
    """The copy of a method in a class made here, whose `super()` finds other copies."""
    return next((copy for made in cls.__mro__[1:2] for own, copy in vars(made).get(_COPIES, ()) if own is f), None)


def _methods(cls: type) -> list[Any]:
    return [x for owner in cls.__mro__[:-1] for x in vars(owner).values() if isinstance(x, _METHODS)]


#: How an object is compared and hashed whose class says nothing of it: as the original.
_IDENTITY = {
    "__eq__": lambda x, y: True if _original(x) is _original(y) else NotImplemented,
    "__hash__": lambda x: object.__hash__(_original(x)),
}
_METHODS = (types.FunctionType, staticmethod, classmethod, property, functools.cached_property)
_DATA = frozenset({int, float, complex, bool, str, tuple, list, dict, type(None), np.ndarray, np.float64})


class PlainFunctions(Adoption):
    def __init__(self) -> None:
        super().__init__(world_with())
        self.builtins = {**vars(builtins), "__import__": self._import, "type": Type}
        self._subclasses: dict[Any, tuple[list[Any], Any]] = {}  # which keep the classes alive, so not more than `_MOST`
        self._objects: WeakValueDictionary[int, Any] = WeakValueDictionary()  # each keeps its original alive
        self._copies: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
        self._checking = _Checking()

    def value(self, x: Any) -> Any:
        """What the copy sees in place of x."""
        if isinstance(x, types.ModuleType):
            return self._module(x) if package_of(x.__name__) == "scipy" else x
        if isinstance(x, types.FunctionType) and package_of(x.__module__) != "scipy":
            return self._adopted(x) if reaches(x) else x
        if isinstance(x, types.MethodType) and isinstance(x.__func__, types.FunctionType) and can_be_copied(x.__func__):
            owner = self.value(x.__self__)
            f = _copy_in(type(owner), x.__func__) or self.value(x.__func__)
            return x if f is x.__func__ and owner is x.__self__ else types.MethodType(f, owner)
        if isinstance(x, functools.partial):
            f = self.value(x.func)
            return x if f is x.func else functools.partial(f, *x.args, **x.keywords)
        if isinstance(x, type) and package_of(x.__module__) != "scipy":
            return x
        ours = counterpart(x)
        if ours is not None:
            return ours
        return self._extended(x) if has_methods(x) else x

    def _changes(self, x: Any) -> bool:
        return type(x) not in _DATA and leads_there(x)

    def _extended(self, x: Any) -> Any:
        """An object of a subclass, which shares the attributes of x; methods and attributes are replaced likewise.

        There is one of each object, which equals it.
        """
        cls: Any = type(x)
        known = self._objects.get(id(x))
        if known is not None and type(known).__mro__[1] is self._subclass_of(cls):
            return known
        made = self._subclass_of(cls)
        find = cls.__getattribute__
        names = {"__getattribute__": lambda y, name: self.value(find(y, name)), "__class__": property(lambda y: cls)}
        names |= {name: method for name, method in _IDENTITY.items() if getattr(cls, name) is getattr(object, name)}
        names = {**names, "__slots__": ("_adjoint_original",), **_extending(cls)}
        outermost = vars(made).get(_OUTERMOST)
        if outermost is None:
            outermost = type(cls)(cls.__name__, (made,), names)
            setattr(made, _OUTERMOST, outermost)
        new: Any = object.__new__(outermost)
        object.__setattr__(new, "__dict__", x.__dict__)
        object.__setattr__(new, "_adjoint_original", x)
        self._objects[id(x)] = new
        return new

    def _subclass_of(self, cls: Any) -> Any:
        """The subclass for a class, whose methods are those that the class has now."""
        building = self._build.made.get(id(cls))
        if building is not None:
            return building[1]
        known, now = self._subclasses.get(cls), _methods(cls)
        if known is not None and len(known[0]) == len(now) and all(map(operator.is_, known[0], now)):
            copies = vars(known[1])[_COPIES]
            if self._checked(cls, lambda: all(self._is_current(copy, f) for f, copy in copies)):
                return known[1]
        return self._built(lambda: self._note(cls, self._subclass(cls)))

    def _subclass(self, cls: Any) -> Any:
        """A class below a class of the user's, and below those of its bases: `super()` finds methods that are replaced, too.

        Other attributes are those of the user's class, at each use.
        """
        owner = types.CellType()
        own = {name: self._member(x, owner) for name, x in vars(cls).items() if isinstance(x, _METHODS)}
        bases = [self._subclass(base) for base in cls.__bases__ if base is not object]
        copies = [pair for name, x in own.items() for pair in zip(_parts(vars(cls)[name]), _parts(x), strict=True)]
        copies = [pair for pair in copies if None not in pair] + [pair for base in bases for pair in vars(base)[_COPIES]]
        owner.cell_contents = type(cls)(cls.__name__, (*bases, cls), {**own, **_extending(cls), _COPIES: copies})
        return owner.cell_contents

    def _import(self, name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:
        make = self.world.import_ if not level and package_of(name) == "scipy" else builtins.__import__
        return make(name, globals, locals, fromlist, level)

    def _known(self, x: Any) -> Any:
        """The copy of a function, with what the function holds now; None if another is to be made."""
        made = self._copies.get(x)
        return made if made is None or self._checked(x, lambda: self._is_current(made, x)) else None

    def _checked(self, x: Any, check: Callable[[], bool]) -> bool:
        """The result of a check of a function or class; True while it is under way, for what refers to itself."""
        ids = self._checking.ids
        if id(x) in ids:
            return True
        ids.add(id(x))
        try:
            return check()
        finally:
            ids.remove(id(x))

    def _is_current(self, made: Any, f: types.FunctionType) -> bool:
        new = made.__wrapped__ if made.__code__ is not f.__code__ and hasattr(made, "__wrapped__") else made
        if new.__code__ is not f.__code__:
            return False
        for name, cell, own in zip(f.__code__.co_freevars, f.__closure__ or (), new.__closure__ or (), strict=True):
            try:
                contents = cell.cell_contents
            except ValueError:  # not assigned
                contents = None
            if own is cell:
                if self._changes(contents) and name not in assigned_cells(f.__code__):
                    return False
                continue
            if name == "__class__":  # the class that the copy is in
                continue
            seen = self.value(contents)
            if seen is contents:
                return False
            own.cell_contents = seen
        if f.__defaults__ or f.__kwdefaults__ or new.__defaults__ or new.__kwdefaults__:
            self._give_defaults(new, f)
        return True

    def _give_attributes(self, new: types.FunctionType, f: types.FunctionType) -> None:
        new.__dict__ = f.__dict__

    def _keep(self, original: Any, made: Any) -> None:
        if isinstance(original, type):
            if len(self._subclasses) >= _MOST:
                self._subclasses.clear()
            self._subclasses[original] = _methods(original), made
        else:
            self._copies[original] = made


@functools.cache
def _plain() -> PlainFunctions:
    return PlainFunctions()


def with_ours(f: Any) -> Any:
    """A function that sees adjoint.scipy and our `type`; f itself if it names nothing that is replaced."""
    return _plain().value(f)


def _extending(cls: type) -> dict[str, Any]:
    """The names of a class that extends one of the user's."""
    return {EXTENDS: cls, **{name: getattr(cls, name) for name in ("__module__", "__qualname__", "__doc__")}}
