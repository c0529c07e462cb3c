"""Names in modules, as a staged function reads them: globals, builtins, attributes of modules, imports.

lam                a global: checked at each call, or an input of the program
sum                a builtin: must stay the same, and no global of this name may appear
math.tau           an attribute of a library: its numbers may change, its functions must stay the same
import settings    must find the same module in `sys.modules`
"""

from __future__ import annotations

import importlib
import sys
import types
from typing import TYPE_CHECKING, Any

from ..core.counterparts import counterpart
from ..core.places import Check, Load
from .classify import CODE, DATA, EMPTY, PLAIN, advice, builtins_of, is_installed, is_of_package, source_of
from .reach import is_library
from .stand_ins import IMPURE, Refused, is_static, stand_in
from .uncopied import At
from .watch import Names, WatchedModule

if TYPE_CHECKING:
    from .reads import Reads


class Modules:
    """The modules and globals that were met, and what stands for them."""

    def __init__(self, reads: Reads) -> None:
        self.reads = reads
        self._names: dict[int, Names] = {}  # by the id of the real globals
        self._seen: dict[int, WatchedModule] = {}  # by the id of the module

    def names_of(self, real: dict[str, Any]) -> dict[str, Any]:
        """The globals of the copy of a function."""
        if isinstance(real, Names):
            return real
        if id(real) not in self._names:
            names = self._names[id(real)] = Names(self.reads, real)
            self.reads.alive.append(real)
            self.reads.unwritten.append(("a global", names.is_unwritten))
        return self._names[id(real)]

    def entry(self, names: dict[str, Any], name: str) -> Any:
        """A global. An adopted function sees another value in place of some (`adopt/live.py`), which are compared themselves."""
        source = source_of(names)
        try:
            value = names[name]
        except KeyError:  # a builtin, or not defined
            self.reads.once(At(Load.FIXED, source, None, name), Check.NO_ENTRY, name)
            self._note_builtin(builtins_of(names), name)
            raise
        at = At(Load.ENTRY, source, name, name)
        return self.reads.met(value, at) if value is source[name] else self.reads.fix(at, source[name], self.reads.fixed(value))

    def _note_builtin(self, builtins: dict[str, Any], name: str) -> None:
        """Require the same builtin. The staged function gets it as it is, so it must not be one that can change."""
        at = At(Load.ENTRY, builtins, name, name)
        value = builtins.get(name, EMPTY)
        if value is EMPTY:
            self.reads.once(At(Load.FIXED, builtins, None, name), Check.NO_ENTRY, name)
        elif type(value) in PLAIN:
            self.reads.once(at, Check.EQUAL, value)
        elif isinstance(value, (types.BuiltinFunctionType, type)) and is_library(value.__module__):
            self.reads.fix(at, value)
        else:
            raise self.reads.refuse(f"reads {name}, which was added to Python's builtins; {advice(name)}")

    def attribute(self, module: types.ModuleType, name: str) -> Any:
        """An attribute of a module."""
        called = f"{module.__name__}.{name}"
        try:
            value = getattr(module, name)
        except AttributeError:
            self.reads.once(At(Load.FIXED, module, None, called), Check.NO_ATTRIBUTE, name)
            raise
        is_entry = name in vars(module)  # else its `__getattr__` makes it
        at = At(Load.ENTRY, vars(module), name, called) if is_entry else At(Load.ATTRIBUTE, module, name, called)
        if not is_library(module.__name__) and not is_installed(module):
            return self.reads.met(value, at)
        face = None if isinstance(value, DATA) else self.reads.of_numpy(module)
        if face is not None and hasattr(face, name):
            return self.reads.fix(at, value, getattr(face, name))
        what = None if is_static(value) else IMPURE.get((module.__name__, name))
        if what is not None:
            return self.reads.fix(at, value, Refused(value, what, called))
        return self._of_library(value, at)

    def _of_library(self, value: Any, at: At) -> Any:
        """An attribute of a library or an installed package: its objects must be the same, its numbers and arrays may change."""
        if value is importlib.import_module:
            return self.reads.fix(at, value, self._import_module)
        if (ours := counterpart(value)) is not None:
            return self.reads.fix(at, value, ours)
        if isinstance(value, (types.FunctionType, type)) and is_of_package(value.__module__):
            self.reads.packages.add(value)
            return self.reads.fix(at, value)  # it runs as it is
        is_own = not isinstance(value, (*DATA, *CODE))
        if isinstance(value, types.MethodType) or (is_own and is_of_package(type(value).__module__)):
            self.reads.packages.add(value)
        is_record = isinstance(value, tuple) and type(value) is not tuple and not hasattr(value, "_fields")  # `sys.float_info`
        return self.reads.fix(at, value, stand_in(value, at.name)) if is_own or is_record else self.reads.met(value, at)

    def import_(self, load: Any, name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:
        """`import` inside a staged function; `load` is the `__import__` of its module."""
        return self._imported(load(name, globals, locals, fromlist, level))

    def _import_module(self, name: str, package: str | None = None) -> Any:
        return self._imported(importlib.import_module(name, package))

    def _imported(self, module: types.ModuleType) -> Any:
        """What stands for a module that is imported: the next call may find another one."""
        name = module.__name__
        is_listed = sys.modules.get(name) is module
        return self.reads.met(module, At(Load.ENTRY, sys.modules, name, name)) if is_listed else self.reads.fixed(module)

    def seen(self, module: types.ModuleType) -> Any:
        """What stands for a module."""
        known = self._seen.get(id(module))
        if type(module) is not types.ModuleType and (is_library(module.__name__) or is_installed(module)):
            return module  # that of an adopted package
        if known is None:
            known = self._seen[id(module)] = WatchedModule(self.reads, module)
            self.reads.alive.append(module)
            self.reads.unwritten.append((f"the module {module.__name__}", known._is_unwritten))
        return known
