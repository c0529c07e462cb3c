"""Symbolic scalar expressions: terms in canonical form, behind `ad.symbolic`."""
