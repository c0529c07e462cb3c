"""Arrays of the user's that a derivative depends on: what is done if they are written to before it is known.

The backward pass reads constants as they were when they were used, and arguments as they were handed over. Constants are copied:
a copy costs less than the op that uses them. Those too large for that (`LARGE`) are watched, as arguments are: `mark` is taken
when they are used and compared when the function has run; a difference is an error, never a wrong derivative.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy import ndarray

from ..core.errors import ReadOnlyError

SMALL = 1 << 8  # elements; up to here a copy costs no more than a call
LARGE = 1 << 22  # elements; from here on memory counts
_SHORT = 1 << 16  # bytes
_BLOCK = 1 << 14  # words; what is mixed stays in the cache
_PLACES = np.random.default_rng(0).integers(0, 1 << 63, _BLOCK, np.uint64) * np.uint64(2) + np.uint64(1)


def mark(x: ndarray[Any, Any]) -> Any:
    """What tells that the contents of an array have changed: a copy or, of a large one, a sum for each block.

    A word of 64 bits is mixed with an odd number that belongs to its place, so that the sum tells the order too: any single write
    changes it. (To copy and to compare takes a third of the time that sums take.)
    """
    if x.size <= LARGE or not x.flags.forc or x.nbytes % 8:
        return x.copy(order="K")
    words = x.ravel("K").view(np.uint64)
    mixed = np.empty_like(_PLACES)
    sums = []
    for start in range(0, words.size, _BLOCK):
        block = words[start : start + _BLOCK]
        places, out = _PLACES[: block.size], mixed[: block.size]
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


def is_fixed(x: ndarray[Any, Any]) -> bool:
    """Whether nobody can write to an array: neither it nor what it is a view of is writeable."""
    at: Any = x
    while isinstance(at, ndarray):
        if at.flags.writeable:
            return False
        at = at.base
    return at is None


class Watch:
    """The arrays that one run of a function depends on, by id: each entry holds its array."""

    __slots__ = ("copies", "marks")
    copies: dict[int, tuple[ndarray[Any, Any], Any, ndarray[Any, Any]]]
    marks: dict[int, tuple[ndarray[Any, Any], Any, str]]

    def __init__(self) -> None:
        self.copies, self.marks = {}, {}

    def argument(self, x: Any, name: str) -> None:
        if type(x) is ndarray and not is_fixed(x):
            self.marks[id(x)] = (x, mark(x), name)

    def constant(self, x: ndarray[Any, Any], lasting: bool) -> ndarray[Any, Any]:
        """What to save of a constant: a copy, one for all uses with the same contents, or the array itself if it is large."""
        flags = x.flags
        if x.size <= SMALL or not flags.forc:
            return x.copy(order="K")
        if not flags.writeable and is_fixed(x):
            return x
        if x.size <= LARGE or lasting:
            return self.copied(x)
        if id(x) not in self.marks:
            self.marks[id(x)] = (x, mark(x), "")
        elif not is_same(x, self.marks[id(x)][1]):
            raise changed(self.marks[id(x)][2])
        return x

    def copied(self, x: ndarray[Any, Any]) -> ndarray[Any, Any]:
        """A copy, or that of the last use if it is still the same."""
        _, contents, copy = self.copies.get(id(x), (x, None, x))
        if x.nbytes <= _SHORT:  # bytes are compared sooner than arrays
            now = x.tobytes("A")
            if now != contents:
                copy = np.frombuffer(now, x.dtype).reshape(x.shape, order="C" if x.flags.c_contiguous else "F")
                self.copies[id(x)] = x, now, copy
        elif copy is x or not is_same(x, copy):
            copy = x.copy(order="K")
            self.copies[id(x)] = x, None, copy
        return copy

    def check(self) -> None:
        """Raise if an array that is needed has been written to."""
        for x, before, name in self.marks.values():
            if not is_same(x, before):
                raise changed(name)


def changed(name: str) -> ReadOnlyError:
    if name:
        return ReadOnlyError(
            f"the array passed as {name} was written to while the function ran, by another name for the same memory (a global, "
            "a closure, a view), so that its derivative is not defined; write to the argument itself, or to a copy of the array"
        )
    return ReadOnlyError(
        "a large NumPy array that was used in the computation was written to afterwards, so the backward pass would read other "
        "numbers than the function did; make the array with adjoint.numpy, whose writes are tracked, or use a copy"
    )
