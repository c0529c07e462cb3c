"""Forward mode: dual numbers a + bε with ε² = 0.

Each value carries its tangent b; an op computes its result from the primals and pushes the tangents through its
derivative. sin(3 + 1ε) = sin(3) + cos(3)·1ε.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.bind import Trace, Traced, bind, have_numbers, numbers, unwrap_fresh
from ..core.floating import quiet, tell
from ..core.op import Constant, Elementwise, Op, Opaque, Structured
from ..core.types import Shape, Value, shape_of
from ..derive import doubted, for_finite_numbers, has_zeros, is_declared, product_of_tangents, push, split, watched
from ..ops.broadcast import fit_tangent, where
from ..ops.elementwise import (
    PRODUCTS,
    equal,
    ieee_mul,
    is_finite,
    isnan,
    logical_and,
    logical_or,
    mul,
    not_equal,
    power,
    strong_mul_either_op,
    strong_mul_op,
)
from .live_tangents import either, reached
from .origin import zeros_of_mask
from .overflow import is_silent, is_silent_loop
from .repeated import RetreatError, rates
from .rules import push_masked


class Dual(Trace):
    """One forward pass. `value` is the primal and `aux` the tangent.

    One that `retreats` raises a RetreatError where reverse mode knows more, or, if it `has_loop`, a pass that `marks` where
    tangents of numbers are live, as it is always done in staged programs, unless every zero is `strong`, for programs that people
    read. `overflowed` says that a primal did.
    """

    __slots__ = ("computed", "has_loop", "marks", "masks", "overflowed", "retreats", "strong")

    def __init__(
        self, name: str, level: float | None = None, retreats: bool = False, marks: bool = False, strong: bool = False
    ) -> None:
        super().__init__(name, level)
        self.retreats, self.marks = retreats, marks
        self.strong = strong or for_finite_numbers.get()
        self.has_loop = False
        self.overflowed = False
        # Of a staged program, by identity: values that were computed; tangents, and where they are live.
        self.computed: dict[int, Value] = {}
        self.masks: dict[int, tuple[Value, Any]] = {}

    def overflow(self) -> None:
        self.overflowed = True

    def process(self, op: Op, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        primals = [a.underlying if isinstance(a, Traced) and a.by is self else unwrap_fresh(a) for a in args]
        tangents = [a.aux if isinstance(a, Traced) and a.by is self else None for a in args]
        if isinstance(op, Structured):
            with quiet():
                ys, ts = self.push_loop(op, primals, tangents, params)
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
            if self.marks or numbers(y[0] if op.many else y) is None:
                t = self.write(op, y, primals, tangents, params)
            else:
                t = self.push(op, y, primals, tangents, params)
        self.overflowed = overflowed  # a tangent that overflows is infinite, and no other number
        if t is None:
            return y
        if op.many:
            return tuple(p if d is None else Traced(self, p, d) for p, d in zip(y, t, strict=True))
        return Traced(self, y, t)

    def push(self, op: Op, y: Any, xs: Sequence[Value], ts: Sequence[Value | None], params: dict[str, Any]) -> Any:
        """The tangent of the result, of numbers."""
        if not self.retreats or not isinstance(op, (Elementwise, Opaque)):
            return push(op, y, xs, ts, params)
        if isinstance(op, Elementwise):
            return push(op, y, xs, ts, params, functools.partial(self.product, op, xs, ts))
        t, met = watched(lambda: push(op, y, xs, ts, params))
        if met and is_declared(op):
            raise RetreatError(self)
        return t

    def with_value(self, x: Traced, value: Value) -> Traced:
        if id(x.underlying) in self.computed:
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

    def write(self, op: Op, y: Any, xs: Sequence[Value], ts: Sequence[Value | None], params: dict[str, Any]) -> Any:
        """As `push`, in a staged program: an ordinary product, but for zeros of a mask in the tangent or in a factor."""
        for part in y if op.many else (y,):
            self.computed[id(part)] = part
        if self.strong:
            return push(op, y, xs, ts, params)
        live = [None if t is None else self.live(t) for t in ts]
        if isinstance(op, Elementwise):
            t, mask = self.write_elementwise(op, y, xs, ts, params, live)
        elif op in PRODUCTS:
            t, mask = _write_product(op, y, xs, ts, live)
        else:
            is_rule = isinstance(op, Opaque) and is_declared(op)
            t = push_masked(op, y, xs, ts, live, params) if is_rule else push(op, y, xs, ts, params)
            mask = None if t is None else reached(op, y, xs, live, params)
        for part, its_mask in zip(t, mask, strict=True) if op.many and t is not None else [(t, mask)]:
            if part is not None:
                self.masks[id(part)] = part, its_mask
        return t

    def push_loop(self, op: Structured, xs: Sequence[Value], ts: Sequence[Value | None], params: dict[str, Any]) -> Any:
        """Through a loop or a branch, with the masks of the tangents.

        If nothing is known of the zeros of numbers, they count as live at first; if the result is nan, another pass marks them.
        """
        if not op.masks_tangents or self.strong:
            return op.jvp(xs, ts, params)
        self.has_loop = True
        unknown = self.retreats and not self.marks and have_numbers([*xs, *(t for t in ts if t is not None)])
        masks = [t is not None if t is None or unknown else self.live(t) for t in ts]
        ys, found, live = op.jvp(xs, ts, params, masks)
        for t, mask in zip(found, live, strict=True):
            known = None if t is None else numbers(t)
            if known is not None and unknown and np.any(np.isnan(known)):
                raise RetreatError(self)
            if t is not None and (self.marks or known is None):
                self.masks[id(t)] = t, mask
        return ys, found

    def write_elementwise(
        self,
        op: Elementwise,
        y: Value,
        xs: Sequence[Value],
        ts: Sequence[Value | None],
        params: dict[str, Any],
        live: Sequence[Any],
    ) -> tuple[Value | None, Any]:
        wanted = [i for i, t in enumerate(ts) if t is not None]
        # Of numbers, an overflow has been reported.
        read = doubted(op, [y, *xs], wanted, lambda k: numbers(xs[k]) is None and id(xs[k]) in self.computed)
        chosen = _factor(op, xs, ts)
        masks = [m for m, partial in zip(live, split(op), strict=True) if m is not None and partial.number not in (None, 0)]

        def product(t: Value, p: Value) -> Value:
            mask = both(self.live(t), not_equal(p, 0) if op.choice else chosen)
            masks.append(mask)
            return _product(mask, t, p)

        t = push(op, y, xs, ts, params, product, read)
        return t, True if not masks else either(masks, shape_of(y))

    def live(self, t: Value) -> Any:
        """Where the zeros of a tangent are not those of a mask: True for everywhere.

        Of a tangent that the pass did not compute, the zeros are meant.
        """
        if id(t) not in self.masks:
            known = numbers(t)
            self.masks[id(t)] = t, True if known is not None and np.all(known) else not_equal(t, 0)
        return self.masks[id(t)][1]

    def shape(self, x: Traced) -> Shape:
        return shape_of(x.underlying)

    def split(self, x: Value) -> tuple[Value, Value | None]:
        """Primal and tangent of a result; a constant has no tangent."""
        if isinstance(x, Traced) and x.by is self:
            return x.underlying, x.aux
        return x, None


def _product(mask: Any, t: Value, p: Value) -> Value:
    if all((known := numbers(x)) is not None and not np.any(known) for x in (mask, t)):
        return strong_mul_either_op(t, p)  # simplified as a zero
    return ieee_mul(t, p) if mask is True else where(mask, ieee_mul(t, p), 0.0)


def both(a: Any, b: Any) -> Any:
    """Two masks in one; None says the same as True."""
    if a is True or a is None:
        return True if b is None else b
    return a if b is True or b is None else logical_and(a, b)


def _factor(op: Elementwise, xs: Sequence[Value], ts: Sequence[Value | None]) -> Any:
    """Where a factor of the partial is no zero of a mask: that of a product with a constant, or the exponent of x**0."""
    if op is mul and any(t is None for t in ts):
        return zeros_of_mask(xs[0 if ts[0] is None else 1], False)
    return not_equal(xs[1], 0) if op is power and ts[1] is None and has_zeros(xs[1]) else None


def _write_product(op: Op, y: Value, xs: Sequence[Value], ts: Sequence[Value | None], live: Sequence[Any]) -> tuple[Value, Any]:
    """The tangent of a product of the chain rule, in which a zero of one factor or of either has won."""
    total, masks = None, []
    for i, t in enumerate(ts):
        if t is None:
            continue
        strong = op is strong_mul_either_op or (op is strong_mul_op and i == 1)
        mask = both(live[i], not_equal(xs[1 - i], 0) if strong else None)
        term = _product(mask, t, xs[1 - i])
        total = term if total is None else total + term
        masks.append(mask)
    return fit_tangent(total, y), either(masks, shape_of(y))
