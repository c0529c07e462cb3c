"""SciPy's functions that convert their arguments to plain arrays, and our counterparts of them, found by identity.

    scipy.special.logsumexp      →  adjoint.scipy.special.logsumexp
    scipy.stats.norm             →  adjoint.scipy.stats.norm           a distribution
    scipy.stats.norm(0, 2).cdf   →  adjoint.scipy.stats.norm(0, 2).cdf

NumPy's functions and SciPy's ufuncs ask a traced value what to do; these do not. Where a transform runs a function of the user's,
they are replaced: while staging as the names are read (`staging/reads.py`), elsewhere in a copy of the function
(`adopt/plain.py`), which is made if the function reaches one of them, or asks for the class of a value (`reaches`).
"""

from __future__ import annotations

import abc
import functools
import importlib
import sys
import types
import weakref
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, Literal, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from .code import names_in
from .home import OWN, is_installed, package_of
from .type_decisions import decisions

_SCIPY = "scipy"
_BELOW = f"{_SCIPY}."


def counterpart(x: Any) -> Any:
    """Ours of a function, class, distribution or method of SciPy; None if SciPy's is to be called.

    >>> import scipy.special
    >>> counterpart(scipy.special.logsumexp).__module__
    'adjoint.scipy.special'
    >>> counterpart(scipy.special.erf), counterpart(sorted)   # a ufunc asks its arguments
    (None, None)
    """
    if isinstance(x, (types.FunctionType, type)) or _is_multimethod(x):
        return _named(x.__module__, x.__name__, x)
    if isinstance(x, types.MethodType):
        owner = counterpart(x.__self__)
        return None if owner is None else getattr(owner, x.__func__.__name__, None)
    home = type(x).__module__
    if package_of(home) != _SCIPY:
        return None
    if hasattr(x, "dist") and hasattr(x, "args") and hasattr(x, "kwds"):  # a distribution with its parameters
        owner = _named(home, x.dist.name, _original(x.dist))
        return None if owner is None else owner(*x.args, **x.kwds)
    return _named(home, getattr(x, "name", None) or getattr(x, "__name__", None) or _name_of(x), x)


def _is_multimethod(x: Any) -> bool:
    """Whether x is a function that SciPy lets other packages replace, as those of scipy.fft."""
    return type(x).__module__ == "uarray"


def _original(x: Any) -> Any:
    """The distribution that the one in a distribution with parameters is a copy of."""
    public: Any = getattr(sys.modules["scipy.stats"], x.name, None)
    return public if type(public) is type(x) and (public.a, public.b) == (x.a, x.b) else x


def _name_of(x: Any) -> str | None:
    """The name of an object in scipy.stats, for one that does not know it."""
    return next((name for name, y in vars(sys.modules.get("scipy.stats", sys)).items() if y is x), None)


def _named(home: Any, name: Any, x: Any) -> Any:
    """Ours of an object that a public module of SciPy has by this name."""
    if package_of(home) != _SCIPY or not isinstance(name, str):
        return None
    module = ".".join(home.split(".")[:2])  # the public module of a private one
    if getattr(sys.modules.get(module), name, None) is not x:
        return None
    ours = _ours(module)
    found = getattr(ours, name, None)
    return None if found is x else found


@functools.cache
def _ours(module: str) -> types.ModuleType | None:
    """Our module in place of a public one of SciPy."""
    own = importlib.import_module(f"{OWN}.{_SCIPY}")  # by name: it is made of all that is below it
    name = module.partition(".")[2]
    return getattr(own, name) if name in own._MODULES else None


# -- what a function can reach --------------------------------------------------------------------------------------


def reaches(f: types.FunctionType) -> bool:
    """Whether a function of the user's, or one that it calls by name, names something with a counterpart or decides by `type(x)`.

    That it does is kept. That it does not holds for as long as the names, cells and defaults of these functions, and the methods
    that they name, are what they were.
    """
    if type(f.__globals__) is not dict:  # of a copy
        return False
    known = _reaching.get(f)
    if known is True:
        return True
    if known is None:
        known = _found.get(f.__code__)
    if known is None or not known.holds(f):
        known = _search(f)
        if known is not True:
            if len(_found) >= _MOST:
                _found.clear()
            _found[f.__code__] = known
    _reaching[f] = known
    return known is True


def leads_there(x: Any) -> bool:
    """Whether an object is, calls or has something with a counterpart, as far as `reaches` looks."""
    if type(x) is types.FunctionType and not (x.__module__ or "").startswith(_BELOW):
        return reaches(x)
    found = _functions_of(x)
    return found is None or any(map(reaches, found))


def has_methods(x: Any) -> bool:
    """Whether a method of an object of the user's, or a distribution among its attributes, leads to a counterpart."""
    return _has_attributes(x) and can_be_extended(type(x)) and (_has_distribution(x) or any(map(reaches, methods(type(x)))))


