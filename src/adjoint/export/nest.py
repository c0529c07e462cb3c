"""A kernel as nested `for` loops, in C or JavaScript.

    static void kernel1(const double *restrict b0, double *restrict b1) {
      double t0 = 0.0;
      for (ptrdiff_t i0 = 0; i0 < 1000; ++i0) {
        const double s0 = b0[i0];
        t0 = t0 + s0 * s0;
      }
      b1[0] = t0;
    }

Loops, windows and the order of sums are those of `compiler.llvm.nest`. A value that an inner loop does not change is computed
before it. V8 neither unrolls loops nor moves checks out of them, so for JavaScript an innermost loop is written as several
iterations at a time (`copies`), each with its own running totals.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from ..compiler.llvm.nest import BLOCK, Reducing, segments
from ..compiler.lower.kernel import Buffer, Kernel, KernelLine, Reduce, View, Window
from ..compiler.lower.step import RowTiles
from .spelling import IndentedText, Language, Pointer

_MOST_COPIED = 60  # lines of a loop that is written twice, for whole vectors and for the rest
_MANY = 4  # vectors in a loop from which on several are added side by side
#: How many: gcc unrolls a loop of 16 iterations and few instructions before it makes vectors, so that it needs 32; the totals of
#: a loop of many instructions then fill the registers.
_WIDER, _WIDER_OF_MUCH, _MUCH = 4, 2, 20
_LONG = 16  # terms of a sum that are worth several totals
_COPIES = ((24, 4), (72, 2))  # lines of a loop, and how many iterations are written one after the other
_CALLS = 4  # functions that V8 inlines at most; other calls allocate their results


class ShiftedIndex(NamedTuple):
    """The index of a loop, plus a number that is known here."""

    name: str
    ahead: int = 0

    def __str__(self) -> str:
        return f"({self.name} + {self.ahead})" if self.ahead else self.name


class Nest(Reducing):
    """Writes one kernel as a function of its buffers; in row tiles also of the range of its outermost loop."""

    def __init__(
        self, spelling: Language, kernel: Kernel, tiles: RowTiles | None = None, *, places: Mapping[Buffer, Pointer]
    ) -> None:
        self.spelling, self.kernel, self.text = spelling, kernel, IndentedText()
        self.own = tiles.own if tiles else {}  # buffers that hold only the iterations of a call
        self.begun = tiles.totals if tiles else {}  # results that a call adds to
        self.loops = kernel.loops
        self.in_parts = tiles is not None
        self.views = kernel.views
        self.buffers = list(dict.fromkeys(v.buffer for v in self.views))
        self.strides = {id(view): [loop.strides[i] for loop in self.loops] for i, view in enumerate(self.views)}
        self.depths = [self.suffix(r) for r in kernel.reductions]
        self.written = {view.buffer for view in kernel.writes()}
        declared = [
            spelling.parameter(f"b{i}", b.dtype, b not in self.written, places.get(b)) for i, b in enumerate(self.buffers)
        ]
        self.parameters = [text for text, _ in declared]
        self.places = {b: place for b, (_, place) in zip(self.buffers, declared, strict=True)}
        self.needs = self.loops_of_lines()
        self.values: dict[int, str] = {}  # lines that are computed already, outside the innermost loop
        self.loaded: dict[tuple[Buffer, str, str], str] = {}  # elements that are in a variable
        self.bases: dict[tuple[Buffer, tuple[int, ...]], Pointer] = {}  # where the innermost loop begins in a buffer
        self.indices: list[ShiftedIndex] = []
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

    @contextmanager
    def scope(self) -> Iterator[None]:
        """What is computed here is not known afterwards."""
        known = dict(self.values), dict(self.loaded), dict(self.bases)
        yield
        self.values, self.loaded, self.bases = known

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """A block of text, with variables of its own."""
        self.text.open(head)
        with self.scope():
            yield
        self.text.close()

    def loops_of_lines(self) -> list[int]:
        """How many loops, from the outermost, each line depends on: all, if it reads what the kernel writes."""
        needs: list[int] = []
        for line in self.kernel.code:
            found = [needs[a] for a in line.args]
            if line.kind == "window":
                found.append(len(self.loops))
            elif line.kind in ("load", "gather"):
                view = line.data if line.kind == "load" else line.data[0]
                moving = [k + 1 for k, stride in enumerate(self.strides[id(view)]) if stride]
                found += [len(self.loops)] if view.buffer in self.written else moving
            needs.append(max(found, default=0))
        return needs

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
            self.compute(self.kernel.code, level)
            start, stop = ("start", "stop") if level == 0 and self.in_parts else ("0", str(self.loops[level].length))
            if level == len(self.loops) - 1 and self.totals and self.loops[level].length > 2 * BLOCK:
                self.blocks(start, stop, level)
            else:
                self.loop(start, stop, level)
        for i in beginning:
            r, total = self.kernel.reductions[i], self.totals.pop(i)
            target = self.position(r.view)
            if self.adds_to_memory(r, level):
                before = self.let(r.view.dtype, spelling.element(*target, r.view.dtype))
                total = spelling.combine(r.how, r.view.dtype, before, total)
            text.add(f"{spelling.target(*target)} = {total};")

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
        """One loop: a long sum has several totals; an innermost loop may have several iterations written out."""
        innermost = level == len(self.loops) - 1
        if innermost:
            self.place_rows()
        lanes = self.spelling.lanes if innermost and self.wants_lanes(level) else 1
        if lanes > 1:
            self.in_lanes(start, stop, level, lanes)
            return
        copies = self.copies(level) if innermost and self.spelling.copies else 1
        if copies > 1:
            self.in_copies(start, stop, level, copies)
            return
        self.counted(self.fresh("i"), start, stop, level)

    def in_lanes(self, start: str, stop: str, level: int, lanes: int) -> None:
        """Totals are the elements of small arrays, which compilers turn into vectors."""
        spelling, text = self.spelling, self.text
        wider = _WIDER_OF_MUCH if len(self.kernel.code) >= _MUCH else _WIDER
        if self.loops[level].length >= _MANY * lanes * wider:
            lanes *= wider
        initial = dict(self.totals)
        dtypes = {i: self.kernel.reductions[i].view.dtype for i in initial}
        names = {i: self.fresh("t") for i in initial}
        for i, name in names.items():
            zero = spelling.start_of(self.kernel.reductions[i].how, dtypes[i])
            text.add(spelling.array(name, dtypes[i], lanes, zero))
        end = self.whole_steps(start, stop, lanes)
        outer, lane = self.fresh("i"), self.fresh("l")
        with self.block(spelling.loop(outer, start, end, lanes)), self.block(spelling.loop(lane, "0", str(lanes))):
            self.totals = {i: f"{name}[{lane}]" for i, name in names.items()}
            self.inside(ShiftedIndex(f"({outer} + {lane})"), level)
        self.totals = initial
        if end != stop:
            with self.block(spelling.loop(outer, end, stop)):
                self.inside(ShiftedIndex(outer), level)
        for i, name in names.items():
            how = self.kernel.reductions[i].how
            half, lane = self.fresh("h"), self.fresh("l")
            with self.block(spelling.halving(half, lanes // 2)), self.block(spelling.loop(lane, "0", half)):
                total = spelling.combine(how, dtypes[i], f"{name}[{lane}]", f"{name}[{lane} + {half}]")
                text.add(f"{name}[{lane}] = {total};")
            text.add(f"{initial[i]} = {spelling.combine(how, dtypes[i], initial[i], f'{name}[0]')};")

    def in_copies(self, start: str, stop: str, level: int, copies: int) -> None:
        """Some iterations written out, which share what they read; each adds to totals of its own."""
        spelling, text, initial = self.spelling, self.text, dict(self.totals)
        totals = [initial, *({i: self.fresh("t") for i in initial} for _ in range(copies - 1))]
        for own in totals[1:]:
            for i, name in own.items():
                r = self.kernel.reductions[i]
                text.add(spelling.variable(name, r.view.dtype, spelling.start_of(r.how, r.view.dtype)))
        end = self.whole_steps(start, stop, copies)
        index = self.fresh("i")
        with self.block(spelling.loop(index, start, end, copies)):
            for ahead, self.totals in enumerate(totals):
                self.inside(ShiftedIndex(index, ahead), level)
        self.totals = initial
        if end != stop:
            with self.block(spelling.loop(index, end, stop)):
                self.inside(ShiftedIndex(index), level)
        for own in totals[1:]:
            for i, name in own.items():
                r = self.kernel.reductions[i]
                text.add(f"{initial[i]} = {spelling.combine(r.how, r.view.dtype, initial[i], name)};")

    def whole_steps(self, start: str, stop: str, step: int) -> str:
        """Where a loop of whole steps ends."""
        if start.isdigit() and stop.isdigit():
            return str(int(stop) - (int(stop) - int(start)) % step)
        end = self.fresh("k")
        self.text.add(self.spelling.index(end, f"{stop} - ({stop} - {start}) % {step}"))
        return end

    def copies(self, level: int) -> int:
        """How many iterations of the innermost loop are written out: fewer of a long one, or of one that calls functions."""
        code = self.kernel.code
        lines = [*code, *(inner for line in code if line.kind == "window" for inner in line.data[0])]
        calls = sum(self.spelling.calls(line.data) for line in lines if line.kind == "op")
        copies = next((n for most, n in _COPIES if len(lines) <= most and n * calls <= _CALLS), 1)
        lo, hi = self.ranges[level]
        return copies if hi - lo >= 2 * copies else 1

    def place_rows(self) -> None:
        """Compute where the innermost loop begins in each buffer, if the language's compilers do not."""
        for view in self.views if self.spelling.places_rows else ():
            *outer, last = self.strides[id(view)]
            key = view.buffer, tuple(outer)
            if not any(outer) or key in self.bases or not (last or view.buffer in self.written):
                continue
            place, at = self.position(View(view.buffer, view.shape, view.strides), strides=outer)
            name = self.fresh("p")
            self.text.add(self.spelling.index(name, self.spelling.whole(self.spelling.sum_of([place.at, at]))))
            self.bases[key] = Pointer(place.array, name)

    def wants_lanes(self, level: int) -> bool:
        """Whether the innermost loop carries nothing but sums and products of floats."""
        if not self.totals or self.loops[level].length < _LONG:
            return False
        carried = [self.kernel.reductions[i] for i in self.totals]
        return len(self.kernel.code) <= _MOST_COPIED and all(r.view.dtype.kind == "f" for r in carried)

    def counted(self, index: str, start: str, stop: str, level: int) -> None:
        if start == "0" and stop == "1":
            with self.scope():
                self.inside(ShiftedIndex("0"), level)
            return
        with self.block(self.spelling.loop(index, start, stop)):
            self.inside(ShiftedIndex(index), level)

    def inside(self, index: ShiftedIndex, level: int) -> None:
        self.indices.append(index)
        self.level(level + 1)
        self.indices.pop()

    def blocks(self, start: str, stop: str, level: int) -> None:
        """A long innermost loop in blocks: each has totals of its own, which limits rounding errors."""
        text, spelling, outer = self.text, self.spelling, dict(self.totals)
        block, end = self.fresh("k"), self.fresh("k")
        with self.block(spelling.loop(block, start, stop, BLOCK)):
            text.add(spelling.index(end, f"{block} + {BLOCK} < {stop} ? {block} + {BLOCK} : {stop}"))
            for i in outer:
                r = self.kernel.reductions[i]
                self.totals[i] = self.fresh("t")
                text.add(spelling.variable(self.totals[i], r.view.dtype, spelling.start_of(r.how, r.view.dtype)))
            self.loop(block, end, level)
            for i, total in outer.items():
                r = self.kernel.reductions[i]
                text.add(f"{total} = {spelling.combine(r.how, r.view.dtype, total, self.totals[i])};")
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
            at.append(self.spelling.times(index, stride))
        target = self.spelling.target(self.places[r.view.buffer], self.spelling.sum_of(at))
        self.text.add(f"{target} = {self.spelling.start_of(r.how, r.view.dtype)};")
        for _ in moving:
            self.text.close()

    # -- the body --

    def body(self) -> None:
        values = self.run(self.kernel.code, self.values)
        spelling, text = self.spelling, self.text
        for store in self.kernel.stores:
            text.add(f"{spelling.target(*self.position(store.view))} = {values[store.scalar]};")
        for s in self.kernel.scatters:
            place = self.position(s.view, [(values[a], stride) for a, stride in zip(s.at, s.strides, strict=True)])
            value = values[s.scalar]
            if s.adds:
                value = spelling.combine("sum", s.view.dtype, spelling.element(*place, s.view.dtype), value)
            text.add(f"{spelling.target(*place)} = {value};")
        for i, r in enumerate(self.kernel.reductions):
            text.add(f"{self.totals[i]} = {spelling.combine(r.how, r.view.dtype, self.totals[i], values[r.scalar])};")

    def compute(self, lines: Sequence[KernelLine], level: int) -> None:
        """The lines that depend on the loops around this level, and on no other."""
        for i, line in enumerate(lines):
            if self.needs[i] == level and line.kind != "const":
                self.values[i] = self.value(line, lines, self.values)
            elif line.kind == "const":
                self.values[i] = self.spelling.literal(line.data, line.dtype)

    def run(self, lines: Sequence[KernelLine], known: dict[int, str]) -> dict[int, str]:
        """The values of lines of code, at the current point of the loops."""
        values = dict(known)
        for i, line in enumerate(lines):
            if i not in values:
                values[i] = self.value(line, lines, values)
        return values

    def value(self, line: KernelLine, lines: Sequence[KernelLine], values: dict[int, str]) -> str:
        """The value of a line: a variable, or a literal."""
        if line.kind == "const":
            return self.spelling.literal(line.data, line.dtype)
        if line.kind == "window":
            inner, window = line.data
            elsewhere = values[line.args[0]] if line.args else self.spelling.literal(0, line.dtype)
            return self.window(inner, window, elsewhere, line.dtype)
        if line.kind == "load":
            return self.load(line.data, self.position(line.data))
        if line.kind == "gather":
            view, strides = line.data
            return self.load(view, self.position(view, [(values[a], s) for a, s in zip(line.args, strides, strict=True)]))
        source = lines[line.args[0]].dtype
        return self.let(line.dtype, self.spelling.operation(line.data, [values[a] for a in line.args], source, line.dtype))

    def let(self, dtype: Any, value: str) -> str:
        name = self.fresh("s")
        self.text.add(self.spelling.let(name, dtype, value))
        return name

    def load(self, view: View, where: tuple[Pointer, str]) -> str:
        """An element; one that was read before is not read again, unless the kernel writes to its buffer."""
        key = view.buffer, where[0].at, where[1]
        if key not in self.loaded or view.buffer in self.written:
            self.loaded[key] = self.let(view.dtype, self.spelling.element(*where, view.dtype))
        return self.loaded[key]

    def window(self, inner: tuple[KernelLine, ...], window: Window, elsewhere: str, dtype: Any) -> str:
        """The value of the last inner line where the point is inside, else another. Nothing outside is read."""
        if any(n == 1 and window[k] != (0, 1) for k, n in enumerate(self.kernel.domain)):
            return elsewhere  # an axis of length one has no loop: the window is empty
        tests: list[str] = []
        for loop, index, (start, stop) in zip(self.loops, self.indices, self.ranges, strict=True):
            lo, hi = window[loop.axes[0]] if len(loop.axes) == 1 else (0, loop.length)
            if hi <= start or stop <= lo:
                return elsewhere
            tests += [f"{index} >= {lo}"] * (lo > start) + [f"{index} < {hi}"] * (hi < stop)
        last = len(inner) - 1
        if not tests:
            return self.run(inner, {})[last]
        name = self.fresh("s")
        self.text.add(self.spelling.variable(name, dtype, elsewhere))
        with self.block(f"if ({' && '.join(tests)})"):
            self.text.add(f"{name} = {self.run(inner, {})[last]};")
        return name

    # -- memory --

    def position(
        self, view: View, moved: Sequence[tuple[str, int]] = (), strides: Sequence[int] | None = None
    ) -> tuple[Pointer, str]:
        """The element of a view at the current point: a place, and an offset from it."""
        spelling, indices = self.spelling, list(self.indices)
        strides = self.strides[id(view)] if strides is None else strides
        place = self.places[view.buffer]
        base = self.bases.get((view.buffer, tuple(strides[:-1]))) if len(indices) == len(self.loops) else None
        if base is not None:
            place, indices, strides = base, indices[-1:], strides[-1:]
        elif view.buffer in self.own and indices:
            indices[0] = ShiftedIndex(f"({indices[0]} - start)")
        steps = [(index.name, stride) for index, stride in zip(indices, strides, strict=False)]
        steps += [(spelling.as_index(value), stride) for value, stride in moved]
        ahead = view.offset + sum(index.ahead * stride for index, stride in zip(indices, strides, strict=False))
        parts = [spelling.times(name, stride) for name, stride in steps if stride and name != "0"]
        return place, spelling.sum_of([str(ahead)] * bool(ahead) + parts)
