"""Broadcasting and its transpose, summation, which all other rules use.

`fit` brings a cotangent to the type of its argument; `fit_tangent` brings a tangent to the type of the result. Both are the
identity when the types already agree, which is nearly always.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core.bind import Traced
from ..core.op import case
from ..core.types import Shape, Type, Value, canonical_axis, dtype_of, ndim_of, shape_of
from .declare import linear, shift

_Dtype = np.dtype[Any]


def expand_dims(x: Value, axes: Shape) -> Value:
    """Insert axes of length one at the (non-negative) positions `axes` of the result."""
    shape = list(shape_of(x))
    for a in sorted(axes):
        shape.insert(a, 1)
    return reshape(x, shape=tuple(shape))


def moveaxis(x: Value, source: int, destination: int) -> Value:
    ndim = ndim_of(x)
    source, destination = canonical_axis(source, ndim), canonical_axis(destination, ndim)
    if source == destination:
        return x
    order = [a for a in range(ndim) if a != source]
    order.insert(destination, source)
    return transpose(x, axes=tuple(order))


def spread(g: Value, shape: Shape, axis: Shape, keepdims: bool) -> Value:
    """Undo a reduction over `axis`: repeat `g` along the axes that were reduced."""
    if not isinstance(g, Traced) and math.prod(shape) <= 4096:  # a small copy is faster than a view
        full = np.empty(shape, dtype_of(g))
        full[...] = g if keepdims or not ndim_of(g) else expand_dims(g, axis)
        return full
    return broadcast_to(g if keepdims else expand_dims(g, axis), shape=shape)


reshape = linear(
    "reshape",
    lambda x, *, shape: x.reshape(shape) if isinstance(x, np.ndarray) else np.reshape(x, shape),
    transpose=lambda g, x, *, shape: reshape(g, shape=x.shape),
    batch=lambda flags, x, *, shape: reshape(x, shape=shape_of(x)[:1] + shape),
    cases=[case((2, 3), shape=(3, 2)), case((6,), shape=(1, 2, 3)), case((2, 0), shape=(0, 5)), case((), shape=(1, 1))],
    no_axes="same",
    cost=1,
    python="np.reshape({0}, {shape})",
    terms="moved",
)

transpose = linear(
    "transpose",
    lambda x, *, axes: np.transpose(x, axes),
    transpose=lambda g, x, *, axes: transpose(g, axes=tuple(sorted(range(len(axes)), key=axes.__getitem__))),
    batch=lambda flags, x, *, axes: transpose(x, axes=(0, *shift(axes))),
    cases=[case((2, 3), axes=(1, 0)), case((2, 3, 4), axes=(2, 0, 1)), case((), axes=())],
    no_axes="same",
    cost=1,
    python="np.transpose({0}, {axes})",
    terms="moved",
)


broadcast_to = linear(
    "broadcast_to",
    lambda x, *, shape: np.broadcast_to(x, shape),
    transpose=lambda g, x, *, shape: sum_to(g, x.shape),
    batch=lambda flags, x, *, shape: broadcast_to(align(x, len(shape)), shape=shape_of(x)[:1] + shape),
    cases=[case((3,), shape=(2, 3)), case((2, 1), shape=(4, 2, 3)), case((), shape=(2,)), case((1, 0), shape=(3, 0))],
    no_axes="array",
    cost=1,
    python="np.broadcast_to({0}, {shape})",
    terms="moved",
)

sum_ = linear(
    "sum",
    lambda x, *, axis, keepdims: np.add.reduce(x, axis=axis, keepdims=keepdims),
    transpose=lambda g, x, *, axis, keepdims: spread(g, x.shape, axis, keepdims),
    axes="axis",
    cases=[
        case((2, 3), axis=(0,), keepdims=False),
        case((2, 3, 2), axis=(0, 2), keepdims=True),
        case((3,), axis=(0,), keepdims=False),
        case((2, 3), axis=(), keepdims=False),
        case((0, 3), axis=(0,), keepdims=False),
    ],
    python="np.sum",
    terms="added",
)


def _cast(x: Any, *, dtype: _Dtype) -> Any:
    if dtype.kind != "c" and dtype_of(x).kind == "c":
        x = np.real(x)
    return np.asarray(x).astype(dtype)[()] if not isinstance(x, np.ndarray) else x.astype(dtype)


cast = linear(
    "cast",
    _cast,
    transpose=lambda g, x, *, dtype: cast(g, dtype=x.dtype),
    axes=(),
    cases=[case((3,), dtype=np.dtype("float64")), case((2, 2), dtype=np.dtype("complex128"))],
    doc="Convert between inexact dtypes; from complex to real the real part is taken.",
    no_axes="same",
    cost=1,
)

# In the convention of ∂f/∂re − i ∂f/∂im, the cotangent of z is g for Re z and −i g for Im z.
real = linear(
    "real",
    np.real,
    transpose=lambda g, x: cast(g, dtype=x.dtype),
    axes=(),
    cases=[case((3,))],
    no_axes="same",
    cost=1,
)
imag = linear(
    "imag",
    np.imag,
    transpose=lambda g, x: cast(g * (-1j if x.dtype.kind == "c" else 0.0), dtype=x.dtype),
    axes=(),
    cases=[case((3,))],
    no_axes="same",
    cost=1,
)
conj = linear("conj", np.conjugate, transpose=lambda g, x: conj(g), axes=(), cases=[case((3,))], cost=1)

where = linear(
    "where",
    lambda c, a, b: np.asarray(np.where(c, a, b))[()],
    transpose=(
        None,
        lambda g, c, a, b: fit(where(c, g, 0.0), a),
        lambda g, c, a, b: fit(where(c, 0.0, g), b),
    ),
    axes=(),
    cases=[
        case(np.array([True, False, True]), (3,), (3,)),
        case(np.array([[True], [False]]), (3,), ()),
        case(np.array(True), (2, 3), (1, 3)),
    ],
    doc="Choose elements by a condition. An unchosen element gets an exactly zero cotangent.",
    cost=1,
    latex=r"\begin{cases} #2 & \text{if } #1 \\ #3 & \text{otherwise} \end{cases}",
    scalar="select",
    python="np.where({0}, {1}, {2})[()]",
    terms="moved",
)


def sum_to(g: Value, shape: Shape) -> Value:
    """The transpose of broadcasting: sum `g` down to `shape`."""
    full = shape_of(g)
    extra = len(full) - len(shape)
    axes = tuple(range(extra)) + tuple(i + extra for i, n in enumerate(shape) if n == 1 and full[i + extra] != 1)
    if axes:
        g = sum_(g, axis=axes, keepdims=False)
    return g if shape_of(g) == shape else reshape(g, shape=shape)


def fit(g: Value, x: Type) -> Value:
    """Bring a cotangent to the type of its argument: sum over broadcast axes, match the dtype."""
    if shape_of(g) != x.shape:
        # An argument may also be larger than its cotangent (a constant partial): broadcast it first.
        full = np.broadcast_shapes(shape_of(g), x.shape)
        g = sum_to(g if full == shape_of(g) else broadcast_to(g, shape=full), x.shape)
    if dtype_of(g) != x.dtype:
        g = cast(g, dtype=x.dtype)
    return g


def fit_tangent(t: Value, y: Value) -> Value:
    """Bring a tangent to the type of the result: spread over broadcast axes, match the dtype."""
    shape, dtype = shape_of(y), dtype_of(y)
    if shape_of(t) != shape:
        t = broadcast_to(t, shape=shape)
    if dtype_of(t) != dtype:
        t = cast(t, dtype=dtype)
    return t


def align(x: Value, ndim: int) -> Value:
    """Pad the rank of a batched value after its batch axis, so that trailing axes broadcast as without it."""
    missing = ndim + 1 - ndim_of(x)
    if missing <= 0:
        return x
    shape = shape_of(x)
    return reshape(x, shape=shape[:1] + (1,) * missing + shape[1:])


def align_all(flags: tuple[bool, ...], args: tuple[Value, ...]) -> list[Value]:
    """Arguments of one rank: batched ones keep their batch axis in front, the others broadcast against it."""
    ndim = max(ndim_of(x) - flag for x, flag in zip(args, flags, strict=True))
    return [align(x, ndim) if flag else x for x, flag in zip(args, flags, strict=True)]


def zeros_of(type_: Type) -> Value:
    return np.zeros(type_.shape, type_.dtype)[()]
