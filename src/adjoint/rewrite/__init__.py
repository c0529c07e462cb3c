"""From a graph to a better graph of the same results: `simplify/` by named rules, `loops/` by finding what repeats.

`pipeline.py` lists the passes that a staged graph goes through before it is compiled.
"""
