"""`scipy.spatial` of adopted modules: neighbour searches on traced points.

The neighbours of a point are constant in its position, except where they change. Distances are computed again from the points
that were found, and have a derivative.
"""

from __future__ import annotations

import importlib
from typing import Any

from .. import numpy as anp
from ..core.bind import Traced
from ..core.errors import UnsupportedError
from .builtin import is_batched
from .face import Constant


def concrete(x: Any) -> Any:
    """The numbers of a value. A compiled program is valid for these only."""
    if is_batched(x):
        raise UnsupportedError("the neighbours of points may differ across a batch; use ad.map in place of vmap")
    while isinstance(x, Traced):
        x = x.by.concrete(x, "the neighbours of")
    return x


class _Tree:
    """A tree over traced points: a tree of SciPy's over their numbers."""

    def __init__(self, data: Any, **options: Any) -> None:
        self.points = anp.asarray(data)
        self.tree = _trees()[0](concrete(data), **options)

    def query(self, x: Any, k: Any = 1, **options: Any) -> Any:
        _, found = self.tree.query(concrete(x), k, **options)
        if options.get("p", 2) != 2 or (found == len(self.points)).any():
            raise NotImplementedError("query of a tree over traced points gives Euclidean distances to existing neighbours only")
        apart = anp.asarray(x)[..., None, :] - self.points[found] if anp.ndim(found) > anp.ndim(x) - 1 else x - self.points[found]
        return anp.linalg.norm(apart, axis=-1), found

    def query_ball_point(self, x: Any, r: Any, *args: Any, **options: Any) -> Any:
        return self.tree.query_ball_point(concrete(x), concrete(r), *args, **options)

    def query_ball_tree(self, other: Any, r: Any, *args: Any, **options: Any) -> Any:
        return self.tree.query_ball_tree(getattr(other, "tree", other), concrete(r), *args, **options)

    def query_pairs(self, r: Any, *args: Any, **options: Any) -> Any:
        return self.tree.query_pairs(concrete(r), *args, **options)

    def count_neighbors(self, other: Any, r: Any, *args: Any, **options: Any) -> Any:
        return self.tree.count_neighbors(getattr(other, "tree", other), concrete(r), *args, **options)


def _trees() -> tuple[Any, Any]:
    spatial = importlib.import_module("scipy.spatial")
    return spatial.cKDTree, spatial.KDTree


class _Trees(type):
    """The class of a class that makes SciPy's trees, or ours over traced points."""

    original: type

    def __call__(cls, data: Any, *args: Any, **options: Any) -> Any:
        if isinstance(data, Traced):
            return _Tree(data, **dict(zip(("leafsize",), args, strict=False)), **options)
        return cls.original(data, *args, **options)

    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, (cls.original, _Tree))


def spatial_face() -> Any:
    made = {cls.__name__: _Trees(cls.__name__, (), {"original": cls}) for cls in _trees()}
    return Constant(importlib.import_module("scipy.spatial"), made)
