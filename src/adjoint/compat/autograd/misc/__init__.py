"""flatten, optimizers, fixed points."""

from .flatten import flatten, flatten_func
from .tracers import const_graph

__all__ = ["const_graph", "flatten", "flatten_func"]
