"""The backward pass of a `while_loop` as loops over blocks of states."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...api.control import cond, scan, while_loop
from ...core.op import Op
from ...ir.graph import Graph
from ...ops import control
from .numerics import Expansion

BLOCK = 32  # states that are kept


def _while_vjp(
    count: Any, *args: Any, step: Graph, pull: Graph, consts: int, wanted: Sequence[bool], checkpoint: Any
) -> tuple[Any, ...]:
    """The backward pass of a loop of unknown length in memory of known size: the states are computed again from the first one.

    A block of states is kept at a time, so that n iterations cost n² / 64 more.
    """
    fixed, state, gs = args[:consts], args[consts : len(wanted)], args[len(wanted) :]
    shared = len(pull.output_types) - len(gs)

    def run(s: Any) -> Any:
        return tuple(step.run_flat([*fixed, *s]))

    def block(carry: Any) -> Any:
        start, totals, gs = carry
        first = while_loop(lambda c: c[0] < start, lambda c: (c[0] + 1, run(c[1])), (np.int64(0), state))[1]
        places = np.arange(BLOCK)
        _, states = scan(lambda s, i: (cond(start + i + 1 < count, run, lambda s: s, s), s), first, places)

        def back(carry: Any, x: Any) -> Any:
            i, s = x

            def pulled(totals: Any, gs: Any) -> Any:
                results = pull.run_flat([*fixed, *s, *gs])
                return tuple(t + r for t, r in zip(totals, results[:shared], strict=True)), tuple(results[shared:])

            return cond(start + i < count, pulled, lambda totals, gs: (totals, gs), *carry), None

        totals, gs = scan(back, (totals, gs), (places, states), reverse=True)[0]
        return start - BLOCK, totals, gs

    last = while_loop(lambda s: s + BLOCK < count, lambda s: s + BLOCK, np.int64(0))
    last = np.where(count > 0, last, -1)
    zeros = tuple(np.zeros(t.shape, t.dtype)[()] for t in pull.output_types[:shared])
    _, totals, gs = while_loop(lambda c: c[0] >= 0, block, (last, zeros, tuple(gs)))
    return (*totals, *gs)


EXPANSIONS: dict[Op, Expansion] = {control.while_vjp: _while_vjp}
