"""What kind of value a staged function has read: a number, an immutable object, a container, a function that runs user code."""

from __future__ import annotations

import builtins
import datetime
import decimal
import enum
import fractions
import functools
import io
import itertools
import re
import sys
import sysconfig
import types
from collections import OrderedDict, defaultdict, deque
from typing import Any

import numpy as np

from ..core.home import package_of
from ..core.places import Load
from .reach import is_library, is_of_library, is_ours, is_users

NUMBERS = (float, int, complex)
PLAIN = (*NUMBERS, bool, str, bytes, type(None), type(Ellipsis), type(NotImplemented))
EQUAL = (*PLAIN, range, slice, fractions.Fraction, decimal.Decimal, datetime.date, datetime.time, datetime.timedelta, frozenset)
FIXED = (  # classes of immutable objects, or objects that do not affect the result
    *(np.dtype, np.ufunc, enum.Enum, re.Pattern, property, io.TextIOBase, io.BufferedIOBase, io.RawIOBase, np.vectorize),
    *(types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType, types.MethodWrapperType),
    *(
        type(np.sum),
        types.ClassMethodDescriptorType,
        types.GetSetDescriptorType,
        types.GenericAlias,
        types.UnionType,
        types.CodeType,
    ),
)
FIXED_MODULES = frozenset(
    {"logging", "pathlib", "threading", "_thread", "typing", "abc", "operator", "string", "tqdm", "warnings"}
)
_INSTALLED = tuple(sysconfig.get_path(name) for name in ("purelib", "platlib"))
CONTAINERS = (tuple, list, dict, set, deque, OrderedDict, defaultdict, types.SimpleNamespace)
DATA = (*EQUAL, *CONTAINERS, np.ndarray, np.generic)
MEMO: type = functools._lru_cache_wrapper
CODE = (types.FunctionType, types.ModuleType, type)
EMPTY = object()


def source_of(names: dict[str, Any]) -> dict[str, Any]:
    """The dict that holds the globals of a function: an adopted one has a view of it."""
    return getattr(names, "source", names)


def builtins_of(names: dict[str, Any]) -> dict[str, Any]:
    """The builtins that a function with these globals sees; an adopted module has its own."""
    found = names.get("__builtins__", builtins)
    return found if isinstance(found, dict) else vars(found)


def load_of(container: Any) -> Load:
    """How an item of a container is read."""
    return Load.ENTRY if isinstance(container, dict) else Load.PART if isinstance(container, tuple) else Load.ITEM


def empty_like(cls: type, value: Any) -> Any:
    """An empty container of the class of another."""
    if cls is defaultdict:
        return defaultdict(value.default_factory)
    return cls()


def fill(seen: Any, found: dict[Any, Any]) -> None:
    """Put items into an empty container."""
    if isinstance(seen, list):
        seen.extend(found.values())
    else:
        (vars(seen) if isinstance(seen, types.SimpleNamespace) else seen).update(found)


def cell_contents(cell: types.CellType) -> Any:
    """What a closure cell holds; `EMPTY` if nothing yet."""
    try:
        return cell.cell_contents
    except ValueError:
        return EMPTY


def is_installed(module: types.ModuleType | None) -> bool:
    """Whether a module is part of an installed package, whose globals are assumed constant."""
    return str(getattr(module, "__file__", "") or "").startswith(_INSTALLED)


def is_of_package(name: str) -> bool:
    """Whether a module, by its name, is of an installed package other than the libraries."""
    return is_installed(sys.modules.get(name)) and not is_library(name)


def is_function(x: Any) -> bool:
    """Whether x runs user code: a function, a method, an adjoint object around such a function, or a table of them."""
    if isinstance(x, functools.partial):
        return is_function(x.func)
    if isinstance(x, types.FunctionType):
        return is_users(x) or any(is_function(cell_contents(cell)) for cell in x.__closure__ or ())
    if isinstance(x, dict):
        return any(map(is_function, itertools.islice(x.values(), 64)))
    if isinstance(x, types.MethodType):
        return True
    if is_ours(type(x).__module__):
        return is_function(getattr(x, "__wrapped__", None))
    return callable(x) and not isinstance(x, (type, *FIXED)) and not is_of_library(type(x))


def never_changes(value: Any) -> bool:
    """Whether an object is immutable, or does not affect the result."""
    if isinstance(value, FIXED) and not (isinstance(value, io.IOBase) and value.readable()):
        return True
    return type(value) is object or package_of(type(value).__module__) in FIXED_MODULES


def hides_changes(cls: type) -> bool:
    """Whether objects of a class keep their contents where Python's attributes do not show them."""
    return cls.__module__ in ("weakref", "_weakrefset") or any(c.__module__ == "_ctypes" for c in cls.__mro__)


def fits(value: Any) -> bool:
    """Whether a number fits the type that it has in a program."""
    return type(value) is not int or -(2**63) <= value < 2**63


def advice(name: str) -> str:
    """What the user can do about a value that is refused."""
    return f"pass it as an argument, or write ad.static({name}) where it is made if it never changes"
