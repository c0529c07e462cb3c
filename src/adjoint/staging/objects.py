"""Outside objects of a staged function: their attributes are read through a hook on their class, and recorded as places.

model.w        an attribute that the program reads at each call, or checks, as it does a global
model.step(x)  a method: a copy of it runs, whose own reads are recorded
"""

from __future__ import annotations

import functools
import types
from typing import TYPE_CHECKING, Any

from ..core.errors import UnsupportedError
from ..core.places import Attributes, Bound, Check, Load
from .classify import EMPTY
from .uncopied import At
from .watch import ANNOTATING, HOOKED, HOOKS, reading, same_items

if TYPE_CHECKING:
    from .reads import Reads

_PASSED = (
    frozenset({"__init__", "__new__", "__repr__", "__str__", "__post_init__", "__reduce__", "__reduce_ex__", "__getstate__"})
    | HOOKED
    | ANNOTATING
)


_ABSENT = object()  # in place of an attribute that an object does not have, which Python then asks `__getattr__` for


class Objects:
    """The objects that are watched, and the attributes of theirs that were read."""

    def __init__(self, reads: Reads) -> None:
        self.reads = reads
        self.watched: dict[int, tuple[int, str]] = {}  # by the id of an object: its place and name
        self._attributes: dict[tuple[int, str], Any] = {}

    def watch(self, value: Any, at: At) -> bool:
        """Intercept the attribute reads of an object; False if its class does not allow that."""
        if not HOOKS.add(type(value)):
            return False
        place = self.reads.note(at, Check.TYPE, type(value))
        self.reads.find(value, place, value)
        self.watched[id(value)] = place, at.name
        for cls in type(value).__mro__:
            for name, method in vars(cls).items():
                if name.startswith("__") and name not in _PASSED and isinstance(method, types.FunctionType):
                    self.reads.uncopied.add_operator(type(value), name)
        return True

    def __contains__(self, value: Any) -> bool:
        return id(value) in self.watched

    def attribute(self, value: Any, name: str) -> Any:
        """An attribute of a watched object."""
        place, called = self.watched[id(value)]
        if name == "__dict__":
            return self._attributes_of(value)
        if name == "__reduce_ex__":  # to be copied
            return functools.partial(self._reduced, value)
        if name.startswith("__") and name.endswith("__"):
            return object.__getattribute__(value, name)
        found = self._attributes.get((id(value), name), EMPTY)
        if found is _ABSENT:
            return object.__getattribute__(value, name)
        if found is EMPTY:
            found = self._attributes[id(value), name] = self._read_attribute(
                value, name, At(Load.ATTRIBUTE, place, name, f"{called}.{name}", True)
            )
        return found

    def _attributes_of(self, value: Any) -> dict[str, Any]:
        """A copy of the `__dict__` of a watched object, with its attributes as the function sees them."""
        key = id(value), "__dict__"
        if key not in self._attributes:
            place, called = self.watched[id(value)]
            at = At(Load.FIXED, place, None, f"the attributes of {called}", True)
            self.reads.note(at, Check.TEST, Attributes(value))
            found = {name: self.attribute(value, name) for name in object.__getattribute__(value, "__dict__")}
            seen = self._attributes[key] = dict(found)
            self.reads.unwritten.append((f"{called}.__dict__", lambda: same_items(seen, found)))
        seen = self._attributes[key]
        return seen

    def _reduced(self, value: Any, protocol: int) -> Any:
        """The reduced form of a watched object for copy and pickle, with its attributes as the function sees them."""
        made = object.__reduce_ex__(value, protocol)
        if isinstance(made, str) or len(made) < 3 or made[2] is None:
            return made
        states = made[2] if isinstance(made[2], tuple) else (made[2],)
        seen = tuple([state and {key: self.attribute(value, key) for key in state} for state in states])
        return (*made[:2], seen if isinstance(made[2], tuple) else seen[0], *made[3:])

    def _read_attribute(self, value: Any, name: str, at: At) -> Any:
        declared = next((vars(cls)[name] for cls in type(value).__mro__ if name in vars(cls)), None)
        if isinstance(declared, property) and isinstance(declared.fget, types.FunctionType):
            self.reads.note(At(Load.ATTRIBUTE, type(value), name, f"{type(value).__name__}.{name}"), Check.IS, declared)
            return self.reads.hook(declared.fget)(value)
        token = reading.set(None)  # a cached property is computed once and stored in the object, as in an eager run
        try:
            found = object.__getattribute__(value, name)
        except AttributeError:
            owner = At(Load.FIXED, at.owner, None, at.name, True)
            self.reads.once(owner, Check.LACKS if hasattr(type(value), "__getattr__") else Check.NO_ATTRIBUTE, name)
            if declared is None:
                self._attributes[id(value), name] = _ABSENT
            raise
        finally:
            reading.reset(token)
        if isinstance(found, types.MethodType):
            if found.__self__ is value:
                self.reads.note(at, Check.METHOD, found.__func__)
                return types.MethodType(self.reads.fixed(found.__func__), value)
            self.reads.note(at, Check.TEST, Bound(found))
            return types.MethodType(self.reads.fixed(found.__func__), self.reads.fixed(found.__self__))
        return self.reads.met(found, at)

    def refuse_write(self, value: Any, name: str) -> UnsupportedError:
        called = self.watched[id(value)][1]
        return self.reads.refuse(
            f"writes to {called}.{name}, which is outside the function: the program would not; return the new value instead"
        )
