"""autograd.scipy: special, linalg, stats, signal and integrate."""

from . import integrate, linalg, signal, special, stats

__all__ = ["integrate", "linalg", "signal", "special", "stats"]
