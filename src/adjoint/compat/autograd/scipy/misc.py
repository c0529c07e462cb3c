"""logsumexp, where older versions of SciPy had it."""

from .special import logsumexp

__all__ = ["logsumexp"]
