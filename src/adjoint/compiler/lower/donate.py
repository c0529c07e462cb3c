"""Results written into the memory of donated inputs (`donate_argnums`).

    y = x - 0.1 * g         with x donated, y is written over x, element by element

A result can take the memory of an input of its size and dtype if nothing reads the input after the first write of the result. In
a kernel that does both, each point must read the element that it writes, and no other. Programs with guards, and those that can
fail, reuse nothing: after a miss or an error the inputs are read again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..switches import Switch
from .kernel import Buffer, Kernel, KernelLine, size_of
from .step import Foreign, Lowered


def reusable(lowered: Lowered, donated: Collection[int]) -> dict[int, int]:
    """For each result that can be written over a donated input: the number of that input."""
    can_fail = lowered.guard is not None or lowered.can_fail or any(isinstance(step, Foreign) for step in lowered.steps)
    if not donated or can_fail or not Switch.DONATION.on:
        return {}
    outputs = [view.buffer for view in lowered.outputs]
    found: dict[int, int] = {}
    for k, view in enumerate(lowered.outputs):
        if not view.is_whole or view.buffer.kind != "output" or outputs.count(view.buffer) > 1:
            continue
        for i in sorted(set(donated) - set(found.values())):
            if _can_be_written_over(lowered.inputs[i], view.buffer, lowered.steps):
                found[k] = i
                lowered.inputs[i].shared = view.buffer.shared = True
                break
    return found


def read_results(lowered: Lowered, reused: Mapping[int, int]) -> None:
    """Let kernels that write a result over an argument read the result, which must hold the numbers of the argument at first.

    LLVM then sees one pointer, and vectorizes: of two that may be equal, it tests whether they are, and then does not.
    """
    for k, i in reused.items():
        given, out = lowered.inputs[i], lowered.outputs[k].buffer
        for step in lowered.steps:
            if isinstance(step, Kernel) and any(view.buffer is out for view in step.writes()):
                step.code[:] = [_reading(out, given, line) for line in step.code]


def _reading(out: Buffer, given: Buffer, line: KernelLine) -> KernelLine:
    if line.kind == "load" and line.data.buffer is given:
        return replace(line, data=replace(line.data, buffer=out))
    if line.kind == "window":
        inner, window = line.data
        return replace(line, data=(tuple(_reading(out, given, part) for part in inner), window))
    return line


def _can_be_written_over(given: Buffer, out: Buffer, steps: Sequence[Any]) -> bool:
    if (given.dtype, given.size) != (out.dtype, out.size):
        return False
    reads = [n for n, step in enumerate(steps) if any(v.buffer is given for v in step.reads())]
    uses = [n for n, step in enumerate(steps) if any(v.buffer is out for v in (*step.reads(), *step.writes()))]
    if not uses:
        return False
    last, first = max(reads, default=-1), uses[0]
    return last < first or (last == first and _point_by_point(steps[last], given, out))


def _point_by_point(step: Any, given: Buffer, out: Buffer) -> bool:
    """Whether each point of a kernel reads, of one buffer, only the element that it writes to the other."""
    if not isinstance(step, Kernel) or step.reductions or step.scatters:
        return False
    stored = [store.view for store in step.stores if store.view.buffer is out]
    if len(stored) != 1 or any(line.kind == "gather" and line.data[0].buffer is given for line in step.code):
        return False
    view = stored[0]
    is_once = size_of(view.shape) == out.size and all(view.strides[k] for k, n in enumerate(view.shape) if n > 1)
    loaded = [v for v in step.reads() if v.buffer is given]
    return is_once and all((v.shape, v.strides, v.offset) == (view.shape, view.strides, view.offset) for v in loaded)
