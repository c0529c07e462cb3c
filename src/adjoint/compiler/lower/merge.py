"""Fewer and larger kernels: short axes are unrolled, and kernels over the same domain are merged.

    kernel over (n, n, 3):  sum of squares over the last axis into r       kernel over (n, n):  r = a*a + b*b + c*c
    kernel over (n, n):     1 / r                                   →                           1 / r

For a GPU, where a launch costs some microseconds and intermediates go through memory. Two kernels over one domain are merged if
the second reads the results of the first only at the same points.
"""

from __future__ import annotations

from collections import Counter

from .kernel import Buffer, Kernel, KernelLine, Store, View
from .schedule import arrange, cost
from .step import Lowered, Step
from .unroll import unrolled

SHORT = 4  # length of an axis that is unrolled
LONGEST = 500  # additions per point after unrolling, as in `lower.schedule`
LARGEST = 4000  # lines of a merged kernel
_MOST_FUNCTIONS, _FUNCTION = 24, 20  # such as exp, as in `lower.workspace`


def written_out(kernel: Kernel) -> Kernel:
    """A kernel with its short innermost axis unrolled, if it reduces along that axis or along others. Scatter-adds stay whole,
    since their places are sorted."""
    arrange(kernel)
    if len(kernel.loops) < 2 or 0 in kernel.domain or not kernel.reductions or kernel.scatters:
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


def _users(lowered: Lowered, steps: list[Step]) -> Counter[Buffer]:
    """The number of steps that access each buffer; reads at the end count too."""
    users = Counter(buffer for step in steps for buffer in {view.buffer for view in (*step.reads(), *step.writes())})
    users.update(view.buffer for view in lowered.asked)
    return users


def can_join(first: Kernel, second: Kernel, limited: bool = True) -> bool:
    """Whether the second kernel can run at the points of the first; if `limited`, only if the result is not too large."""
    return (
        first.domain == second.domain
        and 0 not in first.domain
        and not (first.scatters or second.scatters)
        and not (limited and _is_too_large(first, second))
        and _reduces_in_one_order(first, second)
        and not _writes_what_is_used(first, second)
        and _reads_at_the_same_points(first, second)
    )


def _is_too_large(first: Kernel, second: Kernel) -> bool:
    return len(first.code) + len(second.code) > LARGEST or _functions(first) + _functions(second) > _MOST_FUNCTIONS


def _reduces_in_one_order(first: Kernel, second: Kernel) -> bool:
    """Whether the axes of the reductions are nested; values would be recomputed otherwise (see `schedule`)."""
    axes = [frozenset(a for a in r.axes if r.view.shape[a] > 1) for r in (*first.reductions, *second.reductions)]
    return all(a <= b or b <= a for a in axes for b in axes)


def _writes_what_is_used(first: Kernel, second: Kernel) -> bool:
    used = {view.buffer for view in (*first.reads(), *first.writes())}
    return any(view.buffer in used for view in second.writes())


def _reads_at_the_same_points(first: Kernel, second: Kernel) -> bool:
    """Whether the second kernel reads what the first has written only by loading the elements that were stored."""
    written = {view.buffer for view in first.writes()}
    loads = [line.data for line in second.code if line.kind == "load"]
    others = [view for line in second.code if line.kind in ("window", "gather") for view in _views_of(line)]
    stored = {store.view for store in first.stores}
    return all(view in stored for view in loads if view.buffer in written) and not any(view.buffer in written for view in others)


def _views_of(line: KernelLine) -> list[View]:
    kernel = Kernel(())
    kernel.code = [line]
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
