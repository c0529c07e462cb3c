"""Whether the matrix of a decomposition has repeated eigenvalues, where its derivative is a limit (ops/gaps.py)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.bind import Trace, numbers
from ..core.errors import BatchError, UnsupportedError
from ..core.op import Op, Opaque
from ..core.types import Value, ndim_of
from ..ops.elementwise import not_equal
from ..ops.reduce import any_


class RetreatError(Exception):
    """A forward pass has found a repeated eigenvalue, or zero times infinity: two reverse passes compute the derivative
    instead."""

    def __init__(self, trace: Trace) -> None:
        super().__init__(trace.name)
        self.trace = trace


def rates(op: Op, y: Sequence[Value], params: dict[str, Any]) -> Sequence[Value | None] | None:
    """How the results of a decomposition change with ε; None if no eigenvalue is repeated, or if this is not known."""
    if not isinstance(op, Opaque) or op.limit is None:
        return None
    found = op.limit.split(y, **params)
    return found if any(_is_there(rate) for rate in found if rate is not None) else None


def _is_there(rate: Value) -> bool:
    known = numbers(rate)
    if known is not None:
        return bool(np.any(known))
    there = any_(not_equal(rate, 0.0), axis=tuple(range(ndim_of(rate))), keepdims=False)
    try:
        answer = bool(there.by.concrete(there, "the truth of"))
    except (UnsupportedError, BatchError) as error:  # a graph without numbers: the rules give nan where it matters
        error.mark_handled()
        return False
    if answer:
        there.by.abandon()  # this call runs eagerly
    return False
