"""The objects that a body might change: a snapshot of each, taken before a trial, to detect a change and to undo it.

    list, dict, set, deque, bytearray       a copy
    an object, a class of the user's        its attributes, those in slots included
    a random generator                      its state

The state of an iterator or an open file cannot be restored: a body that can reach one is refused.
"""

from __future__ import annotations

import array
import contextlib
import functools
import io
import pickle
import types
from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ..staging.purity import is_generator, set_state, state_of
from ..staging.reach import is_library


class Attribute:
    """An attribute of an object, read and written as the cell of a variable is."""

    def __init__(self, owner: Any, key: Any) -> None:
        self.owner, self.key = owner, key

    @property
    def cell_contents(self) -> Any:
        return self.key.descriptor.__get__(self.owner) if isinstance(self.key, _Slot) else vars(self.owner)[self.key]

    @cell_contents.setter
    def cell_contents(self, value: Any) -> None:
        if isinstance(self.key, _Slot):
            self.key.descriptor.__set__(self.owner, value)
        else:
            vars(self.owner)[self.key] = value


class Snapshot(NamedTuple):
    """An object as it was before a trial."""

    name: str
    object: Any
    before: Any

    def assigned(self) -> dict[str, Attribute] | None:
        """The attributes that have another value now, by name; None of an object that has changed in another way."""
        plain = (list, dict, set, deque, bytearray, array.array, np.ndarray, type)
        if isinstance(self.object, plain) or is_generator(self.object):
            return None
        now, before = _state(self.object), self.before
        if now.keys() != before.keys():
            return None
        return {f"{self.name}.{key}": Attribute(self.object, key) for key in now if now[key] is not before[key]}

    def holding(self, x: Any) -> dict[str, Attribute]:
        """The attribute that is x, by name."""
        if isinstance(self.object, (dict, type)) or not isinstance(self.before, dict):
            return {}
        return {f"{self.name}.{key}": Attribute(self.object, key) for key, y in self.before.items() if y is x}

    def undo(self) -> bool:
        """Restore the object; whether it had been changed."""
        now = _state(self.object)
        if _same(self.object, now, self.before):
            return False
        _restore(self.object, self.before)
        return True


def snapshot(name: str, x: Any) -> Snapshot | None:
    """The state of an object; None if it has nothing that could change."""
    state = _state(x)
    return None if state is None else Snapshot(name, x, state)


def is_beyond_undoing(x: Any) -> bool:
    """Whether using an object changes it in a way that cannot be undone."""
    if isinstance(x, io.IOBase):
        return True
    # An iterator written in Python keeps its place in attributes, which are watched.
    return isinstance(x, Iterator) and not any(isinstance(vars(c).get("__next__"), types.FunctionType) for c in type(x).__mro__)


def children(name: str, x: Any) -> list[tuple[str, Any]]:
    """The objects inside one, named."""
    if isinstance(x, dict):
        return [(f"{name}[{key!r:.30}]", y) for key, y in x.items()]
    if isinstance(x, (list, tuple, deque)):
        return [(f"{name}[{i}]", y) for i, y in enumerate(x)]
    if isinstance(x, (set, frozenset)):
        return [(f"{name}[…]", y) for y in x]
    if isinstance(x, types.MethodType):
        return [(name, x.__self__), (name, x.__func__)]
    if isinstance(x, types.BuiltinMethodType):
        return [(name, x.__self__)]
    if isinstance(x, (bytearray, array.array, np.ndarray)) or is_generator(x):
        return []
    if isinstance(x, functools.partial):
        return [(name, y) for y in (x.func, *x.args, *x.keywords.values())]
    if isinstance(x, types.FunctionType):
        held = [*(x.__defaults__ or ()), *(x.__kwdefaults__ or {}).values()]
        return [(f"a default of {x.__name__}", y) for y in held]
    state = _state(x)
    found = [(f"{name}.{key}", y) for key, y in state.items()] if isinstance(state, dict) else []
    if isinstance(x, type):
        return [*found, *((base.__name__, base) for base in x.__mro__[1:])]
    if is_library(type(x).__module__):  # it may refer to most of the library, so only containers are followed
        return [(key, y) for key, y in found if isinstance(y, (list, dict, set, deque))]
    return [*found, (type(x).__name__, type(x))]


# -- the state of an object --------------------------------------------------------------------------------------------


class _Slot(NamedTuple):
    """A key of an attribute that is in a slot."""

    descriptor: Any

    def __str__(self) -> str:
        return str(self.descriptor.__name__)


def _slots(x: Any) -> list[_Slot]:
    owners = [c for c in type(x).__mro__ if "__slots__" in vars(c)]
    return [_Slot(d) for c in owners for d in vars(c).values() if isinstance(d, types.MemberDescriptorType)]


def _state(x: Any) -> Any:
    if isinstance(x, (list, dict, set, deque, bytearray, array.array)):
        return x[:] if isinstance(x, (bytearray, array.array)) else x.copy()
    if is_generator(x):
        return pickle.dumps(state_of(x))
    if isinstance(x, np.ndarray):  # not of numbers
        return x.tobytes(), x.copy()
    if isinstance(x, type):
        return None if is_library(x.__module__) else {k: y for k, y in vars(x).items() if k not in _GENERATED}
    held = getattr(x, "__dict__", None)
    slots = _slots(x)
    if not isinstance(held, dict) and not slots:
        return None
    state: dict[Any, Any] = dict(held) if isinstance(held, dict) else {}
    for slot in slots:
        with contextlib.suppress(AttributeError):  # it has no value
            state[slot] = slot.descriptor.__get__(x)
    return state


_GENERATED = frozenset({"__dict__", "__weakref__", "_abc_impl", "__abstractmethods__"})


def _same(x: Any, now: Any, before: Any) -> bool:
    if isinstance(now, (bytes, bytearray, array.array, set)):
        return bool(now == before)
    if isinstance(x, np.ndarray):
        return bool(now[0] == before[0])
    if len(now) != len(before):
        return False
    if isinstance(x, dict):  # whose items have an order
        return all(a is b and now[a] is before[b] for a, b in zip(now, before, strict=True))
    if isinstance(now, dict):
        return all(key in before and now[key] is before[key] for key in now)
    return all(a is b for a, b in zip(now, before, strict=True))


def _restore(x: Any, before: Any) -> None:
    if is_generator(x):
        set_state(x, pickle.loads(before))
    elif isinstance(x, np.ndarray):
        x[...] = before[1]
    elif isinstance(x, (bytearray, array.array, list)):
        x[:] = before
    elif isinstance(x, (dict, set)):
        x.clear()
        x.update(before)
    elif isinstance(x, deque):
        x.clear()
        x.extend(before)
    elif isinstance(x, type):
        for key in [k for k in vars(x) if k not in before and k not in _GENERATED]:
            type.__delattr__(x, key)
        for key, value in before.items():
            if vars(x).get(key) is not value:
                type.__setattr__(x, key, value)
    else:
        _restore_attributes(x, before)


def _restore_attributes(x: Any, before: dict[Any, Any]) -> None:
    held = getattr(x, "__dict__", None)
    if isinstance(held, dict):
        held.clear()
        held.update({key: value for key, value in before.items() if not isinstance(key, _Slot)})
    for slot in _slots(x):
        if slot in before:
            slot.descriptor.__set__(x, before[slot])
        elif slot in _state(x):
            slot.descriptor.__delete__(x)


__all__ = ["Attribute", "Snapshot", "children", "is_beyond_undoing", "snapshot"]
