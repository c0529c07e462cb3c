"""The builtins of adopted modules: `float`, `complex` and `type` that accept traced values, and NumPy's scalars likewise.

    float(x)              x itself, if x is a traced float
    type(x) is float      as of the value that x stands for

`float` and `complex` are classes in adopted code too: `isinstance(x, float)`, `dtype=float`, `class Angle(float)` and
`{float: …}[type(x)]` work. Only the call differs, and only for traced values: for others it is Python's own.
The other builtins (`abs`, `sum`, `min`, `max`, `round`, `pow`, `sorted`, `int`, `isinstance`) call special methods of the traced
value, and stay as they are.
"""

from __future__ import annotations

import builtins
import copyreg
import functools
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.bind import Traced, class_of, is_array
from ..core.home import ADOPTED, OWN, package_of
from ..core.quick import unquick
from ..core.types import REPLACED
from ..eager.batch import Batch

_names = type.__dict__["__dict__"].__get__  # vars() of a class, without `_Number.__getattribute__`

_METHODS = frozenset({types.WrapperDescriptorType, types.MethodDescriptorType})
_PLAIN = frozenset({bool, int, float, complex, str, np.float64, np.int64, np.ndarray})


class _Number(type):
    """The class of a class that replaces a class of numbers: it differs in what a call does with traced values."""

    replaces: type | None  # None of a class that user code derives
    convert: Callable[..., Any]

    def __call__(cls, *args: Any, **options: Any) -> Any:
        real = REPLACED.get(id(cls))
        if real is None:
            return type.__call__(cls, *args, **options)
        if len(args) == 1 and type(args[0]) in _PLAIN and not options:
            return real(args[0])
        if args:
            x = args[0]
            if not isinstance(x, Traced):
                x = _own_conversion(x, real)
            if isinstance(x, Traced) or any(isinstance(a, Traced) for a in args):
                return cls.convert(x, *args[1:], **options)
        return real(*args, **options)

    def __getattribute__(cls, name: str) -> Any:
        """`float.__mul__`: a method of the class, called with the number as an argument."""
        found = type.__getattribute__(cls, name)
        return _unbound(found, name) if type(found) in _METHODS and id(cls) in REPLACED else found

    def __instancecheck__(cls, x: Any) -> bool:
        real = REPLACED.get(id(cls))
        if real is None:
            return super().__instancecheck__(x)
        return type(x) is real or issubclass(class_of(x), real)

    def __subclasscheck__(cls, other: type) -> bool:
        real = _names(cls).get("replaces")
        # An abstract class asks its subclasses, this class among them; asking it in turn would recurse forever.
        return real in other.__mro__ if real is not None else super().__subclasscheck__(other)

    def __eq__(cls, other: object) -> bool:
        if not isinstance(other, type):
            return NotImplemented  # a dtype compares itself with a class
        return unreplaced(cls) is unreplaced(other)

    def __hash__(cls) -> int:
        return hash(_names(cls).get("replaces")) if "replaces" in _names(cls) else type.__hash__(cls)

    def __repr__(cls) -> str:
        real = _names(cls).get("replaces")
        return type.__repr__(cls if real is None else real)


@functools.cache
def _unbound(method: Any, name: str) -> Any:
    """A method of a class of numbers, that of the traced value for a call with one."""

    plain = name.strip("_")
    mirror = _MIRRORED.get(plain) or (plain[1:] if plain[0] == "r" and plain != "round" else f"r{plain}")

    @functools.wraps(method)
    def call(x: Any, *args: Any, **options: Any) -> Any:
        if isinstance(x, Traced):
            return getattr(x, name)(*args, **options)
        found = method(x, *args, **options)
        is_other = found is NotImplemented and isinstance(args[0], Traced)
        return getattr(args[0], f"__{mirror}__", lambda _: found)(x) if is_other else found

    return call


_MIRRORED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "eq": "eq", "ne": "ne"}


def unreplaced(cls: Any) -> Any:
    """Python's class for one of ours, for code that compares by identity; anything else unchanged."""
    if cls is AdoptedType:
        return type
    return _names(cls).get("replaces", cls) if isinstance(cls, _Number) else cls


def _own_conversion(x: Any, real: type) -> Any:
    """The traced value that `x.__float__()` of a class written in Python gives, or x."""
    method = getattr(type(x), f"__{real.__name__}__", None)
    if not isinstance(method, types.FunctionType):
        return x
    made = method(x)
    return made if isinstance(made, Traced) else x


def is_batched(x: Any) -> bool:
    """Whether x has a value for each example of a batch."""
    while isinstance(x, Traced):
        if isinstance(x.by, Batch):
            return True
        x = x.underlying
    return False


def scalar(x: Any) -> Any:
    """A traced number for an array of one element."""
    if x.size != 1:
        raise TypeError("only 0-dimensional arrays can be converted to Python scalars")
    return x.reshape(())[()] if is_array(x) else x


def _as_float(x: Any) -> Any:
    if x.dtype.kind == "c":
        raise TypeError(f"float() argument must be a string or a real number, not {class_of(x).__name__!r}")
    x = scalar(x)
    return x if x.dtype == np.float64 else x.astype(np.float64)


def _as_complex(real: Any = 0, imag: Any = 0) -> Any:
    parts = [scalar(x) if isinstance(x, Traced) else x for x in (real, imag)]
    made = parts[0] if not isinstance(parts[1], Traced) and parts[1] == 0 else parts[0] + 1j * parts[1]
    return made if made.dtype == np.complex128 else made.astype(np.complex128)


