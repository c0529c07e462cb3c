"""From graphs to graphs: derivatives and batches of a program that is written down, and from them those of loops and branches.

`build.py` writes a function on values down; `jvp.py`, `vjp.py` and `vmap.py` run a graph under an interpreter of `trace/` while
doing so. `scan.py`, `while_loop.py`, `cond.py` and `checkpoint.py` supply the rules of the ops in `ops/control.py`.
"""

from . import checkpoint, cond, scan, while_loop
from .jvp import jvp
from .vjp import vjp
from .vmap import vmap

__all__ = ["checkpoint", "cond", "jvp", "scan", "vjp", "vmap", "while_loop"]
