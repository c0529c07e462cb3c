"""Cheap values are computed again by the kernels that read them, rather than stored.

    b[i] = g[i] * k[i]                                  (the adjoint of a stencil)
    h[i] = g[i] + b[i - 1] + b[i + 1]          →        h[i] = g[i] + g[i - 1] * k[i - 1] + g[i + 1] * k[i + 1]

    y = tanh(x); d = 1 - y * y                 →        y = tanh(x)
    ...                                                 ...
    out = h * d                                         out = h * (1 - y * y)

For a GPU, where kernels wait for memory: a value is recomputed if that moves fewer bytes. It is recomputed from what its kernel
reads, or from what it stores beside it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from .kernel import Buffer, Dtype, Kernel, KernelLine, Store, View
from .schedule import cost
from .step import Lowered, Step

CHEAP = 12  # additions per point; up to this cost, recompute
TRIFLE = 3  # the same, for each point of a larger domain
MOST_LINES = 24
LAUNCH = 4 << 20  # bytes that a GPU moves in the time of a launch


def recomputed(lowered: Lowered, steps: list[Step]) -> list[Step]:
    """The steps, without stores of values that their readers recompute."""
    accesses = _Accesses(lowered, steps)
    for i, step in enumerate(steps):
        if isinstance(step, Kernel):
            for store in list(step.stores):
                if accesses.moves(i, step, store):
                    step.stores.remove(store)  # at once: the next value must not be computed from it
    return [step for step in steps if not isinstance(step, Kernel) or any(True for _ in step.writes())]


class _Accesses:
    """Which steps read and write each buffer."""

    def __init__(self, lowered: Lowered, steps: list[Step]) -> None:
        self.steps, self.asked = steps, {view.buffer for view in lowered.asked}
        self.writers: dict[Buffer, list[int]] = defaultdict(list)
        self.readers: dict[Buffer, list[int]] = defaultdict(list)
        for i, step in enumerate(steps):
            for buffer in {view.buffer for view in step.writes()}:
                self.writers[buffer].append(i)
            for buffer in {view.buffer for view in step.reads()}:
                self.readers[buffer].append(i)

    def moves(self, i: int, kernel: Kernel, store: Store) -> bool:
        """Move a value from its store in the step i to those that read it, if that pays; returns whether it did."""
        buffer = store.view.buffer
        if buffer.kind != "local" or buffer in self.asked or self.writers[buffer] != [i]:
            return False
        value = _Value.of(kernel, store, {b for b, at in self.writers.items() if at == [i]})
        if value is None or any(self.writers[b] and self.writers[b][-1] > i for b in value.buffers):
            return False
        steps = [self.steps[j] for j in self.readers[buffer]]
        users = [step for step in steps if isinstance(step, Kernel) and value.suits(step)]
        if len(users) < len(steps) or not value.pays(users):
            return False
        for user in users:
            value.put_into(user)
        for other in value.buffers:
            self.readers[other] = sorted({*self.readers[other], *self.readers[buffer]})
        return True


class _Value:
    """A stored value and its code; the last line gives it."""

    def __init__(self, kernel: Kernel, store: Store, code: list[KernelLine]) -> None:
        self.kernel, self.view, self.code = kernel, store.view, code
        self.loads = [line.data for line in code if line.kind == "load"]
        self.buffers = {view.buffer for view in self.loads}
        self.cost = sum(cost(line) for line in code if line.kind == "op")

    @classmethod
    def of(cls, kernel: Kernel, store: Store, own: set[Buffer]) -> _Value | None:
        """The code of a store; None if it is not cheap. Values that the kernel stores in buffers of its `own` are loaded."""
        if sum(s.view.buffer is store.view.buffer for s in kernel.stores) > 1:
            return None
        stored = {s.scalar: s.view for s in kernel.stores if s is not store and s.view.buffer in own}
        lines: dict[int, KernelLine] = {}
        waiting = [store.scalar]
        while waiting:
            i = waiting.pop()
            if i not in lines:
                line = kernel.code[i]
                lines[i] = line = KernelLine("load", (), stored[i], line.dtype) if i in stored else line
                waiting += line.args
            if line.kind not in ("load", "const", "op") or len(lines) > MOST_LINES:
                return None
        numbers = {i: k for k, i in enumerate(sorted(lines))}
        code = [replace(lines[i], args=tuple(numbers[a] for a in lines[i].args)) for i in numbers]
        found = cls(kernel, store, code)
        return found if found.cost <= CHEAP else None

    def suits(self, user: Kernel) -> bool:
        """Whether a kernel reads the value only where it can be recomputed: at the same points, or where all of its operands are
        stored alike."""
        if any(line.kind == "gather" and line.data[0].buffer is self.view.buffer for line in user.code):
            return False
        read = [view for view in user.reads() if view.buffer is self.view.buffer]
        if user.domain != self.kernel.domain and self.cost > TRIFLE:
            return False
        alike = all(view.strides == self.view.strides or not any(view.strides) for view in self.loads)
        return alike or all(view == self.view for view in read)

    def pays(self, users: Sequence[Kernel]) -> bool:
        """Whether recomputing moves fewer bytes."""
        saved = self.view.buffer.nbytes * (1 + len(users))
        if len(list(self.kernel.writes())) == 1:
            saved += LAUNCH
        reads = [{view.buffer for view in user.reads()} for user in users]
        return saved >= sum(buffer.nbytes for known in reads for buffer in self.buffers - known)

    def put_into(self, user: Kernel) -> None:
        """Replace the loads of the value by its code."""
        made = Kernel(user.domain)  # shares common subexpressions
        numbers: list[int] = []
        for line in user.code:
            if self.is_read_by(line):
                numbers.append(self.at(line.data, made.add))
            else:
                numbers.append(made.add(line.kind, tuple(numbers[a] for a in line.args), self.inside(line), line.dtype))
        user.code, user.known = made.code, made.known
        user.stores = [Store(numbers[s.scalar], s.view) for s in user.stores]
        user.reductions = [replace(r, scalar=numbers[r.scalar]) for r in user.reductions]
        user.scatters = [replace(s, scalar=numbers[s.scalar], at=tuple(numbers[a] for a in s.at)) for s in user.scatters]

    def is_read_by(self, line: KernelLine) -> bool:
        return line.kind == "load" and line.data.buffer is self.view.buffer

    def inside(self, line: KernelLine) -> Any:
        """The data of a line; the lines of a window read the value as well."""
        if line.kind != "window":
            return line.data
        code: list[KernelLine] = []
        numbers: list[int] = []

        def add(kind: str, args: tuple[int, ...], data: Any, dtype: Dtype) -> int:
            code.append(KernelLine(kind, args, data, dtype))
            return len(code) - 1

        for inner in line.data[0]:
            if self.is_read_by(inner):
                numbers.append(self.at(inner.data, add))
            else:
                numbers.append(add(inner.kind, tuple(numbers[a] for a in inner.args), inner.data, inner.dtype))
        return tuple(code), line.data[1]

    def at(self, read: View, add: Callable[..., int]) -> int:
        """Add the code at the points of a view of the value; returns the number of its last line."""
        numbers: list[int] = []
        for line in self.code:
            data = line.data
            if line.kind == "load" and read != self.view:
                moved = any(data.strides)
                offset = data.offset + (read.offset - self.view.offset if moved else 0)
                data = replace(data, shape=read.shape, strides=read.strides if moved else (0,) * len(read.shape), offset=offset)
            numbers.append(add(line.kind, tuple(numbers[a] for a in line.args), data, line.dtype))
        return numbers[-1]
