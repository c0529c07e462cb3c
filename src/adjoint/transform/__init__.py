"""Transforms of graphs: jvp, vjp and vmap, and with them the rules of loops and branches.

`build.py` stages a function on values; `jvp.py`, `vjp.py` and `vmap.py` run a graph under an interpreter of `eager/` while it is
staged. `scan.py`, `while_loop.py`, `cond.py` and `checkpoint.py` supply the rules of the ops in `ops/control.py`.
"""

from . import checkpoint, cond, scan, while_loop
from .jvp import jvp
from .vjp import vjp
from .vmap import vmap

__all__ = ["checkpoint", "cond", "jvp", "scan", "vjp", "vmap", "while_loop"]
