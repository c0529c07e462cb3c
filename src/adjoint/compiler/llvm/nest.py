"""A kernel as loops in LLVM IR.

Code over whole arrays is a single loop, which LLVM vectorizes. A reduction over the innermost axes accumulates in a register;
others accumulate in memory.

    for i in rows:                  kernel over (rows, columns), sum over the columns
      total = 0
      for j in columns:
        total += f(x[i, j])
      out[i] = total

The interior of a window is a separate loop, without a test in every iteration:

    for i in 0 … 1:   tests          for i in 1 … n - 1:   no tests          for i in n - 1 … n:   tests

The body of a kernel is a function of its buffers, which do not overlap, and of the range of the outermost loop to run.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Sequence
from typing import Any

from ..lower.kernel import Buffer, Kernel, KernelLine, LoopLevel, Reduce, View, Window, size_of
from ..lower.schedule import cost
from ..lower.step import RowTiles
from ..switches import Switch
from . import vecmath
from .builder import STRIDED, UNOPTIMISED
from .instruction import MEMORY, REGISTER, Code, combine, literal, start_of

SMALL = 16  # points of a kernel that is inlined into the program
LONGEST_INLINED = 20_000  # lines times points
WIDE = '"prefer-vector-width"="512"'  # if available: faster by 1.2 to 1.9 for functions such as exp
WRITTEN_OUT = ", !llvm.loop !WRITTEN_OUT"  # the module gives each such loop a distinct metadata node
LONG_ENOUGH = 64  # iterations of the innermost loop from which they pay
WORTH_A_LOOP = 16  # iterations between the edges of windows
SHORT = 8  # iterations of a loop that is unrolled, so that the loop around it is vectorized
MOST_INLINED, FUNCTION_COST = 24, 20  # functions in a kernel of a few points that runs many times; additions of one
LONGEST_WRITTEN_OUT, FUNCTION = 400, 40  # lines after unrolling; lines counted for a function such as exp
ROW = (4, 8)  # iterations of a contiguous loop that is one vector
FOLDED = (0.0, 0.5, 1.0, 2.0)  # constants that LLVM simplifies with: always written in the code
A_LINE = 8  # elements: a stride from which each is in another cache line
BLOCK = 2048  # terms of a long sum that are added separately, to limit rounding errors


class Reducing:
    """Where the reductions and windows of a kernel stand among its loops, in whatever language these are written."""

    kernel: Kernel
    loops: Sequence[LoopLevel]
    strides: dict[int, list[int]]  # of each view, by loop
    begun: Collection[Buffer]  # results that a call adds to

    def suffix(self, r: Reduce) -> int:
        """The outermost loop from which on all loops are reduced; the number of loops if the innermost is not."""
        strides = self.strides[id(r.view)]
        d = len(strides)
        while d and not strides[d - 1]:
            d -= 1
        return d

    def adds_to_memory(self, r: Reduce, d: int) -> bool:
        """Whether the result is accumulated in memory: it is reached more than once, or not at all."""
        several = any(not s for s in self.strides[id(r.view)][:d])
        return several or r.view.buffer in self.begun or not all(self.kernel.domain)

    def edges(self, level: int) -> set[int]:
        """Where windows begin and end along the loop of a level."""
        axes = self.loops[level].axes
        windows = [line.data[1] for line in self.kernel.code if line.kind == "window"] if len(axes) == 1 else []
        return {edge for window in windows for edge in window[axes[0]]}

    def is_cut(self, level: int, lo: int, hi: int) -> bool:
        """Whether a window begins or ends within a range."""
        return any(lo < edge < hi for edge in self.edges(level))


class Nest(Reducing):
    """Writes the body of one kernel."""

    def __init__(
        self,
        kernel: Kernel,
        tiles: RowTiles | None = None,
        repeated: bool = False,
        own: Collection[Buffer] = (),
        iterations: int | None = None,
        numbers_apart: bool = False,
        is_brief: bool = False,
        in_parts: bool = False,
    ) -> None:
        self.kernel = kernel
        self.is_brief = is_brief  # does little of the program's work
        self.numbers_apart = numbers_apart
        self.numbers: dict[str, str] = {}  # constants that are arguments, and their names
        self.own = tiles.own if tiles else own  # buffers that hold only the iterations of a call
        self.begun = tiles.totals if tiles else {}  # results that a call adds to
        self.is_small = size_of(kernel.domain) <= SMALL
        # Out of line, functions compile once, but are not vectorized: for code that runs once per call.
        once = not repeated or sum(cost(line) >= FUNCTION_COST for line in kernel.code) > MOST_INLINED
        apart = self.is_small and once and Switch.FUNCTIONS_APART.on
        # In a loop, one number is usually waited for.
        alone = repeated and size_of(kernel.domain) == 1 and Switch.FUNCTIONS_ALONE.on
        self.code = Code(apart, vecmath.alone_name) if alone else Code(apart)
        self.loops = kernel.loops
        # The iterations of the outermost loop in one call: a part of them, or all, whose number is then constant.
        in_parts = in_parts or tiles is not None or kernel.chunks > 1
        self.whole = ("%start", "%length") if in_parts else ("0", str(self.loops[0].length) if self.loops else "1")
        self.has_tiles = iterations is not None
        if iterations is not None:  # of every call
            self.whole = ("%start", str(iterations))
        self.views = kernel.views
        self.buffers = list(dict.fromkeys(v.buffer for v in self.views))
        self.strides = {id(view): [loop.strides[i] for loop in self.loops] for i, view in enumerate(self.views)}
        self.depths = [self.suffix(r) for r in kernel.reductions]
        self.is_rows = self.is_a_vector_a_row()
        self.indices: list[str] = []
        self.ranges: list[tuple[int, int]] = []  # of the indices
        self.totals: dict[int, str] = {}  # of the reductions that are currently in a register
        self.inlined = 0  # size of the code, if callers inline it
        self.standing, self.more = 0, 0  # loops that stay loops; lines added by unrolling the others

    def define(self, name: str, budget: int = LONGEST_INLINED) -> str:
        """The function `name(buffers…, numbers…, start, length)`; a small one is inlined, in registers if possible.

        `budget` is the size of the code that may be inlined, in lines times points.
        """
        for r, d in zip(self.kernel.reductions, self.depths, strict=True):
            if self.adds_to_memory(r, d) and r.view.buffer not in self.begun:
                self.fill(r)
        if all(self.kernel.domain):
            self.level(0)
        pointers = [f"ptr {'' if b.shared else 'noalias '}%b{i}" for i, b in enumerate(self.buffers)]
        numbers = [f"{number.partition(' ')[0]} {name}" for number, name in self.numbers.items()]
        arguments = ", ".join([*pointers, *numbers, "i64 %start", "i64 %length"])
        size = len(self.code.lines) * size_of(self.kernel.domain)
        is_inlined = self.is_small and Switch.INLINE_KERNELS.on and size < min(LONGEST_INLINED, budget)
        self.inlined = size if is_inlined else 0
        how = "alwaysinline" if is_inlined else "noinline"
        if self.is_brief and not is_inlined:
            how = f"{how} {UNOPTIMISED}"
        wide = WIDE if Switch.WIDE_VECTORS.on and (self.is_rows or (self.loops and self.loops[-1].length >= LONG_ENOUGH)) else ""
        self.code.do("ret void")
        strided = STRIDED if self.is_strided() else ""
        return self.code.define(f"define internal void {name}({arguments}) nounwind {how} {wide} {strided}")

    def is_a_vector_a_row(self) -> bool:
        """Whether the innermost loop runs along rows as long as a vector, without a reduction along them."""
        if len(self.loops) < 2 or self.loops[-1].length not in ROW or not Switch.VECTOR_ROWS.on:
            return False
        moves = all(d == len(self.loops) for d in self.depths)
        return moves and set(self.loops[-1].strides) <= {0, 1}

    def is_strided(self) -> bool:
        """Whether a tile of points loads a vector from as many cache lines."""
        return self.has_tiles and bool(self.loops) and any(abs(s) >= A_LINE for s in self.loops[-1].strides)

    # -- loops --

    def level(self, level: int) -> None:
        """The loop of a level and its contents, with the reductions that begin here."""
        beginning = [i for i, d in enumerate(self.depths) if d == level]
        for i in beginning:
            r = self.kernel.reductions[i]
            self.totals[i] = start_of(r.how, r.view.dtype)
        if level == len(self.loops):
            self.body()
        else:
            start, length = self.whole if level == 0 else ("0", str(self.loops[level].length))
            if level == len(self.loops) - 1 and self.totals and self.loops[level].length > 2 * BLOCK:
                self.blocks(start, length, level)
            else:
                self.loop(start, length, level)
        for i in beginning:
            r = self.kernel.reductions[i]
            pointer = self.address(r.view)
            value = self.totals.pop(i)
            if self.adds_to_memory(r, level):
                value = combine(self.code, r.how, r.view.dtype, self.code.load(pointer, r.view.dtype), value)
            self.code.store(value, pointer, r.view.dtype)

    def loop(self, start: str, length: str, level: int) -> None:
        """for index in start … start + length: the next level. In parts, where windows begin and end."""
        whole = (0, self.loops[level].length)
        deep = any(self.is_cut(outer, *self.ranges[outer]) for outer in range(level))  # then tests are needed anyway
        parts = [whole] if deep or not Switch.WINDOW_SEGMENTS.on else segments(self.edges(level), whole[1])
        for lo, hi in parts:
            self.ranges.append((lo, hi))
            if len(parts) == 1:
                self.stretch(start, length, level)
            elif (start, length) == ("0", str(whole[1])):
                self.stretch(str(lo), str(hi - lo), level)
            else:
                self.overlap(start, length, level)
            self.ranges.pop()

    def stretch(self, start: str, length: str, level: int) -> None:
        def body(i: str) -> None:
            self.indices.append(i if start == "0" else self.code.let(f"add nuw nsw i64 {start}, {i}"))
            self.level(level + 1)
            self.indices.pop()

        if length == "1":
            body("0")
        else:
            self.counted_loop(length, body, self.is_rows and level == len(self.loops) - 1)

    def overlap(self, start: str, length: str, level: int) -> None:
        """The part of a loop within the range of this level, if there is one."""
        code, (lo, hi) = self.code, self.ranges[level]
        stop = code.let(f"add nuw nsw i64 {start}, {length}")
        first = code.let(f"call i64 @llvm.smax.i64(i64 {start}, i64 {lo})")
        last = code.let(f"call i64 @llvm.smin.i64(i64 {stop}, i64 {hi})")
        code.declared |= {f"declare i64 @llvm.{what}.i64(i64, i64)" for what in ("smax", "smin")}
        count = code.let(f"sub nsw i64 {last}, {first}")
        before, some, done, after = map(code.mark, ("before", "some", "done", "after"))
        code.enter(before)
        code.branch(code.let(f"icmp sgt i64 {count}, 0"), some, after)
        code.label(some)
        initial = dict(self.totals)
        self.stretch(first, "1" if hi - lo == 1 else count, level)  # no loop, which LLVM would vectorize
        code.enter(done)
        code.enter(after)
        for i, old in initial.items():
            kind = REGISTER[self.kernel.reductions[i].view.dtype]
            self.totals[i] = code.phi(kind, ((self.totals[i], done), (old, before)))

    def counted_loop(self, length: str, body: Callable[[str], None], row: bool = False) -> None:
        """A counted loop, of at least one iteration, that carries the totals. One over a `row` is not unrolled."""
        code = self.code
        kinds = [REGISTER[self.kernel.reductions[i].view.dtype] for i in self.totals]
        loop = code.repeat(list(zip(kinds, self.totals.values(), strict=True)))
        self.totals.update(zip(self.totals, loop.values, strict=True))
        at = len(code.lines)
        standing, more = self.standing, self.more
        body(loop.index)
        inlined = 0 if code.apart else sum(line.count("@adjoint.") for line in code.lines[at:])
        size = len(code.lines) - at + inlined * FUNCTION + self.more - more
        # Unrolling a longer one would make the loop around it access memory with large strides between lanes.
        most = (SMALL if self.is_small else SHORT) if Switch.SHORT_LOOPS.on and not row else 0
        short = length.isdigit() and int(length) <= most and self.standing == standing
        if short and int(length) * size <= LONGEST_WRITTEN_OUT:
            how = WRITTEN_OUT
            self.more += (int(length) - 1) * size
        else:
            how = ""
            self.standing += 1
        loop.close(length, list(self.totals.values()), how)

    def blocks(self, start: str, length: str, level: int) -> None:
        """A long innermost loop in blocks: each has separate totals, which are added to the overall totals."""
        code = self.code
        more = code.let(f"add nuw nsw i64 {length}, {BLOCK - 1}")
        count = code.let(f"udiv i64 {more}, {BLOCK}")

        def block(j: str) -> None:
            done = code.let(f"mul nuw nsw i64 {j}, {BLOCK}")
            left = code.let(f"sub nsw i64 {length}, {done}")
            short = code.let(f"icmp slt i64 {left}, {BLOCK}")
            part = code.let(f"select i1 {short}, i64 {left}, i64 {BLOCK}")
            outer = dict(self.totals)
            for i in outer:
                r = self.kernel.reductions[i]
                self.totals[i] = start_of(r.how, r.view.dtype)
            self.loop(done if start == "0" else code.let(f"add nuw nsw i64 {start}, {done}"), part, level)
            for i, total in outer.items():
                r = self.kernel.reductions[i]
                self.totals[i] = combine(code, r.how, r.view.dtype, total, self.totals[i])

        self.counted_loop(count, block)

    def fill(self, r: Reduce) -> None:
        """Initialise the result of a reduction in memory."""
        moving = [(k, loop.length, s) for k, (loop, s) in enumerate(zip(self.loops, self.strides[id(r.view)], strict=True)) if s]
        if all(n for _, n, _ in moving):
            self.fill_loops(r, moving, [])

    def fill_loops(self, r: Reduce, moving: Sequence[tuple[int, int, int]], at: list[tuple[str, int]]) -> None:
        if not moving:
            self.code.store(start_of(r.how, r.view.dtype), self.pointer(r.view.buffer, r.view.offset, at), r.view.dtype)
            return
        (k, n, stride), rest = moving[0], moving[1:]
        start, length = self.whole

        def body(i: str) -> None:
            moved = k == 0 and start != "0" and r.view.buffer not in self.own
            index = self.code.let(f"add nuw nsw i64 {start}, {i}") if moved else i
            self.fill_loops(r, rest, [*at, (index, stride)])

        self.counted_loop(length if k == 0 else str(n), body)

    # -- the body --

    def body(self) -> None:
        values = self.run(self.kernel.code)
        code = self.code
        for store in self.kernel.stores:
            code.store(values[store.scalar], self.address(store.view), store.view.dtype)
        for s in self.kernel.scatters:
            pointer = self.address(s.view, [(values[a], stride) for a, stride in zip(s.at, s.strides, strict=True)])
            value = values[s.scalar]
            if s.adds:
                value = combine(code, "sum", s.view.dtype, code.load(pointer, s.view.dtype), value)
            code.store(value, pointer, s.view.dtype)
        for i, r in enumerate(self.kernel.reductions):
            self.totals[i] = combine(code, r.how, r.view.dtype, self.totals[i], values[r.scalar])

    def run(self, lines: Sequence[KernelLine]) -> list[str]:
        """The values of lines of code, at the current point of the loops."""
        values: list[str] = []
        code = self.code
        for line in lines:
            if line.kind == "load":
                values.append(code.load(self.address(line.data), line.dtype))
            elif line.kind == "const":
                values.append(self.number(line))
            elif line.kind == "window":
                inner, window = line.data
                elsewhere = values[line.args[0]] if line.args else literal(0, line.dtype)
                values.append(self.window(inner, window, elsewhere, line.dtype))
            elif line.kind == "gather":
                view, strides = line.data
                values.append(
                    code.load(self.address(view, [(values[a], s) for a, s in zip(line.args, strides, strict=True)]), line.dtype)
                )
            else:
                source = lines[line.args[0]].dtype
                values.append(code.operation(line.data, [values[a] for a in line.args], source, line.dtype))
        return values

    def number(self, line: KernelLine) -> str:
        """A constant: written in the code, or an argument, so that kernels which differ only in numbers share their code."""
        value = literal(line.data, line.dtype)
        if not self.numbers_apart or line.dtype.kind != "f" or abs(line.data) in FOLDED:
            return value
        return self.numbers.setdefault(f"{REGISTER[line.dtype]} {value}", f"%n{len(self.numbers)}")

    def window(self, inner: tuple[KernelLine, ...], window: Window, elsewhere: str, dtype: Any) -> str:
        """The value of the last inner line where the point is inside, else another. Nothing outside is read."""
        if any(n == 1 and window[k] != (0, 1) for k, n in enumerate(self.kernel.domain)):
            return elsewhere  # an axis of length one has no loop: the window is empty
        code, inside = self.code, ""
        for loop, index, (start, stop) in zip(self.loops, self.indices, self.ranges, strict=True):
            lo, hi = window[loop.axes[0]] if len(loop.axes) == 1 else (0, loop.length)
            if hi <= start or stop <= lo:
                return elsewhere
            tests = [f"icmp sge i64 {index}, {lo}"] * (lo > start) + [f"icmp slt i64 {index}, {hi}"] * (hi < stop)
            for test in map(code.let, tests):
                inside = code.let(f"and i1 {inside}, {test}") if inside else test
        if not inside:
            return self.run(inner)[-1]
        before, within, last, after = map(code.mark, ("before", "within", "last", "after"))
        code.enter(before)
        code.branch(inside, within, after)
        code.label(within)
        value = self.run(inner)[-1]
        code.enter(last)
        code.enter(after)
        return code.phi(REGISTER[dtype], ((value, last), (elsewhere, before)))

    def address(self, view: View, moved: Sequence[tuple[str, int]] = ()) -> str:
        indices = self.indices
        if view.buffer in self.own and indices:
            indices = [self.code.let(f"sub nuw nsw i64 {indices[0]}, {self.whole[0]}"), *indices[1:]]
        return self.pointer(view.buffer, view.offset, [*zip(indices, self.strides[id(view)], strict=False), *moved])

    def pointer(self, buffer: Buffer, offset: int, at: Sequence[tuple[str, int]]) -> str:
        """The address of an element."""
        code, total = self.code, str(offset)
        for index, stride in at:
            if stride:
                step = index if stride == 1 else code.let(f"mul nsw i64 {index}, {stride}")
                total = step if total == "0" else code.let(f"add nsw i64 {total}, {step}")
        base = f"%b{self.buffers.index(buffer)}"
        return base if total == "0" else code.let(f"getelementptr inbounds {MEMORY[buffer.dtype]}, ptr {base}, i64 {total}")


def segments(edges: Collection[int], length: int) -> list[tuple[int, int]]:
    """A loop in parts, cut at the edges; adjacent short parts are merged.

    >>> segments({0, 1, 2, 99, 100}, 100)
    [(0, 2), (2, 99), (99, 100)]
    """
    bounds = sorted({0, length, *(edge for edge in edges if 0 < edge < length)})
    parts: list[tuple[int, int]] = []
    for lo, hi in itertools.pairwise(bounds):
        if parts and hi - lo < WORTH_A_LOOP and parts[-1][1] - parts[-1][0] < WORTH_A_LOOP:
            parts[-1] = parts[-1][0], hi
        else:
            parts.append((lo, hi))
    return parts
