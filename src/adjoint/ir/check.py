"""Verify a graph: every value is defined once, before its use, with the type that the op gives."""

from __future__ import annotations

import functools
from collections.abc import Callable

from ..core.errors import AdjointError
from ..core.types import Type
from .graph import Equation, Graph, Literal, Operand

Infer = Callable[[Equation, list[Type]], tuple[Type, ...]]


class GraphError(AdjointError, ValueError):
    """A graph that breaks a rule; names the equation."""

    equation: Equation | None = None  # the innermost invalid one


def check(graph: Graph, infer: Infer | None = None) -> None:
    """Raise if the graph is invalid. With `infer`, the declared types are compared with those that the ops give."""
    types: dict[int, Type] = dict(enumerate(graph.input_types))
    if len(graph.input_names) != len(graph.input_types) or len(set(graph.input_names)) != len(graph.input_names):
        raise GraphError(f"the inputs of {graph.name!r} need distinct names, one for each type")

    def type_of(operand: Operand, place: Callable[[], str]) -> Type:
        if isinstance(operand, Literal):
            return operand.type
        if operand not in types:
            raise GraphError(f"{place()} uses v{operand}, which is not defined before it")
        return types[operand]

    def visit(equation: Equation, place: Callable[[], str]) -> None:
        operands = [type_of(o, place) for o in equation.inputs]
        for key, part in equation.params.items():
            if isinstance(part, Graph):
                _check_held(key, part, infer, place)
        if infer is not None:
            _compare(equation, _inferred(equation, operands, infer, place), place)
        if len(equation.outputs) != len(equation.types):
            raise GraphError(f"{place()} has {len(equation.outputs)} results and {len(equation.types)} types")
        for number, type_ in zip(equation.outputs, equation.types, strict=True):
            if number in types:
                raise GraphError(f"{place()} defines v{number} a second time")
            types[number] = type_

    for i, equation in enumerate(graph.equations):
        try:
            visit(equation, functools.partial(_place, i, equation))
        except GraphError as error:
            error.equation = error.equation or equation
            raise
    for output in graph.outputs:
        type_of(output, lambda: "the return line")


def _check_held(key: str, part: Graph, infer: Infer | None, place: Callable[[], str]) -> None:
    try:
        check(part, infer)
    except GraphError as error:
        outer = GraphError(f"in the graph {key!r} of {place()}: {error}")
        outer.equation = error.equation
        raise outer from error


def _place(i: int, equation: Equation) -> str:
    line = f", {equation.line}" if equation.line else ""
    return f"equation {i + 1} ({', '.join(f'v{n}' for n in equation.outputs)} = {equation.op.name}{line})"


def _inferred(equation: Equation, operands: list[Type], infer: Infer, place: Callable[[], str]) -> tuple[Type, ...]:
    arity = getattr(equation.op, "arity", None) or getattr(equation.op.impl, "nin", None)
    if arity is not None and len(operands) != arity:  # a ufunc would take one more as its out=
        raise GraphError(f"{place()} has {len(operands)} operands, the op takes {arity}")
    try:
        return infer(equation, operands)
    except Exception as error:
        shown = ", ".join(map(repr, operands))
        reason = str(error).removesuffix(f" ({error.line})") if isinstance(error, AdjointError) else str(error)
        raise GraphError(f"{place()} cannot take {shown}: {reason}") from error


def _compare(equation: Equation, found: tuple[Type, ...], place: Callable[[], str]) -> None:
    if len(found) != len(equation.types):
        raise GraphError(f"{place()} declares {len(equation.types)} results, the op gives {len(found)}")
    for declared, actual in zip(equation.types, found, strict=True):
        if declared != actual:
            raise GraphError(f"{place()} declares {declared!r}, the op gives {actual!r}")
