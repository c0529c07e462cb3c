"""A function as an ONNX model, with or without a file; without the package onnx, an error that says so."""

from __future__ import annotations

import os
from typing import Any

from ..core.boundary import boundary
from ..core.errors import ArgumentError, UnsupportedError
from ..ir.graph import Graph
from .program import file_named, parts


@boundary
def onnx(
    f: Any,
    *args: Any,
    path: str | os.PathLike[str] | None = None,
    derivatives: Any = (),
    argnums: Any = 0,
    name: str | None = None,
    batch: Any = None,
    **kwargs: Any,
) -> Any:
    """One ONNX model of f and of the derivatives asked for, checked by onnx; written to `path` if it is given.

    Inputs and outputs have the names of the exported program: `x`, `y`, `x_bar`. `batch` names the axis of each argument whose
    size is free, as `in_axes` of `vmap` does: a number for all, or one (or None) for each.

    >>> from adjoint import export
    >>> model = export.onnx(lambda x: x * x, 2.0, derivatives="gradient")
    >>> [output.name for output in model.graph.output]
    ['y', 'x_bar']
    """
    try:
        import onnx as library
    except ImportError:
        raise UnsupportedError("export.onnx needs the package onnx: pip install 'adjoint[onnx]'") from None
    from .onnx_batch import free  # these import the package too
    from .onnx_model import model

    if batch is None:
        made = model(parts(f, args, kwargs, derivatives=derivatives, argnums=argnums, name=name))
    elif isinstance(f, Graph):
        raise ArgumentError("a graph has fixed shapes; for free axes (batch=) export the function that it was staged from")
    else:
        made = free(lambda args: model(parts(f, args, kwargs, derivatives=derivatives, argnums=argnums, name=name)), args, batch)
    library.checker.check_model(made, full_check=True)
    if path is not None:
        library.save(made, file_named(path, "export.onnx"))
    return made


__all__ = ["onnx"]
