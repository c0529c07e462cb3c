"""Places outside a function that its compiled program reads: how to reach each, and the condition on its value.

    lam = 0.5                          f reads the cell of `lam`, whose number must still be 0.5,
    def f(w):                          and the entry "data" of its globals, an array: the program
        return lam * w @ data          reads the current array at each call

A place is reached from a fixed object (a cell, a dict of globals, an object) or from the value of an earlier place (an item of a
list that is looked up at each call). Native code checks the same list (`compiler/runtime/entry_arguments.py`).
"""

from __future__ import annotations

import builtins
import decimal
import operator
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any


class Load(IntEnum):
    """How a value is read from its owner."""

    FIXED = 0  # the owner itself
    CELL = 1  # the contents of a closure cell
    ENTRY = 2  # owner[key], of a dict
    ATTRIBUTE = 3  # owner.key
    ITEM = 4  # owner[key], of a list
    PART = 5  # owner[key], of a tuple
    CODE = 6  # the code of a function
    CALL = 7  # owner(*key)


class Check(IntEnum):
    """The condition on a value for the program to be valid."""

    INPUT = 0  # none: the program checks its inputs itself
    IS = 1  # it is the expected object
    TYPE = 2  # its class is the expected one
    EQUAL = 3  # a number or string, equal to the expected one and of its class
    LENGTH = 4  # a container of the expected class and length
    SAME = 5  # it is the value of an earlier place
    TEST = 6  # expected(value) is true
    NO_ENTRY = 7  # a dict without the expected key
    NO_ATTRIBUTE = 8  # an object without the expected attribute
    METHOD = 9  # a method of its owner, with the expected function
    ORDER = 10  # a dict whose keys are those of the expected list, in its order
    LACKS = 11  # an object without the expected attribute, other than one that its `__getattr__` makes
    OTHER = 12  # it is not the value of an earlier place


@dataclass(frozen=True, eq=False)
class Place:
    """One read. `owner` is an object, or the number of an earlier place where `chained`."""

    load: Load
    owner: Any
    key: Any
    check: Check
    expected: Any  # see Check; for LENGTH a pair (class, length), for SAME and OTHER the number of a place
    name: str  # as the user would write it: "model.w"
    chained: bool = False

    def read(self, values: Sequence[Any]) -> Any:
        """The current value."""
        owner = values[self.owner] if self.chained else self.owner
        match self.load:
            case Load.FIXED:
                return owner
            case Load.CELL:
                return owner.cell_contents
            case Load.ATTRIBUTE:
                return getattr(owner, self.key)
            case Load.CODE:
                return owner.__code__
            case Load.CALL:
                return owner(*self.key)
        return owner[self.key]

    def holds(self, value: Any, values: Sequence[Any]) -> bool:
        """Whether the program is valid for this value."""
        match self.check:
            case Check.IS:
                return value is self.expected
            case Check.TYPE:
                return type(value) is self.expected
            case Check.EQUAL:
                return value is self.expected or (type(value) is type(self.expected) and same_number(value, self.expected))
            case Check.LENGTH:
                return type(value) is self.expected[0] and len(value) == self.expected[1]
            case Check.SAME:
                return value is values[self.expected]
            case Check.OTHER:
                return value is not values[self.expected]
            case Check.TEST:
                return bool(self.expected(value))
            case Check.NO_ENTRY:
                return self.expected not in value
            case Check.ORDER:
                return list(value) == self.expected
            case Check.NO_ATTRIBUTE:
                return not hasattr(value, self.expected)
            case Check.LACKS:
                return lacks(value, self.expected)
            case Check.METHOD:
                owner = values[self.owner] if self.chained else self.owner
                return type(value) is types.MethodType and value.__func__ is self.expected and value.__self__ is owner
        return True


def same_number(a: Any, b: Any) -> bool:
    """Whether two numbers or strings of one class are the same: nan equals nan, 0.0 differs from -0.0."""
    if type(a) in (float, complex):
        return repr(a) == repr(b)
    return bool(a == b)


def values_at(places: Sequence[Place]) -> tuple[list[Any], Place | None]:
    """The value at each place, up to the first place that does not hold, and that place."""
    values: list[Any] = []
    for place in places:
        try:
            value = place.read(values)
        except Exception:  # the name was deleted, the cell is empty, or a property raises: staging raises it again
            return values, place
        if not place.holds(value, values):
            return values, place
        values.append(value)
    return values, None


