"""The derivative as one takes it by hand: every operand has a tangent, constants too, and no zero is left out.

    graph g(x, y)          { v2 = mul x, y;  v3 = add 5, v2;  return v3 }
    graph derivative_g(x, y) {
      v2 = strong_mul 1, y     y·1
      v3 = strong_mul 0, x     0·x
      v4 = add v2, v3
      v5 = add 0, v4       0 + (0·x + y·1), which prunes to y
      return v5
    }

The other transforms leave zeros out; this one shows them, for teaching. The rules are the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ..core.op import Elementwise, Multilinear
from ..core.types import Type, is_inexact
from ..derive import split
from ..ir.edit import cut, dead_code, substitute
from ..ir.graph import Equation, Graph, Literal, Operand
from ..rewrite.simplify.rewriter import Zero
from ..staging.stage import Stage
from .jvp import filled, push


def derivative(graph: Graph, place: int) -> Graph:
    """The graph of ∂output/∂input, for one scalar input."""
    count = len(graph.input_types)
    lifted, constants = _lifted(graph)
    flags = [is_inexact(t.dtype) for t in lifted.input_types]
    written: dict[int, Literal] = {}  # constants that replace inputs of the recording

    with Stage(graph.name) as stage:
        primals = [stage.input(name, t) for name, t in zip(lifted.input_names, lifted.input_types, strict=True)]
        written.update((count + i, constant) for i, constant in enumerate(constants))
        tangents = []
        for i, (name, t) in enumerate(zip(lifted.input_names, lifted.input_types, strict=True)):
            if flags[i]:
                written[len(stage.inputs)] = (
                    Literal(np.ones(t.shape, t.dtype)) if i == place else Zero(np.zeros(t.shape, t.dtype))
                )
            tangents.append(stage.input(f"d_{name}", t) if flags[i] else None)
        _, pushed, _ = push(lifted, primals, tangents, strong=True)
        recorded = stage.graph(f"derivative_{graph.name}", filled(graph, pushed, [True] * len(pushed)))

    return cut(recorded.name, dead_code(substitute(recorded, written)), range(count))


def _lifted(graph: Graph) -> tuple[Graph, list[Literal]]:
    """The graph with its constants as further inputs, where an op can be differentiated by them; and the constants."""
    constants: list[Literal] = []
    first = len(graph.input_types)
    shift = sum(1 for e in graph.equations for _ in _differentiable(e))

    def operand(o: Operand, type_: Type | None = None) -> Operand:
        if isinstance(o, int):
            return o if o < first else o + shift
        if type_ is None:
            return o
        constants.append(Literal(np.asarray(o.value, type_.dtype)))
        return first + len(constants) - 1

    equations = []
    for e in graph.equations:
        types = dict(_differentiable(e))
        inputs = tuple([operand(o, types.get(i)) for i, o in enumerate(e.inputs)])
        equations.append(replace(e, inputs=inputs, outputs=tuple([n + shift for n in e.outputs])))
    names = (*graph.input_names, *(f"constant_{i}" for i in range(len(constants))))
    kinds = (*graph.input_types, *(constant.type for constant in constants))
    return Graph(graph.name, names, kinds, tuple(equations), tuple(map(operand, graph.outputs))), constants


def _differentiable(equation: Equation) -> Iterator[tuple[int, Type]]:
    """The constants among the operands that an op can be differentiated by: their places, and types that promotion keeps."""
    (result, *_) = equation.types
    if not is_inexact(result.dtype) or not isinstance(equation.op, (Elementwise, Multilinear)):
        return
    for i, o in enumerate(equation.inputs):
        if isinstance(o, int) or not (o.is_weak or is_inexact(o.type.dtype)):
            continue
        if isinstance(equation.op, Elementwise):
            partial = split(equation.op)[i]
            if partial.missing or partial.number == 0:
                continue
        yield i, Type((), result.dtype) if o.is_weak else o.type
