"""Forward mode: dual numbers a + bε with ε² = 0.

Each value carries its tangent b; an op computes its result from the primals and pushes the tangents through its
derivative. sin(3 + 1ε) = sin(3) + cos(3)·1ε.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.bind import Trace, Traced, bind, numbers, unwrap_fresh
from ..core.floating import quiet, tell
from ..core.op import Constant, Elementwise, Op, Structured
from ..core.types import Shape, Value, shape_of
from ..derive import doubted, product_of_tangents, push
from ..ops.broadcast import where
from ..ops.elementwise import equal, ieee_mul, is_finite, isnan, logical_and, logical_or, not_equal, strong_mul
from .origin import WHOLE
from .overflow import is_silent, is_silent_loop
from .repeated import RetreatError, rates


class Dual(Trace):
    """One forward pass. `value` is the primal and `aux` the tangent.

    One that `retreats` raises a RetreatError where reverse mode knows more. `overflowed` says that a primal did.
    """

    __slots__ = ("computed", "masks", "overflowed", "retreats")

    def __init__(self, name: str, level: float | None = None, retreats: bool = False) -> None:
        super().__init__(name, level)
        self.retreats = retreats
        self.overflowed = False
        # Of a staged program, by identity: values that were computed; tangents, and where they are live.
        self.computed: dict[int, Value] = {}
        self.masks: dict[int, tuple[Value, Any]] = {}

    def overflow(self) -> None:
        self.overflowed = True

    def process(self, op: Op, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        primals = [a.value if isinstance(a, Traced) and a.by is self else unwrap_fresh(a) for a in args]
        tangents = [a.aux if isinstance(a, Traced) and a.by is self else None for a in args]
        if isinstance(op, Structured):
            with quiet():
                ys, ts = op.jvp(primals, tangents, params)
            if is_silent_loop(op, ys):
                tell()
            return tuple(p if d is None else Traced(self, p, d) for p, d in zip(ys, ts, strict=True))
        y = bind(op, *primals, **params)
        if isinstance(op, Constant):
            return y
        if is_silent(op, y, primals):
            tell()
        if self.retreats and op.many and rates(op, y, params) is not None:
            raise RetreatError(self)
        overflowed = self.overflowed
        with quiet():  # the primal has warned already
            if not op.many and numbers(y) is None:
                t = self.write(op, y, primals, tangents, params)
            else:
                asks = self.retreats and isinstance(op, Elementwise)
                t = push(
                    op, y, primals, tangents, params, functools.partial(self.product, op, primals, tangents) if asks else None
                )
        self.overflowed = overflowed  # a tangent that overflows is infinite, and no other number
        if t is None:
            return y
        if op.many:
            return tuple(p if d is None else Traced(self, p, d) for p, d in zip(y, t, strict=True))
        return Traced(self, y, t)

    def with_value(self, x: Traced, value: Value) -> Traced:
        if id(x.value) in self.computed:
            self.computed[id(value)] = value
        return super().with_value(x, value)

    def product(self, op: Any, xs: Sequence[Value], ts: Sequence[Value | None], t: Value, p: Value) -> Value:
        """Tangent times partial. Whether a zero that meets an infinity is that of a mask, reverse mode can tell."""
        if not (isinstance(t, Traced) or isinstance(p, Traced)) and is_finite(r := t * p):
            return r
        if not (is_finite(numbers(t)) and is_finite(numbers(p))):
            met = logical_and(isnan(ieee_mul(t, p)), logical_or(equal(t, 0), equal(p, 0)))
            known = numbers(met)
            if known is not None and np.any(known):
                raise RetreatError(self)
        return product_of_tangents(op, xs, ts)(t, p)

    def write(self, op: Op, y: Value, xs: Sequence[Value], ts: Sequence[Value | None], params: dict[str, Any]) -> Value | None:
        """As `push`, in a staged program: an ordinary product where the tangent holds no zero of a mask."""
        self.computed[id(y)] = y
        live = [self.live(t) for t in ts if t is not None]
        if isinstance(op, Elementwise):
            mask = functools.reduce(_either, live)
            given = product_of_tangents(op, xs, ts)
            wanted = [i for i, t in enumerate(ts) if t is not None]
            read = doubted(op, [y, *xs], wanted, lambda k: id(xs[k]) in self.computed)
            alike = all(shape_of(t) == shape_of(y) for t in ts if t is not None)
            if given is strong_mul and all(m is not None for m in live) and (alike or all(m is True for m in live)):
                t = push(op, y, xs, ts, params, lambda t, p: _product(self.live(t), t, p), read)
            else:
                t = push(op, y, xs, ts, params, given, read)
            has_masks = given is not strong_mul and (op.name != "mul" or any(map(_may_be_zero, xs)))
            mask = None if has_masks or not (alike or mask is True) else mask
        else:
            t = push(op, y, xs, ts, params)
            mask = True if all(m is True for m in live) and len(live) == len(ts) and op.name in WHOLE else None
        if t is not None:
            self.masks[id(t)] = t, mask
        return t

    def live(self, t: Value) -> Any:
        """Where the zeros of a tangent are not those of a mask: True for everywhere, None if that is not known."""
        known = numbers(t)
        if known is not None:
            return True if np.all(known) else None
        if id(t) not in self.masks:
            self.masks[id(t)] = t, not_equal(t, 0) if self.retreats else None
        return self.masks[id(t)][1]

    def shape(self, x: Traced) -> Shape:
        return shape_of(x.value)

    def split(self, x: Value) -> tuple[Value, Value | None]:
        """Primal and tangent of a result; a constant has no tangent."""
        if isinstance(x, Traced) and x.by is self:
            return x.value, x.aux
        return x, None


def _either(a: Any, b: Any) -> Any:
    return None if a is None or b is None else True if a is True or b is True else logical_or(a, b)


def _product(mask: Any, t: Value, p: Value) -> Value:
    return ieee_mul(t, p) if mask is True else where(mask, ieee_mul(t, p), 0.0)


def _may_be_zero(x: Value) -> bool:
    """Whether a constant factor may have zeros, which are those of a mask."""
    known = numbers(x)
    return not isinstance(x, Traced) and not np.all(known)
