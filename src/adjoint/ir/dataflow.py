"""Running a graph as dataflow: an equation fires when all its inputs have data.

    v1 = sin x          v1 and v2 need only x, so two workers run them at the same time;
    v2 = cos x          v3 fires when both are done
    v3 = mul v1, v2

Each equation computes the same as in the serial run, from the same values, so the results are the same. NumPy releases the GIL
while it works on an array, so threads do run in parallel where the arrays are large.
"""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Sequence
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any

from ..core.bind import bind
from ..core.errors import ArgumentError
from ..core.types import Value
from .edit import values_in
from .graph import Equation, Graph, Literal, Operand

_SHOWN = 20  # rows of a profile


def reads(equation: Equation) -> set[int]:
    """The values that an equation needs."""
    return set(values_in(equation.inputs))


def levels(graph: Graph) -> tuple[tuple[int, ...], ...]:
    """The sets of equations that can run in parallel, as indices: each depends only on the sets before it."""
    depth: dict[int, int] = {}  # of a value; inputs have none
    found: list[list[int]] = []
    for i, equation in enumerate(graph.equations):
        level = max((depth.get(n, -1) for n in reads(equation)), default=-1) + 1
        depth.update(dict.fromkeys(equation.outputs, level))
        if level == len(found):
            found.append([])
        found[level].append(i)
    return tuple(map(tuple, found))


# -- running ----------------------------------------------------------------------------------------------------


def check_workers(workers: Any) -> int:
    """The requested number of threads; None is one."""
    if workers is None:
        return 1
    if isinstance(workers, bool) or not isinstance(workers, int) or workers < 1:
        raise ArgumentError(f"workers is a number of threads, 1 or more, not {workers!r}")
    return workers


def run(graph: Graph, values: Sequence[Value], workers: int) -> list[Value]:
    """Evaluate on plain arrays with several threads. The first error stops the rest and is raised here."""
    flow = _Flow(graph, values)
    # Each thread runs in a copy of the caller's context: NumPy's error state lives there.
    threads = [
        threading.Thread(target=copy_context().run, args=(flow.work,), name=f"adjoint-{graph.name}-{k}", daemon=True)
        for k in range(min(workers, len(graph)))
    ]
    try:
        for thread in threads:
            thread.start()
        flow.wait()
    except BaseException:  # an interrupt: running equations finish, no new one starts
        flow.stop()
        raise
    for thread in threads:
        thread.join()
    return flow.results()


class _Flow:
    """The state of one run: available values, missing inputs of each equation, and remaining readers."""

    def __init__(self, graph: Graph, values: Sequence[Value]) -> None:
        self.graph = graph
        self.data: dict[int, Value] = dict(enumerate(values))
        self.consumers: dict[int, list[int]] = {}
        self.missing: list[int] = []  # per equation, the number of values not yet computed
        self.uses: dict[int, int] = {}  # per value, the remaining readers; at 0 it is freed
        self.ready: list[int] = []  # a heap: the earliest equation first, so that memory is freed early
        for i, equation in enumerate(graph.equations):
            needed = reads(equation)
            waiting = [n for n in needed if n not in self.data]
            for n in waiting:
                self.consumers.setdefault(n, []).append(i)
            for n in needed:
                self.uses[n] = self.uses.get(n, 0) + 1
            self.missing.append(len(waiting))
            if not waiting:
                self.ready.append(i)
        for o in values_in(graph.outputs):
            self.uses[o] = self.uses.get(o, 0) + 1  # the caller reads it: never freed
        self.left = len(graph)
        self.stopped = not self.left
        self.errors: dict[int, BaseException] = {}
        self.changed = threading.Condition()

    def work(self) -> None:
        """The loop of each worker thread."""
        while (i := self.take()) is not None:
            while i is not None:
                try:
                    result = self.fire(i)
                except BaseException as error:
                    self.fail(i, error)
                    return
                i = self.arrive(i, result)

    def take(self) -> int | None:
        """An equation that can fire; waits for one. None at the end."""
        with self.changed:
            while not self.ready and not self.stopped:
                self.changed.wait()
            return None if self.stopped else heapq.heappop(self.ready)

    def read(self, operand: Operand) -> Value:
        return operand.value if isinstance(operand, Literal) else self.data[operand]

    def fire(self, i: int) -> tuple[Value, ...]:
        equation = self.graph.equations[i]
        result = bind(equation.op, *[self.read(o) for o in equation.inputs], **equation.params)
        return result if equation.op.many else (result,)

    def arrive(self, i: int, result: tuple[Value, ...]) -> int | None:
        """Store results. Returns one equation that can now fire, for the same thread; the others are queued."""
        equation = self.graph.equations[i]
        with self.changed:
            for n, value in zip(equation.outputs, result, strict=True):
                if n in self.uses:
                    self.data[n] = value
            for n in reads(equation):
                self.uses[n] -= 1
                if not self.uses[n]:
                    del self.data[n]
            fireable = []
            for n in equation.outputs:
                for j in self.consumers.pop(n, ()):
                    self.missing[j] -= 1
                    if not self.missing[j]:
                        fireable.append(j)
            self.left -= 1
            if not self.left:
                self.stopped = True
                self.changed.notify_all()
            if self.stopped or not fireable:
                return None
            for j in fireable[1:]:
                heapq.heappush(self.ready, j)
            if len(fireable) > 1:
                self.changed.notify(len(fireable) - 1)
            return fireable[0]

    def fail(self, i: int, error: BaseException) -> None:
        self.graph.explain(error, self.graph.equations[i])
        with self.changed:
            self.errors[i] = error
        self.stop()

    def stop(self) -> None:
        with self.changed:
            self.stopped = True
            self.changed.notify_all()

    def wait(self) -> None:
        """Wait until all equations are done, or one has failed."""
        with self.changed:
            while not self.stopped:
                self.changed.wait()

    def results(self) -> list[Value]:
        if self.errors:
            raise self.errors[min(self.errors)]
        return [self.data[o] if isinstance(o, int) else o.handed_out() for o in self.graph.outputs]


