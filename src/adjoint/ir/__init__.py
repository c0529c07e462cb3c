"""The graph: a program as data. Imports only `core`."""
