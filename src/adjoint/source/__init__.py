"""Source transformation: the loops and branches of a function become scans, while_loops and conds (`jit(f, source=True)`),
and those of adopted code under any `jit`.

`scope.py` says whose loops are meant. `rewrite.py` rewrites the syntax tree so that loops and branches are calls, `running.py` is
what they call, `staged.py` stages them as ops, `notes.py` says what became of each.
"""
