"""Simplification: from a graph to a smaller graph of the same values.

`rules.py` is the table of rules, `pattern.py` the language they are written in, `rewriter.py` what applies them, `passes.py`
what else makes a graph smaller.
"""

from .passes import common_subexpressions, constant_folding, dead_code, renumber
from .simplify import simplify

__all__ = ["common_subexpressions", "constant_folding", "dead_code", "renumber", "simplify"]
