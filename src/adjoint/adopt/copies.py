"""Private copies of modules: `iapws.iapws97` runs a second time as `adjoint.adopted.iapws.iapws97`.

A copy has its own `__builtins__`, and in them its own `__import__`: `import numpy` gives `adjoint.numpy`, `import fluids` the
copy of fluids, `import pandas` pandas. A finder in `sys.meta_path` answers for names below `adjoint.adopted`, so that the rest
(locks, circular imports, submodules, pickle by name) is the work of Python's import system. The originals are not touched.
"""

from __future__ import annotations

import builtins
import cmath
import contextvars
import functools
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import math
import re
import sys
import types
from collections.abc import Callable, Iterable
from importlib.machinery import ModuleSpec
from typing import Any

import numpy

from .. import numpy as anp
from ..core.bind import Traced, around, depth
from ..core.errors import ArgumentError
from ..core.home import COPIES, OPTIONS, OWN, original_name
from ..core.locks import lock
from . import library, mathematics, numba
from .builtin import SCALARS, builtins_with
from .choice import Choice, find_spec, has_source, holds_part, is_part
from .native import QuickFace, as_module
from .spatial import backends_by_value, spatial_face
from .symbolic import SymPy

_PREFIX = f"{COPIES}."


class World:
    """Copies that import one another: those made with the same options."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.prefix = f"{_PREFIX}{key}." if key else _PREFIX
        self.choice = Choice(*_options(key))
        self.builtins = builtins_with(self.import_)
        self.faces: dict[str, Any] = {
            "random": library.RANDOM,
            "fractions": library.FRACTIONS,
            "functools": library.FUNCTOOLS,
            "inspect": library.INSPECT,
            "numba": numba.NUMBA,
            "importlib": library.importlib_face(self.import_module),
            "builtins": library.builtins_face(self.builtins),
            "sys": library.sys_face(library.Modules(self.name_of)),
        }
        for excluded in self.choice.exclude:
            self.faces.pop(excluded, None)

    # -- names --

    def name_of(self, name: str) -> str:
        """The name of the copy, if a module is copied; of any other module its own."""
        return self.prefix + name if not name.startswith(_PREFIX) and self.choice.is_adopted(name) else name

    def face(self, name: str) -> Any:
        """The replacement of a library module, or None."""
        root, _, rest = name.partition(".")
        if is_part(name):
            return None
        if root not in self.faces and root in MADE and root not in self.choice.exclude:
            self.faces[root] = MADE[root](self)
        found = self.faces.get(root)
        if found is None or not rest:
            return found
        if isinstance(found, SymPy):
            return found.module(name)
        if root == "autograd":
            return importlib.import_module(f"{found.__name__}.{rest}")
        if root != "numba":
            importlib.import_module(name)  # raises if there is no such module
        for part in rest.split("."):
            found = getattr(found, part)
        return found

    # -- importing --

    def load(self, name: str) -> Any:
        """The module that `import name` in adopted code refers to."""
        face = self.face(name)
        return face if face is not None else importlib.import_module(self.name_of(name))

    def import_module(self, name: str, package: str | None = None) -> Any:
        """`importlib.import_module` in adopted code."""
        return self.load(original_name(importlib.util.resolve_name(name, package) if name.startswith(".") else name))

    def import_(self, name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:
        """`__import__` of adopted modules."""
        if level:
            package = (globals or {}).get("__package__") or (globals or {}).get("__name__", "").rpartition(".")[0]
            name = original_name(importlib.util.resolve_name("." * level + name, package))
        face = self.face(name)
        if face is not None:
            if not fromlist:
                return self.face(name.partition(".")[0])
            for part in fromlist:
                if part != "*" and not hasattr(face, part):
                    _import_part(f"{name}.{part}")
            return face
        copy = self.name_of(name)
        if copy == name:
            return builtins.__import__(name, globals, locals, fromlist, 0)
        if fromlist:
            return builtins.__import__(copy, globals, locals, fromlist, 0)
        importlib.import_module(copy)
        return self.load(name.partition(".")[0])

    def adopt(self, name: str) -> Any:
        """The copy of a module that the user names."""
        face = self.face(name)
        if face is None and not is_part(name):
            self.choice.asked.add(name.partition(".")[0])
        return face if face is not None else importlib.import_module(self.prefix + name)


def _import_part(name: str) -> None:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise


# -- NumPy and SciPy ----------------------------------------------------------------------------------------------


class _Broadcasts(type):
    """The class of a class that makes NumPy's `broadcast`, or ours of traced arrays."""

    def __call__(cls, *args: Any) -> Any:
        return super().__call__(*args) if any(isinstance(x, Traced) for x in args) else numpy.broadcast(*args)

    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, numpy.broadcast) or super().__instancecheck__(x)


