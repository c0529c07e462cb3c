"""Fewer and larger kernels: short axes are unrolled, and kernels over the same domain are merged.

    kernel over (n, n, 3):  sum of squares over the last axis into r       kernel over (n, n):  r = a*a + b*b + c*c
    kernel over (n, n):     1 / r                                   →                           1 / r

For a GPU, where a launch costs some microseconds and intermediates go through memory: a kernel absorbs the next one over the same
domain, if that reads the results of the first only at the same points.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from .dead_code import needed
from .kernel import Buffer, Kernel, Scalar, Store, View
from .schedule import arrange, cost
from .step import Lowered, Step
from .unroll import unrolled

SHORT = 4  # length of an axis that is unrolled
LONGEST = 500  # additions per point after unrolling, as in `lower.schedule`
CHEAP = 12  # additions; up to this cost, recompute
LARGEST = 4000  # lines of a merged kernel
_MOST_FUNCTIONS, _FUNCTION = 24, 20  # such as exp, as in `lower.workspace`


def written_out(kernel: Kernel) -> Kernel:
    """A kernel with its short innermost axis unrolled, if it reduces along that axis or along others."""
    arrange(kernel)
    if len(kernel.loops) < 2 or 0 in kernel.domain or not kernel.reductions:
        return kernel
    last = kernel.loops[-1]
    if last.length > SHORT or len(last.axes) > 1 or sum(map(cost, kernel.code)) * last.length > LONGEST:
        return kernel
    return unrolled(kernel, last.axes[0])


def merged(lowered: Lowered, steps: list[Step]) -> list[Step]:
    """Consecutive kernels over the same domain as one, where the second reads results of the first at the same points only."""
    found: list[Step] = []
    for step in steps:
        last = found[-1] if found else None
        if isinstance(step, Kernel) and isinstance(last, Kernel) and can_join(last, step):
            join(last, step)
        else:
            found.append(step)
    users = _users(lowered, found)
    for step in found:
        if isinstance(step, Kernel):
            _drop_stores(step, users)
    return found


def recomputed(lowered: Lowered, steps: list[Step]) -> list[Step]:
    """Recompute cheap values that the next kernel reads only at neighbouring points, rather than store them.

    b = g * k                                            (the adjoint of a stencil)
    h[i] = g[i] + b[i - 1] + b[i + 1]           →        h[i] = g[i] + g[i - 1] * k[i - 1] + g[i + 1] * k[i + 1]
    """
    users = _users(lowered, steps)
    for first, second in itertools.pairwise(steps):
        if isinstance(first, Kernel) and isinstance(second, Kernel) and first.domain == second.domain:
            for store in list(first.stores):
                if store.view.buffer.kind == "local" and users[store.view.buffer] == 2:
                    _compute_again(first, second, store)
    return [step for step in steps if not isinstance(step, Kernel) or any(True for _ in step.writes())]


def _compute_again(first: Kernel, second: Kernel, store: Store) -> None:
    """Replace the loads of a stored value by its code, if all can be."""
    buffer, strides, start = store.view.buffer, store.view.strides, store.view.offset
    lines = [(i, first.code[i]) for i in needed(first.code, {store.scalar})]
    cheap = sum(cost(line) for _, line in lines) <= CHEAP and all(line.kind in ("load", "const", "op") for _, line in lines)
    loads = [line.data for _, line in lines if line.kind == "load"]
    read = [view for view in second.reads() if view.buffer is buffer]
    alike = all(view.strides == strides for view in read) and all(
        not any(view.strides) or (view.strides == strides and view.offset == start) for view in loads
    )
    written = {view.buffer for view in first.writes()}
    gathered = any(line.kind == "gather" and line.data[0].buffer is buffer for line in second.code)
    if not (cheap and read and alike) or gathered or any(view.buffer in written for view in loads):
        return
    if any(s.view.buffer is buffer and s is not store for s in first.stores):
        return

    def again(code: list[Scalar], by: int) -> int:
        """Append the lines, shifted by so many elements; returns the number of the last one."""
        numbers: dict[int, int] = {}
        for i, line in lines:
            data = line.data
            if line.kind == "load" and any(data.strides):
                data = replace(data, offset=data.offset + by)
            numbers[i] = len(code)
            code.append(Scalar(line.kind, tuple(numbers[a] for a in line.args), data, line.dtype))
        return numbers[store.scalar]

    def rewritten(old: Sequence[Scalar]) -> tuple[list[Scalar], list[int]]:
        code: list[Scalar] = []
        numbers: list[int] = []
        for line in old:
            if line.kind == "load" and line.data.buffer is buffer:
                numbers.append(again(code, line.data.offset - start))
                continue
            data = line.data
            if line.kind == "window":
                data = (tuple(rewritten(data[0])[0]), data[1])
            numbers.append(len(code))
            code.append(Scalar(line.kind, tuple(numbers[a] for a in line.args), data, line.dtype))
        return code, numbers

    code, numbers = rewritten(second.code)
    second.code, second.known = code, {}
    second.stores = [Store(numbers[s.scalar], s.view) for s in second.stores]
    second.reductions = [replace(r, scalar=numbers[r.scalar]) for r in second.reductions]
    second.scatters = [replace(s, scalar=numbers[s.scalar], at=tuple(numbers[a] for a in s.at)) for s in second.scatters]
    first.stores = [s for s in first.stores if s is not store]


def _users(lowered: Lowered, steps: list[Step]) -> Counter[Buffer]:
    """The number of steps that access each buffer; reads at the end count too."""
    users = Counter(buffer for step in steps for buffer in {view.buffer for view in (*step.reads(), *step.writes())})
    asked = [*lowered.outputs, *lowered.out_of_bounds, *(view for view, _ in lowered.failures)]
    asked += [lowered.guard] if lowered.guard is not None else []
    users.update(view.buffer for view in asked)
    return users


def can_join(first: Kernel, second: Kernel, limited: bool = True) -> bool:
    """Whether the second kernel can run at the points of the first; if `limited`, only if the result is not too large."""
    if first.domain != second.domain or 0 in first.domain or first.scatters or second.scatters:
        return False
    if limited and (len(first.code) + len(second.code) > LARGEST or _functions(first) + _functions(second) > _MOST_FUNCTIONS):
        return False
    axes = [frozenset(a for a in r.axes if r.view.shape[a] > 1) for r in (*first.reductions, *second.reductions)]
    if any(not (a <= b or b <= a) for a in axes for b in axes):
        return False  # it would be recomputed: see `schedule`
    stored = {store.view for store in first.stores}
    touched = {view.buffer for view in (*first.reads(), *first.writes())}
    if any(view.buffer in touched for view in second.writes()):
        return False
    written = {view.buffer for view in first.writes()}
    plain = {line.data for line in second.code if line.kind == "load"}
    if any(view.buffer in written and not (view in plain and view in stored) for view in second.reads()):
        return False
    others = [view for line in second.code if line.kind in ("window", "gather") for view in _inside(line)]
    return not any(view.buffer in written for view in others)


def _inside(line: object) -> list[View]:
    kernel = Kernel(())
    kernel.code = [line]  # type: ignore[list-item]
    return list(kernel.reads())


def _functions(kernel: Kernel) -> int:
    return sum(cost(line) >= _FUNCTION for line in kernel.code)


def join(first: Kernel, second: Kernel) -> None:
    """Add the second kernel to the first."""
    stored = {store.view: store.scalar for store in first.stores}
    numbers: list[int] = []
    for line in second.code:
        if line.kind == "load" and line.data in stored:
            numbers.append(stored[line.data])
            continue
        numbers.append(first.add(line.kind, tuple(numbers[a] for a in line.args), line.data, line.dtype))
    first.stores = [*first.stores, *(Store(numbers[s.scalar], s.view) for s in second.stores)]
    first.reductions = [*first.reductions, *(type(r)(r.how, numbers[r.scalar], r.axes, r.view) for r in second.reductions)]
    first.lines |= second.lines


def _drop_stores(kernel: Kernel, users: Counter[Buffer]) -> None:
    """Drop stores that only a merged kernel read."""
    reads = {view.buffer for view in kernel.reads()}

    def is_read(buffer: Buffer) -> bool:
        return buffer.kind != "local" or users[buffer] > 1 or buffer in reads

    kernel.stores = [store for store in kernel.stores if is_read(store.view.buffer)]
