"""scipy.ndimage, differentiable: filters by correlation, extrema and ranks, and interpolation of orders 0 and 1.

    from adjoint.scipy import ndimage
    ad.grad(lambda x: ndimage.gaussian_filter(x, 1.5).max())(image)

SciPy's code in Python runs as an adopted copy. It calls compiled kernels that write to an array; here they are in NumPy functions
on traced values.
"""

from __future__ import annotations

import builtins  # scipy.ndimage has a function `sum`, which this module has once it is asked for
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.ndimage as _scipy

from .. import numpy as anp
from ..adopt.face import FixedFace
from ..core.errors import UnsupportedError
from ..ops.convolve import convolve as _convolve
from .copied import of_module

NEAREST, WRAP, REFLECT, MIRROR, CONSTANT, GRID_WRAP, GRID_CONSTANT = range(7)  # as `_ni_support._extend_mode_to_code` has them


def _inside(i: Any, n: int, mode: int) -> Any:
    """The places inside an axis of n elements that stand for places beyond its ends, which may be traced."""
    if mode == NEAREST:
        return anp.clip(i, 0, n - 1)
    if mode in (WRAP, GRID_WRAP):
        return i % n
    period = 2 * n if mode == REFLECT else max(2 * n - 2, 1)
    i = i % period
    return anp.where(i < n, i, period - (1 if mode == REFLECT else 0) - i)


def _extended(x: Any, axis: int, before: int, after: int, mode: int, cval: float) -> Any:
    """An array with more elements at both ends of an axis."""
    n = x.shape[axis]
    if mode in (CONSTANT, GRID_CONSTANT):
        wide = [(0, 0)] * x.ndim
        wide[axis] = (before, after)
        return anp.pad(x, wide, constant_values=cval)
    return anp.take(x, _inside(np.arange(-before, n + after), n, mode), axis=axis)


# -- kernels of filters ---------------------------------------------------------------------------------------------------


def _correlate1d(x: Any, weights: Any, axis: int, output: Any, mode: int, cval: float, origin: int) -> None:
    size = len(weights)
    before = size // 2 + origin
    wide = anp.moveaxis(_extended(x, axis, before, size - 1 - before, mode, cval), axis, -1)
    output[...] = anp.moveaxis(_convolve(wide, anp.asarray(weights)[::-1], mode="valid"), -1, axis)


def _uniform_filter1d(x: Any, size: int, axis: int, output: Any, mode: int, cval: float, origin: int) -> None:
    _correlate1d(x, np.full(size, 1 / size), axis, output, mode, cval, origin)


def _shifted(x: Any, shape: Sequence[int], mode: int, cval: float, origins: Sequence[int]) -> Any:
    """For each place of a filter of this shape, the elements of x that it meets."""
    wide = x
    for axis, (size, origin) in enumerate(zip(shape, origins, strict=True)):
        before = size // 2 + origin
        wide = _extended(wide, axis, before, size - 1 - before, mode, cval)
    for place in np.ndindex(*shape):
        yield place, wide[tuple(slice(k, k + n) for k, n in zip(place, x.shape, strict=True))]


def _correlate(x: Any, weights: Any, output: Any, mode: int, cval: float, origins: Sequence[int]) -> None:
    output[...] = builtins.sum(weights[place] * part for place, part in _shifted(x, weights.shape, mode, cval, origins))


def _min_or_max_filter1d(
    x: Any, size: int, axis: int, output: Any, mode: int, cval: float, origin: int, is_minimum: bool
) -> None:
    shape = [size if k == axis else 1 for k in range(x.ndim)]
    origins = [origin if k == axis else 0 for k in range(x.ndim)]
    _min_or_max_filter(x, np.ones(shape, bool), None, output, mode, cval, origins, is_minimum)


def _min_or_max_filter(
    x: Any, footprint: Any, structure: Any, output: Any, mode: int, cval: float, origins: Sequence[int], is_minimum: bool
) -> None:
    parts = []
    for place, part in _shifted(x, footprint.shape, mode, cval, origins):
        if footprint[place]:
            sign = -1 if is_minimum else 1
            parts.append(part if structure is None else part + sign * structure[place])
    output[...] = (anp.min if is_minimum else anp.max)(anp.stack(parts), axis=0)


def _rank_filter(x: Any, rank: int, footprint: Any, output: Any, mode: int, cval: float, origins: Sequence[int]) -> None:
    parts = [part for place, part in _shifted(x, footprint.shape, mode, cval, origins) if footprint[place]]
    output[...] = anp.sort(anp.stack(parts), axis=0)[rank]


def _rank_filter_of_a_line(x: Any, rank: int, size: int, output: Any, mode: int, cval: float, origin: int) -> None:
    _rank_filter(x, rank, np.ones(size, bool), output, mode, cval, [origin])


# -- kernels of interpolation ---------------------------------------------------------------------------------------------


