"""Indexing, views and in-place writes, as NumPy has them, on values that never change.

A write makes a new value and lets the array the user holds stand for it from then on. A view remembers what it is
a view of: it reads again when that has changed, and a write to it is handed on.

    b = a[0]; b += 1        # a changes
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.bind import FRESH, Traced, snapshot
from ..core.errors import ReadOnlyError
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
    if isinstance(y, Traced) and isinstance(base, Traced) and type(y) is Traced and shape_of(y):
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
        return view(y, x, lambda base: indexing.read(base, index), lambda base, part: indexing.write(base, index, part))
    return y


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
    become(x, indexing.write(Traced(x.by, x.value, x.aux), _plain_index(index), _as_stored(x, v)))


def _as_stored(x: Traced, v: Value) -> Value:
    """A value in the dtype of the array it is written to, as NumPy converts it."""
    own, new = dtype_of(x), dtype_of(v)
    if new == own or new.kind not in "fc" or type(v) in (float, int, complex):
        return v
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
    x.by.adopt(x, new)


def _is_mutable(x: Traced) -> bool:
    """Whether NumPy would hold an array here, of any rank, and not a scalar."""
    value = x
    while isinstance(value, Traced):
        value = value.value
    if value is None:  # staged: only its type is known
        return shape_of(x) != ()
    return isinstance(value, np.ndarray) and (value.ndim == 0 or shape_of(x) != ())


def inplace(operation: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """`x += v` from `x + v`: an array changes in place, a scalar makes a new one."""

    def method(self: Traced, other: Any) -> Any:
        result = operation(self, other)
        if result is NotImplemented or not _is_mutable(self):
            return result
        if shape_of(result) != shape_of(self):
            raise ValueError(
                f"non-broadcastable output operand with shape {shape_of(self)} doesn't match the broadcast shape "
                f"{shape_of(result)}"
            )
        become(self, _as_stored(self, result if shape_of(self) else broadcast_to(result, shape=())))  # an array, of no axes too
        return self

    return method
