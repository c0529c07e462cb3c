"""Ufuncs beyond a plain call: out=, where=, dtype=, and their methods reduce, accumulate, outer and at."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..core.bind import Traced, fresh, is_array
from ..core.errors import ReadOnlyError, UnsupportedError
from ..core.types import PYTHON_NUMBERS, Value, dtype_of, is_inexact, is_weak, ndim_of, reduced_axes, shape_of
from ..ops import broadcast as shapes
from ..ops import index as indexing
from .layout import held
from .scan import reduce_slices, running_extremum, update_at
from .table import FUNCTIONS, find_ufunc, lift
from .views import become, read, write
from .ways import strong


def deliver(y: Value, out: Any, spread: bool = False, casting: Any = "same_kind") -> Value:
    """Write a result to `out` if there is one, and return it as NumPy does; `spread` says that it is broadcast there."""
    if out is None:
        return y
    (target,) = out if isinstance(out, tuple) else (out,)
    if target is None:
        return y
    if shape_of(target) != shape_of(y) and not (
        spread and np.broadcast_shapes(shape_of(y), shape_of(target)) == shape_of(target)
    ):
        raise ValueError(f"out has shape {shape_of(target)}, the result has shape {shape_of(y)}")
    if not isinstance(target, Traced):
        if not is_inexact(dtype_of(target)) and np.can_cast(dtype_of(y), dtype_of(target), casting):
            y = FUNCTIONS[np.astype](y, dtype_of(target))  # of a float: has no derivative, so it is a plain value
        if isinstance(y, Traced):
            raise ReadOnlyError(
                "out= is a plain NumPy array, which cannot hold a traced value; make it with adjoint.numpy (or np.empty_like of "
                "a traced value) inside the function, or omit out="
            )
        check_cast(dtype_of(y), dtype_of(target), casting)
        target[...] = y
        return target
    if not is_array(target):
        raise TypeError("return arrays must be of ArrayType")
    check_cast(dtype_of(y), dtype_of(target), casting)
    write(target, ..., y)
    return target


def deliver_selected(y: Value, out: Any) -> Value:
    """As `deliver`, for functions that write into a copy of `out` in the dtype of the result, and cast that back."""
    if out is not None:
        check_cast(dtype_of(out), dtype_of(y), "safe")
    return deliver(y, out, casting="unsafe")


def check_options(ufunc: np.ufunc, inputs: Sequence[Any], options: dict[str, Any]) -> None:
    """Raise what NumPy raises for dtypes, `casting` and `order`: it is asked, with arrays of no elements."""
    if ufunc.signature is not None or not options.keys() & {"casting", "order", "out"}:
        return
    kept = {key: options[key] for key in ("dtype", "casting", "order") if options.get(key) is not None}
    outs = options.get("out")
    if outs is not None:
        kept["out"] = tuple(_without_elements(out) if isinstance(out, (Traced, np.ndarray)) else None for out in outs)
    ufunc(*map(_without_elements, inputs), **kept)


def _without_elements(x: Any) -> Any:
    v = lift(x)
    return v if type(v) in PYTHON_NUMBERS else np.empty(0, dtype_of(v))


def check_cast(old: np.dtype[Any], new: np.dtype[Any], casting: Any) -> None:
    if not np.can_cast(old, new, casting):
        raise TypeError(f"Cannot cast array data from {old!r} to {new!r} according to the rule '{casting}'")


#: Options of ufuncs for which traced values have no counterpart.
_OPTIONS = frozenset({"axes", "axis", "keepdims", "sig", "signature"})


def call_with_options(function: Callable[..., Any], name: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Value:
    """A ufunc call with keyword arguments."""
    options = dict(options)
    out = options.pop("out", None)
    where = options.pop("where", True)
    dtype = options.pop("dtype", None)
    casting = options.pop("casting", "same_kind")
    for harmless in ("order", "subok"):
        options.pop(harmless, None)
    if unknown := sorted(options.keys() - _OPTIONS):
        raise TypeError(f"{name}() got an unexpected keyword argument {unknown[0]!r}")
    if options and not (name == "np.vecdot" and set(options) <= {"axis", "axes"}):
        raise UnsupportedError(f"{name}: the option {sorted(options)[0]}= is not supported on traced values")
    values = [lift(x) for x in inputs]
    if not any(isinstance(v, Traced) for v in values):
        # Only `out` is traced: compute the plain result and write it there.
        numbers = all(map(is_weak, values))
        values = [v if is_weak(v) and not numbers else fresh(np.asarray(v)) for v in values]
    if dtype is not None:
        values = _cast_inputs(values, np.dtype(dtype), casting, name)
    y = function(*values, **options)
    if isinstance(y, tuple):
        if where is not True:
            raise UnsupportedError(f"{name}: where= is not supported on traced values for several results")
        return tuple(deliver(part, (target,), casting=casting) for part, target in zip(y, out or (None,) * len(y), strict=True))
    (target,) = out if isinstance(out, tuple) else (out,)
    if where is not True:
        if out is None:
            raise UnsupportedError(f"{name}: where= needs out=, since the other elements would be left undefined")
        y = shapes.where(where, y, target)
    return deliver(y if out is None else _as_wide_as(y, target), out, casting=casting)


def _cast_inputs(values: Sequence[Value], dtype: np.dtype[Any], casting: Any, name: str) -> list[Value]:
    """The operands in the dtype that a ufunc is asked to compute in."""
    for i, v in enumerate(values):
        if type(v) not in PYTHON_NUMBERS and not np.can_cast(dtype_of(v), dtype, casting):
            raise TypeError(f"{name}: cannot cast input {i} from {dtype_of(v)} to {dtype} with casting rule '{casting}'")
    return [FUNCTIONS[np.astype](v, dtype) if dtype_of(v) != dtype else v for v in values]


def _as_wide_as(y: Value, target: Any) -> Value:
    """The result broadcast to `out`, which takes part in the broadcasting of a ufunc."""
    own, wide = shape_of(y), y if target is None else target
    if shape_of(wide) == own or np.broadcast_shapes(own, shape_of(wide)) != shape_of(wide):
        return y
    return shapes.broadcast_to(y, shape=shape_of(wide))


def _reduce(
    ufunc: np.ufunc, name: str, a: Any, axis: Any = 0, dtype: Any = None, out: Any = None, keepdims: Any = False, **options: Any
) -> Value:
    function = FUNCTIONS.get(_REDUCTIONS.get(ufunc))  # type: ignore[arg-type]
    if ufunc in (np.add, np.multiply):
        return function(a, axis=axis, dtype=dtype, out=out, keepdims=keepdims, **options)  # type: ignore[misc]
    if dtype is not None:
        a = FUNCTIONS[np.astype](a, dtype)
    if function is None:
        run = find_ufunc(ufunc)
        if run is None or ufunc.nin != 2 or ufunc.nout != 1:
            raise UnsupportedError(f"{name} is not supported on traced values")
        return _deliver_folded(name, _fold(ufunc, run, _as_worked(ufunc, lift(a)), axis, bool(keepdims), **options), out)
    return function(a, axis=axis, out=out, keepdims=keepdims, **options)


def _deliver_folded(name: str, y: Value, out: Any) -> Value:
    """As `deliver`. With an `out` of another dtype, NumPy casts partial results, depending on the ufunc and the memory layout."""
    (target,) = out if isinstance(out, tuple) else (out,)
    if target is not None and dtype_of(target) != dtype_of(y):
        raise UnsupportedError(f"{name}: out= of dtype {dtype_of(target)} for a result of dtype {dtype_of(y)} is not supported")
    return deliver(y, out)


def _as_worked(ufunc: np.ufunc, a: Value) -> Value:
    """Integers as the floats in which the ufunc accumulates them."""
    kind = ufunc.reduce(np.ones(2, dtype_of(a))).dtype  # raises where NumPy does
    return shapes.cast(a, dtype=kind) if kind.kind in "fc" and kind != dtype_of(a) else a


_REDUCTIONS: dict[np.ufunc, Any] = {
    np.add: np.sum,
    np.multiply: np.prod,
    np.maximum: np.max,
    np.minimum: np.min,
    np.fmax: np.nanmax,
    np.fmin: np.nanmin,
    np.logical_and: np.all,
    np.logical_or: np.any,
}
#: Ufuncs that reduce pairwise, each with its identity.
_ASSOCIATIVE: dict[np.ufunc, float] = {np.logaddexp: -np.inf, np.logaddexp2: -np.inf, np.hypot: 0.0}
_SCANS: dict[np.ufunc, Any] = {np.add: np.cumsum, np.multiply: np.cumprod}


def _fold(
    ufunc: np.ufunc,
    function: Callable[..., Any],
    a: Value,
    axis: Any,
    keepdims: bool,
    initial: Any = np._NoValue,
    where: Any = True,
) -> Value:
    """Reduce by any ufunc."""
    if where is not True:
        if ufunc not in _ASSOCIATIVE:
            raise UnsupportedError(f"np.{ufunc.__name__}.reduce: where= is not supported on traced values; use np.where")
        a = shapes.where(where, a, np.array(_ASSOCIATIVE[ufunc], dtype_of(a)))
    shape = shape_of(a)
    axes = reduced_axes(axis, len(shape))
    rest = tuple(n for d, n in enumerate(shape) if d not in axes)
    rows = FUNCTIONS[np.moveaxis](a, axes, tuple(range(len(axes))))
    rows = FUNCTIONS[np.reshape](rows, (math.prod(shape[d] for d in axes), *rest))
    rows = _begun(ufunc, rows, initial)
    total = _combined(function, rows) if ufunc in _ASSOCIATIVE else functools.reduce(function, _each(rows))
    final = tuple(1 if d in axes else n for d, n in enumerate(shape)) if keepdims else rest
    return FUNCTIONS[np.reshape](total, final) if final != rest else total


def _begun(ufunc: np.ufunc, rows: Value, initial: Any) -> Value:
    """The rows of a reduction behind the value that it begins with, if it is given or there are no rows."""
    count, *rest = shape_of(rows)
    if initial is np._NoValue or initial is None:
        if count:
            return rows
        if initial is np._NoValue and ufunc.identity is None:
            raise ValueError(f"zero-size array to reduction operation {ufunc.__name__} which has no identity")
        start: Any = ufunc.identity
    else:
        start = lift(initial)
    first = shapes.broadcast_to(shapes.cast(start, dtype=dtype_of(rows)), shape=(1, *rest))
    return FUNCTIONS[np.concatenate]([first, rows])


def _each(rows: Value) -> Iterator[Value]:
    return (read(rows, i) for i in range(shape_of(rows)[0]))


def _combined(function: Callable[..., Any], rows: Value) -> Value:
    """The reduction by an associative function, which combines the two halves until one row is left."""
    while (count := shape_of(rows)[0]) > 1:
        half = count // 2
        paired = function(rows[:half], rows[half : 2 * half])
        rows = FUNCTIONS[np.concatenate]([paired, rows[2 * half :]]) if count % 2 else paired
    return read(rows, 0)


def _accumulate(ufunc: np.ufunc, name: str, a: Any, axis: int = 0, dtype: Any = None, out: Any = None) -> Value:
    if ufunc in _SCANS:
        return FUNCTIONS[_SCANS[ufunc]](a, axis=axis, dtype=dtype, out=out)
    if dtype is not None:
        a = FUNCTIONS[np.astype](a, dtype)
    if ufunc in (np.maximum, np.minimum):
        a = lift(a)
        return deliver(held(running_extremum(ufunc, a, axis), "K", a), out, casting="unsafe")
    function = find_ufunc(ufunc)
    if function is None or ufunc.nin != 2:
        raise UnsupportedError(f"{name} is not supported on traced values")
    a = FUNCTIONS[np.moveaxis](_as_worked(ufunc, lift(a)), axis, 0)
    if not shape_of(a)[0]:
        return _deliver_folded(name, FUNCTIONS[np.moveaxis](FUNCTIONS[np.copy](a), 0, axis), out)
    parts = [read(a, 0)]
    for i in range(1, shape_of(a)[0]):
        parts.append(function(parts[-1], read(a, i)))
    return _deliver_folded(name, FUNCTIONS[np.moveaxis](FUNCTIONS[np.stack](parts), 0, axis), out)


def _outer(ufunc: np.ufunc, name: str, a: Any, b: Any, **options: Any) -> Value:
    function = find_ufunc(ufunc)
    if function is None:
        raise UnsupportedError(f"{name} is not supported on traced values")
    a, b = strong(lift(a)), strong(lift(b))
    wide = shapes.reshape(a, shape=shape_of(a) + (1,) * ndim_of(b))
    return call_with_options(function, name, (wide, b), options) if options else function(wide, b)


def _at(ufunc: np.ufunc, name: str, a: Any, index: Any, b: Any = None) -> None:
    if not isinstance(a, Traced):
        raise ReadOnlyError(f"{name} cannot write a traced value into a plain NumPy array; make it with adjoint.numpy")
    dtype = dtype_of(a)
    if ufunc not in (np.add, np.subtract) or not is_inexact(dtype):
        function = find_ufunc(ufunc)
        if function is None or ufunc.nin > 2 or ufunc.nout > 1:
            raise UnsupportedError(f"{name} is not supported on traced values")
        stored = lambda *operands: _as_stored(function(*operands), dtype)
        become(a, update_at(stored, Traced(a.by, a.underlying, a.aux), index, None if b is None else lift(b)))
        return
    part = read(a, index)
    b = shapes.broadcast_to(lift(b), shape=shape_of(part))
    become(a, _as_stored(a + indexing.scatter(b if ufunc is np.add else -b, index, shape_of(a)), dtype))


def _as_stored(new: Value, dtype: np.dtype[Any]) -> Value:
    """As an array of this dtype holds it: `at` casts as it writes, to integers too."""
    return new if dtype_of(new) == dtype else FUNCTIONS[np.astype](new, dtype)


def _reduceat(ufunc: np.ufunc, name: str, a: Any, indices: Any, axis: int = 0, dtype: Any = None, out: Any = None) -> Value:
    return deliver(
        reduce_slices(lambda piece, i: _reduce(ufunc, name, piece, i, dtype), lift(a), indices, axis), out, casting="unsafe"
    )


METHODS: dict[str, Callable[..., Any]] = {
    "reduce": _reduce,
    "accumulate": _accumulate,
    "outer": _outer,
    "at": _at,
    "reduceat": _reduceat,
}
