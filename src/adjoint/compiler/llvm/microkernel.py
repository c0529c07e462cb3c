"""A tile of a matrix product in vector registers: some rows of A times a panel, which is a few vectors of columns of B.

    total = 0                             a vector for each row and each vector of columns
    for k in inner:
      total[r] += A[r, k] * B[k, :]
    C[rows, panel] = total

`tile` reads B where it is, `packed_product` from a copy.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

import llvmlite.binding as llvm

from ..lower.kernel import Dtype, View, size_of
from .builder import WRITTEN_AS_VECTORS
from .instruction import REGISTER, Code
from .vector import Vector

#: The head of a function that computes some of the tiles.
HEAD = (
    "define internal void @NAME(ptr noalias %a, ptr noalias %b, ptr noalias %c, i64 %start, i64 %length)"
    f" nounwind noinline {WRITTEN_AS_VECTORS}"
)


@functools.cache
def registers() -> tuple[int, int, int]:
    """Bytes of a vector of this processor, vectors of a tile, and how many of them side by side."""
    features = llvm.get_host_cpu_features()
    if features.get("avx512f"):
        return 64, 24, 4
    return (32, 12, 3) if features.get("avx2") else (16, 12, 3)


class TileRows(NamedTuple):
    """Some rows of A and of the result, in elements: strides of A down and along its rows, and the stride of the result."""

    a: str
    down: int | str
    along: int | str
    out: str
    row: int | str
    height: int


class Microkernel:
    """Writes functions of matrices of one dtype."""

    def __init__(self, dtype: Dtype) -> None:
        self.code, self.dtype = Code(), dtype
        self.kind = REGISTER[dtype]

    def vector(self, lanes: int, stored: int = 0) -> Vector:
        return Vector(self.code, self.kind, lanes, self.dtype.itemsize, stored)

    def at(self, base: str, index: str | int, stride: int | str = 1) -> str:
        """The address of an element, so many strides from another one."""
        if stride == 0 or index == 0:
            return base
        if stride != 1:
            both = isinstance(index, int) and isinstance(stride, int)
            index = index * stride if both else self.code.let(f"mul nsw i64 {index}, {stride}")  # type: ignore[operator]
        return base if str(index) == "0" else self.code.let(f"getelementptr inbounds {self.kind}, ptr {base}, i64 {index}")

    def matrix(self, base: str, view: View, index: str) -> str:
        """The address of one matrix of a stack."""
        code, total, stack = self.code, str(view.offset), view.shape[:-2]
        step = size_of(stack)
        for length, stride in zip(stack, view.strides, strict=False):
            step //= length
            if stride:
                i = code.let(f"urem i64 {code.let(f'udiv i64 {index}, {step}')}, {length}")
                total = code.let(f"add nsw i64 {total}, {code.let(f'mul nsw i64 {i}, {stride}')}")
        return self.at(base, total)

    def multiply(self, tile: TileRows, b: str, row: int, panel: Sequence[Vector], length: str, is_first: str = "") -> None:
        """A tile times the panel at `b`, whose rows are `row` elements apart.

        With `is_first`, a condition, the product is added to what is there unless it holds.

        The inputs are frozen, so that LLVM sees one base for the places of a loop. Otherwise its loop strength reduction searches
        for the best parts of an address that depends on the loops outside: two thirds of the time that a tile of 20 rows takes.
        """
        code = self.code
        a, b = (code.let(f"freeze ptr {place}") for place in (tile.a, b))
        columns = [sum(v.lanes for v in panel[:i]) for i in range(len(panel))]
        rows = [self.at(tile.out, r, tile.row) for r in range(tile.height)]
        results = [(v, self.at(place, column)) for place in rows for v, column in zip(panel, columns, strict=True)]
        starts = [(v.type, "zeroinitializer") for v, _ in results]
        if is_first:
            starts = [
                (v.type, code.let(f"select i1 {is_first}, {v.type} zeroinitializer, {v.type} {v.load(place)}"))
                for v, place in results
            ]
        loop = code.repeat(starts)
        right = self.at(b, loop.index, row)
        loaded = [self.vector(v.lanes).load(self.at(right, column)) for v, column in zip(panel, columns, strict=True)]
        left = self.at(a, loop.index, tile.along)
        sums = []
        for r in range(tile.height):
            element = self.vector(1).load(self.at(left, r, tile.down))
            spread = {v.lanes: v.repeated(element) for v in panel}
            totals = loop.values[r * len(panel) : (r + 1) * len(panel)]
            sums += [v.call("fmuladd", spread[v.lanes], x, total) for v, x, total in zip(panel, loaded, totals, strict=True)]
        loop.close(length, sums)
        for (v, place), total in zip(results, sums, strict=True):
            v.store(total, place)
