"""Hooks that intercept the outside reads of a staged function: globals, modules, attributes of objects.

f(x): return x * lam * model.w         the staged copy of f has `Names` for globals, which calls `Reads` for lam;
                                       the class of model calls `Reads` for w (`HOOKS`)
"""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any, Protocol

from ..core.bind import TypeOf, around, is_ours
from ..core.locks import lock
from .classify import builtins_of
from .purity import refused


class ObjectHooks(Protocol):
    """The interface called for attributes of watched objects: see `objects.py`."""

    def __contains__(self, value: Any) -> bool: ...
    def attribute(self, value: Any, name: str) -> Any: ...
    def refuse_write(self, value: Any, name: str) -> Exception: ...


class ModuleHooks(Protocol):
    """The interface called for names in modules: see `modules.py`."""

    def entry(self, names: dict[str, Any], name: str) -> Any: ...
    def attribute(self, module: types.ModuleType, name: str) -> Any: ...
    def import_(
        self, load: Any, name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0
    ) -> Any: ...


class ReadHooks(Protocol):
    """The interface called for each read: see `reads.py`."""

    @property
    def objects(self) -> ObjectHooks: ...
    @property
    def modules(self) -> ModuleHooks: ...
    def id_of(self, x: Any, /) -> int: ...


def same_items(some: Mapping[Any, Any], others: Mapping[Any, Any]) -> bool:
    """Whether two mappings hold the same objects under the same keys."""
    return len(some) == len(others) and all(key in others and value is others[key] for key, value in some.items())


class Names(dict[str, Any]):
    """The globals of a staged function: a name is looked up in the real ones on first read."""

    def __init__(self, reads: ReadHooks, real: dict[str, Any]) -> None:
        super().__init__({name: value for name, value in real.items() if name.startswith("__")})
        own = builtins_of(real)
        self["__builtins__"] = {
            **own,
            "__import__": functools.partial(reads.modules.import_, own["__import__"]),
            "type": TypeOf if own["type"] is type else own["type"],
            "id": reads.id_of,
        }
        self.reads, self.real = reads, real
        self.noted = self.copy()
        self.absent: set[str] = set()  # names that are not globals: those of builtins, which Python asks for at each use

    def __contains__(self, name: object) -> bool:
        """As `in globals()` asks: a name that is missing so far is looked up."""
        return self.get(name, self) is not self

    def get(self, name: Any, default: Any = None) -> Any:
        try:
            return self[name]
        except KeyError:
            return default

    def __missing__(self, name: str) -> Any:
        if name in self.absent:
            raise KeyError(name)
        try:
            seen = self[name] = self.noted[name] = self.reads.modules.entry(self.real, name)
        except KeyError:
            self.absent.add(name)
            raise
        return seen

    def is_unwritten(self) -> bool:
        self.pop("__warningregistry__", None)
        self.noted.pop("__warningregistry__", None)
        return same_items(self.copy(), self.noted)


def _all(read: Any) -> Any:
    """A method of `Names` that tells of all globals, which the function may not ask. A traceback that is printed may."""

    def asked(self: Names) -> Any:
        asks = sys._getframe(1)
        if is_ours(asks):
            return read(self)
        if not around.get() or asks.f_globals.get("__name__") == "traceback":
            return read(self.real)
        raise refused("the function that is staged asks which globals there are; name those that it reads")

    return asked


for _name in ("__len__", "__iter__", "__reversed__", "keys", "values", "items", "copy"):
    setattr(Names, _name, _all(getattr(dict, _name)))


class WatchedModule(types.ModuleType):
    """A module, as a staged function sees it."""

    def __init__(self, reads: ReadHooks, real: types.ModuleType) -> None:
        super().__init__(real.__name__, real.__doc__)
        own = {name: value for name, value in vars(real).items() if name.startswith("__")}
        own.pop("__getattr__", None)  # Python would ask it before ours
        self.__dict__.update(own)
        self._reads, self._real = reads, real
        self._noted = dict(vars(self))

    def __getattr__(self, name: str) -> Any:
        seen = self.__dict__[name] = self._noted[name] = self._reads.modules.attribute(self._real, name)
        return seen

    def _is_unwritten(self) -> bool:
        return same_items({k: v for k, v in vars(self).items() if k != "_noted"}, self._noted)


# -- attributes of objects ---------------------------------------------------------------------------------------------

HOOKED = frozenset({"__getattribute__", "__setattr__", "__delattr__"})
#: By which Python 3.14 computes the annotations of a class when they are asked for.
ANNOTATING = frozenset({"__annotate__", "__annotate_func__", "__annotations_cache__"})
reading: ContextVar[ReadHooks | None] = ContextVar("adjointreading", default=None)


class Hooks:
    """Classes with hooked attribute access while some function is staged.

    The hooks act only in the staging thread, and only on outside objects of its function.
    """

    def __init__(self) -> None:
        self.lock = lock()
        self.stagings = 0
        self.hooked: dict[type, dict[str, Any]] = {}  # with the attributes they defined themselves

    def __enter__(self) -> None:
        with self.lock:
            self.stagings += 1

    def __exit__(self, *_: object) -> None:
        with self.lock:
            self.stagings -= 1
            if not self.stagings:
                for cls, own in self.hooked.items():
                    for name in HOOKED:
                        if name in own:
                            type.__setattr__(cls, name, own[name])
                        else:
                            type.__delattr__(cls, name)
                self.hooked.clear()

    def size(self, cls: type) -> int:
        """How many attributes a class defines while it is not hooked."""
        own = self.hooked.get(cls)
        return len(vars(cls)) - (0 if own is None else len(HOOKED) - len(own))

    def add(self, cls: type) -> bool:
        """Hook a class; False if that is not possible."""
        with self.lock:
            if cls in self.hooked:
                return True
            plain: tuple[Any, ...] = (object.__getattribute__, _getattribute)
            if cls.__getattribute__ not in plain or issubclass(cls, types.ModuleType):
                return False
            own = {name: vars(cls)[name] for name in HOOKED if name in vars(cls)}
            write, delete = cls.__setattr__, cls.__delattr__

            def set_(self: Any, name: str, value: Any) -> None:
                reads = reading.get()
                if reads is not None and self in reads.objects:
                    raise reads.objects.refuse_write(self, name)
                write(self, name, value)

            def delete_(self: Any, name: str) -> None:
                reads = reading.get()
                if reads is not None and self in reads.objects:
                    raise reads.objects.refuse_write(self, name)
                delete(self, name)

            try:
                type.__setattr__(cls, "__getattribute__", _getattribute)
            except TypeError:  # a class written in C
                return False
            type.__setattr__(cls, "__setattr__", set_)
            type.__setattr__(cls, "__delattr__", delete_)
            self.hooked[cls] = own
            return True


def _getattribute(self: Any, name: str) -> Any:
    reads = reading.get()
    if reads is None or self not in reads.objects:
        return object.__getattribute__(self, name)
    return reads.objects.attribute(self, name)


HOOKS = Hooks()
