"""Arguments that are not differentiated, passed to a function so that it cannot write to the user's arrays.

Small arrays are copied: the function may write to its copy. Larger ones are passed as read-only views. A list, a dict or a
dataclass with arrays is copied too; changes to the container itself (an entry added or replaced) are applied to the user's object
when the function returns.

    def f(w, state):
        state["x"] -= 1.0            # the user's array stays as it is
        state["seen"] = True         # the user's dict has the entry
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, MutableSequence, Sequence
from typing import Any

import numpy as np

from ..core.bind import Traced, snapshot
from ..core.errors import AdjointError, ReadOnlyError, last_line, runs_inside
from ..core.memory import is_writeable
from ..core.records import fields_of
from ..core.tree import map_leaves
from .arguments import callee

COPIED = 1 << 12  # elements of an array that is copied; it costs little more than to make a view of it
_NUMBERS = frozenset({float, int, bool, complex, str, type(None), np.float64})


@runs_inside
def run_protected(f: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Run f so that it cannot write to the arrays that it is called with."""
    f, guard = callee(f), Protection()
    args = [guard.protect(x) for x in args]
    kwargs = {key: guard.protect(x) for key, x in kwargs.items()}
    try:
        return f(*args, **kwargs)
    except ValueError as error:
        if not guard.is_cause(error):
            raise
        raise read_only(error) from error
    finally:
        if guard.copies:
            guard.hand_back()


def read_only(error: ValueError) -> ReadOnlyError:
    """NumPy's error for a write to a read-only view, in our words."""
    return ReadOnlyError(
        f"{last_line(error)} writes to a read-only array: an array passed to a transform is never changed; write to a copy "
        "(X = X.copy()), or compute a new array (X = X - 1 instead of X -= 1)"
    )


def on_own(function: Callable[..., Any], frozen: bool = False) -> Callable[..., Any]:
    """A function of lists of leaves, such as a rule, that cannot write to what it is given: others hold it too.

    It may write to copies, unless its arguments are `frozen`: where NumPy would have it change them, a write is an error.
    """

    def run(*given: Any) -> Any:
        guard = Protection()
        own = guard.frozen if frozen else guard.own
        owned = [[own(x) for x in values] if type(values) is list else map_leaves(own, values) for values in given]
        try:
            return function(*owned)
        except ValueError as error:
            if not guard.is_cause(error):
                raise
            raise read_only(error) from error

    return run


class Protection:
    """What stands for the user's arrays and containers during one call."""

    def __init__(self) -> None:
        self.handed: dict[int, Any] = {}  # by the id of the user's object
        self.owners: dict[int, Any] = {}  # the user's object, by the id of what was handed over
        self.copies: list[tuple[Any, Any, dict[Any, Any]]] = []  # containers: the user's, the copy, and what it held
        self.has_views = False

    def protect(self, x: Any) -> Any:
        """An argument, with everything in it that is to be protected replaced."""
        cls: Any = type(x)
        if cls in _NUMBERS:
            return x
        if id(x) in self.handed:
            return self.handed[id(x)]
        if cls is np.ndarray:
            if not is_writeable(x):
                return x
            return self.note(x, self.array(x))
        if isinstance(x, Traced):  # by a transform outside
            inside = snapshot(x)
            inside.memory_layout = x.noted_strides
            return self.note(x, inside)
        if isinstance(x, (tuple, list, dict)) or fields_of(cls) is not None:
            self.handed[id(x)] = x  # found again inside itself, it stays what it is
            return self.note(x, self.container(x))
        return x

    def own(self, x: Any) -> Any:
        """A leaf that may be written to, or a large array that may not."""
        if type(x) is np.ndarray:
            return x.copy(order="K") if x.size <= COPIED else self.frozen(x)
        return snapshot(x)

    def frozen(self, x: Any) -> Any:
        """A leaf that may not be written to."""
        if type(x) is not np.ndarray or not is_writeable(x):
            return x
        return self.view(x)

    def note(self, x: Any, handed: Any) -> Any:
        self.handed[id(x)] = handed
        if handed is not x:
            self.owners[id(handed)] = x
        return handed

    def is_cause(self, error: ValueError) -> bool:
        """Whether an error may come from a write to one of the read-only views."""
        return self.has_views and not isinstance(error, AdjointError) and "read-only" in str(error)

    def array(self, x: Any) -> Any:
        if x.size <= COPIED and x.base is None:
            return x.copy(order="K")
        return self.view(x)

    def view(self, x: Any) -> Any:
        self.has_views = True
        view = x.view()
        view.flags.writeable = False
        return view

    def container(self, x: Any) -> Any:
        if isinstance(x, (tuple, list)) and _NUMBERS.issuperset(map(type, x)):
            return x
        held = dict(_items(x))
        parts = {key: self.protect(part) for key, part in held.items()}
        if all(parts[key] is part for key, part in held.items()):
            return x
        if isinstance(x, tuple):
            return type(x)(*parts.values()) if hasattr(x, "_fields") else type(x)(parts.values())
        copied = copy.copy(x)
        _fill(copied, parts)
        self.copies.append((x, copied, parts))
        return copied

    def hand_back(self) -> None:
        """Do to the user's containers what the function did to the copies."""
        for x, copied, parts in self.copies:
            now = dict(_items(copied))
            if now.keys() != parts.keys() or any(part is not parts[key] for key, part in now.items()):
                _fill(x, {key: self.owners.get(id(part), part) for key, part in now.items()})


def _items(x: Any) -> Iterator[tuple[Any, Any]]:
    """The parts of a container, with their keys."""
    if isinstance(x, dict):
        yield from x.items()
    elif isinstance(x, (tuple, list)):
        yield from enumerate(x)
    else:
        cls: Any = type(x)
        fields = fields_of(cls)
        for name in fields.names if fields else ():
            if hasattr(x, name):
                yield name, getattr(x, name)


def _fill(x: Any, parts: dict[Any, Any]) -> None:
    """Let a container hold these parts."""
    if isinstance(x, dict):
        x.clear()
        x.update(parts)
    elif isinstance(x, MutableSequence):
        x[:] = parts.values()
    else:
        for name, part in parts.items():
            object.__setattr__(x, name, part)
