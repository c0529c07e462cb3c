"""Dispatch of a call to its native function: by the names of its arguments, then by their types.

    f(x, w=w)        calls with the same names share a chain of native functions, which take x and w in order

The latest functions of a chain are tried one after the other, in native code. Calls that none of them accepts come here: calls
whose signature has left the chain, and calls with arrays that are not C-contiguous, which are copied. Their functions are found
in a dict. Only the remaining calls are unpacked in Python. If there are static arguments, their values choose the chain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core.types import PYTHON_NUMBERS
from .arguments import told_apart

Function = Callable[..., Any]
MOST_ENTRIES = 8  # native functions that are tried one after the other; each costs about 60 ns, the dict as much as eight
_MOST_FOUND = 4096  # signatures that have left a chain
_MOST_SPECIALIZATIONS = 16  # of one such signature
_EXACT = frozenset({int, bool, str, type(None)})  # whose values are equal only if they are the same


class Chain:
    """The native functions for calls with these keywords, which are the last `len(names)` arguments of the functions."""

    def __init__(self, names: tuple[str, ...], search: Function, given: Sequence[str] | None = None) -> None:
        self.names = names
        self.given = names if given is None else given  # the keywords in the order of the call
        self.search = search  # the way through Python
        self.copies = True  # arrays may be copied row by row
        self.entry: Function = self.otherwise
        self.length = 0
        self.found: dict[
            Any, list[tuple[Any, Function, Any]]
        ] = {}  # by key: (specialization, function, what it returns on a miss)

    def add(self, make: Callable[[Function], Function | None]) -> None:
        """Put a native function in front; `make` gets the function for calls that it does not take."""
        function = make(self.entry if self.length < MOST_ENTRIES else self.otherwise)
        if function is not None:
            self.entry, self.length = function, self.length % MOST_ENTRIES + 1

    def remember(self, arguments: Sequence[Any], specialization: Any, make: Callable[[], Function | None], missed: Any) -> None:
        """Keep the function of a specialization for arguments like these, which the chain did not take."""
        key = _key(arguments)
        known = self.found.get(key, [])
        if key is None or len(self.found) >= _MOST_FOUND or len(known) >= _MOST_SPECIALIZATIONS:
            return
        if any(other is specialization for other, _, _ in known):
            return
        function = make()
        if function is not None:
            self.found[key] = [(specialization, function, missed), *known]

    def forget(self) -> None:
        """Try no function any more; those of other signatures are remembered when they are called again."""
        self.entry, self.length = self.otherwise, 0
        self.found.clear()

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
        named = dict(zip(self.names, arguments[count:], strict=True))
        return self.search(*arguments[:count], **{name: named[name] for name in self.given})


class StaticChains:
    """The chains of a function with static arguments, one for each of their values: they take the other arguments."""

    def __init__(self, numbers: tuple[int, ...], names: tuple[str, ...], search: Function) -> None:
        self.numbers, self.names, self.search = numbers, names, search
        self.chains: dict[Any, Chain] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            chain = self.chains.get(self.key(args, kwargs))
        except TypeError:  # a value that cannot be hashed
            chain = None
        if chain is None:
            return self.search(*args, **kwargs)
        return chain.entry(*self.free(args), *[kwargs[name] for name in chain.names])

    def key(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """How many positional arguments there are, the keywords, and each static value with its class."""
        count = len(args)
        found: list[Any] = [count, *kwargs]
        static = [args[i] for i in self.numbers if i < count]
        if kwargs:
            static += [kwargs[name] for name in self.names if name in kwargs]
        for value in static:
            cls = type(value)
            found += (cls, value) if cls in _EXACT else told_apart(value)
        return tuple(found)

    def free(self, args: tuple[Any, ...]) -> list[Any]:
        """The positional arguments that are not static."""
        numbers = self.numbers
        return [a for i, a in enumerate(args) if i not in numbers]

    def chain(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Chain:
        """The chain of a call, made if there is none."""
        key = self.key(args, kwargs)
        if key not in self.chains:
            names = tuple(sorted(set(kwargs).difference(self.names)))
            self.chains[key] = Chain(names, self._search_with(args, kwargs))
        return self.chains[key]

    def _search_with(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Function:
        """The way through Python of calls with the same static arguments, from their others."""
        given: list[Any] = [a if i in self.numbers else None for i, a in enumerate(args)]
        named = {name: a if name in self.names else None for name, a in kwargs.items()}

        def search(*free: Any, **others: Any) -> Any:
            rest = iter(free)
            return self.search(*[a if i in self.numbers else next(rest) for i, a in enumerate(given)], **(named | others))

        return search


def _key(arguments: Sequence[Any]) -> Any:
    """A key that usually differs for arguments of different types; None if they contain anything but arrays and numbers."""
    found: list[Any] = []
    for x in arguments:
        cls = type(x)
        if cls is np.ndarray:
            found += x.shape, x.dtype.num
        elif cls in PYTHON_NUMBERS or issubclass(cls, np.generic):
            found.append(cls)
        else:
            return None
    return tuple(found)
