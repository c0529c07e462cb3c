"""The state of installed packages: numbers that their code keeps, as mpmath its precision.

    mpmath.mp.dps = 30                    sets entries of the context that is in the closure of mpmath.sqrt:
    f = lambda x: x * float(mpmath.sqrt(2))         they are compared at each call

The code of a package runs as it is, without a copy. So what it names is searched, up to `MOST` objects: globals, closures,
objects of its classes, functions that it calls. Numbers, strings and small containers of these are compared, all by one check,
but for those that the package itself writes while it is called: a cache, a counter.
"""

from __future__ import annotations

import copy
import operator
import types
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..core.code import names_in
from ..core.places import items_of, same_number
from .classify import CONTAINERS, EMPTY, MEMO, PLAIN, cell_contents, is_of_package
from .reach import is_mutable

MOST = 100  # objects that are searched
_MOST_ITEMS = 64  # of a container that is compared


class PackageState:
    """The numbers that functions of installed packages may read, and whether they are still the same."""

    def __init__(self) -> None:
        self.seen: dict[int, Any] = {}  # by id
        # The entries that are compared: namespaces, names in them, and what these stand for.
        self.owners: list[Mapping[str, Any]] = []
        self.names: list[str] = []
        self.values: list[Any] = []
        self.containers: list[Any] = []
        self.contents: list[Any] = []  # copies of the containers
        self.bodies: list[Mapping[str, Any]] = []  # of objects and classes, whose attributes may hide others
        self.sizes: list[int] = []  # how many attributes they have

    def add(self, x: Any) -> None:
        """Note the state behind a function, a class or an object of a package."""
        waiting = deque([x])
        while waiting and len(self.seen) < MOST:
            x = waiting.popleft()
            if id(x) not in self.seen:
                self.seen[id(x)] = x
                waiting.extend(self._behind(x))

    def _behind(self, x: Any) -> Iterator[Any]:
        if isinstance(x, types.FunctionType):
            if is_of_package(x.__module__):
                names = set(names_in(x.__code__))
                yield from self._of(x.__globals__, names)
                for value in [x.__globals__.get(name) for name in names]:
                    if isinstance(value, types.ModuleType) and is_of_package(value.__name__):
                        yield from self._of(vars(value), names)
                yield from map(cell_contents, x.__closure__ or ())
        elif isinstance(x, types.MethodType):
            yield from (x.__func__, x.__self__)
        elif isinstance(x, type):
            if is_of_package(x.__module__) and is_mutable(x):
                yield from self._body(vars(x))
                yield from x.__mro__[1:]
        elif isinstance(x, property):
            yield from (x.fget, x.fset)
        elif isinstance(x, (staticmethod, classmethod, MEMO)):
            yield getattr(x, "__wrapped__", None)
        elif is_of_package(type(x).__module__) and isinstance(getattr(x, "__dict__", None), dict):
            yield type(x)
            yield from self._body(vars(x))

    def _body(self, scope: Mapping[str, Any]) -> Iterator[Any]:
        """All attributes of an object or a class."""
        self.bodies.append(scope)
        self.sizes.append(len(scope))
        return self._of(scope, scope.keys())

    def _of(self, scope: Mapping[str, Any], names: Iterable[str]) -> Iterator[Any]:
        """Note the numbers of these names in a namespace; the other objects are searched."""
        for name in sorted(scope.keys() & names):
            value = scope[name]
            if type(value) in PLAIN:
                if not name.startswith("__"):
                    self._note(scope, name, value)
            elif isinstance(value, CONTAINERS):
                if len(items_of(value)) <= _MOST_ITEMS and all(type(y) in PLAIN for y in items_of(value).values()):
                    self._note(scope, name, value)
                    if id(value) not in self.seen and not isinstance(value, tuple):
                        self.seen[id(value)] = value
                        self.containers.append(value)
                        self.contents.append(copy.copy(value))
            else:
                yield value

    def _note(self, owner: Mapping[str, Any], name: str, value: Any) -> None:
        self.owners.append(owner)
        self.names.append(name)
        self.values.append(value)

    def drop_changed(self) -> bool:
        """Leave out what has changed by now, since the package writes to it; whether anything is left."""
        kept = [entry for entry in zip(self.owners, self.names, self.values, strict=True) if _is_same(*entry)]
        self.owners, self.names, self.values = map(list, zip(*kept, strict=True)) if kept else ([], [], [])
        held = [(x, before) for x, before in zip(self.containers, self.contents, strict=True) if x == before]
        self.containers, self.contents = map(list, zip(*held, strict=True)) if held else ([], [])
        same = [(scope, size) for scope, size in zip(self.bodies, self.sizes, strict=True) if len(scope) == size]
        self.bodies, self.sizes = map(list, zip(*same, strict=True)) if same else ([], [])
        return bool(kept or held or same)

    def __call__(self, value: Any = None) -> bool:
        """Whether all is as it was."""
        try:
            is_same = all(map(operator.is_, map(operator.getitem, self.owners, self.names), self.values))
        except KeyError:
            return False
        is_same = is_same or all(map(_is_same, self.owners, self.names, self.values))
        is_same = is_same and all(map(operator.eq, map(len, self.bodies), self.sizes))
        return is_same and all(map(operator.eq, self.containers, self.contents))


def _is_same(owner: Mapping[str, Any], name: str, value: Any) -> bool:
    found = owner.get(name, EMPTY)
    return found is value or (type(found) is type(value) and type(value) in PLAIN and same_number(found, value))
