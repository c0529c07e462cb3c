"""Simplification: all rules and all passes.

g = 5 + x·y, ∂g/∂x:     v2 = mul x, y; v3 = add 5, v2; v4 = strong_mul 1.0, y; return v4     becomes     return y
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TypeVar

from ...core.errors import ArgumentError
from ...ir.graph import Equation, Graph
from .passes import dead_code, renumber
from .rewriter import Index, Rewriter
from .rules import RULES

G = TypeVar("G", bound=Graph)

_INDEX = Index(RULES)


def simplify(graph: G, assume: str | None = None) -> tuple[G, Counter[str]]:
    """A smaller graph of the same values, and how often each rule was applied.

    By default the values stay what they are, with infinities, nan and signed zeros, up to the last bits in the rules that
    `rules.py` marks "rounding". With `assume="finite"`, every value that the program computes is taken to be finite.
    """
    if assume not in (None, "finite"):
        raise ArgumentError(f'assume is None or "finite", not {assume!r}')
    inner: Counter[str] = Counter()
    rewriter = Rewriter(_with_simplified_bodies(graph, assume, inner), _INDEX, assume)
    rewritten = rewriter.run()
    smaller = dead_code(rewritten)
    counts = rewriter.counts
    if len(smaller) < len(rewritten):
        counts["dead-code"] = len(rewritten) - len(smaller)
    return renumber(smaller), counts + inner  # type: ignore[return-value]


def _with_simplified_bodies(graph: G, assume: str | None, counts: Counter[str]) -> G:
    """The same graph, with the graphs that its equations hold simplified: each of them once, however often it is met."""
    equations: list[Equation] = []
    changed = False
    for e in graph.equations:
        simpler = {key: _body(value, assume, counts) for key, value in e.params.items() if isinstance(value, Graph)}
        equations.append(replace(e, params={**e.params, **simpler}) if simpler else e)
        changed = changed or bool(simpler)
    return replace(graph, equations=tuple(equations)) if changed else graph


def _body(body: Graph, assume: str | None, counts: Counter[str]) -> Graph:
    key = ("simplified", assume)
    if key not in body.derived:
        smaller, found = simplify(body, assume)
        counts.update(found)
        if smaller == body:
            smaller = body  # with all that is derived from it
        body.derived[key] = smaller.derived[key] = smaller
    return body.derived[key]  # type: ignore[no-any-return]
