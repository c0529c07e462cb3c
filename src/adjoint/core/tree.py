"""Nested containers of arrays: lists, tuples, named tuples, dicts, dataclasses; None has no leaves.

>>> leaves, structure = flatten({"w": 1.0, "b": [2.0, 3.0]})
>>> leaves
[2.0, 3.0, 1.0]
>>> structure.unflatten([20.0, 30.0, 10.0])
{'w': 10.0, 'b': [20.0, 30.0]}
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from .bind import Traced, snapshot
from .errors import ShapeError


class Structure:
    """The shape of a container: how to rebuild it from its leaves. Compared by kind, keys and children."""

    __slots__ = ("build", "children", "count", "kind")

    def __init__(
        self, kind: Any, children: tuple[tuple[str, Structure], ...], build: Callable[[list[Any]], Any], count: int
    ) -> None:
        self.kind = kind
        self.children = children
        self.build = build
        self.count = count

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        leaves = list(leaves)
        if len(leaves) != self.count:
            raise ShapeError(f"{self} holds {self.count} arrays, not {len(leaves)}")
        return self._rebuild(iter(leaves))

    def _rebuild(self, leaves: Iterator[Any]) -> Any:
        if self is LEAF:
            return next(leaves)
        return self.build([child._rebuild(leaves) for _, child in self.children])

    def paths(self) -> Iterator[str]:
        """The access path of every leaf, such as `['w'][0]`."""
        if self is LEAF:
            yield ""
        for key, child in self.children:
            for path in child.paths():
                yield key + path

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Structure) and self.kind == other.kind and self.children == other.children

    def __hash__(self) -> int:
        return hash((self.kind, self.children))

    def __repr__(self) -> str:
        if self is LEAF:
            return "*"
        if self is EMPTY:
            return "None"
        name = self.kind if isinstance(self.kind, str) else self.kind.__name__
        return f"{name}({', '.join(f'{key}: {child!r}' for key, child in self.children)})"

    def example(self) -> Any:
        """A container of this structure, with 0 for each leaf."""
        return self.unflatten([0] * self.count)

    def __reduce__(self) -> Any:
        return _structure_of, (self.example(),)


_BARE = frozenset({np.ndarray, np.float64, float, Traced})
LEAF = Structure("leaf", (), lambda parts: parts, 1)
EMPTY = Structure("none", (), lambda parts: None, 0)


def _structure_of(example: Any) -> Structure:
    return flatten(example)[1]


class _Node(NamedTuple):
    kind: Any
    keys: list[str]
    parts: list[Any]
    build: Callable[[list[Any]], Any]


def _open(tree: Any) -> _Node | None:
    """The immediate parts of a container, or None for a leaf."""
    cls = type(tree)
    if cls is tuple or cls is list:
        return _Node(cls, [f"[{i}]" for i in range(len(tree))], list(tree), cls)
    if isinstance(tree, dict):
        order = list(tree)
        try:
            keys = sorted(order)
        except TypeError:
            keys = order

        def build(parts: list[Any]) -> Any:
            filled = dict(zip(keys, parts, strict=True))
            result = {key: filled[key] for key in order}
            if cls is dict:
                return result
            copy = tree.copy()  # keeps a default factory
            copy.update(result)
            return copy

        return _Node(cls, [f"[{key!r}]" for key in keys], [tree[key] for key in keys], build)
    if isinstance(tree, tuple) and hasattr(cls, "_fields"):
        return _Node(cls, [f".{name}" for name in cls._fields], list(tree), lambda parts: cls(*parts))
    if isinstance(tree, (tuple, list)):
        return _Node(cls, [f"[{i}]" for i in range(len(tree))], list(tree), cls)
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        names = [field.name for field in dataclasses.fields(tree)]

        def rebuild(parts: list[Any]) -> Any:
            # Fields may be init=False or derived in __post_init__: copy them without running it.
            result = object.__new__(cls)
            for name, part in zip(names, parts, strict=True):
                object.__setattr__(result, name, part)
            return result

        return _Node(cls, [f".{name}" for name in names], [getattr(tree, name) for name in names], rebuild)
    return None


def flatten(tree: Any) -> tuple[list[Any], Structure]:
    """The leaves in order, and the structure that puts them back."""
    if type(tree) in _BARE:
        return [tree], LEAF
    leaves: list[Any] = []
    return leaves, _flatten(tree, leaves)


def _flatten(tree: Any, leaves: list[Any]) -> Structure:
    if tree is None:
        return EMPTY
    node = _open(tree)
    if node is None:
        leaves.append(tree)
        return LEAF
    before = len(leaves)
    children = tuple((key, _flatten(part, leaves)) for key, part in zip(node.keys, node.parts, strict=True))
    return Structure(node.kind, children, node.build, len(leaves) - before)


def map_leaves(f: Callable[..., Any], tree: Any, *rest: Any) -> Any:
    """Apply f to every leaf, of several trees of one structure together."""
    leaves, structure = flatten(tree)
    columns = [flatten_like(structure, other) for other in rest]
    return structure.unflatten([f(*row) for row in zip(leaves, *columns, strict=True)])


def final(result: Any) -> Any:
    """A function's result at the time it returns: views are brought up to date."""
    return result if type(result) is Traced else map_leaves(snapshot, result)


def flatten_like(structure: Structure, tree: Any, what: str = "the second tree") -> list[Any]:
    """The leaves of a tree that must have this structure."""
    leaves, found = flatten(tree)
    if found != structure:
        raise ShapeError(f"{what} has the structure {found}, expected {structure}")
    return leaves


def broadcast_prefix(prefix: Any, structure: Structure, what: str) -> list[Any]:
    """Spread a prefix over the leaves: `0` or `(0, None)` over `(x, {'a': y, 'b': z})` gives [0, None, None]."""
    if prefix is None or structure is LEAF or structure is EMPTY or _open(prefix) is None:
        return [prefix] * structure.count
    node = _open(prefix)
    assert node is not None
    if len(node.keys) != len(structure.children) or any(
        key != name for key, (name, _) in zip(node.keys, structure.children, strict=True)
    ):
        raise ShapeError(f"{what}={prefix!r} does not match the structure {structure}")
    result: list[Any] = []
    for part, (_, child) in zip(node.parts, structure.children, strict=True):
        result.extend(broadcast_prefix(part, child, what))
    return result


def leaf_names(name: str, structure: Structure) -> Sequence[str]:
    return [name + path for path in structure.paths()]