def replacing(real: type, convert: Callable[..., Any], dtype: Any = None) -> Any:
    """A class that replaces a class of numbers in adopted code. NumPy takes it for a dtype by its attribute."""
    meta = _Number if type(real) is type else type("_Number", (_Number, type(real)), {})
    names = {"replaces": real, "convert": staticmethod(convert), "__module__": real.__module__}
    names |= {"__qualname__": real.__qualname__, "__doc__": real.__doc__}
    made = meta(real.__name__, (real,), names if dtype is None else {**names, "dtype": np.dtype(dtype)})
    REPLACED[id(made)] = real
    return made


Float = replacing(float, _as_float, np.float64)
Complex = replacing(complex, _as_complex, np.complex128)


class _AdoptedTypes(type):
    def __call__(cls, *args: Any, **options: Any) -> Any:
        if cls is not AdoptedType or len(args) != 1 or options:
            return type.__call__(type if cls is AdoptedType else cls, *args, **options)
        found = class_of(args[0])
        return SEEN.get(found, found)

    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, type) if cls is AdoptedType else type.__instancecheck__(cls, x)

    def __subclasscheck__(cls, x: Any) -> bool:
        return issubclass(x, type) if cls is AdoptedType else type.__subclasscheck__(cls, x)

    def __getitem__(cls, parameters: Any) -> Any:
        """`type[X]`, in an annotation."""
        if cls is AdoptedType:
            return type[parameters]
        if not hasattr(cls, "__class_getitem__"):
            raise TypeError(f"type {cls.__name__!r} is not subscriptable")
        return cls.__class_getitem__(parameters)

    def __eq__(cls, other: object) -> bool:
        return cls is other or (cls is AdoptedType and other is type)

    def __hash__(cls) -> int:
        return hash(type) if cls is AdoptedType else type.__hash__(cls)


class AdoptedType(type, metaclass=_AdoptedTypes):
    """`type` for adopted code: of a traced value, the class of the value that it stands for."""


AdoptedType.__name__ = AdoptedType.__qualname__ = "type"
AdoptedType.__module__ = "builtins"


def _scalar_of(real: Any) -> Any:
    """`np.float64` and its kin: of an array, they give an array."""

    def convert(x: Any) -> Any:
        if class_of(x) in (float, complex):
            x = np.positive(x)  # a scalar of NumPy for a number of Python
        return (x[()] if x.ndim == 0 and is_array(x) else x).astype(real)

    return replacing(real, convert, real)


def _integer_of(real: Any) -> Any:
    """`np.int64` and its kin: of a number, a plain integer, which is constant as that of `int(x)` is."""

    def convert(x: Any) -> Any:
        if x.ndim or is_batched(x):
            return x.astype(real)
        while isinstance(x, Traced):
            x = x.by.concrete(x, "int() of")
        return real(x)

    return replacing(real, convert, real)


#: NumPy's classes of numbers, by their names.
SCALARS = {name: _scalar_of(getattr(np, name)) for name in ("float16", "float32", "float64", "complex64", "complex128")}
SCALARS |= {
    name: _integer_of(getattr(np, name)) for name in (f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64))
}
SCALARS |= {alias: SCALARS[name] for alias, name in {"half": "float16", "single": "float32", "double": "float64"}.items()}
SCALARS |= {name: SCALARS[np.dtype(name).name] for name in ("intp", "uintp", "int_", "uint")}
SCALARS |= {"csingle": SCALARS["complex64"], "cdouble": SCALARS["complex128"]}
#: What `type(x)` is in adopted code, by the class of x.
SEEN: dict[Any, Any] = {float: Float, complex: Complex, type: AdoptedType, _Number: AdoptedType, _AdoptedTypes: AdoptedType}
SEEN |= {cls.replaces: cls for cls in SCALARS.values()}


def _same(cls: Any) -> Any:
    return cls


copyreg.pickle(_Number, lambda cls: (_same, (cls.replaces,)) if "replaces" in _names(cls) else cls.__qualname__)  # type: ignore[arg-type]
copyreg.pickle(_AdoptedTypes, lambda cls: (_same, (type,)) if cls is AdoptedType else cls.__qualname__)  # type: ignore[arg-type]


def _build_class(body: Any, name: str, /, *bases: Any, **options: Any) -> Any:
    """A `class` statement. `class Unit(float, Enum)` derives from Python's float, since a class has one metaclass."""
    others = [type(base) for base in bases if not isinstance(base, _Number)] + [options.get("metaclass", type)]
    if not all(isinstance(meta, type) and issubclass(_Number, meta) for meta in others):
        bases = tuple(map(unreplaced, bases))
    made = builtins.__build_class__(body, name, *bases, **options)
    for key, value in list(getattr(made, "__dict__", {}).items()):
        if replaces_builtin(value):
            setattr(made, key, staticmethod(value))
    return made


def replaces_builtin(x: Any) -> bool:
    """Whether x is a function of ours for a builtin one, which as an attribute of a class is not a method."""
    x = unquick(x)
    if not isinstance(x, types.FunctionType) or package_of(x.__globals__.get("__name__", "")) != OWN:
        return False
    return isinstance(getattr(x, "__wrapped__", None) or getattr(np, x.__name__, None), types.BuiltinFunctionType)


def builtins_with(import_: Callable[..., Any]) -> dict[str, Any]:
    """The builtins of an adopted module."""
    ours = {"float": Float, "complex": Complex, "type": AdoptedType, "__import__": import_, "__build_class__": _build_class}
    return {**vars(builtins), **ours, ADOPTED: True}
