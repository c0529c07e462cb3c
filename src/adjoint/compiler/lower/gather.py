"""Gather and scatter-add: x[i, j] for integer arrays, and its transpose; x[i, j] = v for integers.

An index counts from the front or, if negative, from the back. The program ends with an error if one was out of bounds; until then
element 0 is used instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...core.types import Shape, Type
from ...ir.graph import Equation, Literal, Operand
from ...ops import index
from .kernel import Reduce, Scatter, View
from .lowered import Line, Rules
from .scalar import BOOL, NATIVE, Writer
from .views import as_numpy_does

if TYPE_CHECKING:
    from .fuse import Lowering

_INDEX = np.dtype(np.int64)


def gather(low: Lowering, equation: Equation) -> bool:
    """x[:, i, j]."""
    x, *arrays = equation.inputs
    (result,), axis = equation.types, equation.params["axis"]
    t = low.type_of(x)
    if t.dtype not in NATIVE or not _are_whole(low, arrays) or 0 in (*t.shape, *result.shape):
        return False
    table, domain = low.view(x), result.shape
    views = [low.view(a) for a in arrays if not isinstance(a, Literal) or low.type_of(a).shape]
    position = low.place(domain, [table, *views])
    at = _indices(low, position, arrays, domain, axis, t.shape[axis : axis + len(arrays)])
    strides = table.strides[axis : axis + len(arrays)]
    line = low.kernel(position).add("gather", at, (_without(table, axis, len(arrays), domain), strides), t.dtype)
    return low.hold(equation, Line(position, line))


def scatter(low: Lowering, equation: Equation) -> bool:
    """Zeros, to which values are added at the indices."""
    g, *arrays = equation.inputs
    (result,), axis = equation.types, equation.params["axis"]
    t = low.type_of(g)
    if result.dtype not in NATIVE or t.dtype != result.dtype or not _are_whole(low, arrays) or 0 in (*t.shape, *result.shape):
        return False
    out, domain = low.local(result), t.shape
    low.copy(Literal(0.0), out)
    operand = low.operand(g, domain)
    views = [low.view(a) for a in arrays if not isinstance(a, Literal) or low.type_of(a).shape]
    position = low.place(domain, [operand, *views], after=low.ready[out.buffer])
    line = low.read(position, operand)
    at = _indices(low, position, arrays, domain, axis, result.shape[axis : axis + len(arrays)])
    strides = out.strides[axis : axis + len(arrays)]
    low.kernel(position).scatters.append(Scatter(line, at, strides, _without(out, axis, len(arrays), domain)))
    low.ready[out.buffer] = position
    return low.hold(equation, out)


def put(low: Lowering, equation: Equation) -> bool:
    """x with v written at one place, x[i, j] = v: each element is chosen by its position."""
    x, v, *arrays = equation.inputs
    (result,), axis = equation.types, equation.params["axis"]
    sizes = result.shape[axis : axis + len(arrays)]
    is_one = all(low.type_of(a).shape == () for a in arrays) and (axis == 0 or low.type_of(v).shape == ())
    same = low.type_of(x).dtype == low.type_of(v).dtype == result.dtype
    if not is_one or not same or result.dtype not in NATIVE or not _are_whole(low, arrays) or 0 in result.shape:
        return False
    domain = result.shape
    behind = [(1,) * (len(domain) - axis - i - 1) for i in range(len(sizes))]
    places = [low.operand(Literal(np.arange(n).reshape(n, *ones)), domain) for n, ones in zip(sizes, behind, strict=True)]
    old, new = low.operand(x, domain), low.operand(v, domain)
    views = [low.view(a) for a in arrays if not isinstance(a, Literal)]
    position = low.place(domain, [old, new, *places, *views])
    at = _indices(low, position, arrays, domain, axis, sizes)
    w = Writer(low.kernel(position))
    tests = [w.test("equal", low.read(position, place), i) for place, i in zip(places, at, strict=True)]
    here = tests[0]
    for test in tests[1:]:
        here = w.test("and", here, test)
    return low.hold(equation, Line(position, w("select", here, low.read(position, new), low.read(position, old))))


def _indices(low: Lowering, position: int, arrays: Sequence[Operand], domain: Shape, start: int, sizes: Shape) -> tuple[int, ...]:
    """Index arrays that vary along the axes of the domain from `start` on, counted from the front, inside the bounds.

    Whether one was out of bounds is reduced into a bool; 0 is used instead.
    """
    kernel = low.kernel(position)
    w = Writer(kernel)
    found = []
    ndim = len(np.broadcast_shapes(*(low.type_of(a).shape for a in arrays)))
    behind = (1,) * (len(domain) - start - ndim)
    for array, size in zip(arrays, sizes, strict=True):
        if isinstance(array, Literal) and array.type.shape == ():
            line = low.read(position, array)
        else:
            view = as_numpy_does(low.view(array), lambda a: a.reshape(a.shape + behind, copy=False))
            assert view is not None
            line = low.read(position, view)
        line = w.cast(line, _INDEX)
        zero, length = w.const(0, _INDEX), w.const(size, _INDEX)
        line = w("select", w.test("less", line, zero), w("add", line, length), line)
        wrong = w.test("or", w.test("less", line, zero), w.test("greater_equal", line, length))
        found.append(w("select", wrong, zero, line))
        out_of_bounds = low.local(Type((), BOOL))
        kernel.reductions.append(Reduce("any", wrong, tuple(range(len(domain))), out_of_bounds.over(domain)))
        low.ready[out_of_bounds.buffer] = position
        low.out_of_bounds.append(out_of_bounds)
    return tuple(found)


def _are_whole(low: Lowering, arrays: Sequence[Operand]) -> bool:
    return all(low.type_of(a).dtype in NATIVE and low.type_of(a).dtype.kind == "i" for a in arrays)


def _without(view: View, axis: int, count: int, domain: Shape) -> View:
    """A view over the domain of a gather: stride 0 along the axes of the indices, which replace `count` of its axes."""
    ndim = len(domain) - len(view.shape) + count
    strides = (*view.strides[:axis], *(0,) * ndim, *view.strides[axis + count :])
    return View(view.buffer, domain, strides, view.offset)


RULES: Rules = {index.gather: gather, index.scatter_add: scatter, index.put_at: put}
