"""Gather, scatter-add and writes at integer arrays: x[i, j], its transpose, and x[i, j] = v; elements along an axis by number.

An index counts from the front or, if negative, from the back. The program ends with an error if one was out of bounds; until then
element 0 is used instead.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.types import Shape, Type
from ...ir.edit import values_in
from ...ir.graph import Equation, Graph, Literal, Operand
from ...ops import broadcast, index, sort
from ...ops import elementwise as ew
from ...ops.elementwise import add, logical_or
from .kernel import Reduce, Scatter, View, size_of
from .lowered import Line, Rules
from .scalar import BOOL, KernelWriter
from .views import as_numpy_does

if TYPE_CHECKING:
    from .fuse import Lowering

_INDEX = np.dtype(np.int64)
_FEW = 8  # elements that are written as a whole rather than one by one
_FEWER = 4  # times as many elements as are added, from which on an array is not added as a whole


def gather(low: Lowering, equation: Equation) -> bool:
    """x[:, i, j]."""
    x, *arrays = equation.inputs
    (result,), axis = equation.types, equation.params["axis"]
    t = low.type_of(x)
    if t.dtype not in low.movable or not _are_whole(low, arrays) or 0 in (*t.shape, *result.shape):
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
    is_lowered = _adds(low, result.dtype, t.dtype) and _are_whole(low, arrays) and 0 not in (*t.shape, *result.shape)
    if not is_lowered:
        low.scattered.pop(equation.outputs[0], None)
        return False
    if equation.outputs[0] in low.scattered:
        return True  # by the sum that it is added to
    if result.dtype == BOOL and not low.writes_in_place:  # a GPU adds numbers
        count = np.dtype(np.int32)
        ones = low.emit(broadcast.cast, (g,), Type(t.shape, count), dtype=count)
        total = low.emit(index.scatter_add, (ones, *arrays), Type(result.shape, count), **equation.params)
        return low.alias(equation, low.emit(ew.not_equal, (total, Literal(0)), result))
    out = low.local(result)
    low.copy(Literal(0.0), out)
    _scatter_into(low, out, g, arrays, t.shape, axis, adds=True)
    return low.hold(equation, out)


def put(low: Lowering, equation: Equation) -> bool:
    """A copy with values written at the indices. The copy is not made if the old array is dead: see `in_place`."""
    x, v, *arrays = equation.inputs
    (result,), axis = equation.types, equation.params["axis"]
    count, index = len(arrays), np.broadcast_shapes(*(low.type_of(a).shape for a in arrays))
    dtypes = [low.type_of(o).dtype for o in (x, v)]
    if result.dtype != dtypes[0] or any(d not in low.dtypes for d in dtypes) or not _are_whole(low, arrays) or 0 in result.shape:
        return False
    # Of two writes to one element the last one counts. Along one axis, loops keep the order; along two, they may not.
    if len(index) > 1 or 0 in index:
        return False
    if not index and (not low.writes_in_place or size_of(result.shape) <= _FEW):
        return _put_by_select(low, equation)
    if not low.writes_in_place:
        return False
    out = low.local(result)
    low.copy(low.operand(x, result.shape), out)
    domain = (*result.shape[:axis], *index, *result.shape[axis + count :])
    _scatter_into(low, out, v, arrays, domain, axis, adds=False)
    return low.hold(equation, out)


def _put_by_select(low: Lowering, equation: Equation) -> bool:
    """A write at one place as a select at each point: for arrays of a few elements, and where nothing is written in place."""
    x, v, *arrays = equation.inputs
    (result,), axis = equation.types, equation.params["axis"]
    domain = result.shape
    value: Any = v
    if low.type_of(v).shape or not isinstance(v, Literal):
        row = low.type_of(v).shape
        row = (1,) * (len(domain) - len(arrays) - len(row)) + row
        wide = (*row[:axis], *(1,) * len(arrays), *row[axis:])
        value = as_numpy_does(low.view(v), lambda a: a.reshape(wide, copy=False))
        if value is None:
            return False
    counts = [np.arange(domain[axis + k]).reshape((-1,) + (1,) * (len(domain) - axis - k - 1)) for k in range(len(arrays))]
    numbers = [low.view(Literal(c)) for c in counts]
    base = low.operand(x, domain)
    views = [low.view(a) for a in arrays if not isinstance(a, Literal) or low.type_of(a).shape]
    position = low.place(domain, [base, value, *views, *numbers])
    w = KernelWriter(low.kernel(position))
    inside = None
    places = _indices(low, position, arrays, domain, axis, domain[axis : axis + len(arrays)])
    for line, number in zip(places, numbers, strict=True):
        here = w.test("equal", low.read(position, number), line)
        inside = here if inside is None else w.test("and", inside, here)
    assert inside is not None
    chosen = w("select", inside, w.cast(low.read(position, value), result.dtype), low.read(position, base))
    return low.hold(equation, Line(position, chosen))


def added(low: Lowering, equation: Equation) -> bool:
    """x + scatter_add(…), or the same of bools, where few elements are added to: as a copy of x to which they are added."""
    scattered = [o for o in equation.inputs if isinstance(o, int) and o in low.scattered]
    if not scattered:
        return False
    made = low.scattered[scattered[0]]
    x = equation.inputs[1 - equation.inputs.index(scattered[0])]
    g, *arrays = made.inputs
    out = low.local(equation.types[0])
    low.copy(low.operand(x, out.shape), out)
    _scatter_into(low, out, g, arrays, low.type_of(g).shape, made.params["axis"], adds=True)
    return low.hold(equation, out)


def scattered_once(graph: Graph) -> dict[int, Equation]:
    """The scatters of few elements, by their results, that are only added to another array of the same type."""
    readers: dict[int, list[Equation | None]] = {}
    scatters = [e for e in graph.equations if e.op is index.scatter_add]
    for e in graph.equations if scatters else ():
        for o in values_in(e.inputs):
            readers.setdefault(o, []).append(e)
    for o in values_in(graph.outputs):
        readers.setdefault(o, []).append(None)
    found: dict[int, Equation] = {}
    taken: set[int] = set()  # sums that have one
    for e in scatters:
        (number,), (t,) = e.outputs, e.types
        (reader, *others) = readers.get(number, [None])
        if reader is None or others or not _is_sum(reader) or reader.types != (t,) or reader.outputs[0] in taken:
            continue
        g = e.inputs[0]
        few = g.type if isinstance(g, Literal) else graph.types[g]
        if few.dtype != t.dtype or size_of(few.shape) * _FEWER > size_of(t.shape):
            continue
        if any(isinstance(o, Literal) and o.type != t for o in reader.inputs):
            continue
        taken.add(reader.outputs[0])
        found[number] = e
    return found


def _is_sum(equation: Equation) -> bool:
    return equation.op is add or (equation.op is logical_or and equation.types[0].dtype == BOOL)


def reads_first(graph: Graph, scattered: Set[int]) -> Sequence[Equation]:
    """The equations with gathers of arrays that are written to, or added to, as early as their operands allow.

    The old array is then dead when it is changed.
    """
    changed = set(values_in([e.inputs[0] for e in graph.equations if e.op is index.put_at]))
    for e in graph.equations if scattered else ():
        if _is_sum(e) and not scattered.isdisjoint(values_in(e.inputs)):
            changed.update(values_in(e.inputs))
    if not changed:
        return graph.equations
    made: dict[int, int] = {}  # by value: the equation behind which it can be read
    order = []
    for i, e in enumerate(graph.equations):
        is_early = e.op is index.gather and e.inputs[0] in changed
        at = max((made.get(o, -1) for o in values_in(e.inputs)), default=-1) if is_early else i
        made.update((n, at) for n in e.outputs)
        order.append((at, is_early, i))
    return [graph.equations[i] for _, _, i in sorted(order)]


def _scatter_into(low: Lowering, out: View, g: Operand, arrays: Sequence[Operand], domain: Shape, axis: int, adds: bool) -> None:
    """Add or write values to an array at the indices."""
    operand = low.operand(g, domain)
    views = [low.view(a) for a in arrays if not isinstance(a, Literal) or low.type_of(a).shape]
    position = low.place(domain, [operand, *views], after=low.ready[out.buffer])
    line = KernelWriter(low.kernel(position)).cast(low.read(position, operand), out.dtype)
    at = _indices(low, position, arrays, domain, axis, out.shape[axis : axis + len(arrays)])
    strides = out.strides[axis : axis + len(arrays)]
    low.kernel(position).scatters.append(Scatter(line, at, strides, _without(out, axis, len(arrays), domain), adds))
    low.ready[out.buffer] = position


def take_along(low: Lowering, equation: Equation) -> bool:
    """y[i, j] = x[i, index[i, j]]; or along another axis."""
    x, places = equation.inputs
    (result,), axis = equation.types, equation.params["axis"]
    t, domain = low.type_of(x), result.shape
    if t.dtype not in low.dtypes or not _is_along(low, places, domain, t.shape, axis):
        return False
    table = low.view(x)
    position = low.place(domain, [table, low.view(places)])
    at = _indices(low, position, (places,), domain, 0, (t.shape[axis],))
    line = low.kernel(position).add("gather", at, (_still(table, axis, domain), (table.strides[axis],)), t.dtype)
    return low.hold(equation, Line(position, line))


def add_along(low: Lowering, equation: Equation) -> bool:
    """Zeros, to which values are added at numbers along an axis."""
    g, places = equation.inputs
    (result,), axis = equation.types, equation.params["axis"]
    t = low.type_of(g)
    domain = t.shape
    if result.dtype == BOOL or not _adds(low, result.dtype, t.dtype) or not _is_along(low, places, domain, result.shape, axis):
        return False
    out = low.local(result)
    low.copy(Literal(0.0), out)
    operand = low.operand(g, domain)
    position = low.place(domain, [operand, low.view(places)], after=low.ready[out.buffer])
    line = low.read(position, operand)
    at = _indices(low, position, (places,), domain, 0, (result.shape[axis],))
    low.kernel(position).scatters.append(Scatter(line, at, (out.strides[axis],), _still(out, axis, domain)))
    low.ready[out.buffer] = position
    return low.hold(equation, out)


def _is_along(low: Lowering, places: Operand, domain: Shape, table: Shape, axis: int) -> bool:
    """Whether a kernel over the domain reads or writes elements of a table along an axis: no axis is broadcast, none is empty."""
    alike = all(m == n for k, (m, n) in enumerate(zip(domain, table, strict=True)) if k != axis)
    return alike and _are_whole(low, (places,)) and low.type_of(places).shape == domain and 0 not in (*domain, *table)


def _still(view: View, axis: int, domain: Shape) -> View:
    """A view over a domain that stays where it is along an axis."""
    return View(view.buffer, domain, tuple(0 if k == axis else s for k, s in enumerate(view.strides)), view.offset)


def _indices(low: Lowering, position: int, arrays: Sequence[Operand], domain: Shape, start: int, sizes: Shape) -> tuple[int, ...]:
    """Index arrays that vary along the axes of the domain from `start` on, counted from the front, inside the bounds.

    Whether one was out of bounds is reduced into a bool, unless its range is known; 0 is used instead.
    """
    kernel = low.kernel(position)
    w = KernelWriter(kernel)
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
        least, most = low.range_of(array) or (-size - 1, size)
        if least < 0:
            line = w("select", w.test("less", line, zero), w("add", line, length), line)
        if least < -size or most >= size:
            wrong = w.test("or", w.test("less", line, zero), w.test("greater_equal", line, length))
            line = w("select", wrong, zero, line)
            out_of_bounds = low.local(Type((), BOOL))
            kernel.reductions.append(Reduce("any", wrong, tuple(range(len(domain))), out_of_bounds.over(domain)))
            low.ready[out_of_bounds.buffer] = position
            low.out_of_bounds.append(out_of_bounds)
        found.append(line)
    return tuple(found)


def _adds(low: Lowering, result: np.dtype[Any], values: np.dtype[Any]) -> bool:
    """Whether a kernel adds such values to elements in memory; the sum of bools is an `or`."""
    return result in low.dtypes and values == result


def _are_whole(low: Lowering, arrays: Sequence[Operand]) -> bool:
    """Whether indices are integers that an int64 holds."""
    dtypes = [low.type_of(a).dtype for a in arrays]
    return all(d in low.dtypes and (d.kind == "i" or (d.kind == "u" and d.itemsize < _INDEX.itemsize)) for d in dtypes)


def _without(view: View, axis: int, count: int, domain: Shape) -> View:
    """A view over the domain of a gather: stride 0 along the axes of the indices, which replace `count` of its axes."""
    ndim = len(domain) - len(view.shape) + count
    strides = (*view.strides[:axis], *(0,) * ndim, *view.strides[axis + count :])
    return View(view.buffer, domain, strides, view.offset)


RULES: Rules = {
    index.gather: gather,
    index.scatter_add: scatter,
    index.put_at: put,
    sort.take_along: take_along,
    sort.add_along: add_along,
    add: added,
    logical_or: added,
}
