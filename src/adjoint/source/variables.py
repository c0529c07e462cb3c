"""The variables of a rewritten function, as cells that loops and branches read and write, and what else they might change.

A body is staged by running it once on symbolic values. Whatever it changed must be undone then, and whatever it changed besides
its own variables (a list, an attribute, an array by another name) would not happen in each iteration: `Surroundings` detects it.
"""

from __future__ import annotations

import sys
import types
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..core.bind import FRESH, Traced
from ..core.home import is_own
from ..core.memory import is_writeable
from ..eager.mutation import is_same
from ..numpy.views import View, set_contents
from ..staging.reach import is_library
from .watched import Attribute, Snapshot, children, is_beyond_undoing, snapshot

_MOST_OBJECTS = 5000


class NotStagedError(Exception):
    """A loop or a branch that cannot be staged, and why."""


def with_article(word: str) -> str:
    return f"{'an' if word[:1].lower() in 'aeiou' else 'a'} {word}"


class _Unbound:
    def __repr__(self) -> str:
        return "unbound"


UNBOUND = _Unbound()


def contents(cell: types.CellType | Attribute) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return UNBOUND


def put(cell: types.CellType | Attribute, value: Any) -> None:
    if value is UNBOUND:
        if contents(cell) is not UNBOUND:
            del cell.cell_contents
    else:
        cell.cell_contents = value


class Cells:
    """The variables that some functions share with the function that they were made from."""

    def __init__(self, *functions: Callable[..., Any]) -> None:
        self.by_name: dict[str, types.CellType | Attribute] = {}
        for f in functions:
            self.by_name |= zip(f.__code__.co_freevars, f.__closure__ or (), strict=True)  # type: ignore[attr-defined]
        self.shared = {name for name, cell in self.by_name.items() if _is_shared(cell)}

    def add(self, attributes: Mapping[str, Attribute]) -> None:
        """Let attributes of objects be variables too. An array among them may have another name."""
        self.by_name |= attributes
        self.shared |= {name for name in attributes if isinstance(self[name], (np.ndarray, Traced))}

    def __getitem__(self, name: str) -> Any:
        cell = self.by_name.get(name)
        return UNBOUND if cell is None else contents(cell)

    def __setitem__(self, name: str, value: Any) -> None:
        put(self.by_name[name], value)

    @contextmanager
    def restored(self) -> Iterator[None]:
        before = [(cell, contents(cell)) for cell in self.by_name.values()]
        try:
            yield
        finally:
            for cell, value in before:
                put(cell, value)


#: References to the array of a variable: of its cell and of the call that counts them; of `State`, to an input of a body.
_OWN, _ENTERED = 2, 2


def _is_shared(cell: types.CellType | Attribute) -> bool:
    """Whether a variable is an array that may have another name, or a view or the base of one."""
    x = contents(cell)
    if not isinstance(x, (np.ndarray, Traced)):
        return False
    is_part = isinstance(x, View) or (isinstance(x, np.ndarray) and x.base is not None)
    own = _OWN + (_ENTERED if isinstance(x, Traced) and id(x) in getattr(x.by, "entered", ()) else 0)
    del x
    return is_part or sys.getrefcount(cell.cell_contents) > own


def _cannot_change(x: Any) -> bool:
    """Whether an object has no state that a body could change: a number, a library, an object of ours."""
    if isinstance(x, (str, bytes, np.generic, int, float, complex, types.ModuleType)) or x is UNBOUND:
        return True
    if isinstance(x, type) and is_library(x.__module__):
        return True
    return is_own(type(x).__module__) and not isinstance(x, Traced)


class Surroundings:
    """The objects that a body can reach by its variables, as they are before it is staged."""

    def __init__(self, cells: Cells, state: Collection[str], assigned: Collection[str], rows: Collection[Any] = ()) -> None:
        #: Variables that the body assigns by a call only, if at all, and those of functions that it can call.
        self.cells = [(name, cell, contents(cell)) for name, cell in cells.by_name.items() if name not in {*state, *assigned}]
        self.arrays: list[tuple[str, Any, Any]] = []  # name of the variable, array, state
        self.objects: list[Snapshot] = []
        own = set(map(id, cells.by_name.values()))
        seen: set[int] = set()
        waiting: deque[tuple[str, Any]] = deque((name, cells[name]) for name in cells.by_name if name not in state)
        waiting.extend(("the array that it runs over", row) for row in rows)
        while waiting:
            name, x = waiting.popleft()
            if id(x) in seen or _cannot_change(x):
                continue
            if len(seen) > _MOST_OBJECTS:
                raise NotStagedError(f"it can reach more than {_MOST_OBJECTS} objects, too many to watch")
            seen.add(id(x))
            waiting.extend(self._keep(name, x, own))

    def _keep(self, name: str, x: Any, own: Collection[int]) -> Iterable[tuple[str, Any]]:
        """Keep the state of an object; returns what can be reached from it, by name."""
        if isinstance(x, Traced):
            self.arrays.append((name, x, (x.by, x.underlying, x.aux)))
            if x.by is FRESH:
                self.arrays.append((name, x.underlying, x.underlying.copy(order="K")))
            return ()
        if isinstance(x, np.ndarray) and x.dtype.kind in "biufc":
            self.arrays.append((name, x, x.copy(order="K")))
            return ()
        if is_beyond_undoing(x):
            raise NotStagedError(f"it can reach {name}, {with_article(type(x).__name__)}, and using it could not be undone")
        if isinstance(x, types.FunctionType):
            if is_library(x.__globals__.get("__name__")):
                return ()
            return [*self._keep_cells(x, own), *children(name, x)]
        if (found := snapshot(name, x)) is not None:
            self.objects.append(found)
        return children(name, x)

    def _keep_cells(self, f: types.FunctionType, own: Collection[int]) -> list[tuple[str, Any]]:
        """Keep the variables of a function's closure, but for those of the body itself."""
        closure = zip(f.__code__.co_freevars, f.__closure__ or (), strict=True)
        found = [(f"{key} of {f.__name__}", cell, contents(cell)) for key, cell in closure if id(cell) not in own]
        self.cells += found
        return [(name, x) for name, _, x in found]

    def assigned(self) -> set[str]:
        """The variables that a call has assigned; asked before they are restored."""
        return {name for name, cell, before in self.cells if contents(cell) is not before}

    def undo(self) -> tuple[set[str], dict[str, Attribute], str]:
        """Undo what was changed: the variables whose arrays were written to, the attributes that were assigned or whose arrays
        were written to, and another object that was changed, or ''."""
        arrays: set[str] = set()
        attributes: dict[str, Attribute] = {}
        for _, cell, value in self.cells:
            put(cell, value)
        changed = ""
        for name, x, before in self.arrays:
            if isinstance(x, Traced):
                by, value, aux = before
                if x.by is not by or x.underlying is not value or x.aux is not aux:
                    if isinstance(x, View):  # refreshed, or written to through its base, which is restored
                        set_contents(x, by, value, aux)
                        x.seen = (None, None)  # type: ignore[assignment]
                    else:
                        x.by, x.underlying, x.aux = by, value, aux
                        owned = {key: a for found in self.objects for key, a in found.holding(x).items()}
                        attributes |= owned
                        arrays |= set() if owned else {name}
            elif not is_same(x, before):
                changed = changed or name
                if is_writeable(x):  # else a view of an array that is restored
                    x[...] = before
        for found in self.objects:
            assigned = found.assigned()
            if found.undo():
                attributes |= assigned or {}
                changed = changed or (found.name if assigned is None else "")
        return arrays, attributes, changed
