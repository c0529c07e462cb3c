"""The vector space that a value, or a container of values, lives in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...core.tree import LEAF, flatten, map_leaves
from ...core.types import Type, dtype_of

_NUMBER_TYPES = (np.ndarray, np.generic, float, int, complex)


class VSpace:
    """Zeros, ones, a basis and the arithmetic of values like the one given."""

    def __init__(self, value: Any) -> None:
        leaves, self.structure = flatten(value)
        for x in leaves:
            if not (isinstance(x, _NUMBER_TYPES) or hasattr(x, "dtype")) or isinstance(x, bool):
                raise TypeError(f"no vector space for a value of type {type(x).__name__}")
        # Integers count as floats, as they do for the transforms.
        self.types = [Type(t.shape, np.result_type(t.dtype, np.float16)) for t in map(Type.of, leaves)]
        self.size = sum(t.size * (2 if t.dtype.kind == "c" else 1) for t in self.types)
        self.iscomplex = any(t.dtype.kind == "c" for t in self.types)
        if self.structure is LEAF:
            self.shape, self.dtype, self.ndim = *self.types[0], self.types[0].ndim

    def _fill(self, make: Any) -> Any:
        return self.structure.unflatten([make(t) for t in self.types])

    def zeros(self) -> Any:
        return self._fill(lambda t: np.zeros(t.shape, t.dtype))

    def ones(self) -> Any:
        """The sum of the standard basis."""
        return self._fill(lambda t: np.full(t.shape, 1 + 1j if t.dtype.kind == "c" else 1, t.dtype))

    def randn(self) -> Any:
        def draw(t: Type) -> Any:
            x = np.array(np.random.randn(*t.shape), t.dtype)
            return x + 1j * np.random.randn(*t.shape) if t.dtype.kind == "c" else x

        return self._fill(draw)

    def standard_basis(self) -> Iterator[Any]:
        for k, t in enumerate(self.types):
            for place in np.ndindex(t.shape):
                for unit in (1.0, 1.0j) if t.dtype.kind == "c" else (1.0,):
                    parts = [np.zeros(s.shape, s.dtype) for s in self.types]
                    parts[k][place] = unit
                    yield self.structure.unflatten(parts)

    def add(self, a: Any, b: Any) -> Any:
        return map_leaves(lambda x, y: x + y, a, b)

    mut_add = add

    def scalar_mul(self, x: Any, a: Any) -> Any:
        return map_leaves(lambda part: part * a, x)

    def inner_prod(self, a: Any, b: Any) -> Any:
        pairs = zip(flatten(a)[0], flatten(b)[0], strict=True)
        return sum(np.real(np.sum(np.conj(x) * y)) for x, y in pairs)

    def covector(self, x: Any) -> Any:
        return map_leaves(lambda part: np.conj(part) if dtype_of(part).kind == "c" else part, x)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VSpace) and self.structure == other.structure and self.types == other.types

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"VSpace({self.structure.unflatten(self.types)})"


def vspace(value: Any) -> VSpace:
    """The vector space of a value."""
    return VSpace(value)
