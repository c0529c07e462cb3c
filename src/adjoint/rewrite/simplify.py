"""Simplification: all rules and all passes.

g = 5 + x·y, ∂g/∂x:     v2 = mul x, y; v3 = add 5, v2; v4 = chain 1.0, y; return v4     becomes     return y
"""

from __future__ import annotations

from collections import Counter
from typing import TypeVar

from ..core.errors import ArgumentError
from ..ir.graph import Graph
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
    rewriter = Rewriter(graph, _INDEX, assume)
    rewritten = rewriter.run()
    smaller = dead_code(rewritten)
    counts = rewriter.counts
    if len(smaller) < len(rewritten):
        counts["dead-code"] = len(rewritten) - len(smaller)
    return renumber(smaller), counts  # type: ignore[return-value]
