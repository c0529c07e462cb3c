"""Time tiles: a loop over a stencil runs several iterations on one tile of the grid while the tile is in the cache.

    scan of 100 iterations: kernel over (2048, 2048),          7 times, for tiles of 64 rows, in parallel:
    which reads rows i - 1, i and i + 1 of the last state  →     iteration 1 on the tile and 15 rows on either side
                                                                 iteration 2 on the tile and 14 rows on either side
                                                                 …
                                                                 iteration 16 on the tile

A step of a stencil has few operations for each element, so that large grids are bound by memory: they are then read and written
once for all iterations of a tile. Neighbours compute the rows between them twice. Each element is computed as before, so the
results are bitwise the same. The states in between are in the memory of a tile, which holds its rows and those around them.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..switches import Switch
from .kernel import Buffer, Kernel, View
from .row_tiles import row_of
from .step import Lowered, Scan, TimeTiles

LEAST_ITERATIONS = 8
LARGE = 8_000_000  # bytes of the state, from which an iteration waits for memory
LARGE_OF_SHORT_ROWS = 1_000_000  # the same, if many rows fit in the L1 cache, which then gains on the L2 cache
_MANY = 512
_FAST = 1 << 15  # bytes of a tile in the L1 cache
_MOST_HALO = 4  # rows that a step reads on either side
_TILE = 3 << 20  # bytes of a tile with long rows: it stays in the L2 cache, or in a part of the L3 cache
_LONGEST, _SHORTEST = 256, 16  # rows of such a tile
_DEEPEST = 64  # iterations of a tile
_MOST_PIECES = 16


def in_time_tiles(lowered: Lowered) -> None:
    """Replace the loops over large stencils of a program, after scheduling."""
    if not Switch.TIME_TILES.on:
        return
    for i, step in enumerate(lowered.steps):
        if isinstance(step, Scan):
            tiled = _tiled(step, lowered)
            lowered.steps[i] = step if tiled is None else tiled


def _tiled(scan: Scan, lowered: Lowered) -> TimeTiles | None:
    """A loop in time tiles; None if it is no stencil, or a small one."""
    kernel = _only_kernel(scan)
    if kernel is None or scan.length < LEAST_ITERATIONS:
        return None
    length = kernel.loops[0].length
    rows = _rows(scan, kernel, length)
    if rows is None:
        return None
    halo = _halo(scan, kernel, rows)
    if halo is None or halo > _MOST_HALO:
        return None
    size = 2 * sum(rows[buffer] * buffer.dtype.itemsize for buffer in _begins(scan))  # bytes of a row, in both copies
    tile, least = _FAST // size, LARGE_OF_SHORT_ROWS
    if tile >= _MANY:
        depth = tile // (16 * max(halo, 1))
    else:
        tile, least = min(_LONGEST, _TILE * 2 // 3 // size), LARGE
        depth = tile // (4 * max(halo, 1))
    depth = min(depth, _DEEPEST, scan.length)
    if tile < max(1, _SHORTEST) or depth < 2 or length < 2 * tile or size * length < 2 * least:
        return None
    pieces = max(1, min(_MOST_PIECES, -(-length // tile)))
    of_piece = size * (tile + 2 * halo * (depth - 1))
    memory = Buffer(len(lowered.buffers), np.dtype(np.uint8), of_piece * pieces, "local")
    lowered.buffers.append(memory)
    return TimeTiles(scan, kernel, rows, length, halo, tile, depth, memory, pieces)


def _only_kernel(scan: Scan) -> Kernel | None:
    """The kernel that is all of the body of a loop, whose outermost loop runs over the first axis of the state."""
    body = scan.body
    if scan.rows or scan.stacks or any(scan.in_place) or body.can_fail or len(body.steps) != 1:
        return None
    (kernel,) = body.steps
    if not isinstance(kernel, Kernel) or kernel.reductions or kernel.scatters or not kernel.loops or 0 in kernel.domain:
        return None
    if kernel.loops[0].axes != (0,) or any(line.kind == "gather" for line in kernel.code):
        return None
    return kernel


def _begins(scan: Scan) -> list[Buffer]:
    """The buffers in which the body of a loop reads its carries."""
    return scan.body.inputs[len(scan.consts) :]


def _rows(scan: Scan, kernel: Kernel, length: int) -> Mapping[Buffer, int] | None:
    """The elements of a row of each carry, where it begins and where it ends; None if the kernel does not write it row by row."""
    found: dict[Buffer, int] = {}
    reads = len(list(kernel.reads()))
    stored = {
        view.buffer: row_of(view, [(loop.length, loop.strides[i]) for loop in kernel.loops])
        for i, view in enumerate(kernel.views)
        if i >= reads
    }
    known = {*scan.body.inputs, *stored}
    if len(stored) != len(kernel.stores) or any(v.buffer not in known and v.buffer.kind != "constant" for v in kernel.reads()):
        return None
    for begin, end in zip(_begins(scan), scan.body.outputs, strict=True):
        row = stored.get(end.buffer, 0)
        if not row or row * length != end.buffer.size or not end.is_whole or end.buffer in found:
            return None
        found[begin] = found[end.buffer] = row
    if set(stored) - set(found) or any(view.buffer in stored for view in kernel.reads()):
        return None
    return found


def _halo(scan: Scan, kernel: Kernel, rows: Mapping[Buffer, int]) -> int | None:
    """How many rows before or behind its own a row of the next state depends on; None if these are not at a fixed distance."""
    halo, begins = 0, set(_begins(scan))
    for i, view in enumerate(kernel.reads()):
        if view.buffer in begins:
            row = rows[view.buffer]
            if kernel.loops[0].strides[i] != row:
                return None
            first, last = _reached(view, [(loop.length, loop.strides[i]) for loop in kernel.loops[1:]])
            halo = max(halo, -(first // row), last // row)
    return halo


def _reached(view: View, loops: list[tuple[int, int]]) -> tuple[int, int]:
    """The first and the last element that the inner loops read, in the first iteration of the outermost one."""
    first = view.offset + sum(min(0, (n - 1) * s) for n, s in loops)
    last = view.offset + sum(max(0, (n - 1) * s) for n, s in loops)
    return first, last
