"""One basic index for two: x[first][second] is x[joined(x.shape, first, second)].

>>> joined((5, 4), (slice(1, None),), (slice(None, None, -1), 0))
(slice(4, 0, -1), 0)
"""

from __future__ import annotations

from typing import Any

from ...core.types import Shape

Spec = tuple[Any, ...]

_NEW = None  # an axis of length one that the first index adds


def joined(shape: Shape, first: Spec, second: Spec) -> Spec | None:
    """The index that reads what the second reads of what the first reads; None if there is none.

    Specs hold integers, slices and None (a new axis), as those of `getitem`. Only a new axis that is then read by an empty
    slice cannot be written as one.
    """
    entries = _resolved(shape, first)
    places = [i for i, entry in enumerate(entries) if not isinstance(entry, int)]  # of the axes that the second index meets
    result: list[Any] = []
    done = 0
    for part in second:
        if part is None:
            result.append(None)
            continue
        place = places.pop(0)
        result += entries[done:place]
        done = place + 1
        entry = entries[place]
        if entry is not _NEW:
            result.append(entry[part])
        elif isinstance(part, slice):
            if len(range(1)[part]) != 1:
                return None
            result.append(_NEW)
    result += entries[done:]
    return _written(result, shape)


def _resolved(shape: Shape, spec: Spec) -> list[Any]:
    """An index as integers, ranges of positions and new axes, one entry for each part and each axis that is left."""
    sizes = list(shape)
    entries: list[Any] = []
    for part in spec:
        entries.append(_NEW if part is None else range(sizes.pop(0))[part])
    return entries + [range(n) for n in sizes]


def _written(entries: list[Any], shape: Shape) -> Spec:
    """Entries as a spec, with slices as a person writes them and none for whole axes at the end."""
    sizes = list(shape)
    spec: list[Any] = []
    for entry in entries:
        size = None if entry is _NEW else sizes.pop(0)
        spec.append(_slice(entry, size) if isinstance(entry, range) else entry)
    while spec and spec[-1] == slice(None):
        spec.pop()
    return tuple(spec)


def _slice(positions: range, size: int | None) -> slice:
    if not len(positions):
        return slice(0, 0)
    step = None if positions.step == 1 or len(positions) == 1 else positions.step
    if step is None and len(positions) == size:
        return slice(None)
    stop = positions[-1] + (-1 if step is not None and step < 0 else 1)
    return slice(positions[0], None if stop < 0 else stop, step)
