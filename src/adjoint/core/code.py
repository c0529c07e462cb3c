"""The names and strings in the code of a function, and of the functions inside it; lines that name a variable."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any


def names_in(code: types.CodeType) -> Iterator[str]:
    """The globals and attributes that code names, with that of the functions inside it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from names_in(constant)


def strings_in(code: types.CodeType) -> Iterator[str]:
    """The strings in code that could name an attribute, with those of the functions inside it."""
    for constant in code.co_consts:
        if isinstance(constant, str) and constant.isidentifier():
            yield constant
        elif isinstance(constant, types.CodeType):
            yield from strings_in(constant)


class NamedLine(str):
    """The line of an op whose result the source assigns to a variable. It compares and prints as the line."""

    __slots__ = ("op", "variable")
    variable: str
    op: str  # its name: a rewritten equation may have the line, but not the variable

    def __new__(cls, line: str, variable: str, op: str) -> NamedLine:
        self = super().__new__(cls, line)
        self.variable, self.op = variable, op
        return self

    def __reduce__(self) -> Any:
        return NamedLine, (str(self), self.variable, self.op)
