"""Forward mode on graphs.

graph f(x)           { v1 = sin x;  return v1 }
graph jvp_f(x, d_x)  { v2 = sin x;  v3 = cos x;  v4 = strong_mul d_x, v3;  return v2, v4 }
"""

from __future__ import annotations

from collections.abc import Sequence

from ..core.bind import Traced
from ..core.types import Value
from ..eager.dual import Dual
from ..ir.graph import Graph
from ..ops.broadcast import zeros_of
from .build import Flags, build, named, once, parts, places, reach, spread


def push(graph: Graph, primals: Sequence[Value], tangents: Sequence[Value | None]) -> tuple[list[Value], list[Value | None]]:
    """Run a graph on dual numbers: results and their tangents, None for those that have none."""
    with Dual(graph.name) as dual:
        inside = [x if t is None else Traced(dual, x, t) for x, t in zip(primals, tangents, strict=True)]
        pairs = [dual.split(y) for y in graph.run_flat(inside)]
    return [y for y, _ in pairs], [t for _, t in pairs]


def filled(graph: Graph, tangents: Sequence[Value | None], flags: Sequence[bool]) -> list[Value]:
    """The tangents of the flagged outputs, zeros for those that have none."""
    return [
        zeros_of(type_) if t is None else t for t, type_, flag in zip(tangents, graph.output_types, flags, strict=True) if flag
    ]


def jvp(graph: Graph, flags: Flags, outputs: Flags | None = None) -> Graph:
    """The graph of (inputs, tangents of the flagged ones) ↦ (outputs, tangents of the flagged ones).

    The outputs are those that the flagged inputs reach, if they are not given.
    """
    wanted = reach(graph, flags) if outputs is None else outputs
    count = len(graph.input_types)

    def both(values: list[Value]) -> list[Value]:
        primals, tangents = parts(values, count)
        ys, ts = push(graph, primals, spread(tangents, flags))
        return [*ys, *filled(graph, ts, wanted)]

    def make() -> Graph:
        inputs = [*named(graph, range(count)), *named(graph, places(flags), "d_")]
        return build(f"jvp_{graph.name}", inputs, both)

    return once(graph, ("jvp", flags, wanted), make)


def dual_body(body: Graph, flags: Flags, outputs: Flags, consts: int, carries: int) -> Graph:
    """The body of a loop on dual numbers, with tangents behind the values of their kind: consts, carries, rows."""
    groups = parts(range(len(flags)), consts, carries)

    def iteration(values: list[Value]) -> list[Value]:
        rest = iter(values)
        primals: list[Value] = []
        tangents: list[Value | None] = []
        for group in groups:
            primals += [next(rest) for _ in group]
            tangents += [next(rest) if flags[i] else None for i in group]
        ys, ts = push(body, primals, tangents)
        carried, stacked = parts(filled(body, ts, outputs), sum(outputs[:carries]))
        return [*ys[:carries], *carried, *ys[carries:], *stacked]

    def make() -> Graph:
        inputs = []
        for group in groups:
            inputs += [*named(body, group), *named(body, [i for i in group if flags[i]], "d_")]
        return build(f"jvp_{body.name}", inputs, iteration)

    return once(body, ("dual", flags, outputs, consts, carries), make)
