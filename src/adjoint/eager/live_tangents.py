"""Masks of tangents in staged programs: which elements are live, op by op. The counterpart of `Origin` in forward mode.

    y = x[2:]            the mask of the tangent is that of x, indexed likewise
    y = a @ x            an element is live if a live one of its column is, unless it meets a zero of a constant a
    y = prod(x, axis=1)  an element is live if anything is in its row

A zero of a live element came from arithmetic: times an infinite partial it is nan, and not 0.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.bind import bind, numbers
from ..core.op import Elementwise, Linear, Multilinear, Op, Opaque
from ..core.types import Shape, Value, dtype_of, ndim_of, shape_of
from ..derive import coupled_forward, is_declared, push, transposes
from ..ops.broadcast import broadcast_to, where
from ..ops.elementwise import logical_or, not_equal
from ..ops.linalg import matmul
from ..ops.reduce import any_
from ..ops.zero import generic
from .origin import MOST, zeros_of_mask

Mask = Any  # True: live throughout; or an array of bools


def reached(op: Op, y: Any, xs: Sequence[Value], live: Sequence[Mask | None], params: dict[str, Any]) -> Any:
    """The mask of the tangent of the result, or those of several; `live` is None for an argument without tangent."""
    if op.many:
        return tuple([_tidy(_coupled(op, i, shape_of(part), xs, live, params)) for i, part in enumerate(y)])
    return _tidy(_of_one(op, y, xs, live, params))


def _tidy(mask: Mask) -> Mask:
    known = numbers(mask)
    return True if mask is True or (known is not None and bool(np.all(known))) else mask


def _of_one(op: Op, y: Value, xs: Sequence[Value], live: Sequence[Mask | None], params: dict[str, Any]) -> Mask:
    shape = shape_of(y)
    if isinstance(op, Elementwise):
        return either(live, shape)
    if isinstance(op, Multilinear):
        return _through_product(op, y, xs, live, params)
    if isinstance(op, Linear):
        return _through_linear(op, xs, live, params)
    if isinstance(op, Opaque) and op.choice:
        if all(mask is True for mask in live):
            return True
        weights = [None if mask is None else _weights(mask, x, signed=False) for mask, x in zip(live, xs, strict=True)]
        return not_equal(push(op, y, xs, weights, params), 0)
    return _coupled(op, 0, shape, xs, live, params)


def either(live: Sequence[Mask | None], shape: Shape) -> Mask:
    """The mask of a sum of broadcast terms."""
    masks = [mask for mask in live if mask is not None]
    if any(mask is True for mask in masks):
        return True
    found = functools.reduce(logical_or, masks)
    return found if shape_of(found) == shape else broadcast_to(found, shape=shape)


def _through_linear(op: Linear, xs: Sequence[Value], live: Sequence[Mask | None], params: dict[str, Any]) -> Mask:
    """By the op itself: of bools where it moves elements, else of weights that do not cancel."""
    rules = transposes(op, len(xs))
    moves = op.terms == "moved"
    sent = []
    for rule, mask, x in zip(rules, live, xs, strict=True):
        if rule is None:
            sent.append(x)
        elif moves:
            sent.append(full(False if mask is None else mask, shape_of(x)))
        else:
            sent.append(_weights(False if mask is None else mask, x, signed=not op.terms))
    found = bind(op, *sent, **params)
    return found if moves else not_equal(found, 0)


def _through_product(op: Multilinear, y: Value, xs: Sequence[Value], live: Sequence[Mask | None], params: dict[str, Any]) -> Mask:
    """The sum of products of marks: of a constant factor, the zeros are those of a mask.

    A factor that is an input counts as without zeros, and a matrix product needs no other product then.
    """
    shape = shape_of(y)
    if 0 in shape:
        return True
    known = [
        zeros_of_mask(x, False) if mask is None and numbers(x) is not None else None for mask, x in zip(live, xs, strict=True)
    ]
    if all(factor is None for factor in known):
        if all(mask is True or mask is None for mask in live):
            return True
        if op is matmul:
            return either([None if mask is None else _through_matmul(i, mask, xs, shape) for i, mask in enumerate(live)], shape)
    given = {i: mask for i, mask in enumerate(live) if mask is not None}
    if max([math.prod(shape), *(math.prod(shape_of(x)) for x in xs)]) > MOST:  # the marks would cost as much as the product
        return anywhere([*given.values()], shape)
    others = [_weights(True if factor is None else factor, x, signed=False) for x, factor in zip(xs, known, strict=True)]
    terms = [bind(op, *others[:i], _weights(mask, xs[i], signed=False), *others[i + 1 :], **params) for i, mask in given.items()]
    return not_equal(functools.reduce(operator.add, terms), 0)


def _through_matmul(i: int, mask: Mask, xs: Sequence[Value], shape: Shape) -> Mask:
    """The mask of the result from that of one factor, if the other has no zeros: anything along the axis that is summed over."""
    if mask is True:
        return True
    own, other = ndim_of(xs[i]), ndim_of(xs[1 - i])
    axis = own - 1 if i == 0 or own == 1 else own - 2
    found = any_(full(mask, shape_of(xs[i])), axis=(axis,), keepdims=own > 1 and other > 1)
    return found if shape_of(found) == shape else broadcast_to(found, shape=shape)


def _coupled(op: Op, result: int, shape: Shape, xs: Sequence[Value], live: Sequence[Mask | None], params: dict[str, Any]) -> Mask:
    given = [(i, mask) for i, mask in enumerate(live) if mask is not None]
    if not is_declared(op) or any(mask is True for _, mask in given):
        return anywhere([mask for _, mask in given], shape)
    whole = [(i, full(mask, shape_of(xs[i])), shape_of(xs[i])) for i, mask in given]
    return functools.reduce(logical_or, [coupled_forward(op, params, result, i, mask, shape, own) for i, mask, own in whole])


def anywhere(masks: Sequence[Mask], shape: Shape) -> Mask:
    """The mask of a result all of which is live if anything is."""
    if any(mask is True for mask in masks):
        return True
    found = [any_(mask, axis=tuple(range(ndim_of(mask))), keepdims=False) for mask in masks]
    return broadcast_to(functools.reduce(logical_or, found), shape=shape)


def full(mask: Mask, shape: Shape) -> Value:
    if isinstance(mask, bool):
        return np.full(shape, mask)[()]
    return mask if shape_of(mask) == shape else broadcast_to(mask, shape=shape)


def _weights(mask: Mask, x: Value, signed: bool) -> Value:
    """Marks of live elements, none of which cancel; 0 for the others."""
    shape = shape_of(x)
    marks: Any = generic(shape, dtype_of(x)) if signed else np.ones(shape)
    return marks[()] if mask is True else where(full(mask, shape), marks[()], 0.0)
