"""NumPy's indexing, views and in-place writes on immutable values.

A write makes a new value, and the user's array refers to it from then on. A view knows its base: it is recomputed when the base
has changed, and a write to the view goes to the base.

    b = a[0]; b += 1        # a changes

Whether `a.T.reshape(4)` is a view or a copy depends on the memory layout of a. This is decided by NumPy when something is
written, and not before (layout.py); a view that turns out to be a copy is then detached from its base.
"""

from __future__ import annotations

import operator
import weakref
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import numpy as np

from ..core.bind import FRESH, Traced, class_of, fresh, is_array, is_staged, snapshot
from ..core.errors import ConversionError, ReadOnlyError, ReadOnlyViewError
from ..core.types import Value, dtype_of, shape_of
from ..eager.batch import Batch
from ..ops import index as indexing
from ..ops.broadcast import cast
from .layout import dense, laid_out, later, stand_in, strides_of
from .moving import is_moving, windows
from .selected import Selected, after_write, select
from .table import holds_traced, lift
from .ways import Chosen, Element, Indexed, Way, as_array, shares

#: The arrays that have been written to, while this is recorded.
written: ContextVar[list[weakref.ref[Traced]] | None] = ContextVar("adjoint_written", default=None)

_slot_by, _slot_value, _slot_aux = (vars(Traced)[name] for name in ("by", "underlying", "aux"))


class View(Traced):
    """A part or another shape of an array; without a base, it has turned out to be a copy."""

    __slots__ = ("base", "seen", "shared", "way")
    is_view = True

    def __init__(self, now: Traced, base: Traced, way: Way) -> None:
        set_contents(self, now.by, now.underlying, now.aux)
        self.base: Traced | None = base
        self.way = way
        self.shared: bool | None = way.always or None
        root = base if type(base) is Traced else self.root
        self.seen = (root.underlying, root.aux)

    @property
    def root(self) -> Traced:
        """The array at the end of the chain of views: a write through any of them reaches it."""
        at: Traced = self
        while isinstance(at, View) and at.base is not None:
            at = at.base
        return at

    def is_current(self) -> bool:
        """Whether nothing has been written since the last read."""
        root = self.root
        if root is self:
            return True
        value, aux = self.seen
        return root.underlying is value and root.aux is aux

    def refresh(self) -> None:
        """Recompute after a write: first the bases, from the root on."""
        stale: list[View] = []
        at: Traced | None = self
        while isinstance(at, View) and not at.is_current():
            stale.append(at)
            at = at.base
        while stale:
            one = stale.pop()
            if not one.is_shared():
                one.separate()
                continue
            root = one.root
            one.seen = (root.underlying, root.aux)
            now = one.way.look(snapshot(one.base))
            set_contents(one, now.by, now.underlying, now.aux)

    def is_shared(self) -> bool:
        """Whether NumPy would give a view here, and not a copy."""
        if self.shared is None:
            whole = stand_in(self.base)
            part = self.way.ask(whole)
            self.shared = shares(part, whole)
            self.memory_layout = part.strides
        return self.shared

    def noted_strides(self) -> tuple[int, ...] | None:
        if self.base is not None and getattr(self, "memory_layout", None) is None:
            self.memory_layout = self.way.ask(stand_in(self.base)).strides
        return super().noted_strides()

    def separate(self) -> None:
        """Detach from the base, keeping the contents of the last read."""
        self.memory_layout = self.noted_strides()
        self.base = None


def owns_memory(x: Traced) -> bool:
    """Whether the array is not a view, neither of a traced array nor of one of the user's."""
    if isinstance(x, View):
        return x.base is None or not x.is_shared()
    return x.noted_strides() is None


def is_read_only(x: Traced) -> bool:
    """Whether nothing may be written to the array: it is protected, or a view that NumPy would not let be written to."""
    at: Traced | None = x
    while at is not None:
        if id(at) in _protected:
            return True
        if not isinstance(at, View) or at.base is None or not at.is_shared():
            return False
        if at.way.read_only:
            return True
        at = at.base
    return False


def read_only() -> ReadOnlyError:
    return ReadOnlyViewError("this array is read-only, as in NumPy; write to a copy")


#: Arrays that user code has declared read-only (`x.flags.writeable = False`), by identity, for as long as they live.
_protected: dict[int, weakref.ref[Traced]] = {}


def protect(x: Traced, is_protected: bool) -> None:
    """`x.setflags(write=False)`, or its reverse."""
    key = id(x)
    if is_protected:
        _protected[key] = weakref.ref(x, lambda _: _protected.pop(key, None))
        return
    _protected.pop(key, None)
    if is_read_only(x):
        raise ValueError("cannot set WRITEABLE flag to True of this array")


def set_contents(x: Traced, trace: Any, value: Any, aux: Any) -> None:
    _slot_by.__set__(x, trace)
    _slot_value.__set__(x, value)
    _slot_aux.__set__(x, aux)


