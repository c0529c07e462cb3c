"""Loop interchange of pointwise scans: the loop moves inside, and each point runs all iterations by itself.

    for i in range(length):               for each point p:
      for each point p:                     c = carry[p]
        y[i, p] = carry[p] * 2       →      for i in range(length):
        carry[p] = sin(carry[p])              y[i, p] = c * 2
                                              c = sin(c)
                                            carry[p] = c

The carries stay in registers, and an iteration costs no launch and no memory traffic. This is legal if each point reads only
those carry elements that it writes itself: every load of a carry is a view that the body stores to. The body must be one kernel,
or several over the same points. An additional short axis, such as the three numbers of a state, is unrolled; values shared by all
points, such as a counter, are recomputed by each point.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ...core.types import Shape
from .kernel import Buffer, Kernel, KernelLine, Store, View, size_of
from .merge import can_join, join
from .step import Scan
from .unroll import unrolled

SHORT = 8  # length of an axis that is unrolled

Place = tuple[int, tuple[int, ...], int]  # of a carry: its number, and strides and offset of a view


@dataclass(slots=True, eq=False)
class Sweep:
    """A scan whose loop is inside: `kernel` is the body, over the buffers of `scan.body`."""

    scan: Scan
    kernel: Kernel
    places: tuple[Place, ...]  # the carry elements of a point

    @property
    def lines(self) -> dict[str, None]:
        return self.scan.lines

    def reads(self) -> Iterator[View]:
        yield from self.scan.reads()

    def writes(self) -> Iterator[View]:
        yield from (*self.scan.finals, *self.scan.stacks)

    def __str__(self) -> str:
        return f"each point runs {self.scan.length} iterations of\n  " + str(self.kernel).replace("\n", "\n  ")


def sweep(scan: Scan) -> Sweep | None:
    """The interchanged loop; None if the points depend on each other."""
    body = _kernel(scan)
    if body is None or not scan.length or body.reductions or body.scatters or not all(body.domain):
        return None
    first = len(scan.consts)
    given = {b: j for j, b in enumerate(scan.body.inputs[first : first + len(scan.carries)])}
    taken = {view.buffer: j for j, view in enumerate(scan.body.outputs[: len(scan.carries)])}
    kept: dict[Place, View] = {}
    sizes = [0] * len(scan.carries)
    for store in body.stores:
        view = store.view
        if view.buffer not in taken:
            continue
        place = (taken[view.buffer], view.strides, view.offset)
        if place in kept:
            return None
        kept[place] = view
        sizes[place[0]] += size_of(n for n, stride in zip(view.shape, view.strides, strict=True) if stride)
    loaded = [view for view in body.reads() if view.buffer in given]
    if any((given[view.buffer], view.strides, view.offset) not in kept for view in loaded):
        return None
    if any(size != buffer.size for size, buffer in zip(sizes, given, strict=True)):
        return None  # a part of a carry is not computed
    inside = {line.data[0] for line in body.code if line.kind == "gather"}
    if any(view.buffer in given for view in inside):
        return None
    return Sweep(scan, body, tuple(kept))


def _kernel(scan: Scan) -> Kernel | None:
    """The body as one kernel, if it can be one."""
    steps = scan.body.steps
    if not steps or not all(isinstance(step, Kernel) for step in steps) or scan.body.can_fail:
        return None
    kernels: list[Kernel] = [_copy(step) for step in steps if isinstance(step, Kernel)]
    if any(kernel.partials for kernel in kernels):
        return None
    domain = min((kernel.domain for kernel in kernels if size_of(kernel.domain) > 1), key=size_of, default=kernels[0].domain)
    made = Kernel(domain)
    for kernel in kernels:
        fitting = _over(kernel, domain)
        if fitting is None or not can_join(made, fitting, limited=False):
            return None
        join(made, fitting)
    return _without_private(scan, made)


def _over(kernel: Kernel, domain: Shape) -> Kernel | None:
    """A kernel over another domain: a kernel of one point runs at all points; an additional short axis is unrolled."""
    if kernel.domain == domain:
        return kernel
    if size_of(kernel.domain) == 1:
        return _spread(kernel, domain)
    for axis, n in enumerate(kernel.domain):
        if n <= SHORT and kernel.domain[:axis] + kernel.domain[axis + 1 :] == domain:
            return unrolled(kernel, axis)
    return None


def _copy(kernel: Kernel) -> Kernel:
    return Kernel(kernel.domain, list(kernel.code), list(kernel.stores), list(kernel.reductions), list(kernel.scatters))


def _spread(kernel: Kernel, domain: Shape) -> Kernel | None:
    """A kernel of one point, run at all points of a domain."""
    if any(line.kind in ("window", "gather") for line in kernel.code) or kernel.reductions or kernel.scatters:
        return None
    still = (0,) * len(domain)

    def over(view: View) -> View:
        return View(view.buffer, domain, still, view.offset)

    made = Kernel(domain)
    made.code = [_moved(line, over(line.data)) if line.kind == "load" else line for line in kernel.code]
    made.stores = [Store(store.scalar, over(store.view)) for store in kernel.stores]
    return made


def _moved(line: KernelLine, view: View) -> KernelLine:
    return replace(line, data=view)


def _without_private(scan: Scan, kernel: Kernel) -> Kernel | None:
    """Without the stores for later kernels of the body. If one is still loaded, it is not in a register: no sweep."""
    outputs: set[Buffer] = {view.buffer for view in scan.body.outputs}
    private = {store.view.buffer for store in kernel.stores} - outputs
    if any(view.buffer in private for view in kernel.reads()):
        return None
    kernel.stores = [store for store in kernel.stores if store.view.buffer in outputs]
    return kernel
