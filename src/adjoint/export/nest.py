"""A kernel as nested `for` loops, in C or JavaScript.

    static void kernel1(const double *restrict b0, double *restrict b1) {
      double t0 = 0.0;
      for (ptrdiff_t i0 = 0; i0 < 1000; ++i0) {
        const double s0 = b0[i0];
        t0 = t0 + s0 * s0;
      }
      b1[0] = t0;
    }

Loops, windows and the order of sums are those of `compiler.llvm.nest`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..compiler.llvm.nest import BLOCK, Reducing, segments
from ..compiler.lower.kernel import Kernel, Reduce, Scalar, View, Window
from ..compiler.lower.step import RowTiles
from .spelling import Spelling, Text

_MOST_COPIED = 60  # lines of a loop that is written twice, for whole vectors and for the rest
_MANY = 4  # vectors in a loop from which on several are added side by side
#: How many: gcc unrolls a loop of 16 iterations and few instructions before it makes vectors, so that it needs 32; the totals of
#: a loop of many instructions then fill the registers.
_WIDER, _WIDER_OF_MUCH, _MUCH = 4, 2, 20
_LONG = 16  # terms of a sum that are worth several totals


class Nest(Reducing):
    """Writes one kernel as a function of its buffers; in row tiles also of the range of its outermost loop."""

    def __init__(self, spelling: Spelling, kernel: Kernel, tiles: RowTiles | None = None) -> None:
        self.spelling, self.kernel, self.text = spelling, kernel, Text()
        self.own = tiles.own if tiles else {}  # buffers that hold only the iterations of a call
        self.begun = tiles.totals if tiles else {}  # results that a call adds to
        self.loops = kernel.loops
        self.in_parts = tiles is not None
        self.views = kernel.views
        self.buffers = list(dict.fromkeys(v.buffer for v in self.views))
        self.strides = {id(view): [loop.strides[i] for loop in self.loops] for i, view in enumerate(self.views)}
        self.depths = [self.suffix(r) for r in kernel.reductions]
        written = {view.buffer for view in kernel.writes()}
        declared = [spelling.parameter(f"b{i}", b.dtype, b not in written) for i, b in enumerate(self.buffers)]
        self.parameters = [text for text, _ in declared]
        self.places = {b: place for b, (_, place) in zip(self.buffers, declared, strict=True)}
        self.indices: list[str] = []
        self.ranges: list[tuple[int, int]] = []  # of the indices
        self.totals: dict[int, str] = {}  # variables of the reductions under way
        self.names = 0

    def define(self) -> str:
        """The name of the function."""
        for r, d in zip(self.kernel.reductions, self.depths, strict=True):
            if self.adds_to_memory(r, d) and r.view.buffer not in self.begun:
                self.fill(r)
        if all(self.kernel.domain):
            self.level(0)
        ends = [self.spelling.index_parameter(name) for name in ("start", "stop")] if self.in_parts else []
        return self.spelling.function("kernel", [*self.parameters, *ends], self.text.lines)

    def fresh(self, letter: str) -> str:
        self.names += 1
        return f"{letter}{self.names}"

    # -- loops --

    def level(self, level: int) -> None:
        """The loop of a level and its contents, with the reductions that begin here."""
        text, spelling = self.text, self.spelling
        beginning = [i for i, d in enumerate(self.depths) if d == level]
        for i in beginning:
            r = self.kernel.reductions[i]
            self.totals[i] = self.fresh("t")
            text.add(spelling.variable(self.totals[i], r.view.dtype, spelling.start_of(r.how, r.view.dtype)))
        if level == len(self.loops):
            self.body()
        else:
            start, stop = ("start", "stop") if level == 0 and self.in_parts else ("0", str(self.loops[level].length))
            if level == len(self.loops) - 1 and self.totals and self.loops[level].length > 2 * BLOCK:
                self.blocks(start, stop, level)
            else:
                self.loop(start, stop, level)
        for i in beginning:
            r, total = self.kernel.reductions[i], self.totals.pop(i)
            at = self.position(r.view)
            if self.adds_to_memory(r, level):
                total = spelling.combine(r.how, r.view.dtype, self.read(r.view, at), total)
            self.write(r.view, at, total)

    def loop(self, start: str, stop: str, level: int) -> None:
        """for index in start … stop: the next level. In parts, where windows begin and end."""
        whole = (0, self.loops[level].length)
        deep = any(self.is_cut(outer, *self.ranges[outer]) for outer in range(level))  # then tests are needed anyway
        parts = [whole] if deep else segments(self.edges(level), whole[1])
        for lo, hi in parts:
            self.ranges.append((lo, hi))
            if len(parts) == 1:
                self.stretch(start, stop, level)
            elif (start, stop) == ("0", str(whole[1])):
                self.stretch(str(lo), str(hi), level)
            else:
                self.stretch(f"({start} > {lo} ? {start} : {lo})", f"({stop} < {hi} ? {stop} : {hi})", level)
            self.ranges.pop()

    def stretch(self, start: str, stop: str, level: int) -> None:
        """One loop. A long sum has several totals, which become the lanes of a vector."""
        lanes = self.spelling.lanes if self.wants_lanes(level) else 1
        wider = _WIDER_OF_MUCH if len(self.kernel.code) >= _MUCH else _WIDER
        if lanes > 1 and self.loops[level].length >= _MANY * lanes * wider:
            lanes *= wider
        if lanes == 1:
            self.counted(self.fresh("i"), start, stop, level)
            return
        spelling, text = self.spelling, self.text
        outer, initial = self.fresh("i"), dict(self.totals)
        dtypes = {i: self.kernel.reductions[i].view.dtype for i in initial}
        names = {i: self.fresh("t") for i in initial}
        for i, name in names.items():
            zero = spelling.start_of(self.kernel.reductions[i].how, dtypes[i])
            text.add(spelling.array(name, dtypes[i], lanes, zero))
        known = start.isdigit() and stop.isdigit()
        end = str(int(stop) - (int(stop) - int(start)) % lanes) if known else self.fresh("k")
        if not known:
            text.add(spelling.index(end, f"{stop} - ({stop} - {start}) % {lanes}"))
        text.open(spelling.loop(outer, start, end, lanes))
        lane = self.fresh("l")
        text.open(spelling.loop(lane, "0", str(lanes)))
        self.totals = {i: f"{name}[{lane}]" for i, name in names.items()}
        self.inside(f"({outer} + {lane})", level)
        text.close()
        text.close()
        self.totals = initial
        if end != stop:
            text.open(spelling.loop(outer, end, stop))
            self.inside(outer, level)
            text.close()
        for i, name in names.items():
            how = self.kernel.reductions[i].how
            half, lane = self.fresh("h"), self.fresh("l")
            text.open(spelling.halving(half, lanes // 2))
            text.open(spelling.loop(lane, "0", half))
            total = spelling.combine(how, dtypes[i], f"{name}[{lane}]", f"{name}[{lane} + {half}]")
            text.add(f"{name}[{lane}] = {total};")
            text.close()
            text.close()
            text.add(f"{initial[i]} = {spelling.combine(how, dtypes[i], initial[i], f'{name}[0]')};")

    def wants_lanes(self, level: int) -> bool:
        """Whether the innermost loop carries nothing but sums and products of floats."""
        if level != len(self.loops) - 1 or not self.totals or self.loops[level].length < _LONG:
            return False
        carried = [self.kernel.reductions[i] for i in self.totals]
        return len(self.kernel.code) <= _MOST_COPIED and all(r.view.dtype.kind == "f" for r in carried)

    def counted(self, index: str, start: str, stop: str, level: int) -> None:
        if start == "0" and stop == "1":
            self.inside("0", level)
            return
        self.text.open(self.spelling.loop(index, start, stop))
        self.inside(index, level)
        self.text.close()

    def inside(self, index: str, level: int) -> None:
        self.indices.append(index)
        self.level(level + 1)
        self.indices.pop()

    def blocks(self, start: str, stop: str, level: int) -> None:
        """A long innermost loop in blocks: each has totals of its own, which limits rounding errors."""
        text, spelling, outer = self.text, self.spelling, dict(self.totals)
        block, end = self.fresh("k"), self.fresh("k")
        text.open(spelling.loop(block, start, stop, BLOCK))
        text.add(spelling.index(end, f"{block} + {BLOCK} < {stop} ? {block} + {BLOCK} : {stop}"))
        for i in outer:
            r = self.kernel.reductions[i]
            self.totals[i] = self.fresh("t")
            text.add(spelling.variable(self.totals[i], r.view.dtype, spelling.start_of(r.how, r.view.dtype)))
        self.loop(block, end, level)
        for i, total in outer.items():
            r = self.kernel.reductions[i]
            text.add(f"{total} = {spelling.combine(r.how, r.view.dtype, total, self.totals[i])};")
        text.close()
        self.totals = outer

    def fill(self, r: Reduce) -> None:
        """Initialise the result of a reduction in memory."""
        moving = [(k, loop.length, s) for k, (loop, s) in enumerate(zip(self.loops, self.strides[id(r.view)], strict=True)) if s]
        if not all(n for _, n, _ in moving):
            return
        at = [str(r.view.offset)] if r.view.offset else []
        for k, n, stride in moving:
            index = self.fresh("i")
            part = k == 0 and self.in_parts
            start, stop = ("start", "stop") if part else ("0", str(n))
            self.text.open(self.spelling.loop(index, start, stop))
            if part and r.view.buffer in self.own:
                index = f"({index} - start)"
            at.append(index if stride == 1 else f"{index} * {stride}")
        self.write(r.view, " + ".join(at) or "0", self.spelling.start_of(r.how, r.view.dtype))
        for _ in moving:
            self.text.close()

    # -- the body --

    def body(self) -> None:
        values = self.run(self.kernel.code)
        spelling = self.spelling
        for store in self.kernel.stores:
            self.write(store.view, self.position(store.view), values[store.scalar])
        for s in self.kernel.scatters:
            at = self.position(s.view, [(values[a], stride) for a, stride in zip(s.at, s.strides, strict=True)])
            value = values[s.scalar]
            self.write(s.view, at, spelling.combine("sum", s.view.dtype, self.read(s.view, at), value) if s.adds else value)
        for i, r in enumerate(self.kernel.reductions):
            self.text.add(f"{self.totals[i]} = {spelling.combine(r.how, r.view.dtype, self.totals[i], values[r.scalar])};")

    def run(self, lines: Sequence[Scalar]) -> list[str]:
        """The values of lines of code, at the current point of the loops."""
        values: list[str] = []
        for line in lines:
            if line.kind == "const":
                values.append(self.spelling.literal(line.data, line.dtype))
                continue
            if line.kind == "window":
                inner, window = line.data
                elsewhere = values[line.args[0]] if line.args else self.spelling.literal(0, line.dtype)
                values.append(self.window(inner, window, elsewhere, line.dtype))
                continue
            if line.kind == "load":
                value = self.read(line.data, self.position(line.data))
            elif line.kind == "gather":
                view, strides = line.data
                value = self.read(view, self.position(view, [(values[a], s) for a, s in zip(line.args, strides, strict=True)]))
            else:
                source = lines[line.args[0]].dtype
                value = self.spelling.operation(line.data, [values[a] for a in line.args], source, line.dtype)
            values.append(self.fresh("s"))
            self.text.add(self.spelling.let(values[-1], line.dtype, value))
        return values

    def window(self, inner: tuple[Scalar, ...], window: Window, elsewhere: str, dtype: Any) -> str:
        """The value of the last inner line where the point is inside, else another. Nothing outside is read."""
        if any(n == 1 and window[k] != (0, 1) for k, n in enumerate(self.kernel.domain)):
            return elsewhere  # an axis of length one has no loop: the window is empty
        tests: list[str] = []
        for loop, index, (start, stop) in zip(self.loops, self.indices, self.ranges, strict=True):
            lo, hi = window[loop.axes[0]] if len(loop.axes) == 1 else (0, loop.length)
            if hi <= start or stop <= lo:
                return elsewhere
            tests += [f"{index} >= {lo}"] * (lo > start) + [f"{index} < {hi}"] * (hi < stop)
        if not tests:
            return self.run(inner)[-1]
        name = self.fresh("s")
        self.text.add(self.spelling.variable(name, dtype, elsewhere))
        self.text.open(f"if ({' && '.join(tests)})")
        self.text.add(f"{name} = {self.run(inner)[-1]};")
        self.text.close()
        return name

    # -- memory --

    def read(self, view: View, at: str) -> str:
        return self.spelling.element(self.places[view.buffer], at, view.dtype)

    def write(self, view: View, at: str, value: str) -> None:
        self.text.add(f"{self.spelling.target(self.places[view.buffer], at)} = {value};")

    def position(self, view: View, moved: Sequence[tuple[str, int]] = ()) -> str:
        """The element of a view at the current point, as an offset in its buffer."""
        indices = self.indices
        if view.buffer in self.own and indices:
            indices = [f"({indices[0]} - start)", *indices[1:]]
        parts = [str(view.offset)] if view.offset else []
        steps = [*zip(indices, self.strides[id(view)], strict=False)]
        steps += [(self.spelling.as_index(value), stride) for value, stride in moved]
        parts += [index if stride == 1 else f"{index} * {stride}" for index, stride in steps if stride and index != "0"]
        return " + ".join(parts) or "0"
