"""Convolutions, sliding windows and their transpose: an array read several times, each time moved by one element.

    y_i = Σ_j a_{i + m - 1 - j} v_j        m views of a, which are terms of one kernel, or a sum along an axis of windows

A full convolution is that of an array with zeros around it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...core.types import Type
from ...ir.graph import Equation, Literal
from ...ops import broadcast, index, windows
from ...ops import convolve as ops
from ...ops import elementwise as ew
from .kernel import Dtype, Kernel, Reduce, View
from .lowered import Line, Rules
from .scalar import BOOL, KernelWriter
from .views import reshaped

if TYPE_CHECKING:
    from .fuse import Lowering

#: Elements of the shorter factor of a full convolution of two long ones, for which NumPy is called: it has a dot product of BLAS
#: for each overlap, and a kernel would multiply as many zeros around the longer one.
_LONG = 256
_FEW = 16  # elements of a factor, or of a window, that are terms in the code of a kernel


def convolve(low: Lowering, equation: Equation) -> bool:
    (a, v), (result,), mode = equation.inputs, equation.types, equation.params["mode"]
    types = [low.type_of(o) for o in (a, v)]
    if not low.has_array_kernels:
        return False
    if (
        result.dtype == BOOL
        or any(t.dtype not in low.dtypes for t in (*types, result))
        or any(0 in t.shape for t in (*types, result))
    ):
        return False
    if types[0].shape[-1] < types[1].shape[-1]:
        if mode == "valid":
            return False
        a, v, types = v, a, types[::-1]
    n, m = (t.shape[-1] for t in types)
    if mode == "full" and len(result.shape) == 1 and result.dtype.kind == "f" and m >= _LONG and n < 4 * m:
        return False
    inside = None
    if mode == "full" and m > 1:
        framed = Type((*types[0].shape[:-1], n + 2 * (m - 1)), types[0].dtype)
        a = low.emit(index.place, (a,), framed, spec=_last(framed, slice(m - 1, m - 1 + n)), shape=framed.shape)
        inside = low.view(Literal(np.pad(np.ones(n, bool), m - 1)))
    short = low.emit(index.getitem, (v,), types[1], spec=_last(types[1], slice(None, None, -1)))
    factors = _Factors(low.view(a), low.view(short), inside)
    return (_by_terms if m <= _FEW else _by_windows)(low, equation, factors)


def _last(t: Type, part: slice) -> tuple[slice, ...]:
    """The index of a part of the last axis."""
    return (*(slice(None),) * (len(t.shape) - 1), part)


class _Factors(NamedTuple):
    long: View
    short: View  # in the order in which the other factor is read
    inside: View | None  # which elements of `long` are not zeros around it: they meet infinities, too

    def product(self, kernel: Kernel, views: Iterable[View], dtype: Dtype) -> int:
        """A term, from views of all of these."""
        write = KernelWriter(kernel)
        a, b, *inside = (kernel.add("load", (), view.over(kernel.domain), view.dtype) for view in views)
        term = write("mul", write.cast(a, dtype), write.cast(b, dtype))
        return write("select", inside[0], term, write.like(0, term)) if inside else term


def _by_terms(low: Lowering, equation: Equation, factors: _Factors) -> bool:
    (result,) = equation.types
    domain = result.shape
    lengths = (domain[-1], 1, domain[-1])
    position = low.place(domain, [*factors])
    write, total = KernelWriter(low.kernel(position)), None
    for j in range(factors.short.shape[-1]):
        parts = (_part(view, j, length) for view, length in zip(factors, lengths, strict=True) if view is not None)
        term = factors.product(write.kernel, parts, result.dtype)
        total = term if total is None else write("add", total, term)
    assert total is not None
    return low.hold(equation, Line(position, total))


def _part(view: View, start: int, length: int) -> View:
    """A range of the last axis."""
    return View(view.buffer, (*view.shape[:-1], length), view.strides, view.offset + start * view.strides[-1])


def _by_windows(low: Lowering, equation: Equation, factors: _Factors) -> bool:
    (result,), (long, short, inside) = equation.types, factors
    m = short.shape[-1]
    domain = (*result.shape, m)
    held = low.local(short.type)
    low.copy(short, held)
    still = View(held.buffer, (*held.shape[:-1], 1, m), (*held.strides[:-1], 0, held.strides[-1]), held.offset)
    windows = [_windows(view, result.shape[-1], m) for view in (long, inside) if view is not None]
    views = [windows[0], still, *windows[1:]]
    position = low.place(domain, views)
    kernel, out = low.kernel(position), low.local(result)
    term = factors.product(kernel, views, result.dtype)
    kernel.reductions.append(Reduce("sum", term, (len(domain) - 1,), View(out.buffer, domain, (*out.strides, 0))))
    low.ready[out.buffer] = position
    return low.hold(equation, out)


def _windows(view: View, count: int, m: int) -> View:
    return View(view.buffer, (*view.shape[:-1], count, m), (*view.strides, view.strides[-1]), view.offset)


def overlap(low: Lowering, equation: Equation) -> bool:
    """The sum of all windows, each at its place."""
    (g,), (result,), axes = equation.inputs, equation.types, equation.params["axes"]
    t = low.type_of(g)
    if not low.has_array_kernels:
        return False
    if result.dtype not in low.dtypes or result.dtype == BOOL or t.dtype != result.dtype or 0 in (*t.shape, *result.shape):
        return False
    ndim = len(result.shape)
    width, counts = t.shape[ndim:], t.shape[:ndim]
    if math.prod(width) > _FEW:
        flat = np.arange(math.prod(result.shape)).reshape(result.shape)
        places = np.ascontiguousarray(np.lib.stride_tricks.sliding_window_view(flat, width, axes)).reshape(-1)
        values = low.emit(broadcast.reshape, (g,), Type(places.shape, t.dtype), shape=places.shape)
        line = Type((flat.size,), t.dtype)
        total = low.emit(index.scatter_add, (values, Literal(places)), line, axis=0, shape=line.shape)
        return low.alias(equation, low.emit(broadcast.reshape, (total,), result, shape=result.shape))
    so_far: int | None = None
    for place in np.ndindex(*width):
        spec = [slice(0, n) for n in counts]
        for axis, i in zip(axes, place, strict=True):
            spec[axis] = slice(i, i + counts[axis])
        part = low.emit(index.getitem, (g,), Type(counts, t.dtype), spec=(*(slice(None),) * ndim, *place))
        framed = low.emit(index.place, (part,), result, spec=tuple(spec), shape=result.shape)
        so_far = framed if so_far is None else low.emit(ew.add, (so_far, framed), result)
    assert so_far is not None
    return low.alias(equation, so_far)


def all_windows(low: Lowering, equation: Equation) -> bool:
    """A view in which elements occur several times."""
    return low.has_array_kernels and reshaped(low, equation)


RULES: Rules = {ops.convolve: convolve, windows.windows: all_windows, windows.overlap: overlap}