def _fresh_slot(slot: Any) -> property:
    read = slot.__get__

    def get(self: View) -> Any:
        base = self.base
        if type(base) is not Traced or base.underlying is not self.seen[0] or base.aux is not self.seen[1]:
            self.refresh()
        return read(self)

    return property(get, slot.__set__)


for _name in ("by", "underlying", "aux"):
    setattr(View, _name, _fresh_slot(getattr(Traced, _name)))


def view(base: Value, way: Way) -> Value:
    """A view of base."""
    return _viewed(way.look(base), base, way)


def _viewed(y: Value, base: Value, way: Way) -> Value:
    """y, which was read from base, as a view of it. Scalars are copies, as in NumPy."""
    if y is base:  # nothing to do
        y = snapshot(y)
    if type(y) is Traced and isinstance(base, Traced) and is_array(y) and is_array(base):
        return View(y, base, way)
    return y


def read(x: Value, index: Any) -> Value:
    """x[index]; a basic index gives a view."""
    if type(index) is int:
        if not isinstance(x, View) and len(shape_of(x)) == 1:
            return indexing.read(x, index)
        return view(x, Indexed(index))
    if type(index) is slice and not is_moving(index):
        return view(x, Indexed(_plain_slice(index)))
    if type(index) is tuple and indexing.INTEGERS.issuperset(map(type, index)):
        return view(x, Indexed(index))
    selected = select(x, index)
    if selected is not NotImplemented:
        return selected
    index = _plain_index(index)
    if _moves(index):
        found, index = windows(x, index)
        for window in found:
            x = view(x, window)
        return read(x, index)
    if _is_single_truth(index):  # selects all of x, or nothing
        return indexing.read(indexing.read(x, None), slice(None if index else 0))
    if not _is_basic(index):
        example = tuple(map(_example, index)) if isinstance(index, tuple) else _example(index)
        return view(x, Chosen(index, example)) if _is_basic(example) else indexing.read(x, index)
    way = Indexed(index)
    y = way.look(x)
    if not shape_of(y) and _has_ellipsis(index):
        return _viewed(fresh(as_array(y)), x, Element(index))
    return _viewed(y, x, way)


def _moves(index: Any) -> bool:
    """Whether an index contains slices with traced bounds."""
    return any(map(is_moving, index)) if isinstance(index, tuple) else is_moving(index)


def _example(entry: Any) -> Any:
    """A plain integer for one that is traced. (An array without axes is none: NumPy copies what it chooses.)"""
    is_integer = isinstance(entry, Traced) and not shape_of(entry) and dtype_of(entry).kind in "iu" and not is_array(entry)
    return 0 if is_integer else entry


def _has_ellipsis(index: Any) -> bool:
    """Whether an index of one element gives an array without axes, not a scalar."""
    return index is Ellipsis or (isinstance(index, tuple) and any(i is Ellipsis for i in index))


def _plain_index(index: Any) -> Any:
    """An index with array-likes converted to plain arrays."""
    return tuple(map(_plain_entry, index)) if isinstance(index, tuple) else _plain_entry(index)


_ENTRIES = (type(None), type(...), int, slice, np.ndarray, np.generic, list, tuple, range)


def _plain_entry(entry: Any) -> Any:
    if isinstance(entry, Traced):
        return entry.underlying if entry.by is FRESH else entry
    if isinstance(entry, list) and holds_traced(entry):
        return lift(entry)
    if type(entry) is slice and not is_moving(entry):
        return _plain_slice(entry)
    if isinstance(entry, _ENTRIES):
        return entry
    array = np.asarray(entry)  # a Series, a deque, an array.array, anything with `__array__`
    if array.dtype == object:
        return entry
    return array if array.size else array.astype(np.intp)


_OF_SLICES = frozenset({int, type(None)})


def _plain_slice(entry: slice) -> slice:
    """A slice with integers as bounds: an array without axes has no hash, and may change."""
    bounds = (entry.start, entry.stop, entry.step)
    if _OF_SLICES.issuperset(map(type, bounds)):
        return entry
    return slice(*(operator.index(bound) if hasattr(bound, "__index__") else bound for bound in bounds))


def _is_single_truth(index: Any) -> bool:
    return isinstance(index, (bool, np.bool_)) or (isinstance(index, np.ndarray) and not index.ndim and index.dtype == bool)


def _is_basic(index: Any) -> bool:
    if isinstance(index, tuple):
        return all(map(_is_basic, index))
    return index is None or index is Ellipsis or (isinstance(index, (int, slice, np.integer)) and not isinstance(index, bool))


