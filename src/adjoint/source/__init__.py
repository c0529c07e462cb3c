"""Source transformation: the loops and branches of a function become scans, while_loops and conds (`jit(f, source=True)`),
and those of adopted code under any `jit`.

`rewrite.py` rewrites the syntax tree so that loops and branches are calls, `running.py` is what they call, `staged.py` stages
them as ops, `notes.py` says what became of each.
"""

from .body import Recording
from .notes import lines, noting
from .running import ADOPTED_LOOPS, ALL, Scope, reaches_adopted, transformed
from .staged import in_body, in_graph, restrict

__all__ = [
    "ADOPTED_LOOPS",
    "ALL",
    "Recording",
    "Scope",
    "in_body",
    "in_graph",
    "lines",
    "noting",
    "reaches_adopted",
    "restrict",
    "transformed",
]
