"""Passes that are the rewriter with one of its parts alone."""

from __future__ import annotations

from typing import TypeVar

from ...ir.edit import renumber
from ...ir.graph import Graph
from .rewriter import Index, Rewriter

G = TypeVar("G", bound=Graph)

_NO_RULES = Index(())


def common_subexpressions(graph: G) -> G:
    """With one equation for each distinct op, operands and parameters."""
    return renumber(Rewriter(graph, _NO_RULES, fold=False).run())  # type: ignore[return-value]


def constant_folding(graph: G) -> G:
    """With the results of ops on constants as constants; those that would be large are left to be computed."""
    return renumber(Rewriter(graph, _NO_RULES, share=False).run())  # type: ignore[return-value]
