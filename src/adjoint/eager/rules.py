"""The rule of an opaque op, run on a cotangent or a tangent whose live elements are known.

    prod(x, axis=1)      ḡ · (product of the others): 0 · ∞ is 0 in a masked row, nan where the zero is one of arithmetic

A rule is linear in what it is given, and writes its products as `strong_mul`, in which every zero wins. That is right as long as
no zero meets an infinity or nan. Of numbers, `watched` says whether one did; then the rule runs again with masks. In a staged
program it runs with masks alone; where everything is live, these cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..core.bind import Trace, Traced, bind, have_numbers
from ..core.op import Constant, Op, Structured
from ..core.types import Shape, Value, shape_of
from ..derive import for_finite_numbers, is_declared, push, watched
from ..ops.broadcast import where
from ..ops.elementwise import PRODUCTS, ieee_mul, logical_and, not_equal, strong_mul_either_op, strong_mul_op
from .live_tangents import anywhere, either, reached
from .origin import Origin, Several


class Masked(Trace):
    """Runs a rule. `aux` is the mask of a value that is linear in what the rule was given: True, or an array of bools."""

    __slots__ = ()

    def process(self, op: Op, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        own = [isinstance(a, Traced) and a.by is self for a in args]
        xs = [a.underlying if flag else a for a, flag in zip(args, own, strict=True)]
        live = [a.aux if flag else None for a, flag in zip(args, own, strict=True)]
        if op in PRODUCTS and sum(own) == 1:
            return self.product(op, xs, live, own.index(True))
        y = bind(op, *xs, **params)
        if isinstance(op, Constant):
            return y
        if isinstance(op, Structured):
            masks = [anywhere([mask for mask in live if mask is not None], shape_of(part)) for part in y]
        else:
            masks = reached(op, y, xs, live, params)
        return tuple(map(self.mark, y, masks)) if op.many else self.mark(y, masks)

    def product(self, op: Op, xs: Sequence[Value], live: Sequence[Any], i: int) -> Traced:
        """A zero of a mask wins, and one of the other factor where the op says so."""
        other, mask = xs[1 - i], live[i]
        if op is strong_mul_either_op or (op is strong_mul_op and i == 1):
            y, reaches = strong_mul_op(other, xs[i]), not_equal(other, 0)
            after = reaches if mask is True else logical_and(mask, reaches)
        else:
            y, after = ieee_mul(xs[i], other), mask
        return self.mark(y if mask is True else where(mask, y, 0.0), either([after], shape_of(y)))

    def mark(self, value: Value, mask: Any) -> Traced:
        return Traced(self, value, mask)

    def shape(self, x: Traced) -> Shape:
        return shape_of(x.underlying)

    def run(self, rule: Callable[[list[Any]], Any], given: Sequence[Value | None], masks: Sequence[Any]) -> list[Any]:
        """What a rule makes of the given values; where nothing is known of a mask, the zeros of its value count."""
        inside = [
            None if x is None else self.mark(x, not_equal(x, 0) if mask is None else mask)
            for x, mask in zip(given, masks, strict=True)
        ]
        return [y.underlying if isinstance(y, Traced) and y.by is self else y for y in rule(inside)]


def pull(op: Op, step: Any, g: Any, origin: Origin | None, saved: Any, types: Any, params: dict[str, Any]) -> Sequence[Any]:
    """The cotangents of the arguments of an opaque op, by its plan."""
    if origin is None or for_finite_numbers.get() or not is_declared(op):
        return step.pull(g, saved, types, params)  # type: ignore[no-any-return]
    if have_numbers([g, list(saved)]):
        parts, met = watched(lambda: step.pull(g, saved, types, params))
        if not met:
            return parts  # type: ignore[no-any-return]
    many = isinstance(origin, Several)
    given = g if many else [g]
    rule = lambda gs: step.pull(gs if many else gs[0], saved, types, params)
    return Masked("derivative").run(rule, given, origin.masks(given))


def push_masked(
    op: Op, y: Any, xs: Sequence[Value], ts: Sequence[Value | None], live: Sequence[Any], params: dict[str, Any]
) -> Any:
    """The tangent of the result of an opaque op, or those of several, where the tangents of its arguments have masks."""
    rule = lambda ts: pushed if isinstance(pushed := push(op, y, xs, ts, params), tuple) else [pushed]
    found = Masked("derivative").run(rule, ts, live)
    return tuple(found) if op.many else found[0]
