"""Traced values, and the plain values below them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.bind import Traced, unwrap_fresh
from ...core.types import dtype_of, shape_of

Box = Traced


def isbox(x: Any) -> bool:
    """Whether x is traced."""
    return isinstance(unwrap_fresh(x), Traced)


def getval(x: Any) -> Any:
    """The plain value of x, below all transforms. Its derivative is lost: for printing, checks and branches."""
    while isinstance(x, Traced):
        x = x.by.concrete(x, "the plain value of")
    return x


def stands_for(x: Any) -> Any:
    """Some value of the type that x stands for."""
    while isinstance(x, Traced):
        x = x.underlying if x.by.has_numbers else np.zeros(shape_of(x), dtype_of(x))[()]
    return x


# Programs read `x._value` to print, as they would in autograd. It is asked for by name, so nothing is lost silently.
Traced._value = property(lambda self: self.underlying if self.by.has_numbers else self.by.concrete(self, "the plain value of"))  # type: ignore[attr-defined]
