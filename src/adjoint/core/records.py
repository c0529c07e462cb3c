"""Classes with named fields, as containers: dataclasses, attrs classes, pydantic models.

    @dataclass
    class Layer:
        w: np.ndarray          # arrays and floats are leaves
        name: str              # anything that is not a number is static: part of the structure, not a leaf
        size: int              # integers are static too, since they count and index
        scale: float = 1       # except where a float is declared: `grad` then raises, since 1 is not a float

`field(metadata={"static": True})` makes a field static, `{"static": False}` a leaf. attrs and pydantic are never imported here.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any, NamedTuple

import numpy as np


class Role(Enum):
    """What the value of a field is to a transform."""

    BY_VALUE = 0  # numbers and arrays are leaves, anything else is static
    NUMBER = 1  # a float is declared: a whole number is a leaf as well
    LEAF = 2
    STATIC = 3


class Fields(NamedTuple):
    """The fields of a class, and how an instance is made from their values."""

    names: list[str]
    roles: list[Role]
    build: Callable[[type, dict[str, Any]], Any]


@functools.lru_cache(1 << 10)
def fields_of(cls: Any) -> Fields | None:
    """The fields of a class of one of these kinds; None for any other class."""
    if dataclasses.is_dataclass(cls):
        return _declared(((f.name, f.type, f.metadata) for f in dataclasses.fields(cls)), _filled)
    if isinstance(attributes := getattr(cls, "__attrs_attrs__", None), tuple):
        return _declared(((a.name, a.type, a.metadata) for a in attributes), _filled)
    if isinstance(models := getattr(cls, "__pydantic_fields__", None), dict):
        return _declared(((name, f.annotation, {}) for name, f in models.items()), _model)
    return None


def _declared(fields: Iterable[tuple[str, Any, Any]], build: Callable[[type, dict[str, Any]], Any]) -> Fields:
    rows = [(name, _role(annotation, metadata)) for name, annotation, metadata in fields]
    return Fields([name for name, _ in rows], [role for _, role in rows], build)


def _role(annotation: Any, metadata: Any) -> Role:
    static = metadata.get("static")
    if static is not None:
        return Role.STATIC if static else Role.LEAF
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "") + repr(annotation)
    return Role.NUMBER if _REAL.search(text) and not _WHOLE.search(text) else Role.BY_VALUE


_REAL = re.compile(r"float|complex|array", re.I)
_WHOLE = re.compile(r"\bu?int\b")


def is_number(x: Any) -> bool:
    """Whether a value among fields is a leaf: a float, or anything with a shape and a dtype, as an array is."""
    if isinstance(x, (np.ndarray, np.generic)):
        return x.dtype.kind in "biufc"
    return isinstance(x, (float, complex)) or (hasattr(x, "dtype") and hasattr(x, "shape") and not isinstance(x, type))


def _filled(cls: type, values: dict[str, Any]) -> Any:
    """An instance with these fields. `__init__` and `__post_init__` do not run: fields may be derived in them."""
    made: Any = object.__new__(cls)
    for name, value in values.items():
        object.__setattr__(made, name, value)
    return made


def _model(cls: Any, values: dict[str, Any]) -> Any:
    """A pydantic model with these fields, not validated. Private attributes have their defaults."""
    made = cls.__new__(cls)
    parts = {"__dict__": values, "__pydantic_fields_set__": set(values), "__pydantic_extra__": None}
    private = {name: attribute.get_default() for name, attribute in getattr(cls, "__private_attributes__", {}).items()}
    for name, value in {**parts, "__pydantic_private__": private or None}.items():
        object.__setattr__(made, name, value)
    return made
