"""A function and its derivatives as a Python module that needs only NumPy."""

from __future__ import annotations

import os
from typing import Any

from ..core.errors import boundary
from ..view.python import source
from .program import parts, write


@boundary
def python(
    f: Any, *args: Any, path: str | os.PathLike[str] | None = None, derivatives: Any = (), argnums: Any = 0, **kwargs: Any
) -> str:
    """The source of f, and of the derivatives asked for, as Python; written to `path` if it is given."""
    found = parts(f, args, kwargs, derivatives=derivatives, argnums=argnums)
    return write(path, "\n\n".join(source(part.graph) for part in found))


__all__ = ["python"]
