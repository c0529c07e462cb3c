"""Functions of `adjoint.numpy` whose traced arguments NumPy's protocols do not check.

`np.take(table, i)` dispatches on the table only, `np.full(3, x)` does not dispatch. Here all arguments are checked.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core.bind import Traced, fresh, is_tracking
from ..core.errors import UnsupportedError
from ..core.types import dtype_of, integers, shape_of
from ..ops import broadcast as shapes
from .create import array, asarray, same_or_copy
from .dropin import in_place_of
from .layout import copied
from .shape import astype, atleast_1d, concatenate, reshape, stack
from .table import FUNCTIONS, holds_traced, implements, lift
from .views import is_read_only, owns_memory
from .ways import as_array


def widened(original: Callable[..., Any]) -> Callable[..., Any]:
    """NumPy's function where no argument is traced, else ours."""

    @in_place_of(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        traced = any(map(holds_traced, args)) or any(map(holds_traced, kwargs.values()))
        return (FUNCTIONS[original] if traced else original)(*args, **kwargs)

    return call


take = widened(np.take)
pad = widened(np.pad)
repeat = widened(np.repeat)
fill_diagonal = widened(np.fill_diagonal)
unwrap = widened(np.unwrap)
nan_to_num = widened(np.nan_to_num)
piecewise = widened(np.piecewise)
polyfit = widened(np.polyfit)


@implements(np.full)
def _full(shape: Any, fill_value: Any, dtype: Any = None, order: str = "C", *, device: Any = None, like: Any = None) -> Any:
    v = lift(fill_value)
    v = v if dtype is None else astype(v, dtype)
    y = shapes.broadcast_to(v, shape=integers(shape))
    return copied(y, order)


_full_or_plain = widened(np.full)


@in_place_of(np.full)
def full(*args: Any, **kwargs: Any) -> Any:
    y = _full_or_plain(*args, **kwargs)
    return fresh(y) if is_tracking() else y


@in_place_of(np.full_like)
def full_like(a: Any, fill_value: Any, *args: Any, **kwargs: Any) -> Any:
    if is_tracking() and holds_traced(fill_value):  # which NumPy's protocol does not check
        return FUNCTIONS[np.full_like](a, fill_value, *args, **kwargs)
    y = np.full_like(a, fill_value, *args, **kwargs)
    return fresh(y) if is_tracking() else y


@implements(np.i0)
def i0(x: Any) -> Any:
    """SciPy's, loaded on the first call. Both compute in double precision at most."""
    x = as_array(lift(x))
    dtype = dtype_of(x)
    if dtype.kind == "c":
        raise TypeError("i0 not supported for complex values")
    y = importlib.import_module("adjoint.ops.bessel").i0(astype(x, float) if dtype.char not in "efd" else x)
    return as_array(astype(y, dtype) if dtype.kind == "f" and dtype_of(y) != dtype else y)


@implements(np.kaiser)
def _kaiser(M: int, beta: Any) -> Any:
    if M <= 1:
        return fresh(np.ones(max(M, 0), np.result_type(dtype_of(beta), float)))
    half = (M - 1) / 2.0
    return i0(beta * np.sqrt(1 - ((np.arange(M) - half) / half) ** 2)) / i0(beta)


kaiser = widened(np.kaiser)


# -- arrays from traced values ----------------------------------------------------------------------------------


@implements(np.asanyarray, np.asarray)
def _as_array(a: Any, dtype: Any = None, order: Any = None, *, copy: Any = None, device: Any = None, like: Any = None) -> Any:
    return asarray(a, dtype, order, copy=copy)


implements(np.array)(array)


@implements(np.ascontiguousarray)
def _as_rows(a: Any, dtype: Any = None, *, like: Any = None) -> Any:
    return atleast_1d(asarray(a, dtype, "C"))


@implements(np.asfortranarray)
def _as_columns(a: Any, dtype: Any = None, *, like: Any = None) -> Any:
    return atleast_1d(asarray(a, dtype, "F"))


@implements(np.require)
def _require(a: Any, dtype: Any = None, requirements: Any = None, *, like: Any = None) -> Any:
    wanted: list[Any] = [requirements] if isinstance(requirements, str) else list(requirements or ())
    np.require(0.0, None, wanted)  # raises for unknown names
    letters = {_REQUIREMENTS.get(word.upper(), word.upper()[0]) for word in wanted}
    y = asarray(a, dtype)
    if ("O" in letters and not owns_memory(y)) or ("W" in letters and is_read_only(y)):
        return copied(y, "F" if "F" in letters else "C" if "C" in letters else "A")
    rest: list[Any] = sorted(letters & {"C", "F"})
    return same_or_copy(y, lambda memory: np.require(memory, None, rest)) if rest else y


_REQUIREMENTS = {"CONTIGUOUS": "C", "FORTRAN": "F", "WRITEABLE": "W", "OWNDATA": "O", "ENSUREARRAY": "E"}


asanyarray = widened(np.asanyarray)
ascontiguousarray = widened(np.ascontiguousarray)
asfortranarray = widened(np.asfortranarray)
require = widened(np.require)


@implements(np.asarray_chkfinite)
def _asarray_chkfinite(a: Any, dtype: Any = None, order: Any = None) -> Any:
    y = asarray(a, dtype)
    plain = y
    while isinstance(plain, Traced):  # inside vmap all examples are checked
        plain = plain.underlying if plain.by.has_numbers else plain.by.concrete(plain, "the number behind")
    if not np.all(np.isfinite(plain)):
        raise ValueError("array must not contain infs or NaNs")
    return y


asarray_chkfinite = widened(np.asarray_chkfinite)


@implements(np.fromiter)
def fromiter(iter: Any, dtype: Any, count: int = -1, *, like: Any = None) -> Any:
    """np.fromiter; items may be traced."""
    items = list(iter) if count < 0 else [x for x, _ in zip(iter, range(count), strict=False)]
    return array(items, dtype) if any(map(holds_traced, items)) else np.fromiter(items, dtype, count)


@implements(np.fromfunction)
def fromfunction(function: Any, shape: Any, *, dtype: Any = float, like: Any = None, **kwargs: Any) -> Any:
    """np.fromfunction; the function may return traced values."""
    return function(*np.indices(shape, dtype=dtype), **kwargs)


class vectorize(np.vectorize):  # noqa: N801 - NumPy's name
    """`numpy.vectorize`, also of traced arguments: the function is called element by element."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not any(map(holds_traced, (*args, *kwargs.values()))):
            return super().__call__(*args, **kwargs)
        excluded = self.excluded or set()
        looped: dict[Any, Any] = {i: _element_wise(a) for i, a in enumerate(args) if i not in excluded}
        looped |= {name: _element_wise(a) for name, a in kwargs.items() if name not in excluded}
        cores = dict(zip(looped, self._core_counts([shape_of(x) for x in looped.values()]), strict=True))
        shape = np.broadcast_shapes(*[shape_of(x)[: len(shape_of(x)) - cores[key]] for key, x in looped.items()])
        wide = {key: _spread(x, shape, cores[key]) for key, x in looped.items()}
        results = []
        for place in np.ndindex(shape):
            at = {key: value[place] for key, value in wide.items()}
            results.append(
                self.pyfunc(*[at.get(i, a) for i, a in enumerate(args)], **{k: at.get(k, a) for k, a in kwargs.items()})
            )
        if not results:
            raise ValueError("cannot call `vectorize` on size 0 inputs unless `otypes` is set")
        if isinstance(results[0], tuple):
            return tuple(self._gather(list(column), shape, i) for i, column in enumerate(zip(*results, strict=True)))
        return self._gather(results, shape, 0)

    def _core_counts(self, given: Sequence[tuple[int, ...]]) -> list[int]:
        """How many axes of each argument the function takes by its signature; without one it takes elements."""
        if self.signature is None:
            return [0] * len(given)
        inputs = [re.findall(r"\w+", axes) for axes in re.findall(r"\(([^()]*)\)", self.signature.partition("->")[0])]
        if len(inputs) != len(given):
            raise TypeError(f"wrong number of positional arguments: expected {len(inputs)!r}, got {len(given)!r}")
        sizes: dict[str, int] = {}
        for names, shape in zip(inputs, given, strict=True):
            if len(shape) < len(names):
                raise ValueError(f"an argument of {len(shape)} dimensions does not have all core dimensions {tuple(names)!r}")
            for name, size in zip(names, shape[len(shape) - len(names) :], strict=True):
                if sizes.setdefault(name, size) != size:
                    raise ValueError(f"inconsistent size for core dimension {name!r}: {size!r} vs {sizes[name]!r}")
        return [len(names) for names in inputs]

    def _gather(self, results: list[Any], shape: Any, i: int) -> Any:
        y = stack([lift(r) for r in results])
        y = reshape(y, (*shape, *shape_of(y)[1:]))
        wanted = np.dtype(self.otypes[i]) if self.otypes else dtype_of(y)
        return y if wanted == dtype_of(y) else astype(y, wanted)


def _element_wise(a: Any) -> Any:
    """An argument of `vectorize`: numbers, or an array of Python's objects (None, text)."""
    if holds_traced(a):
        return lift(a)
    made = np.asarray(a)
    return made if made.dtype.kind in "OUSMm" else lift(a)


def _spread(x: Any, shape: tuple[int, ...], core: int) -> Any:
    own = shape_of(x)
    wanted = (*shape, *own[len(own) - core :])
    return np.broadcast_to(x, wanted) if isinstance(x, np.ndarray) else shapes.broadcast_to(x, shape=wanted)


# -- joining by index, and looping --------------------------------------------------------------------------------


class _Joined:
    """`np.r_` and `np.c_`, also of traced values: the items are joined along an axis."""

    def __init__(self, original: Any, directive: str) -> None:
        self.original = original
        self.directive = directive

    def __getitem__(self, key: Any) -> Any:
        parts = key if isinstance(key, tuple) else (key,)
        if not any(map(holds_traced, parts)):
            return self.original[key]
        directive = self.directive
        if isinstance(parts[0], str):
            directive, parts = parts[0], parts[1:]
        axis, depth, start = _join_directive(directive)
        return concatenate([self._part(part, depth, start) for part in parts], axis)

    def _part(self, part: Any, depth: int, start: int) -> Any:
        """One part, with axes of length one put around its own until there are `depth`."""
        value = np.r_[part] if isinstance(part, slice) else lift(part)
        missing = depth - len(shape_of(value))
        if missing <= 0:
            return value
        if not shape_of(value):
            return reshape(value, (1,) * depth)
        before = missing if start == -1 else start if start >= 0 else max(missing + start + 1, 0)
        before = min(before, missing)
        return reshape(value, (1,) * before + shape_of(value) + (1,) * (missing - before))

    def __len__(self) -> int:
        return 0


def _join_directive(text: str) -> tuple[int, int, int]:
    """`"axis,ndim,start"` of np.r_; the parts left out are 0, 1 and -1."""
    if text in ("r", "c"):
        raise UnsupportedError("np.r_['r'] and np.r_['c'] make np.matrix objects, which are not supported; use np.stack")
    numbers = [int(word) for word in text.split(",")]
    axis, depth, start = (*numbers, *(0, 1, -1)[len(numbers) :])
    return axis, depth, start


r_ = _Joined(np.r_, "0")
c_ = _Joined(np.c_, "-1,2,0")


class ndenumerate(np.ndenumerate):  # type: ignore[type-arg]  # noqa: N801 - NumPy's name
    """`numpy.ndenumerate`, also of a traced array."""

    def __new__(cls, arr: Any) -> Any:
        if holds_traced(arr):
            value = lift(arr)
            return ((place, value[place]) for place in np.ndindex(shape_of(value)))
        return np.ndenumerate(arr)
