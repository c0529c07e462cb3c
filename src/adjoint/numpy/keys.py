"""Traced values as keys of a dict: hash and `==`."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.bind import Traced
from ..core.errors import ConversionError, told_apart, user_line
from ..eager.batch import Batch
from ..ops import elementwise as ops
from ..staging.guard import Guarded
from .caller import is_cached, reads_entry
from .operators import operator_for


class _Lookup(threading.local):
    """The last hashed value, and the instruction and frame that hashed it: the comparison that follows is a key lookup."""

    at: tuple[int, int, int] | None = None


_lookup = _Lookup()


def hash_(self: Traced) -> int:
    """A number is hashed by value, as NumPy's scalars are; arrays and symbols by identity.

    In a cache of results, two variables of equal value must be distinct, since each has its own derivative. So a traced number
    never equals another one as a key (`equal`); as a key of `functools.cache`, which outlives the transform, it does not even
    equal a plain number.
    """
    if self.by.has_identity or self.by.is_array(self) or is_cached():
        return object.__hash__(self)
    key = hash(_number(self))  # which may be traced as well
    frame = sys._getframe(1)
    _lookup.at = id(self), id(frame), frame.f_lasti
    return key


def equal(self: Traced, other: Any) -> Any:
    """`==`. As keys, two traced numbers are equal if they are one value of one trace, not if their numbers are.

    A function for which that makes a difference, such as `len(set(x))`, is refused: the transform compares its result with that
    on plain numbers (`told_apart`).

    A traced and a plain number are equal if their numbers are. But what a dict holds for one is not what it holds for the other:
    a memo's entry for 2.0 has no derivative.
    """
    if _lookup.at is None:  # no traced number was ever a key
        return _compare_equal(self, other)
    frame = sys._getframe(1)
    if isinstance(other, Traced):
        if _lookup.at in ((id(other), id(frame), frame.f_lasti), (id(self), id(frame), frame.f_lasti)):
            if self is other or (self.by is other.by and self.aux is other.aux and self.aux is not None):
                return True
            alive = not (self.by.ended or other.by.ended)  # a memo may hold keys of an earlier call
            if alive and _number(self) == _number(other):
                told_apart.set([user_line()])
            return False
        return _compare_equal(self, other)
    return _checked_key(self, other, _compare_equal(self, other), frame)


def _number(x: Traced) -> Any:
    """What lies below a traced number; if that is staged, comparing it is guarded."""
    return x.by.concrete(x, "the hash of")


def _checked_key(x: Traced, key: Any, is_equal: Any, frame: Any) -> Any:
    """The answer to `x == key`, unless a dict asks for it to find the entry of x under a plain key, or that of a plain number
    under x."""
    if type(key) in _KEYS and not isinstance(x.by, (Batch, Guarded)) and reads_entry(frame) and is_equal:
        raise ConversionError(
            f"a value traced by {x.by.name} and the plain number {key!r} are one key of a dict, but the entry of the number has "
            "no derivative; start with an empty dict if it holds results, use ad.stop_gradient(x) as the key of a table"
        )
    return is_equal


_KEYS = frozenset({float, int, complex, np.float64, np.float32})


def equal_as_key(equal: Callable[..., Any]) -> Callable[..., Any]:
    """`==` of a NumPy scalar, on the left, and a traced value."""

    def quick(a: Any, b: Any) -> Any:
        y = equal(a, b)
        if _lookup.at is None or isinstance(a, Traced):
            return y
        key = a[()] if type(a) is np.ndarray and not a.ndim else a  # NumPy makes an array of a scalar that it compares
        return _checked_key(b, key, y, sys._getframe(2))

    return quick


_compare_equal = operator_for("eq", ops.equal)
