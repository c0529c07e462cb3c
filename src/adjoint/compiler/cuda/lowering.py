"""From a graph to the steps of a program on a GPU: the lowering of the CPU, with launches instead of loops.

Ops without GPU code (functions of SciPy) are host calls.
"""

from __future__ import annotations

import sys
from collections.abc import Collection

from ...ir.graph import Equation, Graph
from ..lower import scalar
from ..lower.fuse import Lowering
from ..lower.memory import plan
from ..lower.step import Lowered
from .schedule import schedule


def lower(graph: Graph, weak: Collection[int] = (), guarded: bool = False, unread: int = 0) -> Lowered:
    """The steps of a graph; see `lower.fuse.lower`."""
    return _Lowering(graph, weak).run(guarded, unread)


class _Lowering(Lowering):
    has_cumulative = False  # it is sequential
    has_transforms = False  # it has its own

    has_array_kernels = False
    writes_in_place = False
    most_fused_functions = sys.maxsize  # a launch costs more than the code of a function

    def inner(self, graph: Graph) -> Lowering:
        return _Lowering(graph, ())

    def elementwise(self, equation: Equation) -> bool:
        if not scalar.has_code(equation.op):
            return False  # a function of SciPy, which is code for this processor
        if equation.op in scalar.DIVISIONS and equation.types[0].dtype.kind == "f":
            return False  # a GPU has no exact fmod in LLVM's code: see `exact`
        return super().elementwise(equation)

    def finish(self, lowered: Lowered) -> None:
        schedule(lowered)
        plan(lowered)
