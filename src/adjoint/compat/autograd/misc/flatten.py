"""A container of arrays as one vector.

>>> vector, unflatten = flatten({"w": np.eye(2), "b": 3.0})
>>> vector
array([3., 1., 0., 0., 1.])
>>> unflatten(2 * vector)["b"]
np.float64(6.0)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ....core.tree import flatten as _leaves
from ....core.types import Type, dtype_of
from ..wrap_util import as_floats


def flatten(value: Any) -> tuple[Any, Callable[[Any], Any]]:
    """All numbers in a container, as one vector, and the function that puts such a vector back into its form."""
    leaves, structure = _leaves(as_floats(value))
    types = [Type.of(x) for x in leaves]
    vector = np.concatenate([np.ravel(x) for x in leaves]) if leaves else np.zeros(0)

    def unflatten(vector: Any) -> Any:
        parts, start = [], 0
        for t in types:
            part = np.reshape(vector[start : start + t.size], t.shape) if t.shape else vector[start]
            start += t.size
            if dtype_of(part).kind == "c" and t.dtype.kind != "c":
                part = np.real(part)
            parts.append(part if dtype_of(part) == t.dtype else part.astype(t.dtype))
        return structure.unflatten(parts)

    return vector, unflatten


def flatten_func(func: Callable[..., Any], example: Any) -> tuple[Callable[..., Any], Callable[[Any], Any], Any]:
    """func from vectors to vectors, the function that makes its argument of a vector, and the example as a vector."""
    vector, unflatten = flatten(example)
    return (lambda x, *args: flatten(func(unflatten(x), *args))[0]), unflatten, vector
