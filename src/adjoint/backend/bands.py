"""Kernels in bands: one function that runs them for a piece of their outermost loop, a band of its turns at a time.

    define internal void @bands(ptr %table, i64 %piece)

The table holds the addresses of what they read and write. What only they use is on the stack: a band of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..lower.kernel import Bands, Buffer
from .instruction import MEMORY, Code, start_of
from .nest import Nest

if TYPE_CHECKING:
    from .program import Routine


def emit(routine: Routine, step: Bands) -> None:
    module, code = routine.module, routine.code
    nests = [Nest(kernel, step) for kernel in step.kernels]
    kernels = [routine.define_nest(nest, "kernel") for nest in nests]
    used = list(dict.fromkeys(b for nest in nests for b in nest.buffers if b not in step.own))
    used = [step.partials[b][1] if b in step.partials else b for b in used]
    table = code.let(f"alloca [{len(used)} x ptr]")
    for i, buffer in enumerate(used):
        code.do(f"store ptr {routine.pointers[buffer]}, ptr {_slot(code, table, i)}")
    name = module.name("bands")
    module.definitions.append(_piece(name, step, used, [(k, nest.buffers) for k, nest in zip(kernels, nests, strict=True)]))
    if step.chunks == 1:
        code.do(f"call void {name}(ptr {table}, i64 0)")
    else:
        module.declared.add("declare void @adjoint_parallel(ptr, ptr, i64) nounwind")
        code.do(f"call void @adjoint_parallel(ptr {name}, ptr {table}, i64 {step.chunks})")
    for out, (how, partial) in step.partials.items():
        routine.gather_pieces(step.chunks, how, out, routine.pointers[partial])


def _piece(name: str, step: Bands, used: list[Buffer], kernels: Sequence[tuple[str, Sequence[Buffer]]]) -> str:
    code = Code()
    code.label("entry")
    pointers = {b: code.let(f"load ptr, ptr {_slot(code, '%table', i)}") for i, b in enumerate(used)}
    for buffer, row in step.own.items():
        size = step.band * row * buffer.dtype.itemsize
        pointers[buffer] = code.let(f"alloca [{size} x i8], align 64")
    for out, how in step.totals.items():
        if out in step.partials:
            offset = code.let(f"mul nuw nsw i64 %piece, {out.nbytes}")
            pointers[out] = code.let(f"getelementptr i8, ptr {pointers[step.partials[out][1]]}, i64 {offset}")
        _fill(code, pointers[out], how, out)
    per = -(-step.length // step.chunks)
    start = code.let(f"mul nuw nsw i64 %piece, {per}")
    stop = _smaller(code, code.let(f"add nuw nsw i64 {start}, {per}"), str(step.length))
    before = code.block
    code.do("br label %band")
    code.label("band")
    at, following = code.fresh(), code.fresh()
    code.do(f"{at} = phi i64 [ {start}, %{before} ], [ {following}, %band ]")
    count = _smaller(code, code.let(f"sub nuw nsw i64 {stop}, {at}"), str(step.band))
    for kernel, buffers in kernels:
        given = [*(f"ptr {pointers[b]}" for b in buffers), f"i64 {at}", f"i64 {count}"]
        code.do(f"call void {kernel}({', '.join(given)})")
    code.do(f"{following} = add nuw nsw i64 {at}, {step.band}")
    code.do(f"br i1 {code.let(f'icmp slt i64 {following}, {stop}')}, label %band, label %end")
    code.label("end")
    code.do("ret void")
    return "\n".join([f"define internal void {name}(ptr %table, i64 %piece) nounwind {{", *code.lines, "}"])


def _fill(code: Code, pointer: str, how: str, out: Buffer) -> None:
    """Set a result to where its reduction starts."""
    start, before = start_of(how, out.dtype), code.block
    label, end = f"fill{out.number}", f"filled{out.number}"
    code.do(f"br label %{label}")
    code.label(label)
    i, following = code.fresh(), code.fresh()
    code.do(f"{i} = phi i64 [ 0, %{before} ], [ {following}, %{label} ]")
    code.store(start, code.let(f"getelementptr {MEMORY[out.dtype.name]}, ptr {pointer}, i64 {i}"), out.dtype)
    code.do(f"{following} = add nuw nsw i64 {i}, 1")
    code.do(f"br i1 {code.let(f'icmp slt i64 {following}, {out.size}')}, label %{label}, label %{end}")
    code.label(end)


def _smaller(code: Code, a: str, b: str) -> str:
    return code.let(f"select i1 {code.let(f'icmp slt i64 {a}, {b}')}, i64 {a}, i64 {b}")


def _slot(code: Code, table: str, i: int) -> str:
    return code.let(f"getelementptr ptr, ptr {table}, i64 {i}")
