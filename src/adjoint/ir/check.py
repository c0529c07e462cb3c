"""Verify a graph: every value defined once and before its use, every type what the op gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.errors import AdjointError
from ..core.types import Type
from .graph import Equation, Graph, Literal, Operand


class GraphError(AdjointError, ValueError):
    """A graph that breaks a rule; names the equation."""


def check(graph: Graph, infer: Callable[[Equation, list[Type]], tuple[Type, ...]] | None = None) -> None:
    """Raise if the graph is wrong. With `infer`, the declared types are compared with those that the ops give."""
    types: dict[int, Type] = dict(enumerate(graph.input_types))
    if len(graph.input_names) != len(graph.input_types) or len(set(graph.input_names)) != len(graph.input_names):
        raise GraphError(f"the inputs of {graph.name!r} need distinct names, one for each type")

    def type_of(operand: Operand, place: str) -> Type:
        if isinstance(operand, Literal):
            return operand.type
        if operand not in types:
            raise GraphError(f"{place} uses v{operand}, which is not defined before it")
        return types[operand]

    for i, equation in enumerate(graph.equations):
        place = f"equation {i + 1} ({', '.join(f'v{n}' for n in equation.outputs)} = {equation.op.name})"
        operands = [type_of(o, place) for o in equation.inputs]
        if infer is not None:
            _compare(equation, infer(equation, operands), place)
        for number, type_ in zip(equation.outputs, equation.types, strict=True):
            if number in types:
                raise GraphError(f"{place} defines v{number} a second time")
            types[number] = type_
    for output in graph.outputs:
        type_of(output, "the return line")


def _compare(equation: Equation, found: tuple[Any, ...], place: str) -> None:
    if len(found) != len(equation.types):
        raise GraphError(f"{place} declares {len(equation.types)} results, the op gives {len(found)}")
    for declared, actual in zip(equation.types, found, strict=True):
        if declared != actual:
            raise GraphError(f"{place} declares {declared!r}, the op gives {actual!r}")
