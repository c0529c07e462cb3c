"""A function and its derivatives as a Python module that needs only NumPy."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ..core.errors import boundary
from ..derive.products import for_finite_numbers
from ..rewrite.pipeline import optimize
from ..view.finite import ordinary
from ..view.python import module
from .program import Part, parts, write


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
    token = for_finite_numbers.set(True)
    try:
        found = parts(f, args, kwargs, derivatives=derivatives, argnums=argnums, name=name, passes=False)
    finally:
        for_finite_numbers.reset(token)
    made = []
    for part in found:
        g = optimize(ordinary(part.graph)).graph
        made.append(replace(part, graph=replace(g, name=part.graph.name, input_names=part.graph.input_names)))
    return made


__all__ = ["python", "readable"]
