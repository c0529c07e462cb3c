"""Complex arrays as real ones with an axis of length two behind the others, the real and the imaginary part; the same memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.op import case
from ..core.types import Value, shape_of
from .broadcast import broadcast_to, cast, conj
from .declare import linear
from .shape import stack


def _as_complex(x: Any) -> Any:
    dtype = np.result_type(x.dtype, np.complex64)
    return x.astype(np.zeros(0, dtype).real.dtype, order="C").view(dtype)[..., 0][()]


# In the convention of ∂f/∂re − i ∂f/∂im, the cotangent of an imaginary part is turned round.
as_real = linear(
    "as_real",
    lambda z: np.stack([np.real(z), np.imag(z)], axis=-1),
    transpose=lambda g, z: cast(conj(as_complex(g)), dtype=z.dtype),
    axes=(),
    cases=[case((3,)), case((2, 3)), case(())],
    complex_domain=True,
    doc="The real and the imaginary part of a complex array, along a new last axis.",
    no_axes="array",
    cost=1,
    python="np.stack([np.real({0}), np.imag({0})], axis=-1)",
)
as_complex = linear(
    "as_complex",
    _as_complex,
    transpose=lambda g, x: as_real(conj(g)),
    axes=(),
    cases=[case((3, 2)), case((2,)), case((3, 1, 2))],
    doc="The complex array whose real and imaginary parts are along the last axis.",
    cost=1,
    python="def",
)


def from_parts(re: Value, im: Value) -> Value:
    """re + i·im with the parts as they are: an infinite imaginary part does not touch the real one, as in 1j * im; −0 stays."""
    shape = np.broadcast_shapes(shape_of(re), shape_of(im))
    return as_complex(stack(broadcast_to(re, shape=shape), broadcast_to(im, shape=shape), axis=len(shape)))
