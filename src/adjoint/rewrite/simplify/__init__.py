"""Simplification: named rules, applied equation by equation, and the passes that need no algebra.

`rules.py` is the table of rules, `pattern.py` the language they are written in, `rewriter.py` what applies them,
`pipeline.py` the order of it all. Dead code and numbering are edits of any graph (`ir/edit.py`).
"""

from ...ir.edit import dead_code, renumber
from .pipeline import common_subexpressions, constant_folding, simplify

__all__ = ["common_subexpressions", "constant_folding", "dead_code", "renumber", "simplify"]
