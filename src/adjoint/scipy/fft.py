"""scipy.fft, differentiable: of traced values the Fourier transforms are NumPy's; cosine and sine transforms are ops.

from adjoint.scipy import fft
ad.grad(lambda x: np.sum(np.abs(fft.rfft(x)) ** 2))(np.ones(8))
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import scipy.fft as _scipy

from .. import numpy as anp
from ..core.errors import UnsupportedError
from ..core.op import Linear
from ..core.types import Shape, canonical_axis, dtype_of, ndim_of, shape_of
from ..numpy.fft import checked_norm, length, resized
from ..ops.fft import INVERSE_NORM, TRANSPOSED_TYPE, dct, dst
from .guard import guarded
from .numbers import is_traced, plain

_NAMES = ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft", "fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn", "rfftn", "irfftn"]
_PLAIN = ("overwrite_x", "workers", "plan")  # how SciPy computes: without effect on the result


def _either(name: str) -> Callable[..., Any]:
    original, ours = getattr(_scipy, name), getattr(anp.fft, name)

    @functools.wraps(original)
    def call(x: Any, *args: Any, **options: Any) -> Any:
        x = plain(x)
        if not is_traced(x):
            return original(x, *args, **options)
        if len(args) > 3:
            raise UnsupportedError(f"scipy.fft.{name} of traced values takes overwrite_x and what follows it by name")
        return ours(x, *args, **{key: given for key, given in options.items() if key not in _PLAIN})

    return call


for _name in _NAMES:
    globals()[_name] = _either(_name)


# -- cosine and sine transforms ---------------------------------------------------------------------------------


def _real_transform(op: Linear, inverse: bool) -> Callable[..., Any]:
    """dct, dst and their inverses: of type 2 the inverse is that of type 3, with the norm of the other direction."""
    original = getattr(_scipy, f"{'i' * inverse}{op.name}")

    @functools.wraps(original)
    def call(
        x: Any,
        type: int = 2,
        n: int | None = None,
        axis: int = -1,
        norm: str | None = None,
        overwrite_x: bool = False,
        workers: int | None = None,
        orthogonalize: bool | None = None,
    ) -> Any:
        x = plain(x)
        if not is_traced(x):
            return original(x, type, n, axis, norm, overwrite_x, workers, orthogonalize)
        place = canonical_axis(axis, ndim_of(x))
        sizes = [length(n, shape_of(x)[place])]
        return _transformed(op, x, type, sizes, [place], norm, orthogonalize, inverse)

    return call


def _several(op: Linear, inverse: bool) -> Callable[..., Any]:
    """dctn, dstn and their inverses."""
    original = getattr(_scipy, f"{'i' * inverse}{op.name}n")

    @functools.wraps(original)
    def call(
        x: Any,
        type: int = 2,
        s: Any = None,
        axes: Any = None,
        norm: str | None = None,
        overwrite_x: bool = False,
        workers: int | None = None,
        *,
        orthogonalize: bool | None = None,
    ) -> Any:
        x = plain(x)
        if not is_traced(x):
            return original(x, type, s, axes, norm, overwrite_x, workers, orthogonalize=orthogonalize)
        sizes, places = _sizes(shape_of(x), s, axes)
        return _transformed(op, x, type, sizes, places, norm, orthogonalize, inverse) if places else x

    return call


def _sizes(shape: Shape, s: Any, axes: Any) -> tuple[list[int], list[int]]:
    """The length of the transform along each axis, and the (non-negative) axes."""
    s = None if s is None else list(s) if isinstance(s, Iterable) else [s]
    if axes is None:
        count = len(shape) if s is None else len(s)
        if count > len(shape):
            raise ValueError("shape requires more axes than are present")
        axes = range(len(shape) - count, len(shape))
    places = [canonical_axis(a, len(shape)) for a in (axes if isinstance(axes, Iterable) else [axes])]
    if len(set(places)) < len(places):
        raise ValueError("all axes must be unique")
    if s is not None and len(s) != len(places):
        raise ValueError("when given, axes and shape arguments have to be of the same length")
    given = [None] * len(places) if s is None else [None if n == -1 else n for n in s]
    return [length(n, shape[a]) for n, a in zip(given, places, strict=True)], places


def _transformed(
    op: Linear, x: Any, type: int, sizes: list[int], axes: list[int], norm: str | None, orthogonalize: bool | None, inverse: bool
) -> Any:
    if type not in TRANSPOSED_TYPE:
        raise ValueError(f"the types of scipy.fft.{op.name} are 1, 2, 3 and 4, not {type!r}")
    norm = checked_norm(norm)
    if orthogonalize is None or dtype_of(x).kind == "c":  # as SciPy does
        orthogonalize = norm == "ortho"
    if inverse:
        type, norm = TRANSPOSED_TYPE[type], INVERSE_NORM[norm]
    if dtype_of(x).kind not in "fc" or dtype_of(x) == np.float16:
        x = anp.astype(x, np.float32 if dtype_of(x) == np.float16 else np.float64)
    for n, axis in zip(sizes, axes, strict=True):
        x = resized(x, axis, n)
    least = 2 if op is dct and type == 1 else 1
    if any(n < least for n in sizes):
        raise ValueError(f"scipy.fft.{op.name} of type {type} needs at least {least} elements along each axis")
    return op(x, type=type, axes=tuple(axes), norm=norm, orthogonalize=bool(orthogonalize))


for _op in (dct, dst):
    for _inverse in (False, True):
        _named = f"{'i' * _inverse}{_op.name}"
        globals()[_named], globals()[f"{_named}n"] = _real_transform(_op, _inverse), _several(_op, _inverse)

_REASON = "there is no rule for it; write it with rfft and irfft"
_REFUSED = frozenset(["fht", "ifht"])


def __getattr__(name: str) -> Any:
    found = getattr(_scipy, name)
    return guarded(found, f"scipy.fft.{name}", _REASON) if name in _REFUSED else found


def __dir__() -> list[str]:
    return dir(_scipy)
