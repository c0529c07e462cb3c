"""From a staged graph to the one that is compiled: a list of named passes.

Loops are rolled before anything is simplified, since iterations resemble each other most as they were staged.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, NamedTuple

from ..ir.edit import dead_code
from ..ir.graph import Graph
from .complex import has_complex, split_complex
from .covered import join_places
from .elements import compute_elements
from .halves import has_halves, widen_halves
from .loops import (
    Rolled,
    RolledLoop,
    Unrolled,
    compute_masks,
    distribute,
    drop_idle_carries,
    read_at_places,
    roll,
    share_iterations,
    share_offsets,
    sink_sums,
    split_columns,
    sum_points_last,
)
from .simplify import simplify
from .written import forward_writes

COMPLEX_PARTS, HALVES = "complex parts", "halves"

# Each takes a graph, and which of its inputs are Python numbers; rolling also tells what became of the loops.
PASSES: dict[str, Callable[[Graph, Collection[int]], Graph | Rolled]] = {
    "dead code": lambda graph, weak: dead_code(graph),
    "roll": roll,  # equations that repeat become scans
    "forward writes": forward_writes,  # elements are taken from where they come from
    "simplify": lambda graph, weak: simplify(graph, final=True)[0],
    "idle carries": lambda graph, weak: drop_idle_carries(graph),  # that do not change, or that nothing reads
    "constant masks": lambda graph, weak: compute_masks(graph),  # that loops carry, as rows
    COMPLEX_PARTS: lambda graph, weak: simplify(split_complex(graph, weak), final=True)[0],
    HALVES: lambda graph, weak: simplify(widen_halves(graph), final=True)[0],  # arithmetic of float16 becomes that of float32
    "join places": lambda graph, weak: join_places(graph),  # sums of rows that cover an array become stacks
    "elements": lambda graph, weak: compute_elements(graph),  # of arrays of which few are read
    "share iterations": lambda graph, weak: share_iterations(graph),  # common subexpressions of scans
    "sink sums": lambda graph, weak: sink_sums(graph),  # sums of products over iterations become one product
    "sum points last": lambda graph, weak: sum_points_last(graph),  # so that the points of a loop are independent
    "split columns": lambda graph, weak: split_columns(graph),  # of short rows that a loop over many points carries
    "distribute": lambda graph, weak: distribute(graph),  # functions that no later iteration needs, after their loop
    "read at places": lambda graph, weak: read_at_places(graph),  # that loops know, from tables
    "share offsets": lambda graph, weak: share_offsets(graph),  # rows of indices that differ by a constant
}


class Optimized(NamedTuple):
    """The graph after all passes, and what they did."""

    graph: Any
    sizes: dict[str, int]  # equations after each pass
    loops: tuple[RolledLoop, ...]
    unrolled: tuple[Unrolled, ...]

    def __str__(self) -> str:
        return "passes: " + ", ".join(f"{name} {size}" for name, size in self.sizes.items()) + " equations"


def optimize(graph: Graph, weak: Collection[int] = (), complex_parts: bool = False, halves: bool = False) -> Optimized:
    """Run all passes. The inputs `weak` are Python numbers. With `complex_parts`, complex values become pairs of real ones, and
    with `halves` the arithmetic of float16 is that of float32."""
    sizes, rolled = {"staged": len(graph)}, Rolled(graph, (), ())
    for name, run in PASSES.items():
        if name == COMPLEX_PARTS and not (complex_parts and has_complex(graph)):
            continue
        if name == HALVES and not (halves and has_halves(graph)):
            continue
        result = run(graph, weak)
        if isinstance(result, Rolled):
            rolled, result = result, result.graph
        graph, sizes[name] = result, len(result)
    return Optimized(graph, sizes, rolled.loops, rolled.unrolled)
