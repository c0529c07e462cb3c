"""Simplification: named rules, applied equation by equation, and the passes that need no algebra.

`rules.py` is the table of rules, `pattern.py` the language they are written in, `rewriter.py` what applies them, `passes.py` what
else makes a graph smaller, `pipeline.py` the order of it all.
"""

from ...ir.edit import dead_code, renumber
from .pipeline import common_subexpressions, constant_folding, simplify

__all__ = ["common_subexpressions", "constant_folding", "dead_code", "renumber", "simplify"]
