"""Row tiles: one function that runs several kernels for a piece of their outermost loop, tile by tile.

    define internal void @row_tiles(ptr %table, i64 %piece)

The table holds the addresses of their buffers. Buffers that only they use are on the stack, one tile each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..lower.kernel import Buffer
from ..lower.step import RowTiles
from .instruction import MEMORY, Code, start_of
from .nest import Nest

if TYPE_CHECKING:
    from .program import StepRoutine


def emit(routine: StepRoutine, step: RowTiles) -> None:
    module = routine.module
    nests = [Nest(kernel, step, numbers_apart=routine.has_many_kernels) for kernel in step.kernels]
    kernels = [routine.define_nest(nest, "kernel") for nest in nests]
    used = list(dict.fromkeys(b for nest in nests for b in nest.buffers if b not in step.own))
    used = [step.partials[b][1] if b in step.partials else b for b in used]
    name = module.name("row_tiles")
    module.definitions.append(_piece(name, step, used, list(zip(kernels, nests, strict=True))))
    routine.in_parallel(name, routine.table([routine.pointers[b] for b in used]), step.chunks)
    for out, (how, partial) in step.partials.items():
        routine.gather_pieces(step.chunks, how, out, routine.pointers[partial])


def _piece(name: str, step: RowTiles, used: list[Buffer], kernels: Sequence[tuple[str, Nest]]) -> str:
    code = Code()
    pointers = {b: code.let(f"load ptr, ptr {code.slot('%table', i)}") for i, b in enumerate(used)}
    for buffer, row in step.own.items():
        size = step.tile * row * buffer.dtype.itemsize
        pointers[buffer] = code.let(f"alloca [{size} x i8], align 64")
    for out, how in step.totals.items():
        if out in step.partials:
            offset = code.let(f"mul nuw nsw i64 %piece, {out.nbytes}")
            pointers[out] = code.let(f"getelementptr i8, ptr {pointers[step.partials[out][1]]}, i64 {offset}")
        with code.iterations("0", str(out.size)) as i:
            place = code.let(f"getelementptr {MEMORY[out.dtype]}, ptr {pointers[out]}, i64 {i}")
            code.store(start_of(how, out.dtype), place, out.dtype)
    per = -(-step.length // step.chunks)
    start = code.let(f"mul nuw nsw i64 %piece, {per}")
    stop = code.smaller(code.let(f"add nuw nsw i64 {start}, {per}"), str(step.length))
    with code.iterations(start, stop, step.tile) as at:
        count = code.smaller(code.let(f"sub nuw nsw i64 {stop}, {at}"), str(step.tile))
        for kernel, nest in kernels:
            given = [*(f"ptr {pointers[b]}" for b in nest.buffers), *nest.numbers, f"i64 {at}", f"i64 {count}"]
            code.do(f"call void {kernel}({', '.join(given)})")
    code.do("ret void")
    return code.define(f"define internal void {name}(ptr %table, i64 %piece) nounwind noinline")
