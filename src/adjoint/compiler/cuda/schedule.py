"""Kernels in the form that launches can run: each reduces along one set of loops, and scatter-adds are done by sorting.

    kernel over (n, m):  store a, sum b over columns into r, sum c over all into s

    kernel over (n, m):  store a, sum b over columns into r, sum c over columns into t
    kernel over (n, 1):  sum t over all into s

Flags over a whole domain, such as whether an index was out of bounds, are initialised first and then set by any thread that finds
a violation. Scatter-adds write values and offsets to memory, and the values are added in the order of the points.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...core.types import Shape
from ..lower.dead_code import needed, prune
from ..lower.kernel import STARTS, Buffer, Dtype, Kernel, Reduce, Scatter, Store, View, contiguous, size_of
from ..lower.merge import merged, written_out
from ..lower.recompute import recomputed
from ..lower.schedule import arrange, group
from ..lower.step import Lowered, RowTiles, Scan, Step
from ..lower.sweep import Sweep, sweep
from .launch import Launch, covers
from .layout import NEIGHBOURS, SHARED, Layout, choose, in_shared_memory, is_flag, reduced_loops, resident
from .tiles import Tile, tiled

THREADS_OF_A_LOOP = 128  # of a block: there are few points, and each takes long
_PLACE = np.dtype(np.int64)


@dataclass(slots=True, eq=False)
class AddAt:
    """target[places[i] + j] += values[i, j] for each i, in order; j counts the elements of a row."""

    places: View
    values: View
    target: Buffer
    row: int
    lines: dict[str, None]
    is_fixed: bool = False  # the places are the same at every call

    def reads(self) -> Iterator[View]:
        yield from (self.places, self.values, View.whole(self.target, (self.target.size,)))

    def writes(self) -> Iterator[View]:
        yield View.whole(self.target, (self.target.size,))

    def __str__(self) -> str:
        return f"add {self.values!r} to {self.target!r} at {self.places!r}"


def schedule(lowered: Lowered) -> None:
    """Replace the kernels of a program by launches."""
    made = Scheduling(lowered.buffers)
    steps: list[Any] = []
    parts = [part for whole in prune(lowered.steps) for part in apart(whole)]
    parts = merged(lowered, prune(recomputed(lowered, parts)))
    lowered.steps = prune(recomputed(lowered, parts))
    for step in lowered.steps:
        if isinstance(step, Kernel):
            arrange(step)
    group(lowered, lowered.steps, finest=True)
    for step in lowered.steps:
        if isinstance(step, Kernel):
            steps += made.launches(step)
        elif isinstance(step, RowTiles):
            steps += made.tile(step)
        else:
            steps.append(made.swept(step) if isinstance(step, Scan) else step)
    lowered.steps = steps


def apart(step: Step) -> list[Step]:
    """Split a kernel that reduces along loops that are not nested in each other, such as rows and columns."""
    if not isinstance(step, Kernel):
        return [step]
    kernel = written_out(step)
    arrange(kernel)
    masks = {id(r): reduced_loops(kernel, r) for r in kernel.reductions if not is_flag(kernel, r)}
    roots = {m: None for m in masks.values() if not any(other < m for other in masks.values())}
    if len(roots) < 2 or 0 in kernel.domain:
        return [kernel]
    parts: list[Step] = []
    rest = list(kernel.reductions)
    for root in roots:
        own = [r for r in rest if root <= masks.get(id(r), root)]
        rest = [r for r in rest if r not in own]
        first = not parts
        part = Kernel(kernel.domain, kernel.code, kernel.stores if first else [], own, kernel.scatters if first else [])
        part.lines = kernel.lines
        parts.append(part)
    return prune(parts)


class Scheduling:
    """Makes launches of kernels, and the buffers between them."""

    def __init__(self, buffers: list[Buffer]) -> None:
        self.buffers = buffers

    def local(self, shape: Shape, dtype: Dtype) -> View:
        buffer = Buffer(len(self.buffers), dtype, size_of(shape), "local")
        self.buffers.append(buffer)
        return View.whole(buffer, shape)

    def swept(self, scan: Scan) -> Step | Sweep:
        """A loop as one launch, if its body is elementwise: the loop moves inside the thread."""
        found = sweep(scan)
        if found is None:
            return scan
        kernel = found.kernel
        made = Launch(kernel.domain, kernel.code, kernel.stores, lines=scan.lines)
        arrange(made)
        points = size_of(made.domain)
        kept = tuple(range(len(made.loops)))
        room = resident(made, THREADS_OF_A_LOOP)
        made.layout = Layout(kept, (), points, 1, threads=THREADS_OF_A_LOOP, resident=room)
        return replace(found, kernel=made)

    def launches(self, kernel: Kernel) -> Iterator[Step | AddAt]:
        """A kernel as launches that each reduce along one set of loops: first along the fewest, then the rest of its sums."""
        if 0 in kernel.domain:
            for r in kernel.reductions:
                yield self.filled(r.view.buffer, STARTS[r.how], kernel)
            return
        arrange(kernel)
        flags = [r for r in kernel.reductions if is_flag(kernel, r)]
        for r in flags:
            yield self.filled(r.view.buffer, STARTS[r.how], kernel)
        sums = [(reduced_loops(kernel, r), r) for r in kernel.reductions if r not in flags]
        root = min((mask for mask, _ in sums), key=len, default=frozenset())
        reductions, later = [], []
        for mask, r in sums:
            if mask == root:
                reductions.append(r)
            else:
                first, then = self.in_two(kernel, root, r)
                reductions.append(first)
                later.append(then)
        for i, some in enumerate(fitting(reductions)):
            stores, scatters = (kernel.stores, kernel.scatters) if i == 0 else ([], [])
            part = Kernel(kernel.domain, kernel.code, stores, some + (flags if i == 0 else []), scatters, lines=kernel.lines)
            copies = self.apart_from_others(part)
            prune([part])
            yield from self.launch(part)
            yield from copies
        for part in later:
            yield from self.launches(part)

    def tile(self, rows: RowTiles) -> Iterator[Step | AddAt | Tile]:
        """Kernels over the same rows as one launch, if possible."""
        made = tiled(rows)
        if made is None:
            for kernel in rows.kernels:
                yield from self.launches(kernel)
            return
        for kernel in made.kernels:
            yield from (self.filled(r.view.buffer, STARTS[r.how], kernel) for r in kernel.reductions if is_flag(kernel, r))
        for total in made.totals:
            made.parts[total] = self.local((made.blocks, total.size), total.dtype).buffer
        yield made
        yield from self.last({total: (how, made.parts[total]) for total, how in made.totals.items()}, made.blocks, made.lines)

    def apart_from_others(self, kernel: Kernel) -> list[Launch]:
        """Let reductions that write a part of a buffer, be it of a stack, write to buffers of their own, if they are to be cut
        into pieces; returns the launches that copy their results."""
        arrange(kernel)
        if all(covers(kernel, r.view.buffer) for r in kernel.reductions) or choose(kernel).pieces == 1:
            return []
        copies: dict[Shape, Launch] = {}
        for i, r in enumerate(kernel.reductions):
            if is_flag(kernel, r) or covers(kernel, r.view.buffer):
                continue
            shape = tuple(n if stride else 1 for n, stride in zip(kernel.domain, r.view.strides, strict=True))
            own = self.local(shape, r.view.dtype)
            copy = copies.setdefault(shape, Launch(shape, lines=kernel.lines))
            copy.stores.append(Store(copy.add("load", (), own, own.dtype), replace(r.view, shape=shape)))
            kernel.reductions[i] = replace(r, view=own.over(kernel.domain))
        for copy in copies.values():
            arrange(copy)
            copy.layout = choose(copy)
        return list(copies.values())

    def in_two(self, kernel: Kernel, root: frozenset[int], r: Reduce) -> tuple[Reduce, Kernel]:
        """A reduction along more loops than `root`: along those first, then the rest."""
        axes = {axis for loop in root for axis in kernel.loops[loop].axes}
        shape = tuple(1 if k in axes else n for k, n in enumerate(kernel.domain))
        between = self.local(shape, r.view.dtype)
        rest = Kernel(shape, lines=kernel.lines)
        line = rest.add("load", (), between, between.dtype)
        rest.reductions.append(Reduce(r.how, line, r.axes, replace(r.view, shape=shape)))
        return Reduce(r.how, r.scalar, tuple(sorted(axes)), between.over(kernel.domain)), rest

    def launch(self, kernel: Kernel) -> Iterator[Step | AddAt]:
        made = Launch(kernel.domain, kernel.code, list(kernel.stores), kernel.reductions, lines=kernel.lines)
        added = []
        for scatter in kernel.scatters:
            outer = rows_of(kernel, scatter)
            inner = len(kernel.domain) - outer
            places = self.local(kernel.domain[:outer] + (1,) * inner, _PLACE)
            values = self.local(kernel.domain, scatter.view.dtype)
            start = replace(scatter.view, strides=scatter.view.strides[:outer] + (0,) * inner)
            store = Store(scatter.scalar, places.over(kernel.domain))
            made.stores += [Store(scatter.scalar, values), store]
            made.places[store] = replace(scatter, view=start)
            row, fixed = size_of(kernel.domain[outer:]), _is_fixed(kernel, scatter.at)
            added.append(AddAt(places, values, scatter.view.buffer, row, kernel.lines, fixed))
        made.scatters = list(made.places.values())
        arrange(made)
        made.layout = choose(made, in_pieces=all(covers(made, r.view.buffer) for r in made.reductions))
        yield made
        yield from self.combined(made)
        yield from added  # type: ignore[misc]

    def combined(self, made: Launch) -> Iterator[Step]:
        """The buffers for the partial results of a launch, and the kernels that combine them."""
        pieces = made.layout.pieces
        if pieces == 1:
            return
        for r in made.reductions:
            out = r.view.buffer
            if is_flag(made, r) or out in made.partials:
                continue
            made.partials[out] = (r.how, self.local((pieces, out.size), out.dtype).buffer)
        yield from self.last(made.partials, pieces, made.lines)

    def last(self, partials: dict[Buffer, tuple[str, Buffer]], count: int, lines: dict[str, None]) -> Iterator[Step]:
        """The launches that combine the parts of results, in order: one for those of the same size."""
        for size in dict.fromkeys(out.size for out in partials):
            whole = Kernel((count, size), lines=lines)
            for out, (how, parts) in partials.items():
                if out.size == size:
                    line = whole.add("load", (), View.whole(parts, whole.domain), out.dtype)
                    whole.reductions.append(Reduce(how, line, (0,), View(out, whole.domain, (0, *contiguous((size,))))))
            for some in fitting(whole.reductions):
                made = Launch(whole.domain, whole.code, reductions=some, lines=lines)
                prune([made])
                arrange(made)
                made.layout = choose(made, in_pieces=False)
                yield made

    def filled(self, buffer: Buffer, value: Any, kernel: Kernel) -> Step:
        made = Launch((buffer.size,), lines=kernel.lines)
        line = made.add("const", (), buffer.dtype.type(value).item(), buffer.dtype)
        made.stores.append(Store(line, View.whole(buffer, (buffer.size,))))
        arrange(made)
        made.layout = choose(made)
        return made


def rows_of(kernel: Kernel, scatter: Scatter) -> int:
    """The number of outer axes that decide where a scatter adds: along the others it adds to contiguous elements, of whole rows
    of the target."""
    outer, row = len(kernel.domain), 1
    used = _axes(kernel, needed(kernel.code, set(scatter.at)))
    while outer and outer - 1 not in used and (kernel.domain[outer - 1] == 1 or scatter.view.strides[outer - 1] == row):
        outer -= 1
        row *= kernel.domain[outer]
    steps = (*scatter.strides, *scatter.view.strides[:outer], scatter.view.offset, scatter.view.buffer.size)
    return outer if not any(step % row for step in steps) else len(kernel.domain)


def _axes(kernel: Kernel, lines: Sequence[int]) -> set[int]:
    """The axes of the domain along which lines vary."""
    found: set[int] = set()
    for line in (kernel.code[i] for i in lines):
        if line.kind == "window":
            return {*range(len(kernel.domain))}
        if line.kind in ("load", "gather"):
            view = line.data if line.kind == "load" else line.data[0]
            found |= {axis for axis, stride in enumerate(view.strides) if stride}
    return found


def fitting(reductions: Sequence[Reduce]) -> list[list[Reduce]]:
    """Reductions in groups whose totals fit in the shared memory of a block of one warp. At least one group."""
    groups: list[list[Reduce]] = [[]]
    for r in reductions:
        if NEIGHBOURS * in_shared_memory([*groups[-1], r]) > SHARED:
            groups.append([])
        groups[-1].append(r)
    return groups


def _is_fixed(kernel: Kernel, lines: Sequence[int]) -> bool:
    """Whether lines are computed from constants alone."""
    code = [kernel.code[i] for i in needed(kernel.code, set(lines))]
    return all(line.kind in ("const", "op") or (line.kind == "load" and line.data.buffer.kind == "constant") for line in code)
