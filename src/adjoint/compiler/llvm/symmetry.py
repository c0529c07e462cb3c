"""Whether a matrix is symmetric up to rounding, as `ops.matrix.is_hermitian`: no pair differs by much relative to the largest
element.

Elements are compared in tiles. The mirrored tile is first transposed into a buffer, so that both can be read as vectors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..switches import Switch
from .builder import WRITTEN_AS_VECTORS
from .instruction import literal
from .vector import Vector

if TYPE_CHECKING:
    from .lapack import Matrix

_TILE = 16  # rows and columns


def is_symmetric(c: Matrix, a: str, out: str) -> str:
    c.attributes = WRITTEN_AS_VECTORS
    view = c.step.operands[0]
    largest, widest = _MirroredPairs(c, a, view.shape[-1], *sorted(view.strides[-2:], reverse=True)).run()
    slack = c.code.let(f"fmul {c.kind} {literal(np.sqrt(np.finfo(c.dtype).eps), c.dtype)}, {largest}")
    c.code.store(c.code.compare("less_equal", c.dtype, widest, slack), out, np.dtype(bool))
    return "false"


class _MirroredPairs:
    """Visits all pairs of mirrored elements. The transpose is equivalent, so `across` is the smaller stride."""

    def __init__(self, c: Matrix, a: str, n: int, down: int, across: int) -> None:
        self.c, self.code, self.a, self.n, self.down, self.across = c, c.code, a, n, down, across
        self.single, self.row = (Vector(c.code, c.kind, lanes, c.dtype.itemsize) for lanes in (1, _TILE))
        zero = literal(0, c.dtype)
        self.slots = {}  # for the largest element, and the largest difference
        for vector in (self.single, self.row):
            self.slots[vector] = places = (vector.slot(), vector.slot())
            for place in places:
                vector.store(vector.repeated(zero), place)
        self.turned = self.code.let(f"alloca [{_TILE * _TILE} x {c.kind}]")

    def run(self) -> tuple[str, str]:
        c, code, n = self.c, self.code, self.n
        tiles = n // _TILE if self.across == 1 and Switch.SYMMETRY_TILES.on else 0

        def tiles_of(number: str) -> None:
            top = code.let(f"mul nsw i64 {number}, {_TILE}")
            bottom = self.code.smaller(code.let(f"add nsw i64 {top}, {_TILE}"), str(n))
            last = self.code.smaller(code.let(f"add nsw i64 {number}, 1"), str(tiles))
            c.span("0", last, lambda k: self.tile(top, bottom, code.let(f"mul nsw i64 {k}, {_TILE}")))

        if tiles:
            c.span("0", str(-(-n // _TILE)), tiles_of)
        rest = str(tiles * _TILE)
        c.span(rest, str(n), lambda i: c.span(rest, str(n), lambda j: self.compare(self.single, self.at(i, j), self.at(j, i))))
        for kept, lanes in zip(self.slots[self.single], self.slots[self.row], strict=True):
            self.single.enlarge(kept, self.row.largest(self.row.load(lanes)))
        largest, widest = map(self.single.load, self.slots[self.single])
        return largest, widest

    def tile(self, top: str, bottom: str, left: str) -> None:
        c, code = self.c, self.code
        right = code.let(f"add nsw i64 {left}, {_TILE}")

        def turned(i: str) -> str:
            return c.element(self.turned, code.let(f"mul nsw i64 {code.let(f'sub nsw i64 {i}, {top}')}, {_TILE}"))

        def transpose(j: str, i: str) -> None:
            place = c.element(turned(i), code.let(f"sub nsw i64 {j}, {left}"))
            self.single.store(self.single.load(self.at(j, i)), place)

        c.span(left, right, lambda j: c.span(top, bottom, lambda i: transpose(j, i)))
        c.span(top, bottom, lambda i: self.compare(self.row, self.at(i, left), turned(i)))

    def compare(self, vector: Vector, here: str, there: str) -> None:
        largest, widest = self.slots[vector]
        x, y, zero = vector.load(here), vector.load(there), vector.repeated(literal(0, self.c.dtype))
        vector.enlarge(largest, vector.call("fabs", x))  # as large as y if they are equal up to rounding
        gap = vector.call("fabs", self.code.let(f"fsub {vector.type} {x}, {y}"))
        bits = "i1" if vector.lanes == 1 else f"<{vector.lanes} x i1>"
        same = self.code.let(f"fcmp oeq {vector.type} {x}, {y}")  # infinities, too
        vector.enlarge(widest, self.code.let(f"select {bits} {same}, {vector.type} {zero}, {vector.type} {gap}"))

    def at(self, i: str, j: str) -> str:
        code = self.code
        index = code.let(
            f"add nsw i64 {code.let(f'mul nsw i64 {i}, {self.down}')}, {code.let(f'mul nsw i64 {j}, {self.across}')}"
        )
        return self.c.element(self.a, index)