def methods(cls: type) -> list[types.FunctionType]:
    """The functions in a class and in its bases."""
    return [f for c in cls.__mro__[:-1] for f in vars(c).values() if type(f) is types.FunctionType]


class _Nothing:
    """That a function reaches nothing with a counterpart, while what it and others name and hold stands for what it stood for.

    A function or a class is remembered by a reference, a module by itself, of other objects the class. So the answer for one
    function is that for others of its code.
    """

    __slots__ = ("code", "functions", "held", "home", "named", "scopes")

    def __init__(self, f: types.FunctionType) -> None:
        self.code, self.home = f.__code__, f.__module__
        self.functions: dict[weakref.ref[types.FunctionType] | None, types.CodeType] = {}
        self.held: dict[weakref.ref[types.FunctionType] | None, list[Any]] = {}  # of those that hold something; None: of f
        self.scopes: dict[int, _Scope] = {}
        self.named: list[tuple[weakref.ref[type], str, Any]] = []  # methods of classes

    def add(self, f: types.FunctionType, held: Sequence[Any]) -> None:
        """Note a function, and what it names and holds."""
        ref = None if not self.scopes else weakref.ref(f)
        if ref is not None:
            self.functions[ref] = f.__code__
        if held:
            self.held[ref] = [*map(_kind, held)]
        names = f.__globals__
        scope = self.scopes.setdefault(id(names), _Scope(ref, {}, set()))
        for name in names_of(f.__code__):
            if name in names:
                scope.kinds[name] = _kind(names[name])
            else:
                scope.absent.add(name)

    def add_class(self, cls: type, names: Iterable[str]) -> None:
        """Note the methods that may be called: those that are named, and the special ones."""
        ref, special = weakref.ref(cls), [f.__name__ for f in methods(cls) if f.__name__.startswith("__")]
        self.named += [(ref, name, _kind(getattr(cls, name, None))) for name in (*special, *names)]

    def holds(self, root: types.FunctionType) -> bool:
        if root.__code__ is not self.code or root.__module__ != self.home:
            return False
        for ref, code in self.functions.items():
            f = ref() if ref is not None else root
            if f is None or f.__code__ is not code:
                return False
        for scope in self.scopes.values():
            f = scope.function() if scope.function is not None else root
            if f is None or not scope.holds(f.__globals__):
                return False
        for ref, then in self.held.items():
            f = ref() if ref is not None else root
            now = _held_by(f) if f is not None else ()
            if len(now) != len(then) or any(_kind(x) is not kind for x, kind in zip(now, then, strict=True)):
                return False
        for of, name, kind in self.named:
            cls = of()
            if cls is None or _kind(getattr(cls, name, None)) is not kind:
                return False
        return None in self.held or not _held_by(root)


class _Scope(NamedTuple):
    """The globals of a function (None: of the one that was asked for): what names stand for, and which do not exist."""

    function: weakref.ref[types.FunctionType] | None
    kinds: dict[str, Any]
    absent: set[str]

    def holds(self, names: dict[str, Any]) -> bool:
        if not names.keys().isdisjoint(self.absent):
            return False
        for name, kind in self.kinds.items():
            x = names.get(name)
            if x is not kind and _kind(x) is not kind:
                return False
        return True


_reaching: WeakKeyDictionary[types.FunctionType, _Nothing | Literal[True]] = WeakKeyDictionary()
_found: dict[types.CodeType, _Nothing] = {}
_MOST = 1 << 10


def _search(f: types.FunctionType) -> _Nothing | Literal[True]:
    """True if a function, or one that it leads to, reaches a counterpart or decides; else what that depends on."""
    nothing, waiting, seen = _Nothing(f), [f], {id(f)}
    names: dict[str, None] = {}
    classes: dict[int, type] = {}
    for g in waiting:  # which grows
        if type(g.__globals__) is not dict:
            continue
        if _reaching.get(g) is True:
            return True
        held, scope = _held_by(g), g.__globals__
        nothing.add(g, held)
        if can_be_copied(g):
            own = names_of(g.__code__)
            names |= dict.fromkeys(own)
            if decisions(g):
                return True
            for x in _named_in(g, [*held, *[scope[name] for name in own if name in scope]]):
                if type(x) in _DATA:
                    continue
                found = _functions_of(x)
                if found is None:
                    return True
                if found and type(x) is not types.FunctionType:
                    cls = type(getattr(x, "__self__", x))
                    classes[id(cls)] = cls
                new = [h for h in found if id(h) not in seen]
                seen.update(map(id, new))
                waiting += new
    for cls in classes.values():
        nothing.add_class(cls, names)
    return nothing


