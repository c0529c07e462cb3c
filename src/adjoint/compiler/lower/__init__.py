"""Lowering: from a graph to loop nests over buffers. Decides which operations share a loop, and where each array is stored."""
