"""Scalar expressions as terms in canonical form: the algebra behind `adjoint.algebra.expression`."""
