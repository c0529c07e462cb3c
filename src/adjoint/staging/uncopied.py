"""Code that a staged function runs without a copy: the methods of a class, the functions in a closure of a library.

Its reads cannot be intercepted. Instead, every name in it must refer to the same value at each call.
"""

from __future__ import annotations

import abc
import collections
import copy
import enum
import functools
import sys
import types
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..core.code import names_in
from ..core.home import package_of
from ..core.places import Bound, Check, Contents, Equal, Load, items_of
from .classify import (
    CONTAINERS,
    EMPTY,
    EQUAL,
    FIXED,
    FIXED_MODULES,
    MEMO,
    PLAIN,
    advice,
    cell_contents,
    is_installed,
    load_of,
    source_of,
)
from .reach import is_library, is_mutable, is_of_library, is_users
from .watch import ANNOTATING, HOOKED, HOOKS, same_items

if TYPE_CHECKING:
    from .reads import Reads

MOST_BYTES = 1 << 20  # of an array that is compared at each call
FEW_NAMES = 4  # that a class does not have, each checked by itself


class At(NamedTuple):
    """The place of a value."""

    load: Load
    owner: Any  # an object, or the number of a place if chained
    key: Any
    name: str
    chained: bool = False


class Uncopied:
    """The functions and classes that run as they are, and what their names refer to."""

    def __init__(self, reads: Reads) -> None:
        self.reads = reads
        self.seen: set[int] = set()
        self.classes: list[type] = []
        self.contents: list[tuple[Any, Any]] = []  # containers and arrays that they hold, and copies of these
        self.sized: set[type] = set()  # which must define as many attributes as now
        self.modules: set[tuple[int, frozenset[str]]] = set()  # whose attributes of these names are checked
        self.entered: set[int] = set()  # ids of the containers whose items are being checked
        self.before: dict[type, dict[str, Any]] = {}  # what they and their bases held when they were met

    def add(self, x: Any) -> None:
        """Require that the names in a function, in the methods of a class, or in a table of them, keep their values."""
        if id(x) in self.seen:
            return
        self.seen.add(id(x))
        self.reads.alive.append(x)
        if isinstance(x, type):
            self.add_class(x)
        elif isinstance(x, (dict, list, tuple)):
            for item in items_of(x).values():
                self.add(item)
        elif isinstance(x, types.FunctionType):
            self.add_function(x)

    def add_code(self, member: Any) -> None:
        """The functions behind an attribute of a class: a method, a property, `functools.cached_property`."""
        if isinstance(member, types.FunctionType):
            self.add(member)
        elif is_of_library(type(member)):
            for name in _FUNCTIONS_OF:
                if isinstance(function := getattr(member, name, None), types.FunctionType):
                    self.add(function)

    def add_class(self, cls: type) -> None:
        self.classes.append(cls)
        if isinstance(cls, abc.ABCMeta):  # a class may be registered later
            token = abc.get_cache_token()
            self.reads.note(At(Load.CALL, abc.get_cache_token, (), "the registered classes"), Check.EQUAL, token)
        meta: type = type(cls)
        for owner in cls.__mro__ + meta.__mro__:
            if not is_of_library(owner):
                for name, member in list(vars(owner).items()):
                    if name not in ANNOTATING:
                        self.add_code(member)
                if issubclass(owner, type) and _ANSWERS & vars(owner).keys():
                    raise self.reads.refuse(
                        f"uses {cls.__name__}, whose metaclass answers for its attributes; pass them as arguments"
                    )
        before = _attributes(cls)
        self.before.update({owner: dict(vars(owner)) for owner in _owners(cls) if owner not in self.before})
        for name, value in before.items():
            if isinstance(value, _WRITABLE) and not name.startswith("__") and getattr(value, "nbytes", 0) <= MOST_BYTES:
                self.contents.append((value, copy.copy(value)))
                self.reads.unwritten.append((f"{cls.__name__}.{name}", functools.partial(_same_contents, *self.contents[-1])))
        self.reads.unwritten.append((f"an attribute of {cls.__name__}", lambda: same_items(_attributes(cls), before)))

    def add_operator(self, cls: type, name: str) -> None:
        """A method that Python calls on the class of an object."""
        method = getattr(cls, name)
        at = At(Load.ATTRIBUTE, cls, name, f"{cls.__name__}.{name}")
        if isinstance(method, types.FunctionType):
            self.reads.fix(at, method)
        elif isinstance(method, types.MethodType) and method.__self__ is cls:  # of its metaclass
            self.reads.note(at, Check.METHOD, method.__func__)
        self.add(method)

    def undo_writes(self) -> None:
        """Take back what the staged function wrote to attributes of classes, which cannot be intercepted."""
        for value, before in self.contents:
            if not _same_contents(value, before):
                if isinstance(value, np.ndarray):
                    value[...] = before
                elif isinstance(value, list):
                    value[:] = before
                else:
                    value.clear()
                    value.update(before)
        for cls, before in self.before.items():
            for name in (vars(cls).keys() | before.keys()) - HOOKED - ANNOTATING:
                if name not in before:
                    delattr(cls, name)
                elif vars(cls).get(name, EMPTY) is not before[name]:
                    setattr(cls, name, before[name])

    def finish(self) -> None:
        """Require that the classes met keep their operators, and what the names in the whole function refer to in them."""
        for cls in self.classes:  # which grows
            names = self.reads.names
            if "super" in names:
                for base in _owners(cls):
                    self.add(base)
            is_any = bool(names & ASKS_FOR_ANY)
            for name, member in _attributes(cls).items():
                if isinstance(member, types.GetSetDescriptorType):
                    continue  # `__dict__` and `__weakref__`: Python makes them, and the value of `cls.__dict__` is new each time
                if name in names or (is_any and not name.startswith("__")):
                    self.add_member(cls, name, names)
                elif name.startswith("__"):
                    self.add_operator(cls, name)
            for owner in cls.__mro__:
                if is_mutable(owner) and is_of_library(owner):  # to which the user may have added some
                    for name in sorted(names & vars(owner).keys()):
                        self.add_member(cls, name, names)
            if is_any and not is_of_library(cls):
                self.note_sizes(cls)
            self.lacks(cls, sorted(name for name in self.reads.asked if not hasattr(cls, name)))

    def lacks(self, cls: type, names: list[str]) -> None:
        """Require that a class still has none of these attributes; of many, that it and its bases define no more than now."""
        mutable = [base for base in cls.__mro__ if is_mutable(base)]
        if mutable and len(names) <= FEW_NAMES:
            for name in names:
                self.reads.once(At(Load.FIXED, cls, None, f"{cls.__name__}.{name}"), Check.NO_ATTRIBUTE, name)
        elif mutable:
            self.note_sizes(cls)

    def note_sizes(self, cls: type) -> None:
        """Require that a class and its bases define as many attributes as now."""
        for base in cls.__mro__:
            if is_mutable(base) and base not in self.sized:
                self.sized.add(base)
                at = At(Load.ATTRIBUTE, base, "__dict__", f"the attributes of {base.__name__}")
                self.reads.note(at, Check.LENGTH, (types.MappingProxyType, HOOKS.size(base)))

    def add_member(self, cls: type, name: str, names: set[str]) -> None:
        at = At(Load.ATTRIBUTE, cls, name, f"{cls.__name__}.{name}")
        value = getattr(cls, name, EMPTY)
        if isinstance(value, types.MethodType):
            self.reads.note(at, Check.TEST, Bound(value))
        elif isinstance(value, enum.Enum):
            self.reads.fix(at, value)
            self.attributes_of(value, at.name, names)
        elif isinstance(value, FIXED) or hasattr(type(value), "__get__"):
            self.reads.fix(at, value)
        elif value is not EMPTY:
            self.constant(value, at, names)

    def attributes_of(self, value: Any, name: str, names: set[str]) -> None:
        """Require that an object which is not watched, such as a number of the user's own class, keeps its attributes."""
        if hasattr(value, "__dict__"):
            self.constant(vars(value), At(Load.ATTRIBUTE, value, "__dict__", f"the attributes of {name}"), names)

    def add_function(self, f: types.FunctionType) -> None:
        if not is_users(f):
            for cell in f.__closure__ or ():
                self.add(cell_contents(cell))
            return
        names = set(names_in(f.__code__))
        if not _is_generated(f):
            self.reads.note_names(f.__code__)
            source = source_of(f.__globals__)
            for name in sorted(names & source.keys()):
                self.constant(source[name], At(Load.ENTRY, source, name, name), names)
        for name, cell in zip(f.__code__.co_freevars, f.__closure__ or (), strict=True):
            if cell_contents(cell) is not EMPTY:
                self.constant(cell_contents(cell), At(Load.CELL, cell, None, name), names)
        for name in ("__defaults__", "__kwdefaults__"):
            if getattr(f, name):
                self.constant(getattr(f, name), At(Load.ATTRIBUTE, f, name, f"the defaults of {f.__name__}"), names)

    def constant(self, value: Any, at: At, names: set[str]) -> None:
        """A value that uncopied code, which has these names, may read."""
        reads = self.reads
        if type(value) in PLAIN or isinstance(value, EQUAL):
            reads.note(at, Check.EQUAL, value)
        elif isinstance(value, (types.FunctionType, type)):
            reads.fix(at, value)
            self.add(value)
        elif isinstance(value, types.ModuleType):
            reads.fix(at, value)
            self.constants_of_module(value, names)
        elif isinstance(value, (np.ndarray, np.generic)) and not value.dtype.hasobject and value.nbytes <= MOST_BYTES:
            reads.note(at, Check.TEST, Contents(value))
        elif hasattr(type(value), "__next__") or isinstance(value, np.ndarray):
            raise reads.refuse(
                f"uses code that reads {at.name}, a {type(value).__name__} whose changes cannot be detected; {advice(at.name)}"
            )
        elif type(value) in (tuple, list, dict) and id(value) in self.entered:  # it contains itself
            reads.fix(at, value)
        elif type(value) in (tuple, list, dict):
            self.entered.add(id(value))
            owner = reads.note(at, Check.LENGTH, (type(value), len(value)))
            reads.note_order(value, owner, at.name)
            for key, item in items_of(value).items():
                self.constant(item, At(load_of(value), owner, key, f"{at.name}[{key!r}]", True), names)
            self.entered.discard(id(value))
        elif isinstance(value, (set, *CONTAINERS)) and all(type(x) in PLAIN for x in items_of(value).values()):
            reads.note(at, Check.TEST, Equal(value))
        elif isinstance(value, functools.partial):
            reads.fix(at, value)
            for name in ("func", "args", "keywords"):
                self.constant(getattr(value, name), At(Load.ATTRIBUTE, value, name, f"{at.name}.{name}"), names)
        elif value in reads.objects or (not self.is_fixed(value) and reads.objects.watch(value, at)):
            return
        elif isinstance(value, (*CONTAINERS, *_CHANGING)):
            raise reads.refuse(
                f"uses code that reads {at.name}, a {type(value).__name__} whose changes cannot be detected; {advice(at.name)}"
            )
        else:
            reads.fix(at, value)

    def is_fixed(self, value: Any) -> bool:
        """Whether an object is one of a library's that has no state."""
        return isinstance(value, FIXED) or package_of(type(value).__module__) in (*FIXED_MODULES, "dataclasses", "functools")

    def constants_of_module(self, module: types.ModuleType, names: set[str]) -> None:
        key = id(module), frozenset(names)  # modules may hold one another
        if key not in self.modules and not is_library(module.__name__) and not is_installed(module):
            self.modules.add(key)
            for name in sorted(names & vars(module).keys()):
                self.constant(vars(module)[name], At(Load.ATTRIBUTE, module, name, f"{module.__name__}.{name}"), names)


