"""Indexing, views and in-place writes, as NumPy has them, on values that never change.

A write makes a new value and lets the array the user holds stand for it from then on. A view remembers what it is
a view of: it reads again when that has changed, and a write to it is handed on.

    b = a[0]; b += 1        # a changes
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.bind import FRESH, Traced, fresh, is_array, snapshot
from ..core.errors import ConversionError, ReadOnlyError
from ..core.types import Value, dtype_of, shape_of
from ..ops import index as indexing
from ..ops.broadcast import broadcast_to, cast
from .table import lift

_slot_by, _slot_value, _slot_aux = (vars(Traced)[name] for name in ("by", "value", "aux"))


class View(Traced):
    """A part or another shape of an array. `look` reads it from its base, `store` gives the base with it replaced."""

    __slots__ = ("base", "look", "root", "seen", "store")

    def __init__(
        self, now: Traced, base: Traced, look: Callable[[Value], Value], store: Callable[[Value, Value], Value] | None
    ) -> None:
        super().__init__(now.by, now.value, now.aux)
        self.base = base
        self.look = look
        self.store = store
        self.root: Traced = base.root if isinstance(base, View) else base
        self.seen = (self.root.value, self.root.aux)

    def is_current(self) -> bool:
        """Whether nothing has been written since the last look. Every write, through any view, reaches the root."""
        value, aux = self.seen
        return self.root.value is value and self.root.aux is aux

    def refresh(self) -> None:
        """Read again if there was a write: first what this is a view of, from the root on."""
        stale: list[View] = []
        at: Traced = self
        while isinstance(at, View) and not at.is_current():
            stale.append(at)
            at = at.base
        while stale:
            one = stale.pop()
            one.seen = (one.root.value, one.root.aux)
            now = one.look(snapshot(one.base))
            set_contents(one, now.by, now.value, now.aux)


def set_contents(x: Traced, trace: Any, value: Any, aux: Any) -> None:
    _slot_by.__set__(x, trace)
    _slot_value.__set__(x, value)
    _slot_aux.__set__(x, aux)


def _fresh_slot(slot: Any) -> property:
    def get(self: View) -> Any:
        if hasattr(self, "seen"):
            self.refresh()
        return slot.__get__(self)

    return property(get, slot.__set__)


for _name in ("by", "value", "aux"):
    setattr(View, _name, _fresh_slot(getattr(Traced, _name)))


def view(y: Value, base: Value, look: Callable[[Value], Value], store: Callable[[Value, Value], Value] | None) -> Value:
    """Make y, which was read from base by `look`, a view of it. Scalars are copies, as in NumPy."""
    if type(y) is Traced and isinstance(base, Traced) and is_array(y) and is_array(base):
        return View(y, base, look, store)
    return y


def read(x: Value, index: Any) -> Value:
    """x[index]; a basic index gives a view."""
    if type(index) is not int and _is_single_truth(index):  # selects all of x, or nothing
        return indexing.read(indexing.read(x, None), slice(None if index else 0))
    y = indexing.read(x, _plain_index(index))
    if type(index) is int and not isinstance(x, View) and len(shape_of(x)) == 1:
        return y
    if _is_basic(index):
        store = lambda base, part: indexing.write(base, index, part)
        if not shape_of(y) and _has_ellipsis(index):
            return view(fresh(as_array(y)), x, lambda base: fresh(as_array(indexing.read(base, index))), store)
        return view(y, x, lambda base: indexing.read(base, index), store)
    return y


def _has_ellipsis(index: Any) -> bool:
    """Whether an index of one element gives an array without axes, not a scalar."""
    return index is Ellipsis or (isinstance(index, tuple) and any(i is Ellipsis for i in index))


def _plain_index(index: Any) -> Any:
    """Fresh arrays in an index as the plain arrays they are."""
    if isinstance(index, tuple):
        return tuple(map(_plain_index, index))
    return index.value if isinstance(index, Traced) and index.by is FRESH else index


def _is_single_truth(index: Any) -> bool:
    return isinstance(index, (bool, np.bool_)) or (isinstance(index, np.ndarray) and not index.ndim and index.dtype == bool)


def _is_basic(index: Any) -> bool:
    if isinstance(index, tuple):
        return all(map(_is_basic, index))
    return index is None or index is Ellipsis or (isinstance(index, (int, slice, np.integer)) and not isinstance(index, bool))


def write(x: Traced, index: Any, v: Any) -> None:
    """x[index] = v."""
    v = lift(v)
    if _is_single_truth(index):
        if not index:
            return
        index = None
    become(x, indexing.write(Traced(x.by, x.value, x.aux), _plain_index(index), as_stored(x, v)))


def as_stored(x: Value, v: Value) -> Value:
    """A value in the dtype of the array it is written to, as NumPy converts it."""
    own, new = dtype_of(x), dtype_of(v)
    if new == own or new.kind not in "fc" or type(v) in (float, int, complex):
        return v
    if own.kind not in "fc" and isinstance(v, Traced) and v.by is not FRESH:
        raise ConversionError(
            f"writing a value traced by {v.by.name} into an array of dtype {own} would lose its derivative; make the array with "
            "a float dtype, or write ad.stop_gradient(x)"
        )
    if new.kind == "c" and own.kind != "c":
        raise TypeError("a complex value cannot be written to a real array; make the array with dtype=complex")
    return cast(v, dtype=own)


def become(x: Traced, new: Value) -> None:
    """Let the array x, and all it is a view of, stand for a new value."""
    while isinstance(x, View):
        if x.store is None:
            raise ReadOnlyError("this view is read-only, as in NumPy; write to a copy")
        new = x.store(snapshot(x.base), new)
        x = x.base
    x.by.adopt(x, as_array(new))


def as_array(x: Value) -> Value:
    """A scalar as an array without axes, as np.asarray gives; an array as it is."""
    return x if is_array(x) else broadcast_to(x, shape=())


def inplace(operation: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """`x += v` from `x + v`: an array changes in place, a scalar makes a new one."""

    def method(self: Traced, other: Any) -> Any:
        result = operation(self, other)
        if result is NotImplemented or not is_array(self):
            return result
        if shape_of(result) != shape_of(self):
            raise ValueError(
                f"non-broadcastable output operand with shape {shape_of(self)} doesn't match the broadcast shape "
                f"{shape_of(result)}"
            )
        become(self, as_stored(self, result))
        return self

    return method
