"""Simplification: all rules and all passes.

g = 5 + x·y, ∂g/∂x:     v2 = mul x, y; v3 = add 5, v2; v4 = strong_mul 1.0, y; return v4     becomes     return y
"""

from __future__ import annotations

from collections import Counter
from typing import TypeVar

from ...core.errors import ArgumentError
from ...ir.edit import dead_code, map_bodies, renumber
from ...ir.graph import Graph
from .rewriter import Rewriter, RuleIndex
from .rules import FINAL, RULES

G = TypeVar("G", bound=Graph)

_INDEX, _FINAL, _NO_RULES = RuleIndex(RULES), RuleIndex([*RULES, *FINAL]), RuleIndex(())


def simplify(graph: G, assume: str | None = None, final: bool = False) -> tuple[G, Counter[str]]:
    """A smaller graph of the same values, and how often each rule was applied.

    By default the values stay what they are, with infinities, nan and signed zeros, up to the last bits in the rules that
    `rules.py` marks "rounding". With `assume="finite"`, every value that the program computes is taken to be finite.
    A `final` graph is not differentiated any more.
    """
    if assume not in (None, "finite"):
        raise ArgumentError(f'assume is None or "finite", not {assume!r}')
    inner: Counter[str] = Counter()
    rewriter = Rewriter(map_bodies(graph, lambda body: _body(body, assume, final, inner)), _FINAL if final else _INDEX, assume)
    rewritten = rewriter.run()
    smaller = dead_code(rewritten)
    counts = rewriter.counts
    if len(smaller) < len(rewritten):
        counts["dead-code"] = len(rewritten) - len(smaller)
    return renumber(smaller), counts + inner  # type: ignore[return-value]


def _body(body: Graph, assume: str | None, final: bool, counts: Counter[str]) -> Graph:
    """The body of a loop or a branch, simplified once, however often it occurs."""
    key = ("simplified", assume, final)
    if key not in body.derived:
        smaller, found = simplify(body, assume, final)
        counts.update(found)
        if smaller == body:
            smaller = body  # with all that is derived from it
        body.derived[key] = smaller.derived[key] = smaller
    return body.derived[key]  # type: ignore[no-any-return]


def common_subexpressions(graph: G) -> G:
    """With one equation for each distinct op, operands and parameters."""
    return renumber(Rewriter(graph, _NO_RULES, fold=False).run())  # type: ignore[return-value]


def constant_folding(graph: G) -> G:
    """With the results of ops on constants as constants; those that would be large are left to be computed."""
    return renumber(Rewriter(graph, _NO_RULES, share=False).run())  # type: ignore[return-value]
