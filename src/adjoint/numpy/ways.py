"""How a view is derived from its base: an index, a reshape, a permutation of axes; how it is read, and written back."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.bind import Traced, class_of, fresh, is_array
from ..core.types import PYTHON_NUMBERS, Shape, Value, dtype_of, shape_of
from ..ops import broadcast as shapes
from ..ops import index as indexing
from ..ops.broadcast import broadcast_to


class Way:
    """How a view is derived from its base.

    look    reads it
    store   gives the base with this part replaced
    ask     NumPy's function, which gives the strides of the result and whether it shares memory
    """

    __slots__ = ()
    always = True  # a view for any strides; else NumPy decides
    read_only = False

    def look(self, base: Value) -> Value:
        raise NotImplementedError

    def store(self, base: Value, part: Value) -> Value:
        raise NotImplementedError

    def ask(self, memory: Any) -> Any:
        raise NotImplementedError


class Indexed(Way):
    """A basic index."""

    __slots__ = ("index",)

    def __init__(self, index: Any) -> None:
        self.index = index

    def look(self, base: Value) -> Value:
        return indexing.read(base, self.index)

    def store(self, base: Value, part: Value) -> Value:
        return indexing.write(base, self.index, part)

    def ask(self, memory: Any) -> Any:
        return memory[self.index]


class Element(Indexed):
    """A basic index with an ellipsis that reads one element: an array without axes, not a scalar."""

    __slots__ = ()

    def look(self, base: Value) -> Value:
        return fresh(as_array(indexing.read(base, self.index)))


class Chosen(Indexed):
    """A basic index with integers that are traced: NumPy's scalars, which give a view as Python's integers do."""

    __slots__ = ("example",)

    def __init__(self, index: Any, example: Any) -> None:
        self.index, self.example = index, example

    def ask(self, memory: Any) -> Any:
        return memory[self.example]  # whichever row it is, its strides are the same


class Shaped(Way):
    """Another shape, elements in the order of rows ("C") or of columns ("F")."""

    __slots__ = ("order", "own", "shape")
    always = False

    def __init__(self, own: Shape, shape: Shape, order: str = "C") -> None:
        self.own, self.shape, self.order = own, shape, order

    def look(self, base: Value) -> Value:
        return self.reshaped(base, self.shape)

    def store(self, base: Value, part: Value) -> Value:
        return self.reshaped(part, self.own)

    def reshaped(self, x: Value, shape: Shape) -> Value:
        if self.order == "C":
            return shapes.reshape(x, shape=shape)
        return _reversed(shapes.reshape(_reversed(x), shape=shape[::-1]))

    def ask(self, memory: Any) -> Any:
        return memory.reshape(self.shape, order=self.order)


def _reversed(x: Value) -> Value:
    n = len(shape_of(x))
    return shapes.transpose(x, axes=tuple(range(n))[::-1]) if n > 1 else x


class Elements(Shaped):
    """`x.flat`: the elements in row-major order, writable for any layout."""

    __slots__ = ()
    always = True

    def __init__(self, own: Shape) -> None:
        super().__init__(own, (math.prod(own),))


class Flattened(Shaped):
    """`ravel`, which gives a contiguous array: it copies where a reshape would give a view with gaps."""

    __slots__ = ("asked",)

    def __init__(self, own: Shape, shape: Shape, order: str, asked: str) -> None:
        super().__init__(own, shape, order)
        self.asked = asked

    def ask(self, memory: Any) -> Any:
        return memory.ravel(self.asked)


class Permuted(Way):
    """The axes in another order."""

    __slots__ = ("axes",)

    def __init__(self, axes: Shape) -> None:
        self.axes = axes

    def look(self, base: Value) -> Value:
        return shapes.transpose(base, axes=self.axes)

    def store(self, base: Value, part: Value) -> Value:
        return shapes.transpose(part, axes=tuple(sorted(range(len(self.axes)), key=self.axes.__getitem__)))

    def ask(self, memory: Any) -> Any:
        return memory.transpose(self.axes)


class Same(Way):
    """The array itself, or a copy in memory order of the same elements: `ascontiguousarray` and its relatives."""

    __slots__ = ("asked",)
    always = False

    def __init__(self, asked: Callable[[Any], Any]) -> None:
        self.asked = asked

    def look(self, base: Value) -> Value:
        return base

    def store(self, base: Value, part: Value) -> Value:
        return part

    def ask(self, memory: Any) -> Any:
        return self.asked(memory)


class Seen(Way):
    """A read-only view: a diagonal, a broadcast."""

    __slots__ = ("asked", "seen")
    read_only = True

    def __init__(self, seen: Callable[[Value], Value], asked: Callable[[Any], Any]) -> None:
        self.seen, self.asked = seen, asked

    def look(self, base: Value) -> Value:
        return self.seen(base)

    def ask(self, memory: Any) -> Any:
        return self.asked(memory)


class Written(Seen):
    """A view with its own write function."""

    __slots__ = ("stored",)
    read_only = False

    def __init__(
        self, seen: Callable[[Value], Value], asked: Callable[[Any], Any], stored: Callable[[Value, Value], Value]
    ) -> None:
        super().__init__(seen, asked)
        self.stored = stored

    def store(self, base: Value, part: Value) -> Value:
        return self.stored(base, part)


class InMemoryOrder(Way):
    """`ravel` of order "K": the elements in memory order, with the axes from the slowest to the fastest."""

    __slots__ = ("permuted", "rows")
    always = False

    def __init__(self, own: Shape, axes: Shape) -> None:
        self.permuted = Permuted(axes)
        self.rows = tuple(own[i] for i in axes)

    def look(self, base: Value) -> Value:
        return shapes.reshape(self.permuted.look(base), shape=(math.prod(self.rows),))

    def store(self, base: Value, part: Value) -> Value:
        return self.permuted.store(base, shapes.reshape(part, shape=self.rows))

    def ask(self, memory: Any) -> Any:
        return memory.ravel("K")


def shares(part: Any, whole: Any) -> bool:
    """Whether the result of NumPy's function on a stand-in is a view of it."""
    return np.may_share_memory(part, whole) if part.size else part is whole or part.base is not None


def as_array(x: Value) -> Value:
    """A scalar as an array without axes, as np.asarray gives; an array is unchanged."""
    return x if is_array(x) else broadcast_to(x, shape=())


def strong(x: Value) -> Value:
    """A Python number as np.asarray gives it, whose dtype counts in promotions; other values are unchanged."""
    return as_array(x) if class_of(x) in PYTHON_NUMBERS else x


def kind_of(x: Value) -> Any:
    """What np.result_type takes for a value: a Python number stays weak."""
    if class_of(x) not in PYTHON_NUMBERS:
        return dtype_of(x)
    return class_of(x)() if isinstance(x, Traced) else x
