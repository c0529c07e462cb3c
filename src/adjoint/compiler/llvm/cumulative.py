"""Cumulative sums, products and recurrences: a function for the rows of a step.

Each element waits for the one before it. So several rows run side by side, or, where their elements are neighbours in memory,
whole vectors of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..lower.kernel import COMBINED, View, size_of
from ..lower.step import Cumulative
from .instruction import MEMORY, REGISTER, Code

if TYPE_CHECKING:
    from .program import StepRoutine

_SIDE_BY_SIDE = 8  # rows: as many additions are under way while one waits


def emit(routine: StepRoutine, step: Cumulative) -> None:
    views = [*([step.factors] if step.factors else []), step.terms, step.out]
    arguments = ", ".join(f"ptr noalias %p{i}" for i in range(len(views)))
    rows = _Rows(step, views)
    rows.write()
    name = routine.module.function("cumulative", rows.code.define(f"define internal void @NAME({arguments}) nounwind noinline"))
    routine.module.declared |= rows.code.declared
    routine.code.do(f"call void {name}({', '.join(f'ptr {routine.at(v)}' for v in views)})")


class _Rows:
    def __init__(self, step: Cumulative, views: Sequence[View]) -> None:
        self.step, self.views, self.code = step, views, Code()
        *self.outer, self.length = step.out.shape
        self.dtype = step.out.dtype

    def write(self) -> None:
        rows = size_of(self.outer)
        if self.outer and all(v.strides[-2] == 1 or self.outer[-1] == 1 for v in self.views) and self.outer[-1] > 1:
            self.columns()
        else:
            full = rows - rows % _SIDE_BY_SIDE
            if full:
                with self.code.iterations("0", str(full), _SIDE_BY_SIDE) as row:
                    self.together([self.code.let(f"add nuw nsw i64 {row}, {k}") for k in range(_SIDE_BY_SIDE)])
            if full < rows:
                with self.code.iterations(str(full), str(rows)) as row:
                    self.together([row])
        self.code.do("ret void")

    def together(self, rows: Sequence[str]) -> None:
        """Rows side by side, with the results so far in registers."""
        code, kind = self.code, REGISTER[self.dtype]
        starts = [[self.row(i, view, row, self.outer) for i, view in enumerate(self.views)] for row in rows]
        firsts = []
        for *_, terms, out in starts:
            firsts.append(code.load(terms, self.dtype))
            code.store(firsts[-1], out, self.dtype)
        if self.length == 1:
            return
        loop = code.repeat([(kind, first) for first in firsts], "1")
        nexts = []
        for pointers, so_far in zip(starts, loop.values, strict=True):
            at = [self.moved(p, loop.index, v.strides[-1]) for p, v in zip(pointers, self.views, strict=True)]
            nexts.append(self.combined(so_far, [code.load(p, self.dtype) for p in at[:-1]]))
            code.store(nexts[-1], at[-1], self.dtype)
        loop.close(str(self.length), nexts)

    def columns(self) -> None:
        """Rows whose elements are neighbours: the loop over them is the inner one, which is vectorized."""
        code, (*outer, across) = self.code, self.outer
        with code.iterations("0", str(size_of(outer))) as block:
            bases = [self.row(i, view, block, outer) for i, view in enumerate(self.views)]
            with code.iterations("0", str(across)) as j:
                first = code.load(self.moved(bases[-2], j, 1), self.dtype)
                code.store(first, self.moved(bases[-1], j, 1), self.dtype)
            with code.iterations("1", str(self.length)) as i:
                now = [self.moved(p, i, v.strides[-1]) for p, v in zip(bases, self.views, strict=True)]
                before = self.moved(bases[-1], code.let(f"sub nuw nsw i64 {i}, 1"), self.step.out.strides[-1])
                with code.iterations("0", str(across)) as j:
                    so_far = code.load(self.moved(before, j, 1), self.dtype)
                    value = self.combined(so_far, [code.load(self.moved(p, j, 1), self.dtype) for p in now[:-1]])
                    code.store(value, self.moved(now[-1], j, 1), self.dtype)

    def combined(self, so_far: str, values: Sequence[str]) -> str:
        if self.step.how == "recurrence":
            return self.operation("add", self.operation("mul", values[0], so_far), values[1])
        return self.operation(COMBINED[self.step.how], so_far, values[0])

    def operation(self, word: str, a: str, b: str) -> str:
        return self.code.operation(word, [a, b], self.dtype, self.dtype)

    def row(self, argument: int, view: View, number: str, lengths: Sequence[int]) -> str:
        """Where a row begins."""
        code, pointer, rest = self.code, f"%p{argument}", number
        for length, stride in reversed([*zip(lengths, view.strides, strict=False)]):
            index = code.let(f"urem i64 {rest}, {length}")
            rest = code.let(f"udiv i64 {rest}, {length}")
            pointer = self.moved(pointer, index, stride)
        return pointer

    def moved(self, pointer: str, index: str, stride: int) -> str:
        code = self.code
        step = index if stride == 1 else code.let(f"mul nsw i64 {index}, {stride}")
        return code.let(f"getelementptr inbounds {MEMORY[self.dtype]}, ptr {pointer}, i64 {step}")
