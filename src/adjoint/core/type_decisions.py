"""Uses of `type(x)` in code that depend on the class of x, found in the bytecode.

    return 2 * x if type(x) is float else x        # False of a traced float: `is` compares two addresses and calls nothing

Not counted is what cannot depend on the class of a traced value: `type(self)`, a name in an f-string, an attribute, a call, and a
comparison with classes that stand for no traced value, as in `type(layer) is Dense` and `type(tree) in (list, tuple)`.
"""

from __future__ import annotations

import dis
import functools
import types
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

_TRACED = (np.ndarray, np.generic, float, complex)
_NAMES = frozenset({"__name__", "__qualname__", "__module__"})
_COMPARISONS = ("IS_OP", "COMPARE_OP")
_EMPTY = ("CACHE", "PRECALL", "KW_NAMES")
_FORMATS = ("FORMAT", "CONVERT")  # in an f-string


class Decision(NamedTuple):
    """A use of `type(x)`: its line, and the classes that the result is compared with, each as a global and its attributes."""

    line: int
    compared: tuple[tuple[str, ...], ...] | None
    by_identity: bool

    def is_of_traced(self, f: types.FunctionType) -> bool:
        """Whether it is a comparison with a class that may be that of a traced value, or not known to be something else."""
        if self.compared is None:
            return True
        classes = [_at(f, path) for path in self.compared]
        return not all(isinstance(cls, type) and not issubclass(cls, _TRACED) for cls in classes)


def decisions(f: types.FunctionType) -> list[Decision]:
    """The uses of `type(x)` in a function, and in those inside it, that may differ for a traced value.

    >>> [d.line for d in decisions(lambda x: type(x) is float)], decisions(lambda x: type(x) is list)
    ([1], [])
    """
    if _global(f, "type") is not type:  # the user's own, or one that knows traced values
        return []
    return [d for d in _decisions(f.__code__) if d.is_of_traced(f)]


def _global(f: types.FunctionType, name: str) -> Any:
    return f.__globals__.get(name, f.__builtins__.get(name))  # type: ignore[attr-defined]


def _at(f: types.FunctionType, path: tuple[str, ...]) -> Any:
    """What a global and its attributes refer to; None if that is not known."""
    name, *attributes = path
    found = _global(f, name)
    for attribute in attributes:
        found = getattr(found, attribute, None)
    return found


@functools.lru_cache(1 << 10)
def _decisions(code: types.CodeType) -> tuple[Decision, ...]:
    """All uses of `type` in code and in the functions inside it that are more than a name, an attribute or a call."""
    found: list[Decision] = []
    if "type" in code.co_names:
        instructions = [i for i in dis.get_instructions(code) if i.opname not in _EMPTY]
        found += [
            d
            for k, i in enumerate(instructions)
            if i.argval == "type" and i.opname in ("LOAD_GLOBAL", "LOAD_NAME")
            for d in _decision(instructions, k)
        ]
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found += _decisions(constant)
    return tuple(found)


def _decision(instructions: list[dis.Instruction], at: int) -> Iterator[Decision]:
    """What is done with the result of the `type` that one instruction loads."""
    line = _span(instructions[at])[0][0]
    if instructions[at + 1].argval == "self":  # of a class of the user's
        return
    around = _around(instructions, at)
    call = next(around, None)
    use = next(around, None)
    if call is None or use is None or not instructions[call].opname.startswith("CALL"):
        yield Decision(line, None, True)
        return
    name = instructions[use].opname
    if name.startswith("CALL"):
        return
    if name in ("LOAD_ATTR", "LOAD_METHOD"):
        if instructions[use].argval in _NAMES and not instructions[use + 1].opname.startswith(_FORMATS):
            yield Decision(line, None, True)
        return
    before = instructions[:use]
    compared = _classes(before, 1) if name in _COMPARISONS else None
    if name == "CONTAINS_OP" and before[-1].opname == "BUILD_TUPLE":  # compares by `==`
        count = before.pop().arg or 0
        compared = _classes(before, count)
    yield Decision(line, compared, name == "IS_OP")


def _around(instructions: list[dis.Instruction], at: int) -> Iterator[int]:
    """The instructions for the expressions that begin with the one at a place, from the inside to the outside."""
    start, end = _span(instructions[at])
    for k in range(at + 1, len(instructions)):
        first, last = _span(instructions[k])
        if first == start and last > end:
            yield k
            end = last


def _span(i: dis.Instruction) -> tuple[tuple[int, int], tuple[int, int]]:
    """Where the expression of an instruction begins and ends in the source; nowhere if that is not known."""
    p = i.positions
    if p is None or p.lineno is None or p.end_lineno is None or p.col_offset is None or p.end_col_offset is None:
        return (0, -1), (0, -1)
    return (p.lineno, p.col_offset), (p.end_lineno, p.end_col_offset)


def _classes(instructions: list[dis.Instruction], count: int) -> tuple[tuple[str, ...], ...] | None:
    """So many globals, with their attributes, that the last instructions load; None if they load anything else."""
    found: list[tuple[str, ...]] = []
    attributes: list[str] = []
    for i in reversed(instructions):
        if len(found) == count:
            break
        if i.opname == "LOAD_ATTR":
            attributes.append(i.argval)
        elif i.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            found.append((i.argval, *reversed(attributes)))
            attributes = []
        elif i.opname not in ("PUSH_NULL", "NOP"):
            return None
    return tuple(found) if len(found) == count else None
