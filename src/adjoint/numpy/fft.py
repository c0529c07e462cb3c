"""numpy.fft, differentiable: every transform is linear, with an exact transpose.

`n` and `s` crop the input or pad it with zeros before the transform, as in NumPy.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..core.types import Shape, Value, canonical_axis, ndim_of, shape_of
from ..ops import broadcast as shapes
from ..ops import fft as transforms
from ..ops.index import getitem, place
from .arrange import roll
from .dropin import drop_in, in_place_of
from .table import lift, piecewise_constant
from .ufunc import deliver
from .ways import as_array

piecewise_constant(np.fft.fftfreq, np.fft.rfftfreq)


@in_place_of(np.fft.fftfreq)
def fftfreq(n: int, d: float = 1.0, device: Any = None, *, dtype: Any = None) -> Any:
    return np.fft.fftfreq(n, d, device).astype(_frequencies(dtype), copy=False)


@in_place_of(np.fft.rfftfreq)
def rfftfreq(n: int, d: float = 1.0, device: Any = None, *, dtype: Any = None) -> Any:
    return np.fft.rfftfreq(n, d, device).astype(_frequencies(dtype), copy=False)


def _frequencies(dtype: Any) -> np.dtype[Any]:
    wanted = np.dtype(float if dtype is None else dtype)
    if wanted.kind != "f":
        raise ValueError(f"frequencies are real numbers, so their dtype cannot be {wanted}")
    return wanted


def checked_norm(norm: str | None) -> str:
    if norm is None:
        return "backward"
    if norm not in transforms.INVERSE_NORM:
        raise ValueError(f'Invalid norm value {norm}; should be "backward", "ortho" or "forward".')
    return norm


def length(n: Any, default: int) -> int:
    n = default if n is None else operator.index(n)
    if n < 1:
        raise ValueError(f"Invalid number of FFT data points ({n}) specified.")
    return n


def resized(x: Value, axis: int, n: int) -> Value:
    """x with n elements along an axis: cropped, or padded with zeros."""
    shape = shape_of(x)
    if shape[axis] == n:
        return x
    spec = (slice(None),) * axis + (slice(0, min(n, shape[axis])),)
    if n < shape[axis]:
        return getitem(x, spec=spec)
    return place(x, spec=spec, shape=(*shape[:axis], n, *shape[axis + 1 :]))


# -- one axis ---------------------------------------------------------------------------------------------------


def _complex(a: Any, n: Any, axis: int, norm: str | None, out: Any, inverse: bool) -> Value:
    a = lift(a)
    axis = canonical_axis(axis, ndim_of(a))
    a = resized(a, axis, length(n, shape_of(a)[axis]))
    return deliver(transforms.fft(a, axes=(axis,), inverse=inverse, norm=checked_norm(norm)), out)


@drop_in(np.fft.fft)
def fft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None, out: Any = None) -> Value:
    return _complex(a, n, axis, norm, out, inverse=False)


@drop_in(np.fft.ifft)
def ifft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None, out: Any = None) -> Value:
    return _complex(a, n, axis, norm, out, inverse=True)


def _half(a: Any, n: Any, axis: int, norm: str) -> Value:
    """rfft."""
    a = lift(a)
    axis = canonical_axis(axis, ndim_of(a))
    return transforms.rfft(resized(a, axis, length(n, shape_of(a)[axis])), axis=axis, norm=norm)


def _whole(a: Any, n: Any, axis: int, norm: str) -> Value:
    """irfft."""
    a = lift(a)
    axis = canonical_axis(axis, ndim_of(a))
    n = length(n, (shape_of(a)[axis] - 1) * 2)
    return transforms.irfft(resized(a, axis, n // 2 + 1), n=n, axis=axis, norm=norm)


@drop_in(np.fft.rfft)
def rfft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None, out: Any = None) -> Value:
    return deliver(_half(a, n, axis, checked_norm(norm)), out)


@drop_in(np.fft.irfft)
def irfft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None, out: Any = None) -> Value:
    return deliver(_whole(a, n, axis, checked_norm(norm)), out)


@drop_in(np.fft.hfft)
def hfft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None, out: Any = None) -> Value:
    return deliver(_whole(shapes.conj(lift(a)), n, axis, transforms.INVERSE_NORM[checked_norm(norm)]), out)


@drop_in(np.fft.ihfft)
def ihfft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None, out: Any = None) -> Value:
    return deliver(shapes.conj(_half(a, n, axis, transforms.INVERSE_NORM[checked_norm(norm)])), out)


# -- several axes -----------------------------------------------------------------------------------------------


def _sizes(shape: Shape, s: Any, axes: Any) -> tuple[list[int], list[int]]:
    """The length of the transform along each axis, and the (non-negative) axes."""
    if axes is None and s is not None:
        warnings.warn(
            "`axes` should not be `None` if `s` is not `None` (Deprecated in NumPy 2.0)", DeprecationWarning, stacklevel=4
        )
    if axes is None:
        count = len(shape) if s is None else len(s)
        axes = range(len(shape) - count, len(shape))
    places = [canonical_axis(a, len(shape)) for a in axes]
    if s is None:
        s = [-1] * len(places)
    if len(s) != len(places):
        raise ValueError("Shape and axes have different lengths.")
    return [shape[a] if n is None or n == -1 else length(n, 0) for n, a in zip(s, places, strict=True)], places


def _over(a: Value, sizes: Sequence[int], axes: Sequence[int], norm: str, inverse: bool) -> Value:
    """The complex transform over several axes; an axis that is named twice is transformed twice."""
    if len(set(axes)) < len(axes):
        for n, axis in zip(reversed(sizes), reversed(axes), strict=True):
            a = transforms.fft(resized(a, axis, n), axes=(axis,), inverse=inverse, norm=norm)
        return a
    for n, axis in zip(sizes, axes, strict=True):
        a = resized(a, axis, n)
    return transforms.fft(a, axes=tuple(axes), inverse=inverse, norm=norm) if axes else a


@drop_in(np.fft.fftn)
def fftn(a: Any, s: Any = None, axes: Any = None, norm: str | None = None, out: Any = None) -> Value:
    a = as_array(lift(a))
    return deliver(_over(a, *_sizes(shape_of(a), s, axes), checked_norm(norm), inverse=False), out)


@drop_in(np.fft.ifftn)
def ifftn(a: Any, s: Any = None, axes: Any = None, norm: str | None = None, out: Any = None) -> Value:
    a = as_array(lift(a))
    return deliver(_over(a, *_sizes(shape_of(a), s, axes), checked_norm(norm), inverse=True), out)


@drop_in(np.fft.fft2)
def fft2(a: Any, s: Any = None, axes: Any = (-2, -1), norm: str | None = None, out: Any = None) -> Value:
    return fftn(a, s, axes, norm, out)


@drop_in(np.fft.ifft2)
def ifft2(a: Any, s: Any = None, axes: Any = (-2, -1), norm: str | None = None, out: Any = None) -> Value:
    return ifftn(a, s, axes, norm, out)


@drop_in(np.fft.rfftn)
def rfftn(a: Any, s: Any = None, axes: Any = None, norm: str | None = None, out: Any = None) -> Value:
    a = lift(a)
    sizes, places = _sizes(shape_of(a), s, axes)
    y = _half(a, sizes[-1], places[-1], checked_norm(norm))
    return deliver(_over(y, sizes[:-1], places[:-1], checked_norm(norm), inverse=False), out)


@drop_in(np.fft.irfftn)
def irfftn(a: Any, s: Any = None, axes: Any = None, norm: str | None = None, out: Any = None) -> Value:
    a = lift(a)
    sizes, places = _sizes(shape_of(a), s, axes)
    if s is None:
        sizes[-1] = (shape_of(a)[places[-1]] - 1) * 2
    y = _over(a, sizes[:-1], places[:-1], checked_norm(norm), inverse=True)
    return deliver(_whole(y, sizes[-1], places[-1], checked_norm(norm)), out)


@drop_in(np.fft.rfft2)
def rfft2(a: Any, s: Any = None, axes: Any = (-2, -1), norm: str | None = None, out: Any = None) -> Value:
    return rfftn(a, s, axes, norm, out)


@drop_in(np.fft.irfft2)
def irfft2(a: Any, s: Any = None, axes: Any = (-2, -1), norm: str | None = None, out: Any = None) -> Value:
    return irfftn(a, s, axes, norm, out)


# -- shifts -----------------------------------------------------------------------------------------------------


def _shifted(x: Any, axes: Any, direction: int) -> Value:
    """Roll by half of each axis: n // 2 one way undoes n // 2 the other."""
    x = lift(x)
    shape = shape_of(x)
    if axes is None:
        axes = range(len(shape))
    places = tuple(canonical_axis(a, len(shape)) for a in (axes if isinstance(axes, Iterable) else (axes,)))  # some may repeat
    return roll(x, tuple(direction * (shape[a] // 2) for a in places), places)


@drop_in(np.fft.fftshift)
def fftshift(x: Any, axes: Any = None) -> Value:
    return _shifted(x, axes, 1)


@drop_in(np.fft.ifftshift)
def ifftshift(x: Any, axes: Any = None) -> Value:
    return _shifted(x, axes, -1)


def __getattr__(name: str) -> Any:
    return getattr(np.fft, name)


def __dir__() -> list[str]:
    return dir(np.fft)
