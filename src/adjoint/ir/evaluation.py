"""The record of one run of a graph: the value of every node, its adjoint, its tangent, and the steps between.

The record is data. `adjoint.api.evaluation.evaluate` fills it; the views only read it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..core.types import Value, is_inexact
from .graph import Graph


@dataclass(frozen=True, slots=True)
class DerivativeRule:
    """A derivative rule written in ops. Its graph reads x0, x1, … (the operands of the equation) and y0, y1, … (its results).

    For an elementwise op the graph is the partial ∂y/∂xᵢ (`is_partial`). For any other it is the whole pullback, and reads the
    adjoints g0, g1, … of the results as well.
    """

    graph: Graph
    is_partial: bool


@dataclass(frozen=True, slots=True)
class SweepStep:
    """One step of the reverse sweep: an equation passes its adjoint on to one of its operands.

    equation      index of the equation
    target        number of the value that receives
    places        the operands of the equation that are the target: one, or two as in v·v
    contribution  what is added to its adjoint
    total         its adjoint after the step
    is_first      whether it is the first contribution
    """

    equation: int
    target: int
    places: tuple[int, ...]
    contribution: Value
    total: Value
    is_first: bool


@dataclass(frozen=True)
class Evaluation:
    """A graph with the numbers of one run. Keys are the numbers of values, as in the graph.

    values     every value: inputs and results of equations
    adjoints   ∂(Σ seed·output)/∂value for each value that the outputs depend on; an absent one is zero
    tangents   the directional derivative of each value; an absent one is zero
    seeds      the cotangent of each output, None for one that has no derivative
    steps      the reverse sweep, in the order in which it runs: from the last equation to the first
    rules      for each equation: its derivative rule by the place of the operand, None where it cannot be written as a graph
    partials   for each equation: texts such as "∂v3/∂x = cos(x)", in the names that the printed graph uses
    refusals   "adjoint" or "tangent": why that sweep could not be made, where an op has no rule for it
    """

    graph: Graph
    values: dict[int, Value]
    adjoints: dict[int, Value]
    tangents: dict[int, Value]
    seeds: tuple[Value | None, ...]
    steps: tuple[SweepStep, ...]
    rules: tuple[dict[int, DerivativeRule | None], ...]
    partials: tuple[tuple[str, ...], ...]
    refusals: dict[str, str]

    def output_values(self) -> list[Value]:
        """The values of the outputs, constants included."""
        return [self.values[o] if isinstance(o, int) else o.value for o in self.graph.outputs]

    def has_adjoint(self, number: int) -> bool:
        """Whether a value can have a derivative: it is a float or complex."""
        return number in self.adjoints or is_inexact(self.graph.types[number].dtype)

    def result(self) -> Any:
        """The function's result, in its own containers."""
        return self.graph.out_structure.unflatten(self.output_values())
