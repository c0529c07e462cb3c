"""Which elements of an argument the live elements of a result depend on, from the declaration of an opaque op.

    prod of float64[2,3] along axis 1    a live result makes its row of three live
    inv of float64[5,2,2]                a live element makes the whole of its matrix live, and none of the other four

An op with named axes couples elements along these. One without takes further axes in front as independent examples, and couples
all the others: as many as the arguments and results of its smallest sample have (`core`).
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np

from ..core.op import Op
from ..core.types import Shape, Value, ndim_of, shape_of
from ..ops.broadcast import broadcast_to, expand_dims, reshape
from ..ops.reduce import any_


class Core(NamedTuple):
    """The numbers of axes of one example: of the arguments and of the results of an op."""

    arguments: tuple[int, ...]
    results: tuple[int, ...]


def is_declared(op: Op) -> bool:
    """Whether the declaration of an op says what it couples. That of a custom rule does not."""
    return bool(op.axes) or bool(op.cases)


def core(op: Op) -> Core:
    if "core" not in op.derived:
        smallest = min(op.cases, key=lambda case: sum(len(a) if isinstance(a, tuple) else np.ndim(a) for a in case.args))
        xs = smallest.draw(op.domain, np.random.default_rng(0))
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            ys = op.impl(*xs, **smallest.params)
        op.derived["core"] = Core(tuple(map(np.ndim, xs)), tuple(map(np.ndim, ys if op.many else [ys])))
    return op.derived["core"]  # type: ignore[no-any-return]


def coupled(op: Op, params: dict[str, Any], result: int, argument: int, live: Value, shape: Shape, parent: Shape) -> Value:
    """The mask of an argument of shape `parent`, from that of a result of that shape."""
    live = broadcast_to(live, shape=shape)
    if op.axes:
        axes = [a for name in op.axes for a in _each(params[name])]
        live = any_(live, axis=tuple(axes), keepdims=True) if len(shape) == len(parent) else expand_dims(live, tuple(axes))
        whole = tuple([parent[a] if a in axes else n for a, n in enumerate(shape_of(live))])
        return any_along(broadcast_to(live, shape=whole), whole, parent)
    inside = core(op)
    ends, begins = inside.results[result], inside.arguments[argument]
    examples, own = shape[: len(shape) - ends], parent[len(parent) - begins :]
    live = any_(live, axis=tuple(range(len(examples), len(shape))), keepdims=False)
    whole = (*examples, *own)
    return any_along(broadcast_to(reshape(live, shape=(*examples, *(1,) * begins)), shape=whole), whole, parent)


def coupled_forward(
    op: Op, params: dict[str, Any], result: int, argument: int, live: Value, shape: Shape, parent: Shape
) -> Value:
    """The mask of a result of that shape, from that of an argument of shape `parent`."""
    if op.axes:
        axes = tuple([a for name in op.axes for a in _each(params[name])])
        return broadcast_to(any_(live, axis=axes, keepdims=len(shape) == len(parent)), shape=shape)
    inside = core(op)
    ends, begins = inside.results[result], inside.arguments[argument]
    examples = parent[: len(parent) - begins]
    live = any_(live, axis=tuple(range(len(examples), len(parent))), keepdims=False)
    return broadcast_to(reshape(live, shape=(*examples, *(1,) * ends)), shape=shape)


def coupled_all(live: Value, parent: Shape) -> Value:
    """The mask of an argument every element of which depends on all that is live."""
    return broadcast_to(any_(live, axis=tuple(range(ndim_of(live))), keepdims=False), shape=parent)


def _each(axes: int | Shape) -> Shape:
    return axes if isinstance(axes, tuple) else (axes,)


def any_along(mask: Value, shape: Shape, parent: Shape) -> Value:
    """The mask of an operand that was broadcast to that shape."""
    if shape == parent:
        return mask
    extra = len(shape) - len(parent)
    axes = (*range(extra), *(a for a in range(extra, len(shape)) if parent[a - extra] != shape[a]))
    return reshape(any_(broadcast_to(mask, shape=shape), axis=axes, keepdims=False), shape=parent)
