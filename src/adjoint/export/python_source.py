"""A function and its derivatives as a Python module that needs only NumPy."""

from __future__ import annotations

import os
from typing import Any

from ..core.errors import boundary
from ..view.python import module
from .program import parts, write


@boundary
def python(
    f: Any, *args: Any, path: str | os.PathLike[str] | None = None, derivatives: Any = (), argnums: Any = 0, **kwargs: Any
) -> str:
    """The source of f, and of the derivatives asked for, as Python functions of flat arrays; written to `path` if it is given.

    Results are those of the graph for arguments that are finite and do not overflow: a product in which an exact zero wins over
    an infinity is written only where a factor can be infinite for finite arguments. `ad.graph(f)(x).python()` keeps all of them.
    """
    found = parts(f, args, kwargs, derivatives=derivatives, argnums=argnums)
    return write(path, module([(part.graph, part.output_names) for part in found], readable=True))


__all__ = ["python"]
