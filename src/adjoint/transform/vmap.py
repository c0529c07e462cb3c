"""vmap on graphs: the graph for a batch of examples, from the graph for one."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.bind import Traced
from ..core.types import Shape, Type, Value, shape_of
from ..eager.batch import Batch
from ..ir.graph import Graph
from ..ops.broadcast import broadcast_to
from .build import Flags, build, named, once


def run(graph: Graph, size: int, values: Sequence[Value], flags: Sequence[bool]) -> tuple[list[Value], Flags]:
    """Run a graph on a batch: results, and which of them have a batch axis."""
    with Batch(size) as batch:
        inside = [Traced(batch, x, None) if flag else x for x, flag in zip(values, flags, strict=True)]
        ys = graph.run_flat(inside)
    batched = tuple(isinstance(y, Traced) and y.by is batch for y in ys)
    return [y.underlying if flag else y for y, flag in zip(ys, batched, strict=True)], batched


def vmap(graph: Graph, size: int, flags: Flags, outputs: Flags | None = None) -> Graph:
    """The graph for batches of `size`, whose flagged inputs have a batch axis in front, and so the outputs that depend on them.

    The outputs flagged in `outputs` have one even if they are the same for all examples.
    """

    def whole(values: list[Value]) -> list[Value]:
        ys, batched = run(graph, size, values, flags)
        wanted = outputs or batched
        return [repeated(y, size) if w and not b else y for y, w, b in zip(ys, wanted, batched, strict=True)]

    def make() -> Graph:
        inputs = [
            (name, with_axis(t, size) if flag else t)
            for (name, t), flag in zip(named(graph, range(len(flags))), flags, strict=True)
        ]
        return build(f"vmap_{graph.name}", inputs, whole)

    return once(graph, ("vmap", size, flags, outputs), make)


def with_axis(t: Type, size: int) -> Type:
    shape: Shape = (size, *t.shape)
    return Type(shape, t.dtype)


def repeated(x: Value, size: int) -> Value:
    """A value that is the same for all examples, with a batch axis."""
    return broadcast_to(x, shape=(size, *shape_of(x)))


def batch_size(flags: Sequence[bool], args: Sequence[Value]) -> int:
    return next(shape_of(x)[0] for x, flag in zip(args, flags, strict=True) if flag)
