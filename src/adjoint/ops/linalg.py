"""Matrix products: matmul and einsum, linear in each factor."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core.errors import ShapeError
from ..core.op import case
from ..core.types import Type, Value, ndim_of, shape_of
from .broadcast import align, broadcast_to, expand_dims, reshape, transpose
from .declare import multilinear


def swap(x: Value) -> Value:
    """Transpose the last two axes."""
    n = ndim_of(x)
    return transpose(x, axes=(*range(n - 2), n - 1, n - 2))


def column(x: Value) -> Value:
    """A vector (or a stack of them) as a matrix of one column."""
    return expand_dims(x, (ndim_of(x),))


def row(x: Value) -> Value:
    return expand_dims(x, (ndim_of(x) - 1,))


def _contract(a: Value, b: Value) -> Value:
    """aᵀb summed over all leading axes, as one matrix product."""
    rows = math.prod(shape_of(a)[:-1])
    return matmul(swap(reshape(a, shape=(rows, shape_of(a)[-1]))), reshape(b, shape=(rows, shape_of(b)[-1])))


def _matmul_left(g: Value, a: Type, b: Value) -> Value:
    """The cotangent of a in a @ b. A vector on the left is a row, on the right a column, which the result lacks."""
    if a.ndim == b.ndim == 1:
        return g * b
    if b.ndim == 1:
        return column(g) * b
    if a.ndim == 1:
        return matmul(b, g) if b.ndim == 2 else reshape(matmul(b, column(g)), shape=shape_of(b)[:-1])
    if a.ndim == 2 < b.ndim:
        return _contract(swap(g), swap(b))
    return matmul(g, swap(b))


def _matmul_right(g: Value, a: Value, b: Type) -> Value:
    """The cotangent of b in a @ b."""
    if a.ndim == b.ndim == 1:
        return a * g
    if b.ndim == 1:
        return matmul(g, a) if a.ndim == 2 else reshape(_contract(column(g), a), shape=b.shape)
    if a.ndim == 1:
        return column(a) * row(g)
    if b.ndim == 2 < a.ndim:
        return _contract(a, g)
    return matmul(swap(a), g)


def _matmul_batch(flags: tuple[bool, ...], a: Value, b: Value) -> Value:
    na, nb = ndim_of(a) - flags[0], ndim_of(b) - flags[1]
    if not na or not nb:
        raise ShapeError("matmul of a scalar: an example has no axis to multiply along; use * instead")
    if flags == (True, False) and na == 1 and nb <= 2:
        return matmul(a, b)  # a stack of rows is a matrix
    if flags == (False, True) and nb == 1 and na <= 2:
        return matmul(b, swap(a) if na == 2 else a)
    ndim = max(na, nb, 2)
    a, b = (row(a) if na == 1 else a), (column(b) if nb == 1 else b)
    y = matmul(align(a, ndim) if flags[0] else a, align(b, ndim) if flags[1] else b)
    if na > 1 and nb > 1:
        return y
    shape = shape_of(y)
    if nb == 1:
        shape = shape[:-1]
    if na == 1:
        shape = shape[:-2] + shape[-1:] if nb > 1 else shape[:-1]
    return reshape(y, shape=shape)


matmul = multilinear(
    "matmul",
    np.matmul,
    transpose=(_matmul_left, _matmul_right),
    batch=_matmul_batch,
    cases=[
        case((2, 3), (3, 4)),
        case((3,), (3,)),
        case((2, 3), (3,)),
        case((3,), (3, 2)),
        case((4, 2, 3), (3, 2)),
        case((2, 3), (4, 3, 2)),
        case((4, 2, 3), (3,)),
        case((3,), (4, 3, 2)),
        case((5, 1, 2, 3), (4, 3, 2)),
        case((0, 3), (3, 2)),
    ],
    infix="@",
    terms="added",
)


# -- einsum -----------------------------------------------------------------------------------------------------
# Subscripts are explicit: `inputs` has the letters of each operand, `output` those of the result, no ellipsis.


def _einsum(*xs: Any, inputs: tuple[str, ...], output: str) -> Any:
    if any(0 in np.shape(x) for x in xs):  # NumPy's einsum of empty long doubles writes beyond the result
        sizes = {c: n for letters, x in zip(inputs, xs, strict=True) for c, n in zip(letters, np.shape(x), strict=True)}
        return np.zeros([sizes[c] for c in output], np.result_type(*map(np.asarray, xs)))[()]
    contracts = len(xs) > 1 and any(c not in output for letters in inputs for c in letters)
    return np.einsum(f"{','.join(inputs)}->{output}", *xs, optimize=contracts)[()]


def _einsum_transpose(g: Value, *xs: Any, inputs: tuple[str, ...], output: str, index: int = 0) -> Value:
    own: Type = xs[index]
    letters = inputs[index]
    sizes = dict(zip(letters, own.shape, strict=True))
    factors, subscripts = [g], [output]
    for i, (x, other) in enumerate(zip(xs, inputs, strict=True)):
        if i != index:
            factors.append(x)
            subscripts.append(other)
    # A repeated letter reads a diagonal: its cotangent lies on the diagonal, so multiply by an identity matrix.
    spare = iter(c for c in map(chr, range(ord("a"), ord("z") + 1)) if all(c not in s for s in (*inputs, output)))
    target = ""
    for c in letters:
        if c in target:
            d = next(spare)
            factors.append(np.eye(sizes[c], dtype=own.dtype))
            subscripts.append(c + d)
            target += d
        else:
            target += c
    # A letter that occurs nowhere else was summed over: its cotangent is constant along that axis.
    present = {c for s in subscripts for c in s}
    kept = "".join(c for c in target if c in present)
    result = einsum(*factors, inputs=tuple(subscripts), output=kept)
    if kept != target:
        result = expand_dims(result, tuple(i for i, c in enumerate(target) if c not in present))
        result = broadcast_to(result, shape=own.shape)
    return result


def _einsum_batch(flags: tuple[bool, ...], *xs: Value, inputs: tuple[str, ...], output: str) -> Value:
    used = {c for s in inputs for c in s}
    letter = next(c for c in "ZYXWVUTSRQPONMLKJIHGFEDCBA" if c not in used)
    lifted = tuple(letter + s if flag else s for s, flag in zip(inputs, flags, strict=True))
    return einsum(*xs, inputs=lifted, output=letter + output)


einsum = multilinear(
    "einsum",
    _einsum,
    transpose=lambda g, *xs, inputs, output, index=0: _einsum_transpose(g, *xs, inputs=inputs, output=output, index=index),
    batch=_einsum_batch,
    cases=[
        case((2, 3), (3, 4), inputs=("ij", "jk"), output="ik"),
        case((3, 3), inputs=("ii",), output="i"),
        case((2, 3), inputs=("ij",), output=""),
        case((2, 3), (3,), (2, 4), inputs=("ij", "j", "ik"), output="k"),
        case((2, 2, 3), (2,), inputs=("iij", "i"), output="j"),
    ],
    terms="added",
    silent=True,
)
