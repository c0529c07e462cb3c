"""Forward mode: dual numbers a + bε with ε² = 0.

Each value carries its tangent b; an op computes its result from the primals and pushes the tangents through its
derivative. sin(3 + 1ε) = sin(3) + cos(3)·1ε.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.bind import Trace, Traced, bind, numbers, settled
from ..core.floating import quiet, tell
from ..core.op import Constant, Elementwise, Op, Structured
from ..core.types import Shape, Value, shape_of
from ..derive import product_of_tangents, push
from ..ops.elementwise import equal, is_finite, isnan, logical_and, logical_or, times_op
from .overflow import is_silent
from .repeated import RetreatError, rates


class Dual(Trace):
    """One forward pass. `value` is the primal and `aux` the tangent.

    One that `retreats` raises a RetreatError where reverse mode knows more. `overflowed` says that a primal did.
    """

    __slots__ = ("overflowed", "retreats")

    def __init__(self, name: str, level: float | None = None, retreats: bool = False) -> None:
        super().__init__(name, level)
        self.retreats = retreats
        self.overflowed = False

    def overflow(self) -> None:
        self.overflowed = True

    def process(self, op: Op, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        primals = [a.value if isinstance(a, Traced) and a.by is self else settled(a) for a in args]
        tangents = [a.aux if isinstance(a, Traced) and a.by is self else None for a in args]
        if isinstance(op, Structured):
            with quiet():
                ys, ts = op.jvp(primals, tangents, params)
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
            product = (
                functools.partial(self.product, op, primals, tangents) if self.retreats and isinstance(op, Elementwise) else None
            )
            t = push(op, y, primals, tangents, params, product)
        self.overflowed = overflowed  # a tangent that overflows is infinite, and no other number
        if t is None:
            return y
        if op.many:
            return tuple(p if d is None else Traced(self, p, d) for p, d in zip(y, t, strict=True))
        return Traced(self, y, t)

    def product(self, op: Elementwise, xs: Sequence[Value], ts: Sequence[Value | None], t: Value, p: Value) -> Value:
        """Tangent times partial. Whether a zero that meets an infinity is that of a mask, reverse mode can tell."""
        if not (isinstance(t, Traced) or isinstance(p, Traced)) and is_finite(r := t * p):
            return r
        if not (is_finite(numbers(t)) and is_finite(numbers(p))):
            met = logical_and(isnan(times_op(t, p)), logical_or(equal(t, 0), equal(p, 0)))
            known = numbers(met)
            if known is not None and np.any(known):
                raise RetreatError(self)
        return product_of_tangents(op, xs, ts)(t, p)

    def shape(self, x: Traced) -> Shape:
        return shape_of(x.value)

    def split(self, x: Value) -> tuple[Value, Value | None]:
        """Primal and tangent of a result; a constant has no tangent."""
        if isinstance(x, Traced) and x.by is self:
            return x.value, x.aux
        return x, None
