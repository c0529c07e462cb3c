"""The command line: `adjoint` and `python -m adjoint`."""
