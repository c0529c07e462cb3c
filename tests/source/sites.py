"""Loops and branches for tests that stage them directly, without source."""

from __future__ import annotations

import adjoint as ad
from adjoint.source.rewrite import Site


def site(kind: str, *names: str, **facts) -> Site:
    """A site that assigns variables, all of which are read later."""
    every = frozenset(names)
    return Site(kind, "f.py:1", **{"assigned": every, "state": every, "after": every, **facts})


def inside(check):
    """Run a check on a number of a graph that is being staged."""

    def f(x):
        check(x)
        return x

    ad.graph(f)(1.0)


def ops_of(graph) -> list[str]:
    return [e.op.name for e in graph.equations]
