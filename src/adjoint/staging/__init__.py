"""Interpreters that write down: a function becomes a graph, with guards for what it depends on."""
