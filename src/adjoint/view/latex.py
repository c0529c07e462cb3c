"""A graph as lines of mathematics in LaTeX: v_1 = ln x, v_2 = v_1 · y, …"""

from __future__ import annotations

from ..ir.graph import Graph
from .notation import LATEX
from .writer import GraphWriter


def latex(graph: Graph) -> str:
    """One aligned line for each equation, for mathematics mode (amsmath). Inputs have their own names."""
    return "\\begin{aligned}\n" + " \\\\\n".join(lines(graph)) + "\n\\end{aligned}"


def lines(graph: Graph) -> list[str]:
    """The lines of a graph: its equations, then the function that they compute."""
    writer = _Named(LATEX, graph)
    found = [
        f"{', '.join(writer.name(n) for n in equation.outputs)} &= {writer.expression(equation)}" for equation in graph.equations
    ]
    results = ", ".join(writer.operand(o).text for o in graph.outputs)
    inputs = ", ".join(map(writer.notation.variable, graph.input_names))
    return [*found, rf"{writer.notation.variable(graph.name)}({inputs}) &= {results}"]


class _Named(GraphWriter):
    """Writes inputs by their names, and other values by the numbers of the printed graph."""

    def name(self, number: int) -> str:
        names = self.graph.input_names
        return self.notation.variable(names[number]) if number < len(names) else self.notation.value(number)
