"""Operators, methods and NumPy's two protocols for traced values, so that plain `numpy` works on them.

Everything here is installed on `core.bind.Traced`, which is independent of NumPy's API.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..core.bind import FRESH, Traced, class_of
from ..core.errors import ArgumentError, AttributeMissingError, UnsupportedError
from ..core.op import OPS, Elementwise
from ..core.types import PYTHON_NUMBERS, Shape
from ..eager.record import eventually, quicken, recorder
from ..ops import broadcast as shapes
from ..staging.python import strengthened
from . import labels
from .advice import advice
from .concrete import primals
from .conversion import CONVERSIONS
from .create import same_or_copy
from .flags import Flags, setflags
from .keys import equal, equal_as_key, hash_
from .layout import copied, in_order
from .mutate import Flat, partition_in_place, sort_in_place
from .operators import install_operators
from .shape import clip_between, with_imag, with_real
from .standard import VERSIONS
from .standin import Sought, lacking, of_arrays
from .table import FUNCTIONS, REFUSED, REMEDY, find_ufunc, is_scipy, lift
from .ufunc import METHODS, call_with_options, check_cast, check_options
from .views import read, write

# -- attributes -------------------------------------------------------------------------------------------------


def _shape(self: Traced) -> Shape:
    return self.by.shape(self)


def _dtype(self: Traced) -> np.dtype[Any]:
    return self.by.dtype(self)


def _size(self: Traced) -> int:
    n = 1
    for d in self.shape:  # type: ignore[attr-defined]
        n *= d
    return n


def _array_namespace(self: Traced, /, *, api_version: str | None = None) -> Any:
    if api_version is not None and api_version not in VERSIONS:
        raise ValueError(f"the Array API of version {api_version!r} is not supported; {VERSIONS[-1]} is")
    return sys.modules[__package__]


def _to_device(self: Traced, device: Any, /, *, stream: Any = None) -> Traced:
    if device != "cpu":
        raise ValueError(f"the device of a traced value is 'cpu', not {device!r}")
    if stream is not None:
        raise ValueError("there are no streams on the device 'cpu'")
    return self


# -- the rest of an array ---------------------------------------------------------------------------------------


def _len(self: Traced) -> int:
    shape: Shape = self.shape  # type: ignore[attr-defined]
    if not shape:
        raise TypeError("len() of unsized object")
    return shape[0]


def _iter(self: Traced) -> Iterator[Any]:
    if not self.shape:  # type: ignore[attr-defined]
        if not self.by.has_numbers:
            raise ArgumentError(f"iteration over {self!r}, which has no axes")
        raise TypeError("iteration over a 0-d array")
    return (read(self, i) for i in range(len(self)))  # type: ignore[arg-type]


def _contains(self: Traced, item: Any) -> bool:
    return bool(np.any(np.equal(self, item)))  # type: ignore[call-overload]


#: Attributes of NumPy arrays that a traced value, which has no memory, cannot have.
_OF_MEMORY = (
    *("base", "byteswap", "ctypes", "data", "dump", "dumps", "getfield", "resize", "setfield", "strides"),
    *("tobytes", "tofile"),
)


#: Attributes of arrays and integers that have no remedy to name.
_LACKING = ("__array_interface__", "__array_struct__", "numerator", "denominator", "bit_count", "bit_length", "to_bytes")


def _no_memory(name: str) -> Callable[[Traced], AttributeMissingError]:
    """The error for an attribute of the memory. (A `__getattr__` would slow down every attribute access.)"""

    def error(self: Traced) -> AttributeMissingError:
        called, better = advice()
        inside = f", which {called} asks for," if called and better else ""
        return AttributeMissingError(
            f"a value traced by {self.by.name} has no .{name}{inside} since it has no memory; "
            f"{better or 'use NumPy functions that make a new array'}, or ad.stop_gradient(x) if a constant is meant"
        )

    return error


def _deepcopy(self: Traced, memo: Any = None) -> Any:
    return copied(self)


# -- NumPy's protocols ------------------------------------------------------------------------------------------


def _array_ufunc(self: Traced, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
    if method == "__call__" and not kwargs:
        function = _QUICK.get(ufunc) or _quick(ufunc)
        if function is not None:
            return function(*inputs)
    return general_ufunc(ufunc, method, inputs, kwargs)


_QUICK: dict[np.ufunc, Callable[..., Any]] = {}


def _quick(ufunc: np.ufunc) -> Callable[..., Any] | None:
    """The function that runs a ufunc: the op's recorder if it has one."""
    function = find_ufunc(ufunc)
    if function is None:
        return None

    def general(*inputs: Any) -> Any:
        values = tuple(map(lift, inputs))
        if all(class_of(x) in PYTHON_NUMBERS for x in values):
            values = tuple(map(strengthened, values))
        return function(*values)

    def install(quick: Callable[..., Any]) -> None:
        _QUICK[ufunc] = equal_as_key(quick) if ufunc is np.equal else quick

    def generate(op: Elementwise) -> None:
        impl = None if isinstance(op.impl, np.ufunc) else _giving_scalars(op.impl)
        install(recorder(op, general, "ufunc", impl))

    if isinstance(function, Elementwise) and function.arity <= 2:
        install(eventually(functools.partial(generate, function), general))
    else:
        install(general)
    return _QUICK[ufunc]


