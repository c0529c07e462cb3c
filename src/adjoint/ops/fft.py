"""Discrete Fourier, cosine and sine transforms, as linear maps of arrays that already have the length of the transform.

The matrix of a complex transform is symmetric, so it is its own transpose. A real transform and its inverse use half of a
spectrum: the transpose of one is the other, with weights for the missing half.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.op import Linear, case
from ..core.types import Shape, Value, dtype_of, shape_of
from .broadcast import conj
from .declare import linear
from .lazy import Lazy

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


# -- cosine and sine transforms ---------------------------------------------------------------------------------
# Types 2 and 3 are transposes of one another, 1 and 4 symmetric, once the elements that the formulas count half are multiplied by
# √2 before or after (`orthogonalize`). With C for that matrix and D for the diagonal of these weights:
#
#     type       1 (cosine)      2        3        4
#     matrix     D C D⁻¹         D C      C D⁻¹    C
#
# The cosines have weights at the first element, and with type 1 at the last; the sines at the last, and with type 1 none.

TRANSPOSED_TYPE = {1: 1, 2: 3, 3: 2, 4: 4}


def _real_transform(name: str, ends: dict[int, tuple[int, ...]]) -> Linear:
    """The op of scipy.fft.dct or dst. `ends` are the places of the weights, by type."""
    one, several = Lazy("scipy.fft", name), Lazy("scipy.fft", f"{name}n")

    def transform(x: Any, *, type: int, axes: Shape, norm: Norm, orthogonalize: bool) -> Any:
        if x.dtype.kind == "c":  # SciPy would not orthogonalize
            re, im = (transform(part, type=type, axes=axes, norm=norm, orthogonalize=orthogonalize) for part in (x.real, x.imag))
            return re + 1j * im
        if len(axes) == 1:
            return one(x, type, axis=axes[0], norm=norm, orthogonalize=orthogonalize)
        return several(x, type, axes=axes, norm=norm, orthogonalize=orthogonalize)

    def weighted(g: Value, type: int, axes: Shape, weight: float) -> Value:
        shape, dtype = shape_of(g), dtype_of(g)
        for axis in axes:
            w = np.ones(shape[axis], dtype)
            w[list(ends[type])] = weight
            g = g * w.reshape((-1,) + (1,) * (len(shape) - 1 - axis))
        return g

    def transpose(g: Value, x: Any, *, type: int, axes: Shape, norm: Norm, orthogonalize: bool) -> Value:
        before = not orthogonalize and type in (1, 2)  # in the transpose: D comes first, D⁻¹ last
        after = not orthogonalize and type in (1, 3)
        g = weighted(g, type, axes, np.sqrt(2)) if before else g
        g = op(g, type=TRANSPOSED_TYPE[type], axes=axes, norm=norm, orthogonalize=True)
        return weighted(g, type, axes, np.sqrt(0.5)) if after else g

    samples = [((4,), (0,)), ((2, 3), (1,)), ((3, 2, 4), (0, 2)), ((3, 2), (1, 0))]
    op = linear(
        name,
        transform,
        transpose=transpose,
        axes="axes",
        cases=[
            case(shape, type=type, axes=axes, norm=norm, orthogonalize=orthogonalize)
            for type in TRANSPOSED_TYPE
            for (shape, axes), norm in zip(samples, ("backward", "ortho", "forward", "backward"), strict=True)
            for orthogonalize in (False, True)
        ],
        doc=f"scipy.fft.{name}n over some axes.",
    )
    op.complex_domain = True
    return op


dct = _real_transform("dct", {1: (0, -1), 2: (0,), 3: (0,), 4: ()})
dst = _real_transform("dst", {1: (), 2: (-1,), 3: (-1,), 4: ()})
