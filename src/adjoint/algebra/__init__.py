"""Scalar expressions as terms in canonical form: the algebra behind `adjoint.expression`."""
