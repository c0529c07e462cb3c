"""Forward mode: dual numbers a + bε with ε² = 0.

Each value carries its tangent b; an op computes its result from the primals and pushes the tangents through its
derivative. sin(3 + 1ε) = sin(3) + cos(3)·1ε.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.bind import Trace, Traced, bind, settled
from ..core.op import Constant, Op, Structured
from ..core.types import Shape, Value, shape_of
from ..derive import push


class Dual(Trace):
    """One forward pass. `value` is the primal and `aux` the tangent."""

    __slots__ = ()

    def process(self, op: Op, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        primals = [a.value if isinstance(a, Traced) and a.by is self else settled(a) for a in args]
        tangents = [a.aux if isinstance(a, Traced) and a.by is self else None for a in args]
        if isinstance(op, Structured):
            with np.errstate(all="ignore"):
                ys, ts = op.jvp(primals, tangents, params)
            return tuple(p if d is None else Traced(self, p, d) for p, d in zip(ys, ts, strict=True))
        y = bind(op, *primals, **params)
        if isinstance(op, Constant):
            return y
        with np.errstate(all="ignore"):  # the primal has warned already
            t = push(op, y, primals, tangents, params)
        if t is None:
            return y
        if op.many:
            return tuple(p if d is None else Traced(self, p, d) for p, d in zip(y, t, strict=True))
        return Traced(self, y, t)

    def shape(self, x: Traced) -> Shape:
        return shape_of(x.value)

    def split(self, x: Value) -> tuple[Value, Value | None]:
        """Primal and tangent of a result; a constant has no tangent."""
        if isinstance(x, Traced) and x.by is self:
            return x.value, x.aux
        return x, None