_CHANGING = (MEMO, collections.UserDict, collections.UserList, collections.ChainMap)
_FUNCTIONS_OF = ("__func__", "fget", "func", "__wrapped__")
_ANSWERS = {"__getattr__", "__getattribute__"}
#: Code with one of these names may read any attribute.
ASKS_FOR_ANY = frozenset({"getattr", "vars", "__dict__", "dir", "attrgetter", "methodcaller", "getmembers", "__getattribute__"})
_WRITABLE = (list, dict, set, np.ndarray)


def _same_contents(value: Any, before: Any) -> bool:
    """Whether a container holds the objects that it held before, or an array the same bits."""
    if isinstance(value, np.ndarray):
        return value.shape == before.shape and value.tobytes() == before.tobytes()
    if isinstance(value, set):
        return bool(value == before)
    return same_items(items_of(value), items_of(before)) and list(items_of(value)) == list(items_of(before))


def _attributes(cls: type) -> dict[str, Any]:
    """The attributes that the user's classes among the bases of a class define, by name."""
    passed = HOOKED | ANNOTATING
    return {name: x for owner in reversed(_owners(cls)) for name, x in vars(owner).items() if name not in passed}


def _owners(cls: type) -> list[type]:
    """A class, its bases and its metaclasses, without those of libraries and installed packages."""
    meta: type = type(cls)
    found = cls.__mro__ + meta.__mro__
    return [x for x in found if not is_of_library(x) and not is_installed(sys.modules.get(x.__module__))]


def _is_generated(f: types.FunctionType) -> bool:
    """Whether a function was made by `dataclass` or `namedtuple`, and not by an exec of the user's."""
    made_here = f.__code__.co_qualname.startswith("__create_fn__.<locals>.")
    return f.__code__.co_filename == "<string>" and (made_here or f.__globals__.get("__name__", "").startswith("namedtuple_"))
