"""Discrete Fourier transforms, as linear maps of arrays that already have the length of the transform.

The matrix of a complex transform is symmetric, so it is its own transpose. A real transform and its inverse use half of a
spectrum: the transpose of one is the other, with weights for the missing half.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.op import case
from ..core.types import Shape, Value
from .broadcast import conj
from .declare import linear

Norm = Any  # "backward", "ortho" or "forward"
INVERSE_NORM = {"backward": "forward", "ortho": "ortho", "forward": "backward"}


def _fft(x: Any, *, axes: Shape, inverse: bool, norm: Norm) -> Any:
    if len(axes) == 1:
        return (np.fft.ifft if inverse else np.fft.fft)(x, axis=axes[0], norm=norm)
    return (np.fft.ifftn if inverse else np.fft.fftn)(x, axes=axes, norm=norm)


fft = linear(
    "fft",
    _fft,
    transpose=lambda g, x, *, axes, inverse, norm: fft(g, axes=axes, inverse=inverse, norm=norm),
    axes="axes",
    cases=[
        case((4,), axes=(0,), inverse=False, norm="backward"),
        case((2, 3), axes=(1,), inverse=True, norm="backward"),
        case((3, 2, 4), axes=(0, 2), inverse=False, norm="ortho"),
        case((2, 3), axes=(1, 0), inverse=True, norm="forward"),
        case((2, 3), axes=(), inverse=False, norm="backward"),
    ],
    doc="The complex transform over some axes, or its inverse.",
)
fft.complex_domain = True


def _weights(n: int, axis: int, ndim: int, inner: float, like: Any) -> Any:
    """1 for the frequencies that occur once in the full spectrum (0 and n/2), `inner` for those that occur twice."""
    w = np.full(n // 2 + 1, inner, np.empty((), like).real.dtype)
    w[0] = 1
    if n % 2 == 0:
        w[-1] = 1
    return w.reshape((-1,) + (1,) * (ndim - 1 - axis))


def _rfft_transpose(g: Value, x: Any, *, axis: int, norm: Norm) -> Value:
    n = x.shape[axis]
    return irfft(conj(g) * _weights(n, axis, x.ndim, 0.5, g.dtype), n=n, axis=axis, norm=INVERSE_NORM[norm])


def _irfft_transpose(g: Value, x: Any, *, n: int, axis: int, norm: Norm) -> Value:
    return conj(rfft(g, axis=axis, norm=INVERSE_NORM[norm])) * _weights(n, axis, x.ndim, 2.0, g.dtype)


rfft = linear(
    "rfft",
    lambda x, *, axis, norm: np.fft.rfft(x, axis=axis, norm=norm),
    transpose=_rfft_transpose,
    axes="axis",
    cases=[
        case((4,), axis=0, norm="backward"),
        case((5,), axis=0, norm="ortho"),
        case((3, 2), axis=0, norm="forward"),
        case((2, 1), axis=1, norm="backward"),
    ],
    doc="The non-negative frequencies of the transform of a real array.",
    python="np.fft.rfft",
)

irfft = linear(
    "irfft",
    lambda x, *, n, axis, norm: np.fft.irfft(x, n=n, axis=axis, norm=norm),
    transpose=_irfft_transpose,
    axes="axis",
    cases=[
        case((3,), n=4, axis=0, norm="backward"),
        case((3,), n=5, axis=0, norm="ortho"),
        case((3, 2), n=4, axis=0, norm="forward"),
        case((2, 1), n=1, axis=1, norm="backward"),
    ],
    doc="The real array of n elements whose transform has the given n//2 + 1 non-negative frequencies.",
    python="np.fft.irfft",
)
irfft.complex_domain = True
