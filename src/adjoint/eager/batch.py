"""vmap: every value carries a batch axis in front, and every op runs once on the whole batch.

The batched form of an op comes from `derive.batched`. A value without a batch axis is shared by all examples.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.bind import Trace, Traced, unwrap_fresh
from ..core.errors import BatchError
from ..core.op import Op
from ..core.types import Shape, Value, shape_of
from ..derive import batched
from ..ops.broadcast import broadcast_to, moveaxis
from ..ops.elementwise import equal, not_equal, trunc
from ..ops.reduce import all_

#: What Python asks of a number, and NumPy of a mask: the part of it that the answer depends on.
_ASKED: dict[str, Callable[[Any], Any]] = {
    "the truth of": lambda x: not_equal(x, 0),
    "int() of": lambda x: trunc(x),
    "an index from": lambda x: x,
    "the choice of elements by": lambda x: x,
}


class Batch(Trace):
    """One batch of `size` examples. `value` has the batch axis first; `aux` is true for a 0-d array as opposed to a scalar."""

    __slots__ = ("size",)

    def __init__(self, size: int) -> None:
        super().__init__("vmap")
        self.size = size

    def process(self, op: Op, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        flags = tuple([isinstance(a, Traced) and a.by is self for a in args])
        values = [a.underlying if flag else unwrap_fresh(a) for a, flag in zip(args, flags, strict=True)]
        y = batched(op, flags, values, params)
        if op.many:
            return tuple(Traced(self, part, None) for part in y)
        return Traced(self, y, True if len(shape_of(y)) == 1 and op.gives_array(args) else None)

    def is_array(self, x: Traced) -> bool:
        return x.aux is True or self.shape(x) != ()

    def class_of(self, x: Traced) -> type:
        return np.ndarray if self.is_array(x) else self.dtype(x).type

    def shape(self, x: Traced) -> Shape:
        return shape_of(x.underlying)[1:]

    def concrete(self, x: Traced, what: str) -> Any:
        """The answer on which all examples agree: they take one branch."""
        asked = _ASKED.get(what)
        if asked is not None and self.size and (self.shape(x) == () or self.dtype(x).kind == "b"):
            answers = asked(x.underlying)
            if all_(equal(answers, answers[:1]), axis=tuple(range(len(shape_of(answers)))), keepdims=False):
                return answers[0]
        raise BatchError(
            f"{what} a value inside vmap differs between examples; use np.where, ad.cond or array indexing, or ad.map to run "
            "the examples one by one"
        )

    def enter(self, value: Value, axis: int) -> Traced:
        """A value whose axis `axis` is the batch."""
        x = Traced(self, moveaxis(value, axis, 0), None)
        if isinstance(x.underlying, np.ndarray):
            x.memory_layout = x.underlying.strides[1:]
        return x

    def leave(self, x: Value, axis: int) -> Value:
        """The result with its batch axis at `axis`; a result shared by all examples is repeated."""
        if isinstance(x, Traced) and x.by is self:
            return moveaxis(x.underlying, 0, axis)
        return moveaxis(broadcast_to(x, shape=(self.size, *shape_of(x))), 0, axis)
