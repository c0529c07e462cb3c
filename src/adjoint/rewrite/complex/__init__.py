"""Complex numbers as pairs of real ones, so that everything behind this pass knows real numbers only."""

from __future__ import annotations

from .split import has_complex, split_complex

__all__ = ["has_complex", "split_complex"]
