"""What a `for` loop runs over, as a number of iterations and the item of each: ranges, arrays, and what is made of them.

    enumerate(zip(a, b))        len(a) iterations, or len(b); iteration k gives (k, (a[k], b[k]))

`looped` replaces `range`, `enumerate`, `zip` and `reversed` in the first line of a loop: the bounds of a range may be traced.
"""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..core.bind import Traced, unwrap_fresh
from ..core.types import Value, dtype_of, shape_of
from ..ops.elementwise import floor_divide, maximum, minimum
from .body import SourceBody


class Items(NamedTuple):
    """The items of a loop: how many, the arrays whose rows they are made of, and item k from k and the rows k."""

    count: Any  # an int, or a traced integer
    rows: Sequence[Value]
    item: Callable[[Any, Sequence[Any]], Any]


class Range:
    """`range`, with bounds that may be traced."""

    def __init__(self, *bounds: Any) -> None:
        self.bounds = bounds

    def __iter__(self) -> Iterator[Any]:
        return iter(range(*map(operator.index, self.bounds)))

    def __reversed__(self) -> Iterator[Any]:
        return reversed(range(*map(operator.index, self.bounds)))

    def items(self) -> Items | None:
        start, stop, step = {1: (0, *self.bounds, 1), 2: (*self.bounds, 1), 3: self.bounds}[len(self.bounds)]
        step = operator.index(step)
        if not all(map(_is_whole, (start, stop))) or not step:
            return None
        if isinstance(start, Traced) or isinstance(stop, Traced):
            away = stop - start if step > 0 else start - stop
            count: Any = maximum(floor_divide(away + (abs(step) - 1), abs(step)) if abs(step) > 1 else away, 0)
        else:
            count = len(range(operator.index(start), operator.index(stop), step))

        def item(k: Any, _: Sequence[Any]) -> Any:
            moved = _whole(k * step) if step != 1 else k
            return moved if not isinstance(start, Traced) and start == 0 else _whole(start + moved)

        return Items(count, (), item)


class Enumerate:
    def __init__(self, iterable: Any, start: Any = 0) -> None:
        self.iterable, self.start = iterable, start

    def __iter__(self) -> Iterator[Any]:
        return iter(enumerate(self.iterable, operator.index(self.start)))

    def items(self) -> Items | None:
        inner = items_of(self.iterable)
        if inner is None or not _is_whole(self.start):
            return None
        start, item = self.start, inner.item
        return inner._replace(
            item=lambda k, rows: (_whole(k + start) if isinstance(start, Traced) or start else k, item(k, rows))
        )


class Zip:
    def __init__(self, *iterables: Any, strict: bool = False) -> None:
        self.iterables, self.strict = iterables, strict

    def __iter__(self) -> Iterator[Any]:
        return iter(zip(*self.iterables, strict=self.strict))

    def items(self) -> Items | None:
        parts = [items_of(x) for x in self.iterables]
        if not parts or any(p is None for p in parts):
            return None
        found = [p for p in parts if p is not None]
        counts = [p.count for p in found]
        known = [c for c in counts if not isinstance(c, Traced)]
        if self.strict and len(set(known)) + len(counts) - len(known) > 1:
            return None
        count: Any = min(known) if known else None
        for c in [c for c in counts if isinstance(c, Traced)]:
            count = c if count is None else minimum(count, c)
        ends = np.cumsum([0, *(len(p.rows) for p in found)])

        def item(k: Any, rows: Sequence[Any]) -> Any:
            return tuple([p.item(k, rows[a:b]) for p, a, b in zip(found, ends[:-1], ends[1:], strict=True)])

        return Items(count, [row for p in found for row in p.rows], item)


class Reversed:
    def __init__(self, iterable: Any) -> None:
        self.iterable = iterable

    def __iter__(self) -> Iterator[Any]:
        return iter(reversed(self.iterable))

    def items(self) -> Items | None:
        inner = items_of(self.iterable) if not isinstance(self.iterable, (Zip, Enumerate, Reversed)) else None
        if inner is None:
            return None
        count, item = inner.count, inner.item
        return Items(count, [row[::-1] for row in inner.rows], lambda k, rows: item(_whole(count - 1 - k), rows))


def _whole(x: Any) -> Any:
    """A Python integer, if a body computes it."""
    return x.by.whole(x) if isinstance(x, Traced) and isinstance(x.by, SourceBody) else x


def _is_whole(x: Any) -> bool:
    if isinstance(x, Traced):
        return shape_of(x) == () and dtype_of(x).kind in "iu"
    return isinstance(x, (int, np.integer))


_LOOPED: dict[Any, Any] = {range: Range, enumerate: Enumerate, zip: Zip, builtins.reversed: Reversed}


def looped(function: Any) -> Any:
    """The class that stands for a builtin in the first line of a loop; None for another function."""
    try:
        return _LOOPED.get(function)
    except TypeError:  # not hashable
        return None


def items_of(iterable: Any) -> Items | None:
    """The items of what a loop runs over, if they can be counted."""
    if isinstance(iterable, (Range, Enumerate, Zip, Reversed)):
        return iterable.items()
    if isinstance(iterable, range):
        return Range(iterable.start, iterable.stop, iterable.step).items()
    plain = unwrap_fresh(iterable)
    if isinstance(plain, Traced) or (type(plain) is np.ndarray and plain.dtype.kind in "biufc"):
        shape = shape_of(plain)
        return Items(shape[0], [iterable], lambda _, rows: rows[0]) if shape else None
    return None
