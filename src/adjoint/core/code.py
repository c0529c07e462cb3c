"""The names and strings in the code of a function and of those inside it; copies of functions; lines that name a variable."""

from __future__ import annotations

import functools
import inspect
import sys
import types
from collections.abc import Iterator
from typing import Any

_FORWARD: Any = {}
if sys.version_info >= (3, 14):
    from annotationlib import Format

    _FORWARD = {"annotation_format": Format.FORWARDREF}


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


def signature_of(f: Any) -> inspect.Signature:
    """The signature of a function. Annotations that cannot be computed yet, since Python 3.14, are left as they are."""
    return inspect.signature(f, **_FORWARD)


def describe(copy: types.FunctionType, f: types.FunctionType) -> None:
    """Give a copy of a function the names, the docstring and the annotations of the original.

    Since Python 3.14 annotations are computed when they are asked for, and may name what does not exist yet: functools knows
    which attribute a copy takes.
    """
    for attribute in functools.WRAPPER_ASSIGNMENTS:
        if hasattr(f, attribute):
            setattr(copy, attribute, getattr(f, attribute))


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
