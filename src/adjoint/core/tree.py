"""Nested containers of arrays: lists, tuples, named tuples, dicts, classes with fields (`records.py`), registered classes.

>>> leaves, structure = flatten({"w": 1.0, "b": [2.0, 3.0]})
>>> leaves
[2.0, 3.0, 1.0]
>>> structure.unflatten([20.0, 30.0, 10.0])
{'w': 10.0, 'b': [20.0, 30.0]}

None has no leaves, and neither have the static parts of a class: they belong to the structure.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from .bind import Traced, snapshot
from .errors import ArgumentError, ShapeError
from .home import package_of
from .records import Fields, Role, fields_of, is_number


class Structure:
    """The shape of a container: how to rebuild it from its leaves. Compared by kind, keys, static parts and children.

    Two dicts with the same keys in another order are equal, and have their leaves in one order; `orders` tells them apart.
    """

    __slots__ = ("build", "children", "count", "kind", "order", "static")

    def __init__(
        self,
        kind: Any,
        children: tuple[tuple[str, Structure], ...],
        build: Callable[[list[Any]], Any],
        count: int,
        static: Any = None,
        order: tuple[Any, ...] | None = None,
    ) -> None:
        self.kind = kind
        self.order = order  # of the keys of a dict, where it is not that of the children
        self.children = children
        self.build = build
        self.count = count
        self.static = static

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

    def orders(self) -> Iterator[tuple[str, tuple[Any, ...]]]:
        """The path and the keys of every dict whose keys are not sorted."""
        if self.order is not None:
            yield "", self.order
        for key, child in self.children:
            if child is not LEAF:
                for path, order in child.orders():
                    yield key + path, order

    def has_static(self) -> bool:
        """Whether a part is static."""
        return self.static is not None or any(child.has_static() for _, child in self.children)

    def is_one_array(self) -> bool:
        """Whether this is an array, bare or with labels around it."""
        return self is LEAF or (len(self.children) == 1 and self.children[0] == ("", LEAF))

    def fits(self, other: Structure) -> bool:
        """Whether another container has its leaves in the same places; the static parts may differ, or be None."""
        if self.kind is STATIC or other.kind is STATIC:
            return not self.count and not other.count and {self.kind, other.kind} <= {STATIC, EMPTY.kind}
        return (
            self.kind == other.kind
            and len(self.children) == len(other.children)
            and all(a == b and x.fits(y) for (a, x), (b, y) in zip(self.children, other.children, strict=True))
        )

    def changed(self, other: Structure) -> str | None:
        """The path of the first static part that differs, in a structure with the leaves in the same places."""
        if self.static != other.static:
            return ""
        parts = ((key, mine.changed(theirs)) for (key, mine), (_, theirs) in zip(self.children, other.children, strict=False))
        return next((key + path for key, path in parts if path is not None), None)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Structure)
            and self.kind == other.kind
            and self.static == other.static
            and self.children == other.children
        )

    def __hash__(self) -> int:
        return hash((self.kind, self.static, self.children))

    def __repr__(self) -> str:
        if self is LEAF:
            return "*"
        if self is EMPTY:
            return "None"
        if self.kind is STATIC:
            return f"{self.static.value!r:.40}"
        name = self.kind if isinstance(self.kind, str) else self.kind.__name__
        return f"{name}({', '.join(f'{key}: {child!r}' for key, child in self.children)})"

    def example(self) -> Any:
        """A container of this structure, with 0.0 for each leaf."""
        return self.unflatten([0.0] * self.count)

    def __reduce__(self) -> Any:
        return _structure_of, (self.example(),)


class Static:
    """A part of a container that is not a leaf. Compared by its class and value; without a hash, by identity or as an array."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Static):
            return False
        a, b = self.value, other.value
        if a is b or type(a) is not type(b):
            return a is b
        if isinstance(a, np.ndarray):
            return a.dtype == b.dtype and np.array_equal(a, b)
        return _hashed(a) is not None and bool(a == b)

    def __hash__(self) -> int:
        return hash((type(self.value), _hashed(self.value)))


def _hashed(x: Any) -> int | None:
    try:
        return hash(x)
    except TypeError:
        return None


_BARE = frozenset({np.ndarray, np.float64, float, Traced})
STATIC = "static"
LEAF = Structure("leaf", (), lambda parts: parts, 1)
EMPTY = Structure("none", (), lambda parts: None, 0)


def _structure_of(example: Any) -> Structure:
    return flatten(example)[1]


class OpenContainer(NamedTuple):
    """The immediate parts of a container. `roles` are those of the fields of a class."""

    kind: Any
    keys: Sequence[str]
    parts: Sequence[Any]
    build: Callable[[list[Any]], Any]
    roles: Sequence[Role] | None = None
    static: Any = None
    order: tuple[Any, ...] | None = None


_Opener = Callable[[Any], OpenContainer]
_registered: dict[type, _Opener] = {}

#: Packages whose classes are containers, with the function that registers them on first use.
LATE: dict[str, Callable[[], None]] = {}


@functools.lru_cache(1 << 10)
def _opener(cls: Any) -> _Opener | None:
    """How the containers of a class are opened; None for a class of leaves."""
    late = LATE.pop(package_of(cls.__module__), None)
    if late is not None:
        late()
    if cls in _registered:
        return _registered[cls]
    if issubclass(cls, dict):
        return _open_dict
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        return _open_named_tuple
    if issubclass(cls, (tuple, list)):
        return _open_sequence
    fields = fields_of(cls)
    return None if fields is None else functools.partial(_open_record, fields)


