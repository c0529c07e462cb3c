"""The product of a cotangent or tangent with a partial: which zeros are strong, and which partials an overflow may have spoilt.

See docs/adr/0001-the-zero-of-a-mask-wins.md.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any, NamedTuple

import numpy as np

from ..core.bind import numbers
from ..core.op import Elementwise, Op
from ..core.types import Type, Value, dtype_of
from ..ir.contents import is_repeated
from ..ops.broadcast import broadcast_to, reshape, transpose, where
from ..ops.elementwise import (
    equal,
    ieee_mul,
    is_finite,
    isinf,
    ldexp,
    logaddexp,
    logaddexp2,
    logical_and,
    logical_not,
    logical_or,
    mul,
    nan_where,
    power,
    product_of_live,
    reciprocal,
    strong_mul,
    strong_mul_either,
    strong_mul_either_op,
)
from ..ops.index import getitem
from .partials import Partial, split

#: Whether programs are written down for finite numbers: no infinity is told from an overflow, and it is not traced which zeros of
#: a cotangent are those of a mask. Set while a program is written for people (`export.python`).
for_finite_numbers: ContextVar[bool] = ContextVar("for_finite_numbers", default=False)


def product_of_tangents(op: Elementwise, xs: Sequence[Value], ts: Sequence[Value | None]) -> Callable[[Value, Value], Value]:
    """Tangent times partial where there are no numbers to look at. The zero of a tangent may be that of a mask, and wins; that
    of a partial wins if it is one: of a choice, a constant factor, or x**0.
    """
    if op.choice or (op is mul and any(t is None for t in ts)):
        return strong_mul_either
    if op is power and ts[1] is None and has_zeros(xs[1]):
        return zero_power(xs[1])
    return strong_mul


def zero_power(exponent: Value) -> Callable[[Value, Value], Value]:
    """The product with the partial of a power by its base: 0 where the exponent is, whatever the base (0 * x**-1 may be nan)."""
    return lambda g, p: where(equal(exponent, 0), 0.0, strong_mul(g, p))


def has_zeros(x: Value) -> bool:
    """Whether zeros are among the numbers of a constant. If they are not known, whether masks and integers alone make it."""
    known = numbers(x)
    if known is None:
        return (dtype_of(x).kind in "biu" or x.by.is_mask(x)) and not for_finite_numbers.get()
    return bool(np.any(np.equal(known, 0)))


def times(g: Value, partial: Partial, values: Sequence[Value], params: dict[str, Any], product: Callable[..., Any]) -> Value:
    number = partial.number
    if number is None:
        return product(g, partial.function(*values, **params))
    if number != 1 and isinstance(g, np.ndarray) and is_repeated(g):  # as the cotangent of a sum is
        return np.broadcast_to(g.flat[0] * number, g.shape)
    return g if number == 1 else -g if number == -1 else g * number


def masked_product(product: Callable[..., Any], origin: Any, factor: Callable[[], Any] | None, g: Value, p: Value) -> Value:
    """Cotangent times partial: a zero wins if it is that of a mask, in the cotangent by its origin, or in a constant factor."""
    a, b = numbers(g), numbers(p)
    if a is None or b is None:
        return _staged_product(product, origin, factor, g, p, b)
    if is_finite(a) and is_finite(b):
        return product(g, p)
    masked, live = None if factor is None else factor(), origin.live_in(g)
    dead = False if live is None else logical_not(live)
    return product_of_live(g, p, dead if masked is None else logical_or(dead, equal(masked, 0)))


def _staged_product(
    product: Callable[..., Any], origin: Any, factor: Callable[[], Any] | None, g: Value, p: Value, known: Any
) -> Value:
    """The same without numbers, but for those of the partial if they are known."""
    if product in (strong_mul_either, strong_mul_either_op):
        if _is_unmasked(origin):
            return product(g, p)
        is_mask = product is strong_mul_either or (factor is not None and factor() is not None)  # of a choice, or declared
        return _where_live(origin, strong_mul(p, g) if is_mask else ieee_mul(g, p))
    if product is ieee_mul:
        needs_mask = not (known is not None and is_finite(known)) and not _is_unmasked(origin)
        return _where_live(origin, product(g, p)) if needs_mask else product(g, p)
    if factor is not None and has_zeros(factor()):
        if known is not None:
            return strong_mul_either(g, p)
        is_count = dtype_of(p).kind in "biu"  # and finite: the zeros of the cotangent make no difference
        return where(equal(factor(), 0), 0.0, g * p if is_count else _product_with_cotangent(origin, g, p))
    if known is not None and is_finite(known) and np.all(known):  # no mask is needed
        return g * p
    return _product_with_cotangent(origin, g, p)


def _product_with_cotangent(origin: Any, g: Value, p: Value) -> Value:
    """Cotangent times partial: the zeros of the cotangent that are those of a mask win."""
    return strong_mul(g, p) if _is_unmasked(origin) else _where_live(origin, g * p)


def _is_unmasked(origin: Any) -> bool:
    """Whether the zeros of a cotangent count as strong: its mask is not known, or not asked for. (Asking may compute it.)"""
    return for_finite_numbers.get() or origin.mask is None


def _where_live(origin: Any, x: Value) -> Value:
    return x if origin.mask is True else where(origin.mask, x, 0.0)


def doubted(op: Elementwise, values: Sequence[Any], wanted: Sequence[int], is_computed: Callable[[int], bool]) -> Sequence[Any]:
    """What partials read of (y, x0, …), with nan where an argument was computed and is infinite, if a partial would be 0 there.

    For a staged program, in which overflows are not reported: an infinity counts as an overflow unless it was given.
    """
    if for_finite_numbers.get():
        return values
    if op.choice:
        return _undecided(values) if any(map(is_computed, wanted)) else values
    if op in (logaddexp, logaddexp2) and any(map(is_computed, wanted)):
        return _undecided(values, at=np.inf)  # -inf is mostly the logarithm of a probability 0
    if op is power and (exponent := numbers(values[2])) is not None and np.all(np.greater_equal(exponent, 1)):
        return values  # its slope grows
    slow = [d for i in wanted for d in decays(op)[i] if not d.fast and d.by in wanted and is_computed(d.by)]
    reads = {r for d in slow for r in d.reads if numbers(values[r]) is None}
    # Only y, of 1/x, is zero there.
    lost = {r: equal(values[r], 0) if r == 0 and op is reciprocal else isinf(values[r]) for r in reads}
    return [nan_where(lost[r], x) if r in lost else x for r, x in enumerate(values)] if lost else values


def _undecided(values: Sequence[Any], at: float | None = None) -> Sequence[Any]:
    """The operands of a choice, with nan where both are the same infinity: of two overflows, it is not known which is larger."""
    y, a, b = values
    if any(known is not None and is_finite(known) for known in map(numbers, (a, b))):
        return values
    return y, nan_where(logical_and(isinf(a) if at is None else equal(a, at), equal(a, b)), a), b


_VIEWS: frozenset[Op] = frozenset({broadcast_to, getitem, reshape, transpose})


def is_computed(node: Any) -> bool:
    """Whether the value of a node is a result of arithmetic, or may be, and not elements of an input."""
    if isinstance(node, Type):  # nothing more is known of it
        return False
    while node.op is not None and node.op in _VIEWS:
        node = node.parents[0]
    return node.op is not None or node.is_inner


class Decay(NamedTuple):
    """A partial is 0 where argument `by` is infinite, and the values `reads` of (y, x0, …) are; or 0, as y = 1/x is.

    If `fast`, faster than any power, as the slopes of exp and tanh are: then it is 0 at any large number too.
    """

    by: int
    reads: tuple[int, ...]
    fast: bool


def decays(op: Elementwise) -> tuple[tuple[Decay, ...], ...]:
    """How the partials of an op, one by one, decay at infinity: found by computing them there; not of special functions."""
    if "decays" not in op.derived:
        known = op.home == strong_mul_either_op.home and op is not ldexp  # which takes a whole number
        with np.errstate(all="ignore"):
            op.derived["decays"] = tuple(tuple(_decays(op, partial)) if known else () for partial in split(op))
    return op.derived["decays"]  # type: ignore[no-any-return]


def _decays(op: Elementwise, partial: Partial) -> Iterator[Decay]:
    if partial.number is not None or partial.missing:
        return
    for k, size in itertools.product(range(op.arity), (1.0, -1.0)):
        slopes = []
        for x in (1e3 * size, math.inf * size):
            xs = [np.float64(x if i == k else 0.5) for i in range(op.arity)]
            values = (op.impl(*xs), *xs)
            slopes.append(partial.function(*values))
        if slopes[1] == 0:
            reads = [r for r, v in enumerate(values) if partial.needs[r] and (np.isinf(v) or v == 0)]
            yield Decay(k, tuple(reads), bool(abs(slopes[0]) < 1e-100))
