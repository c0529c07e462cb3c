"""The memory layout that NumPy would give a traced array; it decides which results are views and which are copies.

    a.T.reshape(4)      a copy if a is row-major;  a view if column-major

Traced arrays have no memory, so NumPy's function runs on a dummy array of the same shape and strides (`stand_in`); its result
shares memory or does not. This happens only when something is written in place.

New arrays are dense. Their axis order is that of the array of numbers beneath the trace, since the ops run NumPy's functions;
`become` (views.py) preserves it when an array is overwritten. The examples of a batch are dense too. Exceptions are recorded in
`Traced.memory_layout`: arguments with gaps or negative strides, and copies of values that have no numbers yet.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core.bind import Traced, is_staged
from ..core.memory import is_writeable
from ..core.op import Op
from ..core.types import Shape, Value, dtype_of, ndim_of, shape_of
from ..staging.guard import Guarded
from ..staging.questions import IN_MEMORY

Strides = tuple[int, ...]


def beneath(x: Value) -> Any:
    """The plain array beneath every trace, batch axes first; None where only the type is known."""
    while isinstance(x, Traced):
        if x.by.has_numbers:
            x = x.underlying
        elif isinstance(x.by, Guarded):
            x = x.by.concrete(x, IN_MEMORY)
        else:
            return None
    return x


def memory(shape: Shape, strides: Strides, dtype: Any) -> np.ndarray[Any, Any]:
    """An uninitialised array of this layout. Untouched pages cost nothing."""
    ends = [(n - 1) * s for n, s in zip(shape, strides, strict=True) if n > 1]
    low, high = sum(e for e in ends if e < 0), sum(e for e in ends if e > 0)
    return np.ndarray(shape, dtype, np.empty(high - low + dtype.itemsize, np.int8), -low, strides)


def with_strides(x: np.ndarray[Any, Any], strides: Strides) -> np.ndarray[Any, Any]:
    """A copy that has these strides."""
    y = memory(x.shape, strides, x.dtype)
    y[...] = x
    return y


def own_copy(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A copy that is held in memory as the array is: with its gaps, and backwards where that is; a view if it is one."""
    return np.array(x, subok=True) if x.base is None or type(x) is not np.ndarray else with_strides(x, x.strides)


def own(x: Any) -> Any:
    """A copy with the same memory layout of an array that may be written to; anything else unchanged."""
    return own_copy(x) if isinstance(x, np.ndarray) and is_writeable(x) else x


def dense(shape: Shape, strides: Strides, dtype: Any, order: Any = "K") -> Strides:
    """The strides of a new array that keeps the order of the axes."""
    return np.empty_like(memory(shape, strides, dtype), order=order).strides


def in_rows(shape: Shape, dtype: Any) -> Strides:
    """The strides of a new row-major array."""
    strides, step = [], dtype.itemsize
    for n in reversed(shape):
        strides.append(step)
        step *= max(n, 1)
    return tuple(reversed(strides))


def strides_of(x: Value) -> Strides:
    """The strides that the array would have in NumPy."""
    shape, dtype = shape_of(x), dtype_of(x)
    inside = x
    while isinstance(inside, Traced) and shape_of(inside) == shape:
        noted = inside.noted_strides()
        if noted is not None:
            return noted
        inside = inside.underlying
    held = beneath(x)
    if not isinstance(held, np.ndarray):
        return in_rows(shape, dtype)
    if not isinstance(x, Traced):
        return held.strides
    own = held.strides[held.ndim - len(shape) :]
    return own if held.ndim == len(shape) and held.flags.forc else dense(shape, own, dtype)


def stand_in(x: Value) -> np.ndarray[Any, Any]:
    """A dummy array with the layout of x, to run NumPy's functions on."""
    return memory(shape_of(x), strides_of(x), dtype_of(x))


def axes_by_stride(x: Value) -> Shape:
    """The axes from the slowest to the fastest in memory. A repeated axis (stride 0) keeps its position, as in NumPy."""
    steps = [0 if n == 1 else abs(s) for n, s in zip(shape_of(x), strides_of(x), strict=True)]
    order = list(range(len(steps)))[::-1]
    for i in range(1, len(order)):  # an insertion sort, from the fastest axis
        to, axis = i, order[i]
        for j in range(i - 1, -1, -1):
            if steps[axis] and steps[order[j]]:
                if steps[order[j]] <= steps[axis]:
                    break
                to = j
        order.insert(to, order.pop(i))
    return tuple(order[::-1])