class Broadcast(metaclass=_Broadcasts):
    """`np.broadcast` of traced arrays: the shape of the result, and its elements one by one."""

    def __init__(self, *args: Any) -> None:
        self.arrays = anp.broadcast_arrays(*args)
        self.shape: tuple[int, ...] = self.arrays[0].shape
        self.numiter, self.index = len(args), 0
        self.nd = self.ndim = len(self.shape)
        self.size = math.prod(self.shape)

    @property
    def iters(self) -> tuple[Any, ...]:
        return tuple([iter(x.reshape(-1)) for x in self.arrays])

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> tuple[Any, ...]:
        if self.index >= self.size:
            raise StopIteration
        at = numpy.unravel_index(self.index, self.shape)
        self.index += 1
        return tuple([x[at] for x in self.arrays])

    def reset(self) -> None:
        self.index = 0


def _numpy_face(world: World) -> Any:
    parts = {name: as_module(QuickFace(getattr(anp, name), {}, getattr(numpy, name))) for name in ("linalg", "fft")}
    by_name = {key: SCALARS.get(cls.__name__, cls) for key, cls in numpy.sctypeDict.items()}
    return as_module(_Library(anp, {**parts, **SCALARS, "sctypeDict": by_name, "broadcast": Broadcast}, numpy, world))


class _Library(QuickFace):
    """A package of which adopted code sees copies of some parts: see `PARTS`."""

    def __init__(self, original: Any, names: Any, public: Any, world: World) -> None:
        super().__init__(original, names, public)
        vars(self)["_world"] = world

    def __getattr__(self, name: str) -> Any:
        found = self._found(f"{self.__name__}.{name}")
        if found is None:
            return super().__getattr__(name)
        vars(self)[name] = found
        return found

    def _found(self, name: str) -> Any:
        world = vars(self)["_world"]
        if is_part(name):
            return world.load(name)
        if holds_part(name):
            original = importlib.import_module(name)
            return _Library(original, {}, original, world)
        return None


class _SciPy(_Library):
    """SciPy with our modules in it. They are loaded on first use, as SciPy's own are."""

    def _found(self, name: str) -> Any:
        part = name.rpartition(".")[2]
        if part in importlib.import_module(f"{OWN}.scipy")._MODULES:
            return as_module(QuickFace(importlib.import_module(f"{OWN}.{name}"), {}, importlib.import_module(name)))
        return spatial_face(vars(self)["_world"].load) if part == "spatial" else super()._found(name)


def _scipy_face(world: World) -> Any:
    scipy = importlib.import_module("scipy")
    return _SciPy(scipy, {}, scipy, world)


def _statistics_face(world: World) -> Any:
    world.choice.include |= {"statistics"}
    return library.statistics_face(importlib.import_module(f"{world.prefix}statistics"))


def _autograd_face(world: World) -> Any:
    """HIPS/autograd, whose names this package has too."""
    return importlib.import_module(f"{OWN}.compat.autograd")


#: Replacements that are made on first use.
MADE: dict[str, Callable[[World], Any]] = {
    "math": lambda world: as_module(QuickFace(mathematics.MATH, {}, math)),
    "cmath": lambda world: as_module(QuickFace(mathematics.CMATH, {}, cmath)),
    "numpy": _numpy_face,
    "scipy": _scipy_face,
    "statistics": _statistics_face,
    "autograd": _autograd_face,
}


# -- the finder ---------------------------------------------------------------------------------------------------


def _run(code: types.CodeType, names: dict[str, Any]) -> None:
    """Run a module outside the transform that imports it: its constants outlive the call."""
    depth.set(0)
    around.set(())
    exec(code, names)


def _matrix_equations(names: dict[str, Any]) -> dict[str, Any]:
    """Functions of array_api_compat that call compiled code of NumPy's by themselves."""

    def either(original: Callable[..., Any], ours: Callable[..., Any]) -> Callable[..., Any]:
        is_traced = lambda x: isinstance(x, Traced)
        return functools.wraps(original)(lambda *args: (ours if any(map(is_traced, args)) else original)(*args))

    def eig(x: Any) -> Any:
        values, vectors = anp.linalg.eig(x)
        return names["EigResult"](values + 0j, vectors + 0j)  # complex, as the standard has it

    found = {"solve": either(names["solve"], anp.linalg.solve)}
    return found | ({"eig": either(names["eig"], eig)} if "EigResult" in names else {})


#: Names that are replaced in a copy once it has run, given its names: rules for what compiled code does there. Of a module by its
#: name, wherever it is vendored.
AMENDED: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "array_api_compat.numpy.linalg": _matrix_equations,
    "scipy.spatial.transform._rotation": backends_by_value,
    "scipy.spatial.transform._rigid_transform": backends_by_value,
}


