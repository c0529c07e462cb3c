"""The objects that a function can reach: what its closure, defaults, globals, attributes and containers hold."""

from __future__ import annotations

import functools
import itertools
import sys
import types
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..core.code import names_in
from ..core.errors import LABELLED
from ..core.home import EXTENDS, OWN, package_of

_MOST = 1000  # objects that are searched
_PLAIN = (int, float, complex, str, bytes, np.ndarray, np.generic, np.dtype, np.ufunc, type(None))
_IMMUTABLE, _IN_PYTHON = 1 << 8, 1 << 9  # Py_TPFLAGS_IMMUTABLETYPE and Py_TPFLAGS_HEAPTYPE
_LIBRARIES = frozenset({*sys.stdlib_module_names, "numpy", "scipy", "_pytest", *LABELLED, OWN})  # pytest rewrites `assert`


def is_library(module: Any) -> bool:
    """Whether a module, by its name, is of Python, NumPy, SciPy, pandas, xarray or ours: its code is not searched."""
    return package_of(module) in _LIBRARIES


def is_mutable(cls: type) -> bool:
    """Whether the attributes of a class can be set: it was made by a class statement, not in C."""
    return bool(cls.__flags__ & _IN_PYTHON) and not cls.__flags__ & _IMMUTABLE


def is_of_library(cls: type) -> bool:
    """Whether a class is of a library. One made by an exec without `__name__` counts as of `builtins`, and is the user's."""
    return is_library(cls.__module__) and not (cls.__module__ == "builtins" and is_mutable(cls))


def is_ours(module: Any) -> bool:
    return package_of(module) == OWN


def is_users(f: types.FunctionType) -> bool:
    """Whether a function is user code."""
    return not is_library(f.__globals__.get("__name__"))


def reached(f: Any, as_run: Callable[[Any], Any] = lambda x: x) -> Iterator[Any]:
    """The objects that a function can reach, nearest first.

    `as_run` gives what runs in place of a function of the user's that one of ours calls.
    """
    seen: set[int] = set()
    names: set[str] = set()  # that occur in functions: in a module, only these are searched
    waiting = deque([f])
    while waiting and len(seen) < _MOST:
        x = waiting.popleft()
        if id(x) not in seen and not isinstance(x, _PLAIN):
            seen.add(id(x))
            yield x
            contents = _contents(x, names)
            is_own = isinstance(x, types.FunctionType) and is_ours(x.__module__)
            waiting.extend(map(as_run, contents) if is_own else contents)


def _contents(x: Any, names: set[str]) -> Iterator[Any]:
    for kind, contents in _CONTENTS:
        if isinstance(x, kind):
            return contents(x, names)
    return _of_object(x, names)


def _of_function(f: types.FunctionType, names: set[str]) -> Iterator[Any]:
    named = set(names_in(f.__code__))
    names |= named
    yield from f.__defaults__ or ()
    yield from (f.__kwdefaults__ or {}).values()
    if is_users(f):
        yield from [f.__globals__[name] for name in named if name in f.__globals__]
    yield from [cell.cell_contents for cell in f.__closure__ or () if cell != types.CellType()]  # empty cells are skipped
    yield from vars(f).values()  # `__wrapped__` among them


def _of_module(module: types.ModuleType, names: set[str]) -> Iterator[Any]:
    if not is_library(module.__name__):
        yield from [vars(module)[name] for name in names if name in vars(module)]


def _of_object(x: Any, names: set[str]) -> Iterator[Any]:
    """Attributes, and the methods that may be called."""
    attributes = getattr(x, "__dict__", None)  # which some objects generate
    if isinstance(attributes, dict):
        ours = is_ours(type(x).__module__)
        yield from [y for y in attributes.values() if callable(y) or not ours]  # of a compiled function, not its programs
    replaced = {vars(owner).get(EXTENDS) for owner in type(x).__mro__}
    for owner in type(x).__mro__:
        if not is_of_library(owner) and owner not in replaced:
            yield from [vars(owner)[name] for name in ("__call__", *names) if name in vars(owner)]


_CONTENTS: tuple[tuple[Any, Callable[[Any, set[str]], Iterator[Any]]], ...] = (
    (types.FunctionType, _of_function),
    (types.MethodType, lambda x, _: iter((x.__self__, x.__func__))),
    (types.ModuleType, _of_module),
    (dict, lambda x, _: itertools.islice(x.values(), _MOST)),
    ((list, tuple, set, frozenset, deque), lambda x, _: itertools.islice(x, _MOST)),
    (functools.partial, lambda x, _: iter((x.func, x.args, x.keywords))),
    (type, lambda x, _: iter(())),
)
