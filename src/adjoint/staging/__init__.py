"""Interpreters that record: a function becomes a graph, with guards for the numbers it depends on."""