def _check_order(order: int) -> None:
    if order > 1:
        raise UnsupportedError(f"splines of order {order} in scipy.ndimage have no rule for traced values; use order=1")


def _spline_filter1d(x: Any, order: int, axis: int, output: Any, mode: int) -> None:
    _check_order(order)


def _mapped(c: Any, n: int, mode: int) -> Any:
    """Coordinates along an axis as SciPy brings them to it; those that stay outside read `cval`."""
    if mode in (CONSTANT, GRID_CONSTANT):
        return c
    if mode == NEAREST:
        return anp.clip(c, 0, n - 1)
    if n == 1:
        return 0 * c
    if mode == GRID_WRAP:
        return anp.where((c < 0) | (c > n - 1), c - n * anp.floor((c + 0.5) / n), c)
    if mode == WRAP:
        return anp.where((c < 0) | (c > n - 1), c - (n - 1) * anp.floor(c / (n - 1)), c)
    low, period = (-0.5, 2 * n) if mode == REFLECT else (0.0, 2 * n - 2)
    t = (c - low) - period * anp.floor((c - low) / period)
    folded = low + anp.where(t > period / 2, period - t, t)
    return anp.where((c < 0) | (c > n - 1), folded, c)


def _interpolated(x: Any, coordinates: Sequence[Any], order: int, mode: int, cval: float) -> Any:
    _check_order(order)
    mapped = [_mapped(c, n, mode) for c, n in zip(coordinates, x.shape, strict=True)]
    outside: Any = False
    if mode == CONSTANT:
        for c, n in zip(mapped, x.shape, strict=True):
            outside = outside | (c < 0) | (c > n - 1)
    axes = []
    for c in mapped:
        first = anp.floor(c if order else c + 0.5)
        weights = (1 - (c - first), c - first) if order else (1.0,)
        axes.append([(first.astype(int) + k, w) for k, w in enumerate(weights)])
    total: Any = 0.0
    for corner in itertools.product(*axes):
        places, weight, is_beyond = [], 1.0, False
        for (i, w), n in zip(corner, x.shape, strict=True):
            is_beyond = is_beyond | (i < 0) | (i > n - 1) if mode == GRID_CONSTANT else is_beyond
            fold = NEAREST if mode in (CONSTANT, GRID_CONSTANT) else mode
            places.append(_inside(i, n, fold))
            weight = weight * w
        value = x[tuple(places)]
        total = total + weight * (anp.where(is_beyond, cval, value) if mode == GRID_CONSTANT else value)
    return total if mode != CONSTANT else anp.where(outside, cval, total)


def _geometric_transform(
    x: Any, mapping: Any, coordinates: Any, matrix: Any, offset: Any, output: Any, order: int, mode: int, cval: float, npad: int,
    *extra: Any,
) -> None:  # fmt: skip
    """SciPy's C function of this name: `output` at each place is x at the coordinates that the mapping, array or matrix gives."""
    if mapping is not None:
        places = [mapping(place, *extra[0], **extra[1]) for place in np.ndindex(*output.shape)]
        coordinates = anp.moveaxis(anp.asarray(places), -1, 0).reshape(x.ndim, *output.shape)
    elif coordinates is None:
        grid = np.indices(output.shape)
        coordinates = anp.tensordot(matrix, grid, axes=1) + anp.reshape(offset, (-1, *(1,) * (grid.ndim - 1)))
    output[...] = _interpolated(x, list(coordinates), order, mode, cval)


def _zoom_shift(
    x: Any, zoom: Any, shift: Any, output: Any, order: int, mode: int, cval: float, npad: int, grid_mode: bool
) -> None:
    coordinates = []
    for axis, i in enumerate(np.indices(output.shape, sparse=False)):
        c: Any = i + (0.0 if shift is None else shift[axis])
        if zoom is not None:
            c = (c + 0.5) * zoom[axis] - 0.5 if grid_mode else c * zoom[axis]
        coordinates.append(c)
    output[...] = _interpolated(x, coordinates, order, mode, cval)


_nd_image = FixedFace(
    _scipy._nd_image,
    {
        "correlate1d": _correlate1d,
        "correlate": _correlate,
        "uniform_filter1d": _uniform_filter1d,
        "min_or_max_filter1d": _min_or_max_filter1d,
        "min_or_max_filter": _min_or_max_filter,
        "rank_filter": _rank_filter,
        "spline_filter1d": _spline_filter1d,
        "geometric_transform": _geometric_transform,
        "zoom_shift": _zoom_shift,
    },
)
_rank_filter_1d = FixedFace(_scipy._rank_filter_1d, {"rank_filter": _rank_filter_of_a_line})


def __getattr__(name: str) -> Any:
    globals()[name] = found = of_module(_scipy, name)
    return found


def __dir__() -> list[str]:
    return dir(_scipy)
