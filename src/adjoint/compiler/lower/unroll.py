"""Unroll one axis of a kernel: the code of each index is written out, line by line.

kernel over (400, 400, 3):                        kernel over (400, 400):
  s0 = load b0[+0, (3, 0, 1)]                       s0 = load b0[+0, (3, 0)]
  s1 = load b0[+0, (0, 3, 1)]                       s1 = load b0[+0, (0, 3)]
  s2 = sub s0 s1                                    s2 = sub s0 s1
  sum s2 into b1[+0, (3, 0, 1)]                     sum s2 into b1[+0, (3, 0)]
                                                    s3 = load b0[+1, (3, 0)]          … and so on
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from .kernel import COMBINED, Kernel, KernelLine, Reduce, Store, View, Window
from .scalar import KernelWriter

_Item = TypeVar("_Item")


def unrolled(kernel: Kernel, axis: int) -> Kernel:
    """The kernel with an axis unrolled."""
    made = Kernel(_without(kernel.domain, axis), lines=dict(kernel.lines))
    copies = [_copied(kernel, made, axis, i) for i in range(kernel.domain[axis])]
    for store in kernel.stores:
        made.stores += [Store(lines[store.scalar], _at(store.view, axis, i)) for i, lines in enumerate(copies)]
    for scatter in kernel.scatters:
        for i, lines in enumerate(copies):
            at = tuple(lines[a] for a in scatter.at)
            made.scatters.append(replace(scatter, scalar=lines[scatter.scalar], at=at, view=_at(scatter.view, axis, i)))
    for r in kernel.reductions:
        _reduce(made, r, axis, [lines[r.scalar] for lines in copies])
    return made


def _reduce(made: Kernel, r: Reduce, axis: int, lines: list[int]) -> None:
    """Combine the lines, if the axis is reduced; a reduction without remaining axes becomes a store."""
    rest = tuple(a - (a > axis) for a in r.axes if a != axis)
    if axis not in r.axes:
        made.reductions += [Reduce(r.how, line, rest, _at(r.view, axis, i)) for i, line in enumerate(lines)]
        return
    total = lines[0]
    for line in lines[1:]:
        total = KernelWriter(made)(COMBINED[r.how], total, line)
    view = _at(r.view, axis, 0)
    if rest:
        made.reductions.append(Reduce(r.how, total, rest, view))
    else:
        made.stores.append(Store(total, view))


def _copied(kernel: Kernel, made: Kernel, axis: int, index: int) -> list[int]:
    """The code at one index of the axis: the new number of each line."""
    numbers: list[int] = []
    for line in kernel.code:
        args = tuple(numbers[a] for a in line.args)
        if line.kind == "window":
            numbers.append(_window(made, line, args, axis, index))
        else:
            numbers.append(made.add(line.kind, args, _data(line, axis, index), line.dtype))
    return numbers


def _data(line: KernelLine, axis: int, index: int) -> object:
    if line.kind == "load":
        return _at(line.data, axis, index)
    if line.kind == "gather":
        return (_at(line.data[0], axis, index), line.data[1])
    return line.data


def _window(made: Kernel, line: KernelLine, args: tuple[int, ...], axis: int, index: int) -> int:
    """Whether the point is inside is known along the unrolled axis."""
    inner, window = line.data
    first, end = window[axis]
    if not first <= index < end:
        return args[0] if args else made.add("const", (), line.dtype.type(0).item(), line.dtype)
    moved = tuple(KernelLine(s.kind, s.args, _data(s, axis, index), s.dtype) for s in inner)
    rest: Window = _without(window, axis)
    return made.add("window", args, (moved, rest), line.dtype)


def _at(view: View, axis: int, index: int) -> View:
    shape, strides = _without(view.shape, axis), _without(view.strides, axis)
    return View(view.buffer, shape, strides, view.offset + index * view.strides[axis])


def _without(items: tuple[_Item, ...], axis: int) -> tuple[_Item, ...]:
    return items[:axis] + items[axis + 1 :]
