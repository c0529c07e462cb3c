"""The containers that an entry point opens and builds itself.

A pattern is a container with the number of a leaf in place of each array: `(0, {"w": 1, "b": 2})`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ...core.tree import Structure


def opens_natively(arguments: Sequence[Structure]) -> bool:
    """Whether the entry point itself opens these containers: tuples, lists, None, and dicts with strings as keys, in any depth.

    Otherwise, flatten in Python and call with one argument per leaf. Other keys are excluded since 1, 1.0 and True are equal.
    """
    if not all(map(_plain, arguments)):
        return False
    dicts = (pattern for pattern in containers(_argument_patterns(arguments)) if isinstance(pattern, dict))
    return all(type(key) is str for pattern in dicts for key in pattern)


def packs_natively(result: Structure) -> bool:
    """Whether the entry point itself builds this result: tuples, lists, dicts, None. Otherwise it returns the flat tuple."""
    return _plain(result)


def argument_patterns(arguments: Sequence[Structure] | None, count: int) -> list[Any]:
    """The patterns of the arguments; one number each where they are not opened natively."""
    if arguments is None or not opens_natively(arguments):
        return list(range(count))
    return _argument_patterns(arguments)


def result_pattern(result: Structure | None, count: int) -> Any:
    """The pattern of the result; the flat tuple where it is not packed natively."""
    if result is None or not packs_natively(result):
        return tuple(range(count))
    return result.unflatten(range(count))


def parts(pattern: Any) -> Sequence[Any]:
    """The direct items of a container."""
    if pattern is None:
        return ()
    return list(pattern.values()) if isinstance(pattern, dict) else pattern


def containers(pattern: Any) -> Iterator[Any]:
    """All containers in a pattern, and None, the outer ones first."""
    if not isinstance(pattern, int):
        yield pattern
        for part in parts(pattern):
            yield from containers(part)


def _plain(structure: Structure) -> bool:
    return structure.kind in ("leaf", "none", tuple, list, dict) and all(_plain(child) for _, child in structure.children)


def _argument_patterns(arguments: Sequence[Structure]) -> list[Any]:
    patterns, start = [], 0
    for structure in arguments:
        patterns.append(structure.unflatten(range(start, start + structure.count)))
        start += structure.count
    return patterns
