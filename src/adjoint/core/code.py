"""The names and strings in the code of a function, and of the functions inside it."""

from __future__ import annotations

import types
from collections.abc import Iterator


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
