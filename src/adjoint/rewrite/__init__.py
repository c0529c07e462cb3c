"""Simplification: from a graph to a smaller graph of the same values.

`rules.py` is the table of rules, `pattern.py` the language they are written in, `rewriter.py` what applies them, `passes.py`
what else makes a graph smaller, `roll.py` what makes loops of equations that repeat, `shared.py` what loops
have in common, `sums.py` what takes sums out of loops.
"""

from .passes import common_subexpressions, constant_folding, dead_code, renumber
from .roll import Loop, Rolled, Unrolled, roll
from .shared import shared_turns
from .simplify import simplify
from .sums import sums_after_loops

__all__ = [
    "Loop",
    "Rolled",
    "Unrolled",
    "common_subexpressions",
    "constant_folding",
    "dead_code",
    "renumber",
    "roll",
    "shared_turns",
    "simplify",
    "sums_after_loops",
]
