"""Scheduling of kernels: which loops, in which order, and in how many pieces that may run in parallel.

Adjacent axes with compatible strides in every view are merged into one loop. A large kernel is cut along its outermost loop. The
number of pieces depends on the shapes alone, never on the number of threads, and partial sums are added in order: so the result
is bitwise the same on any number of threads.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence

from ...core.op import OPS, Op
from ...ir.graph import Equation
from ..switches import Switch
from . import fused_matvec
from .dead_code import prune
from .kernel import Buffer, Dtype, Kernel, KernelLine, LoopLevel, Reduce, size_of
from .row_tiles import LARGEST_PARTIAL, in_row_tiles
from .scalar import is_native, lines_of, word_of
from .step import (
    Branch,
    Cumulative,
    Fourier,
    Lapack,
    Lowered,
    Ordered,
    PointTiles,
    Product,
    RowTiles,
    Scan,
    Step,
    TimeTiles,
    While,
    WhileVjp,
    bodies,
)
from .unroll import unrolled

#: About how long a word of scalar code takes, in additions; what is not here is a function.
_COST = {word: op.cost for op in OPS.values() if (word := word_of(op))}
_FUNCTION = 20  # a function such as exp
_PIECE = 100_000  # additions of the smallest piece: about 30 µs
_PIECE_OF_PRODUCT = 1_000_000  # the same, in multiplications of a matrix product
_MOST_PIECES = 64
_SHORT = 8  # iterations of a loop that may be unrolled
_LONGEST = 500  # additions per point after unrolling
_UNKNOWN_LENGTH = 1000  # the assumed length of a loop of unknown length
_BUTTERFLY = 3  # additions for an element, for each factor of two of the length of a Fourier transform
_MERGE = 6  # the same, for each factor of two of the length of a row that is ordered
_ITERATION = 30  # the overhead of one, in additions: about 10 ns


def schedule(lowered: Lowered) -> None:
    """Choose the loops and the pieces of every kernel."""
    group(lowered, [arranged(step) if isinstance(step, Kernel) else step for step in prune(lowered.steps)])
    for step in lowered.steps:
        if isinstance(step, (Kernel, RowTiles)):
            cut(step, lowered.buffers)
        elif isinstance(step, Product) and step.is_narrow and Switch.PIECES.on:
            step.chunks = max(1, min(work(step) // _PIECE_OF_PRODUCT, _MOST_PIECES))


def group(lowered: Lowered, steps: list[Step], finest: bool = False) -> None:
    """Group kernels in row tiles, with matrix-vector products from both sides of one matrix; `finest` as for `in_row_tiles`."""
    products = fused_matvec.products(steps)
    while True:
        halves = {product: arranged(fused_matvec.kernel(product)) for product in products}
        lowered.steps = [halves[step] if isinstance(step, Product) and step in halves else step for step in steps]
        in_row_tiles(lowered, finest)
        met = fused_matvec.met(halves, lowered.steps)
        if len(met) == len(products):
            return
        products = met  # the others are left to BLAS
        for step in steps:
            if isinstance(step, Kernel):
                arrange(step)  # undo the loops of the group


def arrange(kernel: Kernel) -> None:
    """Choose the loops: drop axes of length one, put the smallest strides innermost, merge compatible axes."""
    views = kernel.views
    windows = [line.data[1] for line in kernel.code if line.kind == "window"]
    framed = {k for window in windows for k, bounds in enumerate(window) if bounds != (0, kernel.domain[k])}
    loops = [LoopLevel(n, [v.strides[k] for v in views], (k,)) for k, n in enumerate(kernel.domain) if n != 1]
    loops.sort(key=lambda loop: -sum(map(abs, loop.strides)))
    merged: list[LoopLevel] = []
    for loop in loops:
        outer = merged[-1] if merged else None
        if (
            outer is not None
            and not framed & {*outer.axes, *loop.axes}
            and all(a == b * loop.length for a, b in zip(outer.strides, loop.strides, strict=True))
        ):
            merged[-1] = LoopLevel(outer.length * loop.length, loop.strides, outer.axes + loop.axes)
        else:
            merged.append(loop)
    kernel.loops = merged


def arranged(kernel: Kernel) -> Kernel:
    """A kernel with its loops. A short innermost loop is unrolled if it carries a sum and the loop around it does not:

    the terms are then added in registers, and the loop around it is vectorized.
    """
    arrange(kernel)
    if len(kernel.loops) < 2 or 0 in kernel.domain or not Switch.SHORT_SUMS.on:
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


def cost(line: KernelLine) -> int:
    """The estimated cost of a line, in additions."""
    if line.kind == "window":
        return 1 + sum(map(cost, line.data[0]))
    return _COST.get(line.data, _FUNCTION) if line.kind == "op" else int(line.kind != "const")


def arithmetic(steps: Sequence[Step]) -> int:
    """The cost of the operations of kernels at all points, in additions, without loads and stores.

    Fusion keeps it below 1.1 times what is written (`written_arithmetic`), but for values that are cheaper to compute than to
    store and load: see `Workspace.most_recomputed`.
    """
    kernels = [kernel for step in steps for kernel in (step.kernels if isinstance(step, RowTiles) else [step])]
    return sum(
        size_of(kernel.domain) * sum(cost(line) for line in kernel.code if line.kind == "op")
        for kernel in kernels
        if isinstance(kernel, Kernel)
    )


def written_arithmetic(equations: Iterable[Equation]) -> int:
    """The cost of the elementwise operations of a graph at all points, in additions, if each is computed once."""
    native = [e for e in equations if is_native(e.op)]
    return sum(_cost_of(e.op, len(e.inputs), e.types[0].dtype) * size_of(e.types[0].shape) for e in native)


@functools.cache
def _cost_of(op: Op, arity: int, dtype: Dtype) -> int:
    """The cost of the lines of an op, on operands that are no numbers."""
    return sum(cost(line) for line in lines_of(op, arity, dtype) if line.kind == "op")


def work(step: Step) -> int:
    """The estimated cost of a step, in additions."""
    if isinstance(step, Product):
        return size_of(step.out.shape) * step.left.shape[-1]
    if isinstance(step, Lapack):  # a cube of the longest side
        return max(size_of(v.shape) * max(v.shape[-2:], default=1) for v in step.writes())
    if isinstance(step, Fourier):
        return _BUTTERFLY * size_of(step.out.shape) * max(1, step.out.shape[-1].bit_length())
    if isinstance(step, Cumulative):
        return 2 * size_of(step.out.shape)
    if isinstance(step, Ordered):
        return _MERGE * size_of(step.out.shape) * step.out.shape[-1].bit_length()
    if isinstance(step, RowTiles):
        return sum(map(work, step.kernels))
    if isinstance(step, PointTiles):
        return sum(map(work, step.members))
    if isinstance(step, TimeTiles):
        return work(step.scan)
    if not isinstance(step, Kernel):
        inside = [_ITERATION + sum(map(work, body.steps)) for body in bodies(step)]
        if isinstance(step, Branch):
            return max(inside)
        length = step.length if isinstance(step, Scan) else _UNKNOWN_LENGTH if isinstance(step, (While, WhileVjp)) else 1
        return length * sum(inside)
    lines = sum(map(cost, step.code))
    return size_of(step.domain) * (lines + len(step.stores) + len(step.reductions) + len(step.scatters))


def cut(step: Kernel | RowTiles, buffers: list[Buffer]) -> None:
    """Cut the outermost loop, if there is enough work and the partial results are small."""
    if isinstance(step, RowTiles):
        length, summed = step.length, step.totals
    else:
        length = step.loops[0].length if step.loops else 1
        summed = {r.view.buffer: r.how for r in step.reductions if is_reduced(step, r, 0)} if step.loops else {}
        if step.scatters:  # two pieces may add to the same element
            return
    pieces = min(work(step) // _PIECE, _MOST_PIECES, length)
    if not Switch.PIECES.on or pieces < 2 or any(out.size > LARGEST_PARTIAL for out in summed):
        return
    step.chunks = -(-length // -(-length // pieces))  # equal sizes except for the last, and none empty
    for out, how in summed.items():
        buffer = Buffer(len(buffers), out.dtype, out.size * step.chunks, "local")
        buffers.append(buffer)
        step.partials[out] = (how, buffer)


def is_reduced(kernel: Kernel, r: Reduce, loop: int) -> bool:
    """Whether a reduction combines values along a loop."""
    return not kernel.loops[loop].strides[kernel.views.index(r.view)]
