"""The batched form of an op, and its type rule, which is the batched form run on a batch of no examples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.bind import bind
from ..core.errors import ShapeError, UnsupportedError
from ..core.op import Elementwise, Op, Structured
from ..core.types import Type, Value, ndim_of, shape_of
from ..ops.broadcast import align_all
from ..ops.shape import all_batched


def batched(op: Op, flags: tuple[bool, ...], args: Sequence[Value], params: dict[str, Any]) -> Value:
    """Run an op on values of which some (`flags`) carry a batch axis in front; the result carries one too."""
    if op.batch is not None:
        return op.batch(flags, *args, **params)
    if op.axes is None:
        raise UnsupportedError(f"no batching rule for {op.name!r}; wrap it in ad.map or declare batch= or axes=")
    if op.axes:  # every argument gets the batch axis, and each axis moves on by one
        moved = {name: _moved(params[name]) for name in op.axes}
        return bind(op, *(args if all(flags) else all_batched(flags, tuple(args))), **{**params, **moved})
    ndim = max(ndim_of(x) - flag for x, flag in zip(args, flags, strict=True))
    if any(flag and ndim_of(x) <= ndim for x, flag in zip(args, flags, strict=True)):
        args = align_all(flags, tuple(args))
    return bind(op, *args, **params)


def _moved(axis: Any) -> Any:
    """An axis, or several, once a batch axis stands in front; a negative one counts from the end as before."""
    if isinstance(axis, tuple):
        return tuple(map(_moved, axis))
    return axis + 1 if axis >= 0 else axis


def type_rule(op: Op, types: Sequence[Type], params: dict[str, Any], numbers: Sequence[Any] | None = None) -> Any:
    """The type of the result: a `Type`, or a tuple of them for an op with several results.

    `numbers` holds the Python numbers among the arguments, None elsewhere: they are weak in promotion.
    """
    try:
        key = tuple(types), tuple(map(_weight, numbers or ())), tuple(map(_frozen, params.items()))
    except _NoKeyError:
        return _infer(op, types, params, numbers)
    known = op.derived.get("types")
    if known is None or len(known) > _REMEMBERED:
        known = op.derived["types"] = {}
    found = known.get(key)
    if found is None:
        found = known[key] = _infer(op, types, params, numbers)
    return found


def _infer(op: Op, types: Sequence[Type], params: dict[str, Any], numbers: Sequence[Any] | None) -> Any:
    """Found by running the batched form on a batch of no examples: there is nothing to compute."""
    if isinstance(op, Structured):
        return op.types(types, params)
    numbers = numbers or [None] * len(types)
    flags = tuple(number is None for number in numbers)
    args = [np.empty((0, *t.shape), t.dtype) if n is None else n for t, n in zip(types, numbers, strict=True)]
    if not any(flags):
        flags, args = (True,) * len(types), [np.empty((0, *t.shape), t.dtype) for t in types]
    try:
        result = batched(op, flags, args, params)
    except ValueError as error:  # its words are about arrays with one axis more
        shapes = ", ".join(str(t.shape) for t in types)
        reason = "they do not broadcast" if isinstance(op, Elementwise) else str(error)
        raise ShapeError(f"{op.name} does not take arguments of the shapes {shapes}: {reason}") from error
    if op.many:
        return tuple(Type(shape_of(part)[1:], part.dtype) for part in result)
    return Type(shape_of(result)[1:], result.dtype)


_REMEMBERED = 1 << 12  # types of results, for each op


_PLAIN = frozenset({bool, int, float, complex, str, type(None), type(...)})


class _NoKeyError(Exception):
    """A parameter that is not a plain value."""


def _weight(number: Any) -> Any:
    """What promotion looks at: of a Python integer also its size."""
    return (int, number) if type(number) is int else type(number)


def _frozen(value: Any) -> Any:
    """A parameter as part of a key. Functions, graphs and arrays are not kept alive for it."""
    kind = type(value)
    if kind is tuple:
        return tuple(map(_frozen, value))
    if kind in _PLAIN:
        return kind, value
    if isinstance(value, np.dtype):
        return value
    if kind is slice:
        return slice, _frozen(value.start), _frozen(value.stop), _frozen(value.step)
    raise _NoKeyError
