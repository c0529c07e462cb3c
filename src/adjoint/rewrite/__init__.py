"""From a graph to a better graph with the same results: `simplify/` applies named rules, `loops/` finds and shortens loops.

`pipeline.py` lists the passes that a staged graph goes through before it is compiled.
"""