def _open_sequence(tree: Any) -> OpenContainer:
    return OpenContainer(type(tree), [f"[{i}]" for i in range(len(tree))], tree, type(tree))


def _open_named_tuple(tree: Any) -> OpenContainer:
    cls = type(tree)
    return OpenContainer(cls, [f".{name}" for name in cls._fields], tree, lambda parts: cls(*parts))


def _open_dict(tree: Any) -> OpenContainer:
    cls, order = type(tree), list(tree)
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

    given = None if keys == order else tuple(order)
    return OpenContainer(cls, [f"[{key!r}]" for key in keys], [tree[key] for key in keys], build, order=given)


def _open_record(fields: Fields, tree: Any) -> OpenContainer:
    cls, names = type(tree), fields.names

    def build(parts: list[Any]) -> Any:
        return fields.build(cls, dict(zip(names, parts, strict=True)))

    return OpenContainer(cls, [f".{name}" for name in names], [getattr(tree, name) for name in names], build, fields.roles)


def register_container(cls: type, flatten: Callable[[Any], tuple[Any, Any]], unflatten: Callable[[Any, Any], Any]) -> type:
    """Let transforms open the instances of a class: `flatten` gives (children, static part), `unflatten` takes (static part,
    children).

    >>> class Interval:
    ...     def __init__(self, low, high, unit):
    ...         self.low, self.high, self.unit = low, high, unit
    >>> _ = register_container(Interval, lambda i: ((i.low, i.high), i.unit), lambda unit, ends: Interval(*ends, unit))
    >>> flatten(Interval(1.0, 2.0, "m"))[0]
    [1.0, 2.0]

    The children are differentiated, batched and compiled as the items of a tuple. The static part belongs to the structure: `jit`
    compiles a program for each. Subclasses are registered by themselves.
    """
    if not isinstance(cls, type):
        raise ArgumentError(f"register_container takes a class, not {type(cls).__name__}")
    if cls in (tuple, list, dict, type(None)) or issubclass(cls, (np.ndarray, np.generic, float, int, complex, str, Traced)):
        raise ArgumentError(f"{cls.__name__} cannot be registered: transforms already have a rule for it")

    def open_(tree: Any) -> OpenContainer:
        pair = flatten(tree)
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise ArgumentError(f"the flatten of {cls.__name__} must return (children, static part), not {type(pair).__name__}")
        children, static = tuple(pair[0]), pair[1]
        keys = [f"[{i}]" for i in range(len(children))]
        return OpenContainer(cls, keys, children, lambda parts: unflatten(static, tuple(parts)), None, Static(static))

    register_opener(cls, open_)
    return cls


def register_opener(cls: type, open_: _Opener) -> None:
    """Let the containers of a class be opened in this way."""
    _registered[cls] = open_
    _opener.cache_clear()


def _open(tree: Any) -> OpenContainer | None:
    """The immediate parts of a container, or None for a leaf."""
    cls: Any = type(tree)
    opener = _opener(cls)
    return None if opener is None else opener(tree)


def flatten(tree: Any) -> tuple[list[Any], Structure]:
    """The leaves in order, and the structure that puts them back."""
    if type(tree) in _BARE:
        return [tree], LEAF
    leaves: list[Any] = []
    return leaves, _flatten(tree, leaves, Role.LEAF)


def _flatten(tree: Any, leaves: list[Any], role: Role) -> Structure:
    """The structure of a container, whose leaves are added. Inside a field, its role says what is a leaf."""
    if tree is None:
        return EMPTY
    node = None if role is Role.STATIC else _open(tree)
    if node is None:
        if role is Role.LEAF or (role is not Role.STATIC and (is_number(tree) or (role is Role.NUMBER and type(tree) is int))):
            leaves.append(tree)
            return LEAF
        return Structure(STATIC, (), lambda parts: tree, 0, Static(tree))
    before = len(leaves)
    roles = node.roles or [role] * len(node.keys)
    children = tuple([(k, _flatten(part, leaves, r)) for k, part, r in zip(node.keys, node.parts, roles, strict=True)])
    return Structure(node.kind, children, node.build, len(leaves) - before, node.static, node.order)


def map_leaves(f: Callable[..., Any], tree: Any, *rest: Any) -> Any:
    """Apply f to every leaf, of several trees of one structure together."""
    leaves, structure = flatten(tree)
    columns = [flatten_like(structure, other) for other in rest]
    return structure.unflatten([f(*row) for row in zip(leaves, *columns, strict=True)])


def final(result: Any, taken: Callable[[Any], Any] = snapshot) -> Any:
    """A function's result at the time it returns: views are brought up to date. `taken` gives what a leaf is then."""
    return result if type(result) is Traced else map_leaves(taken, result)


def flatten_like(structure: Structure, tree: Any, what: str = "the second tree") -> list[Any]:
    """The leaves of a tree that must have this structure."""
    return _checked(structure, tree, what, structure.__eq__)


def flatten_tangent(structure: Structure, tree: Any, what: str) -> list[Any]:
    """The leaves of a tangent or cotangent of a container of this structure, whose static parts do not matter."""
    return _checked(structure, tree, what, structure.fits)


def _checked(structure: Structure, tree: Any, what: str, fits: Callable[[Structure], bool]) -> list[Any]:
    leaves, found = flatten(tree)
    if not fits(found):
        raise ShapeError(f"{what} has the structure {found}, expected {structure}")
    return leaves


def broadcast_prefix(prefix: Any, structure: Structure, what: str) -> list[Any]:
    """Spread a prefix over the leaves: `0` or `(0, None)` over `(x, {'a': y, 'b': z})` gives [0, None, None]."""
    if prefix is None or not structure.children or _open(prefix) is None:
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
