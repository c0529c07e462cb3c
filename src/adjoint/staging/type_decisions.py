"""Code that decides by `type(x)`, where that is the class of the tracer.

In a transform, functions of the user's run as copies whose `type` knows traced values (`adopt/plain.py`). Here the rest is looked
through: code of installed packages, methods of objects in containers, classes with `__slots__`. In such code `type(x) == float`
raises, and `type(x) is float` is False.
"""

from __future__ import annotations

import operator
import os
import types
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..core.code import names_in
from ..core.type_decisions import decisions
from .classify import is_of_package
from .reach import is_users, reached
from .watch import reading

_PLAIN = frozenset({int, float, complex, bool, str, bytes, type(None), np.ndarray, np.float64})


def line_of_decision(f: Any, as_run: Callable[[Any], Any] = lambda x: x) -> str | None:
    """The line on which a function, or one that it can reach, decides by the real `type(x)` of a value that may be traced.

    `as_run` gives what a transform runs in place of a function. None for the copy that `jit` stages: its `type` knows
    traced values. What is found is kept for the code of the function, while the names that were met stand for the same objects,
    or functions of the same code.
    """
    if reading.get() is not None:
        return None
    f = as_run(f)
    code = getattr(f, "__code__", None)
    known = _found.get(code) if code is not None else None
    if known is None or not known.holds(f):
        known = _search(f, as_run)
        if code is not None:
            if len(_found) >= _MOST:
                _found.clear()
            _found[code] = known
    return known.line


class _Found(NamedTuple):
    """What the search has found, and what that depends on."""

    line: str | None
    scope: dict[str, Any]
    held: tuple[Any, ...]
    names: tuple[tuple[dict[str, Any], str, Any], ...]

    def holds(self, f: Any) -> bool:
        held = _held(f)
        if f.__globals__ is not self.scope or len(held) != len(self.held):
            return False
        if not all(map(operator.is_, held, self.held)):  # `==` of two weak references compares the objects
            return False
        return all(_kind(scope.get(name)) is kind for scope, name, kind in self.names)


_MOST = 1 << 10
_found: dict[types.CodeType, _Found] = {}


def _search(f: Any, as_run: Callable[[Any], Any]) -> _Found:
    line, names = None, []
    for x in reached(f, as_run):
        for function in _functions(x):
            if line is None and is_users(function):
                line = _line(function)
        if isinstance(x, types.FunctionType) and is_users(x):
            scope = x.__globals__
            found = [(scope, name, scope[name]) for name in names_in(x.__code__) if name in scope]
            # Numbers may be rebound at each call, and call nothing.
            names += [(scope, name, _kind(y)) for scope, name, y in found if type(y) not in _PLAIN]
    return _Found(line, getattr(f, "__globals__", {}), _held(f), tuple(names))


def _kind(x: Any) -> Any:
    """What an object is known by: a function that holds nothing by its code, a container by its class, others by themselves."""
    if isinstance(x, types.FunctionType) and not _contents(x):
        return x.__code__
    if isinstance(x, (type, types.ModuleType)):
        return x
    try:
        return weakref.ref(x)
    except TypeError:
        return type(x)


def _contents(f: Any) -> list[Any]:
    """What the closure, the defaults and the attributes of a function hold, but for numbers, text and arrays."""
    cells = getattr(f, "__closure__", None) or ()
    attributes = vars(f) if isinstance(f, types.FunctionType) else None
    if not cells and not attributes and not getattr(f, "__defaults__", None) and not getattr(f, "__kwdefaults__", None):
        return []
    held = [cell.cell_contents for cell in cells if cell != _EMPTY]
    held += [*(f.__defaults__ or ()), *(f.__kwdefaults__ or {}).values(), *(attributes or {}).values()]
    return [x for x in held if type(x) not in _PLAIN]


def _held(f: Any) -> tuple[Any, ...]:
    return tuple(map(_kind, _contents(f)))


_EMPTY = types.CellType()


def _functions(x: Any) -> list[types.FunctionType]:
    members = vars(x).values() if isinstance(x, type) else (x,)
    return [m for m in members if isinstance(m, types.FunctionType)]


def _line(f: types.FunctionType) -> str | None:
    """Of an installed package only comparisons with named classes count: much of them asks for the type of other objects.

    There `==` raises, as it does wherever the real `type` is called.
    """
    is_package = is_of_package(str(f.__globals__.get("__name__")))
    found = next((d for d in decisions(f) if (d.compared is None and not is_package) or (d.compared and d.by_identity)), None)
    return None if found is None else f"{os.path.basename(f.__code__.co_filename)}:{found.line}"
