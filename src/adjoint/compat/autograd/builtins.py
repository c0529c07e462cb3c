"""Containers and type queries. Containers of traced values are Python's own here, so most of these are too."""

from __future__ import annotations

import builtins
from typing import Any

from ...core.tree import flatten
from .box import isbox, stands_for

dict = builtins.dict
list = builtins.list
tuple = builtins.tuple  # type: ignore[type-arg]


class _Holding(builtins.type):
    """Classes for isinstance alone: a container of that kind counts while it holds a traced value."""

    kinds: builtins.tuple[builtins.type, ...]

    def __instancecheck__(cls, x: Any) -> bool:
        return builtins.isinstance(x, cls.kinds) and any(map(isbox, flatten(x)[0]))


class SequenceBox(metaclass=_Holding):
    """A list or tuple with traced values in it."""

    kinds = (builtins.list, builtins.tuple)


class DictBox(metaclass=_Holding):
    """A dict with traced values in it."""

    kinds = (builtins.dict,)


def isinstance(x: Any, A: Any) -> bool:
    """Python's isinstance, which takes a traced value for what it stands for."""
    return builtins.isinstance(x, A) or builtins.isinstance(stands_for(x), A)


class _Type(builtins.type):
    """`type(x)` of a traced value is that of its value; otherwise this is Python's `type`, also to inherit from."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return builtins.type(stands_for(args[0])) if len(args) == 1 else builtins.type(*args, **kwargs)

    def __instancecheck__(cls, x: Any) -> bool:
        return builtins.isinstance(x, builtins.type)


class type(builtins.type, metaclass=_Type):  # noqa: N801 - Python's name
    """Python's type, which takes a traced value for what it stands for."""