def described(places: Sequence[Place]) -> Iterator[str]:
    """A line for each place on which the program depends, for reports."""
    for place in places:
        match place.check:
            case Check.INPUT:
                yield f"reads {place.name} at each call"
            case Check.EQUAL:
                yield f"guard: {place.name} is {place.expected!r}"
            case Check.TEST:
                yield f"guard: {place.name} has the same contents"
            case Check.NO_ATTRIBUTE:
                yield f"guard: {place.name} does not exist"
            case Check.LACKS:
                yield f"guard: {place.name} is left to __getattr__"
            case Check.NO_ENTRY if not hasattr(builtins, place.expected):
                yield f"guard: {place.name} does not exist"


class Contents:
    """Whether an array or scalar has the bits of an earlier one."""

    def __init__(self, value: Any) -> None:
        self.type = type(value)
        self.dtype, self.shape, self.bits = value.dtype, value.shape, value.tobytes()

    def __call__(self, value: Any) -> bool:
        return (
            type(value) is self.type and (value.dtype, value.shape) == (self.dtype, self.shape) and value.tobytes() == self.bits
        )


def lacks(value: Any, name: str) -> bool:
    """Whether an object has no attribute of a name, other than one that its `__getattr__` makes."""
    try:
        object.__getattribute__(value, name)
    except AttributeError:
        return True
    return False


class DecimalContext:
    """Whether decimal numbers are computed as they were: with the same precision, rounding and range, and the same errors."""

    def __init__(self) -> None:
        self.expected = self._now()

    def __call__(self, value: Any) -> bool:
        return self._now() == self.expected

    @staticmethod
    def _now() -> tuple[Any, ...]:
        c = decimal.getcontext()
        return c.prec, c.rounding, c.Emin, c.Emax, c.capitals, c.clamp, dict(c.traps)


class Bound:
    """Whether a value is the method of an earlier one: the same function, bound to the same object or class."""

    def __init__(self, method: types.MethodType) -> None:
        self.method = method

    def __call__(self, value: Any) -> bool:
        is_method = type(value) is types.MethodType
        return is_method and value.__func__ is self.method.__func__ and value.__self__ is self.method.__self__


class Attributes:
    """Whether an object has the attributes of an earlier one, by name and in that order."""

    def __init__(self, value: Any) -> None:
        self.names = self.of(value)

    def __call__(self, value: Any) -> bool:
        return self.of(value) == self.names

    @staticmethod
    def of(value: Any) -> list[str]:
        return list(object.__getattribute__(value, "__dict__"))


class Labelled:
    """Whether an object of pandas or xarray has the labels and the numbers of an earlier one, bit by bit."""

    def __init__(self, value: Any) -> None:
        self.copy, self.bits = value.copy(), self.bits_of(value)

    def __call__(self, value: Any) -> bool:
        return type(value) is type(self.copy) and self._equal(value) and self.bits_of(value) == self.bits

    def _equal(self, value: Any) -> bool:
        """As the libraries see it: 0.0 equals -0.0, and among Python objects 1 equals True."""
        if hasattr(value, "identical"):  # of xarray, and an index of pandas
            return bool(value.identical(self.copy))
        pairs = zip(getattr(value, "axes", ()), getattr(self.copy, "axes", ()), strict=True)  # an array of pandas has no labels
        axes = all(a.identical(b) for a, b in pairs)
        return axes and getattr(value, "name", None) == getattr(self.copy, "name", None) and bool(value.equals(self.copy))

    @staticmethod
    def bits_of(value: Any) -> list[Any]:
        """Its numbers and its labels."""
        arrays = [x.to_numpy() for x in (value, *getattr(value, "axes", ()), *getattr(value, "coords", {}).values())]
        return [[repr(x) for x in a.flat] if a.dtype.hasobject else a.tobytes() for a in arrays]


class Equal:
    """Whether a container of plain numbers and strings is equal to an earlier one, item by item and class by class.

    The items are immutable, so the same objects are equal: that is seen in a few nanoseconds an item.
    """

    def __init__(self, value: Any) -> None:
        self.type, self.shown = type(value), self.show(value)
        self.parts = list(self.open(value))

    def __call__(self, value: Any) -> bool:
        if type(value) is not self.type:
            return False
        parts = self.open(value)
        if len(parts) == len(self.parts) and all(map(operator.is_, parts, self.parts)):
            return True
        return self.show(value) == self.shown

    @staticmethod
    def open(value: Any) -> Any:
        """Everything in a container, in order: items, keys too."""
        if isinstance(value, (dict, types.SimpleNamespace)):
            items = items_of(value)
            return [*items, *items.values()]
        return value

    @staticmethod
    def show(value: Any) -> Any:
        if isinstance(value, set):
            return {repr(x) for x in value}
        return [repr(pair) for pair in items_of(value).items()]


def items_of(value: Any) -> Mapping[Any, Any]:
    """The items of a container, by key, index or name."""
    if isinstance(value, types.SimpleNamespace):
        return vars(value)
    return value if isinstance(value, dict) else dict(enumerate(value))
