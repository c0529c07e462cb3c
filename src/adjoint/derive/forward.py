"""Forward mode: the tangent of an op's result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..core.bind import bind
from ..core.errors import UnsupportedError
from ..core.op import Elementwise, Linear, Multilinear, Op, Opaque, Structured
from ..core.types import Type, Value
from ..ops.broadcast import fit_tangent, zeros_of
from ..ops.zero import zero_wins
from .partials import no_partial, split
from .products import product_of_tangents, times
from .reverse import transposes


def push(
    op: Op,
    y: Value,
    xs: Sequence[Value],
    ts: Sequence[Value | None],
    params: dict[str, Any],
    product: Callable[[Value, Value], Value] | None = None,
    read: Sequence[Value] | None = None,
) -> Value | None:
    """The tangent of the result; None stands for a tangent that is zero throughout.

    `product` is that of tangent and partial, `read` what partials read instead of (y, *xs).
    """
    if isinstance(op, Elementwise):
        product = product or product_of_tangents(op, xs, ts)
        terms = _elementwise_terms(op, ts, read or [y, *xs], params, product)
        return fit_tangent(_total(terms), y) if terms else None
    if isinstance(op, Multilinear):
        return fit_tangent(_total([_term(op, i, t, xs, params) for i, t in enumerate(ts) if t is not None]), y)
    if isinstance(op, Linear):
        rules = transposes(op, len(xs))
        if not any(t is not None for t in ts):
            return None
        filled = [x if rule is None else _or_zeros(t, x) for rule, t, x in zip(rules, ts, xs, strict=True)]
        return fit_tangent(bind(op, *filled, **params), y)
    if isinstance(op, Opaque):
        if op.jvp is None:
            raise UnsupportedError(f"no forward rule for {op.name!r}; declare jvp=, or use reverse mode")
        return op.jvp(ts, y, *xs, **params)
    if isinstance(op, Structured):
        return op.jvp(xs, ts, params)[1]
    return None


def _elementwise_terms(
    op: Elementwise,
    ts: Sequence[Value | None],
    values: Sequence[Value],
    params: dict[str, Any],
    product: Callable[[Value, Value], Value],
) -> list[Value]:
    """Tangent times partial, for each argument that has a tangent and a partial that is not zero."""
    terms = []
    for i, (t, partial) in enumerate(zip(ts, split(op), strict=True)):
        if t is not None and partial.number != 0:
            if partial.missing:
                raise no_partial(op, i)
            terms.append(times(t, partial, values, params, product))
    return terms


def _term(op: Multilinear, i: int, t: Value, xs: Sequence[Value], params: dict[str, Any]) -> Value:
    others = [*xs[:i], *xs[i + 1 :]]
    return zero_wins(lambda t, *others: bind(op, *others[:i], t, *others[i:], **params), t, others)


def _or_zeros(t: Value | None, x: Value) -> Value:
    return zeros_of(Type.of(x)) if t is None else t


def _total(terms: Sequence[Value]) -> Value:
    result = terms[0]
    for term in terms[1:]:
        result = result + term
    return result
