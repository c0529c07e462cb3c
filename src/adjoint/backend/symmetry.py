"""Whether a matrix is symmetric up to rounding, as `ops.matrix.is_hermitian` says: no pair differs much for its largest element.

Elements are compared in tiles. What lies across the diagonal is first written to a tile of its own by columns, so that both can
be read as vectors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .instruction import literal

if TYPE_CHECKING:
    from .lapack import Matrix

_TILE = 16  # rows and columns


def is_symmetric(c: Matrix, a: str, out: str) -> str:
    code, kind, view = c.code, c.kind, c.step.operands[0]
    n, (down, across) = view.shape[-1], view.strides[-2:]
    zero = literal(0, c.dtype)
    largest, widest = (c.number(zero, kind) for _ in range(2))

    turned = code.let(f"alloca [{_TILE * _TILE} x {kind}]")

    def at(i: str, j: str) -> str:
        index = code.let(f"add nsw i64 {code.let(f'mul nsw i64 {i}, {down}')}, {code.let(f'mul nsw i64 {j}, {across}')}")
        return code.load(c.element(a, index), c.dtype)

    def enlarge(place: str, value: str) -> None:
        code.store(code.intrinsic("maximum", kind, code.load(place, c.dtype), value), place, c.dtype)

    def compare(x: str, y: str) -> None:
        enlarge(largest, code.intrinsic("fabs", kind, x))  # as large as y, if they are to be equal up to rounding
        gap = code.intrinsic("fabs", kind, code.let(f"fsub {kind} {x}, {y}"))
        enlarge(widest, code.pick(code.compare("equal", c.dtype, x, y), c.dtype, zero, gap))

    def ends(tile: str) -> tuple[str, str]:
        start = code.let(f"mul nsw i64 {tile}, {_TILE}")
        stop = code.let(f"add nsw i64 {start}, {_TILE}")
        return start, code.let(f"select i1 {code.let(f'icmp slt i64 {stop}, {n}')}, i64 {stop}, i64 {n}")

    def tile(rows: str, columns: str) -> None:
        (top, bottom), (left, right) = ends(rows), ends(columns)

        def place(i: str, j: str) -> str:
            row = code.let(f"mul nsw i64 {code.let(f'sub nsw i64 {i}, {top}')}, {_TILE}")
            return c.element(turned, code.let(f"add nsw i64 {row}, {code.let(f'sub nsw i64 {j}, {left}')}"))

        c.span(left, right, lambda j: c.span(top, bottom, lambda i: code.store(at(j, i), place(i, j), c.dtype)))
        c.span(top, bottom, lambda i: c.span(left, right, lambda j: compare(at(i, j), code.load(place(i, j), c.dtype))))

    c.span("0", str(-(-n // _TILE)), lambda rows: c.span("0", code.let(f"add nsw i64 {rows}, 1"), lambda k: tile(rows, k)))
    slack = code.let(f"fmul {kind} {literal(np.sqrt(np.finfo(c.dtype).eps), c.dtype)}, {code.load(largest, c.dtype)}")
    code.store(code.compare("less_equal", c.dtype, code.load(widest, c.dtype), slack), out, np.dtype(bool))
    return "false"
