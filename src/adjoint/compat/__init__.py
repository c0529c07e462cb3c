"""Other libraries' names and signatures, on top of adjoint: `adjoint.compat.autograd`."""