def _giving_scalars(operation: Callable[..., Any]) -> Callable[..., Any]:
    """A Python operator that gives a NumPy scalar for Python numbers, as the ufunc does."""

    def impl(*args: Any) -> Any:
        y = operation(*args)
        return np.float64(y) if y.__class__ is float else y

    return impl


def general_ufunc(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    name = f"np.{ufunc.__name__}" if hasattr(np, ufunc.__name__) else ufunc.__name__
    if is_scipy(ufunc):
        name = f"scipy.special.{_PUBLIC.get(ufunc.__name__, ufunc.__name__)}"
    name += "" if method == "__call__" else f".{method}"
    if method != "__call__":
        if method not in METHODS:
            raise UnsupportedError(f"{name} is not supported on traced values")
        return METHODS[method](ufunc, name, *inputs, **kwargs)
    function = find_ufunc(ufunc)
    if function is None:
        raise unsupported(ufunc, name)
    check_options(ufunc, inputs, kwargs)
    return call_with_options(function, name, inputs, kwargs)


#: The public functions behind SciPy's privately named ufuncs.
_PUBLIC = {"_riemann_zeta": "zeta", "_zeta": "zeta", "_ellip_harm": "ellip_harm", "_lambertw": "lambertw"}


def _array_function(self: Traced, func: Callable[..., Any], types: Any, args: Any, kwargs: Any) -> Any:
    function = FUNCTIONS.get(func)
    if function is None:
        if all(_is_fresh(kind) for kind in _traced_in((args, kwargs))):  # still plain numbers: no derivative is lost
            return func(*primals(args), **primals(kwargs))
        module = (getattr(func, "__module__", None) or "numpy").replace("numpy", "np", 1)
        raise unsupported(func, f"{module}.{func.__name__}")
    return function(*args, **kwargs)


def _traced_in(x: Any) -> list[Traced]:
    if isinstance(x, Traced):
        return [x]
    parts = x.values() if isinstance(x, dict) else x if isinstance(x, (list, tuple)) else ()
    return [found for part in parts for found in _traced_in(part)]


def _is_fresh(x: Traced) -> bool:
    return x.by is FRESH


def unsupported(function: Callable[..., Any], name: str) -> UnsupportedError:
    made = np.frompyfunc if getattr(function, "__name__", "").endswith("(vectorized)") else function
    reason = REFUSED.get(made, "it has no derivative rule")
    return UnsupportedError(f"{name} cannot be differentiated: {reason}. {REMEDY}")


# -- methods ----------------------------------------------------------------------------------------------------


def _method(function: Callable[..., Any]) -> Callable[..., Any]:
    """A method that forwards to the NumPy function of the same name."""

    def method(self: Traced, *args: Any, **kwargs: Any) -> Any:
        return FUNCTIONS[function](self, *args, **kwargs)

    method.__name__ = function.__name__
    return method


_METHODS = (
    *("sum", "prod", "mean", "var", "std", "max", "min", "cumsum", "cumprod", "dot", "ravel", "swapaxes", "squeeze"),
    *("trace", "diagonal", "repeat", "take", "argmax", "argmin", "argsort", "all", "any", "nonzero", "choose"),
    *("searchsorted", "put", "argpartition"),
)


def _delete(self: Traced, index: Any) -> None:
    raise ValueError("cannot delete array elements")


def _reshape(self: Traced, *shape: Any, order: str = "C", copy: bool | None = None) -> Any:
    return FUNCTIONS[np.reshape](self, shape[0] if len(shape) == 1 else shape, order=order, copy=copy)


def _transpose(self: Traced, *axes: Any) -> Any:
    return FUNCTIONS[np.transpose](self, (axes[0] if len(axes) == 1 else axes or None))


def _astype(self: Traced, dtype: Any, order: str = "K", casting: str = "unsafe", subok: bool = True, copy: bool = True) -> Any:
    if casting != "unsafe":
        check_cast(self.dtype, np.dtype(dtype), casting)  # type: ignore[attr-defined]
    if np.dtype(dtype) != self.dtype:  # type: ignore[attr-defined]
        return in_order(FUNCTIONS[np.astype](self, dtype), order)
    if copy:
        return copied(self, order)
    return self if order == "K" else same_or_copy(self, lambda m: m.astype(m.dtype, order=order, copy=False))


def _copy(self: Traced, order: str = "C") -> Any:
    return copied(self, order)


def _flatten(self: Traced, order: str = "C") -> Any:
    return copied(FUNCTIONS[np.ravel](self, order), "C")


def _view(self: Traced, dtype: Any = None, type: Any = None) -> Any:
    if (dtype is None or np.dtype(dtype) == self.dtype) and type in (None, np.ndarray):  # type: ignore[attr-defined]
        return read(self, ...)
    raise _no_memory("view")(self)


def _fill(self: Traced, value: Any) -> None:
    write(self, ..., value)


def _round(self: Traced, decimals: int = 0, out: Any = None) -> Any:
    return FUNCTIONS[np.round](self, decimals, out)


def _conj(self: Traced) -> Any:
    """The method returns a real array itself, the function a copy."""
    return shapes.conj(self) if self.dtype.kind == "c" or not self.by.is_array(self) else self  # type: ignore[attr-defined]


def _compress(self: Traced, condition: Any, axis: int | None = None, out: Any = None) -> Any:
    return FUNCTIONS[np.compress](condition, self, axis, out)


def _clip(self: Traced, min: Any = None, max: Any = None, out: Any = None, **options: Any) -> Any:
    return clip_between(self, min, max, out, **options)


def _set_real(self: Traced, value: Any) -> None:
    write(self, ..., with_real(self, lift(value)) if self.dtype.kind == "c" else value)  # type: ignore[attr-defined]


def _set_imag(self: Traced, value: Any) -> None:
    if self.dtype.kind != "c":  # type: ignore[attr-defined]
        raise TypeError("array does not have imaginary part to set")
    write(self, ..., with_imag(self, lift(value)))


def _set_flat(self: Traced, value: Any) -> None:
    Flat(self)[:] = value


def _set_shape(self: Traced, shape: Any) -> None:
    if self.by is not FRESH:
        raise UnsupportedError("the shape of a traced array cannot be set in place; write x = x.reshape(shape)")
    self.underlying = np.reshape(self.underlying, shape, copy=False)


_OF_ARRAYS: dict[str, Callable[[Any], Any]] = {
    "shape": _shape,
    "dtype": _dtype,
    "ndim": lambda self: len(self.shape),
    "size": _size,
    "T": lambda self: FUNCTIONS[np.transpose](self),
    "mT": lambda self: FUNCTIONS[np.matrix_transpose](self),
    "itemsize": lambda self: self.dtype.itemsize,
    "nbytes": lambda self: self.size * self.dtype.itemsize,
    "device": lambda self: "cpu",
    "flags": Flags,
    "flat": Flat,
}


#: Members that every value has, or that Python and NumPy look for on the type.
_ALWAYS = frozenset(
    {"__array_ufunc__", "__array_function__", "__bool__", "__copy__", "__deepcopy__", "__eq__", "__format__", "__hash__"}
    | {"__reduce__", "__repr__", "__str__"}
)


def install() -> None:
    """Give `Traced` its operators, methods and protocols."""
    labels.install()
    for op in OPS.values():
        if isinstance(op, Elementwise):
            quicken(op)
    install_operators()
    properties: dict[str, Callable[[Any], Any]] = {
        "real": lambda self: FUNCTIONS[np.real](self),
        "imag": lambda self: FUNCTIONS[np.imag](self),
    }
    setters: dict[str, Callable[[Any, Any], None]] = {"real": _set_real, "imag": _set_imag}
    for name, getter in _OF_ARRAYS.items():
        setattr(Traced, name, of_arrays(name, getter))
    Traced.flat = Traced.flat.setter(_set_flat)  # type: ignore[attr-defined]
    Traced.shape = Traced.shape.setter(_set_shape)  # type: ignore[attr-defined]
    for name, getter in properties.items():
        setattr(Traced, name, property(getter, setters.get(name)))
    for name in _OF_MEMORY:
        setattr(Traced, name, lacking(name, _no_memory(name)))
    for name in _LACKING:
        setattr(Traced, name, lacking(name))
    everything: dict[str, Any] = {
        **CONVERSIONS,
        "__array_ufunc__": _array_ufunc,
        "__array_function__": _array_function,
        "__array_priority__": 1000.0,
        "__pandas_priority__": 5000,  # above a DataFrame's: `series * x` calls our operator
        "__array_namespace__": _array_namespace,
        "__dlpack_device__": lambda self: (1, 0),  # DLPack's number for the CPU
        "to_device": _to_device,
        "__len__": _len,
        "__iter__": _iter,
        "__contains__": _contains,
        "__hash__": hash_,
        "__eq__": equal,
        "__deepcopy__": _deepcopy,
        "__copy__": _deepcopy,
        "__getitem__": read,
        "__setitem__": write,
        "__delitem__": _delete,
        "reshape": _reshape,
        "transpose": _transpose,
        "astype": _astype,
        "copy": _copy,
        "flatten": _flatten,
        "view": _view,
        "setflags": setflags,
        "fill": _fill,
        "round": _round,
        "conj": _conj,
        "conjugate": _conj,
        "compress": _compress,
        "clip": _clip,
        "sort": sort_in_place,
        "partition": partition_in_place,
        **{name: _method(getattr(np, name)) for name in _METHODS},
    }
    for name, member in everything.items():
        setattr(Traced, name, Sought(name, member) if callable(member) and name not in _ALWAYS else member)
