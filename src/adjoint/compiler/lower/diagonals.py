"""Constants that are the same along their diagonals, as `eye`, `tri` and `ones` make them: computed at each point, not loaded.

    numpy.eye(6000)          288 MB of memory, read by each kernel
    select(i == j, 1, 0)     three instructions

A matrix of three numbers, below, on and above one diagonal, is two comparisons of the indices. These are read from a short array
that counts. The matrix may be repeated along axes that follow, as the mask of a cotangent is.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...core.types import Shape
from .kernel import Dtype

LEAST = 1 << 14  # elements; a smaller matrix is in the cache, and a load is as cheap
_AT_ONCE = 1 << 20  # elements that are compared


class Diagonals(NamedTuple):
    """A matrix with one number below the diagonal j - i = `shift`, one on it and one above."""

    shape: Shape
    dtype: Dtype
    shift: int
    below: Any
    on: Any
    above: Any
    after: int = 0  # axes along which it is repeated, after those of the matrix


def diagonals(array: np.ndarray[Any, Any]) -> Diagonals | None:
    """A constant as one number for each side of a diagonal; None if it is not of that form."""
    if array.ndim < 2 or array.size < LEAST or min(array.shape[:2]) < 2 or not all(array.shape):
        return None
    after = array.ndim - 2
    found = _diagonals(array.reshape(*array.shape[:2], -1)[:, :, 0])
    if found is None or (after and not _is_repeated(array)):
        return None
    return found._replace(after=after)


def _is_repeated(array: np.ndarray[Any, Any]) -> bool:
    """Whether an array is the same along all axes but the first two."""
    rows = np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}").reshape(*array.shape[:2], -1)
    step = max(1, _AT_ONCE // rows[0].size)
    return all((rows[i : i + step] == rows[i : i + step, :, :1]).all() for i in range(0, len(rows), step))


def _diagonals(matrix: np.ndarray[Any, Any]) -> Diagonals | None:
    bits = np.ascontiguousarray(matrix).view(f"u{matrix.dtype.itemsize}")  # nan equals itself, and 0.0 is not -0.0
    rows = len(matrix)
    edge = np.concatenate([bits[:0:-1, 0], bits[0]])  # the numbers of the diagonals, from the last row to the last column
    changes = np.flatnonzero(edge[1:] != edge[:-1]) + 1
    if len(changes) > 2 or (len(changes) == 2 and changes[1] != changes[0] + 1):
        return None
    step = max(1, _AT_ONCE // matrix.shape[1])
    if any((bits[i + 1 : i + step + 1, 1:] != bits[i : i + step, :-1][: rows - 1 - i]).any() for i in range(0, rows - 1, step)):
        return None
    numbers = np.concatenate([matrix[:0:-1, 0], matrix[0]])
    at = int(changes[0]) if len(changes) else 0
    return Diagonals(matrix.shape, matrix.dtype, at - rows + 1, numbers[0], numbers[at], numbers[-1])
