"""The fixed point of an iteration, differentiated by the implicit function theorem."""

from __future__ import annotations

from typing import Any

from .... import vjp
from ....core.tree import map_leaves
from ..extend import defvjp, primitive


@primitive
def fixed_point(f: Any, a: Any, x0: Any, distance: Any, tol: float) -> Any:
    """The x with f(a)(x) = x, reached from x0; stops when distance(x, previous) ≤ tol."""
    step = f(a)
    previous, x = x0, step(x0)
    while distance(x, previous) > tol:
        previous, x = x, step(x)
    return x


def _pull_back(ans: Any, f: Any, a: Any, x0: Any, distance: Any, tol: float) -> Any:
    """x = f(a)(x) gives w = g + (∂f/∂x)ᵀw, again a fixed point, and the cotangent (∂f/∂a)ᵀw of a."""

    # Everything is passed as an argument, nothing closed over, so that this can be differentiated again.
    def reverse(packed: Any) -> Any:
        a, x, g = packed
        _, pull = vjp(lambda x: f(a)(x), x)
        return lambda w: map_leaves(lambda p, q: p + q, g, pull(w)[0])

    def pull_back(g: Any) -> Any:
        w = fixed_point(reverse, (a, ans, g), g, distance, tol)
        return vjp(lambda a: f(a)(ans), a)[1](w)[0]

    return pull_back


defvjp(fixed_point, None, _pull_back, None)
