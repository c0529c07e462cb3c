"""Rows of whole numbers that differ by a constant: a loop reads one of them, and adds.

    u[i, j] = u[i - 1, j] + u[i, j + 1]        rows i − 1, i, j, j + 1        becomes        rows i, j, and i − 1, j + 1 computed

An addition is part of an address in machine code; a row is a load.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

import numpy as np

from ...ir.edit import cut, has_bodies, map_bodies, substitute, unused_number
from ...ir.graph import Equation, Graph, Literal, Operand
from ...ops.control import scan
from ...ops.elementwise import add

G = TypeVar("G", bound=Graph)


def share_offsets(graph: G) -> G:
    """The graph with one row for those that differ by a constant, in all its scans."""
    if not has_bodies(graph):
        return graph
    inner: G = map_bodies(graph, lambda body: share_offsets(body))
    equations = tuple(_shared(e) if e.op is scan else e for e in inner.equations)
    return replace(inner, equations=equations) if equations != inner.equations else inner


def _shared(e: Equation) -> Equation:
    body, first_row = e.params["body"], e.params["consts"] + e.params["carries"]
    base: dict[bytes, int] = {}  # by differences between rows: the operand that is kept
    replaced: dict[int, Operand] = {}
    made, number = [], unused_number(body)
    for n in range(first_row, len(e.inputs)):
        operand = e.inputs[n]
        if not isinstance(operand, Literal) or operand.type.ndim != 1 or operand.type.dtype != np.int64:
            continue
        values = np.asarray(operand.value)
        kept = base.setdefault((values - values[0]).tobytes(), n)
        if kept != n:
            apart = Literal(np.int64(values[0] - np.asarray(e.inputs[kept].value)[0]))  # type: ignore[union-attr]
            made.append(Equation(add, (kept, apart), {}, (number,), (body.input_types[n],), e.line))
            replaced[n] = number
            number += 1
    if not replaced:
        return e
    inputs = [n for n in range(len(e.inputs)) if n not in replaced]
    longer = substitute(body, replaced)
    longer = replace(longer, equations=(*made, *longer.equations))
    return replace(e, inputs=tuple([e.inputs[n] for n in inputs]), params={**e.params, "body": cut(body.name, longer, inputs)})
