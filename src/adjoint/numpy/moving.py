"""Slices whose bounds are traced: `x[i : i + 32]` is one program for all i.

The length of a slice is part of the type of its result, so it must be fixed; its place need not be:

    x[i : i + 32]       guard: the length is 32       reads x[start + arange(32)]

Under `jit` the length is that of this call, clipped at the ends of the axis as Python clips it, and becomes a guard. In the body
of a loop, which has no numbers, the difference of the bounds must be a number (`i + 32` and `i`), and a slice that is not all
inside the axis is an index error.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.bind import Traced, unwrap_fresh
from ..core.errors import UnsupportedError
from ..core.types import Value, dtype_of, ndim_of, shape_of
from ..eager.batch import Batch
from ..ir.graph import Equation, Literal, Operand
from ..ops import elementwise as ops
from ..ops import index as indexing
from ..ops import reduce as reductions
from ..ops.broadcast import cast, reshape, where
from ..staging.guard import Guarded
from ..staging.stage import Stage
from .ways import Way

_INDEX = np.dtype(np.intp)


class Window(Way):
    """`length` elements along an axis, from a traced place on, `step` apart."""

    __slots__ = ("axis", "index", "length", "step")

    def __init__(self, axis: int, start: Value, length: int, step: int) -> None:
        self.axis, self.length, self.step = axis, length, step
        self.index = ops.add(start, np.arange(length, dtype=_INDEX) * step)

    def look(self, base: Value) -> Value:
        return indexing.gather(base, self.index, axis=self.axis)

    def store(self, base: Value, part: Value) -> Value:
        return indexing.put_at(base, part, self.index, axis=self.axis)

    def ask(self, memory: Any) -> Any:
        reach = (self.length - 1) * abs(self.step)  # wherever it is, its strides are the same
        part = slice(0, reach + 1, self.step) if self.step > 0 else slice(reach, None, self.step)
        return memory[(slice(None),) * self.axis + (part,)]


def is_moving(entry: Any) -> bool:
    """Whether an entry of an index is a slice with traced bounds."""
    return type(entry) is slice and any(
        isinstance(unwrap_fresh(bound), Traced) for bound in (entry.start, entry.stop, entry.step)
    )


def windows(x: Value, index: Any) -> tuple[list[Window], Any]:
    """The windows that an index with moving slices reads, and the index that is left to read from them."""
    entries = list(index) if isinstance(index, tuple) else [index]
    found: list[Window] = []
    used = [_axes_of(entry) for entry in entries]
    for i, entry in enumerate(entries):
        if not is_moving(entry):
            continue
        is_behind = any(before is Ellipsis for before in entries[:i])
        axis = ndim_of(x) - sum(used[i:]) if is_behind else sum(used[:i])
        if not 0 <= axis < ndim_of(x):
            raise IndexError(f"too many indices for array: array is {ndim_of(x)}-dimensional, but {sum(used)} were indexed")
        start, length, step = _place(entry, shape_of(x)[axis])
        if isinstance(start, Traced) and length:
            found.append(Window(axis, start, length, step))
            entries[i] = slice(None)
        elif length:
            stop = start + length * step
            entries[i] = slice(start, None if stop < 0 else stop, step)
        else:
            entries[i] = slice(0, 0)
    return found, tuple(entries) if isinstance(index, tuple) else entries[0]


def _axes_of(entry: Any) -> int:
    """How many axes of the array an entry of an index uses up."""
    if entry is None or entry is Ellipsis:
        return 0
    is_mask = (
        not isinstance(entry, (int, slice)) and dtype_of(np.asarray(entry) if isinstance(entry, list) else entry).kind == "b"
    )
    return ndim_of(entry) if is_mask else 1


def _place(entry: slice, size: int) -> tuple[Any, int, int]:
    """Where a slice begins on an axis, its length and its step."""
    step = 1 if entry.step is None else operator.index(entry.step)
    if not step:
        raise ValueError("slice step cannot be zero")
    bounds = [unwrap_fresh(bound) for bound in (entry.start, entry.stop)]
    for bound in bounds:
        if bound is not None and dtype_of(bound).kind not in "iu":
            raise TypeError("slice indices must be integers or None or have an __index__ method")
    start, stop = bounds
    if isinstance(start, Traced) and isinstance(stop, Traced) and _is_staged(start) and _is_staged(stop):
        return _staged_place(start, stop, size, step)
    low, high = (0, size) if step > 0 else (-1, size - 1)
    first, last = (low, high) if step > 0 else (high, low)
    start, stop = (_clipped(bound, default, low, high, size) for bound, default in zip(bounds, (first, last), strict=True))
    away = ops.sub(stop, start) if step > 0 else ops.sub(start, stop)
    if abs(step) > 1:
        away = ops.floor_divide(ops.add(away, abs(step) - 1), abs(step))
    return start, _fixed(ops.maximum(away, 0)), step


def _clipped(bound: Any, default: int, low: int, high: int, size: int) -> Any:
    """A bound counted from the front, inside the axis."""
    if bound is None:
        return default
    if not isinstance(bound, Traced):
        bound = operator.index(bound)
        return min(max(bound + size if bound < 0 else bound, low), high)
    bound = cast(bound, dtype=_INDEX)
    return ops.minimum(ops.maximum(where(ops.less(bound, 0), ops.add(bound, size), bound), low), high)


def _fixed(length: Any) -> int:
    """The length of a slice, which must be the same in all runs of a program and all examples of a batch."""
    if not isinstance(length, Traced):
        return int(length)
    if not isinstance(length.by, Batch):
        return operator.index(length.by.concrete(length, "the length of a slice from"))
    axes = tuple(range(ndim_of(length.underlying)))
    shortest, longest = (_fixed(of(length.underlying, axis=axes, keepdims=False)) for of in (reductions.min_, reductions.max_))
    if shortest != longest:
        raise UnsupportedError(
            f"slices of {shortest} to {longest} elements in one batch; give them one length, as in x[i : i + {longest}]"
        )
    return shortest


# -- in the body of a loop --------------------------------------------------------------------------------------


def _is_staged(x: Traced) -> bool:
    return isinstance(x.by, Stage) and not x.by.has_numbers and not isinstance(x.by, Guarded)


def _staged_place(start: Traced, stop: Traced, size: int, step: int) -> tuple[Any, int, int]:
    """The place of a slice whose bounds have no numbers, but a difference that has one."""
    away = _affine(ops.sub(stop, start)) if start.by is stop.by else None
    if away is None or away.keys() - {None}:
        raise UnsupportedError(
            "the length of this slice in the body of a loop is not known: write it so that the bounds differ by a number, as in "
            "x[i : i + 3], or mask with np.where"
        )
    length = max(0, -(-away.get(None, 0) // step))
    start = cast(start, dtype=_INDEX)
    reach = (length - 1) * step
    inside = [ops.greater_equal(ops.add(start, min(0, reach)), 0), ops.less(ops.add(start, max(0, reach)), size)]
    return where(ops.logical_and(*inside), start, size + max(0, -reach)), length, step


#: A sum of multiples of values, by their numbers; None is the key of the constant.
_Sum = dict[int | None, int]


def _affine(x: Traced) -> _Sum | None:
    """A staged integer as a sum of multiples of others, as far back as its equations add and multiply."""
    made = {number: equation for equation in x.by.equations for number in equation.outputs}  # type: ignore[attr-defined]
    return _sum(x.aux[0], made)


def _sum(operand: Operand, made: dict[int, Equation]) -> _Sum | None:
    if isinstance(operand, Literal):
        value = np.asarray(operand.value)
        return {None: int(value)} if value.dtype.kind in "iu" and not value.ndim else None
    equation = made.get(operand)
    combine = None if equation is None else _SUMS.get(equation.op)
    if equation is None or combine is None:
        return {operand: 1}
    parts = [_sum(o, made) for o in equation.inputs]
    found = None if None in parts else combine(*parts)
    return {operand: 1} if found is None else {key: n for key, n in found.items() if n}


def _plus(a: _Sum, b: _Sum, sign: int = 1) -> _Sum:
    return {key: a.get(key, 0) + sign * b.get(key, 0) for key in a.keys() | b.keys()}


def _times(a: _Sum, b: _Sum) -> _Sum | None:
    if a.keys() - {None}:
        a, b = b, a
    return None if a.keys() - {None} else {key: n * a.get(None, 0) for key, n in b.items()}


_SUMS: dict[Any, Callable[..., _Sum | None]] = {
    ops.add: _plus,
    ops.sub: lambda a, b: _plus(a, b, -1),
    ops.neg: lambda a: {key: -n for key, n in a.items()},
    ops.mul: _times,
    cast: lambda a: a,
    reshape: lambda a: a,
}
