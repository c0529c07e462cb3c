"""A graph as boxes and edges, shown by both the still picture and the explorer.

A box is an input, an array constant, an equation or an output. Numbers among the operands are written in the box. Each value
leaves its box through its own port, labelled with its type.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, field
from typing import Any

from ..core.types import Type
from ..ir.graph import Equation, Graph, Literal, Operand
from ..ir.text import show_value
from .layout import Edge

KINDS = {
    "input": "input",
    "constant": "constant, or piecewise constant",
    "elementwise": "elementwise",
    "linear": "linear",
    "multilinear": "multilinear",
    "opaque": "opaque",
    "structured": "loop or branch",
    "output": "output",
}
HEAD, SMALL = 13.0, 10.5  # font sizes
ADVANCE = 0.62  # width of a character of a monospaced font, with a margin, relative to the font size
LIMIT = 34  # characters of a line in a box


@dataclass(frozen=True, slots=True)
class DiagramNode:
    """A box: `name op` above, operands and parameters below it. `values` leave through its ports, labelled by `types`."""

    kind: str
    name: str
    op: str
    detail: str
    values: tuple[int, ...]
    types: tuple[str, ...]
    line: str = ""
    text: str = ""
    operands: tuple[int, ...] = ()  # the values that it reads
    equation: int | None = None

    @property
    def width(self) -> float:
        head = width_of(f"{self.name} {self.op}".strip(), HEAD)
        labels = len(self.types) * (max((width_of(label, SMALL) for label in self.types), default=0.0) + 10)
        return round(max(head, width_of(self.detail, SMALL), labels - 20, 30.0) + 24, 1)

    @property
    def height(self) -> float:
        return 42.0 if self.detail else 28.0


@dataclass(frozen=True)
class Diagram:
    """Boxes in topological order, and edges with their types."""

    name: str
    nodes: list[DiagramNode] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)
    edge_values: list[int] = field(default_factory=list)

    @property
    def sizes(self) -> list[tuple[float, float]]:
        return [(node.width, node.height) for node in self.nodes]


def width_of(text: str, size: float) -> float:
    """An upper bound of the width of a text in a monospaced font."""
    if text.isascii():
        return len(text) * ADVANCE * size
    cells = sum(2 if unicodedata.east_asian_width(c) in "WF" else 0 if unicodedata.combining(c) else 1 for c in text)
    return cells * ADVANCE * size


def port(i: int, count: int) -> float:
    """Where a value leaves its box, as a fraction of the width; its label is centred there."""
    return (i + 0.5) / count


def shorten(text: str, limit: int = LIMIT) -> str:
    """One line of a text, truncated with an ellipsis if too long."""
    text = " ".join(text.split())
    return text if len(text) <= limit else text[: limit - 1] + "…"


def diagram(graph: Graph) -> Diagram:
    """The boxes and edges of a graph."""
    drawn = Diagram(graph.name)
    names = dict(enumerate(graph.input_names))
    origin: dict[int, tuple[int, float]] = {}  # the box and port of each value
    constants: dict[int, int] = {}  # array constants by identity, numbered below zero

    def add(node: DiagramNode) -> None:
        for operand in node.operands:
            box, at = origin[operand]
            drawn.edges.append(Edge(box, len(drawn.nodes), at))
            drawn.edge_values.append(operand)
        for i, value in enumerate(node.values):
            origin[value] = len(drawn.nodes), port(i, len(node.values))
        drawn.nodes.append(node)

    def number(operand: Operand) -> int | None:
        """The number of a value with its own box."""
        return operand if isinstance(operand, int) else constants.get(id(operand))

    def write(operand: Operand) -> str:
        known = number(operand)
        if known is not None:
            return names.get(known, f"v{known}")
        return show_literal(operand)  # type: ignore[arg-type]

    for i, (name, type_) in enumerate(zip(graph.input_names, graph.input_types, strict=True)):
        add(DiagramNode("input", shorten(name), "", "", (i,), (repr(type_),), text=f"{name}: {type_!r}"))
    for operand in _operands(graph):
        if isinstance(operand, Literal) and operand.type.ndim and id(operand) not in constants:
            key = constants[id(operand)] = -1 - len(constants)
            names[key] = name = f"c{len(constants) - 1}"
            add(DiagramNode("constant", name, "const", "", (key,), (repr(operand.type),), text=f"const {name}: {operand.type!r}"))
    for i, equation in enumerate(graph.equations):
        add(_equation(i, equation, [write(o) for o in equation.inputs], [number(o) for o in equation.inputs]))
    for i, operand in enumerate(graph.outputs):
        label = "output" if len(graph.outputs) == 1 else f"output {i}"
        known = number(operand)
        text = f"return {write(operand)}"
        reads = () if known is None else (known,)
        add(DiagramNode("output", label, "", "" if reads else shorten(write(operand)), (), (), text=text, operands=reads))
    return drawn


def _operands(graph: Graph) -> list[Operand]:
    return [o for equation in graph.equations for o in equation.inputs] + list(graph.outputs)


def _equation(i: int, equation: Equation, operands: list[str], reads: list[int | None]) -> DiagramNode:
    name = ", ".join(f"v{n}" for n in equation.outputs)
    options = ", ".join(f"{key}={_option(value)}" for key, value in equation.params.items())
    types = tuple(map(repr, equation.types))
    targets = ", ".join(f"v{n}: {t}" for n, t in zip(equation.outputs, types, strict=True))
    text = f"{targets} = {equation.op.name} {', '.join(operands)}" + (f" {{{options}}}" if options else "")
    kind = equation.op.kind if equation.op.kind in KINDS else "opaque"
    detail = shorten(", ".join(operands) + (f"  {options}" if options else ""))
    used = tuple(n for n in reads if n is not None)
    return DiagramNode(
        kind, shorten(name), shorten(equation.op.name), detail, equation.outputs, types, equation.line, text, used, i
    )


def _option(value: Any) -> str:
    """A parameter in short form: large arrays and graphs are abbreviated."""
    if isinstance(value, Graph):
        return f"<{len(value)} equations>"
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return repr(Type.of(value))
    return shorten(show_value(value), 200)


def show_literal(literal: Literal) -> str:
    """A number among the operands."""
    value = literal.value if literal.is_weak else literal.value.item()
    return shorten(show_value(value), 24)
