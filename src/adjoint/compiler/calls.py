"""How a call finds its native function: by the names of its arguments, then by their types.

    f(x, w=w)        calls with the same names share a chain of native functions, which take x and w in order

The latest functions of a chain are tried one after the other, in native code. Calls that none of them accepts come here: calls
whose signature has left the chain, and calls with arrays that are not C-contiguous, which are copied. Their functions are found
in a dict. Only the remaining calls are unpacked in Python.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Function = Callable[..., Any]
MOST_ENTRIES = 8  # native functions that are tried one after the other; each costs about 60 ns, the dict as much as eight
_MOST_FOUND = 4096  # signatures that have left a chain
_MOST_PATHS = 16  # of one such signature
_NUMBERS = frozenset({float, int, bool, complex})


class Chain:
    """The native functions for calls with these keywords, which are the last `len(names)` arguments of the functions."""

    def __init__(self, names: tuple[str, ...], search: Function) -> None:
        self.names = names
        self.search = search  # the way through Python
        self.copies = True  # arrays may be copied row by row
        self.entry: Function = self.otherwise
        self.length = 0
        self.found: dict[Any, list[tuple[Any, Function, Any]]] = {}  # by key: paths, their functions, what these return on a miss

    def add(self, make: Callable[[Function], Function | None]) -> None:
        """Put a native function in front; `make` gets the function for calls that it does not take."""
        function = make(self.entry if self.length < MOST_ENTRIES else self.otherwise)
        if function is not None:
            self.entry, self.length = function, self.length % MOST_ENTRIES + 1

    def remember(self, arguments: Sequence[Any], path: Any, make: Callable[[], Function | None], missed: Any) -> None:
        """Keep the function of a path for arguments like these, which the chain did not take."""
        key = _key(arguments)
        known = self.found.get(key, [])
        if key is None or len(self.found) >= _MOST_FOUND or len(known) >= _MOST_PATHS or any(p is path for p, _, _ in known):
            return
        function = make()
        if function is not None:
            self.found[key] = [(path, function, missed), *known]

    def otherwise(self, *arguments: Any) -> Any:
        """A call that no function of the chain took."""
        if self.found and (known := self.found.get(_key(arguments))) is not None:
            rows: Sequence[Any] = arguments
            if self.copies:  # inlined, since a function call takes as long as the copy
                rows = [x if type(x) is not np.ndarray or x.flags.c_contiguous else x.copy() for x in arguments]
            for _, function, missed in known:
                result = function(*rows)
                if result is not missed:
                    return result
        count = len(arguments) - len(self.names)
        return self.search(*arguments[:count], **dict(zip(self.names, arguments[count:], strict=True)))


def _key(arguments: Sequence[Any]) -> Any:
    """A key that usually differs for arguments of different types; None if they contain anything but arrays and numbers."""
    found: list[Any] = []
    for x in arguments:
        cls = type(x)
        if cls is np.ndarray:
            found += x.shape, x.dtype.num
        elif cls in _NUMBERS or issubclass(cls, np.generic):
            found.append(cls)
        else:
            return None
    return tuple(found)
