"""`numba` of adopted modules: its decorators return the function as it is. `ad.jit` does their job.

It replaces numba also where that is not installed. `vectorize` and `guvectorize` loop in Python over the outer axes.
"""

from __future__ import annotations

import contextlib
import functools
import re
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import numpy as anp

Function = Callable[..., Any]


def _as_it_is(*args: Any, **options: Any) -> Any:
    """`@njit`, `@njit(cache=True)`, `@njit("float64(float64)")`, `njit(f)`."""
    if args and isinstance(args[0], (types.FunctionType, type)):
        return _with_itself(args[0])
    return _with_itself


def _with_itself(f: Any) -> Any:
    """A function with the attribute by which numba gives the Python function behind a compiled one."""
    if isinstance(f, types.FunctionType):
        f.py_func = f  # type: ignore[attr-defined]
    return f


def _decorator(make: Callable[..., Function]) -> Function:
    """A decorator with or without arguments."""

    def decorate(*args: Any, **options: Any) -> Any:
        if args and isinstance(args[0], types.FunctionType):
            return make(args[0])
        return lambda f: make(f, *args)

    return decorate


def _vectorized(f: Function, *_: Any) -> Function:
    over_arrays = anp.vectorize(f)

    @functools.wraps(f)
    def call(*args: Any) -> Any:
        return over_arrays(*args) if any(np.ndim(x) for x in args) else f(*args)

    return call


def _over_outer_axes(f: Function, *given: Any) -> Function:
    """`guvectorize(signatures, "(n),()->(n)")`: f writes its results into arrays that are passed to it."""
    inputs, _, outputs = str(given[-1]).replace(" ", "").partition("->")
    cores, results = _axes(inputs), _axes(outputs)
    declared = _are_arrays(given[0] if len(given) > 1 else (), len(cores))
    as_array = [is_array and not core for is_array, core in zip(declared, cores, strict=True)]

    @functools.wraps(f)
    def call(*args: Any) -> Any:
        arrays = [anp.asarray(x) for x in args[: len(cores)]]
        sizes: dict[str, int] = {}
        for x, core in zip(arrays, cores, strict=True):
            sizes |= dict(zip(core, x.shape[x.ndim - len(core) :], strict=True))
        outer = np.broadcast_shapes(*[x.shape[: x.ndim - len(core)] for x, core in zip(arrays, cores, strict=True)])
        dtype = np.result_type(*[x.dtype for x in arrays], np.float64)
        made = list(args[len(cores) :]) or [anp.zeros((*outer, *[sizes[n] for n in core]), dtype=dtype) for core in results]
        for at in np.ndindex(outer):  # f is called for one core of each array; a core without axes is an array of one element
            parts = [y[at] if core else y[(*at, None)] for y, core in zip(made, results, strict=True)]
            cells = [x[_within(at, x.ndim - len(core), x.shape)] for x, core in zip(arrays, cores, strict=True)]
            f(*[anp.reshape(x, (1,)) if is_array else x for x, is_array in zip(cells, as_array, strict=True)], *parts)
            for y, part, core in zip(made, parts, results, strict=True):
                y[at] = part if core else part[0]
        found = tuple([y if np.ndim(y) else y[()] for y in made])
        return found if len(found) > 1 else found[0] if found else None

    return call


def _are_arrays(signatures: Any, count: int) -> list[bool]:
    """Which arguments a signature declares as arrays: `float64[:]` of a core dimension () is an array of one element."""
    first = next(iter([signatures] if isinstance(signatures, (str, _NumbaType)) else signatures), None)
    if isinstance(first, str):
        inside = first.partition("(")[2].rpartition(")")[0]
        found = ["[" in part for part in re.split(r",(?![^\[]*\])", inside)]
    else:
        parts = first.arguments if isinstance(first, _NumbaType) else first if isinstance(first, tuple) else ()
        found = [getattr(part, "is_array", False) for part in parts]
    return [*found, *[False] * count][:count]


def _axes(layout: str) -> list[list[str]]:
    return [[name for name in group.split(",") if name] for group in re.findall(r"\(([^)]*)\)", layout)]


def _within(at: tuple[int, ...], axes: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The index of an array at a place of the loop: it may lack axes, or repeat along them."""
    return tuple([0 if n == 1 else i for i, n in zip(at[len(at) - axes :], shape[:axes], strict=True)])


class _Typed:
    """`numba.typed.List` and `Dict` are Python's own."""

    class List(list[Any]):
        @classmethod
        def empty_list(cls, *_: Any, **__: Any) -> Any:
            return cls()

    class Dict(dict[Any, Any]):
        @classmethod
        def empty(cls, *_: Any, **__: Any) -> Any:
            return cls()


class _NumbaType:
    """A type of numba's, or a signature: `float64[:]`, `types.Tuple((int64, int64))`, `void(float64[:], float64)`."""

    def __init__(self, is_array: bool = False, arguments: tuple[Any, ...] = ()) -> None:
        self.is_array, self.arguments = is_array, arguments

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (Exception,), {}) if name.endswith(("Error", "Warning")) else self

    def __call__(self, *args: Any, **options: Any) -> Any:
        return args[0] if len(args) == 1 and isinstance(args[0], (types.FunctionType, type)) else _NumbaType(arguments=args)

    def __getitem__(self, key: Any) -> Any:
        return _NumbaType(is_array=True)


class _Numba(types.ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _TYPE


_TYPE = _NumbaType()
NUMBA = _Numba("numba", __doc__)
NUMBA.__dict__.update(
    **dict.fromkeys(["jit", "njit", "generated_jit", "cfunc", "stencil", "jitclass"], _as_it_is),
    vectorize=_decorator(_vectorized),
    guvectorize=_decorator(_over_outer_axes),
    prange=range,
    literal_unroll=lambda x: x,
    objmode=contextlib.nullcontext,
    typed=_Typed,
    extending=types.SimpleNamespace(
        **dict.fromkeys(["overload", "overload_method", "overload_attribute"], lambda *args, **options: _as_it_is),
        **dict.fromkeys(["register_jitable", "intrinsic"], _as_it_is),
    ),
    experimental=types.SimpleNamespace(jitclass=_as_it_is),
    __version__="0.60.0",
    __all__=["jit", "njit", "prange"],
    get_num_threads=lambda: 1,
    set_num_threads=lambda n: None,
    __path__=[],
)