def laid_out(x: Value, strides: Strides) -> Value:
    """The same value, its numbers dense in the axis order of these strides."""
    if isinstance(x, Traced):
        return x.by.with_value(x, laid_out(x.underlying, strides)) if x.by.has_numbers else x
    if not isinstance(x, np.ndarray):
        return x
    extra = x.ndim - len(strides)
    axes = sorted(range(len(strides)), key=lambda i: -abs(strides[i]))
    order = [*range(extra), *(extra + i for i in axes)]
    y = np.empty([x.shape[i] for i in order], x.dtype).transpose(np.argsort(order))
    y[...] = x
    return y


def copied(x: Value, order: str = "K") -> Value:
    """A copy as NumPy makes it. Its numbers are moved only if another order is requested."""
    if not isinstance(x, Traced):
        return np.array(x, order=order)  # type: ignore[call-overload]
    y = Traced(x.by, x.underlying, x.aux)
    held = y.underlying
    if type(held) is np.ndarray and held.ndim == ndim_of(y):
        if held.flags.c_contiguous and (order != "F" or held.ndim < 2):
            return y
    elif is_staged(y):
        return later(x, lambda: np.empty_like(stand_in(x), order=order).strides)  # type: ignore[call-overload]
    if ndim_of(y):
        y = laid_out(y, np.empty_like(stand_in(x), order=order).strides)  # type: ignore[call-overload]
    return y


def held(x: Value, order: str = "C", like: Value = None) -> Value:
    """A new array as NumPy holds it: in rows ("C"), or in the order of another array ("K", or "A" if that is one of the two)."""
    if not isinstance(x, Traced) or ndim_of(x) < 2:
        return x
    if is_staged(x):
        if order in "KA":
            return later(x, lambda: np.empty_like(stand_in(like), order=order, shape=shape_of(x)).strides)  # type: ignore[call-overload]
        return later(x, lambda: dense(shape_of(x), in_rows(shape_of(x), dtype_of(x)), dtype_of(x), order))
    if order == "A":
        order = "F" if ndim_of(like) > 1 and stand_in(like).flags.fnc else "C"
    if order != "K":
        return copied(x, order)
    wanted = dense(shape_of(x), strides_of(like), dtype_of(x))
    return x if strides_of(x) == wanted else laid_out(x, wanted)


def held_as(x: Value, base: Value, ask: Callable[[Any], Any]) -> Value:
    """What was read from an array, its numbers in the order that they have in the view that NumPy gives."""
    if not isinstance(x, Traced):
        return x
    if is_staged(x):
        return later(x, lambda: dense(shape_of(x), ask(stand_in(base)).strides, dtype_of(x)))
    wanted = dense(shape_of(x), ask(stand_in(base)).strides, dtype_of(x))
    return x if strides_of(x) == wanted else laid_out(x, wanted)


def held_by(x: Value, strides: Callable[[], Strides]) -> Value:
    """A new array whose strides NumPy chooses in a way of its own."""
    if not isinstance(x, (Traced, np.ndarray)) or ndim_of(x) < 2:
        return x
    if isinstance(x, Traced) and is_staged(x):
        return later(x, strides)
    wanted = strides()
    return x if strides_of(x) == wanted else laid_out(x, wanted)


def asked(x: Value, function: Callable[..., Any], *operands: Value) -> Strides:
    """The strides of the result x of NumPy's function, which is run on arrays of no more than two elements along an axis."""
    small = [_small(tuple(min(n, 2) for n in shape_of(v)), axes_by_stride(v)) for v in operands]
    strides = function(*small).strides
    return _in_axis_order(shape_of(x), sorted(range(len(strides)), key=lambda i: -abs(strides[i])), dtype_of(x).itemsize)


def _order_of(x: Traced, op: Op, operands: Sequence[Value], params: dict[str, Any]) -> Strides:
    """The strides that NumPy gives the result of an op."""
    return asked(x, functools.partial(op.impl, **params), *operands)


Guarded.order_of = staticmethod(_order_of)


def _small(shape: Shape, axes: Shape) -> np.ndarray[Any, Any]:
    return np.zeros([shape[i] for i in axes]).transpose(np.argsort(axes)) if axes else np.zeros(shape)


def _in_axis_order(shape: Shape, axes: list[int], itemsize: int) -> Strides:
    """The strides of a dense array, given its axes from the slowest to the fastest."""
    strides, step = [0] * len(shape), itemsize
    for i in reversed(axes):
        strides[i] = step
        step *= max(shape[i], 1)
    return tuple(strides)


def later(x: Traced, strides: Callable[[], Strides]) -> Traced:
    """A value that is being written down, whose strides are found out when they matter."""
    inside = x.underlying
    if isinstance(inside, Traced) and shape_of(inside) == shape_of(x):  # a transform inside the program
        inside = later(inside, strides)
    y = x.by.with_value(x, inside)
    y.memory_layout = strides
    return y


def in_order(x: Value, order: str) -> Value:
    """A new array in the requested order."""
    return copied(x, order) if order in ("C", "F") else x
