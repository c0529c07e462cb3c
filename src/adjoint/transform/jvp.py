"""Forward mode on graphs.

graph f(x)           { v1 = sin x;  return v1 }
graph jvp_f(x, d_x)  { v2 = sin x;  v3 = cos x;  v4 = strong_mul d_x, v3;  return v2, v4 }
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.bind import Traced
from ..core.types import Type, Value
from ..eager.dual import Dual
from ..eager.live_tangents import full
from ..ir.graph import Graph
from ..ops.broadcast import zeros_of
from .build import Flags, Named, build, named, once, parts, places, reach, spread


def push(
    graph: Graph,
    primals: Sequence[Value],
    tangents: Sequence[Value | None],
    masks: Sequence[Any] | None = None,
    strong: bool = False,
) -> tuple[list[Value], list[Value | None], list[Any]]:
    """Run a graph on dual numbers: results, their tangents, None for those that have none, and where these are live.

    Without masks, the zeros of the tangents that go in count as those of a mask; if `strong`, all zeros do.
    """
    with Dual(graph.name, strong=strong) as dual:
        inside = [x if t is None else Traced(dual, x, t) for x, t in zip(primals, tangents, strict=True)]
        for t, mask in zip(tangents, masks or (), strict=bool(masks)):
            if t is not None:
                dual.masks[id(t)] = t, mask
        pairs = [dual.split(y) for y in graph.run_flat(inside)]
        live = [False if t is None else dual.live(t) for _, t in pairs]
    return [y for y, _ in pairs], [t for _, t in pairs], live


def filled(graph: Graph, tangents: Sequence[Value | None], flags: Sequence[bool]) -> list[Value]:
    """The tangents of the flagged outputs, zeros for those that have none."""
    return [
        zeros_of(type_) if t is None else t for t, type_, flag in zip(tangents, graph.output_types, flags, strict=True) if flag
    ]


def arrays(graph: Graph, masks: Sequence[Any], flags: Sequence[bool]) -> list[Value]:
    """The masks of the flagged outputs."""
    return [full(mask, t.shape) for mask, t, flag in zip(masks, graph.output_types, flags, strict=True) if flag]


def with_masks(inputs: Named, masked: bool) -> Named:
    """Tangents, with their masks behind them."""
    return [*inputs, *((f"live_{name}", Type(t.shape, np.dtype(bool))) for name, t in inputs if masked)]


def jvp(graph: Graph, flags: Flags, outputs: Flags | None = None, masked: bool = False) -> Graph:
    """The graph of (inputs, tangents of the flagged ones) ↦ (outputs, tangents of the flagged ones), masks behind tangents.

    The outputs are those that the flagged inputs reach, if they are not given.
    """
    wanted = reach(graph, flags) if outputs is None else outputs
    count = len(graph.input_types)

    def both(values: list[Value]) -> list[Value]:
        primals, tangents, masks = parts(values, count, sum(flags))
        ys, ts, live = push(graph, primals, spread(tangents, flags), spread(masks, flags) if masked else None)
        return [*ys, *filled(graph, ts, wanted), *(arrays(graph, live, wanted) if masked else ())]

    def make() -> Graph:
        inputs = [*named(graph, range(count)), *with_masks(named(graph, places(flags), "d_"), masked)]
        return build(f"jvp_{graph.name}", inputs, both)

    return once(graph, ("jvp", flags, wanted, masked), make)


def dual_body(body: Graph, flags: Flags, outputs: Flags, consts: int, carries: int, masked: bool = False) -> Graph:
    """The body of a loop on dual numbers, with tangents (and masks) behind the values of their kind: consts, carries, rows."""
    return _dual_body(body, flags, outputs, consts, carries, masked, None)[0]


def live_dual_body(body: Graph, flags: Flags, outputs: Flags, consts: int, carries: int) -> tuple[Graph, bool]:
    """The body for tangents that are live throughout, with ordinary products, and whether those that come back are live too."""
    return _dual_body(body, flags, outputs, consts, carries, False, True)


def _dual_body(
    body: Graph, flags: Flags, outputs: Flags, consts: int, carries: int, masked: bool, live: bool | None
) -> tuple[Graph, bool]:
    """The body of a scan on dual numbers, and whether all tangents that it gives are live.

    Each of its three groups of inputs (constants, carries, rows) is followed by the tangents of those that have one, and, if
    `masked`, by the masks of these; so are the carries and the rows among its results.
    """
    groups = parts(range(len(flags)), consts, carries)
    stays = []

    def iteration(values: list[Value]) -> list[Value]:
        rest = iter(values)
        primals: list[Value] = []
        tangents: list[Value | None] = []
        masks: list[Any] = []
        for group in groups:
            primals += [next(rest) for _ in group]
            tangents += [next(rest) if flags[i] else None for i in group]
            masks += [next(rest) if masked and flags[i] else live for i in group]
        ys, ts, found = push(body, primals, tangents, masks if masked or live else None)
        stays.append(all(mask is True for mask, flag in zip(found, outputs, strict=True) if flag))
        count = sum(outputs[:carries])
        carried, stacked = parts(filled(body, ts, outputs), count)
        carried_masks, stacked_masks = parts(arrays(body, found, outputs) if masked else [], count)
        return [*ys[:carries], *carried, *carried_masks, *ys[carries:], *stacked, *stacked_masks]

    def make() -> tuple[Graph, bool]:
        inputs: Named = []
        for group in groups:
            inputs += [*named(body, group), *with_masks(named(body, [i for i in group if flags[i]], "d_"), masked)]
        return build(f"jvp_{body.name}", inputs, iteration), all(stays)

    return once(body, ("dual", flags, outputs, consts, carries, masked, live), make)