def write(x: Traced, index: Any, v: Any) -> None:
    """x[index] = v."""
    if (_protected or isinstance(x, View)) and is_read_only(x):  # before the index is looked at, as in NumPy
        raise read_only()
    v = lift_into(x, v)
    if isinstance(v, Selected) and (new := after_write(Traced(x.by, x.underlying, x.aux), index, v)) is not None:
        become(x, new)
        return
    if _is_single_truth(index):
        if not index:
            return
        index = None
    index = _plain_index(index)
    if _moves(index):
        found, index = windows(x, index)
        for window in found:
            x = view(x, window)
    elif _is_own_part(x, index, v):
        return
    become(x, indexing.write(Traced(x.by, x.underlying, x.aux), index, as_stored(x, v)))


def _is_own_part(x: Traced, index: Any, v: Any) -> bool:
    """Whether v is the view x[index], as in the second half of `x[index] += 1`: the view has already written to x."""
    if not isinstance(v, View) or v.base is not x or not isinstance(v.way, Indexed) or isinstance(v.way, Chosen):
        return False
    return _is_basic(index) and v.way.index == index and not is_read_only(x)


#: What Python numbers are written as.
_OF_NUMBERS = frozenset({int, float, list, tuple})


def lift_into(x: Value, v: Any) -> Value:
    """What is written to an array x. Python numbers written to integers are converted by NumPy: one that does not fit raises."""
    own, lifted = dtype_of(x), lift(v)
    if own.kind not in "iu":
        return lifted
    if type(v) in _OF_NUMBERS and not isinstance(lifted, Traced):
        return np.array(v, own)[()]
    if isinstance(v, Traced) and class_of(v) is int and own != np.int64:
        limits = np.iinfo(own)
        if not (v >= limits.min and v <= limits.max):  # type: ignore[operator]
            raise OverflowError(f"Python integer out of bounds for {own}")
    return lifted


def as_stored(x: Value, v: Value) -> Value:
    """A value in the dtype of the array it is written to, as NumPy converts it."""
    own, new = dtype_of(x), dtype_of(v)
    if new == own or new.kind not in "fc" or type(v) in (float, int):
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
    """Let the array x, and the bases of x, refer to a new value."""
    if _protected and is_read_only(x):
        raise read_only()
    while isinstance(x, View) and x.base is not None:
        if not x.is_shared():
            x.separate()
            break
        if x.way.read_only:
            raise read_only()
        new = x.way.store(snapshot(x.base), new)
        x = x.base
    log = written.get()
    if log is not None:
        log.append(weakref.ref(x))
    x.by.adopt(x, new if _is_held_alike(new, x) else _in_same_order(as_array(new), x))


def _is_held_alike(new: Value, x: Traced) -> bool:
    """Whether two values of one trace are arrays of one shape, dtype and order in memory: a write then only replaces x."""
    if type(new) is not Traced or new.by is not x.by or type(x.by) is Batch:  # which holds numbers as arrays
        return False
    held, now = new.underlying, x.underlying
    return (
        type(held) is np.ndarray
        and type(now) is np.ndarray
        and held.shape == now.shape
        and held.dtype == now.dtype
        and held.strides == now.strides
    )


def _in_same_order(new: Value, x: Traced) -> Value:
    """A value that overwrites the array x, with its numbers in the memory order of x."""
    held, now = getattr(new, "underlying", new), x.underlying
    if type(held) is np.ndarray and type(now) is np.ndarray and (now.ndim < 2 or held.strides == now.strides):
        return new
    if len(shape_of(x)) < 2:
        return new
    if is_staged(new) or is_staged(x):
        return _with_strides(new, x)
    own = strides_of(x)
    wanted = dense(shape_of(x), own, dtype_of(x)) if x.noted_strides() else own
    return new if strides_of(new) == wanted else laid_out(new, wanted)


def _with_strides(new: Value, x: Traced) -> Value:
    """As `_in_same_order`, for a value without numbers: the strides are noted, in the value and in those that it stands for."""
    is_in_rows = not isinstance(x.underlying, np.ndarray) or x.underlying.flags.c_contiguous
    if not isinstance(new, Traced) or (is_in_rows and getattr(x, "memory_layout", None) is None):
        return new
    own = x.memory_layout = strides_of(x)
    return later(new, lambda: own)


def inplace(operation: Callable[[Any, Any], Any], in_numpy: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """`x += v` from `x + v`: an array changes in place, a scalar makes a new one. `in_numpy` is NumPy's own form of it."""

    def method(self: Traced, other: Any) -> Any:
        result = operation(self, other)
        if not _is_held_alike(result, self):
            if result is NotImplemented or not is_array(self):
                return result
            if shape_of(result) != shape_of(self):
                raise ValueError(
                    f"non-broadcastable output operand with shape {shape_of(self)} doesn't match the broadcast shape "
                    f"{shape_of(result)}"
                )
            own, new = dtype_of(self), dtype_of(result)
            if not np.can_cast(new, own, "same_kind"):
                in_numpy(np.ones(0, own), np.ones(0, new))  # raises NumPy's own error
            result = as_stored(self, result)
        become(self, result)
        return self

    return method
