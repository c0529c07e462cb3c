"""logsumexp, at its location in older versions of SciPy."""

from .special import logsumexp

__all__ = ["logsumexp"]
