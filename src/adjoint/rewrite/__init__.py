"""From a graph to a better graph of the same values: `simplify/` by named rules, `loops/` by finding what repeats."""
