"""Protect the user's arrays that a derivative depends on from writes before the backward pass.

The backward pass needs constants as they were when used, and arguments as they were passed. Constants are copied: a copy costs
less than the op that uses them. Larger ones (`LARGE`) are watched, as arguments are: `mark` is taken at use and compared when the
function has returned; a difference raises an error.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numpy import ndarray

from ..core.errors import ReadOnlyError
from ..core.memory import is_writeable

SMALL = 1 << 8  # elements; below, a copy costs no more than a call
LARGE = 1 << 22  # elements; above, memory matters
_SHORT = 1 << 16  # bytes
_BLOCK = 1 << 14  # words; the mixed block stays in the cache


@functools.cache
def _places() -> ndarray[Any, Any]:
    """An odd number for each word of a block. Made on demand: loading numpy.random takes several milliseconds."""
    numbers: ndarray[Any, Any] = np.random.default_rng(0).integers(0, 1 << 63, _BLOCK, np.uint64)
    return numbers * np.uint64(2) + np.uint64(1)


def mark(x: ndarray[Any, Any]) -> Any:
    """A record to detect changes of an array: a copy or, for a large one, a checksum per block.

    Each 64-bit word is mixed with an odd number that depends on its position, so that the sum depends on the order and any
    single write changes it. (Copying and comparing takes a third of the time of checksums.)
    """
    if x.size <= LARGE or not x.flags.forc or x.nbytes % 8:
        return x.copy(order="K")
    words = x.ravel("K").view(np.uint64)
    all_places = _places()
    mixed = np.empty_like(all_places)
    sums = []
    for start in range(0, words.size, _BLOCK):
        block = words[start : start + _BLOCK]
        places, out = all_places[: block.size], mixed[: block.size]
        np.multiply(np.bitwise_xor(block, places, out=out), places, out=out)
        sums.append(int(np.add.reduce(out)))
    return sums


def is_same(x: ndarray[Any, Any], marked: Any) -> bool:
    """Whether an array has the contents that it had when it was marked."""
    if not isinstance(marked, ndarray):
        return bool(mark(x) == marked)
    if x.nbytes > _SHORT and x.nbytes % 8 == 0 and x.flags.forc:
        return np.array_equal(x.ravel("K").view(np.uint64), marked.ravel("K").view(np.uint64))
    return x.tobytes() == marked.tobytes()


def is_immutable(x: ndarray[Any, Any]) -> bool:
    """Whether the memory of an array is immutable, that of bytes. The flag alone can be set again, and views made before are
    writeable."""
    at: Any = x
    while isinstance(at, ndarray):
        at = at.base
    return isinstance(at, bytes)


class Watch:
    """The arrays that one run of a function depends on, by id: each entry keeps its array alive."""

    __slots__ = ("copies", "marks")
    copies: dict[int, tuple[ndarray[Any, Any], Any, ndarray[Any, Any]]]
    marks: dict[int, tuple[ndarray[Any, Any], Any, str]]

    def __init__(self) -> None:
        self.copies, self.marks = {}, {}

    def argument(self, x: Any, name: str) -> None:
        if type(x) is ndarray and not is_immutable(x):
            self.marks[id(x)] = (x, mark(x), name)

    def constant(self, x: ndarray[Any, Any], lasting: bool) -> ndarray[Any, Any]:
        """The value to save for a constant: a copy, one for all uses with the same contents, or the array itself if it is
        large."""
        flags = x.flags
        if x.size <= SMALL or not flags.forc:
            return x.copy(order="K")
        if not is_writeable(x) and is_immutable(x):
            return x
        if x.size <= LARGE or lasting:
            return self.copied(x)
        if id(x) not in self.marks:
            self.marks[id(x)] = (x, mark(x), "")
        elif not is_same(x, self.marks[id(x)][1]):
            raise changed(self.marks[id(x)][2])
        return x

    def copied(self, x: ndarray[Any, Any]) -> ndarray[Any, Any]:
        """A copy, or that of the last use if the contents are unchanged."""
        _, contents, copy = self.copies.get(id(x), (x, None, x))
        if x.nbytes <= _SHORT:  # comparing bytes is faster than comparing arrays
            now = x.tobytes("A")
            if now != contents:
                copy = np.frombuffer(now, x.dtype).reshape(x.shape, order="C" if x.flags.c_contiguous else "F")
                self.copies[id(x)] = x, now, copy
        elif copy is x or not is_same(x, copy):
            copy = x.copy(order="K")
            self.copies[id(x)] = x, None, copy
        return copy

    def check(self) -> None:
        """Raise if a watched array has been written to."""
        for x, before, name in self.marks.values():
            if not is_same(x, before):
                raise changed(name)


def changed(name: str) -> ReadOnlyError:
    if name:
        return ReadOnlyError(
            f"the array passed as {name} was written to while the function ran, by another name for the same memory (a global, "
            "a closure, a view), so its derivative is undefined; write to the argument itself, or to a copy of the array"
        )
    return ReadOnlyError(
        "a large NumPy array that was used in the computation was written to afterwards, so the backward pass would read other "
        "numbers than the function did; make the array with adjoint.numpy, whose writes are tracked, or use a copy"
    )
