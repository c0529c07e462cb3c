"""Containers as JSON: `{"w": [x], "b": None}` is `{"dict": [["'w'", {"list": ["*"]}], ["'b'", null]]}`.

`"*"` is a leaf, null is None. The key of a dict is a Python literal, and so is a static field: `{"static": "'relu'"}`. A class is
named, with its fields; it is rebuilt only from a class that the caller passes.
"""

from __future__ import annotations

import collections
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core.errors import ArgumentError, UnsupportedError
from ..core.records import fields_of
from ..core.tree import STATIC, Structure
from ..ir.text import literal, show_value

DEEPEST = 64  # containers inside one another
_KNOWN = (collections.OrderedDict, collections.defaultdict)
_KEYS = (str, int, float, complex, bool, bytes, type(None), tuple)


class ContainerError(ArgumentError):
    """A description that fits no container, or a class that was not passed."""


def describe(structure: Structure) -> Any:
    """The JSON of a structure."""
    _check(structure)
    return _describe(structure.unflatten([_LEAF] * structure.count))


_LEAF: Any = object()


def _check(structure: Structure) -> None:
    """Refuse containers that a file cannot describe."""
    if structure.static is not None and structure.kind is not STATIC:
        raise UnsupportedError(f"a container of the registered class {structure.kind.__name__} cannot be saved; use a dataclass")
    for _, child in structure.children:
        _check(child)


def _describe(tree: Any) -> Any:
    cls: Any = type(tree)
    if tree is None:
        return None
    if tree is _LEAF:
        return "*"
    if cls is tuple or cls is list:
        return {cls.__name__: [_describe(part) for part in tree]}
    if cls is dict:
        return {"dict": [[_key(key), _describe(part)] for key, part in tree.items()]}
    if not isinstance(tree, (dict, tuple, list)) and fields_of(cls) is None:
        return {"static": _static(tree)}
    parts = _fields(tree)
    return {"class": _name(cls), "fields": list(parts), "parts": [_describe(part) for part in parts.values()]}


def _key(key: Any) -> str:
    text = show_value(key)
    if not isinstance(key, _KEYS) or type(key).__module__ != "builtins" or _read(text) != key:
        raise UnsupportedError(f"the key {key!r} of a dict cannot be saved; use strings, numbers or tuples of them")
    return text


def _static(value: Any) -> str:
    """A static field, which a literal must give back."""
    text = show_value(value) if type(value) in _KEYS else ""
    if not text or _read(text) != value:
        raise UnsupportedError(f"a field that holds {value!r:.60} cannot be saved; static fields are text and numbers")
    return text


def _read(text: str) -> Any:
    try:
        return literal(text)
    except ValueError:
        return object


def _name(cls: type) -> str:
    module = cls.__module__
    return f"{'numpy' if module.startswith('numpy.') else module}:{cls.__qualname__}"  # NumPy's are in private modules


@functools.cache
def _of_numpy() -> tuple[type, ...]:
    """NumPy's named tuples."""
    a, linalg = np.eye(1), np.linalg
    made: list[Any] = [f(a) for f in (linalg.svd, linalg.eig, linalg.eigh, linalg.qr, linalg.slogdet)]
    made += [f(a) for f in (np.unique_all, np.unique_counts, np.unique_inverse)]
    return tuple(map(type, made))


def _fields(tree: Any) -> dict[str, Any]:
    """The parts of a container that is not built in, by field or by key."""
    if isinstance(tree, dict):
        return {_key(key): part for key, part in tree.items()}
    if isinstance(tree, (tuple, list)):
        return dict(zip(getattr(tree, "_fields", map(str, range(len(tree)))), tree, strict=True))
    cls: Any = type(tree)
    fields = fields_of(cls)
    assert fields is not None
    return {name: getattr(tree, name) for name in fields.names}


def rebuild(tree: Any, containers: Sequence[type], what: str) -> Any:
    """A container with 0.0 for each leaf, from its JSON."""
    known = {_name(cls): cls for cls in (*_KNOWN, *_of_numpy(), *containers)}
    return _rebuild(tree, known, what, 0)


def _rebuild(tree: Any, known: dict[str, type], what: str, depth: int) -> Any:
    if tree is None or tree == "*":
        return None if tree is None else 0.0
    if depth > DEEPEST:
        raise ContainerError(f"{what!r} holds more than {DEEPEST} containers inside one another")

    def parts(rows: Any) -> list[Any]:
        return [_rebuild(row, known, what, depth + 1) for row in rows]

    match tree:
        case {"tuple": list(rows), **rest} if not rest:
            return tuple(parts(rows))
        case {"list": list(rows), **rest} if not rest:
            return parts(rows)
        case {"dict": list(rows), **rest} if not rest and all(_is_row(row) for row in rows):
            return _dict([key for key, _ in rows], parts([part for _, part in rows]), what)
        case {"static": str(text), **rest} if not rest:
            found = _read(text)
            if found is object:
                raise ContainerError(f"{what!r} holds a field {text!r:.80} that is no literal")
            return found
        case {"class": str(name), "fields": list(fields), "parts": list(rows), **rest} if not rest and len(fields) == len(rows):
            if name not in known:
                short = name.rpartition(":")[2]
                raise ContainerError(f"{what!r} holds {name!r:.80}; pass the class: ad.load(path, containers=[{short:.40}])")
            if not all(isinstance(field, str) for field in fields):
                raise ContainerError(f"the fields of {name!r:.80} are not names")
            return _instance(known[name], fields, parts(rows), what)
    raise ContainerError(f"{what!r} holds {tree!r:.80}, which describes no container")


def _is_row(row: Any) -> bool:
    return isinstance(row, list) and len(row) == 2 and isinstance(row[0], str)


def _dict(keys: Sequence[str], parts: Sequence[Any], what: str) -> dict[Any, Any]:
    try:
        found = dict(zip(map(literal, keys), parts, strict=True))
    except (ValueError, TypeError) as error:
        raise ContainerError(f"{what!r} holds a dict with a key that cannot be read ({error!s:.80})") from error
    if len(found) != len(keys):
        raise ContainerError(f"{what!r} holds a dict with a key twice")
    return found


def _instance(cls: Any, fields: Sequence[str], parts: Sequence[Any], what: str) -> Any:
    """An instance of a class that the caller trusts, if it still has these fields."""
    if issubclass(cls, dict):
        made = cls()
        made.update(_dict(fields, parts, what))
        return made
    build: Callable[[], Any]
    if issubclass(cls, (tuple, list)):
        expected = getattr(cls, "_fields", tuple(map(str, range(len(parts)))))
        build = (lambda: cls(*parts)) if hasattr(cls, "_fields") else (lambda: cls(parts))
    elif (known := fields_of(cls)) is not None:
        expected = tuple(known.names)
        build = lambda: known.build(cls, dict(zip(fields, parts, strict=True)))
    else:
        raise ContainerError(f"{_name(cls)!r} is no container: a named tuple, a dataclass, or a kind of list, tuple or dict")
    if tuple(expected) != tuple(fields):
        raise ContainerError(f"{_name(cls)!r} has the fields {list(expected)!r:.200}, and had {list(fields)!r:.200}")
    return build()


__all__ = ["ContainerError", "describe", "rebuild"]
