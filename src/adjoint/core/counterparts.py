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
from contextlib import suppress
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

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

_reaching: WeakKeyDictionary[types.FunctionType, bool] = WeakKeyDictionary()


def reaches(f: types.FunctionType) -> bool:
    """Whether a function of the user's, or one that it calls by name, names something with a counterpart or decides by `type(x)`.

    What it names is looked at once: a function keeps its answer when a global is bound to something else later.
    """
    known = _reaching.get(f)
    if known is None:
        known = _reaching[f] = False  # of a function that calls itself
        if can_be_copied(f):
            held = _held_by(f)
            if any(map(leads_there, held)) or _code_leads_there(f, [x for x in held if _is_scipy(x)]):
                known = _reaching[f] = True
    return known


class _Answer(NamedTuple):
    """What is known of the code of a function in a module, while its names stand for what they stood for."""

    scope: dict[str, Any]
    names: list[tuple[str, Any]]
    leads: bool

    def holds(self, scope: dict[str, Any]) -> bool:
        return self.scope is scope and all(_kind(scope.get(name)) is kind for name, kind in self.names)


_answers: dict[types.CodeType, _Answer] = {}
_MOST = 1 << 10


def _code_leads_there(f: types.FunctionType, modules: list[Any]) -> bool:
    """Whether a function that holds these modules of SciPy decides by `type(x)` or names something with a counterpart."""
    code, scope = f.__code__, f.__globals__
    known = _answers.get(code)
    if known is not None and not modules and known.holds(scope):
        return known.leads
    named = {name: scope[name] for name in names_in(code) if name in scope}
    leads = bool(decisions(f)) or any(map(leads_there, _named_in(f, [*named.values(), *modules])))
    if not modules and not any(can_be_extended(type(x)) for x in named.values()):  # that depends on the attributes of an object
        if len(_answers) >= _MOST:
            _answers.clear()
        _answers[code] = _Answer(scope, [(name, _kind(x)) for name, x in named.items()], leads)
    return leads


def _kind(x: Any) -> Any:
    return x if isinstance(x, (types.FunctionType, type, types.ModuleType)) else type(x)


def _held_by(f: types.FunctionType) -> list[Any]:
    """The contents of the closure and the defaults of a function."""
    found = [*(f.__defaults__ or ()), *(f.__kwdefaults__ or {}).values()]
    for cell in f.__closure__ or ():
        with suppress(ValueError):  # not yet assigned
            found.append(cell.cell_contents)
    return found


def leads_there(x: Any) -> bool:
    """Whether an object is, calls or has something with a counterpart, as far as `reaches` looks."""
    cls = type(x)
    if cls in _DATA:
        return False
    if cls is type:
        return x.__module__.startswith(_BELOW) and counterpart(x) is not None
    if cls is types.FunctionType:
        return counterpart(x) is not None if x.__module__ and x.__module__.startswith(_BELOW) else reaches(x)
    if cls is types.MethodType:
        return counterpart(x) is not None or leads_there(x.__func__) or leads_there(x.__self__)
    if isinstance(x, functools.partial):
        return leads_there(x.func)
    return counterpart(x) is not None if _is_of_scipy(x) else has_methods(x)


def has_methods(x: Any) -> bool:
    """Whether a method of an object of the user's, or a distribution among its attributes, leads to a counterpart."""
    attributes = getattr(x, "__dict__", None)
    if not isinstance(attributes, dict) or not can_be_extended(type(x)):
        return False
    return _has_method(type(x)) or any(counterpart(y) is not None for y in attributes.values() if _is_of_scipy(y))


def can_be_extended(cls: type) -> bool:
    """Whether a class is the user's own, and a subclass of it is without effect: no metaclass or base class takes notice."""
    bases = cls.__mro__[:-1]
    is_own = all(package_of(c.__module__) not in _LIBRARY and not is_installed(c.__module__) for c in bases)
    return (
        is_own
        and type(cls) in (type, abc.ABCMeta)
        and not any({"__init_subclass__", "__slots__"} & vars(c).keys() for c in bases)
    )


_leading: WeakKeyDictionary[type, bool] = WeakKeyDictionary()


def _has_method(cls: type) -> bool:
    """Whether a method of a class reaches something with a counterpart."""
    known = _leading.get(cls)
    if known is None:
        _leading[cls] = False  # of a method that names an object of the class
        functions = [f for c in cls.__mro__ for f in vars(c).values() if type(f) is types.FunctionType]
        known = _leading[cls] = any(map(reaches, functions))
    return known


def _is_of_scipy(x: Any) -> bool:
    return type(x).__module__.startswith(_BELOW) or _is_multimethod(x)


_DATA = frozenset({int, float, complex, bool, str, tuple, list, dict, type(None)})
_DATA |= {types.BuiltinFunctionType, types.ModuleType}


def can_be_copied(f: types.FunctionType) -> bool:
    """Whether a function is the user's own: not of a package or of Python's library, and not a copy that a transform runs."""
    home = f.__module__ or ""
    return type(f.__globals__) is dict and package_of(home) not in _LIBRARY and not is_installed(home)


_LIBRARY = sys.stdlib_module_names - {"__main__"} | {OWN}


def _named_in(f: types.FunctionType, named: list[Any]) -> list[Any]:
    """The objects that a function names: globals, attributes of SciPy's modules, imports."""
    names = [*names_in(f.__code__)]
    found = named + [sys.modules[name] for name in names if name.startswith(_SCIPY) and name in sys.modules]  # imported inside
    modules = [x for x in found if _is_scipy(x)]
    if any(module.__name__ == _SCIPY for module in modules):  # which loads its modules when they are named
        own = importlib.import_module(f"{OWN}.{_SCIPY}")
        modules += [importlib.import_module(_BELOW + name) for name in names if name in own._MODULES]
    return found + [vars(module)[name] for module in modules for name in names if name in vars(module)]


def _is_scipy(x: Any) -> bool:
    return isinstance(x, types.ModuleType) and f"{x.__name__}.".startswith(_BELOW)
