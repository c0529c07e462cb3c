"""Building graphs: a function on flat lists of values is staged and simplified; helpers for flags and lists of values."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from ..core.op import Constant
from ..core.types import Type, Value, is_inexact
from ..ir.edit import dependents, distinct
from ..ir.graph import Equation, Graph
from ..staging.stage import Stage

T = TypeVar("T")
Flags = tuple[bool, ...]
Named = list[tuple[str, Type]]


def build(name: str, inputs: Iterable[tuple[str, Type]], f: Callable[[list[Value]], Sequence[Value]]) -> Graph:
    """The simplified graph of f; inputs of the same name are renamed."""
    with Stage(name) as stage:
        inside: list[Value] = []
        for wanted, type_ in inputs:
            inside.append(stage.input(distinct(wanted, stage.names), type_))
        graph = stage.graph(name, f(inside))
    return simplified(graph)


def parsed(text: str) -> Graph:
    from ..ir.text import parse  # for sample calls only

    return parse(text)


def simplified(graph: Graph) -> Graph:
    from ..rewrite.simplify import simplify  # heavy: the rules, which a program without loops and branches does not need

    return simplify(graph)[0]


def once(graph: Graph, key: Any, make: Callable[[], T]) -> T:
    """What is derived from a graph, computed on first use."""
    if key not in graph.derived:
        graph.derived[key] = make()
    return graph.derived[key]  # type: ignore[no-any-return]


def named(graph: Graph, places: Iterable[int], prefix: str = "") -> Named:
    """Names and types of inputs of a graph; of their tangents or cotangents with a prefix."""
    return [(prefix + graph.input_names[i], graph.input_types[i]) for i in places]


def places(flags: Iterable[bool], first: int = 0) -> list[int]:
    """Where the flags are set."""
    return [i for i, flag in enumerate(flags, first) if flag]


def chosen(values: Sequence[T], flags: Sequence[bool]) -> list[T]:
    return [v for v, flag in zip(values, flags, strict=True) if flag]


def spread(values: Iterable[T], flags: Sequence[bool]) -> list[T | None]:
    """The inverse of `chosen`: None where no flag is set."""
    rest = iter(values)
    return [next(rest) if flag else None for flag in flags]


def parts(values: Sequence[T], *sizes: int) -> list[list[T]]:
    """A list cut into pieces of given sizes, and the rest."""
    ends = list(itertools.accumulate(sizes))
    return [list(values[a:b]) for a, b in zip([0, *ends], [*ends, len(values)], strict=True)]


def halved(values: Sequence[T], masked: bool) -> tuple[list[T], list[T]]:
    """Cotangents and their masks, if they have any."""
    count = len(values) // 2 if masked else len(values)
    return list(values[:count]), list(values[count:])


def passes_derivative(equation: Equation, type_: Type) -> bool:
    """Whether a result of that type has a derivative by the operands of its equation."""
    return not isinstance(equation.op, Constant) and is_inexact(type_.dtype)


def reach(graph: Graph, flags: Sequence[bool]) -> Flags:
    """Which outputs may have a derivative by the flagged inputs."""
    active = dependents(graph.equations, places(flags), passes_derivative)
    return tuple(isinstance(o, int) and o in active for o in graph.outputs)


def depends(graph: Graph, flags: Sequence[bool]) -> Flags:
    """Which outputs are computed from the flagged inputs."""
    known = dependents(graph.equations, places(flags), lambda e, t: True)
    return tuple(isinstance(o, int) and o in known for o in graph.outputs)


def closed(flags: Sequence[bool], first: int, count: int, outputs: Callable[[Flags], Flags]) -> tuple[Flags, Flags]:
    """Flags of a body's inputs and outputs where `count` carries, from input `first` on, come back as the first outputs.

    A carry that is flagged after an iteration is flagged before the next one: repeated up to the fixed point.
    """
    current = tuple(flags)
    while True:
        found = outputs(current)
        carries = tuple(a or b for a, b in zip(current[first : first + count], found[:count], strict=True))
        grown = (*current[:first], *carries, *current[first + count :])
        if grown == current:
            return current, (*carries, *found[count:])
        current = grown
