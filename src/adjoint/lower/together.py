"""Independent steps that run at the same time: two loops over the same data, one forward and one backward, say.

    scan a            together:                     a long step that needs nothing of the others begins a member;
    kernel of a         scan a; kernel of a         what needs one member only goes on with it,
    scan b              scan b                      what needs several comes after all of them
    kernel of a, b    kernel of a, b

Steps that use all cores by themselves (a kernel in pieces, a large product) are never members. Which steps are grouped depends
on the program alone, and each computes what it would alone: the result is the same on any number of threads. If steps
of several members fail, the first one in the order of the program counts; steps are not grouped where that could not be told.
"""

from __future__ import annotations

from collections.abc import Sequence

from .kernel import Buffer, Kernel, Lapack, Lowered, Product, Step, Together, View, bodies, calls_python, can_fail
from .memory import plan
from .schedule import work

_LONG = 30_000  # additions that are worth a member: about 10 µs
_OWN_THREADS = 1 << 18  # multiplications of a product or a decomposition from which on BLAS uses threads of its own
_OWN_THREADS_VECTOR = 1 << 13  # the same of a matrix and a vector
_WINDOW = 200  # steps that are looked at together


def together(lowered: Lowered) -> None:
    """Group the steps of a program that may run at the same time. The order of the others changes where groups need it."""
    if sum(work(step) >= _LONG for step in lowered.steps) > 1:
        _Grouping(lowered).run()


class _Grouping:
    def __init__(self, lowered: Lowered) -> None:
        self.lowered = lowered
        self.steps = lowered.steps
        self.starts = {step for step in self.steps if work(step) >= _LONG and not uses_cores(step)}
        self.reads = {step: {view.buffer for view in step.reads()} for step in self.steps}
        self.writes = {step: {view.buffer for view in step.writes()} for step in self.steps}
        asked = [*lowered.outside, *(failed for failed, _ in lowered.failures), *([lowered.guard] if lowered.guard else [])]
        self.users: dict[Buffer, int] = {view.buffer: 1 for view in asked}  # how many read or write a buffer
        for step in self.steps:
            for buffer in self.reads[step] | self.writes[step]:
                self.users[buffer] = self.users.get(buffer, 0) + 1
        self.count = len(lowered.buffers)

    def run(self) -> None:
        i = 0
        while i < len(self.steps):
            found = self.split(self.steps[i : i + _WINDOW]) if self.steps[i] in self.starts else None
            if found is not None:
                before, members, after = found
                size = len(before) + sum(map(len, members)) + len(after)
                self.steps[i : i + size] = [*before, self.group(members), *after]
                i += len(before)
            i += 1

    def split(self, steps: Sequence[Step]) -> tuple[list[Step], list[list[Step]], list[Step]] | None:
        """Steps as what comes before a group, its members, and what comes after it; None if there are no two members."""
        end = next((i for i, step in enumerate(steps) if calls_python(step)), len(steps))
        while True:
            steps = steps[:end]
            needs = self.needs(steps)
            member = self.members(steps, needs)
            order = list(dict.fromkeys(m for m in member if m is not None and m >= 0))
            if len(order) < 2:
                return None
            before: set[int] = set()  # that no member holds, but one needs
            for i in reversed(range(len(steps))):
                if i in before or member[i] in order:
                    before |= {j for j in needs[i] if member[j] is None}
            stages = [-1 if i in before else member[i] if member[i] in order else len(steps) for i in range(len(steps))]
            failing = [i for i in range(len(steps)) if can_fail(steps[i])]
            
