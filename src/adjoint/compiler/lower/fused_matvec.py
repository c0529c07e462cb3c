"""Fused matvec: `X @ w` and `g @ X`, as in the gradient of a function of X @ w, in one pass over the matrix.

    product X @ w to y            row tiles of 80 of 10000 iterations:
    kernel of y to g                kernel over (10000, 50): sum X * w into y
    product g @ X to d              kernel of y to g
                                    kernel over (10000, 50): sum X * g into d

BLAS would read the matrix for each product. As kernels, the products join the row tiles of the kernels between them, and the rows
of a tile are still in the cache for the second.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..switches import Switch
from .kernel import Kernel, Reduce, View
from .row_tiles import TILE
from .scalar import KernelWriter
from .step import Product, RowTiles, Step

LARGE = 1 << 20  # bytes; a smaller matrix stays in the cache


def products(steps: Sequence[Step]) -> list[Product]:
    """Products of large row-major matrices with vectors from both sides."""
    if not Switch.FUSED_MATVEC.on:
        return []
    found: dict[View, tuple[list[Product], list[Product]]] = {}
    for step in steps:
        if isinstance(step, Product) and len(step.out.shape) == 2 and not step.is_narrow and not step.triangle:
            matrix, side = _matrix(step)
            if matrix is not None:
                found.setdefault(matrix, ([], []))[side].append(step)
    return [product for by, into in found.values() if by and into for product in (*by, *into)]


def met(halves: Mapping[Product, Kernel], steps: Sequence[Step]) -> list[Product]:
    """The products whose kernels are in one group with one from the other side."""
    groups = [{*step.kernels} for step in steps if isinstance(step, RowTiles)]
    sides = {product: _matrix(product) for product in halves}

    def is_met(product: Product) -> bool:
        matrix, side = sides[product]
        group = next((group for group in groups if halves[product] in group), set())
        return any(sides[other] == (matrix, 1 - side) and halves[other] in group for other in halves)

    return [product for product in halves if is_met(product)]


def _matrix(product: Product) -> tuple[View | None, int]:
    """The row-major matrix of a product with a vector, and the side: 0 if each row gives a result, 1 if rows are summed."""
    (rows, inner), columns = product.left.shape, product.right.shape[-1]
    if columns == 1 and rows > 1:
        matrix = product.left
    elif rows == 1 and columns > 1:
        matrix = View(product.right.buffer, (columns, inner), product.right.strides[::-1], product.right.offset)
    else:
        return None, 0
    down, across = matrix.strides  # one row per result
    side = 0 if across == 1 and down >= inner else 1 if down == 1 and across >= matrix.shape[0] else 2
    if side:
        matrix = View(matrix.buffer, matrix.shape[::-1], matrix.strides[::-1], matrix.offset)
    row = matrix.shape[1] * matrix.dtype.itemsize
    is_large = matrix.shape[0] * row >= LARGE and 2 * row <= TILE
    return (matrix, side) if side < 2 and is_large else (None, 0)


def kernel(product: Product) -> Kernel:
    """A product by a vector as a loop nest over the matrix."""
    matrix, side = _matrix(product)
    assert matrix is not None
    by_left = product.right.shape[-1] == 1
    vector, along = (product.right, product.right.strides[0]) if by_left else (product.left, product.left.strides[1])
    to = product.out.strides[0 if by_left else 1]
    domain = matrix.shape
    made = Kernel(domain, lines=dict(product.lines))
    over, out = ((0, along), (to, 0)) if side == 0 else ((along, 0), (0, to))
    loads = [matrix, View(vector.buffer, domain, over, vector.offset)]
    a, b = (made.add("load", (), view, view.dtype) for view in loads)
    line = KernelWriter(made)("mul", a, b)
    made.reductions.append(Reduce("sum", line, (1 - side,), View(product.out.buffer, domain, out, product.out.offset)))
    return made