def _functions_of(x: Any) -> Sequence[types.FunctionType] | None:
    """The functions that an object is or calls, which may reach something with a counterpart; None if it has one itself."""
    cls = type(x)
    if cls in _DATA:
        return ()
    if cls is type:
        return None if x.__module__.startswith(_BELOW) and counterpart(x) is not None else ()
    if cls is types.FunctionType:
        if x.__module__ and x.__module__.startswith(_BELOW):
            return None if counterpart(x) is not None else ()
        return (x,)
    if cls is types.MethodType:
        parts = None if counterpart(x) is not None else [_functions_of(x.__func__), _functions_of(x.__self__)]
        return None if parts is None or None in parts else [f for part in parts for f in part or ()]
    if isinstance(x, functools.partial):
        return _functions_of(x.func)
    if _is_of_scipy(x):
        return None if counterpart(x) is not None else ()
    if not _has_attributes(x) or not can_be_extended(cls):
        return ()
    return None if _has_distribution(x) else methods(cls)


def _has_attributes(x: Any) -> bool:
    return isinstance(getattr(x, "__dict__", None), dict)


def _has_distribution(x: Any) -> bool:
    """Whether an attribute of an object has a counterpart."""
    values = x.__dict__.values()
    return any(map(_is_class_of_scipy, map(type, values))) and any(counterpart(y) is not None for y in values if _is_of_scipy(y))


def _kind(x: Any) -> Any:
    """What is remembered of an object."""
    cls = type(x)
    if cls in _CALLED:
        return weakref.ref(x)
    if cls is types.ModuleType:
        return x
    if cls in _DATA:
        return cls
    if _has_attributes(x) and can_be_extended(cls) and _has_distribution(x):
        return object()  # one that equals no other
    return cls


_CALLED = frozenset({types.FunctionType, types.MethodType, type})


def _held_by(f: types.FunctionType) -> Sequence[Any]:
    """The contents of the closure and the defaults of a function."""
    if not f.__closure__ and not f.__defaults__ and not f.__kwdefaults__:
        return ()
    found = [*(f.__defaults__ or ()), *(f.__kwdefaults__ or {}).values()]
    for cell in f.__closure__ or ():
        with suppress(ValueError):  # not yet assigned
            found.append(cell.cell_contents)
    return found


@functools.lru_cache(1 << 10)
def names_of(code: types.CodeType) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names_in(code)))


def can_be_extended(cls: type) -> bool:
    """Whether a class is the user's own, and a subclass of it is without effect: no metaclass or base class takes notice."""
    known = _extendable.get(cls)
    if known is None:
        known = _extendable[cls] = _can_be_extended(cls)
    return known


_extendable: WeakKeyDictionary[type, bool] = WeakKeyDictionary()


def _can_be_extended(cls: type) -> bool:
    bases = cls.__mro__[:-1]
    is_own = all(package_of(c.__module__) not in _LIBRARY and not is_installed(c.__module__) for c in bases)
    return (
        is_own
        and type(cls) in (type, abc.ABCMeta)
        and not any({"__init_subclass__", "__slots__"} & vars(c).keys() for c in bases)
    )


def _is_of_scipy(x: Any) -> bool:
    cls: Any = type(x)
    return _is_class_of_scipy(cls)


def _is_class_of_scipy(cls: type) -> bool:
    return cls.__module__.startswith(_BELOW) or cls.__module__ == "uarray"  # functions that other packages may replace


_DATA = frozenset({int, float, complex, bool, str, tuple, list, dict, type(None)})
_DATA |= {types.BuiltinFunctionType, types.ModuleType, np.ndarray, np.float64, np.ufunc}


def can_be_copied(f: types.FunctionType) -> bool:
    """Whether a function is the user's own: not of a package or of Python's library, and not a copy that a transform runs."""
    home = f.__module__ or ""
    return type(f.__globals__) is dict and package_of(home) not in _LIBRARY and not is_installed(home)


_LIBRARY = sys.stdlib_module_names - {"__main__"} | {OWN}


def _named_in(f: types.FunctionType, named: list[Any]) -> list[Any]:
    """The objects that a function names and holds: these, attributes of SciPy's modules among them, imports."""
    names = names_of(f.__code__)
    found = named + [sys.modules[name] for name in _imports(f.__code__) if name in sys.modules]  # imported inside
    modules = [x for x in found if type(x) is types.ModuleType and _is_scipy(x)]
    if any(module.__name__ == _SCIPY for module in modules):  # which loads its modules when they are named
        own = importlib.import_module(f"{OWN}.{_SCIPY}")
        modules += [importlib.import_module(_BELOW + name) for name in names if name in own._MODULES]
    return found + [vars(module)[name] for module in modules for name in names if name in vars(module)]


@functools.lru_cache(1 << 10)
def _imports(code: types.CodeType) -> tuple[str, ...]:
    return tuple([name for name in names_of(code) if name.startswith(_SCIPY)])


def _is_scipy(x: Any) -> bool:
    return isinstance(x, types.ModuleType) and f"{x.__name__}.".startswith(_BELOW)
