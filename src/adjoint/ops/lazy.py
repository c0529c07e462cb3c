"""SciPy's functions, loaded on their first call: `import adjoint` does not import SciPy."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from ..core.op import Elementwise, Opaque, case
from ..core.types import Value
from .declare import elementwise, opaque
from .elementwise import strong_mul


class Lazy:
    """A function of a module that is imported on the first call."""

    __slots__ = ("function", "module", "name")

    def __init__(self, module: str, name: str) -> None:
        self.module = module
        self.name = name
        self.function: Callable[..., Any] | None = None

    def __call__(self, *args: Any, **options: Any) -> Any:
        function = self.function
        if function is None:
            function = self.function = getattr(importlib.import_module(self.module), self.name)
        return function(*args, **options)

    def __repr__(self) -> str:
        return f"<{self.module}.{self.name}, loaded on first call>"


#: The ops that are a function of scipy.special of the same name.
SPECIAL: dict[str, Elementwise | Opaque] = {}


def special(name: str, partials: Callable[..., Any], **facts: Any) -> Elementwise:
    """An elementwise op that is a function of scipy.special."""
    facts["doc"] = f"scipy.special.{name}"
    op = elementwise(name, Lazy("scipy.special", name), partials, **facts)
    SPECIAL[name] = op
    return op


def special_many(name: str, slopes: Callable[..., tuple[Any, ...]], **facts: Any) -> Opaque:
    """A function of scipy.special of one argument with several results; `slopes(ys, x)` are their derivatives."""

    def jvp(ts: Any, ys: Any, x: Value) -> Any:
        return tuple(strong_mul(ts[0], p) for p in slopes(ys, x))

    def vjp(gs: Any, ys: Any, x: Value) -> Any:
        return (chained_sum(gs, slopes(ys, x)),)

    facts |= {"axes": (), "many": True, "cases": [case((3,)), case((2, 2)), case(())], "doc": f"scipy.special.{name}"}
    op = opaque(name, Lazy("scipy.special", name), jvp=jvp, vjp=vjp, **facts)
    SPECIAL[name] = op
    return op


def chained_sum(gs: Any, slopes: Any) -> Value:
    """Σ gᵢ·pᵢ over the results that have a cotangent."""
    terms = [strong_mul(g, p) for g, p in zip(gs, slopes, strict=True) if g is not None]
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total