class Loader(importlib.abc.Loader):
    """Runs the code of a module as a copy. What else is asked of it, the loader of the original answers, by its name."""

    def __init__(self, world: World, original: ModuleSpec) -> None:
        self.world, self.original = world, original

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: types.ModuleType) -> None:
        vars(module)["__builtins__"] = self.world.builtins
        code = self.original.loader.get_code(self.original.name)  # type: ignore[union-attr]
        try:
            contextvars.copy_context().run(_run, code, vars(module))
            for ending, amend in AMENDED.items():
                if f".{self.original.name}".endswith(f".{ending}"):
                    vars(module).update(amend(vars(module)))
        except Exception as error:
            error.add_note(
                f"This is a second copy of {self.original.name}, made by ad.adopt. If the module cannot be loaded twice, leave "
                f"it as it is: exclude=[{self.original.name!r}]"
            )
            raise

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or self.__dict__.get("original") is None:
            raise AttributeError(name)
        found = getattr(self.original.loader, name)
        if name not in _OF_NAMES:
            return found
        return functools.wraps(found)(lambda module=None: found(self.original.name))


_OF_NAMES = frozenset({"get_source", "get_code", "get_filename", "is_package", "get_resource_reader"})


class Borrowed(importlib.abc.Loader):
    """Puts the original in place of a copy: of an extension module, whose code cannot be run again."""

    def __init__(self, name: str) -> None:
        self.name = name

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: types.ModuleType) -> None:
        sys.modules[module.__name__] = importlib.import_module(self.name)


class Finder:
    """Finds copies by their names."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if not name.startswith(_PREFIX):
            return None
        key, _, rest = name[len(_PREFIX) :].partition(".")
        if not key.startswith(OPTIONS):
            return _spec(world_of(""), name)
        if not rest:
            return ModuleSpec(name, None, is_package=True)
        return _spec(world_of(key), name)

    def invalidate_caches(self) -> None:
        pass


def _spec(world: World, name: str) -> ModuleSpec | None:
    original = original_name(name)
    if holds_part(original):  # a parent of copies, which is not run itself
        spec = ModuleSpec(name, None, is_package=True)
        spec.submodule_search_locations = list(importlib.import_module(original).__path__)
        return spec
    parent = sys.modules.get(name.rpartition(".")[0])
    path = getattr(parent, "__path__", None) if "." in original else None
    found = find_spec(original, path)
    if found is None:
        return None
    if not is_part(original):
        world.choice.asked.add(original.partition(".")[0])
    if found.loader is None or (found.origin is None and found.submodule_search_locations is not None):  # a namespace package
        spec = ModuleSpec(name, None, is_package=True)
    elif has_source(found) and not any(f"{original}.".startswith(f"{x}.") for x in world.choice.exclude):
        spec = ModuleSpec(
            name, Loader(world, found), origin=found.origin, is_package=found.submodule_search_locations is not None
        )
        spec.has_location, spec.cached = found.has_location, found.cached
    else:
        return ModuleSpec(name, Borrowed(original), origin=found.origin)  # type: ignore[arg-type]
    if found.submodule_search_locations is not None:
        spec.submodule_search_locations = list(found.submodule_search_locations)
    return spec


def install() -> None:
    """Let Python's import system find copies."""
    if not any(isinstance(finder, Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, Finder())  # type: ignore[arg-type]


# -- one world for each choice of options ---------------------------------------------------------------------------

_worlds: dict[str, World] = {}
_lock = lock()


def world_of(key: str) -> World:
    with _lock:
        if key not in _worlds:
            _worlds[key] = World(key)
        return _worlds[key]


def world_with(include: Iterable[str] = (), exclude: Iterable[str] = ()) -> World:
    """The copies made with these options. The options are part of their names, so that another process finds them."""
    included, excluded = _names(include, "include"), _names(exclude, "exclude")
    importlib.import_module(COPIES)
    if not included and not excluded:
        return world_of("")
    return world_of("".join([OPTIONS, *(f"+{x}" for x in included), *(f"-{x}" for x in excluded)]).replace(".", ":"))


def _names(given: Iterable[str], option: str) -> list[str]:
    names = [given] if isinstance(given, str) else list(given)
    for name in names:
        if not isinstance(name, str) or not all(part.isidentifier() for part in name.split(".")):
            raise ArgumentError(f"{option}= of adopt takes the names of packages or modules, not {name!r}")
    return sorted(names)


def _options(key: str) -> tuple[frozenset[str], frozenset[str]]:
    """The options in the name of a world: `=+attr-numba` is include=["attr"], exclude=["numba"]."""
    found = re.findall(r"([+-])([^+-]+)", key.replace(":", "."))
    return frozenset(name for sign, name in found if sign == "+"), frozenset(name for sign, name in found if sign == "-")
