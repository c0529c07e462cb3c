"""The tables from NumPy's functions to ours. `protocols.py` dispatches by them."""

from __future__ import annotations

import importlib
import sys
import types
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np

from ..core.bind import Traced, class_of, is_tracking
from ..core.errors import ArgumentError, UnsupportedError
from ..core.types import Value, is_masked
from ..device.arrays import gpu_of
from ..eager import on_gpu
from ..ops.shape import stack
from .labels import labelled

F = TypeVar("F", bound=Callable[..., Any])

#: Modules of this package that are loaded when a function is not found in the others.
LATE = (
    *("arrange", "calculus", "counting", "fft", "grids", "interpolation", "linalg", "missing", "mutate", "padding"),
    *("polynomials", "query", "scimath", "selection", "statistics", "undispatched", "windows"),
)


def load_all() -> None:
    """Load the late modules, which add their functions to the tables."""
    for name in LATE:
        importlib.import_module(f"{__package__}.{name}")


class _Table(dict[Any, Callable[..., Any]]):
    """From NumPy's function to ours; a missing function loads the late modules."""

    def __missing__(self, key: Any) -> Callable[..., Any]:
        load_all()
        if key not in self:
            raise KeyError(key)
        return super().__getitem__(key)

    def get(self, key: Any, default: Any = None) -> Any:
        if key not in self:
            load_all()
        return super().get(key, default)


UFUNCS = _Table()
FUNCTIONS = _Table()


def implements(*originals: Callable[..., Any]) -> Callable[[F], F]:
    """Declare a function to be the differentiable form of a NumPy function with the same signature."""

    def enter(function: F) -> F:
        for original in originals:
            (UFUNCS if isinstance(original, np.ufunc) else FUNCTIONS)[original] = function
        return function

    return enter


def find_ufunc(ufunc: np.ufunc) -> Callable[..., Any] | None:
    """Our function for a ufunc, if there is one. Those of scipy.special are added when the first of them is used."""
    function = UFUNCS.get(ufunc)
    if function is None and is_scipy(ufunc):
        importlib.import_module("adjoint.scipy.special")
        function = UFUNCS.get(ufunc)
    return function


def is_scipy(ufunc: np.ufunc) -> bool:
    """Whether a ufunc belongs to scipy.special (and so has been imported)."""
    name = ufunc.__name__
    return any(getattr(sys.modules.get(m), name, None) is ufunc for m in ("scipy.special", "scipy.special._ufuncs"))


def holds_traced(x: Any) -> bool:
    """Whether an array_like is traced: a value, a nested list or tuple with one in it, or an object that gives one."""
    if isinstance(x, Traced):
        return True
    return any(map(holds_traced, x)) if isinstance(x, (list, tuple)) else given_array(x) is not None


#: Classes of arguments that are plain: asking this first makes calls without traced values cheap.
PLAIN = frozenset({np.ndarray, np.float64, np.int64, np.bool_, float, int, bool, complex, str, type(None), slice})


def hold_traced(args: Iterable[Any]) -> bool:
    """Whether some of the arguments of a call are traced."""
    for x in args:  # noqa: SIM110 - any() of a generator takes three times as long
        if type(x) not in PLAIN and holds_traced(x):
            return True
    return False


def lift(x: Any) -> Value:
    """An array_like as a value: lists of traced values become traced arrays."""
    if type(x) is np.ndarray or isinstance(x, (Traced, np.generic, float, int, complex)):
        return x
    if isinstance(x, np.ndarray):
        return without_class(x)
    if isinstance(x, (list, tuple)) and holds_traced(x):
        return stack(*map(lift, x), axis=0)
    if gpu_of(x) is not None:
        return on_gpu.lift(x)
    given = given_array(x)
    if given is not None:
        return given
    array = np.asarray(x)
    if array.dtype.kind in "OUSV":
        raise ArgumentError(f"expected numbers, got {type(x).__name__} of dtype {array.dtype}")
    return array


def given_array(x: Any) -> Traced | None:
    """The traced array that an object of a class written in Python gives as its `__array__`; NumPy refuses it."""
    method = getattr(type(x), "__array__", None)
    if not isinstance(method, types.FunctionType) or not is_tracking():
        return None
    made = x.to_numpy() if labelled(x) else x.__array__()
    return made if isinstance(made, Traced) else None


def without_class(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """An array of a subclass as a plain one, if its arithmetic is that of arrays."""
    name = type(x).__name__
    if is_masked(x):
        raise UnsupportedError(
            f"a {name} would lose its mask next to traced values; use np.where with the mask, or x.filled(value) for the numbers"
        )
    if isinstance(x, np.matrix):
        raise UnsupportedError("np.matrix redefines the product, which traced values do not follow; pass np.asarray(x), and @")
    if type(x).__array_ufunc__ is not np.ndarray.__array_ufunc__:
        raise UnsupportedError(f"a {name} redefines arithmetic, which traced values do not follow; pass np.asarray(x)")
    return np.asarray(x)


def is_whole(x: Any) -> bool:
    """Whether x is a traced integer, of Python or of NumPy."""
    return isinstance(x, Traced) and issubclass(class_of(x), (int, np.integer))


def is_array_like(x: Any) -> bool:
    """Whether NumPy accepts an object as an array: a Series, a deque, a memoryview, anything with `__array__`."""
    if isinstance(x, (str, bytes, bytearray)):
        return False
    if isinstance(x, Sequence) or any(hasattr(x, name) for name in ("__array__", "__array_interface__", "__array_struct__")):
        return True
    try:
        memoryview(x)
    except TypeError:
        return False
    return True


#: NumPy functions without a derivative here, each with the reason and what to use instead.
REFUSED: dict[Callable[..., Any], str] = {}

#: NumPy functions whose result does not depend continuously on its arguments: they give plain values.
CONSTANT: set[Callable[..., Any]] = set()


#: Alternatives to a function without a derivative: the end of every refusal.
REMEDY = (
    "Declare a rule with ad.extend or ad.custom_vjp, wrap the call in ad.extend.numerical(f) for a numerical rule, or pass "
    "ad.stop_gradient(x) if a constant is meant"
)


def refuse(reason: str, *functions: Callable[..., Any]) -> None:
    """Declare why NumPy functions cannot be differentiated: the message a user gets, and a line of the coverage table."""
    for function in functions:
        REFUSED[function] = reason


def piecewise_constant(*functions: Callable[..., Any]) -> None:
    """Mark functions, implemented elsewhere, as constant almost everywhere."""
    CONSTANT.update(functions)


#: Differentiable functions with data-dependent shapes or branches: vmap refuses them.
UNBATCHED: set[Callable[..., Any]] = set()


def unbatched(*functions: Callable[..., Any]) -> None:
    """Mark functions that cannot run on a whole batch at once."""
    UNBATCHED.update(functions)
