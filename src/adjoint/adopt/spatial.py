"""`scipy.spatial` of adopted modules: neighbour searches on traced points, distances between them, and rotations.

The neighbours of a point are constant in its position, except where they change. Distances are computed again from the points
that were found, and have a derivative.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import numpy as anp
from ..core.bind import Traced, unwrap_fresh
from ..core.errors import UnsupportedError
from ..numpy.table import holds_traced
from .builtin import is_batched
from .choice import is_part
from .face import FixedFace


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


# -- distances ----------------------------------------------------------------------------------------------------


def _cosine(u: Any, v: Any) -> Any:
    sizes = anp.linalg.norm(u, axis=-1) * anp.linalg.norm(v, axis=-1)
    return 1 - anp.sum(u * v, axis=-1) / sizes


def _centred(u: Any) -> Any:
    return u - anp.mean(u, axis=-1, keepdims=True)


#: Distances along the last axis of arrays that broadcast.
_METRICS: dict[str, Callable[..., Any]] = {
    "euclidean": lambda u, v: anp.linalg.norm(u - v, axis=-1),
    "sqeuclidean": lambda u, v: anp.sum((u - v) ** 2, axis=-1),
    "cityblock": lambda u, v: anp.sum(anp.abs(u - v), axis=-1),
    "chebyshev": lambda u, v: anp.max(anp.abs(u - v), axis=-1),
    "minkowski": lambda u, v, p=2: anp.sum(anp.abs(u - v) ** p, axis=-1) ** (1 / p),
    "cosine": _cosine,
    "correlation": lambda u, v: _cosine(_centred(u), _centred(v)),
}


def _between(metric: Any, u: Any, v: Any, options: dict[str, Any]) -> Any:
    if not isinstance(metric, str) or metric not in _METRICS or not options.keys() <= {"p"}:
        raise UnsupportedError(
            f"distances of traced points have no rule for metric={metric!r} with {sorted(options) or 'no options'}; there are "
            f"rules for {', '.join(_METRICS)}, or write the distance with NumPy functions"
        )
    return _METRICS[metric](u, v, **options)


def _cdist(xa: Any, xb: Any, metric: Any = "euclidean", **options: Any) -> Any:
    return _between(metric, anp.asarray(xa)[:, None, :], anp.asarray(xb)[None, :, :], options)


def _pdist(x: Any, metric: Any = "euclidean", **options: Any) -> Any:
    x = anp.asarray(x)
    i, j = np.triu_indices(len(x), 1)
    return _between(metric, x[i], x[j], options)


def _squareform(x: Any, force: str = "no", checks: bool = True) -> Any:
    x = anp.asarray(x)
    if force.lower() not in ("no", "tovector" if x.ndim == 2 else "tomatrix"):
        raise ValueError(f"squareform of an array of {x.ndim} dimensions cannot have force={force!r}")
    if x.ndim == 2:
        return x[np.triu_indices(len(x), 1)]
    n = int(np.ceil(np.sqrt(2 * len(x))))
    if n * (n - 1) != 2 * len(x):
        raise ValueError("Incompatible vector size. It must be a binomial coefficient n choose 2 for some integer n >= 2.")
    made = anp.zeros((n, n), x.dtype)
    i, j = np.triu_indices(n, 1)
    made[i, j] = x
    made[j, i] = x
    return made


def _on_traced(original: Callable[..., Any], ours: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(*args: Any, **options: Any) -> Any:
        is_ours = any(map(holds_traced, args)) or any(map(holds_traced, options.values()))
        return ours(*args, **options) if is_ours else original(*args, **options)

    return call


def _pair(name: str) -> Callable[..., Any]:
    """The distance of two points."""
    return lambda u, v, *p, **options: _METRICS[name](anp.asarray(u), anp.asarray(v), *p, **options)


# -- rotations ------------------------------------------------------------------------------------------------------------


class _Backends:
    """The compiled functions of rotations for plain numbers, those in Python for traced values."""

    def __init__(self, compiled: Any, written: Any) -> None:
        self.compiled, self.written = compiled, written

    def __getattr__(self, name: str) -> Any:
        compiled, written = getattr(self.compiled, name, None), getattr(self.written, name)

        def call(*args: Any, **options: Any) -> Any:
            args, options = tuple(map(unwrap_fresh, args)), {key: unwrap_fresh(x) for key, x in options.items()}
            has_traced = any(map(holds_traced, args)) or any(map(holds_traced, options.values()))
            return (written if has_traced or compiled is None else compiled)(*args, **options)

        return call


def backends_by_value(names: dict[str, Any]) -> dict[str, Any]:
    """`Rotation` selects its functions by the kind of its arrays: in a copy, each call does by the values that it gets."""
    both = _Backends(names["cython_backend"], names["xp_backend"])
    return {"select_backend": lambda xp, cython_compatible: both if cython_compatible else names["xp_backend"]}


class _Transform(FixedFace):
    """`scipy.spatial.transform`, whose classes are those of copies, made on first use."""

    def __getattr__(self, name: str) -> Any:
        load, original = vars(self)["_load"], vars(self)["_original"]
        if is_part(f"{self.__name__}.{name}"):
            found = load(f"{self.__name__}.{name}")
        else:
            found = getattr(original, name)
            if isinstance(found, type) and is_part(found.__module__):
                found = getattr(load(found.__module__), name)
        vars(self)[name] = found
        return found


# -- the module -----------------------------------------------------------------------------------------------------------


def spatial_face(load: Callable[[str], Any]) -> Any:
    """`scipy.spatial`; `load` gives the copies of its parts."""
    spatial, distance = importlib.import_module("scipy.spatial"), importlib.import_module("scipy.spatial.distance")
    ours: dict[str, Callable[..., Any]] = {
        "cdist": _cdist,
        "pdist": _pdist,
        "squareform": _squareform,
        **{name: _pair(name) for name in _METRICS},
    }
    made = {cls.__name__: _Trees(cls.__name__, (), {"original": cls}) for cls in _trees()}
    distances = FixedFace(distance, {name: _on_traced(getattr(distance, name), f) for name, f in ours.items()})
    transform = _Transform(importlib.import_module("scipy.spatial.transform"), {"_load": load})
    return FixedFace(spatial, {**made, "distance": distances, "transform": transform})
