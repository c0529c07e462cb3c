"""A function and its derivatives as a Python module that needs only NumPy."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from ..core.boundary import boundary
from ..core.op import Op, Structured
from ..derive.products import for_finite_numbers
from ..ir.edit import bodies, dead_code, renumber
from ..ir.graph import Equation, Graph, Literal
from ..rewrite.pipeline import optimize
from ..source.running import fewest
from ..staging.stage import Stage
from ..view.finite import ordinary
from ..view.python import has_text, module
from .normal import EVERY, LanguageOps, Normal
from .program import Part, parts, write

G = TypeVar("G", bound=Graph)
_SHORTEST = 3  # iterations of a loop that stays one
_PYTHON = LanguageOps("Python with NumPy", EVERY, {})


@boundary
def python(
    f: Any,
    *args: Any,
    path: str | os.PathLike[str] | None = None,
    derivatives: Any = (),
    argnums: Any = 0,
    name: str | None = None,
    **kwargs: Any,
) -> str:
    """The source of f, and of the derivatives asked for, as Python functions of flat arrays; written to `path` if it is given.

    Results are those of the graph for arguments that are finite and do not overflow: a product in which an exact zero wins over
    an infinity is written only where a factor can be infinite for finite arguments. `ad.graph(f)(x).python()` keeps all of them.

    >>> from adjoint import export
    >>> print(export.python(lambda x: x * x + 1, 2.0))  # doctest: +ELLIPSIS
    import numpy as np
    ...
        y = x * x + 1  # ...
        return y
    """
    found = readable(f, args, kwargs, derivatives, argnums, name)
    return write(path, module([(part.graph, part.output_names) for part in found], readable=True))


def readable(
    f: Any, args: Sequence[Any], kwargs: dict[str, Any], derivatives: Any, argnums: Any, name: str | None = None
) -> list[Part]:
    """Parts for readable source: strong zeros are kept only where a factor can be infinite for finite arguments."""
    finite, short = for_finite_numbers.set(True), fewest.set(_SHORTEST)
    try:
        found = parts(f, args, kwargs, derivatives=derivatives, argnums=argnums, name=name, passes=False, source=True)
    finally:
        for_finite_numbers.reset(finite)
        fewest.reset(short)
    made = []
    for part in found:
        g = optimize(ordinary(part.graph)).graph
        written = written_out(g)
        g = g if written is g else optimize(written).graph
        made.append(replace(part, graph=replace(g, name=part.graph.name, input_names=part.graph.input_names)))
    return made


class _WrittenOut(Normal):
    """Records a graph in which the ops that are no function of NumPy or SciPy are written in others, if they can be."""

    __slots__ = ()

    def process(self, op: Op, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        if isinstance(op, Structured):
            return Stage.process(self, op, args, {**params, **{k: written_out(body) for k, body in bodies(params).items()}})
        if not has_text(op, params, [self._type(a) for a in args]):
            results = self.infer(op, [self.operand(a) for a in args], [self._type(a) for a in args], params)
            made = self._expanded(op, args, params, results)
            if made is not None:
                return made if op.many else made[0]
        return Stage.process(self, op, args, params)


def written_out(graph: G) -> G:
    """A graph whose ops without a text of their own are expanded where that is possible; the others are refused when written."""
    if next(without_text(graph), None) is None:
        return graph
    with _WrittenOut(_PYTHON) as stage:
        inside = [stage.input(name, t) for name, t in zip(graph.input_names, graph.input_types, strict=True)]
        made = stage.graph(graph.name, graph.run_flat(inside))
    return renumber(dead_code(replace(graph, equations=made.equations, outputs=made.outputs)))


def without_text(graph: Graph) -> Iterator[Equation]:
    """The equations that are written in other ops, or refused."""
    types = graph.types
    for e in graph.equations:
        given = [o.type if isinstance(o, Literal) else types[o] for o in e.inputs]
        if not has_text(e.op, e.params, given):
            yield e
        for body in bodies(e.params).values():
            yield from without_text(body)


__all__ = ["python", "readable", "without_text"]
