"""Values written into others: frames of zeros, slice assignment, concatenation.

    place(x, spec=(slice(1, -1),), shape=(n,))      0 x x x 0: a frame, not stored
    put(a, v, spec=…)                               a with v at an index: a select at each point
    concatenate(a, b)                               each piece is written in place, by the kernel that computes it
    roll(x, shifts=(2,), axes=(0,))                 two windows on x: the part that moves, and the part that wraps around

An index with steps has no frame: the whole is first copied, or filled with zeros.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.types import Shape
from ...ir.graph import Equation, Literal, Operand
from ...ops import elementwise as ew
from ...ops import index, shape, shift
from ..switches import Switch
from .kernel import Buffer, KernelLine, View, Window, size_of
from .lowered import Frame, Line, Rules
from .views import region

if TYPE_CHECKING:
    from .fuse import Lowering

_CHEAP = 32  # additions; up to this cost, recompute in a frame rather than store and load
_MOST_ZEROS = 2  # such a frame has at most so many elements for each of the value, since the code runs at all of its points


def placed(low: Lowering, equation: Equation) -> bool:
    """Zeros with a value at a basic index: a frame if the index has no steps."""
    (x,) = equation.inputs
    (result,) = equation.types
    if result.dtype not in low.movable or size_of(result.shape) == 0:
        return False
    spec = equation.params["spec"]
    framed = _framed(low, x, spec, result.shape) if size_of(low.type_of(x).shape) else None
    if framed is not None:
        return low.hold(equation, framed)
    view, out = low.view(x), low.local(result)
    low.copy(Literal(0.0), out)
    low.copy(view, region(out, spec), after=low.ready[out.buffer])
    return low.hold(equation, out)


def put(low: Lowering, equation: Equation) -> bool:
    """A copy with a value written at a basic index."""
    x, v = equation.inputs
    (result,) = equation.types
    if any(t.dtype not in low.movable for t in (result, low.type_of(x), low.type_of(v))):
        return False
    if Switch.WINDOW_WRITES.on and _put_window(low, equation):
        return True
    out = low.local(result)
    low.copy(low.operand(x, result.shape), out)
    target = region(out, equation.params["spec"])
    value = low.operand(v, target.shape)
    low.copy(value, target, after=low.ready[out.buffer])
    return low.hold(equation, out)


def _put_window(low: Lowering, equation: Equation) -> bool:
    """A write without steps is a select at each point: no copy first."""
    x, v = equation.inputs
    (result,) = equation.types
    spec = equation.params["spec"]
    if 0 in result.shape or low.type_of(v).dtype != result.dtype or low.type_of(x).dtype != result.dtype:
        return False
    written = np.broadcast_to(np.False_, result.shape)[(*spec, ...)].shape
    if 0 in written:
        return False
    if isinstance(v, Literal) and not v.type.shape:
        frame = _framed_number(v, spec, result.shape, written)
    elif low.type_of(v).shape == written:
        frame = _framed(low, v, spec, result.shape)
    else:
        return False
    if frame is None:
        return False
    base = low.operand(x, result.shape)
    position = low.place(result.shape, [base, frame])
    kernel = low.kernel(position)
    line = kernel.add("window", (low.read(position, base),), (frame.lines, frame.window), result.dtype)
    return low.hold(equation, Line(position, line))


def _framed(low: Lowering, x: Operand, spec: tuple[Any, ...], shape: Shape) -> Frame | None:
    """A value in a frame; None if the index has steps."""
    value = None if isinstance(x, Literal) else low.values[x]
    if isinstance(value, Line) and Switch.FRAMES.on and size_of(shape) <= _MOST_ZEROS * size_of(low.type_of(x).shape):
        again = _computed_again(low, value, spec, shape)
        if again is not None:
            return again
    view = low.view(x)
    found = _window(spec, shape, view)
    return None if found is None else Frame((KernelLine("load", (), found[0], view.dtype),), shape, found[1])


def _framed_number(number: Literal, spec: tuple[Any, ...], shape: Shape, written: Shape) -> Frame | None:
    """A number at all points of an index; None if the index has steps."""
    dtype = number.type.dtype
    anywhere = View(Buffer(-1, dtype, 1, "constant"), written, (0,) * len(written))  # has a shape; it is not read
    found = _window(spec, shape, anywhere)
    return found and Frame((KernelLine("const", (), np.asarray(number.value).item(), dtype),), shape, found[1])


def _computed_again(low: Lowering, line: Line, spec: tuple[Any, ...], shape: Shape) -> Frame | None:
    """A line of a kernel in a frame, recomputed if that is cheap: it saves a round trip through memory."""
    code = low.cheap(line, _CHEAP)
    if code is None:
        return None
    moved: dict[int, int] = {}
    lines: list[KernelLine] = []
    window = None
    for i, old in code:
        data = old.data
        if old.kind == "load":
            framed = _window(spec, shape, data)
            if framed is None:
                return None
            data, window = framed
        moved[i] = len(lines)
        lines.append(KernelLine(old.kind, tuple(moved[a] for a in old.args), data, old.dtype))
    return None if window is None else Frame(tuple(lines), shape, window)


def _window(spec: tuple[Any, ...], shape: Shape, view: View) -> tuple[View, Window] | None:
    """The window of a value in a frame of zeros, from its index; None if the index has steps."""
    entries = list(spec)
    used = sum(e is not None and e is not Ellipsis for e in entries)
    if Ellipsis in entries:
        at = entries.index(Ellipsis)
        entries[at : at + 1] = [slice(None)] * (len(shape) - used)
    else:
        entries += [slice(None)] * (len(shape) - used)
    axes, strides, window, offset = iter(zip(view.shape, view.strides, strict=True)), [], [], view.offset
    lengths = iter(shape)
    # A value that was broadcast has fewer axes, or axes of size one: not handled.
    for e in entries:
        if e is None:
            if next(axes, (0, 0))[0] != 1:
                return None
            continue
        length = next(lengths)
        if isinstance(e, slice):
            start, stop, step = e.indices(length)
            size, stride = next(axes, (-1, 0))
            if step != 1 or size != max(0, stop - start):
                return None
            window.append((start, stop))
            strides.append(stride)
            offset -= start * stride
        else:
            i = int(e) % length
            window.append((i, i + 1))
            strides.append(0)
    if next(axes, None) is not None:
        return None
    return View(view.buffer, shape, tuple(strides), offset), tuple(window)


def joined(low: Lowering, equation: Equation) -> bool:
    """Each piece is written in place."""
    (result,) = equation.types
    if result.dtype not in low.movable or any(low.type_of(o).dtype not in low.movable for o in equation.inputs):
        return False
    out, axis = low.local(result), equation.params["axis"]
    is_stack, start = equation.op is shape.stack, 0
    for o in equation.inputs:
        extent = low.type_of(o).shape
        count = 1 if is_stack else extent[axis]
        at = start if is_stack else slice(start, start + count)
        low.copy(low.operand(o, extent), region(out, (slice(None),) * axis + (at,)))
        start += count
    return low.hold(equation, out)


def rolled(low: Lowering, equation: Equation) -> bool:
    """A cyclic shift: each point reads one element of the array, one of two ranges along each axis."""
    (x,) = equation.inputs
    (result,) = equation.types
    if result.dtype not in low.movable or 0 in result.shape:
        return False
    value: Line | View = low.view(x)
    for by, axis in zip(equation.params["shifts"], equation.params["axes"], strict=True):
        value = _rolled(low, low.store(value) if isinstance(value, Line) else value, by, axis % len(result.shape))
    return low.hold(equation, value)


def _rolled(low: Lowering, view: View, by: int, axis: int) -> Line | View:
    n, stride = view.shape[axis], view.strides[axis]
    by %= n
    if not by:
        return view
    position = low.place(view.shape, [view])
    kernel, line = low.kernel(position), tuple[int, ...]()
    for move, start, stop in ((n - by, 0, by), (-by, by, n)):
        moved = View(view.buffer, view.shape, view.strides, view.offset + move * stride)
        window = tuple((start, stop) if k == axis else (0, size) for k, size in enumerate(view.shape))
        line = (kernel.add("window", line, ((KernelLine("load", (), moved, view.dtype),), window), view.dtype),)
    return Line(position, line[0])


def differences(low: Lowering, equation: Equation) -> bool:
    """Of neighbours: one view of the array less another."""
    (x,) = equation.inputs
    (result,) = equation.types
    if result.dtype not in low.dtypes or result.dtype.kind == "b" or low.type_of(x).dtype != result.dtype:
        return False
    axes = (slice(None),) * equation.params["axis"]
    ends = (slice(1, None), slice(0, -1))
    after, before = (low.emit(index.getitem, (x,), result, spec=(*axes, part)) for part in ends)
    return low.alias(equation, low.emit(ew.sub, (after, before), result))


RULES: Rules = {
    index.place: placed,
    index.put: put,
    shape.concatenate: joined,
    shape.stack: joined,
    shift.roll: rolled,
    shift.difference: differences,
}
