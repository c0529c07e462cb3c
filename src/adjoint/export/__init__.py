"""Graphs in other languages."""
