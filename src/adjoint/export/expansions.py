"""Ops as programs of other ops, for exporters: what `jit` leaves to NumPy or SciPy is written in ops that have code.

    np.sinc(x)  →  where(x == 0, 1, sin(pi x) / (pi x))

An expansion is a Python function of the op's operands and parameters, staged for their types. The implementation of an op that is
itself NumPy code (`np.where(…)`, not a function of a library) is its own expansion.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

import numpy as np

from ..api.graph import graph
from ..core.errors import AdjointError
from ..core.op import Op, find
from ..core.types import Type
from ..ir.graph import Graph
from ..numpy import stack as stack_arrays
from ..ops import broadcast, index, reduce, shift, sort, windows
from ..ops import elementwise as e
from ..rewrite.pipeline import optimize

Expansion = Callable[..., Any]


def expansion(op: Op, operands: Sequence[Type], params: dict[str, Any], results: Sequence[Type]) -> Graph | None:
    """The graph of an op in terms of others; None if there is none."""
    function = EXPANSIONS.get(op) or _by_name().get(op)
    if function is None and type(op.impl) is FunctionType and op.impl.__module__.startswith("adjoint."):
        function = op.impl
    if function is None:
        return None
    zeros = [np.zeros(t.shape, t.dtype) for t in operands]
    try:
        with np.errstate(all="ignore"):
            made = graph(lambda *xs: function(*xs, **params))(*zeros)
    except (AdjointError, AttributeError, TypeError, ValueError, np.linalg.LinAlgError):
        return None  # it asks for numbers, or is no NumPy code
    types = made.types
    given = [[types[o] if isinstance(o, int) else o.type for o in q.inputs] for q in made.equations if q.op is op]
    again = list(operands) in given
    if again or tuple(made.output_types) != tuple(results):
        return None
    return optimize(made).graph


def _along(x: Any, axis: int, index_: Any) -> tuple[Any, ...]:
    """Integer arrays that pick elements along one axis, and stay in place along the others."""
    shape = index_.shape
    grids = [np.arange(n).reshape([-1 if k == i else 1 for k in range(len(shape))]) for i, n in enumerate(shape)]
    grids[axis] = index_
    return tuple(grids)


def _take_along(x: Any, at: Any, *, axis: int) -> Any:
    return index.gather(x, *_along(x, axis, at), axis=0)


def _add_along(g: Any, at: Any, *, axis: int, shape: tuple[int, ...]) -> Any:
    return index.scatter_add(g, *_along(g, axis, at), axis=0, shape=shape)


def _roll(x: Any, *, shifts: Sequence[int], axes: Sequence[int]) -> Any:
    for by, axis in zip(shifts, axes, strict=True):
        n = x.shape[axis]
        if n and by % n:
            before = (slice(None),) * axis
            x = np.concatenate([x[(*before, slice(n - by % n, None))], x[(*before, slice(None, n - by % n))]], axis)
    return x


def _difference(x: Any, *, axis: int) -> Any:
    before = (slice(None),) * axis
    return x[(*before, slice(1, None))] - x[(*before, slice(None, -1))]


def _places(shape: tuple[int, ...], width: Any, axes: Any) -> Any:
    """The place of each element of all windows in the flattened array."""
    flat = np.arange(math.prod(shape)).reshape(shape)
    return np.ascontiguousarray(np.lib.stride_tricks.sliding_window_view(flat, width, axes))


def _windows(x: Any, *, width: Any, axes: Any) -> Any:
    return index.gather(x.reshape(-1), _places(x.shape, width, axes), axis=0)


def _overlap(g: Any, *, shape: tuple[int, ...], axes: Any) -> Any:
    places = _places(shape, g.shape[len(shape) :], axes)
    return index.scatter_add(g.reshape(-1), places.reshape(-1), axis=0, shape=(math.prod(shape),)).reshape(shape)


def _order_statistics(x: Any, *, kth: Sequence[int], axis: int) -> Any:
    ordered = _take_along(x, reduce.argsort(x, axis=axis, kind=None), axis=axis)
    return stack_arrays([ordered[(slice(None),) * axis + (k,)] for k in kth], axis)


def _lexsort(keys: Any, *, axis: int) -> Any:
    """By the first key, then by the next: each sort is stable, so that the last one decides."""
    order = reduce.argsort(keys[0], axis=axis, kind="stable")
    for key in keys[1:]:
        order = _take_along(order, reduce.argsort(_take_along(key, order, axis=axis), axis=axis, kind="stable"), axis=axis)
    return order


def _share_equal(t: Any, y: Any, *, axis: int, ordered: bool) -> Any:
    """Means over equal elements: by comparing all pairs."""
    n = y.shape[axis]
    down, across = (np.expand_dims(np.moveaxis(y, axis, -1), k) for k in (-1, -2))
    same = np.logical_or(down == across, np.eye(n, dtype=bool))
    total = np.sum(np.where(same, np.expand_dims(np.moveaxis(t, axis, -1), -2), 0.0), -1)
    return np.moveaxis(total / np.sum(same, -1), -1, axis)


def _floor_divide(a: Any, b: Any) -> Any:
    """As NumPy has it: the remainder is exact, and the quotient is rounded once."""
    rest = e.fmod(a, b)
    quotient = (a - rest) / b
    quotient = np.where(np.logical_and(rest != 0, (b < 0) != (rest < 0)), quotient - 1, quotient)
    whole = np.floor(quotient)
    whole = np.where(quotient - whole > 0.5, whole + 1, whole)
    return np.where(b == 0, a / b, np.where(quotient == 0, np.copysign(np.zeros_like(a), a / b), whole))


def _remainder(a: Any, b: Any) -> Any:
    rest = e.fmod(a, b)
    rest = np.where(rest != 0, np.where((b < 0) != (rest < 0), rest + b, rest), np.copysign(np.zeros_like(rest), b))
    return rest


def _round_to(x: Any, *, decimals: int) -> Any:
    scale = 10.0 ** abs(decimals)
    return np.rint(x * scale) / scale if decimals >= 0 else np.rint(x / scale) * scale


EXPANSIONS: dict[Op, Expansion] = {
    sort.take_along: _take_along,
    sort.add_along: _add_along,
    sort.order_statistics: _order_statistics,
    sort.lexsort: _lexsort,
    sort.share_equal: _share_equal,
    shift.roll: _roll,
    shift.difference: _difference,
    windows.windows: _windows,
    windows.overlap: _overlap,
    reduce.any_: lambda x, *, axis, keepdims: reduce.any_(x != 0, axis=axis, keepdims=keepdims),
    reduce.all_: lambda x, *, axis, keepdims: reduce.all_(x != 0, axis=axis, keepdims=keepdims),
    reduce.count_nonzero: lambda x, *, axis, keepdims: np.sum((x != 0).astype(np.int64), axis=axis, keepdims=keepdims),
    e.floor_divide: _floor_divide,
    e.remainder: _remainder,
    e.rounded: _round_to,
    e.sinc: lambda x: np.where(x == 0, 1.0, np.sin(np.pi * x) / np.where(x == 0, 1.0, np.pi * x)),
    broadcast.imag: lambda x: np.zeros_like(x),
}


def _by_name() -> dict[Op, Expansion]:
    return {op: function for name, function in _NAMED.items() if (op := find(name)) is not None}


_NAMED: dict[str, Expansion] = {}
