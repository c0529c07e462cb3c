"""Functions and classes of the caller's own, adopted where they are: the module is not run again.

    @ad.adopt
    def volume(T):
        return steam._Region1(T, p)["v"]

The adopted function has the code of the original, and reads the same globals at each call. Only what it finds there is replaced:
modules by their copies, functions and classes by adopted ones.
"""

from __future__ import annotations

import dis
import functools
import sys
import threading
import types
from collections.abc import Callable
from typing import Any
from weakref import WeakValueDictionary

from ..core.code import describe
from ..core.counterparts import counterpart
from ..core.home import OWN, is_installed, original_name, package_of
from ..core.quick import Quick
from .builtin import Complex, Float, replaces_builtin
from .copies import World


class Globals(dict[str, Any]):
    """The globals of an adopted function: those of the original (`source`), read at each use, with adopted values."""

    def __init__(self, adoption: Adoption, source: dict[str, Any]) -> None:
        super().__init__({name: x for name, x in source.items() if name.startswith("__")})
        self["__builtins__"] = adoption.builtins
        self.adoption, self.source = adoption, source

    def __missing__(self, name: str) -> Any:
        return self.adoption.value(self.source[name])

    def __contains__(self, name: object) -> bool:
        return name in self.source or super().__contains__(name)

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self else default  # noqa: SIM401 - `dict.get` does not ask `__missing__`

    def hand_over(self) -> None:
        """Move what a `global` statement has written here to the original globals."""
        for name in [name for name in self if not name.startswith("__")]:
            self.source[name] = self.pop(name)