# -- timing -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Profile:
    """The seconds that each equation took, and the longest chain of equations that wait for each other.

    The critical path bounds the speed for any number of workers; `parallelism` is the largest possible speedup.
    """

    graph: Graph
    times: tuple[float, ...]
    critical_path: tuple[int, ...]

    @property
    def total(self) -> float:
        return sum(self.times)

    @property
    def critical_time(self) -> float:
        return sum(self.times[i] for i in self.critical_path)

    @property
    def parallelism(self) -> float:
        return self.total / self.critical_time if self.critical_time else 1.0

    def slowest(self, count: int = 10) -> tuple[int, ...]:
        """The equations that took longest, as indices."""
        return tuple(sorted(range(len(self.times)), key=lambda i: -self.times[i])[:count])

    def __str__(self) -> str:
        lines = [
            f"profile of {self.graph.name}: {len(self.times)} equations, {_clock(self.total)} in all",
            f"critical path: {len(self.critical_path)} equations, {_clock(self.critical_time)}; "
            f"workers can gain a factor of {self.parallelism:.2f} at most",
            *self._rows(self.critical_path),
        ]
        on_path = set(self.critical_path)
        beside = [i for i in self.slowest() if i not in on_path]
        if beside:
            lines += ["beside it, the slowest:", *self._rows(beside)]
        return "\n".join(lines)

    def _rows(self, indices: Sequence[int]) -> list[str]:
        rows = []
        shown = sorted(sorted(indices, key=lambda i: -self.times[i])[:_SHOWN])  # the slowest, in the order of the graph
        for i in shown:
            equation = self.graph.equations[i]
            targets = ", ".join(f"v{n}" for n in equation.outputs)
            types = ", ".join(map(repr, equation.types))
            row = f"  {_clock(self.times[i]):>10}  {targets} = {equation.op.name}: {types}"
            rows.append(row + (f"  # {equation.line}" if equation.line else ""))
        more = len(indices) - _SHOWN
        return [*rows, f"  … and {more} quicker ones"] if more > 0 else rows


def _clock(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def profile(graph: Graph, values: Sequence[Value]) -> Profile:
    """Run one equation after the other and time each."""
    times: list[float] = []

    def timed(equation: Equation, operands: list[Value]) -> Any:
        start = time.perf_counter()
        result = bind(equation.op, *operands, **equation.params)
        times.append(time.perf_counter() - start)
        return result

    graph.evaluate(values, timed)
    return Profile(graph, tuple(times), critical_path(graph, times))


def critical_path(graph: Graph, times: Sequence[float]) -> tuple[int, ...]:
    """The chain of equations, each needing the one before, that takes longest."""
    ends: list[float] = []  # the earliest end of each equation
    before: list[int] = []  # the equation that it waited for last
    source: dict[int, int] = {}
    for i, equation in enumerate(graph.equations):
        waited = max((source[n] for n in reads(equation) if n in source), key=lambda j: (ends[j], -j), default=-1)
        ends.append(times[i] + (ends[waited] if waited >= 0 else 0.0))
        before.append(waited)
        source.update(dict.fromkeys(equation.outputs, i))
    path = []
    at = max(range(len(ends)), key=ends.__getitem__, default=-1)
    while at >= 0:
        path.append(at)
        at = before[at]
    return tuple(reversed(path))


__all__ = ["Profile", "critical_path", "levels", "profile", "run"]
