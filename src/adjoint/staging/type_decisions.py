"""Code that decides by `type(x)`, which is the class of the tracer inside a transform.

    return 2 * x if type(x) is float else x        # False of a traced float: `is` compares two addresses and calls nothing

`type(x) == float` raises, and so does `type(x) in (float, int)`. Anything else that is done with the result of `type` is found in
the bytecode, except what cannot depend on the class of a traced value: `type(self)`, a name in an f-string, an attribute, a call,
and a comparison with classes that stand for no traced value, as in `type(layer) is Dense` and `type(tree) in (list, tuple)`.
"""

from __future__ import annotations

import dis
import functools
import os
import types
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ..core.code import names_in
from .classify import is_of_package
from .reach import is_users, reached
from .watch import reading

_TRACED = (np.ndarray, np.generic, float, complex)
_PLAIN = frozenset({int, float, complex, bool, str, bytes, type(None), np.ndarray, np.float64})
_NAMES = frozenset({"__name__", "__qualname__", "__module__"})
_COMPARISONS = ("IS_OP", "COMPARE_OP")
_EMPTY = ("CACHE", "PRECALL", "KW_NAMES")
_FORMATS = ("FORMAT", "CONVERT")  # in an f-string


class Decision(NamedTuple):
    """A use of `type(x)`: its line, and the classes that the result is compared with, each as a global and its attributes."""

    line: int
    compared: tuple[tuple[str, ...], ...] | None
    by_identity: bool

    def is_harmless(self, f: types.FunctionType) -> bool:
        """Whether it is the same for a tracer: the classes stand for no traced value, or `==` raises.

        In an installed package only a comparison with such a class counts: much of them asks for the type of other objects.
        """
        if self.compared is None:
            return is_of_package(str(f.__globals__.get("__name__")))
        classes = [_at(f, path) for path in self.compared]
        return all(isinstance(cls, type) and not (self.by_identity and issubclass(cls, _TRACED)) for cls in classes)


def line_of_decision(f: Any) -> str | None:
    """The line on which a function, or one that it can reach, decides by `type(x)` of a value that may be traced.

    None for the copy of a function that `jit` stages: its `type` knows traced values.
    """
    if reading.get() is not None:
        return None
    code = getattr(f, "__code__", None)
    known = _found.get(code) if code is not None else None
    if known is None or not known.holds(f):
        known = _search(f)
        if code is not None and known.names is not None:
            if len(_found) >= _MOST:
                _found.clear()
            _found[code] = known
    return known.line


class _Found(NamedTuple):
    """What the search has found, and the names on which that depends: None if it depends on more than names."""

    line: str | None
    scope: dict[str, Any]
    names: tuple[tuple[dict[str, Any], str, Any], ...] | None

    def holds(self, f: Any) -> bool:
        return f.__globals__ is self.scope and _is_plain(f) and all(d.get(name) is x for d, name, x in self.names or ())


_MOST = 1 << 10
_found: dict[types.CodeType, _Found] = {}


def _search(f: Any) -> _Found:
    line, names, is_simple = None, [], True
    for x in reached(f):
        for function in _functions(x):
            if line is None and is_users(function):
                line = _line(function)
        if isinstance(x, types.FunctionType):
            is_simple = is_simple and _is_plain(x)
            scope = x.__globals__ if is_users(x) else {}
            # Numbers may be rebound at each call, and call nothing.
            found = [(scope, name, scope[name]) for name in names_in(x.__code__) if name in scope]
            names += [entry for entry in found if type(entry[2]) not in _PLAIN]
        elif not isinstance(x, (types.ModuleType, types.BuiltinFunctionType, type)):
            is_simple = False
    return _Found(line, getattr(f, "__globals__", {}), tuple(names) if is_simple else None)


def _is_plain(f: types.FunctionType) -> bool:
    """Whether the closure and the defaults of a function hold only numbers, text and arrays."""
    cells = f.__closure__
    if cells is None and f.__defaults__ is None and f.__kwdefaults__ is None:
        return True
    held = [cell.cell_contents for cell in cells or () if cell != types.CellType()]
    return _PLAIN.issuperset(map(type, (*held, *(f.__defaults__ or ()), *(f.__kwdefaults__ or {}).values())))


def _functions(x: Any) -> list[types.FunctionType]:
    members = vars(x).values() if isinstance(x, type) else (x,)
    return [m for m in members if isinstance(m, types.FunctionType)]


def _global(f: types.FunctionType, name: str) -> Any:
    return f.__globals__.get(name, f.__builtins__.get(name))  # type: ignore[attr-defined]


def _at(f: types.FunctionType, path: tuple[str, ...]) -> Any:
    """What a global and its attributes refer to; None if that is not known."""
    name, *attributes = path
    found = _global(f, name)
    for attribute in attributes:
        found = getattr(found, attribute, None)
    return found


def _line(f: types.FunctionType) -> str | None:
    if _global(f, "type") is not type:  # the user's own
        return None
    decision = next((d for d in _decisions(f.__code__) if not d.is_harmless(f)), None)
    return None if decision is None else f"{os.path.basename(f.__code__.co_filename)}:{decision.line}"


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
