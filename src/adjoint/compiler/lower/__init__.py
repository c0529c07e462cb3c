"""From a graph to loop nests over memory: which operations share a loop, and where each array lives."""
