"""`numpy.pad` in every mode. Axis by axis, a piece is added before and after, as in NumPy."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.types import Shape, Value, canonical_axis, dtype_of, ndim_of, shape_of
from ..ops import broadcast as shapes
from ..ops import elementwise as ops
from ..ops import index as indexing
from ..ops import shape as joins
from .arrange import along
from .layout import held
from .shape import astype
from .table import holds_traced, implements, lift

Piece = Callable[[Value, int, int, int], Value]  # (array, axis, width, side 0 or 1) to what is put there

_OPTIONS = {
    "constant": {"constant_values"},
    "linear_ramp": {"end_values"},
    "maximum": {"stat_length"},
    "mean": {"stat_length"},
    "median": {"stat_length"},
    "minimum": {"stat_length"},
    "reflect": {"reflect_type"},
    "symmetric": {"reflect_type"},
    "edge": set(),
    "empty": set(),
    "wrap": set(),
}


@implements(np.pad)
def pad(array: Any, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> Value:
    a = lift(array)
    if callable(mode):
        return _by_function(a, pad_width, mode, kwargs)
    if mode not in _OPTIONS:
        raise ValueError(f"mode '{mode}' is not supported")
    if unknown := set(kwargs) - _OPTIONS[mode]:
        raise ValueError(f"unsupported keyword arguments for mode '{mode}': {unknown}")
    widths = _widths(pad_width, ndim_of(a))
    if any(w < 0 for pair in widths for w in pair):
        raise ValueError("index can't contain negative values")
    if mode in ("empty", "constant") and ("constant_values" not in kwargs or _is_zero(kwargs["constant_values"])):
        sizes = list(zip(widths, shape_of(a), strict=True))
        spec = tuple([slice(low, low + n) for (low, _), n in sizes])
        whole = tuple([low + n + high for (low, high), n in sizes])
        return held(indexing.place(a, spec=spec, shape=whole), "A", a)
    given = a
    for axis, (low, high) in enumerate(widths):
        piece = _piece(mode, axis, (low, high), ndim_of(a), kwargs)  # which checks its options, even if nothing is padded
        if low or high:
            parts = [piece(a, axis, low, 0)] if low else []
            parts.append(a)
            if high:
                parts.append(piece(a, axis, high, 1))
            a = joins.concatenate(*parts, axis=axis)
    return held(np.copy(a), "A", given)


def _by_function(a: Value, pad_width: Any, function: Any, options: dict[str, Any]) -> Value:
    """The array padded with zeros; the function, given the widths and the axis, writes into each line."""
    padded = np.copy(pad(a, pad_width))
    for axis, width in enumerate(_widths(pad_width, ndim_of(a))):
        lines = np.moveaxis(padded, axis, -1)
        for i in np.ndindex(shape_of(lines)[:-1]):
            function(lines[(*i, ...)], width, axis, options)
    return padded


def _is_zero(x: Any) -> bool:
    return not holds_traced(x) and not np.any(x)


def _widths(pad_width: Any, n: int) -> list[tuple[int, int]]:
    if isinstance(pad_width, dict):
        widths = [(0, 0)] * n
        for axis, width in pad_width.items():
            low, high = width if isinstance(width, (tuple, list)) else (width, width)
            widths[canonical_axis(axis, n)] = (operator.index(low), operator.index(high))
        return widths
    if type(pad_width) is int:
        return [(pad_width, pad_width)] * n
    if np.asarray(pad_width).dtype.kind not in "iu":
        raise TypeError("`pad_width` must be of integral type.")
    return [(int(low), int(high)) for low, high in np.broadcast_to(pad_width, (n, 2))]


def _option(x: Any, n: int) -> Any:
    """An option given as a number, a pair or a pair for each axis, as options[axis][side]."""
    if not holds_traced(x):
        return np.broadcast_to(x, (n, 2)) if not isinstance(x, dict) else x
    return shapes.broadcast_to(lift(x), shape=(n, 2))


def _piece(mode: str, axis: int, widths: tuple[int, int], n: int, options: dict[str, Any]) -> Piece:
    if mode in ("constant", "empty"):
        values = _option(options.get("constant_values", 0), n)
        return lambda a, axis, width, side: _filled(a, axis, width, values[axis, side])
    if mode == "linear_ramp":
        ends = _option(options.get("end_values", 0), n)
        return lambda a, axis, width, side: _ramp(a, axis, width, side, ends[axis, side])
    if mode in ("maximum", "minimum", "mean", "median"):
        lengths = _option(options["stat_length"], n) if options.get("stat_length") is not None else None
        if lengths is not None and np.any(lengths < 0):
            raise ValueError("index can't contain negative values")
        if lengths is not None and mode in ("maximum", "minimum") and not np.all(lengths):  # even where nothing is padded
            raise ValueError("stat_length of 0 yields no value for padding")
        function = {"maximum": np.max, "minimum": np.min, "mean": np.mean, "median": np.median}[mode]
        return lambda a, axis, width, side: _statistic(
            a, axis, width, side, function, None if lengths is None else int(lengths[axis][side])
        )
    if options.get("reflect_type", "even") == "odd":
        return lambda a, axis, width, side: _odd(a, axis, width, side, mode)
    return lambda a, axis, width, side: _copied(a, axis, width, side, widths, mode)


def _room(a: Value, axis: int, width: int) -> Shape:
    shape = list(shape_of(a))
    shape[axis] = width
    return tuple(shape)


def _filled(a: Value, axis: int, width: int, value: Any) -> Value:
    return shapes.broadcast_to(astype(value, dtype_of(a)), shape=_room(a, axis, width))


def _edge(a: Value, axis: int, side: int) -> Value:
    if shape_of(a)[axis] == 0:
        raise ValueError(f"can't extend empty axis {axis} using modes other than 'constant' or 'empty'")
    return indexing.getitem(a, spec=along(axis, slice(0, 1) if side == 0 else slice(-1, None)))


def _ramp(a: Value, axis: int, width: int, side: int, end: Any) -> Value:
    steps = np.arange(width) / width if side == 0 else np.arange(width - 1, -1, -1) / width
    steps = steps.reshape((-1,) + (1,) * (ndim_of(a) - axis - 1))
    edge = _edge(a, axis, side)
    edge = edge if dtype_of(a).kind in "fc" else astype(edge, float)  # the difference to the end value may be negative
    return astype(end + (edge - end) * steps, dtype_of(a))


def _statistic(a: Value, axis: int, width: int, side: int, function: Any, length: int | None) -> Value:
    _edge(a, axis, side)
    n = shape_of(a)[axis]
    length = n if length is None else min(length, n)
    part = indexing.getitem(a, spec=along(axis, slice(0, length) if side == 0 else slice(n - length, n)))
    y = function(part, axis=axis, keepdims=True)
    if dtype_of(y) != dtype_of(a):
        y = astype(ops.rint(y) if dtype_of(a).kind in "iu" else y, dtype_of(a))
    return shapes.broadcast_to(y, shape=_room(a, axis, width))


def _copied(a: Value, axis: int, width: int, side: int, widths: tuple[int, int], mode: Any) -> Value:
    """A piece made of elements of the array; np.pad on indices gives which ones."""
    _edge(a, axis, side)
    numbers = np.pad(np.arange(shape_of(a)[axis]), widths, mode=mode)
    return indexing.gather(a, numbers[:width] if side == 0 else numbers[-width:], axis=axis)


def _odd(a: Value, axis: int, width: int, side: int, mode: str) -> Value:
    """Reflected in value too: f(-p) = 2 f(0) - f(p), so f(p + period) = f(p) + 2 (last - first)."""
    first, last = _edge(a, axis, 0), _edge(a, axis, 1)
    n = shape_of(a)[axis]
    repeated = mode == "symmetric"  # the edge is part of its own reflection
    if n == 1:
        return shapes.broadcast_to(first, shape=_room(a, axis, width))
    half = n if repeated else n - 1
    places = np.arange(-width, 0) if side == 0 else np.arange(n, n + width)
    periods, within = np.divmod(places, 2 * half)
    mirrored = within >= n
    numbers = np.where(mirrored, 2 * half - repeated - within, within)
    column = (-1,) + (1,) * (ndim_of(a) - axis - 1)
    sign, periods, back = (x.reshape(column) for x in (np.where(mirrored, -1, 1), periods, mirrored))
    piece = indexing.gather(a, numbers, axis=axis) * sign + 2 * periods * (last - first) + 2 * back * last
    return astype(piece, dtype_of(a))