class Adoption:
    """The adopted functions and classes of one world, by the identity of the originals."""

    def __init__(self, world: World) -> None:
        self.world, self.builtins = world, world.builtins
        self._made: dict[int, tuple[Any, Any]] = {}  # with the original, which must stay alive
        self._build = _Build()
        self._globals: WeakValueDictionary[int, Globals] = WeakValueDictionary()  # by the id of the original's

    def value(self, x: Any) -> Any:
        """What adopted code sees in place of x."""
        if type(x) in _UNCHANGED:
            return x
        if x is float:
            return Float
        if x is complex:
            return Complex
        if isinstance(x, types.ModuleType):
            return self._module(x)
        if isinstance(x, (types.FunctionType, type)):
            return self._adopted(x) if self._is_candidate(x) else self._library(x)
        if isinstance(x, types.MethodType) and isinstance(x.__func__, types.FunctionType):
            if self._is_candidate(x.__func__):
                return types.MethodType(self.value(x.__func__), x.__self__)
            return self._of_scipy(x)
        if isinstance(x, functools.partial):
            return functools.partial(
                self.value(x.func), *map(self.value, x.args), **{k: self.value(v) for k, v in x.keywords.items()}
            )
        if package_of(type(x).__module__) == OWN and isinstance(getattr(x, "__wrapped__", None), types.FunctionType):
            make, args = x.__reduce__()[:2]  # grad(f), jit(f): the same of the adopted function
            return make(*map(self.value, args))
        if isinstance(x, types.BuiltinFunctionType) or type(x).__module__ in ("numpy", "functools"):
            return self._library(x)
        return self._of_scipy(x)

    def _of_scipy(self, x: Any) -> Any:
        """A distribution of SciPy, or a method of one."""
        ours = None if self.world.face("scipy") is None else counterpart(x)
        return x if ours is None else ours

    def _module(self, module: types.ModuleType) -> Any:
        name = module.__name__
        face = self.world.face(name) if sys.modules.get(name) is module else None
        if face is not None:
            return face
        is_users = sys.modules.get(name) is module and self.world.name_of(name) != name
        return self.world.load(name) if is_users else module

    def _library(self, x: Any) -> Any:
        """A function or a class that was imported from a library by name: `from math import sin`."""
        home, name = getattr(x, "__module__", None) or "numpy", getattr(x, "__name__", "")  # a ufunc has no module
        if not isinstance(home, str) or package_of(home) not in _FACED:
            return x
        for place in dict.fromkeys(
            [home, ".".join(home.split(".")[:2]), package_of(home)]
        ):  # the public module, of a private one
            found = getattr(self.world.face(place), name, x) if getattr(sys.modules.get(place), name, None) is x else x
            if found is not x:
                return found
        return x

    def _is_candidate(self, x: Any) -> bool:
        """Whether a function or class is copied: the caller's own, or of a package that is adopted."""
        home = getattr(x, "__globals__", {}).get("__name__") if isinstance(x, types.FunctionType) else x.__module__
        if home is None:
            return isinstance(x, types.FunctionType)  # made by exec, outside of any module
        root = package_of(home)
        if root == OWN or root in _FACED or root in sys.stdlib_module_names - {"__main__"}:
            return False
        return not is_installed(home) or self.world.choice.is_adopted(original_name(home))

    def _known(self, x: Any) -> Any:
        """The adopted form of a function or class, if it has been made."""
        return self._made.get(id(x), (None, None))[1]

    def _adopted(self, x: Any) -> Any:
        known = self._build.made.get(id(x), (None, None))[1] or self._known(x)
        if known is not None:
            return known
        if is_installed(x.__module__):
            found: Any = self.world.load(original_name(x.__module__))
            for part in x.__qualname__.split("."):
                found = getattr(found, part, None)
            if found is not None:
                return found
        return self._built(lambda: self._function(x) if isinstance(x, types.FunctionType) else self._class(x))

    # -- copies --

    def _built(self, make: Callable[[], Any]) -> Any:
        """Make a copy, and then fill the cells of all copies made on the way, which may refer to each other."""
        build = self._build
        if build.is_open:
            return make()
        build.is_open = True
        try:
            made = make()
            while build.empty:
                own, contents = build.empty.pop()
                own.cell_contents = self.value(contents)
            for original, copy in build.made.values():  # now other threads may have them
                self._keep(original, copy)
            return made
        finally:
            build.is_open = False
            build.empty.clear()
            build.made.clear()

    def _keep(self, original: Any, made: Any) -> None:
        self._made[id(original)] = original, made
        self._made[id(made)] = made, made

    def _note(self, original: Any, made: Any) -> Any:
        self._build.made[id(original)] = original, made
        return made

    def _function(self, f: types.FunctionType, owner: types.CellType | None = None) -> Any:
        if isinstance(f.__globals__, Globals):
            return f
        names = self._globals.setdefault(id(f.__globals__), Globals(self, f.__globals__))
        cells = tuple(
            owner if owner is not None and name == "__class__" else self._cell(f, name, cell)
            for name, cell in zip(f.__code__.co_freevars, f.__closure__ or (), strict=True)
        )
        new = types.FunctionType(f.__code__, names, f.__name__, f.__defaults__, cells or None)
        made = _writing(new) if _writes_globals(f.__code__) else new
        if owner is None:
            self._note(f, made)  # before what it refers to, which may refer to it
        describe(new, f)
        self._give_defaults(new, f)
        self._give_attributes(new, f)
        if made is not new:
            functools.update_wrapper(made, new)
        return made

    def _give_defaults(self, new: types.FunctionType, f: types.FunctionType) -> None:
        given = f.__kwdefaults__
        changes = {key: self.value(x) for key, x in given.items() if self._changes(x)} if given else None
        new.__kwdefaults__ = {**given, **changes} if given and changes else given
        new.__defaults__ = tuple(map(self.value, f.__defaults__)) if f.__defaults__ else f.__defaults__

    def _give_attributes(self, new: types.FunctionType, f: types.FunctionType) -> None:
        """Those of the original, read and written by both, if none of them is replaced."""
        changes = {key: self.value(x) for key, x in vars(f).items() if self._changes(x)}
        if changes:
            new.__dict__ = {**vars(f), **changes}
        else:
            new.__dict__ = vars(f)

    def _cell(self, f: types.FunctionType, name: str, cell: types.CellType) -> types.CellType:
        """The same cell, if its contents stay or the function assigns to it; a cell to be filled if they are replaced."""
        try:
            contents = cell.cell_contents
        except ValueError:  # not yet assigned
            return cell
        if name in assigned_cells(f.__code__) or not self._changes(contents):
            return cell
        own = types.CellType()
        self._build.empty.append((own, contents))
        return own

    def _changes(self, x: Any) -> bool:
        """Whether adopted code sees something else in place of x; found without making a copy."""
        if isinstance(x, types.MethodType):
            return self._changes(x.__func__)
        if isinstance(x, functools.partial) or (isinstance(x, (types.FunctionType, type)) and self._is_candidate(x)):
            return True
        if package_of(type(x).__module__) == OWN and isinstance(getattr(x, "__wrapped__", None), types.FunctionType):
            return True
        return self.value(x) is not x

    def _class(self, cls: type) -> Any:
        owner = types.CellType()
        names = {key: x for key, x in vars(cls).items() if key not in ("__dict__", "__weakref__")}
        for slot in _slots(cls):
            names.pop(slot, None)
        made = {key: self._member(x, owner) for key, x in names.items()}
        bases = tuple(self._adopted(base) if self._is_candidate(base) else base for base in cls.__bases__)
        new = type(cls)(cls.__name__, bases, made)
        owner.cell_contents = new
        return self._note(cls, new)

    def _member(self, x: Any, owner: types.CellType) -> Any:
        if isinstance(x, types.FunctionType):
            return self._function(x, owner)
        if isinstance(x, (staticmethod, classmethod)):
            return type(x)(self._member(x.__func__, owner))
        if isinstance(x, property):
            get, set_, delete = [self._member(f, owner) for f in (x.fget, x.fset, x.fdel)]
            return property(get, set_, delete, x.__doc__)
        if isinstance(x, functools.cached_property):
            new = functools.cached_property(self._member(x.func, owner))
            new.__set_name__(type, x.attrname or "")
            return new
        found = self.value(x)
        return staticmethod(found) if replaces_builtin(found) else x


class _Build(threading.local):
    """The copies that a thread is making: what is made so far, and the cells that are still to be filled."""

    def __init__(self) -> None:
        self.is_open = False
        self.made: dict[int, tuple[Any, Any]] = {}
        self.empty: list[tuple[types.CellType, Any]] = []


@functools.lru_cache(1 << 10)
def assigned_cells(code: types.CodeType) -> frozenset[str]:
    """The variables of enclosing functions that code assigns to."""
    found = {i.argval for i in dis.get_instructions(code) if i.opname in ("STORE_DEREF", "DELETE_DEREF")}
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found |= assigned_cells(constant)
    return frozenset(found)


@functools.lru_cache(1 << 10)
def _writes_globals(code: types.CodeType) -> bool:
    return any(i.opname in ("STORE_GLOBAL", "DELETE_GLOBAL") for i in dis.get_instructions(code))


def _writing(f: types.FunctionType) -> Any:
    """A function with a `global` statement: Python writes to the view, which no other code reads."""

    @functools.wraps(f)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return f(*args, **kwargs)
        finally:
            f.__globals__.hand_over()  # type: ignore[attr-defined]

    return call


def _slots(cls: type) -> list[str]:
    slots = vars(cls).get("__slots__", ())
    return [slots] if isinstance(slots, str) else list(slots)


_UNCHANGED = frozenset({Quick, int, bool, str, bytes, tuple, list, dict, set, type(None)})
_FACED = frozenset({"numpy", "scipy", "math", "cmath", "random", "statistics", "fractions", "functools"})
