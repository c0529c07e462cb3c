"""Parallel groups: independent steps that run at the same time, such as a forward and a backward loop over the same data.

    scan a            parallel group:               a long step that is independent of the others begins a member;
    kernel of a         scan a; kernel of a         a step that needs one member only joins it, unless that makes it the longest;
    scan b              scan b                      a step that needs several comes after the group
    kernel of a, b    kernel of a, b

Steps that use all cores by themselves (a kernel in pieces, a large product) are never members. Grouping depends on the program
alone and does not change the arithmetic: the result is the same on any number of threads. If several members fail, the first one
in program order counts; where that order could not be kept, steps are not grouped.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from ..switches import Switch
from .kernel import Buffer, Kernel, View, size_of
from .memory import plan
from .parts import Result, only, parts
from .schedule import work
from .step import Lapack, Lowered, ParallelGroup, PointTiles, Product, RowTiles, Step, TimeTiles, bodies, calls_python, can_fail

_LONG = 60_000  # additions of the smallest member: about 20 µs
_IN_PRODUCTS = 10  # multiplications of a matrix product in the time of an addition
#: The sizes from which BLAS uses its threads: multiplications of a product or a decomposition, elements of a matrix times a
#: vector, right-hand sides of a linear system.
_PRODUCT, _VECTOR, _COLUMNS = 1 << 19, 1 << 13, 8
_BY_VECTORS = ("eigen", "reflectors", "orthogonal", "singular")  # decompositions by matrix-vector products
_SMALL = 1024  # points of a kernel that may be split
_BYTE = np.dtype(np.uint8)
_WINDOW = 64  # steps considered for one group
_BEFORE, _AFTER = -1, _WINDOW


def group_parallel(lowered: Lowered) -> None:
    """Group the steps of a program that may run at the same time, reordering other steps where necessary."""
    if Switch.PARALLEL_GROUPS.on and sum(_length(step) >= _LONG and not uses_cores(step) for step in lowered.steps) > 1:
        _Grouping(lowered).run()


def _length(step: Step) -> int:
    return work(step) // _IN_PRODUCTS if isinstance(step, Product) else work(step)


def uses_cores(step: Step) -> bool:
    """Whether a step uses several cores by itself: its pieces do, or BLAS does for matrices of this size.

    Two BLAS calls that both use its threads run one after the other, and spin while they wait.
    """
    if isinstance(step, (Kernel, RowTiles, PointTiles, TimeTiles)):
        return step.chunks > 1
    if isinstance(step, Product):
        if step.is_narrow:
            return step.chunks > 1
        rows, columns = step.out.shape[-2:]
        return rows * columns * step.left.shape[-1] >= (_VECTOR if 1 in (rows, columns) else _PRODUCT)
    if isinstance(step, Lapack):
        rows, columns = (*step.inout, *step.outs)[0].shape[-2:]
        if step.routine in _BY_VECTORS:
            return rows * columns >= _VECTOR
        has_many = step.routine in ("solve", "triangular") and columns >= _COLUMNS
        return has_many or max(rows, columns) ** 3 >= _PRODUCT
    return any(uses_cores(inner) for body in bodies(step) for inner in body.steps)


class _Grouping:
    """Visits the steps of a program; a long one may begin a group with some of the following steps."""

    def __init__(self, lowered: Lowered) -> None:
        self.lowered = lowered
        self.parts: dict[Step, tuple[Kernel, list[Result]]] = {}  # of small kernels, during placement
        self.steps = [part for step in lowered.steps for part in self.apart(step)]
        self.busy = {step for step in self.steps if uses_cores(step)}
        self.lengths = {step: _length(step) for step in self.steps}
        self.python = {step for step in self.steps if calls_python(step)}
        self.failing = {step for step in self.steps if can_fail(step)}
        self.long = {step for step, length in self.lengths.items() if length >= _LONG} - self.busy - self.python
        self.reads = {step: {view.buffer for view in step.reads()} for step in self.steps}
        self.writes = {step: {view.buffer for view in step.writes()} for step in self.steps}
        self.needs = self.dependences()
        asked = [*lowered.out_of_bounds, *(failed for failed, _ in lowered.failures), *([lowered.guard] if lowered.guard else [])]
        self.users = dict.fromkeys((view.buffer for view in asked), 1)  # the number of steps that access a buffer
        for step in self.steps:
            for buffer in self.reads[step] | self.writes[step]:
                self.users[buffer] = self.users.get(buffer, 0) + 1
        self.numbers = len(lowered.buffers)  # the next buffer number

    def run(self) -> None:
        """Insert the groups; a program without any is unchanged."""
        i = 0
        while i < len(self.steps):
            window = self.steps[i : i + _WINDOW]
            places = self.split(window) if self.steps[i] in self.long else []
            if places:
                window = window[: len(places)]
                failing = [place for step, place in zip(window, places, strict=True) if step in self.failing]
                parts: dict[int, list[Step]] = {place: [] for place in (*failing, *places)}  # in program order, for failures
                for step, place in zip(window, places, strict=True):
                    parts[place].append(step)
                before, after = parts.pop(_BEFORE, []), parts.pop(_AFTER, [])
                self.steps[i : i + len(places)] = [*before, self.group(list(parts.values())), *after]
                i += len(before)
            i += 1
        if any(isinstance(step, ParallelGroup) for step in self.steps):
            self.lowered.steps[:] = self.whole(self.steps)

    def apart(self, step: Step) -> list[Step]:
        """The independent parts of a small kernel: one may be needed by a member, and another one need a member."""
        if not isinstance(step, Kernel) or size_of(step.domain) > _SMALL or uses_cores(step):
            return [step]
        found = parts(step)
        if len(found) == 1:
            return [step]
        made = [only(step, results) for results in found]
        self.parts.update((part, (step, results)) for part, results in zip(made, found, strict=True))
        return [*made]

    def whole(self, steps: Sequence[Step]) -> list[Step]:
        """Steps with the parts of a kernel rejoined where they have the same place."""
        found: list[Step] = []
        for kernel, some in itertools.groupby(steps, lambda step: self.parts[step][0] if step in self.parts else None):
            if kernel is None:
                found += some
            else:
                results = [result for part in some for result in self.parts[part][1]]
                found.append(only(kernel, results) if len(results) < len([*kernel.writes()]) else kernel)
        return found

    def split(self, steps: Sequence[Step]) -> list[int]:
        """The place of each of the first steps, as many as possible; empty if there are not two members."""
        end: int | None = next((i for i, step in enumerate(steps) if step in self.python), len(steps))
        while end is not None:
            steps = steps[:end]
            places = self.places(steps)
            end = self.out_of_order(steps, places)
        return places if len({*places} - {_BEFORE, _AFTER}) > 1 else []

    def places(self, steps: Sequence[Step]) -> list[int]:
        """The place of each step. Members are numbered by their first step."""
        known = {step: i for i, step in enumerate(steps)}
        needs = [[known[other] for other in self.needs[step] if other in known] for step in steps]
        found = self.members(steps, needs)
        if sum(found[i] == {i} for i in range(len(steps))) < 2:
            return [_AFTER] * len(steps)
        self.keep_balanced(steps, needs, found)
        before = _needed_by(needs, found)
        return [_BEFORE if i in before else min(f) if len(f) == 1 else _AFTER for i, f in enumerate(found)]

    def members(self, steps: Sequence[Step], needs: Sequence[Sequence[int]]) -> list[set[int]]:
        """The members that each step needs, or is in: a long step that needs none begins one. _AFTER if it cannot be in one."""
        found: list[set[int]] = []
        for i, step in enumerate(steps):
            above = set().union(*[found[j] for j in needs[i]])
            if above and step in self.busy:
                above.add(_AFTER)
            found.append(above or ({i} if step in self.long else above))
        return found

    def keep_balanced(self, steps: Sequence[Step], needs: Sequence[Sequence[int]], found: list[set[int]]) -> None:
        """Move long steps, and what needs them, behind the group where they would make their member the longest."""
        totals = {i: self.lengths[step] for i, step in enumerate(steps) if found[i] == {i}}
        longest = max(totals.values())
        for i, step in enumerate(steps):
            if len(found[i]) != 1 or found[i] == {i}:
                continue
            found[i] = set().union(*(found[j] for j in needs[i]))
            (member,) = found[i] - {_AFTER}
            totals[member] += self.lengths[step]
            if step in self.long and totals[member] > longest:
                found[i].add(_AFTER)

    def out_of_order(self, steps: Sequence[Step], places: Sequence[int]) -> int | None:
        """The first step whose failure would be out of order: failures come before a group, in its members in order, or after
        it."""
        seen: list[int] = []
        for i, (step, place) in enumerate(zip(steps, places, strict=True)):
            if step in self.failing:
                if seen and place != seen[-1] and (place in (_BEFORE, *seen) or seen[-1] == _AFTER):
                    return i
                seen.append(place)
        return None

    def dependences(self) -> dict[Step, set[Step]]:
        """The dependences of each step on earlier ones: read after write, write after read, write after write."""
        found: dict[Step, set[Step]] = {}
        written: dict[Buffer, Step] = {}
        read: dict[Buffer, list[Step]] = {}
        for step in self.steps:
            reads, writes = self.reads[step], self.writes[step]
            found[step] = {written[b] for b in reads | writes if b in written}
            found[step].update(other for b in writes for other in read.get(b, ()))
            for buffer in writes:
                written[buffer] = step
                read.pop(buffer, None)
            for buffer in reads - writes:
                read.setdefault(buffer, []).append(step)
        return found

    def group(self, members: list[list[Step]]) -> ParallelGroup:
        programs = tuple(map(self.member, members))
        scratch = []
        for program in programs:
            buffer = Buffer(self.numbers, _BYTE, program.arena, "local")
            self.numbers += 1
            self.lowered.buffers.append(buffer)
            scratch.append(View.whole(buffer, (buffer.size,)))
        return ParallelGroup(programs, tuple(scratch))

    def member(self, steps: list[Step]) -> Lowered:
        """Steps as a separate program; buffers that only they use become local to it."""
        users: dict[Buffer, int] = {}
        for step in steps:
            for buffer in dict.fromkeys(view.buffer for view in (*step.reads(), *step.writes())):
                users[buffer] = users.get(buffer, 0) + 1
        written = set().union(*(self.writes[step] for step in steps))
        own = {b for b, count in users.items() if b.kind == "local" and count == self.users[b]}
        inputs = [b for b in users if b not in own and b not in written]
        outputs = [View.whole(b, (b.size,)) for b in users if b not in own and b in written]
        self.lowered.buffers[:] = [b for b in self.lowered.buffers if b not in own]
        program = Lowered([b for b in users if b in own], self.whole(steps), inputs, outputs)
        plan(program)
        return program


def _needed_by(needs: Sequence[Sequence[int]], found: Sequence[set[int]]) -> set[int]:
    """The steps in no member that members need, directly or not."""
    before: set[int] = set()
    for i in reversed(range(len(needs))):
        if len(found[i]) == 1 or i in before:
            before.update(j for j in needs[i] if not found[j])
    return before
