"""Writes in place: if the old value of an array is dead, the array is changed instead of copied.

    b = put_at(a, v, i)        kernel over (n,):  store a to b        becomes        kernel over ():  write v to a at i
                               kernel over ():    write v to b at i

A kernel that only copies a to b, so that b can be changed, is dropped, and a and b become one buffer, if a is dead when b is
first changed. The carry of a loop and its next value share one buffer instead of alternating between two (`Scan.in_place`), so
that `b[i] = g(b[i - 1])` costs the same for any length of b.

This runs once the order of all steps is final: until then, a read of a could still move behind the change.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from ..switches import Switch
from .dead_code import prune
from .kernel import Buffer, Kernel, KernelLine, Store, View, size_of
from .schedule import arrange, cut
from .step import Lowered, ParallelGroup, PointTiles, RowTiles, TimeTiles


def write_in_place(lowered: Lowered) -> None:
    """Drop copies of arrays of the program that are dead behind them."""
    if not Switch.IN_PLACE.on:
        return
    given = {*lowered.inputs, *(view.buffer for view in lowered.outputs)}
    for step in [step for step in lowered.steps if isinstance(step, Kernel)]:
        k = 0
        while k < len(step.stores):
            old = _copied(step, store := step.stores[k])
            if old is not None and old.kind == "local" and old not in given and _is_dead(lowered, step, store, old):
                _merge(lowered, step, store, old)
            else:
                k += 1


def carry_in_place(body: Lowered, carry: Buffer, out: View) -> bool:
    """Let the body of a loop change a carry in the memory of its next value, which holds it at the start; False if it cannot."""
    buffers = [view.buffer for view in body.outputs]
    if (
        not Switch.IN_PLACE.on
        or not out.is_whole
        or buffers.count(out.buffer) > 1
        or (carry.dtype, carry.size) != (out.dtype, out.buffer.size)
    ):
        return False
    kernels = [step for step in body.steps if isinstance(step, Kernel)]
    if not any(scatter.view.buffer is out.buffer for kernel in kernels for scatter in kernel.scatters):
        return False
    for kernel in kernels:
        for store in kernel.stores:
            if store.view.buffer is out.buffer and _copied(kernel, store) is carry and _is_dead(body, kernel, store, carry):
                _merge(body, kernel, store, carry)
                return True
    return False


def _copied(kernel: Kernel, store: Store) -> Buffer | None:
    """The buffer that a store copies, element by element."""
    line, out = kernel.code[store.scalar], store.view
    if line.kind != "load" or out.offset or out.buffer.size != size_of(out.shape) or line.dtype != out.dtype:
        return None
    source: View = line.data
    is_same = (source.offset, source.strides, source.buffer.size) == (0, out.strides, out.buffer.size)
    is_once = all(stride for n, stride in zip(out.shape, out.strides, strict=True) if n > 1)
    return source.buffer if is_same and is_once and source.buffer is not out.buffer else None


def _is_dead(lowered: Lowered, copying: Kernel, store: Store, old: Buffer) -> bool:
    """Whether nothing reads the old buffer when its copy is changed, and nothing changes it behind the copy."""
    new, position = store.view.buffer, lowered.steps.index(copying)
    is_asked = any(view.buffer in (old, new) for view in _asked(lowered))
    is_also_written = sum(view.buffer is new for view in copying.writes()) != 1
    has_partial_results = copying.chunks > 1 and copying.reductions  # one for each piece
    if is_asked or is_also_written or has_partial_results:
        return False
    reads = [{view.buffer for view in step.reads()} for step in lowered.steps]
    writes = [{view.buffer for view in step.writes()} for step in lowered.steps]
    users = [n for n, (read, written) in enumerate(zip(reads, writes, strict=True)) if {old, new} & (read | written)]
    is_grouped = any(isinstance(lowered.steps[n], (RowTiles, PointTiles, TimeTiles, ParallelGroup)) for n in users)
    new_is_used_before = any(new in reads[n] | writes[n] for n in users if n < position)
    old_is_changed_later = any(old in writes[n] for n in users if n >= position)
    if is_grouped or new_is_used_before or old_is_changed_later:
        return False
    first_change = next((n for n in users if n != position and new in writes[n]), None)
    last_read = max(n for n in users if old in reads[n])
    if first_change is None or last_read < first_change:
        return True
    step = lowered.steps[first_change]
    # At a single point all reads come before the write.
    return last_read == first_change and isinstance(step, Kernel) and size_of(step.domain) == 1


def _asked(lowered: Lowered) -> list[View]:
    """What the program looks at after its last step."""
    return [*lowered.out_of_bounds, *(failed for failed, _ in lowered.failures), *([lowered.guard] if lowered.guard else [])]


def _merge(lowered: Lowered, kernel: Kernel, store: Store, old: Buffer) -> None:
    """Drop a copy, and use the buffer that it was made in for the old one."""
    kernel.stores.remove(store)
    for step in lowered.steps:
        if any(view.buffer is old for view in (*step.reads(), *step.writes())):
            _rename(step, old, store.view.buffer)
    if prune([kernel]):
        arrange(kernel)
        if kernel.chunks > 1:
            kernel.chunks = 1
            cut(kernel, lowered.buffers)
    else:
        lowered.steps.remove(kernel)


def _rename(step: Any, old: Buffer, new: Buffer) -> None:
    for field in fields(step):
        if field.name not in _WITHOUT_VIEWS:
            setattr(step, field.name, _renamed(getattr(step, field.name), old, new))


_WITHOUT_VIEWS = ("params", "options", "lines", "known", "loops")


def _renamed(value: Any, old: Buffer, new: Buffer) -> Any:
    """A part of a step, with one buffer for another."""
    if isinstance(value, View):
        return replace(value, buffer=new) if value.buffer is old else value
    if type(value) in (tuple, list):
        return type(value)([_renamed(part, old, new) for part in value])
    if isinstance(value, KernelLine):
        return replace(value, data=_renamed(value.data, old, new)) if value.kind != "const" else value
    if isinstance(value, Buffer):
        return new if value is old else value
    if type(value) is dict:
        return {_renamed(key, old, new): _renamed(part, old, new) for key, part in value.items()}
    if hasattr(value, "view") and hasattr(value, "scalar"):  # a store, a reduction, a scatter
        return replace(value, view=_renamed(value.view, old, new))
    return value
