"""Ops without machine code of their own, in terms of ops that have it.

    v2: bool[3] = told_apart g, w        →        the comparisons and reductions that it consists of

These are small functions beside decompositions: a call of NumPy costs more than the decomposition of a small matrix. They are
expanded after all derivatives were taken, so the derivatives are those of the op.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ..core.op import Op
from ..core.types import Type
from ..ir.columns import Columns
from ..ir.edit import map_bodies, renumber, substitute, unused_number
from ..ir.graph import Equation, Graph, Operand
from ..ops import determinant, gaps
from ..ops.shape import stack
from ..transform.build import build

Expansion = Callable[..., Any]


def _cofactor(a: Any) -> Any:
    """Determinants of what is left without a row and a column: polynomials, which need no inverse."""
    n = a.shape[-1]
    if n == 1:
        return np.ones(a.shape, a.dtype)
    element = [[a[..., i, j] for j in range(n)] for i in range(n)]
    others = [[k for k in range(n) if k != i] for i in range(n)]

    def minor(rows: list[int], columns: list[int]) -> Any:
        if len(rows) == 1:
            return element[rows[0]][columns[0]]
        first, *rest = rows  # common subexpressions are shared while staging
        terms = [element[first][c] * minor(rest, [k for k in columns if k != c]) for c in columns]
        return sum(terms[2::2], terms[0]) - sum(terms[3::2], terms[1])

    def signed(i: int, j: int) -> Any:
        return minor(others[i], others[j]) if (i + j) % 2 == 0 else -minor(others[i], others[j])

    axis = a.ndim - 2
    return stack(*(stack(*(signed(i, j) for j in range(n)), axis=axis) for i in range(n)), axis=axis)


_MOST_ROWS = 4  # of a matrix whose cofactors are written out

EXPANSIONS: dict[Op, Expansion] = {
    **{
        op: op.impl
        for op in (
            gaps.negligible,
            gaps.splitting,
            gaps.gap_splitting,
            gaps.crowded,
            gaps.cancelled,
            gaps.told_apart,
            gaps.magnitude,
        )
    },
    determinant.cofactor: _cofactor,
}


def expand(graph: Graph) -> Graph:
    """The graph with these ops expanded, in the bodies of loops and branches too."""
    graph = map_bodies(graph, expand)
    if isinstance(graph.equations, Columns) and not any(kind.op in EXPANSIONS for kind in graph.equations.kinds):
        return graph
    if not any(_is_expanded(e) for e in graph.equations):
        return graph
    types, free = graph.types, unused_number(graph)
    equations: list[Equation] = []
    replaced: dict[int, Operand] = {}
    for e in graph.equations:
        if not _is_expanded(e):
            equations.append(e)
            continue
        given = [types[o] if isinstance(o, int) else o.strong().type for o in e.inputs]
        part = _part(e, given)
        known: dict[int, Operand] = dict(enumerate(o if isinstance(o, int) else o.strong() for o in e.inputs))
        for inner in part.equations:
            known.update({n: free + i for i, n in enumerate(inner.outputs)})
            inputs = tuple([known[o] if isinstance(o, int) else o for o in inner.inputs])
            outputs = tuple([free + i for i in range(len(inner.outputs))])
            equations.append(replace(inner, inputs=inputs, outputs=outputs, line=e.line))
            free += len(outputs)
        (result,) = part.outputs
        replaced[e.outputs[0]] = known[result] if isinstance(result, int) else result
    return renumber(substitute(replace(graph, equations=tuple(equations)), replaced))


def _is_expanded(e: Equation) -> bool:
    (type_,) = e.types if len(e.types) == 1 else (None,)
    if e.op not in EXPANSIONS or type_ is None or 0 in type_.shape or type_.dtype.kind == "c":
        return False
    return e.op is not determinant.cofactor or type_.shape[-1] <= _MOST_ROWS


def _part(e: Equation, types: list[Type]) -> Graph:
    def run(inputs: list[Any]) -> list[Any]:
        y = EXPANSIONS[e.op](*inputs, **e.params)
        return [y]

    part = build(e.op.name, [(f"x{i}", t) for i, t in enumerate(types)], run)
    assert len(part.outputs) == 1
    return part
