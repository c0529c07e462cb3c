"""Matrix products: BLAS calls; loops, if they are small; or unrolled tiles, if they are narrow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...ir.graph import Equation, Literal, Operand
from ...ops import linalg
from ..switches import Switch
from .kernel import Reduce, View, contiguous
from .lowered import Line, Rules
from .scalar import FLOATS, KernelWriter
from .step import Product
from .views import as_numpy_does, transposed

if TYPE_CHECKING:
    from .fuse import Lowering

#: Up to this many multiplications a matrix product is written as loops, which LLVM unrolls, instead of calling BLAS.
_INLINE = 1000
_FEWEST, _NARROW = 8, 32  # columns of an unrolled product: a row is a few vectors
_AT_HAND = 8192  # elements of a matrix that fits in the L1 or L2 cache
_WORTH_A_COPY = 64  # rows from which a column-major matrix is copied first


def product(low: Lowering, equation: Equation) -> bool:
    a, b = equation.inputs
    (result,) = equation.types
    ta, tb = low.type_of(a), low.type_of(b)
    if result.dtype not in FLOATS or ta.dtype != result.dtype or tb.dtype != result.dtype or 0 in (*ta.shape, *tb.shape):
        return False
    left, right = low.view(a), low.view(b)
    if ta.ndim == 1:
        left = as_numpy_does(left, lambda x: x[None, :])  # type: ignore[assignment]
    if tb.ndim == 1:
        right = as_numpy_does(right, lambda x: x[:, None])  # type: ignore[assignment]
    *stack, rows, inner = left.shape
    columns = right.shape[-1]
    stack = list(np.broadcast_shapes(tuple(stack), right.shape[:-2]))
    if inner == 1 and result.ndim == len(stack) + 2:  # every element is a single product
        position = low.place(result.shape, [left, right])
        line = KernelWriter(low.kernel(position))("mul", low.read(position, left), low.read(position, right))
        return low.hold(equation, Line(position, line))
    out = low.local(result)
    if (rows * inner * columns <= _INLINE and Switch.INLINE_PRODUCTS.on) or rows == columns == 1:
        _loops(low, left, right, View(out.buffer, (*stack, rows, columns), contiguous((*stack, rows, columns))), inner)
    else:
        narrow = _is_narrow(rows, inner, columns, right.strides[-1] == 1 and right.strides[-2] >= 0)
        if narrow:
            right = _by_rows(low, right)
        else:
            left, right = for_blas(low, left), for_blas(low, right)
        left, right = (v.over((*stack, *v.shape[-2:])) for v in (left, right))
        full = View(out.buffer, (*stack, rows, columns), contiguous((*stack, rows, columns)))
        triangle = "" if narrow else _triangle(low, a)
        step = Product(left, right, full, {low.line: None} if low.line else {}, narrow, triangle)
        low.ready[out.buffer] = low.step(step)
    return low.hold(equation, out)


def known_triangle(low: Lowering, operand: Operand) -> tuple[View, bool] | None:
    """The Cholesky factor that an operand is, and whether transposed."""
    value = None if isinstance(operand, Literal) else low.values[operand]
    base = low.triangular.get(value.buffer) if isinstance(value, View) else None
    if base is None:
        return None
    return (base, False) if value == base else (base, True) if value == transposed(base) else None


def _triangle(low: Lowering, operand: Operand) -> str:
    known = known_triangle(low, operand) if Switch.TRIANGULAR_PRODUCTS.on else None
    return "" if known is None else "upper" if known[1] else "lower"


def _loops(low: Lowering, left: View, right: View, out: View, inner: int) -> None:
    """Small: a loop nest over rows, columns and the inner axis."""
    *stack, rows, columns = out.shape
    domain = (*stack, rows, columns, inner)
    # left[…, i, ·, k] and right[…, ·, j, k]
    left = left.over((*stack, *left.shape[-2:]))
    right = right.over((*stack, *right.shape[-2:]))
    a = View(left.buffer, domain, (*left.strides[:-1], 0, left.strides[-1]), left.offset)
    b = View(right.buffer, domain, (*right.strides[:-2], 0, right.strides[-1], right.strides[-2]), right.offset)
    position = low.place(domain, [a, b])
    kernel = low.kernel(position)
    line = KernelWriter(kernel)("mul", low.read(position, a), low.read(position, b))
    kernel.reductions.append(Reduce("sum", line, (len(domain) - 1,), View(out.buffer, domain, (*out.strides, 0))))
    low.ready[out.buffer] = position


def _is_narrow(rows: int, inner: int, columns: int, lies_by_rows: bool) -> bool:
    """Whether a product is better unrolled than left to BLAS: few columns, and the reused matrix is small."""
    if not (Switch.NARROW_PRODUCTS.on and _FEWEST <= columns <= _NARROW and rows * 2 >= _FEWEST):
        return False
    at_hand = inner * columns <= _AT_HAND
    return (at_hand or rows <= _NARROW) if lies_by_rows else (at_hand and rows >= _WORTH_A_COPY)


def _by_rows(low: Lowering, view: View) -> View:
    """Matrices with contiguous rows; a copy otherwise."""
    if view.strides[-1] == 1 and view.strides[-2] >= 0:
        return view
    whole = low.local(view.type)
    low.copy(view, whole)
    return whole


def for_blas(low: Lowering, view: View) -> View:
    """A view of matrices with a unit stride along one axis, and the other stride large enough for BLAS; a copy otherwise."""
    (rows, columns), (down, across) = view.shape[-2:], view.strides[-2:]
    by_rows = (across == 1 or columns == 1) and (down >= columns or rows == 1)
    by_columns = (down == 1 or rows == 1) and (across >= rows or columns == 1)
    if by_rows or by_columns:
        return view
    whole = low.local(view.type)
    low.copy(view, whole)
    return whole


RULES: Rules = {linalg.matmul: product}
