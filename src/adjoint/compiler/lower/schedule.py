"""How a kernel is run: which loops, in which order, and in how many pieces that may run at the same time.

Axes along which every view moves alike become one loop. A large kernel is cut along its outermost loop. The number of pieces
depends on the shapes alone, never on the number of threads, and pieces of a sum are added in order: so the result is the same,
to the last bit, on any number of threads.
"""

from __future__ import annotations

from . import fused_matvec as twice
from .dead_code import prune
from .kernel import Buffer, Kernel, Loop, Reduce, Scalar, size_of
from .row_tiles import LARGEST_PARTIAL, in_bands
from .step import Bands, Branch, Lapack, Lowered, Product, Scan, Step, Unwind, While, bodies
from .unroll import unrolled

#: About how long a line takes, in units of an addition; what is not named is a function.
_COST = {
    **dict.fromkeys(("div", "sqrt", "floor", "ceil", "trunc", "rint"), 4),
    **dict.fromkeys(("add", "sub", "mul", "neg", "abs", "select", "cast", "maximum", "minimum", "isnan", "signbit"), 1),
    **dict.fromkeys(("and", "or", "xor", "not", "equal", "not_equal", "less", "less_equal", "greater", "greater_equal"), 1),
}
_FUNCTION = 20  # a function such as exp
_PIECE = 100_000  # additions that are worth a piece of their own: about 30 µs
_PIECE_OF_PRODUCT = 1_000_000  # the same, in multiplications of a matrix product
_MOST_PIECES = 64
_SHORT = 8  # turns of a loop that may be written out
_LONGEST = 500  # additions that a kernel may cost after that
_TURNS = 1000  # taken for a loop whose number of turns is not known
_TURN = 30  # additions that it takes to begin one: about 10 ns


def schedule(lowered: Lowered) -> None:
    """Choose the loops and the pieces of every kernel."""
    group(lowered, [_arranged(step) if isinstance(step, Kernel) else step for step in prune(lowered.steps)])
    for step in lowered.steps:
        if isinstance(step, (Kernel, Bands)):
            _cut(step, lowered.buffers)
        elif isinstance(step, Product) and step.is_narrow:
            step.chunks = max(1, min(work(step) // _PIECE_OF_PRODUCT, _MOST_PIECES))


def group(lowered: Lowered, steps: list[Step], finest: bool = False) -> None:
    """Let kernels take turns, and products join them that read a matrix from both sides; `finest` as for `in_bands`."""
    products = twice.products(steps)
    while True:
        halves = {product: _arranged(twice.kernel(product)) for product in products}
        lowered.steps = [halves[step] if isinstance(step, Product) and step in halves else step for step in steps]
        in_bands(lowered, finest)
        met = twice.met(halves, lowered.steps)
        if len(met) == len(products):
            return
        products = met  # the others are better left to BLAS
        for step in steps:
            if isinstance(step, Kernel):
                arrange(step)  # without the loops of a group that may not come again


def arrange(kernel: Kernel) -> None:
    """Choose the loops: leave out axes of length one, let the smallest strides be innermost, merge what moves alike."""
    views = kernel.views
    windows = [line.data[1] for line in kernel.code if line.kind == "window"]
    framed = {k for window in windows for k, bounds in enumerate(window) if bounds != (0, kernel.domain[k])}
    loops = [Loop(n, [v.strides[k] for v in views], (k,)) for k, n in enumerate(kernel.domain) if n != 1]
    loops.sort(key=lambda loop: -sum(map(abs, loop.strides)))
    merged: list[Loop] = []
    for loop in loops:
        outer = merged[-1] if merged else None
        if (
            outer is not None
            and not framed & {*outer.axes, *loop.axes}
            and all(a == b * loop.length for a, b in zip(outer.strides, loop.strides, strict=True))
        ):
            merged[-1] = Loop(outer.length * loop.length, loop.strides, outer.axes + loop.axes)
        else:
            merged.append(loop)
    kernel.loops = merged


def _arranged(kernel: Kernel) -> Kernel:
    """A kernel with its loops. A short innermost one is written out if a sum moves along it, but not along the loop around it:

    the terms are then added in registers, and the loop around becomes vectors.
    """
    arrange(kernel)
    if len(kernel.loops) < 2 or 0 in kernel.domain:
        return kernel
    around, last = kernel.loops[-2:]
    if last.length > _SHORT or len(last.axes) > 1 or sum(map(cost, kernel.code)) * last.length > _LONGEST:
        return kernel
    views = kernel.views
    places = [views.index(r.view) for r in kernel.reductions]
    if not any(last.strides[i] and not around.strides[i] for i in places):
        return kernel
    written_out = unrolled(kernel, last.axes[0])
    arrange(written_out)
    return written_out


def cost(line: Scalar) -> int:
    """About how long a line takes, in additions."""
    if line.kind == "window":
        return 1 + sum(map(cost, line.data[0]))
    return _COST.get(line.data, _FUNCTION) if line.kind == "op" else int(line.kind != "const")


def work(step: Step) -> int:
    """About how long a step takes, in additions."""
    if isinstance(step, Product):
        return size_of(step.out.shape) * step.left.shape[-1]
    if isinstance(step, Lapack):  # a cube of the longest side
        return max(size_of(v.shape) * max(v.shape[-2:], default=1) for v in step.writes())
    if isinstance(step, Bands):
        return sum(map(work, step.kernels))
    if not isinstance(step, Kernel):
        inside = [_TURN + sum(map(work, body.steps)) for body in bodies(step)]
        if isinstance(step, Branch):
            return max(inside)
        turns = step.length if isinstance(step, Scan) else _TURNS if isinstance(step, (While, Unwind)) else 1
        return turns * sum(inside)
    lines = sum(map(cost, step.code))
    return size_of(step.domain) * (lines + len(step.stores) + len(step.reductions) + len(step.scatters))


def _cut(step: Kernel | Bands, buffers: list[Buffer]) -> None:
    """Cut the outermost loop, if there is enough to do and what each piece needs for itself is small."""
    if isinstance(step, Bands):
        length, summed = step.length, step.totals
    else:
        length = step.loops[0].length if step.loops else 1
        summed = {r.view.buffer: r.how for r in step.reductions if is_reduced(step, r, 0)} if step.loops else {}
        if step.scatters:  # two pieces may add to the same element
            return
    pieces = min(work(step) // _PIECE, _MOST_PIECES, length)
    if pieces < 2 or any(out.size > LARGEST_PARTIAL for out in summed):
        return
    step.chunks = -(-length // -(-length // pieces))  # all of one size but for the last, and none empty
    for out, how in summed.items():
        buffer = Buffer(len(buffers), out.dtype, out.size * step.chunks, "local")
        buffers.append(buffer)
        step.partials[out] = (how, buffer)


def is_reduced(kernel: Kernel, r: Reduce, loop: int) -> bool:
    """Whether a reduction combines values along a loop."""
    return not kernel.loops[loop].strides[kernel.views.index(r.view)]
